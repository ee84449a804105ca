//! The aligned block every tensor of a session lives in, and disjoint views into it.

use std::{
    alloc::{self, Layout},
    fmt,
    mem::MaybeUninit,
    ops::{Deref, DerefMut},
    ptr::{self, NonNull},
    slice,
};

const CACHE_LINE: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

/// A range of a [`Buffer`], in floats.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Index of the first float.
    pub start: usize,
    /// Number of floats.
    pub len: usize,
}

impl Span {
    fn end(self) -> usize {
        self.start.saturating_add(self.len)
    }

    /// Without branches: every view of every task is checked against the others.
    fn overlaps(self, other: Span) -> bool {
        (self.len != 0) & (other.len != 0) & (self.start < other.end()) & (other.start < self.end())
    }

    fn is_in(self, len: usize) -> bool {
        (self.start <= len) & (self.len <= len.wrapping_sub(self.start))
    }
}

/// An owned block of zero-initialised `f32`, aligned to a cache line, or to a huge page once it is that large.
pub struct Buffer {
    start: NonNull<f32>,
    len: usize,
}

// SAFETY: a `Buffer` owns its memory exclusively, like a `Box<[f32]>`.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The most spans of either kind that [`Buffer::split_many`] takes.
    pub const MAX_VIEWS: usize = 64;

    /// A buffer of `len` zeros.
    pub fn zeroed(len: usize) -> Buffer {
        if len == 0 {
            return Buffer {
                start: NonNull::dangling(),
                len,
            };
        }
        let layout = Buffer::layout(len);
        // SAFETY: the layout is not empty, and the block is written in full before it is read.
        unsafe {
            let Some(start) = NonNull::new(alloc::alloc(layout).cast::<f32>()) else {
                alloc::handle_alloc_error(layout)
            };
            // The advice must precede the first touch, which is what decides the size of the pages.
            if layout.align() >= HUGE_PAGE {
                advise_huge_pages(start.as_ptr().cast(), layout.size());
            }
            ptr::write_bytes(start.as_ptr(), 0, len);
            Buffer { start, len }
        }
    }

    /// Shared views of `reads` and exclusive views of `writes`. Reads may overlap each other.
    ///
    /// # Panics
    /// If a span is out of bounds, or a non-empty write overlaps any other span.
    #[inline]
    pub fn views<const R: usize, const W: usize>(
        &mut self,
        reads: [Span; R],
        writes: [Span; W],
    ) -> ([&[f32]; R], [&mut [f32]; W]) {
        self.check(&reads, &writes);
        let start = self.start.as_ptr();
        // SAFETY: the spans are in bounds and no write overlaps another view, all of which borrow from `self`.
        unsafe {
            (
                reads.map(|span| slice::from_raw_parts(start.add(span.start), span.len)),
                writes.map(|span| slice::from_raw_parts_mut(start.add(span.start), span.len)),
            )
        }
    }

    /// Calls `f` with views like those of [`Buffer::views`], for numbers of spans only known at run time.
    ///
    /// # Panics
    /// As [`Buffer::views`], and if there are more than [`Buffer::MAX_VIEWS`] reads or writes.
    #[expect(
        clippy::type_complexity,
        reason = "one use, and a name would hide the shape of the call"
    )]
    pub fn split_many<'a>(
        &'a mut self,
        reads: &[Span],
        writes: &[Span],
        f: &mut dyn FnMut(&[&[f32]], &mut [&mut [f32]]),
    ) {
        let fits = reads.len() <= Buffer::MAX_VIEWS && writes.len() <= Buffer::MAX_VIEWS;
        assert!(
            fits,
            "split_many: {} reads and {} writes, at most 64 each",
            reads.len(),
            writes.len()
        );
        self.check(reads, writes);
        let start = self.start.as_ptr();
        let mut shared = [const { MaybeUninit::<&'a [f32]>::uninit() }; Buffer::MAX_VIEWS];
        let mut exclusive = [const { MaybeUninit::<&'a mut [f32]>::uninit() }; Buffer::MAX_VIEWS];
        for (view, span) in shared.iter_mut().zip(reads) {
            // SAFETY: in bounds, and overlapped by no write.
            view.write(unsafe { slice::from_raw_parts(start.add(span.start), span.len) });
        }
        for (view, span) in exclusive.iter_mut().zip(writes) {
            // SAFETY: in bounds, and overlapped by no other view.
            view.write(unsafe { slice::from_raw_parts_mut(start.add(span.start), span.len) });
        }
        // SAFETY: as many views were written as there are spans.
        unsafe {
            let shared = slice::from_raw_parts(shared.as_ptr().cast(), reads.len());
            let exclusive = slice::from_raw_parts_mut(exclusive.as_mut_ptr().cast(), writes.len());
            f(shared, exclusive);
        }
    }

    #[inline(always)]
    fn check(&self, reads: &[Span], writes: &[Span]) {
        let mut fine = true;
        for span in reads {
            fine &= span.is_in(self.len);
        }
        for (i, write) in writes.iter().enumerate() {
            fine &= write.is_in(self.len);
            for other in reads {
                fine &= !write.overlaps(*other);
            }
            for other in &writes[..i] {
                fine &= !write.overlaps(*other);
            }
        }
        if !fine {
            self.refuse(reads, writes);
        }
    }

    /// Says which span is at fault.
    #[cold]
    #[inline(never)]
    fn refuse(&self, reads: &[Span], writes: &[Span]) -> ! {
        for span in reads.iter().chain(writes) {
            assert!(
                span.is_in(self.len),
                "{span:?} is out of bounds of a buffer of {} floats",
                self.len
            );
        }
        for (i, write) in writes.iter().enumerate() {
            for other in reads.iter().chain(&writes[..i]) {
                assert!(
                    !write.overlaps(*other),
                    "the written {write:?} overlaps {other:?}"
                );
            }
        }
        unreachable!("every span is in bounds and no write overlaps another")
    }

    fn layout(len: usize) -> Layout {
        let size = len * size_of::<f32>();
        let align = if size >= HUGE_PAGE { HUGE_PAGE } else { CACHE_LINE };
        Layout::from_size_align(size, align).expect("a buffer is smaller than the address space")
    }
}

/// Asks for huge pages, which spare a large model most of its TLB misses; a refusal costs only speed.
fn advise_huge_pages(start: *mut u8, size: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use std::ffi::{c_int, c_void};
        unsafe extern "C" {
            fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
        }
        const MADV_HUGEPAGE: c_int = 14;
        // SAFETY: the range was just allocated, and this advice does not change its contents.
        unsafe { madvise(start.cast(), size, MADV_HUGEPAGE) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, size);
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.len != 0 {
            // SAFETY: the block was allocated with this very layout.
            unsafe { alloc::dealloc(self.start.as_ptr().cast(), Buffer::layout(self.len)) }
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];

    #[inline]
    fn deref(&self) -> &[f32] {
        // SAFETY: `len` initialised floats, owned by `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: `len` initialised floats, owned by `self`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        let mut copy = Buffer::zeroed(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::zeroed(0)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, len: usize) -> Span {
        Span { start, len }
    }

    #[test]
    fn is_zeroed_and_aligned_at_every_size() {
        let lengths: &[usize] = if cfg!(miri) {
            &[0, 1, 17]
        } else {
            &[0, 1, 17, HUGE_PAGE / 4 - 1, HUGE_PAGE / 4 + 3]
        };
        for &len in lengths {
            let buffer = Buffer::zeroed(len);
            assert!(buffer.len() == len && buffer.iter().all(|&x| x == 0.0));
            let align = if len * 4 >= HUGE_PAGE {
                HUGE_PAGE
            } else {
                CACHE_LINE
            };
            assert!(len == 0 || (buffer.as_ptr() as usize).is_multiple_of(align));
        }
    }

    #[test]
    fn views_see_the_same_memory_and_reads_may_overlap() {
        let mut buffer = Buffer::zeroed(10);
        buffer[3] = 3.0;
        let ([a, b], [c, d]) = buffer.views([span(2, 3), span(3, 2)], [span(5, 5), span(3, 0)]);
        assert_eq!((a, b, d.len()), (&[0.0, 3.0, 0.0][..], &[3.0, 0.0][..], 0));
        c[0] = 7.0;
        assert_eq!(buffer.clone()[5], 7.0);
    }

    #[test]
    fn split_many_gives_as_many_views_as_spans() {
        let mut buffer = Buffer::zeroed(8);
        buffer.split_many(
            &[span(0, 4), span(1, 2)],
            &[span(4, 2), span(6, 2)],
            &mut |reads, writes| {
                assert_eq!((reads.len(), writes.len()), (2, 2));
                writes[1][1] = reads[0].len() as f32;
            },
        );
        assert_eq!(buffer[7], 4.0);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn a_write_may_not_overlap_a_read() {
        Buffer::zeroed(8).views([span(0, 4)], [span(3, 2)]);
    }

    #[test]
    #[should_panic(expected = "overlaps")]
    fn a_write_may_not_overlap_a_write() {
        Buffer::zeroed(8).views([], [span(0, 4), span(2, 1)]);
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn spans_must_be_in_bounds_even_if_their_end_overflows() {
        Buffer::zeroed(8).views([span(2, usize::MAX)], []);
    }
}
