//! Ids and targets of any integer dtype.

use lanthorn_error::{Error, ErrorKind, Result};

/// A vector of integers.
#[derive(Clone, Copy, Debug)]
pub enum Indices<'a> {
    I64(&'a [i64]),
    I32(&'a [i32]),
    I16(&'a [i16]),
    I8(&'a [i8]),
    U64(&'a [u64]),
    U32(&'a [u32]),
    U16(&'a [u16]),
    U8(&'a [u8]),
}

macro_rules! each {
    ($indices:expr, $values:ident => $body:expr) => {
        match $indices {
            Indices::I64($values) => $body,
            Indices::I32($values) => $body,
            Indices::I16($values) => $body,
            Indices::I8($values) => $body,
            Indices::U64($values) => $body,
            Indices::U32($values) => $body,
            Indices::U16($values) => $body,
            Indices::U8($values) => $body,
        }
    };
}

impl Indices<'_> {
    pub fn len(&self) -> usize {
        each!(self, values => values.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a position, which is below the length.
    #[inline]
    pub fn value(&self, at: usize) -> i128 {
        each!(self, values => i128::from(values[at]))
    }

    /// An error that names the first value outside of `0..limit` that is not `ignore`. `what` says what a value
    /// is, such as `target`.
    pub(crate) fn check(&self, op: &str, what: &str, limit: usize, ignore: Option<i64>) -> Result<()> {
        let ignore = ignore.map(i128::from);
        let limit = limit as i128;
        let fault = each!(self, values => values.iter().map(|value| i128::from(*value)).enumerate().find(
            |(_, value)| !(0..limit).contains(value) && Some(*value) != ignore
        ));
        match fault {
            None => Ok(()),
            Some((at, value)) => {
                let ignored =
                    ignore.map(|value| format!(" or {value}, which is ignored")).unwrap_or_default();
                Err(Error::new(
                    ErrorKind::Execute,
                    op,
                    format!("{what} {value} at position {at} is out of range, expected 0..{limit}{ignored}"),
                ))
            }
        }
    }
}
