//! Dispatch keys: which layers of the dispatcher a tensor's ops pass.
//!
//! A set is one word in upstream's order (`c10/core/DispatchKey.h`, 2.13): backends in the low bits, then
//! functionalities, the highest first in line. Only keys that something here sets are named; the others keep their
//! places.

use std::ops::BitOr;

/// How many backend components come before the functionalities: CPU to Meta.
const BACKENDS: u32 = 16;

/// A bit of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DispatchKey {
    /// Backend component `CPUBit`.
    CpuBit = 0,
    /// Backend component `MetaBit`.
    MetaBit = 15,
    /// Kernels over strided memory.
    Dense = BACKENDS,
    /// Version counters of in-place ops, and views' bases.
    ADInplaceOrView = BACKENDS + 18,
    /// The tape.
    AutogradFunctionality = BACKENDS + 20,
    /// Lower precision inside `autocast`.
    AutocastCpu = BACKENDS + 23,
}

/// A set of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DispatchKeySet(u64);

impl DispatchKeySet {
    /// The keys of an ordinary tensor in memory, or of one that has no memory.
    pub fn of(is_meta: bool) -> DispatchKeySet {
        let keys = DispatchKeySet::default()
            .with(DispatchKey::Dense)
            .with(DispatchKey::ADInplaceOrView)
            .with(DispatchKey::AutogradFunctionality);
        if is_meta {
            keys.with(DispatchKey::MetaBit)
        } else {
            keys.with(DispatchKey::CpuBit).with(DispatchKey::AutocastCpu)
        }
    }

    /// The set with a key.
    pub const fn with(self, key: DispatchKey) -> DispatchKeySet {
        DispatchKeySet(self.0 | 1 << key as u32)
    }

    /// The set without a key.
    pub const fn without(self, key: DispatchKey) -> DispatchKeySet {
        DispatchKeySet(self.0 & !(1 << key as u32))
    }

    /// True if the key is in the set.
    pub const fn has(self, key: DispatchKey) -> bool {
        self.0 & 1 << key as u32 != 0
    }

    /// The word.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

impl BitOr for DispatchKeySet {
    type Output = DispatchKeySet;
    fn bitor(self, other: DispatchKeySet) -> DispatchKeySet {
        DispatchKeySet(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_upstreams() {
        // `torch._C._dispatch_keys(x).raw_repr()` of 2.13 for a tensor on the CPU and on meta.
        assert_eq!(DispatchKeySet::of(false).bits(), 0x94_0001_0001);
        assert_eq!(DispatchKeySet::of(true).bits(), 0x14_0001_8000);
        let cpu = DispatchKeySet::of(false);
        let inference = cpu.without(DispatchKey::AutogradFunctionality);
        assert!(!inference.has(DispatchKey::AutogradFunctionality));
        assert_eq!((inference | cpu).bits(), cpu.bits());
    }
}
