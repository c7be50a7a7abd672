//! `docs/ops.md`: the reference page of the ops, from the table, the rules, the cases and what devices say.

use std::collections::BTreeSet;
use std::fmt::Write;

use lanthorn_compiler::backend::Support;
use lanthorn_interp::HostTensor;
use lanthorn_ir::graph::topological;
use lanthorn_ir::ops::table::{Attribute, Category, Kind, OPS, Op, Parameter, Returns, call_id};
use lanthorn_ir::{DType, Error, Lazy, Prim, Result, TensorType, Value};

use crate::Case;
use crate::cases::every;

/// What a device says of a primitive on operands of these types.
pub type Supports<'a> = &'a dyn Fn(&Prim, &[&TensorType]) -> Result<Support>;

/// A device of the page: its name, what it says, and whether it lacks 64-bit numbers.
pub struct Column<'a> {
    pub name: &'a str,
    pub supports: Supports<'a>,
    pub narrow: bool,
}

/// The whole page.
pub fn page(columns: &[Column<'_>]) -> String {
    let cases = every();
    let mut out = String::from(INTRODUCTION);
    let mut categories: Vec<Category> = Vec::new();
    for op in OPS {
        if !categories.contains(&op.category) {
            categories.push(op.category);
        }
    }
    for category in categories {
        let _ = write!(out, "\n## {}\n\n| op | parameters | dtypes | orders | vmap |", title(category));
        columns.iter().for_each(|column| out.push_str(&format!(" {} |", column.name)));
        out.push_str(" what |\n|---|---|---|---|---|");
        out.push_str(&"---|".repeat(columns.len()));
        out.push_str("---|\n");
        for (id, op) in OPS.iter().enumerate().filter(|(_, op)| op.category == category) {
            let cases: Vec<&Case> = cases.iter().filter(|case| case.op == id).collect();
            out.push_str(&row(op, &cases, columns));
        }
    }
    out
}

const INTRODUCTION: &str = "\
# The ops

Every op of the engine: of Rust, Python, Node and browsers alike. This page is written by
`cargo run -p lanthorn-gpu --example ops_page` from the table in `crates/ir/src/ops/table.rs` and the cases in
`crates/optest/fixtures`; a test fails when it is stale.

- **parameters**: tensors first come, attributes follow; `name=value` has a default, `name?` may be left out, `name*` takes
  any number.
- **dtypes**: of the first tensor (of the result, where there is none).
- **orders**: how many derivatives finite differences confirm; all of them exist, for rules are compositions of ops. `-`:
  no derivative flows (integers, truth values).
- **vmap**: against a loop, every operand mapped, and each alone. `eager`: the shape of the result depends on values, so
  that the op runs in a graph only where `size` fixes it.
- **devices**: `kernel`: every primitive of the op has one; `simpler`: a primitive runs by its decomposition; `no`: refused
  by name, with what is missing.
";

fn title(category: Category) -> String {
    format!("{category:?}")
}

fn row(op: &Op, cases: &[&Case], columns: &[Column<'_>]) -> String {
    let parameters: Vec<String> = op.parameters.iter().map(parameter).collect();
    let eager = !cases.is_empty() && cases.iter().all(|case| case.is_eager_only());
    let list = if op.returns == Returns::Tensors { " (a list)" } else { "" };
    let mut row = format!(
        "| `{}`{list} | {} | {} | {} | {} |",
        op.name,
        parameters.join(", "),
        dtypes(op, cases),
        orders(cases),
        if eager { "eager" } else { "yes" },
    );
    for column in columns {
        let _ = write!(row, " {} |", support(cases, column));
    }
    let _ = writeln!(row, " {} |", summary(&op.docs()));
    row
}

fn parameter(parameter: &Parameter) -> String {
    let name = parameter.name;
    match (&parameter.kind, &parameter.default) {
        (Kind::Tensors, _) => format!("`{name}*`"),
        (Kind::OptionalTensor, _) | (_, Some(Attribute::None)) if parameter.kind.words().is_empty() => {
            format!("`{name}?`")
        }
        (kind, Some(Attribute::None)) => format!("`{name}={}`", kind.words()[0]),
        (_, Some(value)) => format!("`{name}={}`", attribute(value)),
        (_, None) => format!("`{name}`"),
    }
}

fn attribute(value: &Attribute) -> String {
    match value {
        Attribute::None => "none".into(),
        Attribute::Bool(v) => v.to_string(),
        Attribute::Int(v) => v.to_string(),
        Attribute::Float(v) if *v != 0.0 && v.abs() < 1e-3 => format!("{v:e}"),
        Attribute::Float(v) => format!("{v:?}"),
        Attribute::Ints(v) => format!("{v:?}"),
        Attribute::DType(v) => v.to_string(),
        Attribute::Text(v) => v.clone(),
    }
}

/// The first sentence.
fn summary(docs: &str) -> String {
    let paragraph: Vec<&str> = docs.lines().take_while(|line| !line.trim().is_empty()).collect();
    let text = paragraph.join(" ");
    // A sentence ends at a full stop before a capital letter; abbreviations before small ones or numbers do not end one.
    let bytes = text.as_bytes();
    let ends = |i: usize| {
        bytes[i] == b'.'
            && bytes.get(i + 1).is_none_or(|b| *b == b' ')
            && text[i + 1..].trim_start().chars().next().is_none_or(|c| c.is_uppercase() || c == '`')
            && !text[..i].ends_with(" al")
    };
    let end = (0..bytes.len()).find(|&i| ends(i)).map_or(text.len(), |i| i + 1);
    // Links to items of the source lead nowhere here.
    text[..end].replace("[`", "`").replace("`]", "`").replace("|", "\\|")
}

fn orders(cases: &[&Case]) -> String {
    let orders = cases.iter().filter(|case| case.is_differentiable()).map(|case| case.orders).max();
    orders.map_or("-".into(), |orders| orders.to_string())
}

/// The dtypes of the first tensor with which some case of the op makes a graph, or of the result of an op without
/// tensors.
fn dtypes(op: &Op, cases: &[&Case]) -> String {
    let accepted = |dtype: &DType| cases.iter().any(|case| accepts(op, case, *dtype));
    let found: Vec<DType> = DType::ALL.into_iter().filter(accepted).collect();
    describe(&found)
}

fn accepts(op: &Op, case: &Case, dtype: DType) -> bool {
    let graph = |attributes: &[Attribute], types: &[Option<TensorType>]| -> Result<Vec<Value>> {
        let leaf = |ty: &Option<TensorType>| ty.clone().map(Value::leaf).transpose();
        let leaves = types.iter().map(leaf).collect::<Result<Vec<_>>>()?;
        let given: Vec<Option<&Value>> = leaves.iter().map(Option::as_ref).collect();
        Ok(call_id(&Lazy, case.op, &given, attributes)?.into_vec())
    };
    let types: Vec<Option<TensorType>> =
        case.tensors.iter().map(|t| t.as_ref().map(|t| t.ty().clone())).collect();
    // An op that runs eagerly alone takes what it takes until its shape is asked for.
    let made = |result: Result<Vec<Value>>| match result {
        Ok(_) => true,
        Err(e) => case.is_eager_only() && e.message.contains("size"),
    };
    if let Some(first) = types.iter().flatten().next().map(|ty| ty.dtype) {
        let with = types.iter().map(|ty| {
            ty.clone().map(|ty| if ty.dtype == first { TensorType::new(dtype, &ty.shape) } else { ty })
        });
        return made(graph(&case.attributes, &with.collect::<Vec<_>>()));
    }
    let attributes: Vec<&Parameter> = op.parameters.iter().filter(|p| !p.kind.is_tensor()).collect();
    let mut given = case.attributes.clone();
    match attributes.iter().position(|p| p.kind == Kind::DType) {
        Some(at) => {
            given[at] = Attribute::DType(dtype);
            made(graph(&given, &[]))
        }
        None => graph(&given, &[]).is_ok_and(|values| values.iter().any(|value| value.ty().dtype == dtype)),
    }
}

/// A set of dtypes in words.
fn describe(found: &[DType]) -> String {
    use DType::*;
    const GROUPS: [(&str, &[DType]); 7] = [
        ("all", &DType::ALL),
        ("floats", &[F16, BF16, F32, F64]),
        ("f8", &[F8E4M3, F8E5M2]),
        ("ints", &[U8, U16, U32, U64, I8, I16, I32, I64]),
        ("signed ints", &[I8, I16, I32, I64]),
        ("bool", &[Bool]),
        ("complex", &[C64, C128]),
    ];
    let mut left: BTreeSet<DType> = found.iter().copied().collect();
    let mut words = Vec::new();
    for (name, group) in GROUPS {
        if group.iter().all(|dtype| left.contains(dtype)) {
            group.iter().for_each(|dtype| {
                left.remove(dtype);
            });
            words.push(name.to_string());
        }
    }
    words.extend(left.iter().map(|dtype| dtype.to_string()));
    words.join(", ")
}

/// How a graph runs on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Runs {
    Kernel,
    Simpler,
}

fn support(cases: &[&Case], column: &Column<'_>) -> String {
    let mut best: Option<Runs> = None;
    let mut missing: BTreeSet<String> = BTreeSet::new();
    for case in cases.iter().filter(|case| !case.is_eager_only()) {
        let Ok((_, roots)) = operands(case, column.narrow).and_then(|operands| case.graph(&operands)) else {
            continue;
        };
        match runs(&roots, column) {
            Ok(found) => best = Some(best.map_or(found, |best| best.max(found))),
            Err(e) => {
                missing.insert(e.op);
            }
        }
    }
    let missing: Vec<String> = missing.into_iter().map(|name| format!("`{name}`")).collect();
    match best {
        Some(best) => {
            let word = if best == Runs::Kernel { "kernel" } else { "simpler" };
            if missing.is_empty() {
                word.into()
            } else {
                format!("{word}; partly no: {}", missing.join(", "))
            }
        }
        None if missing.is_empty() => "eager".into(),
        None => format!("no: {}", missing.join(", ")),
    }
}

fn operands(case: &Case, narrow: bool) -> Result<Vec<HostTensor>> {
    if !narrow {
        return Ok(case.operands());
    }
    let suit = |t: HostTensor| match t.ty().dtype {
        DType::I64 => HostTensor::collect(&TensorType::new(DType::I32, t.shape()), t.data().iter()),
        _ => Ok(t),
    };
    case.operands_in(DType::F32)?.into_iter().map(suit).collect()
}

/// The worst of what the graph's primitives need; an error is what the device lacks.
fn runs(roots: &[Value], column: &Column<'_>) -> Result<Runs> {
    let mut worst = Runs::Kernel;
    for node in topological(roots, |_| false) {
        let prim = node.prim();
        if node.inputs().is_empty() && matches!(prim, Prim::Source(lanthorn_ir::prim::Source::Leaf { .. })) {
            continue;
        }
        let types: Vec<&TensorType> = node.inputs().iter().map(Value::ty).collect();
        if (column.supports)(prim, &types)? == Support::Decompose {
            worst = Runs::Simpler;
            let leaves = types.iter().map(|&ty| Value::leaf(ty.clone())).collect::<Result<Vec<Value>>>()?;
            let simpler = prim.decompose(&Lazy, &leaves)?;
            let simpler = simpler.ok_or_else(|| Error::unsupported(prim.name(), "no simpler form"))?;
            runs(&simpler, column)?;
        }
    }
    Ok(worst)
}
