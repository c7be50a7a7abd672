//! Reductions: a body over the domain, folds over some of its axes, an epilogue over the rest.
//!
//! Long folds take a workgroup for each result: its invocations take every n-th element and then combine what they
//! have as a tree. Short ones take one invocation for each result. Either way the order of additions depends on
//! sizes alone.

use lanthorn_compiler::kernel::{Fold, Phase};
use lanthorn_ir::{Layout, Result};

use super::domain::Domain;
use super::map::{Place, phase, steps, stores};
use super::writer::{Operands, Writer, refused, value_type};
use super::{GROUP, INVOCATIONS, Shader, entry, expr};

/// Up to this many elements one invocation folds alone.
const SHORT: usize = 32;
/// From this many results on there is work for every invocation without sharing folds.
const MANY: usize = 1 << 14;
/// Up to this many elements a fold of many results stays with one invocation.
const MEDIUM: usize = 512;
/// Invocations that share a fold.
const SHARERS: usize = 64;

pub(crate) fn reduce(
    operands: Operands<'_>,
    domain: &[usize],
    folded: &[bool],
    body: &Phase,
    folds: &[Fold],
    epilogue: &Phase,
) -> Result<Shader> {
    let layouts: Vec<&Layout> =
        operands.inputs.iter().chain(operands.outputs).map(|operand| &operand.layout).collect();
    let axes = |wanted: bool| (0..domain.len()).filter(|&axis| folded[axis] == wanted).collect::<Vec<_>>();
    let (rows, inner) =
        (Domain::new(domain, &axes(false), &layouts), Domain::new(domain, &axes(true), &layouts));
    let (results, length) = (rows.count(), inner.count());
    let alone = length <= SHORT || (results >= MANY && length <= MEDIUM);
    let mut writer = Writer::new(operands)?;
    let kernel = Kernel { rows: &rows, inner: &inner, body, folds, epilogue };
    if alone {
        kernel.alone(&mut writer)?;
        writer.finish(&entry(&INVOCATIONS.to_string(), true), results.div_ceil(INVOCATIONS))
    } else {
        kernel.shared(&mut writer)?;
        writer.finish(&entry(&SHARERS.to_string(), true), results)
    }
}

struct Kernel<'a> {
    rows: &'a Domain,
    inner: &'a Domain,
    body: &'a Phase,
    folds: &'a [Fold],
    epilogue: &'a Phase,
}

impl Kernel<'_> {
    fn alone(&self, writer: &mut Writer<'_>) -> Result<()> {
        let results = writer.size("results", self.rows.count())?;
        let length = writer.size("length", self.inner.count())?;
        writer.line(format!("let row = ({GROUP}) * {INVOCATIONS}u + local;"));
        writer.line(format!("if (row >= {results}) {{ return; }}"));
        let row = writer.coordinates("r", "row", &self.rows.sizes)?;
        let totals = self.fold(writer, &row, "var i = 0u", &length, "i++")?;
        self.finish(writer, &row, &totals)
    }

    fn shared(&self, writer: &mut Writer<'_>) -> Result<()> {
        let results = writer.size("results", self.rows.count())?;
        let length = writer.size("length", self.inner.count())?;
        writer.line(format!("let row = {GROUP};"));
        // The same for the whole workgroup, which so meets every barrier or none.
        writer.line(format!("if (row >= {results}) {{ return; }}"));
        let row = writer.coordinates("r", "row", &self.rows.sizes)?;
        let totals = self.fold(writer, &row, "var i = local", &length, &format!("i += {SHARERS}u"))?;
        let mut parts = Vec::new();
        for (at, (fold, total)) in self.folds.iter().zip(&totals).enumerate() {
            let dtype = self.body.expr.dtype(fold.step);
            let ty = value_type(dtype).ok_or_else(|| refused(dtype))?;
            writer.global(format!("var<workgroup> part{at}: array<{ty}, {SHARERS}>;"));
            writer.line(format!("part{at}[local] = {total};"));
            parts.push((fold, dtype));
        }
        writer.line("workgroupBarrier();");
        writer.open(format!("for (var half = {}u; half > 0u; half = half >> 1u)", SHARERS / 2));
        writer.open("if (local < half)");
        for (at, (fold, dtype)) in parts.iter().enumerate() {
            let (near, far) = (format!("part{at}[local]"), format!("part{at}[local + half]"));
            let both = expr::combine(writer, fold.op, *dtype, &near, &far)?;
            writer.line(format!("{near} = {both};"));
        }
        writer.close();
        writer.line("workgroupBarrier();");
        writer.close();
        writer.line("if (local > 0u) { return; }");
        let totals: Vec<String> = (0..parts.len()).map(|at| format!("part{at}[0]")).collect();
        self.finish(writer, &row, &totals)
    }

    /// The loop over the folded axes; gives the names of the accumulators.
    fn fold(
        &self,
        writer: &mut Writer<'_>,
        row: &[String],
        start: &str,
        length: &str,
        step: &str,
    ) -> Result<Vec<String>> {
        let mut totals = Vec::new();
        for (at, fold) in self.folds.iter().enumerate() {
            let start = expr::identity(writer, fold.op, self.body.expr.dtype(fold.step))?;
            writer.line(format!("var total{at} = {start};"));
            totals.push(format!("total{at}"));
        }
        let live = expr::live(self.body, self.folds);
        if live.iter().any(|&live| live) {
            writer.open(format!("for ({start}; i < {length}; {step})"));
            let mut coordinates = row.to_vec();
            coordinates.extend(writer.coordinates("i", "i", &self.inner.sizes)?);
            let whole = self.whole();
            let place = Place { names: "s", coordinates: &coordinates, domain: &whole };
            steps(writer, self.body, &live, &place, &[], "")?;
            stores(writer, self.body, &place, "")?;
            for (fold, total) in self.folds.iter().zip(&totals) {
                let dtype = self.body.expr.dtype(fold.step);
                let value = expr::combine(writer, fold.op, dtype, total, &format!("s{}", fold.step))?;
                writer.line(format!("{total} = {value};"));
            }
            writer.close();
        }
        Ok(totals)
    }

    fn finish(&self, writer: &mut Writer<'_>, row: &[String], totals: &[String]) -> Result<()> {
        let place = Place { names: "e", coordinates: row, domain: self.rows };
        phase(writer, self.epilogue, &place, totals, "")
    }

    /// Rows, then the folded axes.
    fn whole(&self) -> Domain {
        let joined = |a: &[isize], b: &[isize]| a.iter().chain(b).copied().collect();
        Domain {
            sizes: self.rows.sizes.iter().chain(&self.inner.sizes).copied().collect(),
            strides: (self.rows.strides.iter().zip(&self.inner.strides)).map(|(a, b)| joined(a, b)).collect(),
        }
    }
}
