//! Threads that wait for work: to start one anew costs as much as a small convolution.
//!
//! A worker belongs to one caller at a time. It is hired, or started if none is free, given one index of a task, waited
//! for, and let go. Who waits looks for a while before falling asleep, for large ops follow one another closely.

use std::{
    any::Any,
    cell::UnsafeCell,
    hint,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
};

/// How often a thread looks before it falls asleep: some thirty microseconds.
const LOOKS: usize = 800;

/// Workers that nobody has hired.
static FREE: Mutex<Vec<Worker>> = Mutex::new(Vec::new());

/// Runs `run` once for every index below `threads`, each on a thread of its own, one of them on this one, and returns when
/// all are done. With one thread nothing is allocated. A panic on any of them is passed on.
pub(crate) fn on_threads(threads: usize, run: &(dyn Fn(usize) + Sync)) {
    if threads <= 1 {
        return run(0);
    }
    if cfg!(miri) {
        // Miri wants every thread to end before the program does.
        return thread::scope(|scope| {
            (1..threads).for_each(|index| drop(scope.spawn(move || run(index))));
            run(0);
        });
    }
    let mut hired = Hired(Vec::with_capacity(threads - 1));
    for index in 1..threads {
        let Some(worker) = hire() else { break };
        // SAFETY: the task is borrowed until the hired are waited for, here or where `hired` is dropped.
        unsafe { worker.start(run, index) };
        hired.0.push(worker);
    }
    run(0);
    // What no thread could be had for.
    (hired.0.len() + 1..threads).for_each(run);
    if let Some(panic) = hired.wait() {
        panic::resume_unwind(panic);
    }
}

/// A thread and the desk at which it takes its work.
struct Worker {
    desk: Arc<Desk>,
    thread: Thread,
}

/// What caller and worker exchange. Only the worker touches it while it is busy, only the caller while it is not.
struct Desk {
    is_busy: AtomicBool,
    work: UnsafeCell<Option<Work>>,
    panic: UnsafeCell<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `is_busy` says who of the two may touch the rest, and is written after and read before they do.
unsafe impl Sync for Desk {}
// SAFETY: a desk's contents may move between threads: work is a pointer to what is `Sync`, a panic is `Send`.
unsafe impl Send for Desk {}

struct Work {
    run: *const (dyn Fn(usize) + Sync),
    index: usize,
    caller: Thread,
}

/// A free worker, or a new one; none if the system gives no more threads.
fn hire() -> Option<Worker> {
    let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    free.or_else(|| {
        let desk = Arc::new(Desk {
            is_busy: AtomicBool::new(false),
            work: UnsafeCell::new(None),
            panic: UnsafeCell::new(None),
        });
        let own = desk.clone();
        let started = thread::Builder::new()
            .name("kernel".into())
            .spawn(move || own.serve());
        let thread = started.ok()?.thread().clone();
        Some(Worker { desk, thread })
    })
}

impl Worker {
    /// Gives the worker, which is not busy, an index of a task.
    ///
    /// # Safety
    /// The task lives until the worker has been waited for.
    unsafe fn start(&self, run: &(dyn Fn(usize) + Sync), index: usize) {
        // SAFETY: only the lifetime changes, and the caller vouches for it.
        let run: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(run) };
        let caller = thread::current();
        // SAFETY: the worker is not busy.
        unsafe { *self.desk.work.get() = Some(Work { run, index, caller }) };
        self.desk.is_busy.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Waits until the worker is done, and gives what it panicked with.
    fn wait(&self) -> Option<Box<dyn Any + Send>> {
        wait_until(|| !self.desk.is_busy.load(Ordering::Acquire));
        // SAFETY: the worker is not busy.
        unsafe { (*self.desk.panic.get()).take() }
    }
}

impl Desk {
    /// A worker's life.
    fn serve(&self) {
        loop {
            wait_until(|| self.is_busy.load(Ordering::Acquire));
            // SAFETY: the worker is busy, so that the desk is its own.
            let Some(work) = (unsafe { (*self.work.get()).take() }) else {
                continue;
            };
            // SAFETY: the task lives until this worker has been waited for.
            let task = AssertUnwindSafe(|| unsafe { (*work.run)(work.index) });
            let panic = panic::catch_unwind(task).err();
            // SAFETY: as above.
            unsafe { *self.panic.get() = panic };
            self.is_busy.store(false, Ordering::Release);
            work.caller.unpark();
        }
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        hint::spin_loop();
    }
    while !is_so() {
        thread::park();
    }
}

/// Workers under way. They are waited for even if the caller panics: what they work on is the caller's.
struct Hired(Vec<Worker>);

impl Hired {
    /// Waits for all, lets them go, and gives what one of them panicked with.
    fn wait(&mut self) -> Option<Box<dyn Any + Send>> {
        let panics = self.0.iter().map(Worker::wait);
        let panic = panics.fold(None, |first, panic| first.or(panic));
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.append(&mut self.0);
        panic
    }
}

impl Drop for Hired {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            self.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn every_index_runs_once_however_often_and_deep_threads_are_asked_for() {
        for threads in [1, 2, 5] {
            let counts: Vec<AtomicUsize> = (0..threads * 3).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..10 {
                on_threads(threads, &|i| {
                    on_threads(3, &|j| {
                        counts[3 * i + j].fetch_add(1, Ordering::Relaxed);
                    });
                });
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 10));
        }
    }

    #[test]
    fn a_panic_comes_through_and_the_workers_go_on() {
        for bad in 0..3 {
            let done = AtomicUsize::new(0);
            let caught = panic::catch_unwind(AssertUnwindSafe(|| {
                on_threads(3, &|index| {
                    assert!(index != bad, "index {bad}");
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }));
            let message = caught.unwrap_err().downcast::<String>().unwrap();
            assert_eq!(*message, format!("index {bad}"));
            assert_eq!(done.load(Ordering::Relaxed), 2, "the others were waited for");
        }
        on_threads(3, &|_| ());
    }
}
