//! From logits to a token.
//!
//! In this order, as in transformers: repetition penalty, temperature, top-k, top-p, min-p. What a draw gives is a function of the logits, the
//! seed and the draw's number, on every machine the same.

use lanthorn_ir::philox::Philox;
use lanthorn_ir::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// How tokens are chosen.
///
/// ```
/// use lanthorn_llm::Sampling;
///
/// let logits = [0.1, 2.0, -1.0, 1.9];
/// assert_eq!(Sampling::greedy().choose(&logits, &[], 0)?, 1);
/// let sampling = Sampling { top_k: Some(2), ..Sampling::default() };
/// assert!([1, 3].contains(&sampling.choose(&logits, &[], 0)?));
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the most probable token.
    pub temperature: f64,
    /// Only the so many most probable tokens.
    pub top_k: Option<usize>,
    /// Only the most probable tokens that together have this probability (Holtzman et al. 2020).
    pub top_p: Option<f64>,
    /// Only tokens that have at least this part of the probability of the most probable one (Nguyen et al. 2024).
    pub min_p: Option<f64>,
    /// Logits of tokens that have occurred are divided by it where positive and multiplied where negative (Keskar et
    /// al. 2019); 1 changes nothing.
    pub repetition_penalty: f64,
    pub seed: u64,
}

impl Default for Sampling {
    /// The model's own distribution.
    fn default() -> Self {
        Sampling { temperature: 1.0, top_k: None, top_p: None, min_p: None, repetition_penalty: 1.0, seed: 0 }
    }
}

/// A setting that chooses nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// The field of [`Sampling`].
    pub setting: &'static str,
    pub found: f64,
    /// What would be right.
    pub expected: &'static str,
}

/// A token that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub token: u32,
    pub probability: f64,
}

impl Sampling {
    /// Always the most probable token.
    pub fn greedy() -> Sampling {
        Sampling { temperature: 0.0, ..Sampling::default() }
    }

    /// Refuses settings that choose nothing.
    pub fn check(&self) -> Result<()> {
        match self.fault() {
            None => Ok(()),
            Some(Fault { setting, found, expected }) => {
                Err(Error::shape("sampling", format!("{setting} is {found}, expected {expected}")))
            }
        }
    }

    /// The first setting that chooses nothing, for whoever has other names for settings.
    pub fn fault(&self) -> Option<Fault> {
        let fault = |setting, found: f64, expected| Some(Fault { setting, found, expected });
        if !(0.0..f64::INFINITY).contains(&self.temperature) {
            return fault("temperature", self.temperature, "a finite number of at least 0");
        }
        if self.top_k == Some(0) {
            return fault("top_k", 0.0, "at least 1");
        }
        match self.top_p {
            Some(p) if !(p > 0.0 && p <= 1.0) => return fault("top_p", p, "above 0 and at most 1"),
            _ => {}
        }
        match self.min_p {
            Some(p) if !(0.0..=1.0).contains(&p) => return fault("min_p", p, "0 to 1"),
            _ => {}
        }
        if !(self.repetition_penalty > 0.0 && self.repetition_penalty.is_finite()) {
            return fault("repetition_penalty", self.repetition_penalty, "a finite number above 0");
        }
        None
    }

    /// The token of draw number `draw` from `logits [vocab]`, after the tokens of `history`.
    ///
    /// Errors: settings that choose nothing; logits that are NaN, +infinity or all -infinity.
    pub fn choose(&self, logits: &[f32], history: &[u32], draw: u64) -> Result<u32> {
        let candidates = self.candidates(logits, history)?;
        let uniform = Philox::new(self.seed, 0, Philox::stream_of("sampling")).unit(draw);
        let mut rest = uniform;
        for candidate in &candidates {
            rest -= candidate.probability;
            if rest < 0.0 {
                return Ok(candidate.token);
            }
        }
        // Probabilities add up to 1 but for rounding.
        candidates.last().map(|candidate| candidate.token).ok_or_else(no_candidate)
    }

    /// All tokens that may be chosen, with probabilities that add up to 1, the most probable first; of two equally
    /// probable tokens the one with the lower id.
    ///
    /// Errors: as [`Sampling::choose`].
    pub fn candidates(&self, logits: &[f32], history: &[u32]) -> Result<Vec<Candidate>> {
        self.check()?;
        let scores = self.scores(logits, history)?;
        // Here `probability` is still a score.
        let mut kept: Vec<Candidate> = (scores.iter().zip(0..))
            .filter(|(score, _)| **score > f64::NEG_INFINITY)
            .map(|(&probability, token)| Candidate { token, probability })
            .collect();
        let first = |x: &Candidate, y: &Candidate| {
            y.probability.total_cmp(&x.probability).then(x.token.cmp(&y.token))
        };
        let limit = if self.temperature == 0.0 { Some(1) } else { self.top_k };
        if let Some(limit) = limit.filter(|&limit| limit < kept.len()) {
            kept.select_nth_unstable_by(limit - 1, first);
            kept.truncate(limit);
        }
        kept.sort_unstable_by(first);
        let top = kept.first().ok_or_else(no_candidate)?.probability;
        let temperature = if self.temperature == 0.0 { 1.0 } else { self.temperature };
        for candidate in &mut kept {
            candidate.probability = libm::exp((candidate.probability - top) / temperature);
        }
        normalise(&mut kept);
        if let Some(p) = self.top_p {
            let mut sum = 0.0;
            let enough = kept.iter().position(|candidate| {
                sum += candidate.probability;
                sum >= p
            });
            if let Some(last) = enough {
                kept.truncate(last + 1);
                normalise(&mut kept);
            }
        }
        if let (Some(p), Some(first)) = (self.min_p, kept.first()) {
            let least = p * first.probability;
            kept.truncate(kept.partition_point(|candidate| candidate.probability >= least));
            normalise(&mut kept);
        }
        Ok(kept)
    }

    /// Logits after the repetition penalty.
    fn scores(&self, logits: &[f32], history: &[u32]) -> Result<Vec<f64>> {
        if let Some(at) = logits.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY) {
            let message =
                format!("the logit of token {at} is {}", logits.get(at).copied().unwrap_or(f32::NAN));
            return Err(Error::new(ErrorKind::Execute, "sampling", message));
        }
        let mut scores: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
        if self.repetition_penalty != 1.0 {
            for &token in history {
                // Assigned from the logit, so that a token is penalised once however often it has occurred.
                let places = scores.get_mut(token as usize).zip(logits.get(token as usize));
                if let Some((score, &logit)) = places {
                    let logit = f64::from(logit);
                    *score = if logit > 0.0 {
                        logit / self.repetition_penalty
                    } else {
                        logit * self.repetition_penalty
                    };
                }
            }
        }
        Ok(scores)
    }
}

fn normalise(candidates: &mut [Candidate]) {
    let total: f64 = candidates.iter().map(|candidate| candidate.probability).sum();
    candidates.iter_mut().for_each(|candidate| candidate.probability /= total);
}

fn no_candidate() -> Error {
    Error::new(ErrorKind::Execute, "sampling", "no token has a probability above 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 6] = [0.5, 2.0, -1.0, 1.5, 0.0, -3.0];

    fn plain() -> Sampling {
        Sampling::default()
    }

    /// How often each token is drawn.
    fn frequencies(sampling: &Sampling, draws: u64) -> [f64; 6] {
        let mut counts = [0.0; 6];
        for draw in 0..draws {
            counts[sampling.choose(&LOGITS, &[], draw).unwrap() as usize] += 1.0;
        }
        counts.map(|count| count / draws as f64)
    }

    /// The distribution over `tokens` only, written out.
    fn expected(tokens: &[usize], temperature: f64) -> [f64; 6] {
        let weight = |token: usize| (f64::from(LOGITS[token]) / temperature).exp();
        let total: f64 = tokens.iter().map(|&token| weight(token)).sum();
        std::array::from_fn(|token| if tokens.contains(&token) { weight(token) / total } else { 0.0 })
    }

    /// Probabilities exactly, and frequencies within five standard deviations.
    fn assert_distribution(sampling: &Sampling, tokens: &[usize]) {
        let temperature = if sampling.temperature == 0.0 { 1.0 } else { sampling.temperature };
        let expected = expected(tokens, temperature);
        let candidates = sampling.candidates(&LOGITS, &[]).unwrap();
        let found: Vec<usize> = candidates.iter().map(|candidate| candidate.token as usize).collect();
        assert_eq!(found, tokens, "most probable first");
        for candidate in &candidates {
            let expected = expected[candidate.token as usize];
            assert!((candidate.probability - expected).abs() < 1e-14, "{candidate:?} and {expected}");
        }
        let n = 20_000;
        for (token, (found, p)) in frequencies(sampling, n).into_iter().zip(expected).enumerate() {
            let bound = 5.0 * (p * (1.0 - p) / n as f64).sqrt();
            assert!((found - p).abs() <= bound, "token {token}: {found} of {p}");
        }
    }

    #[test]
    fn plain_sampling_is_the_softmax() {
        assert_distribution(&plain(), &[1, 3, 0, 4, 2, 5]);
    }

    #[test]
    fn temperature_sharpens_and_flattens() {
        assert_distribution(&Sampling { temperature: 0.4, ..plain() }, &[1, 3, 0, 4, 2, 5]);
        assert_distribution(&Sampling { temperature: 3.0, ..plain() }, &[1, 3, 0, 4, 2, 5]);
        assert_distribution(&Sampling::greedy(), &[1]);
    }

    #[test]
    fn top_k_leaves_the_k_most_probable_tokens() {
        assert_distribution(&Sampling { top_k: Some(1), ..plain() }, &[1]);
        assert_distribution(&Sampling { top_k: Some(3), temperature: 0.7, ..plain() }, &[1, 3, 0]);
        assert_distribution(&Sampling { top_k: Some(99), ..plain() }, &[1, 3, 0, 4, 2, 5]);
    }

    /// Probabilities of the plain distribution: 0.487, 0.296, 0.109, 0.066, 0.024, 0.003; their sums 0.487, 0.783,
    /// 0.892, 0.958, 0.983 ...
    #[test]
    fn top_p_leaves_the_fewest_tokens_that_reach_p() {
        for (p, tokens) in [
            (0.01, &[1][..]),
            (0.45, &[1]),
            (0.60, &[1, 3]),
            (0.85, &[1, 3, 0]),
            (0.93, &[1, 3, 0, 4]),
            (1.0, &[1, 3, 0, 4, 2, 5]),
        ] {
            assert_distribution(&Sampling { top_p: Some(p), ..plain() }, tokens);
        }
    }

    #[test]
    fn top_p_counts_what_top_k_leaves() {
        // Of the two most probable tokens, the first has 0.622.
        assert_distribution(&Sampling { top_k: Some(2), top_p: Some(0.6), ..plain() }, &[1]);
        assert_distribution(&Sampling { top_k: Some(2), top_p: Some(0.7), ..plain() }, &[1, 3]);
    }

    /// Beside the most probable token the others have 0.607, 0.223, 0.135, 0.050 and 0.007 of its probability.
    #[test]
    fn min_p_leaves_what_comes_near_the_most_probable_token() {
        for (p, tokens) in [
            (1.0, &[1][..]),
            (0.61, &[1]),
            (0.60, &[1, 3]),
            (0.2, &[1, 3, 0]),
            (0.05, &[1, 3, 0, 4]),
            (0.0, &[1, 3, 0, 4, 2, 5]),
        ] {
            assert_distribution(&Sampling { min_p: Some(p), ..plain() }, tokens);
        }
    }

    #[test]
    fn min_p_comes_after_temperature_and_top_p() {
        // Powers of those above: 0.368 and 0.050 at half the temperature, 0.779, 0.472 and 0.368 at twice it.
        let colder = Sampling { min_p: Some(0.3), temperature: 0.5, ..plain() };
        assert_distribution(&colder, &[1, 3]);
        assert_distribution(&Sampling { temperature: 2.0, min_p: Some(0.4), ..colder }, &[1, 3, 0]);
        assert_distribution(&Sampling { top_p: Some(0.6), min_p: Some(0.2), ..plain() }, &[1, 3]);
        assert_distribution(&Sampling { top_p: Some(0.85), min_p: Some(0.3), ..plain() }, &[1, 3]);
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let run = |seed| {
            let sampling = Sampling { seed, ..plain() };
            (0..50).map(|draw| sampling.choose(&LOGITS, &[], draw).unwrap()).collect::<Vec<u32>>()
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    #[test]
    fn a_repetition_penalty_lowers_what_has_occurred_once() {
        let sampling = Sampling { repetition_penalty: 2.0, ..Sampling::greedy() };
        assert_eq!(sampling.choose(&LOGITS, &[], 0).unwrap(), 1);
        assert_eq!(sampling.choose(&LOGITS, &[1], 0).unwrap(), 3);
        // 2.0 and 1.5 become 1.0 and 0.75, which still exceed 0.5; again and again changes nothing.
        assert_eq!(sampling.choose(&LOGITS, &[1, 3, 1, 1], 0).unwrap(), 1);
        let scores = sampling.scores(&LOGITS, &[2, 2, 0, 99]).unwrap();
        assert_eq!(scores, [0.25, 2.0, -2.0, 1.5, 0.0, -3.0]);
    }

    #[test]
    fn equally_probable_tokens_come_in_the_order_of_their_ids() {
        let logits = [1.0, 3.0, 3.0, 3.0];
        assert_eq!(Sampling::greedy().choose(&logits, &[], 7).unwrap(), 1);
        let two = Sampling { top_k: Some(2), ..plain() }.candidates(&logits, &[]).unwrap();
        assert_eq!(two.iter().map(|candidate| candidate.token).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn masked_tokens_are_never_chosen() {
        let logits = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY, 0.0];
        let mut seen = std::collections::BTreeSet::new();
        seen.extend((0..100).map(|draw| plain().choose(&logits, &[], draw).unwrap()));
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn what_cannot_be_sampled_is_refused() {
        let fault = |logits: &[f32]| plain().choose(logits, &[], 0).unwrap_err().to_string();
        assert_eq!(fault(&[0.0, f32::NAN]), "sampling: the logit of token 1 is NaN");
        assert_eq!(fault(&[f32::INFINITY]), "sampling: the logit of token 0 is inf");
        assert_eq!(fault(&[f32::NEG_INFINITY; 3]), "sampling: no token has a probability above 0");
        assert_eq!(fault(&[]), "sampling: no token has a probability above 0");
        for sampling in [
            Sampling { temperature: -1.0, ..plain() },
            Sampling { temperature: f64::NAN, ..plain() },
            Sampling { top_k: Some(0), ..plain() },
            Sampling { top_p: Some(0.0), ..plain() },
            Sampling { top_p: Some(1.1), ..plain() },
            Sampling { min_p: Some(-0.1), ..plain() },
            Sampling { min_p: Some(f64::NAN), ..plain() },
            Sampling { repetition_penalty: 0.0, ..plain() },
        ] {
            assert!(sampling.choose(&LOGITS, &[], 0).is_err(), "{sampling:?}");
        }
        let infinite = |sampling: Sampling| sampling.check().unwrap_err().to_string();
        assert_eq!(
            infinite(Sampling { temperature: f64::INFINITY, ..plain() }),
            "sampling: temperature is inf, expected a finite number of at least 0"
        );
        assert_eq!(
            infinite(Sampling { repetition_penalty: f64::INFINITY, ..plain() }),
            "sampling: repetition_penalty is inf, expected a finite number above 0"
        );
    }

    #[test]
    fn a_tiny_temperature_is_almost_greedy() {
        let sampling = Sampling { temperature: 1e-300, ..plain() };
        assert!((0..50).all(|draw| sampling.choose(&LOGITS, &[], draw).unwrap() == 1));
    }
}
