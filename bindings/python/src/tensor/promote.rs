//! Type promotion: upstream's lattice and its three categories of operands.

use lanthorn_ir::DType;
use lanthorn_ir::expr::Scalar;

use crate::error::{Error, Result};

/// Upstream's name of a scalar type, as its messages print it.
pub fn scalar_type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "Bool",
        DType::U8 => "Byte",
        DType::U16 => "UInt16",
        DType::U32 => "UInt32",
        DType::U64 => "UInt64",
        DType::I8 => "Char",
        DType::I16 => "Short",
        DType::I32 => "Int",
        DType::I64 => "Long",
        DType::F16 => "Half",
        DType::BF16 => "BFloat16",
        DType::F32 => "Float",
        DType::F64 => "Double",
        DType::F8E4M3 => "Float8_e4m3fn",
        DType::F8E5M2 => "Float8_e5m2",
        DType::C64 => "ComplexFloat",
        DType::C128 => "ComplexDouble",
    }
}

/// The dtype that both convert to.
pub fn promote_types(a: DType, b: DType) -> Result<DType> {
    if a == b {
        return Ok(a);
    }
    let refused = |family: &str| {
        let (a, b) = (scalar_type_name(a), scalar_type_name(b));
        Err(Error::runtime(format!(
            "Promotion for {family} is not supported, attempted to promote {a} and {b}"
        )))
    };
    if [a, b].iter().any(|d| matches!(d, DType::F8E4M3 | DType::F8E5M2)) {
        return refused("Float8 Types");
    }
    let is_bare = |d: DType| matches!(d, DType::U16 | DType::U32 | DType::U64);
    if is_bare(a) || is_bare(b) {
        // The wide unsigned types promote with real floats alone.
        return match (a, b) {
            (float, _) | (_, float) if float.is_float() => Ok(float),
            _ => refused("uint16, uint32, uint64 types"),
        };
    }
    let (low, high) = if rank(a) < rank(b) { (a, b) } else { (b, a) };
    Ok(match (low, high) {
        (DType::U8, DType::I8) => DType::I16,
        (DType::F16, DType::BF16) => DType::F32,
        (DType::F64, DType::C64) => DType::C128,
        _ => high,
    })
}

/// Places in the order of the lattice; between neighbours only the exceptions above.
fn rank(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        DType::U8 => 1,
        DType::I8 => 2,
        DType::I16 => 3,
        DType::I32 => 4,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::BF16 => 7,
        DType::F32 => 8,
        DType::F64 => 9,
        DType::C64 => 10,
        DType::C128 => 11,
        DType::U16 | DType::U32 | DType::U64 | DType::F8E4M3 | DType::F8E5M2 => 12,
    }
}

/// The dtype of a Python number as an operand.
pub fn number_dtype(number: Scalar) -> DType {
    match number {
        Scalar::Bool(_) => DType::Bool,
        Scalar::Int(_) => DType::I64,
        Scalar::Float(_) => DType::F64,
    }
}

/// Collects operands: tensors with axes outweigh those of rank 0, which outweigh Python's numbers, unless a lower
/// category is of a higher kind (bool, integer, float, complex).
#[derive(Clone, Copy, Debug, Default)]
pub struct ResultType {
    dimensioned: Option<DType>,
    zero: Option<DType>,
    wrapped: Option<DType>,
}

impl ResultType {
    /// Takes a tensor into account.
    pub fn tensor(&mut self, dtype: DType, rank: usize, is_wrapped: bool, default: DType) -> Result<()> {
        if is_wrapped {
            return self.number(dtype, default);
        }
        let category = if rank > 0 { &mut self.dimensioned } else { &mut self.zero };
        *category = Some(promote_known(*category, dtype)?);
        Ok(())
    }

    /// Takes a Python number into account; a float counts as the default dtype.
    pub fn number(&mut self, dtype: DType, default: DType) -> Result<()> {
        let dtype = if dtype.is_complex() {
            if default == DType::F64 { DType::C128 } else { DType::C64 }
        } else if dtype.is_float() {
            default
        } else {
            dtype
        };
        self.wrapped = Some(promote_known(self.wrapped, dtype)?);
        Ok(())
    }

    /// The dtype in which the op computes; `None` without operands.
    pub fn get(&self) -> Result<Option<DType>> {
        combine(self.dimensioned, combine(self.zero, self.wrapped)?)
    }
}

fn promote_known(a: Option<DType>, b: DType) -> Result<DType> {
    a.map_or(Ok(b), |a| promote_types(a, b))
}

fn combine(higher: Option<DType>, lower: Option<DType>) -> Result<Option<DType>> {
    let (higher, lower) = match (higher, lower) {
        (Some(higher), Some(lower)) => (higher, lower),
        (one, other) => return Ok(one.or(other)),
    };
    if higher.is_complex() {
        return Ok(Some(higher));
    }
    if higher.is_float() {
        if lower.is_complex() {
            return Ok(Some(if higher == DType::F64 { DType::C128 } else { DType::C64 }));
        }
        return Ok(Some(higher));
    }
    if higher == DType::Bool || lower.is_float() || lower.is_complex() {
        return promote_types(higher, lower).map(Some);
    }
    Ok(Some(higher))
}

/// Whether a result of dtype `from` may be written to a tensor of dtype `to`.
pub fn can_cast(from: DType, to: DType) -> bool {
    if from.is_complex() && !to.is_complex() {
        return false;
    }
    if from.is_float() && !(to.is_float() || to.is_complex()) {
        return false;
    }
    from == DType::Bool || to != DType::Bool
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lattice_is_symmetric_and_keeps_its_exceptions() {
        for a in DType::ALL {
            for b in DType::ALL {
                assert_eq!(promote_types(a, b).ok(), promote_types(b, a).ok(), "{a} {b}");
            }
        }
        assert_eq!(promote_types(DType::U8, DType::I8).unwrap(), DType::I16);
        assert_eq!(promote_types(DType::F16, DType::BF16).unwrap(), DType::F32);
        assert_eq!(promote_types(DType::U64, DType::BF16).unwrap(), DType::BF16);
        assert!(promote_types(DType::U16, DType::I32).is_err());
        assert!(promote_types(DType::F8E4M3, DType::F32).is_err());
    }

    #[test]
    fn a_number_gives_way_to_a_tensor_of_its_kind() {
        let result = |tensor: (DType, usize), number| {
            let mut types = ResultType::default();
            types.tensor(tensor.0, tensor.1, false, DType::F32).unwrap();
            types.number(number, DType::F32).unwrap();
            types.get().unwrap().unwrap()
        };
        assert_eq!(result((DType::I32, 1), DType::F64), DType::F32);
        assert_eq!(result((DType::F16, 1), DType::F64), DType::F16);
        assert_eq!(result((DType::U8, 0), DType::I64), DType::U8);
        assert_eq!(result((DType::Bool, 2), DType::I64), DType::I64);
        let mut types = ResultType::default();
        types.tensor(DType::F16, 2, false, DType::F32).unwrap();
        types.tensor(DType::F64, 0, false, DType::F32).unwrap();
        assert_eq!(types.get().unwrap(), Some(DType::F16));
    }
}
