//! Kernels that need only be right: plain loops over slices and strides, generic in the element.

pub mod attention;
pub mod number;
pub mod place;
pub mod recurrent;
pub mod scan;
pub mod sort;
