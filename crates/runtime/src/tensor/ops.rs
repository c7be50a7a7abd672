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
    fn softplus(x; beta: f64, threshold: f64);
    fn log_sigmoid(x);
    fn leaky_relu(x; slope: f64);
    fn elu(x; alpha: f64);
    fn gelu(x; approximate: GeluApproximate);
    fn sinh(x);
    fn cosh(x);
    fn asin(x);
    fn acos(x);
    fn atan(x);
    fn asinh(x);
    fn acosh(x);
    fn atanh(x);
    fn atan2(x, y);
    fn hypot(x, y);
    fn copysign(x, y);
    fn shift_left(x, y);
    fn shift_right(x, y);
    fn bitwise_and(x, y);
    fn bitwise_or(x, y);
    fn bitwise_xor(x, y);
    fn bitwise_not(x);
    fn logical_xor(x, y);
    fn remainder(x, y);
    fn floor_divide(x, y);
    fn trunc_divide(x, y);
    fn frac(x);
    fn deg2rad(x);
    fn rad2deg(x);
    fn logaddexp(x, y);
    fn logaddexp2(x, y);
    fn lerp(x, y, weight);
    fn addcmul(x, y, z; value: impl Into<Scalar>);
    fn addcdiv(x, y, z; value: impl Into<Scalar>);
    fn nan_to_num(x; nan: f64, posinf: Option<f64>, neginf: Option<f64>);
    fn isposinf(x);
    fn isneginf(x);
    fn signbit(x);
    fn isclose(x, y; rtol: f64, atol: f64, equal_nan: bool);
    fn heaviside(x, at_zero);
    fn fmax(x, y);
    fn fmin(x, y);
    fn ldexp(x, y);
    fn erfc(x);
    fn erfcx(x);
    fn log_erfcx(x);
    fn erfinv(x);
    fn erfcinv(x);
    fn ndtr(x);
    fn log_ndtr(x);
    fn ndtri(x);
    fn ndtri_exp(x);
    fn lgamma(x);
    fn digamma(x);
    fn polygamma(x; n: usize);
    fn mvlgamma(x; p: usize);
    fn i0(x);
    fn i0e(x);
    fn i1(x);
    fn i1e(x);
    fn xlogy(x, y);
    fn xlog1py(x, y);
    fn entr(x);
    fn logit(x; eps: Option<f64>);
    fn sinc(x);
    fn prelu(x, weight);
    fn celu(x; alpha: f64);
    fn selu(x);
    fn hardtanh(x; low: f64, high: f64);
    fn relu6(x);
    fn hardsigmoid(x);
    fn hardswish(x);
    fn softsign(x);
    fn mish(x);
    fn tanhshrink(x);
    fn softshrink(x; lambda: f64);
    fn hardshrink(x; lambda: f64);
    fn threshold(x; threshold: f64, value: f64);
    fn glu(x; axis: isize);
    fn quick_gelu(x);
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
    fn diagonal(x);
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
    fn softmax(x; axis: isize);
    fn log_softmax(x; axis: isize);
    fn mse_loss(x, y; reduction: Reduction);
    fn l1_loss(x, y; reduction: Reduction);
    fn huber_loss(x, y; delta: f64, reduction: Reduction);
    fn smooth_l1_loss(x, y; beta: f64, reduction: Reduction);
    fn hinge_loss(x, targets; reduction: Reduction);
    fn soft_margin_loss(x, targets; reduction: Reduction);
    fn hinge_embedding_loss(x, targets; margin: f64, reduction: Reduction);
    fn poisson_nll_loss(x, targets; log_input: bool, full: bool, eps: f64, reduction: Reduction);
    fn gaussian_nll_loss(x, targets, variance; full: bool, eps: f64, reduction: Reduction);
    fn quantile_loss(x, targets, quantiles; reduction: Reduction);
    fn kl_div(x, targets; reduction: Reduction, log_target: bool);
    fn cosine_similarity(x, y; axis: isize, eps: f64);
    fn pairwise_distance(x, y; p: f64, eps: f64, keepdim: bool);
    fn cosine_embedding_loss(x, y, targets; margin: f64, reduction: Reduction);
    fn margin_ranking_loss(x, y, targets; margin: f64, reduction: Reduction);
    fn triplet_margin_loss(
        anchor, positive, negative; margin: f64, p: f64, eps: f64, swap: bool, reduction: Reduction
    );
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

    /// `x [.., in]` times `weight [out, in]` transposed, plus `bias [out]`.
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        match bias {
            Some(bias) => Tensor::apply("linear", [self, weight, bias], |lazy, [x, weight, bias]| {
                ops::linear(lazy, x, weight, Some(bias))
            }),
            None => Tensor::apply("linear", [self, weight], |lazy, [x, w]| ops::linear(lazy, x, w, None)),
        }
    }

    /// See [`index_select`](lanthorn_ir::ops::index_select()).
    pub fn index_select(&self, axis: isize, ids: &Tensor) -> Result<Tensor> {
        Tensor::apply("index_select", [self, ids], |lazy, [x, ids]| ops::index_select(lazy, x, axis, ids))
    }

    /// See [`gather`](lanthorn_ir::ops::gather()).
    pub fn gather(&self, axis: isize, ids: &Tensor) -> Result<Tensor> {
        Tensor::apply("gather", [self, ids], |lazy, [x, ids]| ops::gather(lazy, x, axis, ids))
    }

    /// See [`layer_norm`](lanthorn_ir::ops::layer_norm()).
    pub fn layer_norm(&self, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        self.with_optional("layer_norm", &[weight, bias], &[Attribute::Float(eps)])
    }

    /// See [`rms_norm`](lanthorn_ir::ops::rms_norm()).
    pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> {
        self.with_optional("rms_norm", &[weight], &[Attribute::Float(eps)])
    }

    /// See [`cross_entropy`](lanthorn_ir::ops::cross_entropy()): integer targets, classes on the last axis, all of one
    /// weight. [`Tensor::call`] takes the rest.
    pub fn cross_entropy(
        &self,
        targets: &Tensor,
        reduction: Reduction,
        ignore: Option<i64>,
    ) -> Result<Tensor> {
        Tensor::apply("cross_entropy", [self, targets], |lazy, [logits, targets]| {
            ops::cross_entropy(lazy, logits, targets, reduction, ignore, None, 0.0, -1)
        })
    }

    /// See [`nll_loss`](lanthorn_ir::ops::nll_loss()), with classes on the last axis, all of one weight.
    pub fn nll_loss(&self, targets: &Tensor, reduction: Reduction, ignore: Option<i64>) -> Result<Tensor> {
        Tensor::apply("nll_loss", [self, targets], |lazy, [x, targets]| {
            ops::nll_loss(lazy, x, targets, reduction, ignore, None, -1)
        })
    }

    /// See [`binary_cross_entropy`](lanthorn_ir::ops::binary_cross_entropy()).
    pub fn binary_cross_entropy(
        &self,
        targets: &Tensor,
        weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let reduction = Attribute::Text(reduction.word().into());
        self.with_optional("binary_cross_entropy", &[Some(targets), weight], &[reduction])
    }

    /// See [`binary_cross_entropy_with_logits`](lanthorn_ir::ops::binary_cross_entropy_with_logits()), all of one
    /// weight.
    pub fn binary_cross_entropy_with_logits(
        &self,
        targets: &Tensor,
        reduction: Reduction,
    ) -> Result<Tensor> {
        Tensor::apply("binary_cross_entropy_with_logits", [self, targets], |lazy, [logits, targets]| {
            ops::binary_cross_entropy_with_logits(lazy, logits, targets, reduction, None, None)
        })
    }

    /// See [`multilabel_soft_margin_loss`](lanthorn_ir::ops::multilabel_soft_margin_loss()).
    pub fn multilabel_soft_margin_loss(
        &self,
        targets: &Tensor,
        weight: Option<&Tensor>,
        reduction: Reduction,
    ) -> Result<Tensor> {
        let reduction = Attribute::Text(reduction.word().into());
        self.with_optional("multilabel_soft_margin_loss", &[Some(targets), weight], &[reduction])
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

    use super::*;

    #[test]
    fn every_op_that_takes_a_tensor_is_a_method() {
        let by_hand = [
            "linear",
            "index_select",
            "gather",
            "cross_entropy",
            "nll_loss",
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
            "multilabel_soft_margin_loss",
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
            let is_method = METHODS.iter().chain(SCALAR_METHODS).any(|m| m.trim_end_matches('_') == op.name);
            assert!(is_method || by_hand.contains(&op.name), "{} is no method of Tensor", op.name);
        }
    }
}
