//! Matrix products.

use super::{
    add, broadcast_to, cast, complex, mul, mul_scalar, permute_to, reshape_to, shape_of, sum, transpose,
    unsqueeze,
};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Scalar;
use crate::layout::{Dims, ShowShape, broadcast_shapes, numel, resolve_axis};
use crate::prim::{Contract, Prim};

/// The matrix product `[batch.., m, k] x [batch.., k, n]`; batch axes broadcast, an operand of rank 1 is a
/// row on the left and a column on the right and its axis goes away, as in NumPy and torch.
pub fn matmul<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let out = b.ty(x).dtype;
    matmul_as(b, x, y, out)
}

/// [`matmul`] with the accumulated result rounded once to `out`.
pub fn matmul_as<B: Builder>(b: &B, x: &B::Value, y: &B::Value, out: DType) -> Result<B::Value> {
    let (sx, sy) = (shape_of(b, x), shape_of(b, y));
    if sx.is_empty() || sy.is_empty() {
        return Err(Error::shape(
            "matmul",
            format!("shapes {} and {}: each operand needs at least one axis", ShowShape(&sx), ShowShape(&sy)),
        ));
    }
    if sx.len() == 1 {
        let product = matmul_as(b, &unsqueeze(b, x, 0)?, y, out)?;
        let mut shape = shape_of(b, &product);
        // With a column on the right, the inner call has dropped its axis already.
        shape.remove(if sy.len() == 1 { shape.len() - 1 } else { shape.len() - 2 });
        return reshape_to(b, &product, &shape);
    }
    if sy.len() == 1 {
        let product = matmul_as(b, x, &unsqueeze(b, y, -1)?, out)?;
        let shape = shape_of(b, &product);
        return reshape_to(b, &product, &shape[..shape.len() - 1]);
    }
    let (mut x, mut y) = (x.clone(), y.clone());
    let (lead, m, k) = (&sx[..sx.len() - 2], sx[sx.len() - 2], sx[sx.len() - 1]);
    if sy.len() == 2 && !lead.is_empty() && k == sy[0] {
        // One matrix on the right: the batch folds into the rows of one product.
        let rows = rows_of("matmul", lead, m)?;
        let product = product(b, reshape_to(b, &x, &[rows, k])?, y, out)?;
        let mut shape = Dims::from_slice(lead);
        shape.extend([m, sy[1]]);
        return reshape_to(b, &product, &shape);
    }
    let batch = broadcast_shapes("matmul", lead, &sy[..sy.len() - 2])?;
    for (operand, shape) in [(&mut x, &sx), (&mut y, &sy)] {
        let mut full = batch.clone();
        full.extend_from_slice(&shape[shape.len() - 2..]);
        *operand = broadcast_to(b, operand, &full)?;
    }
    product(b, x, y, out)
}

fn product<B: Builder>(b: &B, x: B::Value, y: B::Value, out: DType) -> Result<B::Value> {
    if let (Some(part), true) = (b.ty(&x).dtype.part(), b.ty(&x).dtype == out) {
        return complex::matrix_product(b, &x, &y, |x, y| product(b, x.clone(), y.clone(), part));
    }
    b.apply1(Prim::Contract(Contract::MatMul { out }), &[x, y])
}

fn rows_of(op: &str, lead: &[usize], rows: usize) -> Result<usize> {
    numel(lead).checked_mul(rows).ok_or_else(|| Error::shape(op, "the sizes overflow"))
}

/// `x [.., in]` times `weight [out, in]` transposed, plus `bias [out]`: `[.., out]`. Leading axes fold into
/// the rows of one product.
pub fn linear<B: Builder>(
    b: &B,
    x: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
) -> Result<B::Value> {
    let (sx, sw) = (shape_of(b, x), shape_of(b, weight));
    let fits = !sx.is_empty() && sw.len() == 2 && sx[sx.len() - 1] == sw[1];
    if !fits {
        return Err(Error::shape(
            "linear",
            format!(
                "x {} and weight {} do not fit; expected [.., in] and [out, in]",
                ShowShape(&sx),
                ShowShape(&sw)
            ),
        ));
    }
    if let Some(bias) = bias {
        crate::prim::expect_shape("linear", "bias", b.ty(bias), &sw[..1])?;
    }
    let rows = numel(&sx[..sx.len() - 1]);
    let flat = reshape_to(b, x, &[rows, sw[1]])?;
    let dtype = b.ty(x).dtype;
    let mut y = product(b, flat, transpose(b, weight, 0, 1)?, dtype)?;
    if let Some(bias) = bias {
        y = add(b, &y, bias)?;
    }
    let mut shape = sx;
    let last = shape.len() - 1;
    shape[last] = sw[0];
    reshape_to(b, &y, &shape)
}

/// The inner product of the last axes, `[.., n] x [.., n] -> [..]`; half types accumulate in f32.
pub fn dot<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    let dtype = b.ty(x).dtype;
    let wide = mul(b, &cast(b, x, dtype.wide())?, &cast(b, y, dtype.wide())?)?;
    cast(b, &sum(b, &wide, &[-1], false)?, dtype)
}

/// The outer product `[m] x [n] -> [m, n]`.
pub fn outer<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    mul(b, &unsqueeze(b, x, -1)?, &unsqueeze(b, y, 0)?)
}

fn require_ranks<B: Builder>(b: &B, op: &str, operands: [&B::Value; 2], ranks: [usize; 2]) -> Result<()> {
    let [x, y] = operands.map(|x| b.ty(x));
    if [x.rank(), y.rank()] == ranks {
        return Ok(());
    }
    let [left, right] = ranks;
    Err(Error::shape(op, format!("operands are {x} and {y}, expected ranks {left} and {right}")))
}

/// The product of two matrices, `[m, k] x [k, n] -> [m, n]`; nothing broadcasts.
pub fn mm<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    require_ranks(b, "mm", [x, y], [2, 2])?;
    matmul(b, x, y)
}

/// Products of two batches of matrices, `[b, m, k] x [b, k, n] -> [b, m, n]`; nothing broadcasts.
pub fn bmm<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    require_ranks(b, "bmm", [x, y], [3, 3])?;
    if b.ty(x).shape[0] != b.ty(y).shape[0] {
        return Err(Error::shape(
            "bmm",
            format!("operands are {} and {}: the batches differ", b.ty(x), b.ty(y)),
        ));
    }
    matmul(b, x, y)
}

/// A matrix times a vector, `[m, k] x [k] -> [m]`.
pub fn mv<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    require_ranks(b, "mv", [x, y], [2, 1])?;
    matmul(b, x, y)
}

/// `beta * input + alpha * product`, in the wide type and rounded once. A `beta` of 0 leaves `input` out, NaN and all.
fn add_product<B: Builder>(
    b: &B,
    op: &str,
    input: &B::Value,
    operands: [&B::Value; 2],
    beta: Scalar,
    alpha: Scalar,
) -> Result<B::Value> {
    let [x, y] = operands;
    let dtype = b.ty(x).dtype;
    if b.ty(input).dtype != dtype {
        let found = b.ty(input).dtype;
        return Err(Error::dtype(op, format!("input is {found} but the matrices {dtype}; cast one of them")));
    }
    let mut sum = matmul_as(b, x, y, dtype.wide())?;
    let shape = shape_of(b, &sum);
    let fits = broadcast_shapes(op, &b.ty(input).shape, &shape)? == shape;
    if !fits {
        let input = b.ty(input);
        return Err(Error::shape(op, format!("input {input} does not broadcast to {}", ShowShape(&shape))));
    }
    if alpha.as_f64() != 1.0 {
        sum = mul_scalar(b, &sum, alpha)?;
    }
    if beta.as_f64() != 0.0 {
        let mut start = cast(b, input, dtype.wide())?;
        if beta.as_f64() != 1.0 {
            start = mul_scalar(b, &start, beta)?;
        }
        sum = add(b, &start, &sum)?;
    }
    cast(b, &sum, dtype)
}

/// `beta * input + alpha * x y` for matrices `x [m, k]`, `y [k, n]`; `input` broadcasts to `[m, n]` and is left out,
/// NaN and all, if `beta` is 0.
pub fn addmm<B: Builder>(
    b: &B,
    input: &B::Value,
    x: &B::Value,
    y: &B::Value,
    beta: impl Into<Scalar>,
    alpha: impl Into<Scalar>,
) -> Result<B::Value> {
    require_ranks(b, "addmm", [x, y], [2, 2])?;
    add_product(b, "addmm", input, [x, y], beta.into(), alpha.into())
}

/// [`addmm`] for batches `x [b, m, k]`, `y [b, k, n]`.
pub fn baddbmm<B: Builder>(
    b: &B,
    input: &B::Value,
    x: &B::Value,
    y: &B::Value,
    beta: impl Into<Scalar>,
    alpha: impl Into<Scalar>,
) -> Result<B::Value> {
    require_ranks(b, "baddbmm", [x, y], [3, 3])?;
    if b.ty(x).shape[0] != b.ty(y).shape[0] {
        let (x, y) = (b.ty(x), b.ty(y));
        return Err(Error::shape("baddbmm", format!("operands are {x} and {y}: the batches differ")));
    }
    add_product(b, "baddbmm", input, [x, y], beta.into(), alpha.into())
}

/// Sums of products over the last axes, `[x.., n] x [y.., n] -> [x.., y..]`; a value of rank 0 scales the other.
pub fn inner<B: Builder>(b: &B, x: &B::Value, y: &B::Value) -> Result<B::Value> {
    if b.ty(x).rank() == 0 || b.ty(y).rank() == 0 {
        return mul(b, x, y);
    }
    contract(b, "inner", x, y, &[-1], &[-1])
}

/// Sums of products along one axis, counted after the shapes have broadcast, of complex operands with the conjugate of
/// `x`; half types accumulate in f32 (torch `linalg.vecdot`).
pub fn vecdot<B: Builder>(b: &B, x: &B::Value, y: &B::Value, axis: isize) -> Result<B::Value> {
    let shape = broadcast_shapes("vecdot", &b.ty(x).shape, &b.ty(y).shape)?;
    let axis = resolve_axis("vecdot", axis, shape.len())? as isize;
    let dtype = b.ty(x).dtype;
    let x = if dtype.is_complex() { super::conj(b, x)? } else { x.clone() };
    let wide = mul(b, &cast(b, &x, dtype.wide())?, &cast(b, y, b.ty(y).dtype.wide())?)?;
    cast(b, &sum(b, &wide, &[axis], false)?, dtype)
}

/// Sums of products over pairs of axes, `axes_x[i]` of `x` with `axes_y[i]` of `y`; the result has the other axes of
/// `x`, then those of `y`. No axes at all give the outer product.
pub fn tensordot<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    axes_x: &[isize],
    axes_y: &[isize],
) -> Result<B::Value> {
    contract(b, "tensordot", x, y, axes_x, axes_y)
}

fn contract<B: Builder>(
    b: &B,
    op: &str,
    x: &B::Value,
    y: &B::Value,
    axes_x: &[isize],
    axes_y: &[isize],
) -> Result<B::Value> {
    let (sx, sy) = (shape_of(b, x), shape_of(b, y));
    let resolve = |axes: &[isize], rank: usize| -> Result<Dims> {
        let resolved: Dims = axes.iter().map(|&a| resolve_axis(op, a, rank)).collect::<Result<_>>()?;
        match (1..resolved.len()).find(|&i| resolved[..i].contains(&resolved[i])) {
            Some(i) => Err(Error::shape(op, format!("axis {} is named twice", axes[i]))),
            None => Ok(resolved),
        }
    };
    let (ax, ay) = (resolve(axes_x, sx.len())?, resolve(axes_y, sy.len())?);
    let fits = ax.len() == ay.len() && ax.iter().zip(&ay).all(|(&i, &j)| sx[i] == sy[j]);
    if !fits {
        return Err(Error::shape(
            op,
            format!(
                "axes {axes_x:?} of {} and {axes_y:?} of {} do not pair; expected equal sizes",
                ShowShape(&sx),
                ShowShape(&sy)
            ),
        ));
    }
    let rest = |axes: &Dims, rank: usize| -> Dims { (0..rank).filter(|a| !axes.contains(a)).collect() };
    let (rx, ry) = (rest(&ax, sx.len()), rest(&ay, sy.len()));
    let pick = |shape: &Dims, axes: &Dims| -> Dims { axes.iter().map(|&a| shape[a]).collect() };
    let (rows, columns, inner) = (pick(&sx, &rx), pick(&sy, &ry), numel(&pick(&sx, &ax)));
    let left = permute_to(b, x, &rx.iter().chain(&ax).copied().collect::<Dims>())?;
    let right = permute_to(b, y, &ay.iter().chain(&ry).copied().collect::<Dims>())?;
    let left = reshape_to(b, &left, &[numel(&rows), inner])?;
    let right = reshape_to(b, &right, &[inner, numel(&columns)])?;
    let mut shape = rows;
    shape.extend(columns);
    reshape_to(b, &matmul(b, &left, &right)?, &shape)
}

/// The product of two or more matrices, in the order of least work (Cormen et al., "Introduction to Algorithms",
/// section 14.2). The first may be a row of rank 1, the last a column of rank 1, whose axis goes away.
pub fn multi_dot<B: Builder>(b: &B, matrices: &[B::Value]) -> Result<B::Value> {
    let op = "multi_dot";
    let count = matrices.len();
    if count < 2 {
        return Err(Error::shape(op, format!("takes at least two operands, got {count}")));
    }
    let mut factors = Vec::with_capacity(count);
    for (at, x) in matrices.iter().enumerate() {
        factors.push(match (b.ty(x).rank(), at) {
            (2, _) => x.clone(),
            (1, 0) => unsqueeze(b, x, 0)?,
            (1, at) if at + 1 == count => unsqueeze(b, x, -1)?,
            _ => return Err(Error::shape(op, format!("operand {at} is {}, expected a matrix", b.ty(x)))),
        });
    }
    for (at, pair) in factors.windows(2).enumerate() {
        let (x, y) = (b.ty(&pair[0]), b.ty(&pair[1]));
        if x.shape[1] != y.shape[0] {
            return Err(Error::shape(
                op,
                format!("operands {at} and {} are {x} and {y}: they do not multiply", at + 1),
            ));
        }
    }
    let mut sizes: Vec<f64> = factors.iter().map(|x| b.ty(x).shape[0] as f64).collect();
    sizes.push(b.ty(&factors[count - 1]).shape[1] as f64);
    let splits = best_splits(&sizes);
    let product = product_of(b, &factors, &splits, 0, count - 1)?;
    let shape = shape_of(b, &product);
    let is_row = b.ty(&matrices[0]).rank() == 1;
    let is_column = b.ty(&matrices[count - 1]).rank() == 1;
    reshape_to(b, &product, &shape[usize::from(is_row)..shape.len() - usize::from(is_column)])
}

/// `splits[i][j]`: after which factor the cheapest product of the factors `i..=j` is cut.
fn best_splits(sizes: &[f64]) -> Vec<Vec<usize>> {
    let count = sizes.len() - 1;
    let mut cost = vec![vec![0.0; count]; count];
    let mut splits = vec![vec![0; count]; count];
    for length in 1..count {
        for i in 0..count - length {
            let j = i + length;
            cost[i][j] = f64::INFINITY;
            for cut in i..j {
                let total = cost[i][cut] + cost[cut + 1][j] + sizes[i] * sizes[cut + 1] * sizes[j + 1];
                if total < cost[i][j] {
                    (cost[i][j], splits[i][j]) = (total, cut);
                }
            }
            // Sizes of which every product is infinite cannot be compared.
            if cost[i][j] == f64::INFINITY {
                splits[i][j] = j - 1;
            }
        }
    }
    splits
}

fn product_of<B: Builder>(
    b: &B,
    factors: &[B::Value],
    splits: &[Vec<usize>],
    first: usize,
    last: usize,
) -> Result<B::Value> {
    // A stack of ranges: a range is entered, its halves are done, then they are multiplied.
    enum Step {
        Enter(usize, usize),
        Multiply,
    }
    let mut steps = vec![Step::Enter(first, last)];
    let mut done: Vec<B::Value> = Vec::new();
    while let Some(step) = steps.pop() {
        match step {
            Step::Enter(i, j) if i == j => done.push(factors[i].clone()),
            Step::Enter(i, j) => {
                let cut = splits[i][j];
                steps.extend([Step::Multiply, Step::Enter(cut + 1, j), Step::Enter(i, cut)]);
            }
            Step::Multiply => {
                if let (Some(right), Some(left)) = (done.pop(), done.pop()) {
                    done.push(matmul(b, &left, &right)?);
                }
            }
        }
    }
    done.pop().ok_or_else(|| Error::shape("multi_dot", "takes at least two operands, got none"))
}

/// `out[.., o] = x W_o y + bias_o` for `x [.., m]`, `y [.., n]` of one batch, `weight [o, m, n]` and `bias [o]`.
pub fn bilinear<B: Builder>(
    b: &B,
    x: &B::Value,
    y: &B::Value,
    weight: &B::Value,
    bias: Option<&B::Value>,
) -> Result<B::Value> {
    let op = "bilinear";
    let (sx, sy, sw) = (shape_of(b, x), shape_of(b, y), shape_of(b, weight));
    let fits = match (&sx[..], &sy[..], &sw[..]) {
        ([lead @ .., m], [other @ .., n], [_, rows, columns]) => lead == other && m == rows && n == columns,
        _ => false,
    };
    if !fits {
        return Err(Error::shape(
            op,
            format!(
                "x {}, y {} and weight {} do not fit; expected [.., m], [.., n] and [o, m, n]",
                ShowShape(&sx),
                ShowShape(&sy),
                ShowShape(&sw)
            ),
        ));
    }
    if let Some(bias) = bias {
        crate::prim::expect_shape(op, "bias", b.ty(bias), &sw[..1])?;
    }
    let dtype = b.ty(x).dtype;
    let (lead, o, m, n) = (&sx[..sx.len() - 1], sw[0], sw[1], sw[2]);
    let count = numel(lead);
    // x W: [batch, m] x [m, o * n], then a product of rows with y.
    let columns = o.checked_mul(n).ok_or_else(|| Error::shape(op, "the sizes overflow"))?;
    let flat = reshape_to(b, &permute_to(b, weight, &[1, 0, 2])?, &[m, columns])?;
    let rows = reshape_to(b, x, &[count, m])?;
    let half = reshape_to(b, &matmul_as(b, &rows, &flat, dtype.wide())?, &[count, o, n])?;
    let right = unsqueeze(b, &reshape_to(b, &cast(b, y, b.ty(y).dtype.wide())?, &[count, n])?, -1)?;
    let mut out = reshape_to(b, &matmul(b, &half, &right)?, &[count, o])?;
    if let Some(bias) = bias {
        out = add(b, &out, &cast(b, bias, dtype.wide())?)?;
    }
    let mut shape = Dims::from_slice(lead);
    shape.push(o);
    cast(b, &reshape_to(b, &out, &shape)?, dtype)
}
