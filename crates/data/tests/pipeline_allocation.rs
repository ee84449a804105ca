//! In steady state the pipeline allocates nothing, on any of its threads.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use synod_data::{
    augment::{Augment, Image},
    pipeline::{Arrays, Pipeline},
};

static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Set on the consumer's thread and by every worker's first row, so that neither the start of a thread nor the test
    /// harness is counted.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTED.try_with(Cell::get).unwrap_or(false) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
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

#[test]
fn epochs_after_the_first_allocate_nothing() {
    let data = Arc::new(Arrays::new(vec![1.0; 64 * 1000], 64).expect("rows"));
    let augment = Augment::images(8, 8, 1)
        .with(0.5, Image::Crop { padding: 2 })
        .expect("an op");
    let mut pipeline = Pipeline::over(data)
        .batch(30)
        .workers(2..=2)
        .depth(4..=4)
        .map(move |row| {
            COUNTED.set(true);
            augment.apply_to(row)
        })
        .start()
        .expect("started");
    // All buffers exist once the queue was full while the consumer held a batch.
    let held = pipeline.next_batch().expect("a batch");
    while pipeline.buffers_made() < 5 {
        std::thread::yield_now();
    }
    drop(held);
    let epoch = |pipeline: &mut Pipeline| {
        let mut rows = 0;
        while let Some(batch) = pipeline.next_batch().expect("a batch") {
            rows += batch.rows().len();
        }
        rows
    };
    for _ in 0..3 {
        epoch(&mut pipeline);
    }
    COUNTED.set(true);
    let before = COUNT.load(Ordering::Relaxed);
    for _ in 0..5 {
        assert_eq!(epoch(&mut pipeline), 1000);
    }
    assert!(before > 0, "workers are counted");
    assert_eq!(COUNT.load(Ordering::Relaxed) - before, 0);
}
