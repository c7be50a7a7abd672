//! Numbers about token streams, against which a loss can be read.

use std::collections::HashMap;

/// The entropy (nats) of the frequencies of the tokens: the loss of a model that knows how often each token occurs
/// and nothing of their order. 0 for an empty stream.
pub fn unigram_entropy(tokens: &[u32]) -> f64 {
    let mut counts: HashMap<u32, u64> = HashMap::new();
    for &token in tokens {
        *counts.entry(token).or_default() += 1;
    }
    let total = tokens.len() as f64;
    // In a fixed order, so that the sum rounds alike each time.
    let mut counts: Vec<u64> = counts.into_values().collect();
    counts.sort_unstable();
    counts.into_iter().map(|count| -(count as f64 / total) * libm::log(count as f64 / total)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_of_known_frequencies() {
        assert_eq!(unigram_entropy(&[]), 0.0);
        assert_eq!(unigram_entropy(&[7; 5]), 0.0);
        assert!((unigram_entropy(&[0, 1, 2, 3]) - 4f64.ln()).abs() < 1e-15);
        let skewed = -(0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
        assert!((unigram_entropy(&[1, 1, 9, 1]) - skewed).abs() < 1e-15);
    }
}
