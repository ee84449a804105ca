//! A training step allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use synod_nn::{Data, Loss, Optimizer, Trainer, zoo};

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

#[test]
fn steps_of_the_papers_autoencoder_allocate_nothing() -> synod_nn::Result<()> {
    let x: Vec<f32> = (0..60 * 460).map(|i| (i % 101) as f32 / 101.0).collect();
    let data = Data::itself(&x, 460);
    let rows: Vec<u32> = (0..60).collect();
    for batch in [10, 30] {
        for optimizer in [
            Optimizer::rmsprop(1e-4),
            Optimizer::adam(1e-4),
            Optimizer::sgd(1e-2),
        ] {
            let model = zoo::autoencoder(&zoo::PAPER, 1)?;
            let mut trainer = Trainer::new(&model, Loss::Rmse, optimizer, batch, true, 0)?;
            trainer.step(&data, &rows[..batch], 1e-4)?;
            let before = COUNT.with(Cell::get);
            for rows in rows.chunks_exact(batch) {
                trainer.step(&data, rows, 1e-4)?;
            }
            assert_eq!(COUNT.with(Cell::get) - before, 0, "batch {batch}, {optimizer:?}");
        }
    }
    // The counter does count.
    let before = COUNT.with(Cell::get);
    drop(vec![1u8; 10]);
    assert_eq!(COUNT.with(Cell::get) - before, 1);
    Ok(())
}
