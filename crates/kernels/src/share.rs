//! Sharing out independent work among threads.

use std::{ops::Range, thread};

/// Lengths of at most `most` that are as even as can be and add up to `all`.
#[inline(always)]
pub(crate) fn even_parts(all: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = all.div_ceil(most);
    (0..count).map(move |i| (i + 1) * all / count - i * all / count)
}

/// Cuts `0..units` into at most `threads` even ranges and runs each on a thread of its own, one of them on this one.
/// With one thread nothing is allocated.
pub(crate) fn share(threads: usize, units: usize, run: impl Fn(Range<usize>) + Sync) {
    let threads = threads.clamp(1, units.max(1));
    let part = |index: usize| index * units / threads..(index + 1) * units / threads;
    if threads == 1 {
        return run(part(0));
    }
    thread::scope(|scope| {
        let run = &run;
        for index in 1..threads {
            scope.spawn(move || run(part(index)));
        }
        run(part(0));
    });
}

/// A place in memory to which several threads write, each its own part.
#[derive(Copy, Clone)]
pub(crate) struct Shared(*mut f32);

// SAFETY: whoever reads the pointer back vouches that the threads' parts are disjoint.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    pub(crate) fn null() -> Shared {
        Shared(std::ptr::null_mut())
    }

    pub(crate) fn new(slice: &mut [f32]) -> Shared {
        Shared(slice.as_mut_ptr())
    }

    #[inline(always)]
    pub(crate) fn pointer(self) -> *mut f32 {
        self.0
    }
}
