//! Command line, pinning, data, timing and the JSON line, alike for all rivals.

use std::time::Instant;

pub const WIDTHS: [usize; 10] = [460, 80, 60, 40, 20, 40, 60, 80, 100, 460];
pub const ROWS: usize = 10_120;
pub const LEARNING_RATE: f64 = 1e-4;
pub const ALPHA: f64 = 0.9;
pub const EPSILON: f64 = 1e-7;
/// RMSE of the data's mean is 0.289, of an output of zeros 0.577.
const LEARNED: f32 = 0.35;
const SAMPLE_SECONDS: f64 = 0.5;

pub struct Args {
    pub workload: String,
    pub mode: String,
    pub threads: usize,
    pub batch: usize,
    pub reps: usize,
    pub shape: Vec<usize>,
}

impl Args {
    pub fn parse() -> Self {
        let mut words = std::env::args().skip(1);
        let workload = words.next().expect("WORKLOAD is the first argument");
        let batch = if workload == "autoencoder-inference" {
            1
        } else {
            10
        };
        let mut args = Args {
            workload,
            mode: String::new(),
            threads: 1,
            batch,
            reps: 5,
            shape: vec![],
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
            let number = |text: String| {
                text.parse()
                    .unwrap_or_else(|_| panic!("{text:?} is not a number"))
            };
            match word.as_str() {
                "--mode" => args.mode = value(),
                "--threads" => args.threads = number(value()),
                "--batch" => args.batch = number(value()),
                "--reps" => args.reps = number(value()),
                _ => args.shape.push(number(word)),
            }
        }
        assert!(
            args.workload != "gemm" || args.shape.len() == 3,
            "gemm needs M N K"
        );
        args
    }

    /// Holds the process to `threads` of the cores it may use, and the thread pools to as many threads.
    pub fn pin(&self) {
        // SAFETY: no other thread exists yet, and a zeroed cpu_set_t is an empty set.
        unsafe {
            std::env::set_var("RAYON_NUM_THREADS", self.threads.to_string());
            let size = size_of::<libc::cpu_set_t>();
            let (mut allowed, mut chosen): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
            libc::sched_getaffinity(0, size, &mut allowed);
            (0..libc::CPU_SETSIZE as usize)
                .filter(|&cpu| libc::CPU_ISSET(cpu, &allowed))
                .take(self.threads)
                .for_each(|cpu| libc::CPU_SET(cpu, &mut chosen));
            libc::sched_setaffinity(0, size, &chosen);
        }
    }
}

/// A small deterministic generator: the quality of the numbers does not matter here.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }

    pub fn vector(&mut self, length: usize) -> Vec<f32> {
        (0..length).map(|_| self.uniform()).collect()
    }

    /// He-uniform weights of a layer, `[inputs, outputs]` row-major.
    pub fn weights(&mut self, inputs: usize, outputs: usize) -> Vec<f32> {
        let bound = (6.0 / inputs as f32).sqrt();
        (0..inputs * outputs)
            .map(|_| (2.0 * self.uniform() - 1.0) * bound)
            .collect()
    }
}

/// The rows of the data set, dealt out in shuffled batches.
pub struct Rows {
    data: Vec<f32>,
    order: Vec<usize>,
    random: Random,
}

impl Rows {
    pub fn new() -> Self {
        let mut random = Random::new(1);
        Rows {
            data: random.vector(ROWS * WIDTHS[0]),
            order: (0..ROWS).collect(),
            random,
        }
    }

    pub fn shuffle(&mut self) {
        for i in (1..ROWS).rev() {
            self.order.swap(i, (self.random.next() % (i as u64 + 1)) as usize);
        }
    }

    pub fn batches(&self, size: usize) -> impl Iterator<Item = Vec<f32>> {
        let width = WIDTHS[0];
        self.order.chunks_exact(size).map(move |rows| {
            rows.iter()
                .flat_map(|row| &self.data[row * width..(row + 1) * width])
                .copied()
                .collect()
        })
    }

    pub fn first(&self, count: usize) -> Vec<f32> {
        self.data[..count * WIDTHS[0]].to_vec()
    }
}

/// What to time.
pub enum Work {
    /// Trains one epoch and returns the last loss.
    Epoch(Box<dyn FnMut() -> f32>),
    /// One short operation over `samples` samples or `flops` floating-point operations.
    Call {
        call: Box<dyn FnMut()>,
        samples: Option<f64>,
        flops: Option<f64>,
    },
}

pub struct Times {
    seconds: Vec<f64>,
    samples: Option<f64>,
    flops: Option<f64>,
}

impl Work {
    pub fn measure(self, args: &Args) -> Times {
        let time = |f: &mut dyn FnMut(), count: usize| {
            let start = Instant::now();
            (0..count).for_each(|_| f());
            start.elapsed().as_secs_f64() / count as f64
        };
        match self {
            Work::Epoch(mut epoch) => {
                epoch();
                epoch();
                let mut loss = 0.0;
                let seconds = (0..args.reps).map(|_| time(&mut || loss = epoch(), 1)).collect();
                assert!(loss < LEARNED, "did not learn: loss {loss}");
                Times {
                    seconds,
                    samples: Some((ROWS / args.batch * args.batch) as f64),
                    flops: None,
                }
            }
            Work::Call {
                mut call,
                samples,
                flops,
            } => {
                time(&mut call, 5);
                let count = ((SAMPLE_SECONDS / time(&mut call, 3)) as usize).max(3);
                Times {
                    seconds: (0..args.reps).map(|_| time(&mut call, count)).collect(),
                    samples,
                    flops,
                }
            }
        }
    }
}

impl Times {
    pub fn json(&self, args: &Args, peer: &str, mode: &str) -> String {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let median = (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0;
        let number = |value: Option<f64>| value.map_or("null".to_string(), |v| v.to_string());
        format!(
            r#"{{"workload":"{}","peer":"{peer}","mode":"{mode}","version":"{}","threads":{},"seconds":{:?},"median":{median},"samples_per_second":{},"gflops":{}}}"#,
            args.workload,
            locked_version(peer),
            args.threads,
            self.seconds,
            number(self.samples.map(|samples| samples / median)),
            number(self.flops.map(|flops| flops / median / 1e9)),
        )
    }
}

fn locked_version(peer: &str) -> &'static str {
    let package = if peer == "candle" { "candle-core" } else { peer };
    let lock = include_str!("../Cargo.lock");
    let entry = lock
        .split(&format!("name = \"{package}\"\nversion = \""))
        .nth(1)
        .expect("every rival is locked");
    entry.split('"').next().expect("split yields at least one part")
}
