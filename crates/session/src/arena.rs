//! Slots that are reused, with a generation each, so that a handle to what has gone is known as such.

use lanthorn_ir::{Error, ErrorKind, Result};

/// How many bits of a handle as a number are its place.
const PLACE_BITS: u32 = 26;
/// How many generations a place has; after the last it is not used again.
const GENERATIONS: u32 = 1 << 27;

/// Names an entry of an [`Arena`]: its place, and which entry of that place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Handle {
    place: u32,
    generation: u32,
}

impl Handle {
    /// The handle as a whole number from 1 to 2^53 - 1, exact in an `f64`.
    pub fn to_f64(self) -> f64 {
        ((u64::from(self.generation) << PLACE_BITS) | u64::from(self.place)) as f64
    }

    /// The handle of that number.
    ///
    /// Errors: a number that is no handle's.
    #[inline]
    pub fn from_f64(number: f64) -> Result<Handle> {
        // Signed, since that converts in one instruction each way; nothing negative has a generation.
        let bits = number as i64;
        let (place, generation) = ((bits & ((1 << PLACE_BITS) - 1)) as u32, bits >> PLACE_BITS);
        match u32::try_from(generation) {
            Ok(generation) if bits as f64 == number && (1..GENERATIONS).contains(&generation) => {
                Ok(Handle { place, generation })
            }
            _ => Err(no_handle(number)),
        }
    }
}

/// Entries by handle.
#[derive(Debug)]
pub struct Arena<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    live: usize,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { slots: Vec::new(), free: Vec::new(), live: 0 }
    }
}

impl<T> Arena<T> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.live
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Adds an entry.
    ///
    /// Errors: more entries than a handle can name.
    pub fn insert(&mut self, entry: T) -> Result<Handle> {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = self.slots.len() as u32;
                if place >= 1 << PLACE_BITS {
                    let message = format!("{} tensors are alive; release some", self.live);
                    return Err(Error::new(ErrorKind::OutOfMemory, "tensor", message));
                }
                self.slots.push(Slot { generation: 1, entry: None });
                place
            }
        };
        let slot = &mut self.slots[place as usize];
        slot.entry = Some(entry);
        self.live += 1;
        Ok(Handle { place, generation: slot.generation })
    }

    /// The entries with their handles.
    pub fn entries(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.slots.iter().zip(0..).filter_map(|(slot, place)| {
            let entry = slot.entry.as_ref()?;
            Some((Handle { place, generation: slot.generation }, entry))
        })
    }

    /// The entry of a handle, if it is there.
    pub fn find(&self, handle: Handle) -> Option<&T> {
        let slot = self.slots.get(handle.place as usize)?;
        if slot.generation == handle.generation { slot.entry.as_ref() } else { None }
    }

    /// The entry of a handle.
    ///
    /// Errors: a handle whose entry has been released.
    pub fn get(&self, handle: Handle) -> Result<&T> {
        self.find(handle).ok_or_else(stale)
    }

    /// [`Arena::get`], to be changed.
    pub fn get_mut(&mut self, handle: Handle) -> Result<&mut T> {
        let slot = self.slots.get_mut(handle.place as usize).ok_or_else(stale)?;
        if slot.generation == handle.generation {
            slot.entry.as_mut().ok_or_else(stale)
        } else {
            Err(stale())
        }
    }

    /// Takes an entry out; its handle is stale from now on.
    pub fn remove(&mut self, handle: Handle) -> Result<T> {
        let slot = self.slots.get_mut(handle.place as usize).ok_or_else(stale)?;
        if slot.generation != handle.generation {
            return Err(stale());
        }
        let entry = slot.entry.take().ok_or_else(stale)?;
        slot.generation += 1;
        if slot.generation < GENERATIONS {
            self.free.push(handle.place);
        }
        self.live -= 1;
        Ok(entry)
    }
}

#[cold]
fn no_handle(number: f64) -> Error {
    Error::new(ErrorKind::InvalidHandle, "handle", format!("{number} is no handle"))
}

#[cold]
fn stale() -> Error {
    Error::new(
        ErrorKind::InvalidHandle,
        "handle",
        "what the handle stood for has been released; it cannot be used again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_used_again_does_not_answer_to_the_old_handle() {
        let mut arena = Arena::default();
        let first = arena.insert("first").unwrap();
        assert_eq!(arena.remove(first).unwrap(), "first");
        let second = arena.insert("second").unwrap();
        assert_eq!((first.place, first.generation + 1), (second.place, second.generation));
        assert_eq!(arena.get(first).unwrap_err().kind, ErrorKind::InvalidHandle);
        assert!(arena.remove(first).is_err());
        assert_eq!((arena.get(second).unwrap(), arena.len()), (&"second", 1));
    }

    #[test]
    fn a_place_retires_with_its_last_generation() {
        let mut arena = Arena::default();
        let first = arena.insert(0).unwrap();
        arena.slots[0].generation = GENERATIONS - 1;
        let last = Handle { generation: GENERATIONS - 1, ..first };
        assert_eq!(Handle::from_f64(last.to_f64()).unwrap(), last);
        arena.remove(last).unwrap();
        assert_eq!(arena.insert(1).unwrap().place, 1);
    }

    #[test]
    fn numbers_that_are_no_handles_are_refused() {
        for number in [0.0, -1.0, 0.5, 1.0, f64::NAN, f64::INFINITY, 1e300, 9_007_199_254_740_992.0] {
            assert_eq!(Handle::from_f64(number).unwrap_err().kind, ErrorKind::InvalidHandle, "{number}");
        }
        let handle = Handle { place: 3, generation: 5 };
        assert_eq!(Handle::from_f64(handle.to_f64()).unwrap(), handle);
        assert!(Handle::from_f64(handle.to_f64() + 0.5).is_err());
    }
}
