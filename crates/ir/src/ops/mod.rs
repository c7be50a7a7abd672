//! Ops: plain functions over values that compose primitives; everything users call.
