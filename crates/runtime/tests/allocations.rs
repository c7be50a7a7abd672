//! An op that runs eagerly allocates its result and nothing else.
//!
//! A test alone in its process, since the allocator is the process's. The elements of a result are the pool's; what the
//! allocator sees of it is the one block that counts who holds them.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use lanthorn_ir::{Result, ops};
use lanthorn_runtime::{Device, Eager, EagerTensor};

/// The system's allocator, whose calls by this thread are counted.
struct Counting;

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is the system allocator's; only their number is noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more, and none that counts.
        let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Heap blocks of one call, once the op has run before.
fn blocks(op: impl Fn() -> Result<EagerTensor>) -> Vec<usize> {
    (0..3).for_each(|_| drop(op().unwrap()));
    let one = || {
        let before = CALLS.get();
        let result = op().unwrap();
        let blocks = CALLS.get() - before;
        drop(result);
        blocks
    };
    (0..5).map(|_| one()).collect()
}

#[test]
fn nothing_is_allocated_beyond_the_result() {
    let device = Device::new(Arc::new(lanthorn_cpu::CpuBackend));
    device.set_threads(1).unwrap();
    let eager = Eager::new(&device);
    let elements: Vec<f32> = (0..4096).map(|at| at as f32 / 4096.0).collect();
    let x = EagerTensor::from_slice(&device, &[64, 64], &elements).unwrap();
    let turned = ops::transpose(&eager, &x, 0, 1).unwrap();
    // The second is that of the memory in which a product packs its operands.
    assert_eq!(blocks(|| ops::matmul(&eager, &x, &x)), [2; 5], "matmul");
    for (name, found) in [
        ("add", blocks(|| ops::add(&eager, &x, &x))),
        ("add of a strided view", blocks(|| ops::add(&eager, &turned, &x))),
        ("softmax", blocks(|| ops::softmax(&eager, &x, -1))),
        ("gelu", blocks(|| ops::gelu(&eager, &x, Default::default()))),
    ] {
        assert_eq!(found, [1; 5], "{name}");
    }
    assert_eq!(blocks(|| ops::transpose(&eager, &x, 0, 1)), [0; 5], "a view");
}
