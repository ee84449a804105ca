//! A training step allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use synod_engine::Tensor;
use synod_engine::ops::Slide;
use synod_nn::layers::{Activation, BatchNorm, Conv2d, LastStep, Layer, Lstm, MaxPool, Sequential};
use synod_nn::{Data, Loss, Model, Optimizer, Scope, Trainer, zoo};

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
fn training_steps_allocate_nothing() -> synod_nn::Result<()> {
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
    assert_eq!(steps_with_images_and_sequences()?, 0);
    // The counter does count.
    let before = COUNT.with(Cell::get);
    drop(vec![1u8; 10]);
    assert_eq!(COUNT.with(Cell::get) - before, 1);
    Ok(())
}

/// Allocations of two steps of a model with convolution, pooling, running estimates, and a loop with its tape.
fn steps_with_images_and_sequences() -> synod_nn::Result<usize> {
    let model = Model::build([4, 40, 1], 1, |setup| {
        let conv = setup.within("conv", |s| {
            Conv2d::new(s, 1, 3, [4, 3], Slide::by(1), Activation::Relu)
        });
        let norm = setup.within("norm", |s| BatchNorm::new(s, 3));
        let lstm = setup.within("lstm", |s| Lstm::new(s, 3, 5));
        let pool = MaxPool {
            kernel: [1, 2],
            slide: Slide::by(1),
        };
        let sequence = |_: &Scope, x: &Tensor| x.reshape([x.shape().dims()[0], 37, 3]);
        let layers: Vec<Box<dyn Layer>> = vec![
            Box::new(conv),
            Box::new(norm),
            Box::new(pool),
            Box::new(sequence),
            Box::new(lstm),
            Box::new(LastStep),
        ];
        Sequential(layers)
    })?;
    let x: Vec<f32> = (0..4 * 160).map(|i| (i % 37) as f32 / 37.0).collect();
    let data = Data::new(&x, 160, &[0.0, 1.0, 2.0, 3.0], 1);
    let mut trainer = Trainer::new(&model, Loss::CrossEntropy, Optimizer::adam(1e-3), 4, false, 0)?;
    let mut step = || trainer.step(&data, &[0, 1, 2, 3], 1e-3);
    step()?;
    let before = COUNT.with(Cell::get);
    step()?;
    step()?;
    Ok(COUNT.with(Cell::get) - before)
}
