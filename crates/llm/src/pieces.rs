//! Into which pieces a prompt is cut, and how programs take them.
//!
//! A program takes one length only, so a prompt is fed in pieces of few lengths, the last one filled up with padding,
//! which is not kept. Likewise a batch is filled up with sequences without tokens.

use lanthorn_ir::{DType, Result, TensorType, Value};
use lanthorn_runtime::{Device, EagerTensor};

use crate::cache::Tables;
use crate::states::Slots;

/// The shortest piece longer than one token.
const SHORTEST: usize = 16;

/// The length of the next piece: the shortest of 1, 16, 32, 64 ... and `longest` that holds `remaining` tokens, or
/// `longest`.
pub fn piece_length(remaining: usize, longest: usize) -> usize {
    let powers = std::iter::successors(Some(SHORTEST), |length| length.checked_mul(2));
    let mut lengths = std::iter::once(1).chain(powers.take_while(|&length| length < longest));
    lengths.find(|&length| length >= remaining).unwrap_or(longest)
}

/// The size of a batch that holds `sequences`: a power of two, or `largest`.
pub fn batch_size(sequences: usize, largest: usize) -> usize {
    sequences.next_power_of_two().min(largest)
}

/// One sequence's part of a call.
#[derive(Clone, Debug)]
pub struct Piece<'a> {
    pub tokens: &'a [u32],
    /// The position of the first.
    pub start: usize,
    /// The sequence's table, `slots` blocks.
    pub table: Vec<i32>,
    /// Where its running state is and goes, if the pool keeps some.
    pub state: Slots,
}

/// The sizes of what tells a program its pieces.
#[derive(Clone, Copy, Debug)]
pub struct CallSizes {
    pub batch: usize,
    pub length: usize,
    /// Blocks that one sequence can have at a time: its table is a ring of them.
    pub slots: usize,
    /// Layers keep running state.
    pub keeps_state: bool,
}

/// What tells a program its pieces, all `i32`.
pub struct PieceLeaves {
    /// `[batch, length]`.
    pub ids: Value,
    /// `[batch, length]`; those of padding are the position of the last token.
    pub positions: Value,
    /// `[batch, slots]`, `[batch]`, `[batch]`.
    pub tables: Tables<Value>,
    /// `[batch]` each: the slots of running state that are read and written. Parameters where layers keep some.
    pub states: [Value; 2],
    /// `[batch]`: the row of the last token. No parameter of a program for one token.
    pub last: Value,
}

impl CallSizes {
    /// Leaves for the arguments.
    pub fn leaves(self) -> Result<PieceLeaves> {
        let CallSizes { batch, length, slots, .. } = self;
        let integers = |shape: &[usize]| Value::leaf(TensorType::new(DType::I32, shape));
        Ok(PieceLeaves {
            ids: integers(&[batch, length])?,
            positions: integers(&[batch, length])?,
            tables: Tables {
                tables: integers(&[batch, slots])?,
                starts: integers(&[batch])?,
                counts: integers(&[batch])?,
            },
            states: [integers(&[batch])?, integers(&[batch])?],
            last: integers(&[batch])?,
        })
    }

    /// The leaves that are parameters, in the order of [`CallSizes::arguments`].
    pub fn parameters(self, leaves: &PieceLeaves) -> Vec<Value> {
        let PieceLeaves { ids, positions, tables, states, last } = leaves;
        let mut parameters = vec![ids, positions, &tables.tables, &tables.starts, &tables.counts];
        if self.keeps_state {
            parameters.extend(states);
        }
        if self.length > 1 {
            parameters.push(last);
        }
        parameters.into_iter().cloned().collect()
    }

    /// The arguments for at most `batch` pieces of 1 to `length` tokens.
    pub fn arguments(self, device: &Device, pieces: &[Piece<'_>]) -> Result<Vec<EagerTensor>> {
        let CallSizes { batch, length, slots, keeps_state } = self;
        let (mut ids, mut positions) = (Vec::new(), Vec::new());
        let (mut tables, mut starts) = (Vec::new(), Vec::new());
        let (mut counts, mut last) = (Vec::new(), Vec::new());
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for piece in pieces {
            let end = piece.tokens.len().saturating_sub(1);
            ids.extend(piece.tokens.iter().map(|&token| token as i32));
            positions.extend((0..length).map(|at| (piece.start + at.min(end)) as i32));
            ids.resize(positions.len(), 0);
            tables.extend(&piece.table);
            starts.push(piece.start as i32);
            counts.push(piece.tokens.len() as i32);
            last.push(end as i32);
            from.push(piece.state.from as i32);
            to.push(piece.state.to as i32);
        }
        ids.resize(batch * length, 0);
        positions.resize(batch * length, 0);
        tables.resize(batch * slots, 0);
        for list in [&mut starts, &mut counts, &mut from, &mut to, &mut last] {
            list.resize(batch, 0);
        }
        let tensor = |shape: &[usize], numbers: &[i32]| EagerTensor::from_slice(device, shape, numbers);
        let mut arguments = vec![
            tensor(&[batch, length], &ids)?,
            tensor(&[batch, length], &positions)?,
            tensor(&[batch, slots], &tables)?,
            tensor(&[batch], &starts)?,
            tensor(&[batch], &counts)?,
        ];
        if keeps_state {
            arguments.extend([tensor(&[batch], &from)?, tensor(&[batch], &to)?]);
        }
        if length > 1 {
            arguments.push(tensor(&[batch], &last)?);
        }
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_few_lengths() {
        let length = |remaining| piece_length(remaining, 100);
        assert_eq!([1, 2, 16, 17, 64, 65, 100, 1000].map(length), [1, 16, 16, 32, 64, 100, 100, 100]);
        assert_eq!([1, 2, 7].map(|remaining| piece_length(remaining, 7)), [1, 7, 7]);
        assert_eq!([1, 2, 16].map(|remaining| piece_length(remaining, 1)), [1, 1, 1]);
    }

    #[test]
    fn batches_have_few_sizes() {
        assert_eq!([1, 2, 3, 4, 5, 6].map(|sequences| batch_size(sequences, 6)), [1, 2, 4, 4, 6, 6]);
    }
}
