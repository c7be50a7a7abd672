//! State that each thread has for itself and that others may look at.
//!
//! A thread gets a number of its own when it first asks, and gives it back when it ends. So what [`PerThread::own`] gives
//! is written by one thread at a time: a counter there is counted up by a load and a store, and summed when somebody
//! asks. Threads beyond the first [`THREADS`] that live at once have none, and go the way that all share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// How many threads have state of their own at once.
const THREADS: usize = 64;

/// A value for each thread, made when the thread first asks for it. It stays for the next thread with the number.
pub(crate) struct PerThread<T> {
    each: [OnceLock<Box<T>>; THREADS],
}

impl<T> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread { each: [const { OnceLock::new() }; THREADS] }
    }
}

impl<T: Default> PerThread<T> {
    /// The calling thread's, if it is one of those that have some.
    #[inline]
    pub fn own(&self) -> Option<&T> {
        let own = self.each.get(number()?)?;
        Some(own.get_or_init(Box::default))
    }

    /// Everybody's.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.each.iter().filter_map(OnceLock::get).map(|each| &**each)
    }
}

/// A count that threads add to apart.
#[derive(Default)]
pub(crate) struct Count {
    own: PerThread<AtomicU64>,
    others: AtomicU64,
}

impl Count {
    #[inline]
    pub fn add(&self, more: u64) {
        match self.own.own() {
            // Nobody else writes it.
            Some(own) => own.store(own.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed),
            None => _ = self.others.fetch_add(more, Ordering::Relaxed),
        }
    }

    /// All that was added, by threads that have been waited for at least.
    pub fn sum(&self) -> u64 {
        let own = self.own.all().map(|own| own.load(Ordering::Relaxed));
        own.fold(self.others.load(Ordering::Relaxed), u64::wrapping_add)
    }
}

/// The numbers that no thread has: those given back, and all from `next` on.
struct Free {
    back: Vec<usize>,
    next: usize,
}

static FREE: Mutex<Free> = Mutex::new(Free { back: Vec::new(), next: 0 });

fn free() -> MutexGuard<'static, Free> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's number, given back when the thread ends.
struct Number(usize);

impl Number {
    fn claim() -> Number {
        let mut free = free();
        // The smallest: a thread that stays is not to have one of those beyond the first.
        free.back.sort_unstable_by(|a, b| b.cmp(a));
        Number(free.back.pop().unwrap_or_else(|| {
            free.next += 1;
            free.next - 1
        }))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        free().back.push(self.0);
    }
}

thread_local! {
    static NUMBER: Number = Number::claim();
}

/// The calling thread's number; `None` while the thread ends.
#[inline]
fn number() -> Option<usize> {
    NUMBER.try_with(|number| number.0).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// The tests take all numbers that there are, so that they run one after another.
    fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn threads_that_live_at_once_have_values_apart() {
        let _alone = alone();
        let values = PerThread::<AtomicU64>::default();
        let all_there = Barrier::new(4);
        let mut addresses: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let address = values.own().unwrap() as *const AtomicU64 as usize;
                        assert_eq!(values.own().unwrap() as *const AtomicU64 as usize, address);
                        all_there.wait();
                        address
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!((addresses.len(), values.all().count()), (4, 4));
    }

    #[test]
    fn a_count_is_exact_once_its_threads_have_ended() {
        let _alone = alone();
        let count = Count::default();
        let at_once = THREADS / 4 + 3;
        // Several generations: numbers are used again.
        for generation in 1..=3 {
            std::thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..at_once).map(|_| scope.spawn(|| (0..10).for_each(|_| count.add(2)))).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            });
            assert_eq!(count.sum(), generation * at_once as u64 * 20);
        }
    }

    #[test]
    fn threads_beyond_the_first_share_what_is_left() {
        let _alone = alone();
        let count = Count::default();
        let all_there = Barrier::new(THREADS + 2);
        std::thread::scope(|scope| {
            for _ in 0..THREADS + 2 {
                scope.spawn(|| {
                    count.add(1);
                    all_there.wait();
                });
            }
        });
        assert_eq!(count.sum(), THREADS as u64 + 2);
        assert!(count.others.load(Ordering::Relaxed) >= 2);
    }
}
