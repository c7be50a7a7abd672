//! The learning rate by step.

use lanthorn_ir::{DType, Error, Result};
use serde::{Deserialize, Serialize};

/// The learning rate as a function of the step alone.
///
/// ```
/// use lanthorn_nn::Schedule;
///
/// let schedule = Schedule::Cosine { peak: 1e-3, floor: 1e-4, warmup: 10, total: 110 };
/// assert_eq!(schedule.at(4), 0.5e-3);
/// assert_eq!(schedule.at(10), 1e-3);
/// assert_eq!(schedule.at(110), 1e-4);
///
/// let schedule = Schedule::Stepwise { lr: 1.0, factor: 0.5, every: 30 }.with_warmup(10);
/// assert_eq!((schedule.at(4), schedule.at(10), schedule.at(40)), (0.5, 1.0, 0.5));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// Always the same.
    Constant { lr: f64 },
    /// Linear from `lr` to `end` over `steps` steps, and `end` from there on.
    Linear { lr: f64, end: f64, steps: u64 },
    /// `lr rate^(step / every)`, smoothly.
    Exponential { lr: f64, rate: f64, every: u64 },
    /// `lr`, times `factor` after every `every` steps.
    Stepwise { lr: f64, factor: f64, every: u64 },
    /// Linear from `then`'s first rate over `steps` to that rate over `steps` steps, then `then` from its beginning.
    Warmup { steps: u64, then: Box<Schedule> },
    /// Linear from `peak / warmup` to `peak` over `warmup` steps, then half a cosine down to `floor` at step `total`
    /// (Loshchilov and Hutter 2017, without restarts), and `floor` from there on.
    Cosine { peak: f64, floor: f64, warmup: u64, total: u64 },
}

impl Schedule {
    /// The learning rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        match *self {
            Schedule::Constant { lr } => lr,
            Schedule::Linear { end, steps, .. } if step >= steps => end,
            Schedule::Linear { lr, end, steps } => lr + (end - lr) * (step as f64 / steps as f64),
            Schedule::Exponential { lr, rate, every } => lr * libm::pow(rate, step as f64 / every as f64),
            Schedule::Stepwise { lr, factor, every } => lr * libm::pow(factor, (step / every.max(1)) as f64),
            Schedule::Warmup { steps, ref then } if step < steps => {
                then.at(0) * ((step + 1) as f64 / steps as f64)
            }
            Schedule::Warmup { steps, ref then } => then.at(step - steps),
            Schedule::Cosine { peak, warmup, .. } if step < warmup => {
                peak * ((step + 1) as f64 / warmup as f64)
            }
            Schedule::Cosine { floor, total, .. } if step >= total => floor,
            Schedule::Cosine { peak, floor, warmup, total } => {
                let done = (step - warmup) as f64 / (total - warmup) as f64;
                floor + 0.5 * (peak - floor) * (1.0 + libm::cos(std::f64::consts::PI * done))
            }
        }
    }

    /// The schedule after so many steps in which the rate rises to its first one.
    pub fn with_warmup(self, steps: u64) -> Schedule {
        Schedule::Warmup { steps, then: Box::new(self) }
    }

    /// The rates, and the factor of rates, that it names.
    pub(crate) fn rates(&self) -> [f64; 2] {
        match *self {
            Schedule::Constant { lr } => [lr, lr],
            Schedule::Linear { lr, end, .. } => [lr, end],
            Schedule::Exponential { lr, rate, .. } => [lr, rate],
            Schedule::Stepwise { lr, factor, .. } => [lr, factor],
            Schedule::Cosine { peak, floor, .. } => [peak, floor],
            Schedule::Warmup { ref then, .. } => then.rates(),
        }
    }

    /// Refuses rates that are negative or not finite, and intervals of no step.
    pub fn check(&self) -> Result<()> {
        let every = match *self {
            Schedule::Exponential { every, .. } | Schedule::Stepwise { every, .. } => every,
            Schedule::Warmup { ref then, .. } => return then.check(),
            _ => 1,
        };
        let rates = self.rates();
        if every == 0 {
            return Err(Error::shape("schedule", "the rate changes every 0 steps, expected at least 1"));
        }
        match rates.into_iter().find(|rate| !(0.0..f64::INFINITY).contains(rate)) {
            Some(rate) => Err(Error::shape(
                "schedule",
                format!("a learning rate is {rate}, expected a finite number of at least 0"),
            )),
            None => Ok(()),
        }
    }
}

/// Refuses a learning rate that is infinite in `dtype`.
pub(crate) fn check_rate(rate: f64, dtype: DType) -> Result<()> {
    if dtype == DType::F32 && (rate as f32).is_infinite() {
        let message = format!(
            "a learning rate is {rate:e}, which is infinite in {dtype}; at most 3.4e38 would be right"
        );
        return Err(Error::shape("schedule", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_stays() {
        let schedule = Schedule::Constant { lr: 0.3 };
        assert!([0, 1, u64::MAX].into_iter().all(|step| schedule.at(step) == 0.3));
    }

    #[test]
    fn cosine_warms_up_and_falls_to_its_floor() {
        let schedule = Schedule::Cosine { peak: 1.0, floor: 0.1, warmup: 4, total: 12 };
        let rates: Vec<f64> = (0..14).map(|step| schedule.at(step)).collect();
        assert_eq!(rates[..5], [0.25, 0.5, 0.75, 1.0, 1.0]);
        // A quarter, half and three quarters of the way: 0.1 + 0.45 (1 + cos(pi t)).
        let expected = [(6, 0.868_198_051_533_946_4), (8, 0.55), (10, 0.231_801_948_466_053_6)];
        for (step, rate) in expected {
            assert!((rates[step] - rate).abs() < 1e-15, "{step}: {}", rates[step]);
        }
        assert_eq!(rates[12..], [0.1, 0.1]);
        assert!(rates[4..].windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn a_warm_up_beyond_the_end_divides_by_nothing() {
        let schedule = Schedule::Cosine { peak: 1.0, floor: 0.0, warmup: 5, total: 5 };
        assert_eq!((schedule.at(4), schedule.at(5)), (1.0, 0.0));
        let schedule = Schedule::Cosine { peak: 1.0, floor: 0.5, warmup: 9, total: 5 };
        assert_eq!((schedule.at(8), schedule.at(9)), (1.0, 0.5));
        let schedule = Schedule::Cosine { peak: 1.0, floor: 0.5, warmup: 0, total: 0 };
        assert_eq!(schedule.at(0), 0.5);
    }

    #[test]
    fn rates_that_are_no_rates_are_refused() {
        for lr in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::Constant { lr }.check().is_err(), "{lr}");
            assert!(Schedule::Cosine { peak: 1.0, floor: lr, warmup: 0, total: 9 }.check().is_err(), "{lr}");
        }
        assert!(Schedule::Constant { lr: 0.0 }.check().is_ok());
    }
}
