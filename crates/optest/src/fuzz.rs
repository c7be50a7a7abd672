//! Random calls of random ops: nothing panics, errors name the op, derivatives of what is accepted exist, and the
//! reference runs what is small enough. `device::fuzz` holds a device against it.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use lanthorn_interp::{HostTensor, Interp, Number};
use lanthorn_ir::graph::{Node, topological};
use lanthorn_ir::ops::table::{Attribute, Kind, OPS, Op, call_id};
use lanthorn_ir::{Builder, DType, Lazy, Result, TensorType, Value, ops, transform};

use crate::Case;
use crate::cases::all;
use crate::sequence::Sequence;

/// Elements of all values of a graph together, up to which it is run.
const SMALL: usize = 20_000;
/// Nodes of a graph, up to which it is run and differentiated.
const FEW: usize = 2_000;
/// The longest axis of a call that is run and differentiated: a recurrence unrolls along its axis.
const SHORT: usize = 4_096;

/// What a run found.
#[derive(Debug, Default)]
pub struct Findings {
    pub calls: usize,
    /// Calls that a graph accepted.
    pub accepted: usize,
    /// Calls that gave values on both sides.
    pub compared: usize,
    /// What is wrong, with the first call that showed it and how many did.
    pub faults: BTreeMap<String, (String, usize)>,
}

impl Findings {
    /// Notes a fault under its kind, with what showed it.
    pub fn fault(&mut self, kind: String, example: String) {
        let entry = self.faults.entry(kind).or_insert((example, 0));
        entry.1 += 1;
    }
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (fault, (call, count)) in &self.faults {
            writeln!(f, "{fault} ({count} times)\n    {call}")?;
        }
        let Findings { calls, accepted, compared, faults } = self;
        write!(f, "{calls} calls, {accepted} accepted, {compared} compared, {} kinds of fault", faults.len())
    }
}

/// A call that may be wrong in every way.
#[derive(Clone, Debug)]
pub struct Call {
    pub op: usize,
    pub types: Vec<Option<TensorType>>,
    pub attributes: Vec<Attribute>,
    /// Operands that suit the op, where the call is made from a case.
    pub values: Option<Vec<Option<HostTensor>>>,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types: Vec<String> =
            self.types.iter().map(|ty| ty.as_ref().map_or("none".into(), TensorType::to_string)).collect();
        write!(f, "{}({}; {:?})", OPS[self.op].name, types.join(", "), self.attributes)
    }
}

/// Seed and budget: so many calls from seed 1, or what `LANTHORN_FUZZ` says: `600,7` is 600 seconds from seed 7.
pub fn budget(calls: usize) -> (u64, impl FnMut() -> bool) {
    let given = std::env::var("LANTHORN_FUZZ").unwrap_or_default();
    let mut numbers = given.split(',').filter_map(|text| text.parse::<u64>().ok());
    let end = numbers.next().map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut made = 0;
    let more = move || {
        made += 1;
        end.map_or(made <= calls, |end| Instant::now() < end)
    };
    (numbers.next().unwrap_or(1), more)
}

/// What is done with a call that is small enough to run: the call, operands, and what the reference said.
pub type Run<'a> = &'a dyn Fn(&Call, &[HostTensor], &Result<Vec<HostTensor>>, &mut Sequence, &mut Findings);

/// Makes calls until `more` says no, of the ops that have the cases of [`all`]. The same seed makes the same calls as
/// long as no op or case is added.
pub fn fuzz(seed: u64, mut more: impl FnMut() -> bool, run: Run<'_>) -> Findings {
    let mut s = Sequence::new(seed);
    let cases = all();
    let ops: Vec<usize> = cases.iter().map(|case| case.op).collect::<BTreeSet<_>>().into_iter().collect();
    let mut findings = Findings::default();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    while more() {
        let call = if s.below(3) == 0 { invented(&mut s, &ops) } else { mutated(&mut s, &cases) };
        findings.calls += 1;
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| one(&call, &mut s, &mut findings, run))) {
            let text = payload.downcast_ref::<String>().cloned();
            let text = text.or(payload.downcast_ref::<&str>().map(|t| t.to_string())).unwrap_or_default();
            findings.fault(format!("{}: panics: {}", OPS[call.op].name, head(&text)), call.to_string());
        }
    }
    std::panic::set_hook(hook);
    findings
}

/// The first line without numbers, so that one fault has one name.
pub fn head(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).take(140).collect()
}

fn one(call: &Call, s: &mut Sequence, findings: &mut Findings, run: Run<'_>) {
    let op = &OPS[call.op];
    let leaf = |ty: &Option<TensorType>| ty.clone().map(Value::leaf).transpose();
    // A type that no value can have is refused where it is made.
    let Ok(leaves) = call.types.iter().map(leaf).collect::<Result<Vec<_>>>() else { return };
    let given: Vec<Option<&Value>> = leaves.iter().map(Option::as_ref).collect();
    let roots = match call_id(&Lazy, call.op, &given, &call.attributes) {
        Ok(roots) => roots,
        Err(e) => {
            if e.op != op.name && !e.message.contains(op.name) {
                findings.fault(format!("{}: an error names {} instead", op.name, e.op), call.to_string());
            }
            if e.message.contains("internal") {
                findings
                    .fault(format!("{}: an internal error: {}", op.name, head(&e.message)), call.to_string());
            }
            return;
        }
    };
    findings.accepted += 1;
    let nodes = topological(&roots, |_| false);
    // An operand that the result does not depend on counts too.
    let values = || nodes.iter().flat_map(Node::outputs).chain(leaves.iter().flatten().cloned());
    let elements = values().fold(0, |sum: usize, value| sum.saturating_add(value.ty().numel()));
    let longest = values().flat_map(|value| value.ty().shape.to_vec()).max().unwrap_or(0);
    if nodes.len() > FEW || longest > SHORT {
        return;
    }
    differentiate(&leaves, &roots, call, findings);
    if elements > SMALL {
        return;
    }
    let Some(operands) = operands(call, s) else { return };
    let expected = call.on(&Interp, &operands);
    run(call, &operands, &expected, s, findings);
}

/// The derivatives of a graph that was accepted can be built, and so can its map over a new axis.
fn differentiate(leaves: &[Option<Value>], roots: &[Value], call: &Call, findings: &mut Findings) {
    let name = OPS[call.op].name;
    let leaves: Vec<Value> = leaves.iter().flatten().cloned().collect();
    let real = |value: &&Value| value.ty().dtype.is_float();
    let floats: Vec<Value> = leaves.iter().filter(real).cloned().collect();
    let outputs: Vec<Value> = roots.iter().filter(real).cloned().collect();
    let derivatives = || -> Result<()> {
        let ones = outputs.iter().map(|o| ops::ones_like(&Lazy, o)).collect::<Result<Vec<_>>>()?;
        transform::vjp(&outputs, &ones, &floats)?;
        let tangents = floats.iter().map(|x| ops::ones_like(&Lazy, x)).collect::<Result<Vec<_>>>()?;
        transform::jvp(&outputs, &floats, &tangents)?;
        Ok(())
    };
    // Arithmetic in eight bits is refused, in derivatives too.
    if leaves.iter().chain(roots).any(|v| matches!(v.ty().dtype, DType::F8E4M3 | DType::F8E5M2)) {
        let _ = derivatives();
        return;
    }
    // What is no function of its operands (a basis of which any would do) says so itself.
    if let Err(e) = derivatives()
        && !(e.op == name && e.message.contains("has no derivative"))
    {
        findings.fault(format!("{name}: no derivative: {}: {}", e.op, head(&e.message)), call.to_string());
    }
    let batched = leaves.iter().map(|leaf| {
        let mut ty = leaf.ty().clone();
        ty.shape.insert(0, 2);
        Value::leaf(ty)
    });
    let Ok(batched) = batched.collect::<Result<Vec<_>>>() else { return };
    if batched.is_empty() {
        return;
    }
    let mapped = transform::vmap(|v| call.on(&Lazy, v), &batched, &vec![true; batched.len()]);
    if let Err(e) = mapped {
        findings.fault(format!("{name}: no vmap: {}: {}", e.op, head(&e.message)), call.to_string());
    }
}

impl Call {
    /// The call by a builder.
    pub fn on<B: Builder>(&self, b: &B, operands: &[B::Value]) -> Result<Vec<B::Value>> {
        let mut rest = operands.iter();
        let given: Vec<Option<&B::Value>> =
            self.types.iter().map(|ty| ty.as_ref().and_then(|_| rest.next())).collect();
        Ok(call_id(b, self.op, &given, &self.attributes)?.into_vec())
    }
}

/// Values of a case where the types are still its own, else invented ones.
fn operands(call: &Call, s: &mut Sequence) -> Option<Vec<HostTensor>> {
    let mut found = Vec::new();
    for (at, ty) in call.types.iter().enumerate() {
        let Some(ty) = ty else { continue };
        let given = call.values.as_ref().and_then(|values| values.get(at)).and_then(Option::as_ref);
        let tensor = match given.filter(|t| t.shape() == &ty.shape[..]) {
            Some(given) => HostTensor::collect(ty, given.data().iter()),
            None => {
                let special = s.below(8) == 0;
                let number = |s: &mut Sequence| match ty.dtype {
                    DType::Bool => Number::Bool(s.below(2) == 1),
                    dtype if dtype.is_float() => Number::Float(match s.below(12) {
                        0 if special => *s.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e30]),
                        1 => 0.0,
                        _ => s.uniform(-2.0, 2.0),
                    }),
                    _ => Number::Int(s.below(5) as i128 - if special { 2 } else { 0 }),
                };
                let numbers: Vec<Number> = (0..ty.numel()).map(|_| number(s)).collect();
                HostTensor::collect(ty, numbers.into_iter())
            }
        };
        found.push(tensor.ok()?);
    }
    Some(found)
}

/// A call out of nothing.
fn invented(s: &mut Sequence, ops: &[usize]) -> Call {
    let op = *s.pick(ops);
    let dtype = *s.pick(&DType::ALL[..13]);
    let dtype = if s.below(3) > 0 { *s.pick(&[DType::F32, DType::F64]) } else { dtype };
    let base = shape(s);
    let mut types = Vec::new();
    let mut attributes = Vec::new();
    for parameter in OPS[op].parameters {
        let ty = |s: &mut Sequence| Some(TensorType::new(some_dtype(s, dtype), some_shape(s, &base)));
        match parameter.kind {
            Kind::Tensor => types.push(ty(s)),
            Kind::OptionalTensor => types.push(if s.below(2) == 0 { None } else { ty(s) }),
            Kind::Tensors => (0..s.below(4)).for_each(|_| types.push(ty(s))),
            kind => attributes.push(value(s, kind)),
        }
    }
    Call { op, types, attributes, values: None }
}

/// A case with something changed.
fn mutated(s: &mut Sequence, cases: &[Case]) -> Call {
    let case = s.pick(cases);
    let mut call = Call {
        op: case.op,
        types: case.tensors.iter().map(|t| t.as_ref().map(|t| t.ty().clone())).collect(),
        attributes: case.attributes.clone(),
        values: Some(case.tensors.clone()),
    };
    let kinds: Vec<Kind> = row(&call).parameters.iter().map(|p| p.kind).filter(|k| !k.is_tensor()).collect();
    for _ in 0..1 + s.below(2) {
        match s.below(6) {
            0 | 1 if !kinds.is_empty() => {
                let at = s.below(kinds.len());
                call.attributes[at] = value(s, kinds[at]);
            }
            2 => {
                let to = *s.pick(&DType::ALL[..13]);
                for ty in call.types.iter_mut().flatten().filter(|ty| ty.dtype.is_float()) {
                    ty.dtype = to;
                }
            }
            3 if !call.types.is_empty() => {
                let at = s.below(call.types.len());
                if let Some(ty) = &mut call.types[at] {
                    ty.dtype = *s.pick(&DType::ALL[..13]);
                }
            }
            4 if !call.types.is_empty() => {
                let at = s.below(call.types.len());
                if let Some(ty) = &mut call.types[at] {
                    let base = ty.shape.to_vec();
                    ty.shape = some_shape(s, &base).into_iter().collect();
                }
            }
            _ => {
                // One size to another one, wherever it stands.
                let sizes: Vec<usize> =
                    call.types.iter().flatten().flat_map(|ty| ty.shape.to_vec()).collect();
                if !sizes.is_empty() {
                    let (from, to) = (*s.pick(&sizes), size(s));
                    for ty in call.types.iter_mut().flatten() {
                        ty.shape.iter_mut().filter(|n| **n == from).for_each(|n| *n = to);
                    }
                }
            }
        }
    }
    call
}

fn row(call: &Call) -> &'static Op {
    &OPS[call.op]
}

fn some_dtype(s: &mut Sequence, usual: DType) -> DType {
    if s.below(6) == 0 { *s.pick(&DType::ALL) } else { usual }
}

fn size(s: &mut Sequence) -> usize {
    match s.below(40) {
        0 => *s.pick(&[usize::MAX, isize::MAX as usize, 1 << 62, 1 << 40, 1 << 20]),
        1..=8 => 0,
        9..=18 => 1,
        _ => s.below(6),
    }
}

fn shape(s: &mut Sequence) -> Vec<usize> {
    (0..s.below(5)).map(|_| size(s)).collect()
}

/// The shape itself most often, or one that broadcasts with it, or any.
fn some_shape(s: &mut Sequence, base: &[usize]) -> Vec<usize> {
    match s.below(8) {
        0 => shape(s),
        1 => base.iter().map(|&n| if s.below(2) == 0 { 1 } else { n }).collect(),
        2 => base[s.below(base.len() + 1)..].to_vec(),
        3 => base.iter().rev().copied().collect(),
        4 => [base, &[size(s)]].concat(),
        _ => base.to_vec(),
    }
}

fn int(s: &mut Sequence) -> i64 {
    match s.below(10) {
        0 => *s.pick(&[i64::MIN, i64::MAX, i64::MIN + 1, 1 << 62, -(1 << 40), 1 << 31]),
        _ => s.below(9) as i64 - 4,
    }
}

fn value(s: &mut Sequence, kind: Kind) -> Attribute {
    let float = |s: &mut Sequence| match s.below(5) {
        0 => *s.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300, 5e-324, -1e300]),
        1 => *s.pick(&[0.0, 1.0, -1.0, 0.5, 2.0]),
        _ => s.uniform(-3.0, 3.0),
    };
    if s.below(5) == 0 {
        return Attribute::None;
    }
    // A value of another kind, now and then.
    if s.below(40) == 0 {
        return match s.below(5) {
            0 => Attribute::Bool(true),
            1 => Attribute::Text("no such word".into()),
            2 => Attribute::Ints(vec![1, -1]),
            3 => Attribute::DType(DType::C64),
            _ => Attribute::Float(float(s)),
        };
    }
    match kind {
        Kind::Float | Kind::OptionalFloat => Attribute::Float(float(s)),
        Kind::Bool => Attribute::Bool(s.below(2) == 1),
        Kind::Scalar | Kind::OptionalScalar => match s.below(3) {
            0 => Attribute::Bool(true),
            1 => Attribute::Int(int(s)),
            _ => Attribute::Float(float(s)),
        },
        Kind::DType => Attribute::DType(*s.pick(&DType::ALL)),
        Kind::Ints | Kind::Sizes => Attribute::Ints((0..s.below(5)).map(|_| int(s)).collect()),
        kind if !kind.words().is_empty() => Attribute::Text((*s.pick(kind.words())).into()),
        _ => Attribute::Int(int(s)),
    }
}
