//! Handles go with the objects that held them.
//!
//! JavaScript tells of a collected object only between turns of the event loop (`FinalizationRegistry`). A loop that
//! trains without an `await` never gets there: the handles of its every step would pile up, and with them the graphs
//! and the memory that they hold. So each object is watched by a weak reference, which the garbage collector clears at
//! once, and the references are looked through ([`Lifetimes::sweep`]) whenever many handles are new or much memory has
//! come since the last time. The collector is told of the memory that objects stand for, or it would see no reason to
//! run: to it they are a few words each.

use std::ptr;

use napi_sys as sys;

use crate::value::{Env, Value};

/// What a handle costs beside the elements of its tensor: a node of the graph (400 bytes), the cell, the object, its
/// reference (together as much again), and the allocator's share. It decides how often a loop that makes handles has the
/// collector run: once in about 60,000 of them.
const BYTES_OF_A_HANDLE: i64 = 1024;

/// How many new handles make a sweep worth its while.
const FEW: usize = 4096;

/// How many bytes more than after the last sweep do so.
const MUCH: u64 = 32 << 20;

struct Watched {
    object: sys::napi_ref,
    handle: f64,
}

/// The objects of one environment that hold handles.
pub struct Lifetimes {
    watched: Vec<Watched>,
    /// Refers to an object that nobody holds: once that is gone, the collector has run since the last sweep. Null before
    /// the first.
    witness: sys::napi_ref,
    /// Handles that came since the last sweep.
    fresh: usize,
    /// Bytes of the engine's memory after the last sweep.
    settled: u64,
    /// What the collector has been told.
    reported: i64,
}

impl Default for Lifetimes {
    fn default() -> Lifetimes {
        Lifetimes { watched: Vec::new(), witness: ptr::null_mut(), fresh: 0, settled: 0, reported: 0 }
    }
}

impl Lifetimes {
    /// Watches the elements of the array `objects`, which hold `handles`.
    pub fn watch(&mut self, env: Env, objects: Value, handles: &[f64]) {
        self.watched.reserve(handles.len());
        env.scope(|| {
            for (at, &handle) in handles.iter().enumerate().filter(|(_, handle)| **handle != 0.0) {
                let (mut object, mut reference) = (ptr::null_mut(), ptr::null_mut());
                // SAFETY: values of this callback. A reference that was not made is not kept.
                let status = unsafe {
                    sys::napi_get_element(env.raw(), objects, at as u32, &mut object);
                    sys::napi_create_reference(env.raw(), object, 0, &mut reference)
                };
                if status == sys::Status::napi_ok {
                    self.watched.push(Watched { object: reference, handle });
                }
            }
        });
        self.fresh += handles.len();
    }

    /// True if a sweep is due, for an engine that holds `live` bytes.
    pub fn is_due(&self, env: Env, live: u64) -> bool {
        let is_many = self.fresh >= FEW.max(self.watched.len() / 2);
        (is_many || live > self.settled + MUCH.max(self.settled / 2)) && self.has_collected(env)
    }

    /// Whether the collector has run since the last sweep; until it has, there is nothing to find.
    fn has_collected(&self, env: Env) -> bool {
        if self.witness.is_null() {
            return true;
        }
        let mut object = ptr::null_mut();
        // Looking at a reference keeps its object alive until the scope ends.
        // SAFETY: the reference is ours until it is deleted.
        env.scope(|| unsafe { sys::napi_get_reference_value(env.raw(), self.witness, &mut object) });
        object.is_null()
    }

    /// Takes another object as the witness of the next collection, or none.
    fn renew(&mut self, env: Env, object: Option<Value>) {
        if !self.witness.is_null() {
            // SAFETY: the reference is ours, and is deleted once.
            unsafe { sys::napi_delete_reference(env.raw(), self.witness) };
            self.witness = ptr::null_mut();
        }
        if let Some(object) = object {
            // SAFETY: a value of this callback. Without a reference the next sweep does not wait for one.
            unsafe { sys::napi_create_reference(env.raw(), object, 0, &mut self.witness) };
        }
    }

    /// Releases by `release` the handles of objects that have been collected; gives how many those were.
    pub fn sweep(&mut self, env: Env, mut release: impl FnMut(f64)) -> usize {
        let before = self.watched.len();
        let mut at = 0;
        while at < self.watched.len() {
            // Looking at a reference keeps its object alive until the scope ends.
            env.scope(|| {
                let stop = (at + 256).min(self.watched.len());
                while at < stop.min(self.watched.len()) {
                    let mut object = ptr::null_mut();
                    // SAFETY: the reference is ours until it is deleted, which is done once.
                    let is_gone = unsafe {
                        sys::napi_get_reference_value(env.raw(), self.watched[at].object, &mut object);
                        if object.is_null() {
                            sys::napi_delete_reference(env.raw(), self.watched[at].object);
                        }
                        object.is_null()
                    };
                    if is_gone {
                        release(self.watched.swap_remove(at).handle);
                    } else {
                        at += 1;
                    }
                }
            });
        }
        self.fresh = 0;
        env.scope(|| self.renew(env, env.object().ok()));
        before - self.watched.len()
    }

    /// Watches nothing any more.
    pub fn clear(&mut self, env: Env) {
        for watched in std::mem::take(&mut self.watched) {
            // SAFETY: the reference is ours, and is deleted once.
            unsafe { sys::napi_delete_reference(env.raw(), watched.object) };
        }
        self.renew(env, None);
        (self.fresh, self.settled) = (0, 0);
        self.report(env, 0);
    }

    /// Tells the collector how much memory objects stand for, the engine's `live` bytes included.
    pub fn report(&mut self, env: Env, live: u64) {
        let held =
            self.watched.len() as i64 * BYTES_OF_A_HANDLE + i64::try_from(live).unwrap_or(i64::MAX / 2);
        let change = held - self.reported;
        // Each call may run a step of the collector.
        if change.abs() < 1 << 18 {
            return;
        }
        let mut adjusted = 0;
        // SAFETY: writes one number.
        unsafe { sys::napi_adjust_external_memory(env.raw(), change, &mut adjusted) };
        self.reported = held;
    }

    /// Notes how many bytes the engine holds after a sweep.
    pub fn settle(&mut self, live: u64) {
        self.settled = live;
    }
}
