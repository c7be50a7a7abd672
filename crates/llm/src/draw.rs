//! One token out of a row of logits, by settings that carry the number of the draw.

use lanthorn_ir::{Error, Result};
use lanthorn_runtime::EagerTensor;
use serde::{Deserialize, Serialize};

use crate::sampling::Sampling;

/// How one token is drawn: a function of the logits and these numbers, on every machine the same. Draws of one seed are
/// independent where their counters differ.
///
/// ```
/// use lanthorn_llm::Draw;
///
/// let draw = Draw { temperature: 0.8, top_k: 2, seed: 7, counter: 3, ..Draw::default() };
/// let token = draw.token(&[0.1, 2.0, -1.0, 1.9])?;
/// assert!([1, 3].contains(&token));
/// assert_eq!(draw.token(&[0.1, 2.0, -1.0, 1.9])?, token);
/// # lanthorn_ir::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Draw {
    /// Logits are divided by it; 0 takes the most probable token.
    pub temperature: f64,
    /// Only the so many most probable tokens; 0 is all.
    pub top_k: usize,
    /// Only the most probable tokens that together have this probability; 1 is all.
    pub top_p: f64,
    pub seed: u64,
    /// Which draw of the seed.
    pub counter: u64,
}

impl Default for Draw {
    /// The model's own distribution.
    fn default() -> Draw {
        Draw { temperature: 1.0, top_k: 0, top_p: 1.0, seed: 0, counter: 0 }
    }
}

impl Draw {
    /// The same as settings without a counter.
    pub fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temperature,
            top_k: (self.top_k > 0).then_some(self.top_k),
            // All that add up to 1, rounding aside.
            top_p: (self.top_p != 1.0).then_some(self.top_p),
            seed: self.seed,
            ..Sampling::default()
        }
    }

    /// The token.
    ///
    /// Errors: settings that choose nothing; logits that are NaN, +infinity or all -infinity.
    pub fn token(&self, logits: &[f32]) -> Result<u32> {
        self.sampling().choose(logits, &[], self.counter)
    }

    /// The token of the last row of `logits [.., vocab]`.
    ///
    /// Errors: no floats, or no row; as [`Draw::token`].
    pub fn token_of(&self, logits: &EagerTensor) -> Result<u32> {
        let ty = logits.ty();
        if ty.rank() == 0 || ty.numel() == 0 || !ty.dtype.is_float() {
            return Err(Error::shape("sample", format!("the logits are {ty}, expected floats [.., vocab]")));
        }
        let last = ty.rank() - 1;
        let starts: Vec<usize> = ty
            .shape
            .iter()
            .enumerate()
            .map(|(axis, &size)| if axis == last { 0 } else { size - 1 })
            .collect();
        let row = logits.with_layout(logits.layout().slice(&starts, &ty.shape, &vec![1; ty.rank()]))?;
        let row: Vec<f32> = row.to_f64_vec()?.into_iter().map(|logit| logit as f32).collect();
        self.token(&row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGITS: [f32; 5] = [0.5, 2.0, -1.0, 1.5, 0.0];

    #[test]
    fn a_draw_is_a_function_of_seed_and_counter() {
        let run = |seed| {
            let draw = |counter| Draw { seed, counter, ..Draw::default() }.token(&LOGITS).unwrap();
            (0..60).map(draw).collect::<Vec<u32>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
        let distinct: std::collections::BTreeSet<u32> = run(1).into_iter().collect();
        assert!(distinct.len() > 2, "{distinct:?}");
    }

    #[test]
    fn zero_and_one_take_no_token_away() {
        let all = Draw::default().sampling();
        assert_eq!((all.top_k, all.top_p), (None, None));
        assert_eq!(all.candidates(&LOGITS, &[]).unwrap().len(), 5);
        let two = Draw { top_k: 2, ..Draw::default() };
        assert!((0..50).all(|counter| [1, 3].contains(&Draw { counter, ..two }.token(&LOGITS).unwrap())));
        let greedy = Draw { temperature: 0.0, ..Draw::default() };
        assert!((0..20).all(|counter| Draw { counter, ..greedy }.token(&LOGITS).unwrap() == 1));
    }

    #[test]
    fn the_last_row_of_a_tensor_counts() {
        let device = lanthorn_runtime::Device::new(std::sync::Arc::new(lanthorn_cpu::CpuBackend));
        let rows = [[0.0f32; 5], [9.0, 0.0, 0.0, 0.0, 0.0], [0.0; 5], LOGITS];
        let logits = EagerTensor::from_slice(&device, &[2, 2, 5], rows.as_flattened()).unwrap();
        let draw = |counter| Draw { seed: 4, counter, ..Draw::default() };
        for counter in 0..20 {
            assert_eq!(draw(counter).token_of(&logits).unwrap(), draw(counter).token(&LOGITS).unwrap());
        }
        let whole = EagerTensor::from_slice(&device, &[5], &[1i32, 2, 3, 4, 5]).unwrap();
        let error = draw(0).token_of(&whole).unwrap_err().to_string();
        assert_eq!(error, "sample: the logits are i32[5], expected floats [.., vocab]");
        let none = EagerTensor::from_slice::<f32>(&device, &[0, 5], &[]).unwrap();
        assert!(draw(0).token_of(&none).is_err());
    }

    #[test]
    fn settings_come_as_json() {
        let draw: Draw =
            serde_json::from_str(r#"{"temperature":0.5,"topK":4,"topP":0.9,"seed":3,"counter":8}"#).unwrap();
        assert_eq!(draw, Draw { temperature: 0.5, top_k: 4, top_p: 0.9, seed: 3, counter: 8 });
        assert_eq!(
            serde_json::from_str::<Draw>(r#"{"seed":3}"#).unwrap(),
            Draw { seed: 3, ..Draw::default() }
        );
        assert!(serde_json::from_str::<Draw>(r#"{"top_k":3}"#).is_err());
        let error = Draw { top_p: 0.0, ..Draw::default() }.token(&LOGITS).unwrap_err();
        assert!(error.to_string().contains("top_p is 0"), "{error}");
    }
}
