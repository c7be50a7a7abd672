//! Into which pieces a prompt is cut.
//!
//! A program takes one length only, so a prompt is fed in pieces of few lengths, the last one filled up with padding
//! behind its last token. A padding's keys are overwritten before anything reads them.

/// The shortest piece longer than one token.
const SHORTEST: usize = 16;

/// The length of the next piece: the shortest of 1, 16, 32, 64 ... and `context` that holds `remaining` tokens, or
/// the longest that fits into `room`. At least 1 if both are.
pub fn piece_length(remaining: usize, room: usize, context: usize) -> usize {
    let powers = std::iter::successors(Some(SHORTEST), |length| length.checked_mul(2));
    let lengths = std::iter::once(1).chain(powers.take_while(|&length| length < context)).chain([context]);
    let mut longest = 1;
    for length in lengths.filter(|&length| length <= room) {
        if length >= remaining {
            return length;
        }
        longest = longest.max(length);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_few_lengths() {
        let length = |remaining, room| piece_length(remaining, room, 100);
        assert_eq!([1, 2, 16, 17, 64, 65, 100].map(|n| length(n, 100)), [1, 16, 16, 32, 64, 100, 100]);
        // Where padding would leave the cache, the piece is shorter.
        assert_eq!([1, 10, 10, 40, 70].map(|n| length(n, n)), [1, 1, 1, 32, 64]);
        assert_eq!((piece_length(3, 7, 7), piece_length(3, 4, 7)), (7, 1));
    }

    #[test]
    fn every_prompt_comes_to_its_end_within_the_context() {
        for context in [1, 2, 15, 16, 17, 64, 100] {
            for prompt in 1..=context {
                let mut filled = 0;
                while filled < prompt {
                    let (remaining, room) = (prompt - filled, context - filled);
                    let length = piece_length(remaining, room, context);
                    assert!(length >= 1 && length <= room, "{filled} of {prompt} in {context}: {length}");
                    filled += length.min(remaining);
                }
            }
        }
    }
}
