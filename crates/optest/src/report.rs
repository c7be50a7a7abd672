//! Running one check over many cases: every failure is reported, not the first alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lanthorn_interp::HostTensor;

/// What a check says: nothing, or what is wrong.
pub type Checked = Result<(), String>;

/// Runs `check` on every item and fails with all that is wrong.
///
/// Panics if there was nothing to check, too, unless `LANTHORN_CASES` restricts the cases.
#[track_caller]
pub fn over<T>(
    items: impl IntoIterator<Item = T>,
    name: impl Fn(&T) -> String,
    check: impl Fn(&T) -> Checked,
) {
    let (mut met, mut failures) = (0, Vec::new());
    for item in items {
        met += 1;
        if let Err(message) = guarded(|| check(&item)) {
            failures.push(format!("{}: {message}", name(&item)));
        }
    }
    assert!(met > 0 || std::env::var_os("LANTHORN_CASES").is_some(), "there was nothing to check");
    assert!(failures.is_empty(), "{} of {met} fail\n{}", failures.len(), failures.join("\n"));
}

/// A panic inside as a message.
pub fn guarded(check: impl FnOnce() -> Checked) -> Checked {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("of unknown cause");
        Err(format!("a panic: {text}"))
    })
}

/// Whether two numbers agree within `tolerance`, absolute and relative; equal infinities agree, and NaN agrees
/// with NaN.
pub fn agree(found: f64, expected: f64, tolerance: f64) -> bool {
    let same = found == expected || (found.is_nan() && expected.is_nan());
    same || (expected.is_finite() && (found - expected).abs() <= tolerance * (1.0 + expected.abs()))
}

/// Says where two lists of numbers differ.
pub fn close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) -> Checked {
    if found.len() != expected.len() {
        return Err(format!("{what}: {} elements, expected {}", found.len(), expected.len()));
    }
    let differs = (0..found.len()).find(|&i| !agree(found[i], expected[i], tolerance));
    match differs {
        None => Ok(()),
        Some(i) => Err(format!(
            "{what}: element {i} is {:?}, expected {:?} within {tolerance:e}",
            found[i], expected[i]
        )),
    }
}

/// Says where two tensors differ: types and integers exactly, floats within `tolerance`.
pub fn equal(what: &str, found: &HostTensor, expected: &HostTensor, tolerance: f64) -> Checked {
    if found.ty() != expected.ty() {
        return Err(format!("{what} is {}, expected {}", found.ty(), expected.ty()));
    }
    if expected.ty().dtype.is_complex() {
        return close(what, &found.to_complex().concat(), &expected.to_complex().concat(), tolerance);
    }
    if expected.ty().dtype.is_float() {
        return close(what, &found.to_f64(), &expected.to_f64(), tolerance);
    }
    let differs = (0..expected.data().len()).find(|&i| found.data().get(i) != expected.data().get(i));
    match differs {
        None => Ok(()),
        Some(i) => {
            let (found, expected) = (found.data().get(i), expected.data().get(i));
            Err(format!("{what}: element {i} is {found:?}, expected {expected:?}"))
        }
    }
}

/// [`equal`] for all results of a call.
pub fn all_equal(found: &[HostTensor], expected: &[HostTensor], tolerance: f64) -> Checked {
    if found.len() != expected.len() {
        return Err(format!("{} results, expected {}", found.len(), expected.len()));
    }
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        equal(&format!("result {at}"), found, expected, tolerance)?;
    }
    Ok(())
}
