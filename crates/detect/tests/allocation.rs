//! A window that is pushed allocates nothing once the scorer is warm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use synod_core::{Frame, Random};
use synod_detect::{AlarmBudget, Calibrator, Monitor, NodeModel, Recipe};

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A node whose metrics follow a few causes; the first is a counter.
fn rows(metrics: usize, count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::from_state(seed);
    let mut values = vec![];
    for t in 0..count {
        let causes: [f32; 5] = std::array::from_fn(|_| random.uniform() as f32 - 0.5);
        values.extend((0..metrics).map(|m| match m {
            0 => t as f32 * 2.0 + causes[0],
            m => causes[m % 5] + 0.3 * random.uniform() as f32,
        }));
    }
    values
}

fn model(name: &str, metrics: usize, detrend: Option<i64>) -> Arc<NodeModel> {
    let names = (0..metrics).map(|m| format!("m{m}")).collect();
    let times = (0..300).map(|t| 900 * t).collect();
    let frame = Frame::new("n", 900, times, names, rows(metrics, 300, 1)).expect("a frame");
    let mut recipe = Recipe::named(name, 1).expect("a recipe");
    recipe.features.detrend = detrend;
    recipe.set_epochs(1);
    Arc::new(NodeModel::fit(&frame, &recipe).expect("a model"))
}

fn monitor(model: &Arc<NodeModel>) -> Monitor {
    let policy = Calibrator::new(model.reference(), AlarmBudget::default(), model.step());
    Monitor::new("n", model.clone(), policy)
}

#[test]
fn a_push_allocates_nothing_once_warm() {
    let metrics = 40;
    for (name, detrend) in [
        ("default", None),
        ("default", Some(20 * 900)),
        ("pca", None),
        ("autoencoder", None),
        ("lstm-autoencoder", None),
    ] {
        let model = model(name, metrics, detrend);
        let mut monitor = monitor(&model);
        let windows = rows(metrics, 4000, 2);
        let (mut allocated, mut changes) = (0, 0);
        for (t, row) in windows.chunks_exact(metrics).enumerate() {
            let at = 900 * (300 + t as i64);
            let before = COUNT.with(Cell::get);
            let (_, change) = monitor.push(at, row).expect("in order");
            // The list of how the node has been of late is full after 2,880 windows. An alarm is told in words.
            if t > 3000 && change.is_none() {
                allocated += COUNT.with(Cell::get) - before;
            }
            changes += usize::from(change.is_some());
        }
        assert_eq!(allocated, 0, "{name} {detrend:?}, {changes} changes of alarms");
    }
    let before = COUNT.with(Cell::get);
    drop(vec![1u8; 10]);
    assert_eq!(COUNT.with(Cell::get) - before, 1, "the counter does count");
}

#[test]
fn the_state_of_a_node_is_bounded() {
    let metrics = 460;
    let model = model("default", metrics, None);
    let mut monitor = monitor(&model);
    let windows = rows(metrics, 64, 2);
    let mut push = |from: usize, to: usize| {
        for t in from..to {
            let row = &windows[t % 64 * metrics..][..metrics];
            monitor.push(900 * (300 + t as i64), row).expect("in order");
        }
        monitor.save().expect("stored").len()
    };
    let (first, later, much_later) = (push(0, 100), push(100, 3200), push(3200, 9000));
    eprintln!(
        "a node of {metrics} metrics: {first} bytes after 100 windows, {later} after 3,200, {much_later} after 9,000"
    );
    // Thirty bytes per metric, eleven windows of six bytes per metric, 2,880 and 960 scores.
    let most = metrics * 30 + 11 * metrics * 6 + 4 * (2880 + 960) + 2000;
    assert!(
        later <= most && much_later <= most,
        "{later} {much_later} of {most}"
    );
}
