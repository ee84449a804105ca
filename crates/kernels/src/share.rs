//! Sharing out independent work among threads.

use std::ops::Range;

use crate::workers::on_threads;

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
    on_threads(threads, &|index| {
        run(index * units / threads..(index + 1) * units / threads)
    });
}

/// Runs `run` once for every index below `threads`, each on a thread of its own and with `each` elements of the workspace
/// of its own. With one thread nothing is allocated.
pub(crate) fn on_threads_with<T: Send>(
    threads: usize,
    workspace: &mut [T],
    each: usize,
    run: impl Fn(usize, &mut [T]) + Sync,
) {
    let needed = threads * each;
    assert!(
        workspace.len() >= needed,
        "a workspace of {} elements, not {needed}",
        workspace.len()
    );
    let workspace = Shared::new(workspace);
    on_threads(threads, &|index| {
        // SAFETY: every index comes once, and its part lies inside the workspace.
        run(index, unsafe { workspace.part(index * each..(index + 1) * each) })
    });
}

/// A place in memory to which several threads write, each its own part.
pub(crate) struct Shared<T = f32>(*mut T);

impl<T> Copy for Shared<T> {}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        *self
    }
}

// SAFETY: whoever reads the pointer back vouches that the threads' parts are disjoint.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    pub(crate) fn null() -> Shared<T> {
        Shared(std::ptr::null_mut())
    }

    pub(crate) fn new(slice: &mut [T]) -> Shared<T> {
        Shared(slice.as_mut_ptr())
    }

    #[inline(always)]
    pub(crate) fn pointer(self) -> *mut T {
        self.0
    }

    /// A part of the slice.
    ///
    /// # Safety
    /// The slice is still borrowed, the part lies inside it, and nobody else uses it.
    pub(crate) unsafe fn part<'a>(self, range: Range<usize>) -> &'a mut [T] {
        // SAFETY: passed on from the caller.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}
