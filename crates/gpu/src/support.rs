//! Which primitives have shaders, and on which dtypes.

use lanthorn_compiler::backend::Support;
use lanthorn_ir::prim::{Contract, Control, Elementwise, Reduce, Source};
use lanthorn_ir::{DType, Error, Prim, Result, TensorType};

/// How a primitive runs on operands of these types.
///
/// Errors: a dtype without a shader, and what has neither a shader nor a decomposition, both by name. Nothing runs
/// on the CPU instead.
pub fn support(prim: &Prim, inputs: &[&TensorType]) -> Result<Support> {
    let outputs = prim.infer(inputs)?;
    // Complex values are moved as pairs of f32.
    let pairs = |ty: &TensorType| matches!(ty.dtype, DType::C64 | DType::F32);
    let only_moves = matches!(prim, Prim::Movement(_) | Prim::Complex(_) | Prim::Control(Control::Barrier));
    if only_moves && inputs.iter().copied().chain(&outputs).all(pairs) {
        return Ok(Support::Kernel);
    }
    let computes = |dtype: DType| matches!(dtype, DType::F32 | DType::I32 | DType::U32 | DType::Bool);
    let key = matches!(prim, Prim::Random(_));
    let types = inputs.iter().copied().filter(|_| !key).chain(&outputs);
    for ty in types {
        if !computes(ty.dtype) {
            let message =
                format!("the gpu has f32, i32, u32 and bool, not {}; cast it first or use the cpu", ty.dtype);
            return Err(Error::dtype(prim.name(), message));
        }
    }
    // Several keys are drawn one by one.
    if key && inputs.iter().any(|key| key.rank() > 1) {
        return Ok(Support::Decompose);
    }
    match prim {
        Prim::Movement(_)
        | Prim::Source(Source::Leaf { .. } | Source::Const { .. } | Source::Iota { .. })
        | Prim::Control(Control::Barrier)
        | Prim::Random(_)
        | Prim::Reduce(Reduce::Fold { .. }) => Ok(Support::Kernel),
        Prim::Contract(Contract::MatMul { out: DType::F32 }) => Ok(Support::Kernel),
        Prim::Contract(Contract::MatMul { out }) => Err(Error::dtype(
            prim.name(),
            format!("the gpu multiplies no matrices of {out}; use f32 or the cpu"),
        )),
        Prim::Elementwise(Elementwise::Cast(_)) => Ok(Support::Kernel),
        prim if prim.is_pointwise() => Ok(Support::Kernel),
        Prim::Reduce(Reduce::ArgMax { .. } | Reduce::ArgMin { .. })
        | Prim::Index(_)
        | Prim::Sort(_)
        | Prim::State(_) => {
            Err(Error::unsupported(prim.name(), "the gpu has no kernel for this primitive; use the cpu"))
        }
        _ => Ok(Support::Decompose),
    }
}
