//! Primitives with kernels of their own: from strided operands to what the row and attention kernels take.
//!
//! An operand whose layout a kernel cannot read is first copied to scratch (*staged*).

use std::slice;

use half::{bf16, f16};
use lanthorn_compiler::kernel::{Operand, Phase, Store};
use lanthorn_ir::expr::Step;
use lanthorn_ir::prim::{Attention, Index, Loss, Norm, Paged, Reduce, Source, State};
use lanthorn_ir::{DType, Error, Layout, Prim, Result};

use super::arg::{arg_extreme, iota};
use super::attention::{is_tiled, plain_scratch_bytes};
use super::select;
use crate::attention::{
    Heads, HeadsMut, attention_grad_scratch_bytes, attention_scratch_bytes, paged_attention_scratch_bytes,
};
use crate::quantized::QuantizedPlan;
use crate::region::map::MapKernel;
use crate::rows::{self, Cpu, Element, Indices, Rows, RowsMut, Scratch, Strided, StridedMut};

/// What a kernel demands of an input's layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Any strides.
    Any,
    /// Adjacent elements in row-major order.
    Dense,
    /// Rows along the last axis, a fixed stride apart, adjacent within.
    Rows,
    /// The last axis adjacent, other strides free.
    Heads,
}

/// An input as the kernel will find it.
struct Input {
    dtype: DType,
    /// Of the buffer, or dense at offset 0 where staged.
    layout: Layout,
    /// Where in scratch the copy lies, and the kernel that makes it.
    staged: Option<(usize, MapKernel)>,
}

/// A primitive with its operands prepared.
pub(super) struct PrimKernel {
    prim: Prim,
    inputs: Vec<Input>,
    outputs: Vec<(DType, Layout)>,
    staging_bytes: usize,
    own_bytes: usize,
    /// Of a product with packed weights.
    quantized: Option<QuantizedPlan>,
}

fn needs(prim: &Prim, at: usize) -> Need {
    match prim {
        Prim::Norm(norm) => {
            let is_rows = match norm {
                Norm::LayerNorm { .. } | Norm::RmsNorm { .. } => at == 0,
                Norm::LayerNormGrad => at == 0 || at == 4,
                Norm::RmsNormGrad => at == 0 || at == 3,
                Norm::Softmax | Norm::LogSoftmax | Norm::SoftmaxGrad | Norm::LogSoftmaxGrad => true,
            };
            if is_rows { Need::Rows } else { Need::Dense }
        }
        Prim::Index(Index::Gather { .. }) if at == 0 => Need::Any,
        Prim::Index(Index::Gather { .. } | Index::Scatter { .. }) => Need::Dense,
        Prim::Loss(_) | Prim::Index(_) => {
            if at == 0 {
                Need::Rows
            } else {
                Need::Dense
            }
        }
        Prim::Attention(_) => match at {
            0..=3 | 5 if !matches!(prim, Prim::Attention(Attention::Forward { .. })) || at < 3 => Need::Heads,
            _ => Need::Dense,
        },
        Prim::Paged(Paged::Attention(_)) if at == 0 => Need::Heads,
        Prim::State(State::UpdateSlice { .. }) => {
            if at < 2 {
                Need::Any
            } else {
                Need::Dense
            }
        }
        _ => Need::Dense,
    }
}

/// The rows that a layout shows: their number, width and stride.
fn rows_of(layout: &Layout) -> Option<(usize, usize, isize)> {
    let rank = layout.rank();
    let width = *layout.shape.last()?;
    let rows: usize = layout.shape[..rank - 1].iter().product();
    let flat = layout.reshape(&[rows, width])?;
    (flat.strides[1] == 1 || width <= 1).then_some((rows, width, flat.strides[0]))
}

fn fits(layout: &Layout, need: Need) -> bool {
    match need {
        Need::Any => true,
        Need::Dense => layout.is_contiguous(),
        Need::Rows => rows_of(layout).is_some(),
        Need::Heads => layout.rank() == 4 && (layout.strides[3] == 1 || layout.shape[3] <= 1),
    }
}

/// Copies an operand to contiguous memory.
pub(super) fn copy_kernel(operand: &Operand) -> Option<MapKernel> {
    let mut body = Phase::default();
    let step = body.expr.push(Step::Load(0), operand.dtype);
    body.stores.push(Store { step, output: 0 });
    let target =
        Operand { buffer: 1, dtype: operand.dtype, layout: Layout::contiguous(&operand.layout.shape) };
    MapKernel::new(&operand.layout.shape, &body, slice::from_ref(operand), &[target])
}

/// Runs `$body` with `$E` bound to the element type of a float dtype.
macro_rules! with_float {
    ($op:expr, $dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $E = f32;
                $body
            }
            DType::F64 => {
                type $E = f64;
                $body
            }
            DType::BF16 => {
                type $E = bf16;
                $body
            }
            DType::F16 => {
                type $E = f16;
                $body
            }
            other => Err(Error::dtype($op, format!("the cpu has no kernel for {other}; cast to f32 first"))),
        }
    };
}

impl PrimKernel {
    pub(super) fn new(prim: &Prim, inputs: &[Operand], outputs: &[Operand]) -> Result<PrimKernel> {
        let name = prim.name();
        // The plain attention reads whatever lies dense.
        let shape = |at: usize| &inputs[at].layout.shape[..];
        let dense = matches!(prim, Prim::Attention(kind) if !is_tiled(kind, shape(0), shape(1), shape(2)));
        let mut staging_bytes = 0;
        let mut prepared = Vec::with_capacity(inputs.len());
        for (at, operand) in inputs.iter().enumerate() {
            let need = if dense { Need::Dense } else { needs(prim, at) };
            if fits(&operand.layout, need) {
                let layout = operand.layout.clone();
                prepared.push(Input { dtype: operand.dtype, layout, staged: None });
                continue;
            }
            let copy = copy_kernel(operand)
                .ok_or_else(|| Error::dtype(name, format!("operand {at} is {}", operand.dtype)))?;
            let layout = Layout::contiguous(&operand.layout.shape);
            let bytes = (layout.numel() * operand.dtype.size()).next_multiple_of(64);
            prepared.push(Input { dtype: operand.dtype, layout, staged: Some((staging_bytes, copy)) });
            staging_bytes += bytes;
        }
        if let Some(at) = outputs.iter().position(|o| !o.layout.is_contiguous()) {
            return Err(Error::unsupported(name, format!("output {at} is not contiguous")));
        }
        let quantized = match prim {
            Prim::Quantized(kind) => {
                super::quantized::plan(kind, shape(0), &inputs[inputs.len() - 1].layout.shape)
            }
            _ => None,
        };
        let own_bytes = match &quantized {
            Some(plan) => plan.scratch_bytes(),
            None => own_scratch(prim, &prepared)?,
        };
        let outputs = outputs.iter().map(|o| (o.dtype, o.layout.clone())).collect();
        Ok(PrimKernel { prim: prim.clone(), inputs: prepared, outputs, staging_bytes, own_bytes, quantized })
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        self.staging_bytes + self.own_bytes
    }

    /// # Safety
    /// As `Prepared::run`.
    pub(super) unsafe fn run(
        &self,
        inputs: &[*const u8],
        outputs: &[*mut u8],
        scratch: *mut u8,
    ) -> Result<()> {
        // SAFETY: scratch holds the staging area and, after it, the kernel's own.
        unsafe {
            for (input, &source) in self.inputs.iter().zip(inputs) {
                if let Some((offset, copy)) = &input.staged {
                    copy.run(&[source], &[scratch.add(*offset)]);
                }
            }
            let at = |input: usize| -> *const u8 {
                let Input { dtype, layout, staged } = &self.inputs[input];
                match staged {
                    Some((offset, _)) => scratch.add(*offset),
                    None => inputs[input].add(layout.offset * dtype.size()),
                }
            };
            let out = |output: usize| -> *mut u8 {
                let (dtype, layout) = &self.outputs[output];
                outputs[output].add(layout.offset * dtype.size())
            };
            let call = Operands { kernel: self, at: &at, out: &out };
            let own = Scratch::from_raw(scratch.add(self.staging_bytes), self.own_bytes);
            self.dispatch(&call, own)
        }
    }

    /// # Safety
    /// As `Prepared::run`.
    unsafe fn dispatch(&self, call: &Operands<'_>, scratch: Scratch<'_>) -> Result<()> {
        let (cpu, name) = (Cpu::host(), self.prim.name());
        let dtype = self.inputs.first().map_or(DType::F32, |input| input.dtype);
        // SAFETY: the caller's promise; layouts and dtypes are those that `infer` made.
        unsafe {
            match &self.prim {
                Prim::Norm(norm) => with_float!(name, dtype, E => {
                    run_norm::<E>(cpu, norm, call, scratch);
                    Ok(())
                }),
                Prim::Loss(Loss::CrossEntropy { ignore }) => with_float!(name, dtype, E => {
                    let (logits, targets) = (call.rows::<E>(0), call.indices(1)?);
                    rows::cross_entropy(cpu, logits, targets, *ignore, call.slice_mut(0), call.slice_mut(1))
                }),
                Prim::Loss(Loss::CrossEntropyGrad { ignore }) => with_float!(name, dtype, E => {
                    let (logits, targets) = (call.rows::<E>(0), call.indices(1)?);
                    let (lse, dloss) = (call.slice(2), call.slice(3));
                    rows::cross_entropy_grad(cpu, logits, targets, *ignore, lse, dloss, call.rows_mut::<E>(0))
                }),
                Prim::Index(Index::Embedding) => {
                    rows::embedding(cpu, call.byte_rows(0), call.indices(1)?, call.byte_rows_mut(0))
                }
                Prim::Index(Index::EmbeddingGrad { .. }) => with_float!(name, dtype, E => {
                    rows::embedding_grad(
                        cpu, call.rows::<E>(0), call.indices(1)?, call.rows_mut::<E>(0), scratch,
                    )
                }),
                Prim::Index(Index::Gather { axis }) => select::gather(cpu, *axis, call),
                Prim::Index(Index::Scatter { axis, op }) => select::scatter(name, *axis, *op, call, scratch),
                Prim::Scan(scan) => select::scan(cpu, name, scan, call),
                Prim::Sort(sort) => select::sort(cpu, sort, call),
                Prim::Random(random) => select::random(cpu, random, call),
                Prim::Attention(kind) => with_float!(name, dtype, E => {
                    super::attention::run::<E>(cpu, kind, call, scratch)
                }),
                Prim::State(State::UpdateSlice { axis }) => {
                    let (base, source) = (&self.inputs[0], &self.inputs[1]);
                    let out = &self.outputs[0];
                    let start = call.integer(2)?;
                    rows::update_slice(
                        cpu,
                        Strided::from_raw((call.at)(0), &base.layout.shape, &base.layout.strides),
                        Strided::from_raw((call.at)(1), &source.layout.shape, &source.layout.strides),
                        start,
                        *axis,
                        dtype.size(),
                        StridedMut::from_raw((call.out)(0), &out.1.shape, &out.1.strides),
                    )
                }
                Prim::Reduce(kind @ (Reduce::ArgMax { axis } | Reduce::ArgMin { axis })) => {
                    let (shape, largest) =
                        (&self.inputs[0].layout.shape, matches!(kind, Reduce::ArgMax { .. }));
                    arg_extreme(dtype, (call.at)(0), shape, *axis, largest, call.slice_mut(0))
                }
                Prim::Paged(paged) => super::paged::run(cpu, paged, call, scratch),
                Prim::Linalg(linalg) => super::linalg::run(linalg, call),
                Prim::Recurrent(recurrent) => with_float!(name, dtype, E => {
                    super::recurrent::run::<E>(recurrent, call)
                }),
                Prim::Quantized(quantized) => {
                    super::quantized::run(quantized, self.quantized.as_ref(), call, scratch);
                    Ok(())
                }
                Prim::Source(Source::Iota { len, dtype }) => iota(*dtype, (call.out)(0), *len),
                _ => Err(Error::unsupported(name, "the cpu has no kernel for this primitive")),
            }
        }
    }
}

/// The operands of one call.
pub(super) struct Operands<'a> {
    kernel: &'a PrimKernel,
    /// Addresses of first elements.
    at: &'a dyn Fn(usize) -> *const u8,
    out: &'a dyn Fn(usize) -> *mut u8,
}

impl<'a> Operands<'a> {
    /// Dtype and layout of an input as the kernel finds it.
    pub(super) fn input(&self, input: usize) -> (DType, &Layout) {
        let Input { dtype, layout, .. } = &self.kernel.inputs[input];
        (*dtype, layout)
    }

    /// The first element of an input.
    pub(super) fn address(&self, input: usize) -> *const u8 {
        (self.at)(input)
    }

    /// The first element of an output.
    pub(super) fn target(&self, output: usize) -> *mut u8 {
        (self.out)(output)
    }

    pub(super) fn name(&self) -> &'static str {
        self.kernel.prim.name()
    }

    /// The shape of an input.
    pub(super) fn shape(&self, input: usize) -> &'a [usize] {
        &self.kernel.inputs[input].layout.shape
    }

    /// The dtype of an input.
    pub(super) fn dtype(&self, input: usize) -> DType {
        self.kernel.inputs[input].dtype
    }

    /// The number of inputs.
    pub(super) fn inputs(&self) -> usize {
        self.kernel.inputs.len()
    }

    /// The number of outputs.
    pub(super) fn outputs(&self) -> usize {
        self.kernel.outputs.len()
    }

    /// A dense input.
    pub(super) unsafe fn slice<T>(&self, input: usize) -> &'a [T] {
        let count = self.kernel.inputs[input].layout.numel();
        // SAFETY: the operand is dense, of this type, and only read during the call.
        unsafe { slice::from_raw_parts((self.at)(input).cast(), count) }
    }

    /// An output; outputs are dense.
    pub(super) unsafe fn slice_mut<T>(&self, output: usize) -> &'a mut [T] {
        let count = self.kernel.outputs[output].1.numel();
        // SAFETY: the output is dense, of this type, and nobody else's during the call.
        unsafe { slice::from_raw_parts_mut((self.out)(output).cast(), count) }
    }

    unsafe fn rows<E>(&self, input: usize) -> Rows<'a, E> {
        let (rows, width, stride) = rows_of(&self.kernel.inputs[input].layout).unwrap_or((0, 0, 0));
        // SAFETY: the layout is one of rows, or was staged to be.
        unsafe { Rows::from_raw((self.at)(input).cast(), rows, width, stride) }
    }

    unsafe fn rows_mut<E>(&self, output: usize) -> RowsMut<'a, E> {
        let (rows, width, stride) = rows_of(&self.kernel.outputs[output].1).unwrap_or((0, 0, 0));
        // SAFETY: outputs are dense.
        unsafe { RowsMut::from_raw((self.out)(output).cast(), rows, width, stride) }
    }

    /// Rows as bytes.
    unsafe fn byte_rows(&self, input: usize) -> Rows<'a, u8> {
        let Input { dtype, layout, .. } = &self.kernel.inputs[input];
        let (rows, width, stride) = rows_of(layout).unwrap_or((0, 0, 0));
        let size = dtype.size();
        // SAFETY: as `rows`.
        unsafe { Rows::from_raw((self.at)(input), rows, width * size, stride * size as isize) }
    }

    unsafe fn byte_rows_mut(&self, output: usize) -> RowsMut<'a, u8> {
        let (dtype, layout) = &self.kernel.outputs[output];
        let (rows, width, stride) = rows_of(layout).unwrap_or((0, 0, 0));
        let size = dtype.size();
        // SAFETY: as `rows_mut`.
        unsafe { RowsMut::from_raw((self.out)(output), rows, width * size, stride * size as isize) }
    }

    pub(super) unsafe fn indices(&self, input: usize) -> Result<Indices<'a>> {
        // SAFETY: index operands are dense.
        unsafe {
            Ok(match self.kernel.inputs[input].dtype {
                DType::I64 => Indices::I64(self.slice(input)),
                DType::I32 => Indices::I32(self.slice(input)),
                DType::I16 => Indices::I16(self.slice(input)),
                DType::I8 => Indices::I8(self.slice(input)),
                DType::U64 => Indices::U64(self.slice(input)),
                DType::U32 => Indices::U32(self.slice(input)),
                DType::U16 => Indices::U16(self.slice(input)),
                DType::U8 => Indices::U8(self.slice(input)),
                other => {
                    return Err(Error::dtype(self.kernel.prim.name(), format!("indices are {other}")));
                }
            })
        }
    }

    /// A rank-0 integer argument.
    pub(super) unsafe fn integer(&self, input: usize) -> Result<i64> {
        // SAFETY: as `indices`.
        let value = unsafe { self.indices(input)? }.value(0);
        i64::try_from(value).map_err(|_| {
            Error::new(
                lanthorn_ir::ErrorKind::Execute,
                self.kernel.prim.name(),
                format!("the position {value} does not fit into i64"),
            )
        })
    }

    pub(super) unsafe fn heads<E>(&self, input: usize) -> Heads<'a, E> {
        let layout = &self.kernel.inputs[input].layout;
        // SAFETY: rank 4 by `infer`, last axis adjacent or staged.
        unsafe { Heads::from_raw((self.at)(input).cast(), shape4(layout), strides3(layout)) }
    }

    pub(super) unsafe fn heads_mut<E>(&self, output: usize) -> HeadsMut<'a, E> {
        let layout = &self.kernel.outputs[output].1;
        // SAFETY: outputs are dense.
        unsafe { HeadsMut::from_raw((self.out)(output).cast(), shape4(layout), strides3(layout)) }
    }
}

fn shape4(layout: &Layout) -> [usize; 4] {
    [layout.shape[0], layout.shape[1], layout.shape[2], layout.shape[3]]
}

fn strides3(layout: &Layout) -> [isize; 3] {
    [layout.strides[0], layout.strides[1], layout.strides[2]]
}

fn own_scratch(prim: &Prim, inputs: &[Input]) -> Result<usize> {
    let Some(first) = inputs.first() else { return Ok(0) };
    let name = prim.name();
    let threads = Cpu::host().threads;
    let shape = |at: usize| &inputs[at].layout.shape;
    Ok(match prim {
        Prim::Norm(Norm::LayerNormGrad) => {
            let (rows, width, _) = rows_of(&first.layout).unwrap_or((0, 0, 0));
            with_float!(name, first.dtype, E => Ok(rows::layer_norm_grad_scratch_bytes::<E>(rows, width)))?
        }
        Prim::Norm(Norm::RmsNormGrad) => {
            let (rows, width, _) = rows_of(&first.layout).unwrap_or((0, 0, 0));
            with_float!(name, first.dtype, E => Ok(rows::rms_norm_grad_scratch_bytes::<E>(rows, width)))?
        }
        Prim::Index(Index::EmbeddingGrad { rows }) => {
            rows::embedding_grad_scratch_bytes(*rows, shape(1).iter().product())
        }
        Prim::Index(Index::Scatter { op, .. }) => {
            select::scatter_scratch_bytes(*op, first.dtype, first.layout.numel())
        }
        Prim::Attention(kind) => {
            let (q, k) = (shape4(&first.layout), shape4(&inputs[1].layout));
            let v = &inputs[2].layout.shape;
            if !is_tiled(kind, &q, &k, v) {
                return with_float!(name, first.dtype, E => Ok(plain_scratch_bytes::<E>(kind, &k, v, threads)));
            }
            with_float!(name, first.dtype, E => Ok(match kind {
                Attention::Forward(attend) => attention_scratch_bytes::<E>(q, k, attend.mask.is_some(), threads),
                Attention::Grad { .. } => attention_grad_scratch_bytes::<E>(q, k, threads),
            }))?
        }
        Prim::Paged(Paged::Attention(_)) => {
            let (q, pool) = (shape4(&first.layout), shape4(&inputs[1].layout));
            let slots = inputs[inputs.len() - 3].layout.shape[1];
            with_float!(name, first.dtype, E => {
                Ok(paged_attention_scratch_bytes::<E>(q, pool, slots, threads))
            })?
        }
        _ => 0,
    })
}

/// # Safety
/// The operands are those of the primitive.
unsafe fn run_norm<E: Element>(cpu: Cpu, norm: &Norm, call: &Operands<'_>, scratch: Scratch<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match norm {
            Norm::Softmax => rows::softmax(cpu, call.rows::<E>(0), call.rows_mut(0)),
            Norm::LogSoftmax => rows::log_softmax(cpu, call.rows::<E>(0), call.rows_mut(0)),
            Norm::SoftmaxGrad => rows::softmax_grad(cpu, call.rows::<E>(0), call.rows(1), call.rows_mut(0)),
            Norm::LogSoftmaxGrad => {
                rows::log_softmax_grad(cpu, call.rows::<E>(0), call.rows(1), call.rows_mut(0))
            }
            Norm::LayerNorm { eps } => rows::layer_norm::<E>(
                cpu,
                call.rows(0),
                call.slice(1),
                call.slice(2),
                eps.0,
                call.rows_mut(0),
                call.slice_mut(1),
                call.slice_mut(2),
            ),
            Norm::LayerNormGrad => rows::layer_norm_grad::<E>(
                cpu,
                call.rows(0),
                call.slice(1),
                call.slice(2),
                call.slice(3),
                call.rows(4),
                call.rows_mut(0),
                call.slice_mut(1),
                call.slice_mut(2),
                scratch,
            ),
            Norm::RmsNorm { eps } => rows::rms_norm::<E>(
                cpu,
                call.rows(0),
                call.slice(1),
                eps.0,
                call.rows_mut(0),
                call.slice_mut(1),
            ),
            Norm::RmsNormGrad => rows::rms_norm_grad::<E>(
                cpu,
                call.rows(0),
                call.slice(1),
                call.slice(2),
                call.rows(3),
                call.rows_mut(0),
                call.slice_mut(1),
                scratch,
            ),
        }
    }
}
