//! Element types.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::float8::{F8E4M3, F8E5M2};

/// The type of one tensor element. The discriminant is the stable id used in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum DType {
    Bool = 0,
    U8 = 1,
    U16 = 2,
    U32 = 3,
    U64 = 4,
    I8 = 5,
    I16 = 6,
    I32 = 7,
    I64 = 8,
    F16 = 9,
    BF16 = 10,
    F32 = 11,
    F64 = 12,
    F8E4M3 = 13,
    F8E5M2 = 14,
    C64 = 15,
    C128 = 16,
}

impl DType {
    /// Every dtype, in the order of their ids.
    pub const ALL: [DType; 17] = [
        DType::Bool,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::C64,
        DType::C128,
    ];

    /// The stable number of the dtype, used in files and between processes.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The dtype of that number, if there is one.
    pub fn from_code(code: u8) -> Option<DType> {
        DType::ALL.get(usize::from(code)).copied()
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 | DType::F8E4M3 | DType::F8E5M2 => 1,
            DType::U16 | DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// True for real floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::F8E4M3 | DType::F8E5M2)
    }

    /// True for signed and unsigned integers, not for `bool`.
    pub const fn is_int(self) -> bool {
        matches!(
            self,
            DType::U8
                | DType::U16
                | DType::U32
                | DType::U64
                | DType::I8
                | DType::I16
                | DType::I32
                | DType::I64
        )
    }

    /// True for complex types.
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// True for an integer type that holds `value`.
    pub const fn holds(self, value: i64) -> bool {
        let (low, high) = match self {
            DType::U8 => (0, u8::MAX as i64),
            DType::U16 => (0, u16::MAX as i64),
            DType::U32 => (0, u32::MAX as i64),
            DType::U64 => (0, i64::MAX),
            DType::I8 => (i8::MIN as i64, i8::MAX as i64),
            DType::I16 => (i16::MIN as i64, i16::MAX as i64),
            DType::I32 => (i32::MIN as i64, i32::MAX as i64),
            DType::I64 => (i64::MIN, i64::MAX),
            _ => return false,
        };
        low <= value && value <= high
    }

    /// The type in which a kernel computes values of this type: `f32` for half and f8 types.
    pub const fn wide(self) -> DType {
        match self {
            DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => DType::F32,
            other => other,
        }
    }

    /// True for the 8-bit floats, which are stored, moved and converted but never computed in.
    pub const fn is_f8(self) -> bool {
        matches!(self, DType::F8E4M3 | DType::F8E5M2)
    }

    /// True for the dtypes in which sums and products exist: integers and the real floats that are not f8.
    pub const fn is_number(self) -> bool {
        self.is_int() || self.is_float() && !self.is_f8()
    }

    /// The dtype of the real and imaginary parts of a complex one.
    pub const fn part(self) -> Option<DType> {
        match self {
            DType::C64 => Some(DType::F32),
            DType::C128 => Some(DType::F64),
            _ => None,
        }
    }

    /// The complex dtype whose parts have this dtype.
    pub const fn complex(self) -> Option<DType> {
        match self {
            DType::F32 => Some(DType::C64),
            DType::F64 => Some(DType::C128),
            _ => None,
        }
    }

    /// The dtype of sums and products over elements: i64 for integers and `bool`, as in torch, else the same.
    pub const fn accumulated(self) -> DType {
        if self.is_int() || matches!(self, DType::Bool) { DType::I64 } else { self }
    }

    /// The dtype in which values of this one are added up where a rule has to: itself, and f32 for f8.
    pub const fn summed(self) -> DType {
        if self.is_f8() { DType::F32 } else { self }
    }

    /// `value` as a real float dtype holds it. Narrower dtypes than f32 are reached through f32, as in torch, so that
    /// every kernel rounds alike whatever it computes in. Any other dtype gives `value` back.
    pub fn round(self, value: f64) -> f64 {
        let single = value as f32;
        f64::from(match self {
            DType::F16 => half::f16::from_f32(single).to_f32(),
            DType::BF16 => half::bf16::from_f32(single).to_f32(),
            DType::F8E4M3 => F8E4M3::from_f32(single).to_f32(),
            DType::F8E5M2 => F8E5M2::from_f32(single).to_f32(),
            DType::F32 => single,
            _ => return value,
        })
    }

    /// The name used in printing, files and errors, such as `f32`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::C64 => "c64",
            DType::C128 => "c128",
        }
    }

    /// The dtype of that name, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_round_trip() {
        for (id, d) in DType::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(d.code()), id);
            assert_eq!(DType::from_code(d.code()), Some(d));
            assert_eq!(DType::from_name(d.name()), Some(d));
        }
        assert_eq!(DType::from_code(17), None);
    }
}
