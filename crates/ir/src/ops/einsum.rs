//! Einstein summation: products of tensors, summed over the labels that the result does not name.

use super::{cast, matmul_as, mul, permute_to, reshape_to, shape_of, slice_axis, sum};
use crate::builder::Builder;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::layout::{Dims, ShowShape, numel};

const OP: &str = "einsum";

/// An axis by name: letters by their code, the axes of an ellipsis after them, counted from its last.
type Label = usize;

/// The first label of an ellipsis.
const ELLIPSIS: Label = 128;

/// Sums of products by labels, as in NumPy and torch: `"bij,bjk->bik"` is a batch of matrix products. Each operand has a
/// term of letters, one an axis; `...` stands for any further axes, aligned at their last and broadcast; an axis of
/// size 1 broadcasts. A letter twice in a term takes the diagonal. Without `->` the result has the ellipsis and then,
/// in the order of the alphabet with capitals first, the letters that occur once. Spaces are free.
///
/// Of more than two operands, those are multiplied first that shrink the most. Half types accumulate in f32 and round
/// once.
pub fn einsum<B: Builder>(b: &B, operands: &[B::Value], equation: &str) -> Result<B::Value> {
    let Some(dtype) = operands.first().map(|x| b.ty(x).dtype) else {
        return Err(Error::shape(OP, "takes at least one operand, got none"));
    };
    if let Some(other) = operands.iter().find(|x| b.ty(x).dtype != dtype) {
        let found = b.ty(other).dtype;
        return Err(Error::dtype(OP, format!("operands are {dtype} and {found}; cast one of them")));
    }
    if dtype == DType::Bool {
        return Err(Error::dtype(OP, "operands are bool, expected numbers; cast them first"));
    }
    let (terms, output) = parse(b, operands, equation)?;
    let mut factors = operands
        .iter()
        .zip(terms)
        .enumerate()
        .map(|(at, (x, labels))| diagonals(b, at, x, labels))
        .collect::<Result<Vec<_>>>()?;
    drop_broadcast_axes(b, &mut factors)?;
    for at in 0..factors.len() {
        let alone: Vec<Label> = (factors[at].labels.iter().copied())
            .filter(|label| !output.contains(label) && !used_elsewhere(&factors, &[at], *label))
            .collect();
        factors[at] = summed(b, &factors[at], &alone)?;
    }
    while factors.len() > 1 {
        let (i, j) = cheapest(b, &factors, &output);
        let contracted: Vec<Label> = (factors[i].labels.iter().copied())
            .filter(|label| factors[j].labels.contains(label))
            .filter(|label| !output.contains(label) && !used_elsewhere(&factors, &[i, j], *label))
            .collect();
        // The later place first, so that the earlier one stays.
        let right = factors.remove(j);
        let product = contracted_pair(b, &factors[i], &right, &contracted)?;
        factors[i] = product;
    }
    let Some(Factor { value, labels }) = factors.pop() else {
        return Err(Error::shape(OP, "takes at least one operand, got none"));
    };
    let place = |label: &Label| labels.iter().position(|l| l == label);
    let order: Option<Dims> = output.iter().map(place).collect();
    let order = order.ok_or_else(|| Error::shape(OP, "a label of the result is in no operand"))?;
    cast(b, &permute_to(b, &value, &order)?, dtype)
}

/// A tensor with a label on each axis, none twice.
struct Factor<V> {
    value: V,
    labels: Vec<Label>,
}

/// The labels of every operand and of the result.
fn parse<B: Builder>(b: &B, operands: &[B::Value], equation: &str) -> Result<(Vec<Vec<Label>>, Vec<Label>)> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (text.as_str(), None),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != operands.len() {
        return Err(Error::shape(
            OP,
            format!("\"{equation}\" has {} terms for {} operands", terms.len(), operands.len()),
        ));
    }
    let mut labels = Vec::with_capacity(terms.len());
    let mut widest = 0;
    for (at, (term, x)) in terms.iter().zip(operands).enumerate() {
        let (before, after) = letters(equation, term)?;
        let rank = b.ty(x).rank();
        let named = before.len() + after.as_ref().map_or(0, Vec::len);
        let fits = if after.is_some() { named <= rank } else { named == rank };
        if !fits {
            return Err(Error::shape(
                OP,
                format!("the term \"{term}\" names {named} axes of operand {at}, which is {}", b.ty(x)),
            ));
        }
        let mut term_labels = before;
        if let Some(after) = after {
            widest = widest.max(rank - named);
            term_labels.extend(ellipsis(rank - named));
            term_labels.extend(after);
        }
        labels.push(term_labels);
    }
    let output = match output {
        Some(term) => {
            let (mut output, after) = letters(equation, term)?;
            if let Some(after) = after {
                output.extend(ellipsis(widest));
                output.extend(after);
            }
            output
        }
        None => {
            let count = |label: Label| labels.iter().flatten().filter(|l| **l == label).count();
            ellipsis(widest).chain((0..ELLIPSIS).filter(|label| count(*label) == 1)).collect()
        }
    };
    for (at, label) in output.iter().enumerate() {
        if output[..at].contains(label) {
            return Err(Error::shape(
                OP,
                format!("the result of \"{equation}\" names {} twice", show(*label)),
            ));
        }
        if !labels.iter().any(|term| term.contains(label)) {
            let label = show(*label);
            return Err(Error::shape(
                OP,
                format!("the result of \"{equation}\" names {label}, which no operand has"),
            ));
        }
    }
    Ok((labels, output))
}

/// The labels of an ellipsis of `rank` axes, outermost first.
fn ellipsis(rank: usize) -> impl Iterator<Item = Label> {
    (0..rank).rev().map(|from_last| ELLIPSIS + from_last)
}

fn show(label: Label) -> String {
    match u8::try_from(label) {
        Ok(letter) if label < ELLIPSIS => format!("\"{}\"", letter as char),
        _ => "an axis of \"...\"".into(),
    }
}

/// The letters of a term, and those after its ellipsis if it has one.
fn letters(equation: &str, term: &str) -> Result<(Vec<Label>, Option<Vec<Label>>)> {
    let read = |part: &str| {
        let check = |letter: char| {
            if letter.is_ascii_alphabetic() {
                return Ok(letter as Label);
            }
            Err(Error::shape(
                OP,
                format!("\"{equation}\" has \"{letter}\", expected letters, \"...\" and \"->\""),
            ))
        };
        part.chars().map(check).collect::<Result<Vec<Label>>>()
    };
    match term.split_once("...") {
        Some((before, after)) => Ok((read(before)?, Some(read(after)?))),
        None => Ok((read(term)?, None)),
    }
}

/// An operand whose repeated labels are made one, along the diagonal.
fn diagonals<B: Builder>(b: &B, at: usize, x: &B::Value, labels: Vec<Label>) -> Result<Factor<B::Value>> {
    let (mut value, mut labels) = (x.clone(), labels);
    loop {
        let again =
            (0..labels.len()).find_map(|j| Some((labels[..j].iter().position(|l| *l == labels[j])?, j)));
        let Some((i, j)) = again else { return Ok(Factor { value, labels }) };
        let shape = shape_of(b, &value);
        let n = shape[i];
        if n != shape[j] {
            return Err(Error::shape(
                OP,
                format!(
                    "{} stands twice in the term of operand {at}, on axes of {n} and {} elements",
                    show(labels[i]),
                    shape[j]
                ),
            ));
        }
        let rest: Dims = (0..shape.len()).filter(|a| *a != i && *a != j).collect();
        let order: Dims = rest.iter().copied().chain([i, j]).collect();
        let mut flat: Dims = rest.iter().map(|&a| shape[a]).collect();
        flat.push(n * n);
        let flattened = reshape_to(b, &permute_to(b, &value, &order)?, &flat)?;
        // Row-major, the diagonal is every (n + 1)-th element.
        value = slice_axis(b, &flattened, rest.len(), 0, n * n, n + 1)?;
        let label = labels[i];
        labels = rest.iter().map(|&a| labels[a]).chain([label]).collect();
    }
}

/// Drops axes of size 1 that stand beside longer ones of the same label; checks that all others agree.
fn drop_broadcast_axes<B: Builder>(b: &B, factors: &mut [Factor<B::Value>]) -> Result<()> {
    let mut sizes: Vec<(Label, usize)> = Vec::new();
    for factor in factors.iter() {
        for (&label, &size) in factor.labels.iter().zip(&b.ty(&factor.value).shape) {
            match sizes.iter_mut().find(|(known, _)| *known == label) {
                None => sizes.push((label, size)),
                Some((_, known)) if *known == 1 => *known = size,
                Some((_, known)) if *known == size || size == 1 => {}
                Some((_, known)) => {
                    return Err(Error::shape(
                        OP,
                        format!("{} stands for {known} and for {size} elements", show(label)),
                    ));
                }
            }
        }
    }
    let full = |label: Label| sizes.iter().find(|(known, _)| *known == label).map_or(1, |(_, size)| *size);
    for factor in factors {
        let shape = shape_of(b, &factor.value);
        let stays = |axis: usize| shape[axis] == full(factor.labels[axis]);
        let kept: Vec<usize> = (0..shape.len()).filter(|a| stays(*a)).collect();
        let sizes: Dims = kept.iter().map(|&a| shape[a]).collect();
        factor.value = reshape_to(b, &factor.value, &sizes)?;
        factor.labels = kept.iter().map(|&a| factor.labels[a]).collect();
    }
    Ok(())
}

fn used_elsewhere<V>(factors: &[Factor<V>], but: &[usize], label: Label) -> bool {
    factors.iter().enumerate().any(|(at, factor)| !but.contains(&at) && factor.labels.contains(&label))
}

fn summed<B: Builder>(b: &B, factor: &Factor<B::Value>, labels: &[Label]) -> Result<Factor<B::Value>> {
    if labels.is_empty() {
        return Ok(Factor { value: factor.value.clone(), labels: factor.labels.clone() });
    }
    let is_summed = |axis: &usize| labels.contains(&factor.labels[*axis]);
    let axes: Vec<isize> = (0..factor.labels.len()).filter(is_summed).map(|a| a as isize).collect();
    let wide = cast(b, &factor.value, b.ty(&factor.value).dtype.wide())?;
    let left = factor.labels.iter().copied().filter(|label| !labels.contains(label)).collect();
    Ok(Factor { value: sum(b, &wide, &axes, false)?, labels: left })
}

/// The pair whose product is smallest beside its factors: the greedy order of opt_einsum (Smith and Gray 2018).
fn cheapest<B: Builder>(b: &B, factors: &[Factor<B::Value>], output: &[Label]) -> (usize, usize) {
    let size = |factor: &Factor<B::Value>| numel(&b.ty(&factor.value).shape) as f64;
    let (mut best, mut least) = ((0, 1), f64::INFINITY);
    for j in 1..factors.len() {
        for i in 0..j {
            let (x, y) = (&factors[i], &factors[j]);
            let mut product = size(x);
            for (label, &count) in y.labels.iter().zip(&b.ty(&y.value).shape) {
                if !x.labels.contains(label) {
                    product *= count as f64;
                }
            }
            for (label, &count) in x.labels.iter().zip(&b.ty(&x.value).shape) {
                let stays = output.contains(label) || used_elsewhere(factors, &[i, j], *label);
                if !stays && y.labels.contains(label) {
                    product /= count.max(1) as f64;
                }
            }
            let growth = product - size(x) - size(y);
            if growth < least {
                (best, least) = ((i, j), growth);
            }
        }
    }
    best
}

/// The product of two factors, summed over `contracted`: a batched matrix product, or an elementwise one where nothing
/// is summed.
fn contracted_pair<B: Builder>(
    b: &B,
    x: &Factor<B::Value>,
    y: &Factor<B::Value>,
    contracted: &[Label],
) -> Result<Factor<B::Value>> {
    let batch: Vec<Label> =
        x.labels.iter().copied().filter(|l| y.labels.contains(l) && !contracted.contains(l)).collect();
    let rows: Vec<Label> = x.labels.iter().copied().filter(|l| !y.labels.contains(l)).collect();
    let columns: Vec<Label> = y.labels.iter().copied().filter(|l| !x.labels.contains(l)).collect();
    let sizes = |factor: &Factor<B::Value>, labels: &[Label]| -> Dims {
        let shape = &b.ty(&factor.value).shape;
        let size = |label: &Label| factor.labels.iter().position(|l| l == label).map_or(1, |at| shape[at]);
        labels.iter().map(size).collect()
    };
    let ordered = |factor: &Factor<B::Value>, groups: &[&[Label]]| {
        let place = |label: &Label| factor.labels.iter().position(|l| l == label);
        let order: Dims = groups.iter().flat_map(|group| group.iter()).filter_map(place).collect();
        permute_to(b, &factor.value, &order)
    };
    let (dx, dy) = (b.ty(&x.value).dtype, b.ty(&y.value).dtype);
    // Of two dtypes, one is the wide one of a factor that was summed already.
    let common = if dx.size() < dy.size() { dy } else { dx };
    let (batch_sizes, row_sizes, column_sizes) = (sizes(x, &batch), sizes(x, &rows), sizes(y, &columns));
    let labels: Vec<Label> = batch.iter().chain(&rows).chain(&columns).copied().collect();
    let mut whole = batch_sizes.clone();
    whole.extend(row_sizes.iter().chain(&column_sizes).copied());
    if contracted.is_empty() {
        let wide = common.wide();
        let left = cast(b, &ordered(x, &[&batch, &rows])?, wide)?;
        let mut stretched = batch_sizes.clone();
        stretched.extend(row_sizes.iter().copied().chain(columns.iter().map(|_| 1)));
        let left = reshape_to(b, &left, &stretched)?;
        let right = cast(b, &ordered(y, &[&batch, &columns])?, wide)?;
        let mut stretched = batch_sizes;
        stretched.extend(rows.iter().map(|_| 1).chain(column_sizes.iter().copied()));
        let right = reshape_to(b, &right, &stretched)?;
        return Ok(Factor { value: mul(b, &left, &right)?, labels });
    }
    let inner = numel(&sizes(x, contracted));
    let matrix = |factor: &Factor<B::Value>, groups: [&[Label]; 3], last: [usize; 2]| {
        let mut shape = batch_sizes.clone();
        shape.extend(last);
        cast(b, &reshape_to(b, &ordered(factor, &groups)?, &shape)?, common)
    };
    let left = matrix(x, [&batch, &rows, contracted], [numel(&row_sizes), inner])?;
    let right = matrix(y, [&batch, contracted, &columns], [inner, numel(&column_sizes)])?;
    let product = matmul_as(b, &left, &right, common.wide())?;
    debug_assert_eq!(numel(&b.ty(&product).shape), numel(&whole), "{}", ShowShape(&whole));
    Ok(Factor { value: reshape_to(b, &product, &whole)?, labels })
}
