//! Kernels that need only be right: plain loops over slices and strides, generic in the element.

pub mod recurrent;
