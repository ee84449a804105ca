//! Closed windows that wait in a file until their node is complete.

use std::{
    fs::{self, File},
    io::{BufWriter, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::error::{Error, Result};

/// A run of windows of one metric in the file: where it begins and how many windows and values it has.
#[derive(Copy, Clone, Debug)]
pub(super) struct Run {
    at: u64,
    windows: usize,
    values: usize,
}

/// A scratch file, removed when it is no longer needed. Nothing in it is meant to survive the program.
pub(super) struct Spill {
    path: PathBuf,
    file: File,
    end: u64,
    /// Windows that may wait in memory.
    pub(super) limit: usize,
}

impl Spill {
    pub(super) fn create(path: &Path, limit: usize) -> Result<Spill> {
        let file = File::options().create_new(true).read(true).write(true).open(path);
        Ok(Spill {
            path: path.to_path_buf(),
            file: file.map_err(io("create the scratch file", path))?,
            end: 0,
            limit,
        })
    }

    /// Writes runs of window starts and values, and gives the place of each to `placed`.
    pub(super) fn write<'a>(
        &mut self,
        runs: impl Iterator<Item = (&'a mut Vec<i64>, &'a mut Vec<f32>, &'a mut Vec<Run>)>,
    ) -> Result<()> {
        let wrong = |e| io("write the scratch file", &self.path)(e);
        self.file.seek(SeekFrom::Start(self.end)).map_err(wrong)?;
        let mut out = BufWriter::with_capacity(1 << 20, &self.file);
        for (starts, values, placed) in runs {
            for start in starts.iter() {
                out.write_all(&start.to_le_bytes()).map_err(wrong)?;
            }
            for value in values.iter() {
                out.write_all(&value.to_le_bytes()).map_err(wrong)?;
            }
            placed.push(Run {
                at: self.end,
                windows: starts.len(),
                values: values.len(),
            });
            self.end += (starts.len() * 8 + values.len() * 4) as u64;
            // Their room is given back, so that what waits is what is counted.
            (*starts, *values) = (Vec::new(), Vec::new());
        }
        out.flush().map_err(wrong)
    }

    /// Appends a run's windows to what is there.
    pub(super) fn read(&mut self, run: Run, starts: &mut Vec<i64>, values: &mut Vec<f32>) -> Result<()> {
        let mut bytes = vec![0; run.windows * 8 + run.values * 4];
        let read = self
            .file
            .seek(SeekFrom::Start(run.at))
            .and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(io("read the scratch file", &self.path))?;
        let (first, second) = bytes.split_at(run.windows * 8);
        let whole = first.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b));
        starts.extend(whole);
        values.extend(second.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
        Ok(())
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| synod_data::Error::Io { doing, path, source }.into()
}
