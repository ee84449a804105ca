//! Running a compiled program allocates nothing.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::catalogue::{self, RULES};
use common::{Rng, scalar_loss, to_f32, training};
use synod_engine::ops::Unary;
use synod_engine::{Graph, Options, Session, compile, value_and_grad};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counter needs no memory of its own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the third run.
fn allocations(graph: &Graph, args: &[Vec<f64>], options: &Options) -> u64 {
    let mut session = Session::new(compile(graph, options).unwrap().into());
    to_f32(args)
        .iter()
        .enumerate()
        .for_each(|(i, a)| session.param_mut(i).copy_from_slice(a));
    session.run();
    session.run();
    let before = COUNT.get();
    session.run();
    COUNT.get() - before
}

#[test]
fn the_counter_counts() {
    let before = COUNT.get();
    drop(std::hint::black_box(vec![1.0f32; 8]));
    assert_eq!(COUNT.get() - before, 1);
}

#[test]
fn a_training_step_allocates_nothing() {
    for rule in RULES {
        for rows in [1, 10, 40] {
            let step = training::step(&[12, 30, 5], rows, Unary::Sigmoid, rule, &mut Rng(1));
            for donate in [vec![], step.donate.clone()] {
                let count = allocations(
                    &step.graph,
                    &step.args,
                    &Options {
                        donate,
                        ..Options::default()
                    },
                );
                assert_eq!(count, 0, "{rule:?} on {rows} rows");
            }
        }
    }
}

#[test]
fn no_op_of_the_catalogue_allocates_nor_does_its_gradient() {
    for case in catalogue::all() {
        let loss = scalar_loss(&case.graph, &mut Rng(1));
        let all: Vec<usize> = (0..loss.params().len()).collect();
        let slopes = value_and_grad(&loss, &all).unwrap();
        for optimise in [false, true] {
            let options = Options {
                optimise,
                ..Options::default()
            };
            assert_eq!(allocations(&case.graph, &case.args, &options), 0, "{}", case.name);
            assert_eq!(
                allocations(&slopes, &case.args, &options),
                0,
                "gradient of {}",
                case.name
            );
        }
    }
}

#[test]
fn loops_with_tapes_allocate_nothing_once_warm_even_at_second_order() {
    for case in catalogue::all().into_iter().filter(|c| c.name.contains("while")) {
        let loss = scalar_loss(&case.graph, &mut Rng(1));
        let slopes = value_and_grad(&loss, &case.wrt).unwrap();
        let curves = value_and_grad(&scalar_loss(&slopes, &mut Rng(2)), &case.wrt).unwrap();
        assert_eq!(
            allocations(&curves, &case.args, &Options::default()),
            0,
            "{}",
            case.name
        );
    }
}
