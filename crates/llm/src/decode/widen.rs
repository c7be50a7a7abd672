//! The graph of two tokens that a graph of one would have been.
//!
//! In a graph that was traced for one token nothing shows whether it brings different ones together: an axis of size 1
//! looks like any other. So the graph is made again with two tokens, op by op, where the axis of the tokens is known from
//! the leaf on, and held against the rules of `rows`. What no token leads to stays as it is, and is repeated where it stood
//! beside the one token.
//!
//! A reshape alone may leave open which of several axes of size 1 is that of the tokens. Then the likely one is taken, and
//! another only where shapes do not fit with it. A graph that is refused for a wrong guess can be traced for two tokens; one
//! that is taken for a wrong guess would give wrong numbers, so that an op that mixes tokens is the end.

use std::collections::HashMap;
use std::sync::Arc;

use lanthorn_ir::graph::{ValueKey, topological};
use lanthorn_ir::prim::{Contract, Index, Movement};
use lanthorn_ir::{Builder, DType, Error, ErrorKind, Lazy, Node, Prim, Result, TensorType, Value};

use super::OP;
use super::rows::{Analysis, behind};

/// Tokens of the graph that is made.
const TWO: usize = 2;

/// After so many wrong choices the graph is refused.
const MOST_CHOICES: usize = 512;

/// Refuses a graph of one token of which the same graph of two would be refused.
///
/// Errors: what brings tokens together, by the op's name; a graph that is none for two.
pub(super) fn check_two(roots: &[Value], tokens: &Value, positions: &[Value]) -> Result<()> {
    let pair = Value::leaf(TensorType::new(tokens.ty().dtype, [1, TWO]))?;
    let pairs = (positions.iter())
        .map(|_| Value::leaf(TensorType::new(DType::I32, [TWO])))
        .collect::<Result<Vec<_>>>()?;
    let analysis = Analysis::begun(&pair, &pairs);
    let mut wide = Widened { known: HashMap::new(), analysis };
    wide.know(tokens, pair, Some(Place { axis: 1, within: 1 }));
    for (position, leaf) in positions.iter().zip(pairs) {
        wide.know(position, leaf, Some(Place { axis: 0, within: 1 }));
    }

    let nodes = topological(roots, |_| false);
    let mut choices: Vec<Choice> = Vec::new();
    let (mut at, mut wrong) = (0, 0);
    // Of the choice that came furthest.
    let mut furthest: Option<(usize, Error)> = None;
    while let Some(node) = nodes.get(at) {
        let chosen = choices.last().filter(|choice| choice.node == at).map(|choice| choice.place);
        let places = if chosen.is_some() { Vec::new() } else { wide.places(node) };
        let place = chosen.or(places.first().copied());
        if places.len() > 1
            && let Some(place) = place
        {
            choices.push(Choice { node: at, place, left: places.into_iter().skip(1).rev().collect() });
        }
        let error = match wide.visit(node, place) {
            Ok(()) => {
                at += 1;
                continue;
            }
            Err(Refused::Mixed(error)) => return Err(error),
            Err(Refused::Unfit(error)) => error,
        };
        if furthest.as_ref().is_none_or(|(before, _)| *before < at) {
            furthest = Some((at, error.clone()));
        }
        wrong += 1;
        let open = loop {
            match choices.pop() {
                Some(mut choice) if wrong < MOST_CHOICES => {
                    if let Some(place) = choice.left.pop() {
                        break Some(Choice { place, ..choice });
                    }
                }
                _ => break None,
            }
        };
        let Some(open) = open else {
            return Err(furthest.map_or(error, |(_, error)| error));
        };
        at = open.node;
        choices.push(open);
    }
    Ok(())
}

/// Where the tokens are in a value: the axis, and how many of its elements each one has side by side.
#[derive(Clone, Copy, Debug)]
struct Place {
    axis: usize,
    within: usize,
}

/// A reshape that leaves open where the tokens are.
struct Choice {
    /// Its place among the nodes.
    node: usize,
    place: Place,
    /// What has not been tried, the likely ones last.
    left: Vec<Place>,
}

/// Why a node is none for two tokens.
enum Refused {
    /// Shapes do not fit; with another choice they may.
    Unfit(Error),
    /// It brings tokens together.
    Mixed(Error),
}

struct Widened {
    /// Values to which tokens lead as they are with two; no place where the axis is gone.
    known: HashMap<ValueKey, (Value, Option<Place>)>,
    analysis: Analysis,
}

impl Widened {
    fn know(&mut self, old: &Value, new: Value, place: Option<Place>) {
        self.known.insert(old.key(), (new, place));
    }

    fn is_known(&self, value: &Value) -> bool {
        self.known.contains_key(&value.key())
    }

    /// The first operand that has tokens, and where.
    fn from<'a>(&self, node: &'a Node) -> Option<(&'a Value, Place)> {
        let place = |value: &Value| self.known.get(&value.key()).and_then(|(_, place)| *place);
        node.inputs().iter().find_map(|input| Some((input, place(input)?)))
    }

    /// Where the result of a reshape may have its tokens, the likely place first. Of another node nothing is open.
    fn places(&self, node: &Node) -> Vec<Place> {
        let (Prim::Movement(Movement::Reshape { shape }), Some((input, place))) =
            (node.prim(), self.from(node))
        else {
            return Vec::new();
        };
        let from = &input.ty().shape[..];
        let inner = behind(from, place.axis) * place.within;
        let within = |axis: usize| {
            let behind = behind(shape, axis);
            let within =
                inner.checked_div(behind).filter(|within| *within > 0 && within * behind == inner)?;
            shape.get(axis)?.is_multiple_of(within).then_some(Place { axis, within })
        };
        let found: Vec<Place> = (0..shape.len()).filter_map(within).collect();
        // An axis of their own rather than one with what else each token has.
        let own: Vec<Place> = found.iter().copied().filter(|found| found.within == 1).collect();
        if own.is_empty() {
            return found;
        }
        // Axes of size 1 side by side stay in order, so that as many may come before that of the tokens, and behind it.
        let alike = |axis: &usize| from.get(*axis) == Some(&1) && behind(from, *axis) == inner;
        let (before, all) = ((0..place.axis).filter(alike).count(), (0..from.len()).filter(alike).count());
        let (least, most) = match place.within {
            1 => {
                ((before + own.len()).saturating_sub(all).min(before), before + own.len().saturating_sub(all))
            }
            _ => (0, own.len()),
        };
        let mut places: Vec<Place> = own
            .into_iter()
            .enumerate()
            .filter(|(at, _)| (least..=most).contains(at))
            .map(|(_, own)| own)
            .collect();
        // The place of before is the likely one, but for the first, where that of the sequence is put; else the last.
        places.reverse();
        places.sort_by_key(|found| found.axis != place.axis || place.axis == 0);
        places
    }

    /// Makes a node again. `place` is where a reshape has its tokens.
    fn visit(&mut self, node: &Arc<Node>, place: Option<Place>) -> std::result::Result<(), Refused> {
        if !node.inputs().iter().any(|input| self.is_known(input)) {
            return self.analysis.follow(node).map_err(Refused::Mixed);
        }
        let (outputs, within) = self.made(node, place).map_err(|error| {
            let message = format!(
                "the graph was traced for one token and is none for two: {error}; trace it for two or more, a call may have fewer"
            );
            Refused::Unfit(Error::unsupported(OP, message))
        })?;
        if let Some(new) = outputs.first() {
            self.analysis.follow(new.node()).map_err(|error| {
                let message =
                    format!("{}; the graph was traced for one token, and for two this shows", error.message);
                let error = Error::new(error.kind, error.op, message);
                match node.prim() {
                    // These say where they have their tokens.
                    Prim::Attention(_) | Prim::Position(_) | Prim::Recurrent(_) => Refused::Unfit(error),
                    _ => Refused::Mixed(error),
                }
            })?;
        }
        for (old, new) in Node::outputs(node).iter().zip(outputs) {
            let place = place.or_else(|| doubled(old.ty(), new.ty()).map(|axis| Place { axis, within }));
            self.know(old, new, place);
        }
        Ok(())
    }

    /// What a node gives for two tokens, and how many elements of their axis each one has.
    fn made(&mut self, node: &Node, place: Option<Place>) -> Result<(Vec<Value>, usize)> {
        let from = self.from(node);
        let prim = match from {
            Some((input, before)) => for_two(node, &input.ty().shape, before, place)?,
            None => node.prim().clone(),
        };
        let mut inputs = Vec::with_capacity(node.inputs().len());
        for (at, input) in node.inputs().iter().enumerate() {
            inputs.push(match (self.known.get(&input.key()), from) {
                (Some((value, _)), _) => value.clone(),
                (None, Some((_, before))) => self.beside(node.prim(), at, input, before.axis)?,
                (None, None) => input.clone(),
            });
        }
        let outputs = Lazy.apply(prim, &inputs)?.into_iter().collect();
        Ok((outputs, from.map_or(1, |(_, before)| before.within)))
    }

    /// Operand `at`, to which no token leads, for two tokens along `axis` of the other operand.
    fn beside(&mut self, prim: &Prim, at: usize, operand: &Value, axis: usize) -> Result<Value> {
        let is_aligned = match prim {
            Prim::Elementwise(_) => true,
            Prim::Movement(Movement::Concat { axis: along })
            | Prim::Index(Index::Gather { axis: along } | Index::Scatter { axis: along, .. }) => {
                *along != axis
            }
            Prim::Contract(Contract::MatMul { .. }) => axis + 2 < operand.ty().rank(),
            Prim::Recurrent(rule) => axis == 1 && Analysis::has_steps(*rule, at),
            _ => false,
        };
        let mut shape = operand.ty().shape.clone();
        match shape.get_mut(axis) {
            Some(size) if is_aligned && *size == 1 => *size = TWO,
            _ => return Ok(operand.clone()),
        }
        let wide =
            Lazy.apply(Prim::Movement(Movement::Broadcast { shape }), std::slice::from_ref(operand))?;
        let missing = || Error::new(ErrorKind::Execute, OP, "a broadcast has no result");
        let wide = wide.into_iter().next().ok_or_else(missing)?;
        self.analysis.follow(wide.node())?;
        Ok(wide)
    }
}

/// The primitive of a node for two tokens, which are at `before` in its operand of shape `from`.
fn for_two(node: &Node, from: &[usize], before: Place, place: Option<Place>) -> Result<Prim> {
    let mut prim = node.prim().clone();
    match &mut prim {
        Prim::Movement(Movement::Reshape { shape }) => {
            let Some(size) = place.and_then(|place| shape.get_mut(place.axis)) else {
                let message = format!("{from:?} to {shape:?} leaves the tokens no axis");
                return Err(Error::shape("reshape", message));
            };
            *size *= TWO;
        }
        Prim::Movement(Movement::Broadcast { shape }) => {
            let axis = before.axis + shape.len().saturating_sub(from.len());
            if let (Some(size), Some(of_one)) = (shape.get_mut(axis), from.get(before.axis)) {
                if size != of_one {
                    let message = "it repeats the one token in the places of several";
                    return Err(Error::shape("broadcast", message));
                }
                *size *= TWO;
            }
        }
        Prim::Movement(Movement::Slice { starts, stops, steps }) => {
            let axis = before.axis;
            let is_whole = starts.get(axis) == Some(&0) && steps.get(axis) == Some(&1);
            if let (true, Some(stop), Some(size)) = (is_whole, stops.get_mut(axis), from.get(axis))
                && stop == size
            {
                *stop *= TWO;
            }
        }
        _ => {}
    }
    Ok(prim)
}

/// The axis of which the size has doubled.
fn doubled(old: &TensorType, new: &TensorType) -> Option<usize> {
    (old.shape.iter().zip(&new.shape)).position(|(old, new)| old * TWO == *new && *new > 0)
}
