//! The functions against mpmath, `values.py`, in units in the last place; and what they make of every kind of argument.

use std::collections::BTreeMap;

use lanthorn_ir::expr::{BinaryOp, UnaryOp};
use lanthorn_special::{bessel, binary, erf, gamma, normal, softplus, unary};

/// The distance of a value from the exact one, in units in the last place of that.
fn ulps(found: f64, expected: f64) -> f64 {
    if found == expected {
        return 0.0;
    }
    let size = expected.abs().max(f64::MIN_POSITIVE);
    let unit = f64::from_bits(size.to_bits() + 1) - size;
    (found - expected).abs() / unit
}

/// The largest error in ulp of each function over the fixture's points.
fn bound(name: &str) -> f64 {
    match name {
        "sinh" | "cosh" | "asin" | "acos" | "atan" | "asinh" | "acosh" | "atanh" | "erfc" | "softplus" => 2.0,
        "lgamma" => 4.0,
        "erfcx" | "log_erfcx" | "erfinv" | "erfcinv" | "ndtri_exp" | "i0e" | "i1e" => 4.0,
        "ndtr" | "log_ndtr" | "ndtri" | "i0" | "i1" => 6.0,
        "erfc_integral" => 16.0,
        // Near its zeros only the absolute error is small; `error` says how that is counted.
        "digamma" => 8.0,
        // A power of large order stands on a rounded argument.
        "polygamma" => 128.0,
        other => panic!("no bound for {other}"),
    }
}

fn error(name: &str, found: f64, expected: f64) -> f64 {
    // The zeros of digamma: by an absolute error in units of 1.
    if name == "digamma" {
        ulps(found, expected).min((found - expected).abs() / f64::EPSILON)
    } else {
        ulps(found, expected)
    }
}

type Function = Box<dyn Fn(&[f64]) -> f64>;

fn function(name: &str) -> Function {
    let one: fn(f64) -> f64 = match name {
        "softplus" => softplus,
        "lgamma" => gamma::lgamma,
        "erfcx" => erf::erfcx,
        "log_erfcx" => erf::log_erfcx,
        "erfinv" => erf::erfinv,
        "erfcinv" => erf::erfcinv,
        "ndtr" => normal::ndtr,
        "log_ndtr" => normal::log_ndtr,
        "ndtri" => normal::ndtri,
        "ndtri_exp" => normal::ndtri_exp,
        "digamma" => gamma::digamma,
        "i0" => bessel::i0,
        "i0e" => bessel::i0e,
        "i1" => bessel::i1,
        "i1e" => bessel::i1e,
        "polygamma" => return Box::new(|x| gamma::polygamma(x[0], x[1])),
        "erfc_integral" => return Box::new(|x| erf::erfc_integral(x[0], x[1])),
        // Not of this crate, but handed on by it.
        other => {
            let op = UnaryOp::ALL.into_iter().find(|op| op.name() == other);
            op.and_then(unary).unwrap_or_else(|| panic!("no function {other}"))
        }
    };
    Box::new(move |x| one(x[0]))
}

#[test]
fn values_are_those_of_mpmath() {
    let table: BTreeMap<String, Vec<Vec<f64>>> = serde_json::from_str(include_str!("values.json")).unwrap();
    assert_eq!(table.len(), 26);
    let mut wrong = Vec::new();
    for (name, rows) in &table {
        let f = function(name);
        let mut worst = (0.0, vec![]);
        for row in rows {
            let (at, expected) = row.split_at(row.len() - 1);
            let found = f(at);
            let error = error(name, found, expected[0]);
            if error > worst.0 || error.is_nan() {
                worst = (error, vec![row.clone(), vec![found]]);
            }
        }
        println!("{name}: {:.1} ulp at {:?}", worst.0, worst.1);
        if worst.0 > bound(name) || worst.0.is_nan() {
            wrong.push(format!("{name}: {} ulp at {:?}", worst.0, worst.1));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const ODD: [f64; 17] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    1e-320,
    1e-300,
    1e300,
    -1e300,
    f64::MAX,
    f64::MIN,
    f64::EPSILON,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Every function comes back from every argument, and NaN stays NaN.
#[test]
fn no_argument_hangs_or_hides_nan() {
    for op in UnaryOp::ALL {
        let Some(f) = unary(op) else { continue };
        for x in ODD {
            let y = f(x);
            assert!(!x.is_nan() || y.is_nan(), "{} of NaN is {y}", op.name());
        }
    }
    for op in BinaryOp::ALL {
        let Some(f) = binary(op) else { continue };
        for x in ODD {
            for y in ODD {
                f(x, y);
            }
        }
    }
}

#[test]
fn limits_are_exact() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases: [(&str, f64, f64); 33] = [
        ("erfcx", inf, 0.0),
        ("erfcx", -inf, inf),
        ("log_erfcx", -inf, inf),
        ("log_erfcx", inf, -inf),
        ("erfinv", 1.0, inf),
        ("erfinv", -1.0, -inf),
        ("erfinv", 1.5, nan),
        ("erfcinv", 0.0, inf),
        ("erfcinv", 2.0, -inf),
        ("erfcinv", -0.5, nan),
        ("erfcinv", 2.5, nan),
        ("ndtr", inf, 1.0),
        ("ndtr", -inf, 0.0),
        ("log_ndtr", inf, 0.0),
        ("log_ndtr", -inf, -inf),
        ("log_ndtr", -1e200, -inf),
        ("ndtri", 0.0, -inf),
        ("ndtri", 1.0, inf),
        ("ndtri", 0.5, 0.0),
        ("ndtri", -0.1, nan),
        ("ndtri", 1.1, nan),
        ("ndtri_exp", 0.0, inf),
        ("ndtri_exp", -inf, -inf),
        ("ndtri_exp", 0.1, nan),
        ("digamma", 0.0, -inf),
        ("digamma", -0.0, inf),
        ("digamma", -3.0, nan),
        ("digamma", inf, inf),
        ("i0e", inf, 0.0),
        ("i1e", -inf, 0.0),
        ("i0", -inf, inf),
        ("i1", -inf, -inf),
        ("softplus", -inf, 0.0),
    ];
    for (name, x, expected) in cases {
        let found = function(name)(&[x]);
        assert!(found == expected || found.is_nan() && expected.is_nan(), "{name}({x}) is {found}");
    }
    assert_eq!(gamma::polygamma(1.0, 0.0), inf);
    assert_eq!(gamma::polygamma(2.0, -4.0), -inf);
    assert!(gamma::polygamma(0.5, 1.0).is_nan());
}

/// The far tail there and back.
#[test]
fn quantiles_undo_the_tails() {
    for x in [-1.0, -8.0, -37.0, -38.6, -40.0, -300.0, -1e5, -1e80, 3.0, 8.0] {
        let back = normal::ndtri_exp(normal::log_ndtr(x));
        // Above 0 the logarithm of a probability near 1 keeps few digits of it.
        let tolerance = if x > 0.0 { 1e-2_f64.min(1e-16 / (-x * x / 2.0).exp()) } else { 1e-15 };
        assert!((back - x).abs() <= tolerance.max(1e-15) * x.abs(), "{x} came back as {back}");
    }
    assert!((normal::log_ndtr(-40.0) + 804.608_442_013_754_4).abs() < 1e-11);
}
