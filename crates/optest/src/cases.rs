//! The cases: calls through the op table with values that other libraries computed.
//!
//! `fixtures/<family>.py` writes `fixtures/<family>.json`; this module reads all of them.

use std::path::PathBuf;

use lanthorn_interp::{HostTensor, Interp, Number};
use lanthorn_ir::ops::table::{Attribute, Kind, OPS, Op, Parameter, call_id, id_of};
use lanthorn_ir::{Builder, DType, Lazy, Result, TensorType, Value};
use serde_json::Value as Json;

/// The float types in which devices are held against the reference.
pub const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

/// An op with its operands, and what comes out.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file that it stands in.
    pub family: String,
    /// Its place there.
    pub number: usize,
    /// The position of the op in the table.
    pub op: usize,
    pub tensors: Vec<Option<HostTensor>>,
    /// In the table's order; [`Attribute::None`] is the default.
    pub attributes: Vec<Attribute>,
    pub expected: Vec<HostTensor>,
    /// How many derivatives finite differences can confirm at these operands.
    pub orders: usize,
    /// How far the reference may be from `expected`, absolute and relative.
    pub tolerance: f64,
    /// The types that f64 operands are tried in. Empty where there are none.
    pub dtypes: Vec<DType>,
    pub note: String,
}

impl Case {
    /// The row of the table.
    pub fn row(&self) -> &'static Op {
        &OPS[self.op]
    }

    /// What messages call it.
    pub fn name(&self) -> String {
        let note = if self.note.is_empty() { String::new() } else { format!(", {}", self.note) };
        format!("{} {}, {}{note}", self.family, self.number, self.row().name)
    }

    /// The operands that are there.
    pub fn operands(&self) -> Vec<HostTensor> {
        self.tensors.iter().flatten().cloned().collect()
    }

    /// The op on other operands, as many as [`Case::operands`] gives.
    pub fn call<B: Builder>(&self, b: &B, operands: &[B::Value]) -> Result<Vec<B::Value>> {
        let mut rest = operands.iter();
        let tensors: Vec<Option<&B::Value>> =
            self.tensors.iter().map(|t| t.as_ref().and_then(|_| rest.next())).collect();
        Ok(call_id(b, self.op, &tensors, &self.attributes)?.into_vec())
    }

    /// The op on host tensors, by the reference.
    pub fn reference(&self, operands: &[HostTensor]) -> Result<Vec<HostTensor>> {
        self.call(&Interp, operands)
    }

    /// The op as a graph over leaves of the operands' types.
    pub fn graph(&self, operands: &[HostTensor]) -> Result<(Vec<Value>, Vec<Value>)> {
        let leaves = operands.iter().map(|t| Value::leaf(t.ty().clone())).collect::<Result<Vec<_>>>()?;
        let roots = self.call(&Lazy, &leaves)?;
        Ok((leaves, roots))
    }

    /// True if the op runs eagerly alone: the shape of its result depends on values, and it has a parameter that
    /// would fix it. An op that has none may not be refused in a graph.
    pub fn is_eager_only(&self) -> bool {
        let sized = self.row().parameters.iter().any(|p| p.name == "size");
        let refused = self.graph(&self.operands()).err();
        sized && refused.is_some_and(|e| e.message.contains("size"))
    }

    /// True if there is a derivative to confirm: a f64 operand, and a float result.
    pub fn is_differentiable(&self) -> bool {
        let f64s = self.tensors.iter().flatten().any(|t| t.ty().dtype == DType::F64);
        f64s && self.expected.iter().any(|t| t.ty().dtype.is_float())
    }

    /// The operands with those of f64 in `dtype`.
    pub fn operands_in(&self, dtype: DType) -> Result<Vec<HostTensor>> {
        let convert = |t: HostTensor| match t.ty().dtype {
            DType::F64 => HostTensor::collect(&TensorType::new(dtype, t.shape()), t.data().iter()),
            _ => Ok(t),
        };
        self.operands().into_iter().map(convert).collect()
    }
}

/// Where the cases lie.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Every case, or those whose family or op `LANTHORN_CASES` names (several by commas).
///
/// Panics where it names what is not there, and where a file is not as `cases.py` writes it: then no check means anything.
pub fn all() -> Vec<Case> {
    let chosen = std::env::var("LANTHORN_CASES").ok();
    let every = every();
    let Some(chosen) = chosen else { return every };
    let names: Vec<&str> = chosen.split(',').map(str::trim).collect();
    let is = |case: &Case, name: &str| name == case.family || name == case.row().name;
    for name in &names {
        let known = every.iter().any(|case| is(case, name));
        assert!(known, "LANTHORN_CASES names {name:?}, which is no family of cases and no op that has one");
    }
    every.into_iter().filter(|case| names.iter().any(|name| is(case, name))).collect()
}

/// Every case, whatever the environment says.
pub fn every() -> Vec<Case> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap_or_else(|e| panic!("{}: {e}", folder().display()))
        .map(|entry| entry.unwrap_or_else(|e| panic!("{}: {e}", folder().display())).path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let family = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let rows: Vec<Json> =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        assert!(!rows.is_empty(), "{} holds no case", file.display());
        for (number, row) in rows.iter().enumerate() {
            let case = read(&family, number, row);
            cases.push(case.unwrap_or_else(|e| panic!("{family} {number}, {}: {e}", row["op"])));
        }
    }
    cases
}

type Read<T> = std::result::Result<T, String>;

fn read(family: &str, number: usize, row: &Json) -> Read<Case> {
    let name = row["op"].as_str().ok_or("no op")?;
    let op = id_of(name).ok_or("there is no op of this name in the table")?;
    let tensors = list(row, "tensors")?
        .iter()
        .map(|t| if t.is_null() { Ok(None) } else { tensor(t).map(Some) })
        .collect::<Read<Vec<_>>>()?;
    let expected = list(row, "expected")?.iter().map(tensor).collect::<Read<Vec<_>>>()?;
    let f64s = tensors.iter().flatten().any(|t| t.ty().dtype == DType::F64);
    let dtypes = match row.get("dtypes") {
        _ if !f64s => Vec::new(),
        None => FLOATS.to_vec(),
        Some(_) => list(row, "dtypes")?.iter().map(dtype).collect::<Read<_>>()?,
    };
    Ok(Case {
        family: family.to_string(),
        number,
        op,
        tensors,
        attributes: attributes(&OPS[op], &row["attributes"])?,
        expected,
        orders: row["orders"].as_u64().ok_or("no orders")? as usize,
        tolerance: row["tolerance"].as_f64().ok_or("no tolerance")?,
        dtypes,
        note: row.get("note").and_then(Json::as_str).unwrap_or_default().to_string(),
    })
}

fn list<'a>(row: &'a Json, key: &str) -> Read<&'a Vec<Json>> {
    row[key].as_array().ok_or_else(|| format!("{key} is no list"))
}

fn dtype(json: &Json) -> Read<DType> {
    json.as_str().and_then(DType::from_name).ok_or_else(|| format!("{json} is no dtype"))
}

/// A float, which JSON spells as text where it is not finite.
fn float(json: &Json) -> Option<f64> {
    match json.as_str() {
        Some("nan") => Some(f64::NAN),
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        _ => json.as_f64(),
    }
}

fn number(dtype: DType, json: &Json) -> Read<Number> {
    let found = match json {
        Json::Bool(v) => Some(Number::Bool(*v)),
        Json::Array(parts) if dtype.is_complex() => match &parts[..] {
            [re, im] => float(re).zip(float(im)).map(|(re, im)| Number::Complex(re, im)),
            _ => None,
        },
        _ if dtype.is_float() => float(json).map(Number::Float),
        _ => json.as_i64().map(i128::from).or(json.as_u64().map(i128::from)).map(Number::Int),
    };
    found.ok_or_else(|| format!("{json} is no number of {dtype}"))
}

fn tensor(json: &Json) -> Read<HostTensor> {
    let dtype = dtype(&json["dtype"])?;
    let sizes = list(json, "shape")?.iter().map(|v| v.as_u64().map(|v| v as usize));
    let shape = sizes.collect::<Option<Vec<usize>>>().ok_or("a size is no number")?;
    let numbers = list(json, "data")?.iter().map(|v| number(dtype, v)).collect::<Read<Vec<_>>>()?;
    HostTensor::collect(&TensorType::new(dtype, &shape), numbers.into_iter()).map_err(|e| e.to_string())
}

/// Attributes by name in the order of the table.
fn attributes(op: &Op, json: &Json) -> Read<Vec<Attribute>> {
    let given = json.as_object().ok_or("attributes are no object")?;
    let parameters: Vec<&Parameter> = op.parameters.iter().filter(|p| !p.kind.is_tensor()).collect();
    if let Some(name) = given.keys().find(|name| parameters.iter().all(|p| p.name != *name)) {
        let names: Vec<&str> = parameters.iter().map(|p| p.name).collect();
        return Err(format!("there is no attribute {name}, only {names:?}"));
    }
    let value = |p: &Parameter| given.get(p.name).map_or(Ok(Attribute::None), |v| attribute(p, v));
    parameters.into_iter().map(value).collect()
}

fn attribute(parameter: &Parameter, json: &Json) -> Read<Attribute> {
    let numeric =
        matches!(parameter.kind, Kind::Float | Kind::OptionalFloat | Kind::Scalar | Kind::OptionalScalar);
    let unknown = || format!("{} is {json}", parameter.name);
    Ok(match json {
        Json::Null => Attribute::None,
        Json::Bool(v) => Attribute::Bool(*v),
        Json::String(_) if numeric => Attribute::Float(float(json).ok_or_else(unknown)?),
        Json::String(v) => Attribute::Text(v.clone()),
        Json::Array(v) => {
            let ints = v.iter().map(Json::as_i64).collect::<Option<Vec<_>>>();
            Attribute::Ints(ints.ok_or_else(unknown)?)
        }
        Json::Object(_) => Attribute::DType(dtype(&json["dtype"])?),
        Json::Number(v) => match v.as_i64() {
            Some(v) => Attribute::Int(v),
            None => Attribute::Float(v.as_f64().ok_or_else(unknown)?),
        },
    })
}
