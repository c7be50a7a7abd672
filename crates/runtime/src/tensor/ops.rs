//! The op library as methods. What an op does is written once, at its function in [`lanthorn_ir::ops`].

use std::borrow::Borrow;

use lanthorn_ir::expr::Scalar;
use lanthorn_ir::ops::table::{self, Attribute};
use lanthorn_ir::ops::{GeluApproximate, Reduction};
use lanthorn_ir::{DType, Error, Lazy, Result, Value, ops};

use super::Tensor;
use super::create::is_structural;
use crate::slot;

/// Methods that take tensors and then attributes, as their functions do.
macro_rules! methods {
    ($(fn $name:ident($x:ident $(, $tensor:ident)* $(; $($attribute:ident: $kind:ty),*)?);)*) => {
        impl Tensor {$(
            #[doc = concat!("See [`", stringify!($name), "`](lanthorn_ir::ops::", stringify!($name), "()).")]
            pub fn $name(&self $(, $tensor: &Tensor)* $($(, $attribute: $kind)*)?) -> Result<Tensor> {
                Tensor::apply(stringify!($name), [self $(, $tensor)*], |lazy, [$x $(, $tensor)*]| {
                    ops::$name(lazy, $x $(, $tensor)* $($(, $attribute)*)?)
                })
            }
        )*}

        #[cfg(test)]
        const METHODS: &[&str] = &[$(stringify!($name)),*];
    };
}

methods! {
    fn neg(x);
    fn abs(x);
    fn sign(x);
    fn floor(x);
    fn ceil(x);
    fn round(x);
    fn trunc(x);
    fn exp(x);
    fn expm1(x);
    fn log(x);
    fn log1p(x);
    fn sqrt(x);
    fn rsqrt(x);
    fn reciprocal(x);
    fn sin(x);
    fn cos(x);
    fn tanh(x);
    fn sigmoid(x);
    fn erf(x);
    fn relu(x);
    fn silu(x);
    fn logical_not(x);
    fn isfinite(x);
    fn add(x, y);
    fn sub(x, y);
    fn mul(x, y);
    fn div(x, y);
    fn rem(x, y);
    fn pow(x, y);
    fn maximum(x, y);
    fn minimum(x, y);
    fn eq(x, y);
    fn ne(x, y);
    fn lt(x, y);
    fn le(x, y);
    fn gt(x, y);
    fn ge(x, y);
    fn logical_and(x, y);
    fn logical_or(x, y);
    fn pow_scalar(x; exponent: impl Into<Scalar>);
    fn square(x);
    fn tan(x);
    fn exp2(x);
    fn log2(x);
    fn log10(x);
    fn softplus(x);
    fn log_sigmoid(x);
    fn leaky_relu(x; slope: f64);
    fn elu(x; alpha: f64);
    fn gelu(x; approximate: GeluApproximate);
    fn isnan(x);
    fn isinf(x);
    fn where_(condition, x, y);
    fn cast(x; dtype: DType);
    fn clamp(x; low: Option<Scalar>, high: Option<Scalar>);
    fn zeros_like(x);
    fn ones_like(x);
    fn one_hot(ids; classes: usize, dtype: DType);
    fn tril(x; diagonal: isize);
    fn triu(x; diagonal: isize);
    fn reshape(x; shape: &[isize]);
    fn flatten(x; start: isize, end: isize);
    fn permute(x; axes: &[isize]);
    fn transpose(x; first: isize, second: isize);
    fn move_axis(x; from: isize, to: isize);
    fn broadcast_to(x; shape: &[usize]);
    fn slice(x; axis: isize, start: isize, stop: Option<isize>, step: isize);
    fn narrow(x; axis: isize, start: isize, length: usize);
    fn select(x; axis: isize, index: isize);
    fn squeeze(x; axes: &[isize]);
    fn unsqueeze(x; axis: isize);
    fn flip(x; axes: &[isize]);
    fn pad(x; low: &[usize], high: &[usize], value: impl Into<Scalar>);
    fn repeat(x; repeats: &[usize]);
    fn repeat_interleave(x; times: usize, axis: isize);
    fn roll(x; shift: isize, axis: isize);
    fn diagonal(x; offset: isize, first: isize, second: isize);
    fn diag_embed(x; offset: isize, first: isize, second: isize);
    fn diag(x; offset: isize);
    fn trace(x; offset: isize);
    fn tile(x; repeats: &[usize]);
    fn swap_axes(x; first: isize, second: isize);
    fn move_axes(x; from: &[isize], to: &[isize]);
    fn expand(x; shape: &[isize]);
    fn unflatten(x; axis: isize, sizes: &[isize]);
    fn atleast_1d(x);
    fn atleast_2d(x);
    fn atleast_3d(x);
    fn rot90(x; turns: isize, first: isize, second: isize);
    fn roll_axes(x; shifts: &[isize], axes: &[isize]);
    fn cross(x, y; axis: isize);
    fn kron(x, y);
    fn sum(x; axes: &[isize], keepdim: bool);
    fn prod(x; axes: &[isize], keepdim: bool);
    fn max(x; axes: &[isize], keepdim: bool);
    fn min(x; axes: &[isize], keepdim: bool);
    fn mean(x; axes: &[isize], keepdim: bool);
    fn var(x; axes: &[isize], correction: f64, keepdim: bool);
    fn std(x; axes: &[isize], correction: f64, keepdim: bool);
    fn norm(x; axes: &[isize], keepdim: bool);
    fn argmax(x; axis: isize, keepdim: bool);
    fn argmin(x; axis: isize, keepdim: bool);
    fn logsumexp(x; axes: &[isize], keepdim: bool);
    fn any(x; axes: &[isize], keepdim: bool);
    fn all(x; axes: &[isize], keepdim: bool);
    fn weighted_mean(x, weight);
    fn matmul(x, y);
    fn matmul_as(x, y; out: DType);
    fn dot(x, y);
    fn outer(x, y);
    fn embedding(table, ids);
    fn embedding_grad(grad, ids; rows: usize);
    fn take_along_axis(x, ids; axis: isize);
    fn take(x, ids);
    fn searchsorted(sorted, values; right: bool);
    fn bucketize(values, edges; right: bool);
    fn isin(x, elements);
    fn masked_fill(x, mask; value: Scalar);
    fn masked_scatter(x, mask, source);
    fn histc(x; bins: usize, low: f64, high: f64);
    fn nonzero(x; size: Option<usize>, fill: i64);
    fn argwhere(x; size: Option<usize>);
    fn masked_select(x, mask; size: Option<usize>, fill: Scalar);
    fn repeat_counts(x, counts; axis: isize, size: Option<usize>);
    fn cumsum(x; axis: isize);
    fn cumprod(x; axis: isize);
    fn logcumsumexp(x; axis: isize);
    fn argsort(x; axis: isize, descending: bool);
    fn msort(x);
    fn quantile(x, q; axis: Option<isize>, keepdim: bool);
    fn nanquantile(x, q; axis: Option<isize>, keepdim: bool);
    fn softmax(x; axis: isize);
    fn log_softmax(x; axis: isize);
    fn cross_entropy(logits, targets; reduction: Reduction, ignore: Option<i64>);
    fn mse_loss(x, y; reduction: Reduction);
    fn l1_loss(x, y; reduction: Reduction);
    fn huber_loss(x, y; delta: f64, reduction: Reduction);
    fn binary_cross_entropy_with_logits(logits, targets; reduction: Reduction);
    fn update_slice(base, source, start; axis: isize);
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

        #[cfg(test)]
        const SCALAR_METHODS: &[&str] = &[$(stringify!($name)),*];
    };
}

scalar_methods! {
    add_scalar => ops::add;
    sub_scalar => ops::sub;
    rsub_scalar => |lazy, x, y| ops::sub(lazy, y, x);
    mul_scalar => ops::mul;
    div_scalar => ops::div;
    rem_scalar => ops::rem;
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

    /// `x [.., in]` times `weight [out, in]` transposed, plus `bias [out]`.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        match bias {
            Some(bias) => Tensor::apply("linear", [self, weight, bias], |lazy, [x, weight, bias]| {
                ops::linear(lazy, x, weight, Some(bias))
            }),
            None => Tensor::apply("linear", [self, weight], |lazy, [x, w]| ops::linear(lazy, x, w, None)),
        }
    }

    /// See [`layer_norm`](lanthorn_ir::ops::layer_norm()).
    pub fn layer_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        self.with_optional("layer_norm", &[weight, bias], &[Attribute::Float(eps)])
    }

    /// See [`rms_norm`](lanthorn_ir::ops::rms_norm()).
    pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        self.with_optional("rms_norm", &[weight], &[Attribute::Float(eps)])
    }

    /// See [`scaled_dot_product_attention`](lanthorn_ir::ops::scaled_dot_product_attention()).
    pub fn scaled_dot_product_attention(
        &self,
        k: &Tensor,
        v: &Tensor,
        causal: bool,
        scale: Option<f64>,
        past: Option<&Tensor>,
    ) -> Result<Tensor> {
        let attributes = attention_attributes(causal, scale);
        self.with_optional("scaled_dot_product_attention", &[Some(k), Some(v), past], &attributes)
    }

    /// See [`attention`](lanthorn_ir::ops::attention()).
    pub fn attention(
        &self,
        k: &Tensor,
        v: &Tensor,
        causal: bool,
        scale: Option<f64>,
        past: Option<&Tensor>,
    ) -> Result<Tensor> {
        self.with_optional("attention", &[Some(k), Some(v), past], &attention_attributes(causal, scale))
    }

    /// Each element 0 with probability `p`, else divided by `1 - p`; draws from the device's random sequence.
    pub fn dropout(&self, p: f64) -> Result<Tensor> {
        let key = Tensor::random_key(self.device())?;
        Tensor::apply("dropout", [self, &key], |lazy, [x, key]| ops::dropout(lazy, x, p, key, 0))
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

    /// Parts of the given sizes along an axis.
    pub fn split_sizes(&self, sizes: &[usize], axis: isize) -> Result<Vec<Tensor>> {
        let x = self.value();
        Tensor::outputs("split_sizes", &[self], |lazy| ops::split_sizes(lazy, &x, sizes, axis))
    }

    /// Parts of one size along an axis; the last may be smaller.
    pub fn split(&self, size: usize, axis: isize) -> Result<Vec<Tensor>> {
        let x = self.value();
        Tensor::outputs("split", &[self], |lazy| ops::split(lazy, &x, size, axis))
    }

    /// At most `count` parts of one size along an axis.
    pub fn chunk(&self, count: usize, axis: isize) -> Result<Vec<Tensor>> {
        let x = self.value();
        Tensor::outputs("chunk", &[self], |lazy| ops::chunk(lazy, &x, count, axis))
    }

    /// Any op by its name in the [table](lanthorn_ir::ops::table::OPS); at least one tensor is given.
    pub fn call(name: &str, tensors: &[Option<&Tensor>], attributes: &[Attribute]) -> Result<Vec<Tensor>> {
        let given: Vec<&Tensor> = tensors.iter().flatten().copied().collect();
        let values: Vec<Option<Value>> = tensors.iter().map(|t| t.map(Tensor::value)).collect();
        Tensor::outputs(name, &given, |lazy| table::call(lazy, name, &values, attributes))
    }

    fn with_optional(
        &self,
        name: &str,
        others: &[Option<&Tensor>],
        attributes: &[Attribute],
    ) -> Result<Tensor> {
        let tensors: Vec<Option<&Tensor>> =
            std::iter::once(Some(self)).chain(others.iter().copied()).collect();
        let mut outputs = Tensor::call(name, &tensors, attributes)?;
        outputs.pop().ok_or_else(|| Error::unsupported(name, "gave no result"))
    }
}

fn attention_attributes(causal: bool, scale: Option<f64>) -> [Attribute; 2] {
    [Attribute::Bool(causal), scale.map_or(Attribute::None, Attribute::Float)]
}

fn joined<T: Borrow<Tensor>>(
    name: &str,
    tensors: &[T],
    join: impl FnOnce(&Lazy, &[Value]) -> Result<Value>,
) -> Result<Tensor> {
    let values: Vec<Value> = tensors.iter().map(|tensor| tensor.borrow().value()).collect();
    let mut outputs = Tensor::outputs(name, tensors, |lazy| Ok(vec![join(lazy, &values)?]))?;
    outputs.pop().ok_or_else(|| Error::unsupported(name, "gave no result"))
}

#[cfg(test)]
mod tests {
    use lanthorn_ir::ops::table::{Category, OPS};

    use super::super::select;
    use super::*;

    #[test]
    fn every_op_that_takes_a_tensor_is_a_method() {
        let by_hand = [
            "linear",
            "layer_norm",
            "rms_norm",
            "scaled_dot_product_attention",
            "attention",
            "dropout",
            "adamw",
            "concat",
            "stack",
            "split_sizes",
            "split",
            "chunk",
        ];
        for op in OPS {
            let first = op.parameters.first().is_some_and(|p| p.kind.is_tensor());
            // Random ops are constructors that draw their own key.
            if !first || (op.category == Category::Random && op.name != "dropout") {
                continue;
            }
            let listed =
                [METHODS, SCALAR_METHODS, select::LISTS, select::ALONG, select::JOINS, select::BY_HAND];
            let is_method = listed.concat().iter().any(|m| m.trim_end_matches('_') == op.name);
            assert!(is_method || by_hand.contains(&op.name), "{} is no method of Tensor", op.name);
        }
    }
}
