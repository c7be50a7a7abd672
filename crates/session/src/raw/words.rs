//! Reading scratch, one number after the other.

use lanthorn_ir::layout::Dims;
use lanthorn_ir::ops::table::{Attribute, Kind};
use lanthorn_ir::{Error, Result};
use smallvec::SmallVec;

use super::{dtype_of, optional};
use crate::arena::Handle;
use crate::session::MAX_RANK;

/// Tags of attributes.
const NONE: f64 = 0.0;
const FLOAT: f64 = 1.0;
const INTEGER: f64 = 2.0;
const BOOL: f64 = 3.0;
const INTEGERS: f64 = 4.0;
const DTYPE: f64 = 5.0;
const WORD: f64 = 6.0;
const TEXT: f64 = 7.0;

/// What is left of scratch.
pub struct Words<'a> {
    call: &'a str,
    rest: &'a [f64],
}

impl<'a> Words<'a> {
    /// All of scratch, for the call that errors name.
    pub fn new(call: &'a str, scratch: &'a [f64]) -> Words<'a> {
        Words { call, rest: scratch }
    }

    fn error(&self, message: String) -> Error {
        Error::shape(self.call, message)
    }

    fn next(&mut self) -> Result<f64> {
        match self.rest {
            [first, rest @ ..] => {
                self.rest = rest;
                Ok(*first)
            }
            [] => Err(self.error("scratch ends within the arguments".into())),
        }
    }

    /// A list: its count and then its numbers, all of which are in scratch.
    pub fn list(&mut self, what: &str) -> Result<&'a [f64]> {
        let count = self.next()?;
        let whole = count as usize;
        if whole as f64 != count || whole > self.rest.len() {
            let room = self.rest.len();
            return Err(self.error(format!("the number of {what} is {count}, expected at most {room}")));
        }
        let (list, rest) = self.rest.split_at(whole);
        self.rest = rest;
        Ok(list)
    }

    /// Handles, 0 for an optional tensor that is absent.
    pub fn optional_handles(&mut self) -> Result<SmallVec<[Option<Handle>; 4]>> {
        let mut handles = SmallVec::new();
        for &handle in self.list("tensors")? {
            handles.push(optional(handle)?);
        }
        Ok(handles)
    }

    /// Handles.
    pub fn handles(&mut self) -> Result<Vec<Handle>> {
        self.list("tensors")?.iter().map(|&handle| Handle::from_f64(handle)).collect()
    }

    /// A list of handles that is short as a rule.
    pub fn short_handles(&mut self) -> Result<SmallVec<[Handle; 4]>> {
        self.list("tensors")?.iter().map(|&handle| Handle::from_f64(handle)).collect()
    }

    /// Rank and sizes.
    pub fn sizes(&mut self) -> Result<Dims> {
        let sizes = self.list("sizes")?;
        if sizes.len() > MAX_RANK {
            return Err(self.error(format!("a tensor has at most {MAX_RANK} axes, not {}", sizes.len())));
        }
        let size = |size: f64| {
            let whole = size as usize;
            // Beyond 2^53 a number stands for several sizes.
            let is_exact = whole as f64 == size && size < 9_007_199_254_740_992.0;
            if is_exact { Ok(whole) } else { Err(self.error(format!("{size} is no size"))) }
        };
        sizes.iter().map(|&number| size(number)).collect()
    }

    /// One attribute: a tag and what it announces.
    pub fn attribute(&mut self, kind: Kind) -> Result<Attribute> {
        let tag = self.next()?;
        if tag == NONE {
            return Ok(Attribute::None);
        }
        if tag == FLOAT {
            return Ok(Attribute::Float(self.next()?));
        }
        if tag == INTEGER {
            let number = self.next()?;
            return self.integer(number).map(Attribute::Int);
        }
        if tag == BOOL {
            return match self.next()? {
                0.0 => Ok(Attribute::Bool(false)),
                1.0 => Ok(Attribute::Bool(true)),
                other => Err(self.error(format!("{other} is no bool, expected 0 or 1"))),
            };
        }
        if tag == INTEGERS {
            let list = self.list("integers")?;
            return list
                .iter()
                .map(|&number| self.integer(number))
                .collect::<Result<_>>()
                .map(Attribute::Ints);
        }
        if tag == DTYPE {
            let code = self.next()?;
            return dtype_of(self.call, code).map(Attribute::DType);
        }
        if tag == WORD {
            let place = self.next()?;
            let words = kind.words();
            return match words.get(place as usize) {
                Some(word) if place as usize as f64 == place => Ok(Attribute::Text((*word).into())),
                _ => Err(self.error(format!("there is no word {place}, expected one of {words:?} by place"))),
            };
        }
        if tag == TEXT {
            return self.text().map(Attribute::Text);
        }
        Err(self.error(format!("there is no tag {tag} of attributes")))
    }

    /// A text as the number of its bytes and the bytes, in UTF-8.
    fn text(&mut self) -> Result<String> {
        let numbers = self.list("bytes")?;
        let byte = |&number: &f64| {
            let byte = number as u8;
            if f64::from(byte) == number { Ok(byte) } else { Err(self.error(format!("{number} is no byte"))) }
        };
        let bytes = numbers.iter().map(byte).collect::<Result<Vec<u8>>>()?;
        String::from_utf8(bytes).map_err(|_| self.error("a text is not in UTF-8".into()))
    }

    /// A whole number; beyond 2^53 those that an `f64` holds, up to 64 bits.
    fn integer(&self, number: f64) -> Result<i64> {
        let whole = number as i64;
        if whole as f64 == number && number < 9_223_372_036_854_775_808.0 {
            return Ok(whole);
        }
        Err(self.error(format!("{number} is no integer of 64 bits")))
    }
}
