//! The checks of a device; [`op_suite!`](crate::op_suite) makes tests of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};

use lanthorn_interp::{HostTensor, Interp, Number, eval};
use lanthorn_ir::ops::table::{Category, OPS, id_of};
use lanthorn_ir::{Builder, DType, Error, ErrorKind, Lazy, Prim, Result, TensorType, Value, ops, transform};

use super::{Device, Eager, Lie, Strided};
use crate::cases::all;
use crate::report::{Checked, agree, all_equal, over};
use crate::sequence::Sequence;
use crate::{Case, prims, text, tolerance};

/// Makes a module of tests that hold a [`Device`] against the reference over every case.
///
/// `op_suite!(cpu, device());`, where `device()` is called by every test.
#[macro_export]
macro_rules! op_suite {
    ($name:ident, $device:expr) => {
        mod $name {
            use super::*;
            use lanthorn_ir::DType;
            use $crate::device::suite;

            #[test]
            fn values_in_f64() {
                suite::values(&$device, DType::F64);
            }

            #[test]
            fn values_in_f32() {
                suite::values(&$device, DType::F32);
            }

            #[test]
            fn values_in_f16() {
                suite::values(&$device, DType::F16);
            }

            #[test]
            fn values_in_bf16() {
                suite::values(&$device, DType::BF16);
            }

            #[test]
            fn values_of_other_types() {
                suite::other_types(&$device);
            }

            #[test]
            fn values_in_integers() {
                suite::integers(&$device);
            }

            #[test]
            fn derivatives_in_f64() {
                suite::derivatives(&$device, DType::F64);
            }

            #[test]
            fn derivatives_in_f32() {
                suite::derivatives(&$device, DType::F32);
            }

            #[test]
            fn derivatives_in_half_types() {
                suite::derivatives(&$device, DType::F16);
                suite::derivatives(&$device, DType::BF16);
            }

            #[test]
            fn primitives_and_their_decompositions() {
                suite::primitives(&$device);
            }

            #[test]
            fn axes_of_no_and_of_one_element() {
                suite::sizes(&$device);
            }
        }
    };
}

/// What a device did, besides agreeing.
#[derive(Default)]
pub(super) struct Tally {
    /// Calls that gave a value.
    values: Cell<usize>,
    refused: RefCell<BTreeSet<&'static str>>,
}

impl Tally {
    /// A device that refuses everything has not been tested. Says what it refused to who asks for a test's output.
    #[track_caller]
    fn finish(self, device: &Device, what: &str) {
        let (values, refused) = (self.values.get(), self.refused.into_inner());
        println!("{} {what}: {values} calls agree, refused {refused:?}", device.backend.name());
        let restricted = std::env::var_os("LANTHORN_CASES").is_some();
        assert!(values > 0 || restricted, "nothing gave a value");
    }
}

/// Every case in a float type, on every layout.
pub fn values(device: &Device, dtype: DType) {
    if !device.floats.contains(&dtype) {
        return;
    }
    let tally = Tally::default();
    let chosen = all().into_iter().filter(|case| case.dtypes.contains(&dtype));
    over(chosen, Case::name, |case| {
        let operands = device.suited(case.operands_in(dtype).map_err(text)?)?;
        check_layouts(device, case, &operands, dtype, &tally)
    });
    tally.finish(device, &format!("values in {dtype}"));
}

/// The cases without f64 operands, which are about the types that they have.
pub fn other_types(device: &Device) {
    let tally = Tally::default();
    over(all().into_iter().filter(|case| case.dtypes.is_empty()), Case::name, |case| {
        let operands = device.suited(case.operands())?;
        check_layouts(device, case, &operands, DType::F32, &tally)
    });
    tally.finish(device, "values of other types");
}

/// The cases of f64 with their operands in every integer type and as truth values, and those of i64 in every other
/// one: what the reference computes the device computes, what it refuses the device refuses.
pub fn integers(device: &Device) {
    let tally = Tally::default();
    over(all(), Case::name, |case| {
        for from in [DType::F64, DType::I64] {
            if !case.operands().iter().any(|t| t.ty().dtype == from) {
                continue;
            }
            for &to in device.ints.iter().chain(&[DType::Bool]).filter(|&&to| to != from) {
                let convert = |t: HostTensor| match t.ty().dtype == from {
                    true => HostTensor::collect(&TensorType::new(to, t.shape()), t.data().iter()),
                    false => Ok(t),
                };
                let operands = case.operands().into_iter().map(convert).collect::<Result<Vec<_>>>();
                let operands = device.suited(operands.map_err(text)?)?;
                let check = Check { device, case, operands: &operands, precision: DType::F32, tally: &tally };
                check.hold(&[Lie::Contiguous, Lie::Sliced]).map_err(|e| format!("in {to}: {e}"))?;
            }
        }
        Ok(())
    });
    tally.finish(device, "values in integers");
}

/// The op with the gradients of its results as one program.
pub fn derivatives(device: &Device, dtype: DType) {
    if !device.floats.contains(&dtype) {
        return;
    }
    let tally = Tally::default();
    let chosen = |case: &Case| case.is_differentiable() && case.orders > 0 && !case.is_eager_only();
    let chosen = all().into_iter().filter(|case| chosen(case) && case.dtypes.contains(&dtype));
    over(chosen, Case::name, |case| {
        let operands = device.suited(case.operands_in(dtype).map_err(text)?)?;
        // Attributes may name f64.
        let Ok((leaves, roots)) = with_gradients(case, &operands) else { return Ok(()) };
        let bindings: Vec<_> = leaves.iter().cloned().zip(operands.iter().cloned()).collect();
        let expected = eval(&roots, &bindings).map_err(text)?;
        let wide = |operands: &[HostTensor]| {
            let (leaves, roots) = with_gradients(case, operands)?;
            eval(&roots, &leaves.into_iter().zip(operands.iter().cloned()).collect::<Vec<_>>())
        };
        for optimize in [false, true] {
            let found = device.run(&leaves, &roots, &operands, optimize);
            let within = tolerance::GRADIENT * tolerance::of(dtype).max(case.tolerance);
            let held =
                Held { operands: &operands, expected: &expected, within, precision: dtype, wide: &wide };
            held.settle(device, case.row().name, found, &tally)
                .map_err(|e| format!("in {dtype}, optimize {optimize}: {e}"))?;
        }
        Ok(())
    });
    tally.finish(device, &format!("derivatives in {dtype}"));
}

/// The results and the gradients of a sum that turns slowly, so that rounding on the way makes no other slope.
fn with_gradients(case: &Case, operands: &[HostTensor]) -> Result<(Vec<Value>, Vec<Value>)> {
    let (leaves, mut roots) = case.graph(operands)?;
    let mut total = ops::scalar(&Lazy, 0.0, DType::F32)?;
    for output in roots.iter().filter(|output| output.ty().dtype.is_float()) {
        let wide = output.ty().dtype.wide();
        let small = ops::mul_scalar(&Lazy, &ops::cast(&Lazy, output, wide)?, 0.1)?;
        let sum = ops::sum(&Lazy, &ops::sin(&Lazy, &small)?, &[], false)?;
        total = ops::add(&Lazy, &ops::cast(&Lazy, &total, wide)?, &sum)?;
    }
    let floats: Vec<Value> = leaves.iter().filter(|leaf| leaf.ty().dtype.is_float()).cloned().collect();
    roots.extend(transform::grad(&total, &floats)?);
    Ok((leaves, roots))
}

/// Every primitive that the cases and their derivatives meet, by the device's kernel (or its decomposition) on
/// operands that lie as they come and apart, against the reference.
pub fn primitives(device: &Device) {
    let tally = Tally::default();
    let seen: RefCell<HashSet<(Prim, Vec<TensorType>)>> = RefCell::default();
    over(all().into_iter().filter(|case| !case.is_eager_only()), Case::name, |case| {
        let whole = prims::whole(case).map_err(text)?;
        for (prim, operands) in prims::applications(&whole).map_err(text)? {
            for dtype in [DType::F64, DType::F32] {
                if !device.floats.contains(&dtype) || matches!(prim, Prim::Control(_)) {
                    continue;
                }
                let convert = |t: &HostTensor| match t.ty().dtype {
                    DType::F64 => HostTensor::collect(&TensorType::new(dtype, t.shape()), t.data().iter()),
                    _ => Ok(t.clone()),
                };
                let operands = operands.iter().map(convert).collect::<Result<Vec<_>>>().map_err(text)?;
                let operands = device.suited(operands)?;
                let types: Vec<TensorType> = operands.iter().map(|t| t.ty().clone()).collect();
                if !seen.borrow_mut().insert((prim.clone(), types)) {
                    continue;
                }
                let Ok(expected) = Interp.apply(prim.clone(), &operands) else { continue };
                for lie in [Lie::Contiguous, Lie::Sliced] {
                    let placed: Vec<Strided> = operands.iter().map(|t| device.place(t, lie)).collect();
                    let found = Eager(*device).apply(prim.clone(), &placed);
                    let found = found.map(|found| found.iter().map(|t| device.fetch(t)).collect());
                    let within = tolerance::GRADIENT * tolerance::of(dtype).max(case.tolerance);
                    let wide = |operands: &[HostTensor]| Ok(Interp.apply(prim.clone(), operands)?.into_vec());
                    let held = Held {
                        operands: &operands,
                        expected: &expected,
                        within,
                        precision: dtype,
                        wide: &wide,
                    };
                    held.settle(device, prim.name(), found, &tally)
                        .map_err(|e| format!("{prim} in {dtype}, {lie:?}: {e}"))?;
                }
            }
        }
        Ok(())
    });
    tally.finish(device, "primitives");
}

/// The cases with all axes of one size cut to 0 and to 1, wherever the reference takes that; where it does not, the
/// device must not either.
pub fn sizes(device: &Device) {
    let tally = Tally::default();
    over(all().into_iter().filter(|case| case.dtypes.contains(&DType::F32)), Case::name, |case| {
        let operands = device.suited(case.operands_in(DType::F32).map_err(text)?)?;
        let sizes: BTreeSet<usize> =
            operands.iter().flat_map(|t| t.shape().to_vec()).filter(|&n| n > 1).collect();
        for size in sizes {
            for to in [0, 1] {
                let cut = operands.iter().map(|t| cut(t, size, to)).collect::<Result<Vec<_>>>();
                let cut = cut.map_err(text)?;
                let check = Check { device, case, operands: &cut, precision: DType::F32, tally: &tally };
                check
                    .hold(&[Lie::Contiguous, Lie::Transposed])
                    .map_err(|e| format!("axes of {size} cut to {to}: {e}"))?;
            }
        }
        Ok(())
    });
    tally.finish(device, "sizes");
}

/// A tensor whose axes of size `from` keep their first `to` elements.
fn cut(tensor: &HostTensor, from: usize, to: usize) -> Result<HostTensor> {
    let mut cut = tensor.clone();
    for axis in (0..tensor.shape().len()).filter(|&axis| tensor.shape()[axis] == from) {
        cut = ops::narrow(&Interp, &cut, axis as isize, 0, to)?;
    }
    Ok(cut)
}

impl Device {
    /// Operands in types that the device has: i64 as i32 where it lacks it.
    fn suited(&self, operands: Vec<HostTensor>) -> std::result::Result<Vec<HostTensor>, String> {
        let suit = |t: HostTensor| match t.ty().dtype {
            DType::I64 if !self.ints.contains(&DType::I64) => {
                HostTensor::collect(&TensorType::new(DType::I32, t.shape()), t.data().iter())
            }
            _ => Ok(t),
        };
        operands.into_iter().map(suit).collect::<Result<_>>().map_err(text)
    }
}

fn check_layouts(
    device: &Device,
    case: &Case,
    operands: &[HostTensor],
    precision: DType,
    tally: &Tally,
) -> Checked {
    let check = Check { device, case, operands, precision, tally };
    check.hold(&Lie::ALL)?;
    // Lies in which elements are shared need operands of their own.
    for lie in Lie::ALL {
        // Equal rows make a matrix of rank 1, of which factors are not determined.
        let in_matrix = |t: &HostTensor| {
            let first = t.shape().iter().position(|&n| n > 1);
            first.is_some_and(|axis| axis + 2 >= t.shape().len())
        };
        let is_factored = case.row().category == Category::LinearAlgebra;
        if lie == Lie::Broadcast && is_factored && operands.iter().any(in_matrix) {
            continue;
        }
        let adapted: Vec<Option<HostTensor>> = operands.iter().map(|t| lie.adapt(t)).collect();
        if adapted.iter().all(Option::is_none) {
            continue;
        }
        let pairs = adapted.into_iter().zip(operands);
        let adapted: Vec<HostTensor> = pairs.map(|(a, t)| a.unwrap_or_else(|| t.clone())).collect();
        // A matrix of equal rows may be one that the op does not take.
        if case.reference(&adapted).is_ok() {
            Check { operands: &adapted, ..check }.hold_eager(lie, None)?;
        }
    }
    Ok(())
}

/// One call of an op on a device, against the reference.
#[derive(Clone, Copy)]
struct Check<'a> {
    device: &'a Device,
    case: &'a Case,
    operands: &'a [HostTensor],
    /// The type whose tolerance holds for results of operands that have none.
    precision: DType,
    tally: &'a Tally,
}

impl Check<'_> {
    /// Compiled in both ways, and eagerly as the operands lie.
    fn hold(&self, lies: &[Lie]) -> Checked {
        let Check { device, case, operands, .. } = *self;
        let expected = case.reference(operands);
        if !case.is_eager_only() {
            for optimize in [false, true] {
                let found = case
                    .graph(operands)
                    .and_then(|(leaves, roots)| device.run(&leaves, &roots, operands, optimize));
                self.settle(found, &expected).map_err(|e| format!("optimize {optimize}: {e}"))?;
            }
        }
        for &lie in lies.iter().filter(|lie| !matches!(lie, Lie::Broadcast | Lie::Overlapping)) {
            self.hold_eager(lie, Some(&expected))?;
        }
        Ok(())
    }

    fn hold_eager(&self, lie: Lie, expected: Option<&Result<Vec<HostTensor>>>) -> Checked {
        let Check { device, case, operands, .. } = *self;
        let placed: Vec<Strided> = operands.iter().map(|t| device.place(t, lie)).collect();
        let found = case.call(&Eager(*device), &placed);
        let found = found.map(|found| found.iter().map(|t| device.fetch(t)).collect());
        let result = match expected {
            Some(expected) => self.settle(found, expected),
            None => self.settle(found, &case.reference(operands)),
        };
        result.map_err(|e| format!("eager, {lie:?}: {e}"))
    }

    fn settle(&self, found: Result<Vec<HostTensor>>, expected: &Result<Vec<HostTensor>>) -> Checked {
        let name = self.case.row().name;
        match expected {
            Ok(expected) => {
                let types = self.operands.iter().chain(expected).map(|t| tolerance::of(t.ty().dtype));
                let given = if self.operands.iter().any(|t| t.ty().dtype.is_float()) {
                    types.fold(0.0, f64::max)
                } else {
                    types.fold(0.0, f64::max).max(tolerance::of(self.precision))
                };
                let within = given.max(self.case.tolerance);
                let wide = |operands: &[HostTensor]| self.case.reference(operands);
                let held = Held {
                    operands: self.operands,
                    expected,
                    within,
                    precision: self.precision,
                    wide: &wide,
                };
                held.settle(self.device, name, found, self.tally)
            }
            Err(e) => match found {
                Ok(_) if self.device.is_unchecked && e.kind == ErrorKind::Execute => Ok(()),
                Ok(_) => Err(format!("a value, though the reference refuses: {e}")),
                Err(_) => Ok(()),
            },
        }
    }
}

/// Results of the reference, and how the function behind them answers to rounding.
struct Held<'a> {
    operands: &'a [HostTensor],
    expected: &'a [HostTensor],
    within: f64,
    precision: DType,
    /// The function on f64 operands.
    wide: &'a dyn Fn(&[HostTensor]) -> Result<Vec<HostTensor>>,
}

impl Held<'_> {
    fn settle(
        &self,
        device: &Device,
        name: &'static str,
        found: Result<Vec<HostTensor>>,
        tally: &Tally,
    ) -> Checked {
        match found {
            Ok(found) => {
                tally.values.set(tally.values.get() + 1);
                let Err(message) = all_equal(&found, self.expected, self.within) else { return Ok(()) };
                // Where operands that differ by their rounding give results that differ more, no kernel can do better.
                if self.is_within_rounding(&found).unwrap_or(false) { Ok(()) } else { Err(message) }
            }
            Err(e) if device.may_refuse && is_refusal(&e) => {
                tally.refused.borrow_mut().insert(name);
                Ok(())
            }
            Err(e) => Err(e.to_string()),
        }
    }

    /// True if every float result is as near as the function's answer to a rounding of its operands allows.
    fn is_within_rounding(&self, found: &[HostTensor]) -> Result<bool> {
        const TRIALS: u64 = 16;
        let ulp = match self.precision {
            DType::F64 => 2f64.powi(-52),
            DType::F32 => 2f64.powi(-23),
            DType::F16 => 2f64.powi(-10),
            _ => 2f64.powi(-7),
        };
        let moved = |seed: u64| -> Result<Vec<HostTensor>> {
            let mut s = Sequence::new(seed);
            let move_one = |t: &HostTensor| {
                if !t.ty().dtype.is_float() {
                    return Ok(t.clone());
                }
                let numbers: Vec<Number> = (t.data().iter())
                    .map(|x| {
                        Number::Float(x.float() * (1.0 + if seed == 0 { 0.0 } else { s.uniform(-ulp, ulp) }))
                    })
                    .collect();
                HostTensor::collect(&TensorType::new(DType::F64, t.shape()), numbers.into_iter())
            };
            let mut move_one = move_one;
            (self.wide)(&self.operands.iter().map(&mut move_one).collect::<Result<Vec<_>>>()?)
        };
        let still = moved(0)?;
        let trials = (1..=TRIALS).map(moved).collect::<Result<Vec<_>>>()?;
        Ok((found.iter().zip(self.expected)).enumerate().all(|(at, (found, expected))| {
            let same_type =
                found.ty() == expected.ty() && still.get(at).is_some_and(|t| t.shape() == found.shape());
            if !same_type || !found.ty().dtype.is_float() {
                return same_type && found.data() == expected.data();
            }
            let elements = found.to_f64().into_iter().zip(expected.to_f64());
            elements.enumerate().all(|(i, (x, y))| {
                let base = still[at].data().get(i).float();
                let spread = trials.iter().map(|t| (t[at].data().get(i).float() - base).abs());
                let spread = spread.fold(0.0, f64::max);
                agree(x, y, self.within) || (x - y).abs() <= 8.0 * spread
            })
        }))
    }
}

/// Holds results against the reference's within the tolerance of the widest type that the call met, or of rounding.
pub(super) fn agree_within_rounding(
    device: &Device,
    name: &'static str,
    operands: &[HostTensor],
    found: Vec<HostTensor>,
    expected: &[HostTensor],
    reference: &dyn Fn(&[HostTensor]) -> Result<Vec<HostTensor>>,
    tally: &Tally,
) -> Checked {
    let types = operands.iter().chain(expected).map(|t| t.ty().dtype).filter(|dtype| dtype.is_float());
    // Draws are of f32, whatever type they are cast to.
    let drawn = id_of(name).is_some_and(|id| OPS[id].category == Category::Random);
    let types = types.chain(drawn.then_some(DType::F32));
    let precision =
        types.max_by(|a, b| tolerance::of(*a).total_cmp(&tolerance::of(*b))).unwrap_or(DType::F32);
    let within = (tolerance::GRADIENT * tolerance::of(precision)).max(tolerance::of_op(name));
    Held { operands, expected, within, precision, wide: reference }.settle(device, name, Ok(found), tally)
}

/// Whether a device says that it lacks something.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Dtype | ErrorKind::Unsupported)
}
