//! The primitives: what the engine can do, each with all its rules in one place.
//!
//! A family is one enum in one file, and the rules of a family are exhaustive matches, so a primitive
//! without a rule does not compile. The rules are written against [`Builder`], as compositions of
//! primitives and ops, so derivatives of derivatives need nothing more.

pub mod attention;
pub mod complex;
pub mod contract;
pub mod control;
mod delta;
mod derivative;
pub(crate) mod derived;
mod determinant;
pub mod elementwise;
mod factors;
mod grouped;
pub mod index;
mod inverse;
pub mod linalg;
pub mod loss;
pub mod movement;
pub mod norm;
pub mod paged;
pub mod position;
pub mod quantized;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod scan;
mod scatter;
pub mod sort;
pub mod source;
mod special;
pub mod state;
pub mod window;

use std::fmt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

pub use attention::Attention;
pub use complex::Complex;
pub use contract::Contract;
pub use control::Control;
pub use elementwise::Elementwise;
pub use index::{Index, ScatterOp};
pub use linalg::Linalg;
pub use loss::Loss;
pub use movement::{Movement, Windows};
pub use norm::Norm;
pub use paged::Paged;
pub use position::{Position, Rotary, RotaryLayout, RotaryScaling};
pub use quantized::Quantized;
pub use random::Random;
pub use recurrent::Recurrent;
pub use reduce::{Reduce, ReduceOp};
pub use scan::{Scan, ScanOp};
pub use sort::Sort;
pub use source::Source;
pub use state::State;
pub use window::{Convolution, Window};

use crate::builder::{Builder, Outputs};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{KernelExpr, StepId};
use crate::layout::{ShowShape, TensorType, check_size};

/// The output types of a primitive.
pub type Types = SmallVec<[TensorType; 1]>;
/// One optional value for each operand or output: a cotangent, tangent or nothing.
pub type Optional<V> = Vec<Option<V>>;

/// A value under `vmap`: if `mapped`, its axis 0 is the new one.
#[derive(Clone, Debug)]
pub struct Batched<V> {
    pub value: V,
    pub mapped: bool,
}

/// What a rule may look at: the operands and results of the application at hand.
pub struct Applied<'a, V> {
    pub inputs: &'a [V],
    pub outputs: &'a [V],
    /// The inputs whose cotangent somebody needs; a `vjp` computes no other. Empty means all.
    pub wanted: &'a [bool],
}

impl<V> Applied<'_, V> {
    /// True if the cotangent of that input is needed.
    pub fn wants(&self, input: usize) -> bool {
        self.wanted.get(input).copied().unwrap_or(self.wanted.is_empty())
    }

    /// No cotangent for any input.
    pub fn no_cotangents(&self) -> Optional<V> {
        self.inputs.iter().map(|_| None).collect()
    }
}

/// All rules of a family of primitives.
pub trait Rules: Sized {
    /// The primitive's name, such as `matmul`.
    fn name(&self) -> &'static str;

    /// Output types, or an error that names the op, the operand and both shapes.
    fn infer(&self, inputs: &[&TensorType]) -> Result<Types>;

    /// Cotangents of the inputs from those of the outputs (`None`: zero). An input through which no
    /// derivative flows gets `None`.
    fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>>;

    /// Tangents of the outputs from those of the inputs (`None`: zero).
    fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>>;

    /// The primitive over operands of which some (at least one) carry a new leading axis of size `size`.
    fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>>;

    /// A compound primitive in simpler ones; `None` for one that is simple already.
    fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>>;

    /// The scalar expression of a pointwise primitive, one step per output; `None` for any other.
    /// `args` are the operands' elements and `inputs` their types.
    fn body(&self, expr: &mut KernelExpr, inputs: &[&TensorType], args: &[StepId]) -> Option<Vec<StepId>>;
}

/// A primitive with its attributes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Prim {
    Source(Source),
    Elementwise(Elementwise),
    Movement(Movement),
    Reduce(Reduce),
    Contract(Contract),
    Index(Index),
    Random(Random),
    Norm(Norm),
    Attention(Attention),
    Recurrent(Recurrent),
    Loss(Loss),
    State(State),
    Control(Control),
    Window(Window),
    Position(Position),
    Complex(Complex),
    Scan(Scan),
    Sort(Sort),
    Linalg(Linalg),
    Quantized(Quantized),
    Paged(Paged),
}

macro_rules! each_family {
    ($prim:expr, $family:ident => $body:expr) => {
        match $prim {
            Prim::Source($family) => $body,
            Prim::Elementwise($family) => $body,
            Prim::Movement($family) => $body,
            Prim::Reduce($family) => $body,
            Prim::Contract($family) => $body,
            Prim::Index($family) => $body,
            Prim::Scan($family) => $body,
            Prim::Sort($family) => $body,
            Prim::Random($family) => $body,
            Prim::Norm($family) => $body,
            Prim::Attention($family) => $body,
            Prim::Recurrent($family) => $body,
            Prim::Loss($family) => $body,
            Prim::State($family) => $body,
            Prim::Control($family) => $body,
            Prim::Window($family) => $body,
            Prim::Position($family) => $body,
            Prim::Complex($family) => $body,
            Prim::Linalg($family) => $body,
            Prim::Quantized($family) => $body,
            Prim::Paged($family) => $body,
        }
    };
}

impl Prim {
    /// The primitive's name.
    pub fn name(&self) -> &'static str {
        each_family!(self, family => family.name())
    }

    /// See [`Rules::infer`].
    pub fn infer(&self, inputs: &[&TensorType]) -> Result<Types> {
        let types = each_family!(self, family => family.infer(inputs))?;
        let is_plain = |ty: &TensorType| !ty.dtype.is_f8() && !ty.dtype.is_complex();
        if types.iter().all(|ty| ty.fits() && is_plain(ty)) && inputs.iter().all(|ty| is_plain(ty)) {
            return Ok(types);
        }
        self.check(inputs, types)
    }

    /// The output types, if they fit the address space and the primitive takes the dtypes that few do.
    #[cold]
    fn check(&self, inputs: &[&TensorType], types: Types) -> Result<Types> {
        for ty in &types {
            check_size(self.name(), ty)?;
        }
        if !self.moves_elements()
            && let Some(ty) = inputs.iter().copied().chain(&types).find(|ty| ty.dtype.is_f8())
        {
            return Err(Error::dtype(
                self.name(),
                format!("computes nothing in {}, which is for storage; cast to f32 first", ty.dtype),
            ));
        }
        if !self.takes_complex()
            && let Some(ty) = inputs.iter().copied().chain(&types).find(|ty| ty.dtype.is_complex())
        {
            return Err(Error::dtype(
                self.name(),
                format!("computes nothing in {}; take real(), imag(), abs() or as_real() first", ty.dtype),
            ));
        }
        Ok(types)
    }

    /// True for what devices do to complex values as pairs of real ones; all else is composed of real parts.
    fn takes_complex(&self) -> bool {
        match self {
            Prim::Source(source) => matches!(source, Source::Leaf { .. }),
            Prim::Movement(_) | Prim::Control(_) | Prim::Complex(_) => true,
            _ => false,
        }
    }

    /// True for what only moves or converts elements, and so takes the storage dtypes too.
    fn moves_elements(&self) -> bool {
        match self {
            Prim::Source(source) => !matches!(source, Source::Iota { .. }),
            Prim::Elementwise(op) => matches!(op, Elementwise::Select | Elementwise::Cast(_)),
            Prim::Movement(_) | Prim::Control(_) => true,
            Prim::Index(index) => matches!(
                index,
                Index::Embedding | Index::Gather { .. } | Index::Scatter { op: ScatterOp::Set, .. }
            ),
            Prim::State(state) => matches!(state, State::UpdateSlice { .. }),
            Prim::Paged(paged) => matches!(paged, Paged::Update),
            _ => false,
        }
    }

    /// See [`Rules::vjp`].
    pub fn vjp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        cotangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        each_family!(self, family => family.vjp(b, at, cotangents))
    }

    /// See [`Rules::jvp`].
    pub fn jvp<B: Builder>(
        &self,
        b: &B,
        at: &Applied<'_, B::Value>,
        tangents: &[Option<B::Value>],
    ) -> Result<Optional<B::Value>> {
        each_family!(self, family => family.jvp(b, at, tangents))
    }

    /// See [`Rules::batch`].
    pub fn batch<B: Builder>(
        &self,
        b: &B,
        size: usize,
        inputs: &[Batched<B::Value>],
    ) -> Result<Vec<Batched<B::Value>>> {
        if inputs.iter().all(|input| !input.mapped) {
            let operands: Vec<B::Value> = inputs.iter().map(|input| input.value.clone()).collect();
            let outputs = b.apply(self.clone(), &operands)?;
            return Ok(outputs.into_iter().map(|value| Batched { value, mapped: false }).collect());
        }
        each_family!(self, family => family.batch(b, size, inputs))
    }

    /// See [`Rules::decompose`].
    pub fn decompose<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Option<Vec<B::Value>>> {
        each_family!(self, family => family.decompose(b, inputs))
    }

    /// See [`Rules::body`].
    pub fn body(
        &self,
        expr: &mut KernelExpr,
        inputs: &[&TensorType],
        args: &[StepId],
    ) -> Option<Vec<StepId>> {
        each_family!(self, family => family.body(expr, inputs, args))
    }

    /// True if outputs are computed element by element from equally shaped operands.
    pub fn is_pointwise(&self) -> bool {
        match self {
            Prim::Elementwise(_) => true,
            Prim::State(state) => matches!(state, State::AdamW { .. }),
            _ => false,
        }
    }

    /// True if its description names numbers on which it fails, such as an id out of range.
    pub fn can_fail(&self) -> bool {
        match self {
            Prim::Index(_) | Prim::Loss(_) | Prim::Paged(_) | Prim::Linalg(_) => true,
            Prim::State(state) => matches!(state, State::UpdateSlice { .. }),
            Prim::Attention(attention) => attention.attend().has_past(),
            Prim::Source(_)
            | Prim::Elementwise(_)
            | Prim::Movement(_)
            | Prim::Reduce(_)
            | Prim::Contract(_)
            | Prim::Random(_)
            | Prim::Norm(_)
            | Prim::Recurrent(_)
            | Prim::Control(_)
            | Prim::Window(_)
            | Prim::Position(_)
            | Prim::Complex(_)
            | Prim::Scan(_)
            | Prim::Sort(_)
            | Prim::Quantized(_) => false,
        }
    }

    /// Applies the decomposition, or fails by name where there is none.
    pub fn decompose_or_fail<B: Builder>(&self, b: &B, inputs: &[B::Value]) -> Result<Outputs<B::Value>> {
        match self.decompose(b, inputs)? {
            Some(values) => Ok(values.into()),
            None => {
                Err(Error::unsupported(self.name(), "the device has no kernel and the op no simpler form"))
            }
        }
    }
}

impl fmt::Display for Prim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        each_family!(self, family => write!(f, "{family:?}"))
    }
}

/// Checks the number of operands.
pub(crate) fn expect_arity(op: &str, inputs: &[&TensorType], arity: usize) -> Result<()> {
    if inputs.len() == arity {
        return Ok(());
    }
    Err(Error::shape(op, format!("takes {arity} operands, got {}", inputs.len())))
}

/// Checks an operand's exact shape.
pub(crate) fn expect_shape(op: &str, operand: &str, found: &TensorType, shape: &[usize]) -> Result<()> {
    if found.shape[..] == *shape {
        return Ok(());
    }
    Err(Error::shape(
        op,
        format!("{operand} has shape {}, expected {}", ShowShape(&found.shape), ShowShape(shape)),
    ))
}

/// Checks that an operand has a real floating-point dtype.
pub(crate) fn expect_float(op: &str, operand: &str, found: &TensorType) -> Result<()> {
    if found.dtype.is_float() {
        return Ok(());
    }
    Err(Error::dtype(
        op,
        format!("{operand} is {}, expected a floating-point dtype; cast it first", found.dtype),
    ))
}

/// Checks that an operand has a dtype in which sums and products exist.
/// A factor that is finite where it is used, in a type that computes.
pub(crate) fn expect_finite(op: &str, what: &str, value: f64, dtype: DType) -> Result<()> {
    if dtype.round(value).is_finite() {
        return Ok(());
    }
    Err(Error::shape(op, format!("{what} is {value:?}, expected a finite number of {dtype}")))
}

pub(crate) fn expect_number(op: &str, operand: &str, found: &TensorType) -> Result<()> {
    if found.dtype.is_number() {
        return Ok(());
    }
    Err(Error::dtype(op, format!("{operand} is {}, expected a number; cast it first", found.dtype)))
}

/// Checks that two operands have one dtype.
pub(crate) fn expect_same_dtype(
    op: &str,
    first: &TensorType,
    operand: &str,
    found: &TensorType,
) -> Result<()> {
    if first.dtype == found.dtype {
        return Ok(());
    }
    Err(Error::dtype(
        op,
        format!("{operand} is {} but the first operand is {}; cast one of them", found.dtype, first.dtype),
    ))
}
