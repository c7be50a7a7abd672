//! Which primitives have kernels of their own, on which dtypes, and which may run in place.

use lanthorn_compiler::backend::{Fails, Support};
use lanthorn_ir::prim::{
    Attention, Control, Elementwise, Index, Loss, Norm, Paged, Quantized, Recurrent, Source, State,
};
use lanthorn_ir::{DType, Error, Prim, Result, TensorType};

use crate::region::program::Body;

pub(super) fn support(prim: &Prim, inputs: &[&TensorType]) -> Result<Support> {
    let computed = match prim {
        Prim::Movement(_)
        | Prim::Complex(_)
        | Prim::Source(Source::Leaf { .. })
        | Prim::Control(Control::Barrier) => {
            return Ok(Support::Kernel);
        }
        Prim::Source(Source::Const { dtype, .. } | Source::Iota { dtype, .. }) => Some(*dtype),
        Prim::Elementwise(Elementwise::Cast(dtype)) => Some(*dtype),
        // Indices and targets may be of any integer dtype.
        _ => None,
    };
    let dtypes = computed.into_iter().chain(inputs.iter().map(|ty| ty.dtype));
    for dtype in dtypes {
        if Body::of(dtype).is_none() {
            return Err(Error::dtype(
                prim.name(),
                format!("the cpu computes nothing in {dtype}; cast to f32 first"),
            ));
        }
    }
    let is_float = inputs
        .first()
        .is_some_and(|ty| matches!(ty.dtype, DType::F32 | DType::F64 | DType::BF16 | DType::F16));
    Ok(match prim {
        Prim::Control(Control::Checkpoint { .. } | Control::StopGradient | Control::Written)
        | Prim::Position(_)
        | Prim::Recurrent(Recurrent::ShortConv { .. }) => Support::Decompose,
        Prim::Norm(_) | Prim::Attention(_) | Prim::Loss(_) | Prim::Recurrent(_) if !is_float => {
            Support::Decompose
        }
        Prim::Attention(Attention::Grad { mask_grad: true, .. }) => Support::Decompose,
        Prim::Quantized(Quantized::Linear(_)) if inputs[0].dtype != DType::F32 => Support::Decompose,
        Prim::Window(_) if !inputs.iter().all(|ty| super::conv::has_kernel(ty.dtype)) => Support::Decompose,
        Prim::Linalg(linalg) if !super::linalg::has_kernel(linalg) => Support::Decompose,
        _ => Support::Kernel,
    })
}

/// `(input, output)` pairs that may share memory.
pub(super) fn in_place(prim: &Prim) -> Vec<(u32, u32)> {
    match prim {
        Prim::Norm(Norm::Softmax | Norm::LogSoftmax | Norm::LayerNorm { .. } | Norm::RmsNorm { .. }) => {
            vec![(0, 0)]
        }
        Prim::Norm(Norm::SoftmaxGrad | Norm::LogSoftmaxGrad) => vec![(0, 0), (1, 0)],
        Prim::Norm(Norm::LayerNormGrad) => vec![(0, 0), (4, 0)],
        Prim::Norm(Norm::RmsNormGrad) => vec![(0, 0), (3, 0)],
        Prim::Loss(Loss::CrossEntropyGrad { .. }) => vec![(0, 0)],
        Prim::State(State::UpdateSlice { .. })
        | Prim::Index(Index::Scatter { .. })
        | Prim::Paged(Paged::Update) => vec![(0, 0)],
        _ => Vec::new(),
    }
}

/// When a kernel fails. Ids, places and tables are looked at before anything is written, matrices one by one.
pub(super) fn fails(prim: &Prim) -> Fails {
    match prim {
        Prim::Linalg(_) => Fails::HalfWay,
        prim if prim.can_fail() => Fails::BeforeWriting,
        _ => Fails::Never,
    }
}
