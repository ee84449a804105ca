//! Work shared among threads, with results that do not show how.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};

/// Does some work for every index of a range on several threads, of which each takes the next index. The results are in
/// order. Panics if the work does.
pub fn in_order<T: Send>(indices: Range<usize>, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let done = try_in_order(indices, threads, |index| Ok::<T, Never>(work(index)));
    done.unwrap_or_else(|never| match never {})
}

enum Never {}

/// Like [`in_order`], but no more is begun once some work has failed. The error is that of the
/// lowest index whose work fails, whatever the threads.
pub fn try_in_order<T: Send, E: Send>(
    indices: Range<usize>,
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    if threads <= 1 {
        return indices.map(work).collect();
    }
    let next = AtomicUsize::new(indices.start);
    let one = || {
        let mut done = vec![];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= indices.end {
                return done;
            }
            let result = work(index);
            if result.is_err() {
                next.store(indices.end, Ordering::Relaxed);
            }
            done.push((index, result));
        }
    };
    let mut results = thread::scope(|scope| {
        let threads = threads.clamp(1, indices.len().max(1));
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(finished).collect::<Vec<_>>()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Does some work with every item, each on a thread of its own, and gives the results in order. The work is told which item
/// it has. A panic is an error, as of a thread that is joined.
pub fn each<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(usize, I) -> T + Sync,
) -> Vec<thread::Result<T>> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items
            .into_iter()
            .enumerate()
            .map(|(index, item)| scope.spawn(move || work(index, item)))
            .collect();
        threads.into_iter().map(ScopedJoinHandle::join).collect()
    })
}

fn finished<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_threads() {
        for threads in [0, 1, 3, 50] {
            let squares = in_order(3..20, threads, |i| i * i);
            assert_eq!(squares, (3..20).map(|i| i * i).collect::<Vec<_>>());
        }
        assert!(in_order(5..5, 2, |i| i).is_empty());
    }

    #[test]
    fn nothing_is_begun_after_a_failure() {
        let begun = AtomicUsize::new(0);
        let done = try_in_order(0..1000, 1, |i| {
            begun.fetch_add(1, Ordering::Relaxed);
            if i == 3 { Err(i) } else { Ok(i) }
        });
        assert_eq!((done, begun.into_inner()), (Err(3), 4));
    }

    #[test]
    fn of_several_failures_that_of_the_lowest_index_is_told() {
        let both = Barrier::new(2);
        let done: Result<Vec<()>, usize> = try_in_order(0..2, 2, |i| {
            both.wait();
            Err(i)
        });
        assert_eq!(done, Err(0));
    }

    #[test]
    fn all_items_are_worked_on_at_once_and_may_be_changed() {
        let (mut items, all) = ([1, 2, 3], Barrier::new(3));
        let sums = each(&mut items, |index, item| {
            all.wait();
            *item += 10;
            assert!(index != 1, "one is bad");
            index + *item
        });
        let sums: Vec<Option<usize>> = sums.into_iter().map(Result::ok).collect();
        assert_eq!((sums, items), (vec![Some(11), None, Some(15)], [11, 12, 13]));
    }

    #[test]
    fn a_panic_of_the_work_keeps_its_words() {
        let panic = std::panic::catch_unwind(|| in_order(0..4, 2, |i| assert!(i != 2, "two is bad")));
        let words = panic.expect_err("a panic");
        assert_eq!(words.downcast_ref::<&str>(), Some(&"two is bad"));
    }
}
