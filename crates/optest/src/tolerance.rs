//! How far a device may be from the reference: one table, which `docs/numerics.md` shows.

use lanthorn_ir::DType;

/// One row: a dtype and the tolerance of its results, absolute and relative.
pub const TABLE: [(DType, f64); 4] =
    [(DType::F64, 1e-11), (DType::F32, 2e-5), (DType::F16, 4e-3), (DType::BF16, 3e-2)];

/// A gradient sums what was rounded on the way: this much wider.
pub const GRADIENT: f64 = 4.0;

/// The tolerance of a result of this dtype, of a complex one that of its parts; integers and truth values agree exactly.
pub fn of(dtype: DType) -> f64 {
    let dtype = dtype.part().unwrap_or(dtype);
    TABLE.iter().find(|(of, _)| *of == dtype).map_or(0.0, |(_, tolerance)| *tolerance)
}

/// Ops whose operands a device may round to less than their dtype holds, and how far off they may be: products with packed
/// weights multiply 16-bit integers.
pub const COARSE: [(&str, f64); 1] = [("quantized_linear", 2e-3)];

/// The least tolerance of an op's results.
pub fn of_op(name: &str) -> f64 {
    COARSE.iter().find(|(of, _)| *of == name).map_or(0.0, |(_, tolerance)| *tolerance)
}

/// The largest error of a function of one number on the CPU between two arguments, in units in the last place of the
/// exact result. Half types round the result in f32 once more.
#[derive(Clone, Copy, Debug)]
pub struct Ulps {
    pub name: &'static str,
    pub f32: f64,
    pub f64: f64,
    pub low: f64,
    pub high: f64,
}

const fn anywhere(name: &'static str, f32: f64, f64: f64) -> Ulps {
    Ulps { name, f32, f64, low: f64::NEG_INFINITY, high: f64::INFINITY }
}

/// One row a function; `crates/cpu/tests/ulps.rs` measures.
pub const ULPS: &[Ulps] = &[
    anywhere("neg", 0.0, 0.0),
    anywhere("abs", 0.0, 0.0),
    anywhere("sign", 0.0, 0.0),
    anywhere("floor", 0.0, 0.0),
    anywhere("ceil", 0.0, 0.0),
    anywhere("round", 0.0, 0.0),
    anywhere("trunc", 0.0, 0.0),
    anywhere("exp", 1.5, 1.0),
    anywhere("expm1", 2.0, 1.0),
    anywhere("log", 1.0, 1.0),
    anywhere("log1p", 2.0, 1.0),
    anywhere("sqrt", 0.5, 0.0),
    anywhere("rsqrt", 2.0, 1.0),
    anywhere("reciprocal", 0.5, 0.0),
    anywhere("sin", 2.0, 1.0),
    anywhere("cos", 2.0, 1.0),
    anywhere("tanh", 3.0, 1.0),
    anywhere("sigmoid", 3.0, 1.0),
    anywhere("erf", 2.0, 1.0),
    anywhere("relu", 0.0, 0.0),
    // Below, 1 + erf cancels, as it does upstream.
    Ulps { name: "gelu", f32: 32.0, f64: 64.0, low: -2.0, high: f64::INFINITY },
    Ulps { name: "gelu_tanh", f32: 32.0, f64: 64.0, low: -4.0, high: f64::INFINITY },
    Ulps { name: "silu", f32: 4.0, f64: 4.0, low: -87.0, high: f64::INFINITY },
    anywhere("softplus", 4.0, 2.0),
    // Those of `crates/special`, which computes f32 in f64: in f64 held against mpmath there.
    anywhere("sinh", 0.5, 2.0),
    anywhere("cosh", 0.5, 2.0),
    anywhere("asin", 0.5, 2.0),
    anywhere("acos", 0.5, 2.0),
    anywhere("atan", 0.5, 2.0),
    anywhere("asinh", 0.5, 2.0),
    anywhere("acosh", 0.5, 2.0),
    anywhere("atanh", 0.5, 2.0),
    anywhere("erfc", 0.5, 2.0),
    anywhere("erfcx", 0.5, 4.0),
    anywhere("log_erfcx", 0.5, 4.0),
    anywhere("erfinv", 0.5, 4.0),
    anywhere("erfcinv", 0.5, 4.0),
    anywhere("ndtr", 0.5, 6.0),
    anywhere("log_ndtr", 0.5, 6.0),
    anywhere("ndtri", 0.5, 6.0),
    anywhere("ndtri_exp", 0.5, 4.0),
    // Elsewhere they cross 0, where the error is small but not in these units.
    Ulps { name: "lgamma", f32: 0.5, f64: 4.0, low: 0.0, high: f64::INFINITY },
    Ulps { name: "digamma", f32: 0.5, f64: 8.0, low: 2.0, high: f64::INFINITY },
    anywhere("i0", 0.5, 6.0),
    anywhere("i0e", 0.5, 4.0),
    anywhere("i1", 0.5, 6.0),
    anywhere("i1e", 0.5, 4.0),
];

/// Where the tables stand in `docs/numerics.md`.
pub const BEGIN: &str = "<!-- tables of crates/optest/src/tolerance.rs -->\n";
pub const END: &str = "<!-- end of the tables -->\n";

/// Both tables as the page shows them.
pub fn markdown() -> String {
    let mut out =
        String::from("| results in | within (absolute and relative) | gradients |\n|---|---|---|\n");
    for (dtype, tolerance) in TABLE {
        out.push_str(&format!("| {dtype} | {tolerance:e} | {:e} |\n", GRADIENT * tolerance));
    }
    out.push_str(
        "| integers, bool | equal | |\n\n| function | f32, ulp | f64, ulp | arguments |\n|---|---|---|---|\n",
    );
    for Ulps { name, f32, f64, low, high } in ULPS {
        let arguments = match (low.is_finite(), high.is_finite()) {
            (false, false) => "all".into(),
            (true, false) => format!("from {low}"),
            (false, true) => format!("to {high}"),
            (true, true) => format!("{low} to {high}"),
        };
        out.push_str(&format!("| `{name}` | {f32} | {f64} | {arguments} |\n"));
    }
    out
}

/// The page with its tables replaced; `None` where it has no place for them.
pub fn renew(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", markdown()))
}
