//! The op library as methods. What an op does is written once, at its function in [`lanthorn_ir::ops`]; methods are
//! written by the op table itself.

use std::borrow::Borrow;

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::ops::table::{self, Attribute, Id, OPS};
use lanthorn_ir::ops::{
    Encoding, GeluApproximate, GridPadding, Interpolation, MatrixNorm, QrMode, Reduction, ScatterReduce,
    Triangle,
};
use lanthorn_ir::{DType, Error, Lazy, Result, Value, ops};
use smallvec::{SmallVec, smallvec};

use super::create::is_structural;
use super::{Tensor, counting};
use crate::device::Device;
use crate::slot;

/// What a parameter of a kind is in a method.
macro_rules! parameter {
    (Tensor) => { &Tensor };
    (OptionalTensor) => { Option<&Tensor> };
    (Tensors) => { &[&Tensor] };
    (Int) => { isize };
    (Ints) => { &[isize] };
    (OptionalInt) => { Option<i64> };
    (Size) => { usize };
    (OptionalSize) => { Option<usize> };
    (Sizes) => { &[usize] };
    (Stream) => { u64 };
    (Float) => { f64 };
    (OptionalFloat) => { Option<f64> };
    (Bool) => { bool };
    (Scalar) => { impl Into<Scalar> };
    (OptionalScalar) => { Option<Scalar> };
    (DType) => { DType };
    (Reduction) => { Reduction };
    (GeluApproximate) => { GeluApproximate };
    (Interpolation) => { Interpolation };
    (GridPadding) => { GridPadding };
    (Encoding) => { Encoding };
    (ScatterReduce) => { ScatterReduce };
    (Long) => { i64 };
    (Text) => { &str };
    (QrMode) => { QrMode };
    (Triangle) => { Triangle };
    (MatrixNorm) => { MatrixNorm };
    (OptionalMatrixNorm) => { Option<MatrixNorm> };
}

/// Puts an argument where [`table::call_id`] looks for it.
macro_rules! put {
    ($call:ident, Tensor, $value:ident) => {
        $call.tensors.push(Some($value))
    };
    ($call:ident, OptionalTensor, $value:ident) => {
        $call.tensors.push($value)
    };
    ($call:ident, Tensors, $value:ident) => {
        $call.tensors.extend($value.iter().copied().map(Some))
    };
    ($call:ident, Scalar, $value:ident) => {{
        let scalar: Scalar = $value.into();
        $call.attributes.push(scalar.into())
    }};
    ($call:ident, $kind:ident, $value:ident) => {
        $call.attributes.push($value.into())
    };
}

macro_rules! returned {
    (Tensor, $call:ident, $id:expr) => {
        $call.one($id)
    };
    (Tensors, $call:ident, $id:expr) => {
        $call.all($id)
    };
}

macro_rules! result {
    (Tensor) => { Result<Tensor> };
    (Tensors) => { Result<Vec<Tensor>> };
}

/// One row of the table as a method: of its first tensor, or, of a random op, a constructor that draws the key.
macro_rules! method {
    // Written by hand below: numbers are arguments of a program, and keys are drawn.
    ($c:ident add_scalar $($rest:tt)*) => {};
    ($c:ident sub_scalar $($rest:tt)*) => {};
    ($c:ident rsub_scalar $($rest:tt)*) => {};
    ($c:ident mul_scalar $($rest:tt)*) => {};
    ($c:ident div_scalar $($rest:tt)*) => {};
    ($c:ident rem_scalar $($rest:tt)*) => {};
    ($c:ident remainder_scalar $($rest:tt)*) => {};
    ($c:ident floor_divide_scalar $($rest:tt)*) => {};
    ($c:ident maximum_scalar $($rest:tt)*) => {};
    ($c:ident minimum_scalar $($rest:tt)*) => {};
    ($c:ident eq_scalar $($rest:tt)*) => {};
    ($c:ident ne_scalar $($rest:tt)*) => {};
    ($c:ident lt_scalar $($rest:tt)*) => {};
    ($c:ident le_scalar $($rest:tt)*) => {};
    ($c:ident gt_scalar $($rest:tt)*) => {};
    ($c:ident ge_scalar $($rest:tt)*) => {};
    ($c:ident full_like $($rest:tt)*) => {};
    ($c:ident cross_entropy $($rest:tt)*) => {};
    ($c:ident dropout $($rest:tt)*) => {};
    ($c:ident adamw $($rest:tt)*) => {};
    (Random $f:ident (key: Tensor $(, $p:ident: $k:ident)*) -> $r:ident) => {
        #[doc = concat!("See [`", stringify!($f), "`](lanthorn_ir::ops::", stringify!($f), "()); draws the key from ")]
        #[doc = "the device's random sequence."]
        pub fn $f(device: &Device $(, $p: parameter!($k))*) -> result!($r) {
            let key = Tensor::random_key(device)?;
            let mut call = Call::default();
            call.tensors.push(Some(&key));
            $(put!(call, $k, $p);)*
            returned!($r, call, Id::$f)
        }
    };
    ($c:ident $f:ident ($x:ident: Tensor $(, $p:ident: $k:ident)*) -> $r:ident) => {
        #[doc = concat!("See [`", stringify!($f), "`](lanthorn_ir::ops::", stringify!($f), "()).")]
        pub fn $f(&self $(, $p: parameter!($k))*) -> result!($r) {
            #[allow(unused_mut)]
            let mut call = Call::of(self);
            $(put!(call, $k, $p);)*
            returned!($r, call, Id::$f)
        }
    };
    // Constructors without a tensor, and lists of tensors: by hand where they need a device.
    ($($rest:tt)*) => {};
}

macro_rules! methods {
    ($($module:ident $category:ident {
        $($function:ident($($parameter:ident: $kind:ident $(= $default:expr)?),*) -> $returns:ident;)*
    })*) => {
        impl Tensor {
            $($(method!($category $function ($($parameter: $kind),*) -> $returns);)*)*
        }
    };
}
lanthorn_ir::each_op!(methods);

/// The arguments of one call, in the order of the table.
#[derive(Default)]
struct Call<'a> {
    tensors: SmallVec<[Option<&'a Tensor>; 4]>,
    attributes: SmallVec<[Attribute; 4]>,
}

impl<'a> Call<'a> {
    fn of(x: &'a Tensor) -> Call<'a> {
        Call { tensors: SmallVec::from_slice(&[Some(x)]), ..Call::default() }
    }

    fn all(self, id: Id) -> Result<Vec<Tensor>> {
        let name = OPS[id as usize].name;
        let given: SmallVec<[&Tensor; 4]> = self.tensors.iter().flatten().copied().collect();
        Tensor::outputs(name, &given, |lazy| {
            counting::call(lazy, id as usize, &given, &self.tensors, &self.attributes)
        })
    }

    fn one(self, id: Id) -> Result<Tensor> {
        let name = OPS[id as usize].name;
        self.all(id)?.pop().ok_or_else(|| Error::unsupported(name, "gave no result"))
    }
}

/// Methods whose second operand is a number: an argument of the program unless it is structural.
macro_rules! scalar_methods {
    ($($name:ident => $binary:expr;)*) => {
        impl Tensor {$(
            #[doc = concat!("See [`", stringify!($name), "`](lanthorn_ir::ops::", stringify!($name), "()).")]
            pub fn $name(&self, y: impl Into<Scalar>) -> Result<Tensor> {
                let y = y.into();
                if is_structural(y) {
                    return Tensor::apply(stringify!($name), [self], |lazy, [x]| ops::$name(lazy, x, y));
                }
                let y = self.operand(stringify!($name), y)?;
                let binary: fn(&Lazy, &Value, &Value) -> Result<Value> = $binary;
                Tensor::apply(stringify!($name), [self], |lazy, [x]| binary(lazy, x, &y))
            }
        )*}
    };
}

scalar_methods! {
    add_scalar => ops::add;
    sub_scalar => ops::sub;
    rsub_scalar => |lazy, x, y| ops::sub(lazy, y, x);
    mul_scalar => ops::mul;
    div_scalar => ops::div;
    rem_scalar => ops::rem;
    remainder_scalar => ops::remainder;
    floor_divide_scalar => ops::floor_divide;
    maximum_scalar => ops::maximum;
    minimum_scalar => ops::minimum;
    eq_scalar => ops::eq;
    ne_scalar => ops::ne;
    lt_scalar => ops::lt;
    le_scalar => ops::le;
    gt_scalar => ops::gt;
    ge_scalar => ops::ge;
    full_like => |lazy, x, y| ops::broadcast_to(lazy, y, &x.ty().shape);
}

impl Tensor {
    /// A number as a leaf beside this tensor: of its dtype, refused where that cannot hold it.
    fn operand(&self, name: &str, value: Scalar) -> Result<Value> {
        let value = ops::pointwise::scalar_beside(name, self.dtype(), value)?;
        slot::leaf(crate::eager::EagerTensor::scalar(self.device(), value, self.dtype())?)
    }

    /// The elements converted to `dtype`.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        self.cast(dtype)
    }

    /// Each element 0 with probability `p`, else divided by `1 - p`; draws from the device's random sequence.
    pub fn dropout(&self, p: f64) -> Result<Tensor> {
        let key = Tensor::random_key(self.device())?;
        Tensor::apply("dropout", [self, &key], |lazy, [x, key]| ops::dropout(lazy, x, p, key, 0))
    }

    /// See [`cross_entropy`](lanthorn_ir::ops::cross_entropy()): with classes on the last axis, all of one weight, and
    /// sharp targets. [`Tensor::call`] takes the rest.
    pub fn cross_entropy(
        &self,
        targets: &Tensor,
        reduction: Reduction,
        ignore: Option<i64>,
    ) -> Result<Tensor> {
        let mut call = Call::of(self);
        call.tensors.push(Some(targets));
        call.attributes.push(reduction.into());
        call.attributes.push(ignore.into());
        call.one(Id::cross_entropy)
    }

    /// One AdamW step; see [`adamw`](lanthorn_ir::ops::adamw()). Gives `[parameter, m, v]`.
    pub fn adamw(
        &self,
        grad: &Tensor,
        moments: [&Tensor; 2],
        controls: [&Tensor; 3],
        betas: [f64; 2],
        eps: f64,
        weight_decay: f64,
    ) -> Result<Vec<Tensor>> {
        let [m, v] = moments;
        let [lr, bias1, bias2] = controls;
        let tensors = [self, grad, m, v, lr, bias1, bias2].map(Some);
        let attributes = [betas[0], betas[1], eps, weight_decay].map(Attribute::Float);
        Tensor::call("adamw", &tensors, &attributes)
    }

    /// Tensors one after the other along an axis.
    pub fn concat<T: Borrow<Tensor>>(tensors: &[T], axis: isize) -> Result<Tensor> {
        joined("concat", tensors, |lazy, values| ops::concat(lazy, values, axis))
    }

    /// Tensors side by side along a new axis.
    pub fn stack<T: Borrow<Tensor>>(tensors: &[T], axis: isize) -> Result<Tensor> {
        joined("stack", tensors, |lazy, values| ops::stack(lazy, values, axis))
    }

    /// Sums of products by labels, such as `"ij,jk->ik"`; see [`einsum`](lanthorn_ir::ops::einsum()).
    pub fn einsum<T: Borrow<Tensor>>(operands: &[T], equation: &str) -> Result<Tensor> {
        joined("einsum", operands, |lazy, values| ops::einsum(lazy, values, equation))
    }

    /// The product of two or more matrices in the order of least work.
    pub fn multi_dot<T: Borrow<Tensor>>(matrices: &[T]) -> Result<Tensor> {
        joined("multi_dot", matrices, ops::multi_dot)
    }

    /// Matrices along the diagonal of one.
    pub fn block_diag<T: Borrow<Tensor>>(matrices: &[T]) -> Result<Tensor> {
        joined("block_diag", matrices, ops::block_diag)
    }

    /// Any op by its name in the [table](lanthorn_ir::ops::table::OPS); at least one tensor is given.
    pub fn call(name: &str, tensors: &[Option<&Tensor>], attributes: &[Attribute]) -> Result<Vec<Tensor>> {
        let given: Vec<&Tensor> = tensors.iter().flatten().copied().collect();
        let Some(id) = table::id_of(name) else {
            return Err(Error::unsupported(name, "there is no op of this name"));
        };
        Tensor::outputs(name, &given, |lazy| counting::call(lazy, id, &given, tensors, attributes))
    }
}

fn joined<T: Borrow<Tensor>>(
    name: &str,
    tensors: &[T],
    join: impl FnOnce(&Lazy, &[Value]) -> Result<Value>,
) -> Result<Tensor> {
    let values: Vec<Value> = tensors.iter().map(|tensor| tensor.borrow().value()).collect();
    let mut outputs = Tensor::outputs(name, tensors, |lazy| Ok(smallvec![join(lazy, &values)?]))?;
    outputs.pop().ok_or_else(|| Error::unsupported(name, "gave no result"))
}
