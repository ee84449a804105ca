//! Batches between workers and consumer: finished in any order, handed out in theirs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{
    batch::Buffer,
    tune::{Effort, Limits, PERIOD, Seen, TuningEvent, decide},
};
use crate::error::Error;

/// What a place in the output holds.
pub(super) enum Item {
    Batch {
        buffer: Buffer,
        epoch: u64,
        index: u64,
    },
    EndOfEpoch {
        next: u64,
    },
    Failed {
        error: Error,
        epoch: u64,
        index: u64,
    },
    /// Nothing comes any more.
    Finished,
}

/// A bounded window of places, its condition variables, and the pool of buffers.
pub(super) struct Queue {
    state: Mutex<State>,
    /// The next place in order was filled.
    ready: Condvar,
    /// There is room for work, or the number of workers changed.
    room: Condvar,
    limits: Limits,
}

struct State {
    /// Places claimed by workers, and places handed to the consumer, counted from the start.
    claimed: u64,
    taken: u64,
    /// Place `p` is kept at `p % places.len()`.
    places: Vec<Option<Item>>,
    filled: usize,
    effort: Effort,
    seen: Seen,
    free: Vec<Buffer>,
    buffers_made: usize,
    stopped: bool,
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Queue {
        let effort = Effort {
            workers: *limits.workers.start(),
            depth: *limits.depth.start(),
        };
        Queue {
            state: Mutex::new(State {
                claimed: 0,
                taken: 0,
                places: (0..*limits.depth.end()).map(|_| None).collect(),
                filled: 0,
                effort,
                seen: Seen::default(),
                // The consumer may hold a few batches on top of those in the queue.
                free: Vec::with_capacity(*limits.depth.end() + 4),
                buffers_made: 0,
                stopped: false,
            }),
            ready: Condvar::new(),
            room: Condvar::new(),
            limits,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics halfway through a change, so a poisoned state is still a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until worker `id` is wanted; false if all is over.
    pub(super) fn admit(&self, id: usize) -> bool {
        let mut state = self.lock();
        while !state.stopped && id >= state.effort.workers {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.stopped
    }

    /// Waits until there is room for another batch and takes its place; none if all is over.
    pub(super) fn claim(&self) -> Option<u64> {
        let mut state = self.lock();
        while !state.stopped && state.claimed - state.taken >= state.effort.depth as u64 {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let place = state.claimed;
        state.claimed += 1;
        (!state.stopped).then_some(place)
    }

    /// A buffer that was used before, or a new one.
    pub(super) fn buffer(&self) -> Buffer {
        let mut state = self.lock();
        state.free.pop().unwrap_or_else(|| {
            state.buffers_made += 1;
            Buffer::default()
        })
    }

    /// Fills a claimed place.
    pub(super) fn put(&self, place: u64, item: Item) {
        let mut state = self.lock();
        let slot = (place % state.places.len() as u64) as usize;
        state.places[slot] = Some(item);
        state.filled += 1;
        if place == state.taken {
            self.ready.notify_one();
        }
    }

    /// Waits for the next place in order and takes what it holds. The event is a decision taken on the way.
    pub(super) fn take(&self) -> (Item, Option<TuningEvent>) {
        let mut state = self.lock();
        state.seen.batches += 1;
        state.seen.ready += state.filled as u64;
        let slot = (state.taken % state.places.len() as u64) as usize;
        state.seen.waits += u32::from(state.places[slot].is_none());
        let item = loop {
            if let Some(item) = state.places[slot].take() {
                break item;
            }
            if state.stopped {
                return (Item::Finished, None);
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        state.taken += 1;
        state.filled -= 1;
        let event = state.tune(&self.limits);
        // Workers above the wanted number also wait here, and one of them alone might be woken in vain.
        self.room.notify_all();
        (item, event)
    }

    pub(super) fn give_back(&self, buffer: Buffer) {
        let mut state = self.lock();
        if state.free.len() < state.free.capacity() {
            state.free.push(buffer);
        }
    }

    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.room.notify_all();
        self.ready.notify_all();
    }

    pub(super) fn buffers_made(&self) -> usize {
        self.lock().buffers_made
    }

    pub(super) fn effort(&self) -> Effort {
        self.lock().effort
    }
}

impl State {
    fn tune(&mut self, limits: &Limits) -> Option<TuningEvent> {
        if self.seen.batches < PERIOD {
            return None;
        }
        let seen = std::mem::take(&mut self.seen);
        let (effort, event) = decide(seen, self.effort, limits)?;
        self.effort = effort;
        Some(event)
    }
}
