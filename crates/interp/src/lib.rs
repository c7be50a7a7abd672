//! The reference backend: naive loops over the primitives with wide accumulators, for tests.
