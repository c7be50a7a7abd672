//! Where the tokens of a sequence are in each value of a traced graph.
//!
//! A program reads a few tokens at a time, filled up with padding. That gives what a whole forward gives if, outside of
//! causal attention and of recurrences whose state is kept, each token's numbers depend on that token alone. So every value
//! that tokens lead to is followed: which of its elements belong to which token. An op that brings tokens together, or that
//! takes numbers that differ from token to token but were fixed when the graph was traced, is refused by name.
//!
//! A graph that was traced for one token says nothing about several; there only ops are checked that could never be cached,
//! and `widen` makes a graph of two, which is held against all of this.

use std::collections::HashMap;
use std::sync::Arc;

use lanthorn_ir::graph::{ValueKey, topological};
use lanthorn_ir::prim::attention::{Attend, Position as Standing};
use lanthorn_ir::prim::{
    Attention, Contract, Control, Elementwise, Index, Movement, Norm, Position, Quantized, Recurrent, Reduce,
    Scan, Sort,
};
use lanthorn_ir::{DType, Error, Node, Prim, Result, Value};
use lanthorn_nn::KeyValueShape;

use crate::states::StateShapes;

/// How a value depends on the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// No token leads to it. Bit `a` says that all is equal along axis `a`.
    Free { equal: u64 },
    /// Element `i` in row-major order belongs to token `i / inner % length`.
    Tokens { inner: usize, is_position: bool },
}

use Rows::{Free, Tokens};

/// An attention whose keys and values are to be cached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer {
    pub shape: KeyValueShape,
    pub attend: Attend,
}

impl Layer {
    /// The tokens that one sees, its own included, where that is bounded.
    pub fn window(&self) -> Option<usize> {
        self.attend.left.map(|left| left.saturating_add(1))
    }
}

/// Which layer a node is whose past is kept, among those of its kind in topological order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Attention(usize),
    Delta(usize),
    Convolution(usize),
}

/// What a graph does with its tokens.
pub(super) struct Analysis {
    pub length: usize,
    known: HashMap<ValueKey, Rows>,
    /// Attention in topological order.
    pub layers: Vec<Layer>,
    /// What recurrent layers keep, in the same order.
    pub states: StateShapes,
    /// The name of each recurrent layer, and in which dtype its state is computed.
    pub state_dtypes: Vec<(&'static str, DType)>,
    /// The nodes whose past is kept.
    pub places: HashMap<u64, Kept>,
    /// The rows of the smallest table that is read at positions.
    pub longest: Option<usize>,
}

/// The axis in which the tokens are, and how many of its elements each one has side by side.
type Along = (usize, usize);

pub(super) fn unsupported(message: impl Into<String>) -> Error {
    Error::unsupported("decode", message)
}

/// The product of the sizes behind an axis.
pub(super) fn behind(shape: &[usize], axis: usize) -> usize {
    shape.iter().skip(axis + 1).product()
}

impl Analysis {
    /// Follows `tokens [1, length]` and `positions [length]` to `roots`.
    ///
    /// Errors: what cannot be cached, by the op's name; a graph in which there is nothing to cache.
    pub fn of(roots: &[Value], tokens: &Value, positions: &[Value]) -> Result<Analysis> {
        let mut analysis = Analysis::begun(tokens, positions);
        for node in topological(roots, |_| false) {
            analysis.follow(&node)?;
        }
        for (at, root) in roots.iter().enumerate() {
            analysis.refuse_statistics(root)?;
            if let Free { .. } = analysis.rows(root) {
                return Err(unsupported(format!("result {at} does not depend on the tokens")));
            }
        }
        if analysis.places.is_empty() {
            return Err(unsupported(
                "there is no causal attention to cache in the graph, and no gated_delta_rule or short_conv1d",
            ));
        }
        Ok(analysis)
    }

    /// What is known before the first op.
    pub fn begun(tokens: &Value, positions: &[Value]) -> Analysis {
        let tokens_along = |is_position| Tokens { inner: 1, is_position };
        let mut known: HashMap<ValueKey, Rows> =
            positions.iter().map(|position| (position.key(), tokens_along(true))).collect();
        known.insert(tokens.key(), tokens_along(false));
        Analysis {
            length: tokens.ty().numel(),
            known,
            layers: Vec::new(),
            states: StateShapes::default(),
            state_dtypes: Vec::new(),
            places: HashMap::new(),
            longest: None,
        }
    }

    /// Follows the tokens through a node whose operands are known.
    ///
    /// Errors: see [`Analysis::of`].
    pub fn follow(&mut self, node: &Arc<Node>) -> Result<()> {
        let rows = self.visit(node)?;
        for (value, rows) in Node::outputs(node).iter().zip(rows) {
            self.known.entry(value.key()).or_insert(rows);
        }
        Ok(())
    }

    /// How a value depends on the tokens.
    pub fn rows(&self, value: &Value) -> Rows {
        self.known.get(&value.key()).copied().unwrap_or(Free { equal: 0 })
    }

    /// True if tokens lead to it.
    pub fn is_of_tokens(&self, value: &Value) -> bool {
        matches!(self.rows(value), Tokens { .. })
    }

    /// The axis that holds the tokens and nothing else.
    pub fn own_axis(&self, value: &Value) -> Option<usize> {
        let Tokens { inner, .. } = self.rows(value) else { return None };
        let shape = &value.ty().shape;
        let (axis, within) = self.axis(shape, inner)?;
        (within == 1 && shape.get(axis) == Some(&self.length)).then_some(axis)
    }

    fn axis(&self, shape: &[usize], inner: usize) -> Option<Along> {
        let mut suffix = 1usize;
        for (axis, &size) in shape.iter().enumerate().rev() {
            let whole = suffix.checked_mul(size)?;
            let is_found = match self.length {
                // Any axis of size 1 might be it; the last one that stands right.
                1 => size == 1 && suffix == inner,
                length => {
                    let tokens = inner.checked_mul(length).filter(|&tokens| tokens > 0 && suffix > 0)?;
                    inner.is_multiple_of(suffix) && whole.is_multiple_of(tokens)
                }
            };
            if is_found {
                return Some((axis, inner / suffix));
            }
            suffix = whole;
        }
        None
    }

    fn visit(&mut self, node: &Node) -> Result<Vec<Rows>> {
        node.inputs().iter().try_for_each(|input| self.refuse_statistics(input))?;
        if !node.inputs().iter().any(|input| self.is_of_tokens(input)) {
            return Ok(self.free(node));
        }
        self.bound_positions(node);
        match node.prim() {
            Prim::Attention(Attention::Forward(attend)) => self.attention(node, *attend),
            Prim::Recurrent(rule @ (Recurrent::DeltaRule { .. } | Recurrent::ShortConv { .. })) => {
                self.recurrence(node, *rule)
            }
            Prim::Position(Position::Rotary(_)) => self.rotary(node),
            Prim::Control(Control::StopGradient | Control::Written | Control::Barrier) => {
                Ok(vec![self.operand(node, 0)])
            }
            Prim::Source(_)
            | Prim::Elementwise(_)
            | Prim::Movement(_)
            | Prim::Reduce(_)
            | Prim::Contract(_)
            | Prim::Index(_)
            | Prim::Norm(_)
            | Prim::Scan(_)
            | Prim::Sort(_)
            | Prim::Quantized(_) => {
                match self.through(node) {
                    // One token has no other to be mixed with.
                    Err(_) if self.length == 1 => {
                        let inner = |ty: &lanthorn_ir::TensorType| ty.shape.last().copied().unwrap_or(1);
                        let rows = |ty| Tokens { inner: inner(ty), is_position: false };
                        Ok(node.types().iter().map(rows).collect())
                    }
                    found => found,
                }
            }
            _ => {
                let name = node.prim().name();
                let message = format!(
                    "{name} over tokens cannot be cached: it may keep state from token to token; a cache knows that of gated_delta_rule and short_conv1d alone"
                );
                Err(unsupported(message))
            }
        }
    }

    /// The log-sum-exp of an attention and the last state of a recurrence are not given.
    fn refuse_statistics(&self, value: &Value) -> Result<()> {
        if value.index() == 0 {
            return Ok(());
        }
        match self.places.get(&value.node().id()) {
            None => Ok(()),
            Some(Kept::Attention(_)) => Err(unsupported(
                "the log-sum-exp of a cached attention is used, which the cache does not give",
            )),
            Some(Kept::Delta(_) | Kept::Convolution(_)) => {
                let name = value.node().prim().name();
                let message =
                    format!("the last state of a cached {name} is used, which the cache does not give");
                Err(unsupported(message))
            }
        }
    }

    pub(super) fn operand(&self, node: &Node, at: usize) -> Rows {
        node.inputs().get(at).map_or(Free { equal: 0 }, |input| self.rows(input))
    }

    /// Learned positions end with their table.
    fn bound_positions(&mut self, node: &Node) {
        let Prim::Index(index) = node.prim() else { return };
        let axis = match index {
            Index::Embedding => 0,
            Index::Gather { axis } => *axis,
            _ => return,
        };
        if let (Some(table), Tokens { is_position: true, .. }) =
            (node.inputs().first(), self.operand(node, 1))
            && let Some(&rows) = table.ty().shape.get(axis)
        {
            self.longest = Some(self.longest.map_or(rows, |longest| longest.min(rows)));
        }
    }

    pub(super) fn mixes(&self, node: &Node) -> Error {
        let name = node.prim().name();
        unsupported(format!(
            "{name} brings different tokens together, which a cache does not hold; only causal attention, gated_delta_rule and short_conv1d may"
        ))
    }

    /// The axis of the tokens in those operands of `at` that have some; the others must be equal along it.
    pub(super) fn aligned(
        &self,
        node: &Node,
        at: impl Iterator<Item = usize> + Clone,
        acting: &[usize],
    ) -> Result<Along> {
        let operands = || at.clone().filter_map(|at| Some((node.inputs().get(at)?, self.operand(node, at))));
        let mut found = None;
        for (value, rows) in operands() {
            let Tokens { inner, .. } = rows else { continue };
            let along = self.axis(&value.ty().shape, inner).ok_or_else(|| self.mixes(node))?;
            if acting.contains(&along.0) || found.is_some_and(|found| found != along) {
                return Err(self.mixes(node));
            }
            found = Some(along);
        }
        let along = found.ok_or_else(|| self.mixes(node))?;
        for (value, rows) in operands() {
            if let Free { equal } = rows {
                self.expect_equal(node, value, equal, along.0)?;
            }
        }
        Ok(along)
    }

    /// Refuses numbers that differ along `axis` and do not come from the tokens.
    fn expect_equal(&self, node: &Node, value: &Value, equal: u64, axis: usize) -> Result<()> {
        let size = value.ty().shape.get(axis).copied().unwrap_or(1);
        if size == 1 || equal >> axis.min(63) & 1 == 1 {
            return Ok(());
        }
        let (name, ty) = (node.prim().name(), value.ty());
        Err(unsupported(format!(
            "{name} takes an operand {ty} that differs from token to token and was fixed when the graph was traced; make it of the positions"
        )))
    }

    /// One output of the shape of `node`'s, in which the tokens are in this axis.
    fn one(node: &Node, (axis, within): Along) -> Vec<Rows> {
        let rows = |ty: &lanthorn_ir::TensorType| Tokens {
            inner: behind(&ty.shape, axis) * within,
            is_position: false,
        };
        node.types().iter().map(rows).collect()
    }

    /// Ops that treat every token alike.
    fn through(&self, node: &Node) -> Result<Vec<Rows>> {
        let (inputs, count) = (node.inputs(), node.inputs().len());
        match node.prim() {
            Prim::Elementwise(op) => {
                let is_position = matches!(op, Elementwise::Cast(_))
                    && matches!(self.operand(node, 0), Tokens { is_position: true, .. });
                let inner = self.common_inner(node)?;
                if (0..count).any(|at| matches!(self.operand(node, at), Free { .. })) {
                    self.aligned(node, 0..count, &[])?;
                }
                Ok(vec![Tokens { inner, is_position }])
            }
            Prim::Movement(movement) => Ok(vec![self.movement(node, movement)?]),
            Prim::Reduce(reduce) => {
                let acting = match reduce {
                    Reduce::Fold { axes, .. } => axes.to_vec(),
                    Reduce::ArgMax { axis } | Reduce::ArgMin { axis } => vec![*axis],
                };
                Ok(Self::one(node, self.aligned(node, 0..1, &acting)?))
            }
            Prim::Scan(Scan::Cumulative { axis, .. }) | Prim::Sort(Sort::Stable { axis, .. }) => {
                Ok(Self::one(node, self.aligned(node, 0..1, &[*axis])?))
            }
            Prim::Norm(Norm::Softmax | Norm::LogSoftmax | Norm::LayerNorm { .. } | Norm::RmsNorm { .. }) => {
                let last = inputs[0].ty().rank().saturating_sub(1);
                if (1..count).any(|at| matches!(self.operand(node, at), Tokens { .. })) {
                    return Err(self.mixes(node));
                }
                Ok(Self::one(node, self.aligned(node, 0..1, &[last])?))
            }
            Prim::Contract(Contract::MatMul { .. }) => {
                let rank = inputs[0].ty().rank();
                let (row, column) = (rank.saturating_sub(2), rank.saturating_sub(1));
                let along = match (self.operand(node, 0), self.operand(node, 1)) {
                    // One token has a row for each head and the like in the first case, and a column in the second.
                    (Tokens { .. }, Free { .. }) => self.aligned(node, 0..1, &[column])?,
                    (Free { .. }, Tokens { .. }) => self.aligned(node, 1..2, &[row])?,
                    _ => self.aligned(node, 0..2, &[row, column])?,
                };
                if along.0 < row {
                    self.aligned(node, 0..2, &[])?;
                }
                Ok(Self::one(node, along))
            }
            // Rows of a packed table are unpacked after they have been taken.
            Prim::Quantized(Quantized::Linear(_) | Quantized::Dequantize(_))
                if inputs.get(1).is_none_or(|weights| !self.is_of_tokens(weights)) =>
            {
                let last = inputs[0].ty().rank().saturating_sub(1);
                Ok(Self::one(node, self.aligned(node, 0..1, &[last])?))
            }
            Prim::Index(Index::Embedding) => match (self.operand(node, 0), self.operand(node, 1)) {
                (Free { .. }, Tokens { inner, .. }) => {
                    let width = inputs[0].ty().shape.get(1).copied().unwrap_or(1);
                    Ok(vec![Tokens { inner: inner * width, is_position: false }])
                }
                _ => Err(self.mixes(node)),
            },
            Prim::Index(Index::Gather { axis }) => {
                let along = match self.operand(node, 0) {
                    // Every token reads places of its own.
                    Free { .. } => self.aligned(node, 1..2, &[])?,
                    Tokens { .. } => self.aligned(node, 0..2, &[*axis])?,
                };
                if along.0 != *axis {
                    self.aligned(node, 0..2, &[*axis])?;
                    self.expect_whole(node, along.0)?;
                }
                Ok(Self::one(node, along))
            }
            Prim::Index(Index::Scatter { axis, .. }) => {
                let along = self.aligned(node, 0..count, &[*axis])?;
                self.expect_whole(node, along.0)?;
                Ok(Self::one(node, along))
            }
            _ => Err(self.mixes(node)),
        }
    }

    /// All operands have as many elements along `axis`.
    fn expect_whole(&self, node: &Node, axis: usize) -> Result<()> {
        let mut sizes = node.inputs().iter().map(|input| input.ty().shape.get(axis));
        let first = sizes.next();
        if sizes.all(|size| Some(size) == first) { Ok(()) } else { Err(self.mixes(node)) }
    }

    /// The distance of neighbours, which all operands that have tokens share.
    fn common_inner(&self, node: &Node) -> Result<usize> {
        let mut found = None;
        for at in 0..node.inputs().len() {
            let Tokens { inner, .. } = self.operand(node, at) else { continue };
            if found.is_some_and(|found| found != inner) {
                return Err(self.mixes(node));
            }
            found = Some(inner);
        }
        found.ok_or_else(|| self.mixes(node))
    }

    fn movement(&self, node: &Node, movement: &Movement) -> Result<Rows> {
        let count = node.inputs().len();
        let is_position = matches!(self.operand(node, 0), Tokens { is_position: true, .. }) && count == 1;
        let from = &node.inputs()[0].ty().shape;
        let to = &node.types()[0].shape;
        let (axis, within) = match movement {
            // The order of elements stays.
            Movement::Reshape { .. } => {
                let inner = self.common_inner(node)?;
                return Ok(Tokens { inner, is_position });
            }
            Movement::Permute { axes } => {
                let (axis, within) = self.aligned(node, 0..1, &[])?;
                let place = axes.iter().position(|&from| from == axis).ok_or_else(|| self.mixes(node))?;
                (place, within)
            }
            Movement::Broadcast { shape } => {
                let (axis, within) = self.aligned(node, 0..1, &[])?;
                (axis + shape.len().saturating_sub(from.len()), within)
            }
            Movement::Slice { .. } => {
                let cut: Vec<usize> = (0..from.len()).filter(|&axis| from[axis] != to[axis]).collect();
                self.aligned(node, 0..1, &cut).map_err(|_| {
                    unsupported(
                        "slice takes some of the tokens; give all, and ask for the last row of the results",
                    )
                })?
            }
            Movement::Pad { .. } => {
                let padded: Vec<usize> = (0..from.len()).filter(|&axis| from[axis] != to[axis]).collect();
                self.aligned(node, 0..1, &padded)?
            }
            Movement::Flip { axes } => self.aligned(node, 0..1, axes)?,
            Movement::Window(windows) => self.aligned(node, 0..1, &windows.axes)?,
            Movement::Concat { axis } => self.aligned(node, 0..count, &[*axis])?,
        };
        Ok(Tokens { inner: behind(to, axis) * within, is_position })
    }

    fn rotary(&self, node: &Node) -> Result<Vec<Rows>> {
        let (Tokens { inner, .. }, Tokens { inner: of_positions, .. }) =
            (self.operand(node, 0), self.operand(node, 1))
        else {
            return Err(unsupported(
                "rotary_embedding has positions that were fixed when the graph was traced; give it the positions of the tokens",
            ));
        };
        let (x, positions) = (&node.inputs()[0].ty().shape, &node.inputs()[1].ty().shape);
        if self.length > 1 {
            let missing = (x.len() - 1).saturating_sub(positions.len());
            let along = self.axis(x, inner).ok_or_else(|| self.mixes(node))?;
            let at = self.axis(positions, of_positions).ok_or_else(|| self.mixes(node))?;
            if along != (at.0 + missing, at.1) {
                return Err(self.mixes(node));
            }
        }
        Ok(vec![Tokens { inner, is_position: false }])
    }

    fn attention(&mut self, node: &Node, attend: Attend) -> Result<Vec<Rows>> {
        let fail = |message: String| Err(unsupported(format!("attention cannot be cached: {message}")));
        if attend.mask.is_some() {
            return fail("it has a mask; a cache knows causal attention and windows alone".into());
        }
        if !attend.causal {
            return fail("it is not causal, so a token would see later ones".into());
        }
        if attend.position == Standing::Past {
            return fail("it has a past, and so a cache of its own".into());
        }
        if attend.softcap.is_some() {
            return fail("its scores are capped, which paged attention does not do".into());
        }
        let [q, k, v] = node.inputs() else { return Err(self.mixes(node)) };
        if let Some(operand) = [q, k, v].into_iter().find(|x| !self.is_of_tokens(x)) {
            return fail(format!("an operand {} does not come from the tokens", operand.ty()));
        }
        let [qs, ks, vs] = [q, k, v].map(|x| &x.ty().shape);
        let expected = [1, self.length];
        if let Some(shape) = [qs, ks, vs].into_iter().find(|shape| shape[..2] != expected) {
            let shape = &shape[..];
            return fail(format!(
                "an operand is {shape:?}, expected [1, {}, heads, head_dim]: one sequence, all of its tokens",
                self.length
            ));
        }
        if self.length > 1 {
            let is_off = |x: &&Value| self.own_axis(x) != Some(1);
            if [q, k, v].iter().any(is_off) {
                return Err(self.mixes(node));
            }
        }
        if ks != vs {
            let (ks, vs) = (&ks[..], &vs[..]);
            return fail(format!("keys are {ks:?} and values {vs:?}, expected one shape"));
        }
        self.places.insert(node.id(), Kept::Attention(self.layers.len()));
        self.layers.push(Layer { shape: KeyValueShape { heads: ks[2], head_dim: ks[3] }, attend });
        let inner = qs[2] * vs[3];
        Ok([inner, qs[2]].map(|inner| Tokens { inner, is_position: false }).to_vec())
    }

    /// Along which axes a value is equal that no token leads to.
    fn free(&self, node: &Node) -> Vec<Rows> {
        let equal = |at: usize| match self.operand(node, at) {
            Free { equal } => equal,
            Tokens { .. } => 0,
        };
        let inputs = node.inputs();
        let mask = match node.prim() {
            Prim::Elementwise(_) => (0..inputs.len()).fold(u64::MAX, |mask, at| mask & equal(at)),
            Prim::Movement(movement) if !inputs.is_empty() => {
                let (from, to) = (&inputs[0].ty().shape, &node.types()[0].shape);
                // Of an axis of the result, which operand's axis it is.
                let is_equal = |axis: usize| match movement {
                    Movement::Broadcast { .. } => match (axis + from.len()).checked_sub(to.len()) {
                        Some(source) => from[source] != to[axis] || equal(0) >> source.min(63) & 1 == 1,
                        None => true,
                    },
                    Movement::Reshape { .. } => {
                        let same = |&source: &usize| {
                            from[source] == to[axis] && behind(from, source) == behind(to, axis)
                        };
                        (0..from.len()).find(same).is_some_and(|source| equal(0) >> source.min(63) & 1 == 1)
                    }
                    Movement::Permute { axes } => equal(0) >> axes[axis].min(63) & 1 == 1,
                    Movement::Slice { .. } => equal(0) >> axis.min(63) & 1 == 1,
                    _ => false,
                };
                (0..to.len().min(63)).filter(|&axis| is_equal(axis)).fold(0, |mask, axis| mask | 1 << axis)
            }
            Prim::Control(Control::StopGradient | Control::Written | Control::Barrier) => equal(0),
            _ => 0,
        };
        node.types().iter().map(|_| Free { equal: mask }).collect()
    }
}
