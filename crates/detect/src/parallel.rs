//! Nodes shared among threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does some work for every index of a range on several threads; the results are in order.
pub fn in_order<T: Send>(
    indices: std::ops::Range<usize>,
    threads: usize,
    work: &(dyn Fn(usize) -> T + Sync),
) -> Vec<T> {
    if threads <= 1 {
        return indices.map(work).collect();
    }
    let next = AtomicUsize::new(indices.start);
    let results: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(indices.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, indices.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= indices.end {
                        break;
                    }
                    let result = work(index);
                    if let Ok(mut results) = results.lock() {
                        results.push((index, result));
                    }
                }
            });
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_order_whatever_the_threads() {
        for threads in [0, 1, 3, 50] {
            let squares = super::in_order(3..20, threads, &|i| i * i);
            assert_eq!(squares, (3..20).map(|i| i * i).collect::<Vec<_>>());
        }
        assert!(super::in_order(5..5, 2, &|i| i).is_empty());
    }
}
