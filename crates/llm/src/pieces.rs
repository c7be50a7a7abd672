//! Into which pieces a prompt is cut.
//!
//! A program takes one length only, so a prompt is fed in pieces of few lengths, the last one filled up with padding,
//! which is not kept.

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
