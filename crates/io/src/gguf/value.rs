//! A value of the metadata, and how it stands in a file.

use super::cursor::Cursor;
use crate::error::{Refusal, refuse};

/// The number that stands for an array in files.
const ARRAY_ID: u32 = 9;

/// A value that a file can store for itself or in an array.
trait Stored: Sized {
    /// The fewest bytes that a value takes.
    const LEAST_BYTES: u64;

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Refusal>;

    fn write(&self, out: &mut Vec<u8>);
}

/// Declares [`Value`] and [`Array`] from one list: variant, type, number in files.
macro_rules! values {
    ($($(#[$doc:meta])* $variant:ident($type:ty) = $id:literal, $name:literal;)*) => {
        /// A value of the metadata.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Value {
            $($(#[$doc])* $variant($type),)*
            /// Values of one type. Arrays of arrays are refused: the format allows them, and neither does any file have
            /// them nor does llama.cpp read them.
            Array(Array),
        }

        /// Values of one type.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Array {
            $($(#[$doc])* $variant(Vec<$type>),)*
        }

        impl Value {
            /// The type's name: `u32`, `string`, `array of f32` ...
            pub fn kind(&self) -> String {
                match self {
                    $(Value::$variant(_) => $name.to_owned(),)*
                    Value::Array(array) => format!("array of {}", array.kind()),
                }
            }

            fn id(&self) -> u32 {
                match self {
                    $(Value::$variant(_) => $id,)*
                    Value::Array(_) => ARRAY_ID,
                }
            }

            fn read_as(id: u32, cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
                match id {
                    $($id => <$type as Stored>::read(cursor).map(Value::$variant),)*
                    ARRAY_ID => Array::read(cursor).map(Value::Array),
                    _ => refuse_type(id),
                }
            }

            fn write_content(&self, out: &mut Vec<u8>) {
                match self {
                    $(Value::$variant(value) => value.write(out),)*
                    Value::Array(array) => array.write(out),
                }
            }
        }

        impl Array {
            /// How many values there are.
            pub fn len(&self) -> usize {
                match self {
                    $(Array::$variant(values) => values.len(),)*
                }
            }

            /// The name of the values' type.
            pub const fn kind(&self) -> &'static str {
                match self {
                    $(Array::$variant(_) => $name,)*
                }
            }

            fn id(&self) -> u32 {
                match self {
                    $(Array::$variant(_) => $id,)*
                }
            }

            fn read_as(id: u32, count: u64, cursor: &mut Cursor<'_>) -> Result<Array, Refusal> {
                match id {
                    $($id => read_all(count, cursor).map(Array::$variant),)*
                    ARRAY_ID => refuse("it is an array of arrays", "arrays of plain values are read"),
                    _ => refuse_type(id),
                }
            }

            fn write(&self, out: &mut Vec<u8>) {
                self.id().write(out);
                (self.len() as u64).write(out);
                match self {
                    $(Array::$variant(values) => values.iter().for_each(|value| value.write(out)),)*
                }
            }
        }

        $(impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::$variant(value)
            }
        }

        impl From<Vec<$type>> for Value {
            fn from(values: Vec<$type>) -> Value {
                Value::Array(Array::$variant(values))
            }
        })*
    };
}

values! {
    /// An unsigned integer of 8 bits.
    U8(u8) = 0, "u8";
    /// A signed integer of 8 bits.
    I8(i8) = 1, "i8";
    /// An unsigned integer of 16 bits.
    U16(u16) = 2, "u16";
    /// A signed integer of 16 bits.
    I16(i16) = 3, "i16";
    /// An unsigned integer of 32 bits.
    U32(u32) = 4, "u32";
    /// A signed integer of 32 bits.
    I32(i32) = 5, "i32";
    /// A single-precision number.
    F32(f32) = 6, "f32";
    /// A truth value.
    Bool(bool) = 7, "bool";
    /// A UTF-8 text.
    String(String) = 8, "string";
    /// An unsigned integer of 64 bits.
    U64(u64) = 10, "u64";
    /// A signed integer of 64 bits.
    I64(i64) = 11, "i64";
    /// A double-precision number.
    F64(f64) = 12, "f64";
}

impl Value {
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Value, Refusal> {
        let id = cursor.u32()?;
        Value::read_as(id, cursor)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.id().write(out);
        self.write_content(out);
    }

    /// The value of an integer of any width.
    pub(super) fn integer(&self) -> Option<i128> {
        match *self {
            Value::U8(value) => Some(value.into()),
            Value::I8(value) => Some(value.into()),
            Value::U16(value) => Some(value.into()),
            Value::I16(value) => Some(value.into()),
            Value::U32(value) => Some(value.into()),
            Value::I32(value) => Some(value.into()),
            Value::U64(value) => Some(value.into()),
            Value::I64(value) => Some(value.into()),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl Array {
    /// True where there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Array, Refusal> {
        let id = cursor.u32()?;
        let count = cursor.u64()?;
        Array::read_as(id, count, cursor)
    }
}

fn refuse_type<T>(id: u32) -> Result<T, Refusal> {
    refuse(format!("the value's type is {id}"), "types go from 0 to 12")
}

fn read_all<T: Stored>(count: u64, cursor: &mut Cursor<'_>) -> Result<Vec<T>, Refusal> {
    cursor.check_count(count, T::LEAST_BYTES)?;
    // Fits: so many bytes at least are in memory.
    let mut values = Vec::with_capacity(count as usize);
    for _ in 0..count {
        values.push(T::read(cursor)?);
    }
    Ok(values)
}

macro_rules! stored_numbers {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            const LEAST_BYTES: u64 = size_of::<$type>() as u64;

            fn read(cursor: &mut Cursor<'_>) -> Result<$type, Refusal> {
                cursor.array().map(<$type>::from_le_bytes)
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

stored_numbers!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl Stored for bool {
    const LEAST_BYTES: u64 = 1;

    fn read(cursor: &mut Cursor<'_>) -> Result<bool, Refusal> {
        match cursor.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => refuse(format!("a truth value is {other}"), "0 or 1 would be right"),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Stored for String {
    const LEAST_BYTES: u64 = 8;

    fn read(cursor: &mut Cursor<'_>) -> Result<String, Refusal> {
        cursor.string().map(str::to_owned)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write_string(self, out);
    }
}

pub(super) fn write_string(text: &str, out: &mut Vec<u8>) {
    (text.len() as u64).write(out);
    out.extend_from_slice(text.as_bytes());
}
