//! Shared values whose last handle goes without a locked instruction.
//!
//! [`Counted`] is what `Arc` is, less weak references: so a handle that finds itself the only one owns the value, and
//! may change it, put it away or drop it, at the price of a load. A [`Place`] is where one thread puts such a value away.
//! Locked instructions are a third of the cost of a small eager call, and most of those would be for this.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A handle to a value that lives as long as any.
pub(crate) struct Counted<T> {
    shared: NonNull<Shared<T>>,
    owns: PhantomData<Shared<T>>,
}

struct Shared<T> {
    handles: AtomicUsize,
    value: T,
}

// SAFETY: handles give `&T` to whoever has them, and the last one `T` itself, on any thread.
unsafe impl<T: Send + Sync> Send for Counted<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Counted<T> {}

impl<T> Counted<T> {
    pub fn new(value: T) -> Counted<T> {
        let shared = Box::new(Shared { handles: AtomicUsize::new(1), value });
        Counted { shared: NonNull::from(Box::leak(shared)), owns: PhantomData }
    }

    /// How many handles there are.
    pub fn handles(&self) -> usize {
        self.shared().handles.load(Ordering::Relaxed)
    }

    /// The value, if this is the only handle.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // Whatever was done through handles that have gone comes before.
        if self.shared().handles.load(Ordering::Acquire) != 1 {
            return None;
        }
        // SAFETY: there is no other handle, and nobody borrows this one.
        Some(unsafe { &mut self.shared.as_mut().value })
    }

    /// Gives the handle up; it comes back, now the only one, if it was the last.
    pub fn into_last(self) -> Option<Counted<T>> {
        let handles = &self.shared().handles;
        if handles.load(Ordering::Acquire) != 1 {
            if handles.fetch_sub(1, Ordering::AcqRel) != 1 {
                std::mem::forget(self);
                return None;
            }
            // The others went between the two.
            handles.store(1, Ordering::Relaxed);
        }
        Some(self)
    }

    /// True if both are handles to one value.
    pub fn is_same(&self, other: &Counted<T>) -> bool {
        self.shared == other.shared
    }

    /// Tells the value from every other that lives.
    pub fn address(&self) -> usize {
        self.shared.as_ptr() as usize
    }

    fn shared(&self) -> &Shared<T> {
        // SAFETY: it lives as long as a handle does.
        unsafe { self.shared.as_ref() }
    }
}

impl<T> Deref for Counted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.shared().value
    }
}

impl<T> Clone for Counted<T> {
    fn clone(&self) -> Counted<T> {
        // As in `Arc`: so many handles are a program that forgets them, and their number must not wrap.
        if self.shared().handles.fetch_add(1, Ordering::Relaxed) > isize::MAX as usize {
            std::process::abort();
        }
        Counted { shared: self.shared, owns: PhantomData }
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        let handles = &self.shared().handles;
        if handles.load(Ordering::Acquire) == 1 || handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: it came from a box, and this was the last handle.
            drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
        }
    }
}

/// Room for one value. One thread puts values there, any thread takes them.
pub(crate) struct Place<T> {
    held: AtomicPtr<Shared<T>>,
    owns: PhantomData<Counted<T>>,
}

impl<T> Default for Place<T> {
    fn default() -> Place<T> {
        Place { held: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }
}

impl<T> Place<T> {
    /// Whether nothing is there; for the thread that puts values there it stays so until it does.
    pub fn is_empty(&self) -> bool {
        self.held.load(Ordering::Relaxed).is_null()
    }

    /// Puts a value there if nothing is. Only ever the same thread does; where two do, a value may be lost and stay in
    /// memory for good.
    pub fn put(&self, value: Counted<T>) -> Result<(), Counted<T>> {
        if !self.held.load(Ordering::Relaxed).is_null() {
            return Err(value);
        }
        // Others only take, so it is still empty.
        self.held.store(value.shared.as_ptr(), Ordering::Release);
        std::mem::forget(value);
        Ok(())
    }

    /// Takes what is there.
    pub fn take(&self) -> Option<Counted<T>> {
        if self.held.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Two may take at once; one of them gets it.
        let shared = NonNull::new(self.held.swap(ptr::null_mut(), Ordering::Acquire))?;
        // SAFETY: `put` gave the handle to the place, which now gives it away.
        Some(Counted { shared, owns: PhantomData })
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_the_last_handle_owns_the_value() {
        let witness = Arc::new(());
        let mut first = Counted::new(witness.clone());
        assert!(first.get_mut().is_some());
        let second = first.clone();
        assert!(first.is_same(&second) && first.address() == second.address());
        assert_eq!((first.handles(), first.get_mut().is_some()), (2, false));
        assert!(second.into_last().is_none());
        let mut last = first.into_last().unwrap();
        assert!(last.get_mut().is_some());
        assert_eq!(Arc::strong_count(&witness), 2);
        drop(last);
        assert_eq!(Arc::strong_count(&witness), 1);
    }

    #[test]
    fn of_handles_that_go_at_once_one_is_the_last() {
        for _ in 0..if cfg!(miri) { 5 } else { 50 } {
            let witness = Arc::new(());
            let handle = Counted::new(std::sync::Mutex::new((0, witness.clone())));
            let last: usize = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3)
                    .map(|_| {
                        let handle = handle.clone();
                        scope.spawn(move || {
                            handle.lock().unwrap().0 += 1;
                            handle.into_last().is_some_and(|mut only| {
                                assert_eq!(only.get_mut().unwrap().get_mut().unwrap().0, 3);
                                true
                            })
                        })
                    })
                    .collect();
                drop(handle);
                threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
            });
            // The scope's own handle may have gone last.
            assert!(last <= 1);
            assert_eq!(Arc::strong_count(&witness), 1);
        }
    }

    #[test]
    fn a_place_holds_one_value_and_gives_it_to_one_taker() {
        let witness = Arc::new(());
        let place = Place::default();
        assert!(place.put(Counted::new(witness.clone())).is_ok());
        let refused = place.put(Counted::new(witness.clone())).unwrap_err();
        assert_eq!(Arc::strong_count(&witness), 3);
        drop(refused);
        for _ in 0..if cfg!(miri) { 5 } else { 50 } {
            let taken: usize = std::thread::scope(|scope| {
                let takers: Vec<_> =
                    (0..3).map(|_| scope.spawn(|| usize::from(place.take().is_some()))).collect();
                takers.into_iter().map(|taker| taker.join().unwrap()).sum()
            });
            assert_eq!(taken, 1);
            assert_eq!(Arc::strong_count(&witness), 1);
            assert!(place.put(Counted::new(witness.clone())).is_ok());
        }
        // What is there goes with the place.
        drop(place);
        assert_eq!(Arc::strong_count(&witness), 1);
    }
}
