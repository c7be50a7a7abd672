//! The one suite of op tests.
