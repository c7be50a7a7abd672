//! Profiles as a table for people.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::chrome::per_nanosecond;
use super::{Profile, SpanKind};

/// How many rows are shown.
const ROWS: usize = 10;
/// How wide names may be.
const WIDTH: usize = 48;

#[derive(Default)]
struct Row {
    calls: usize,
    time: Duration,
    flops: u64,
    bytes: u64,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: HashMap<&str, Row> = HashMap::new();
        let mut all: HashMap<SpanKind, Row> = HashMap::new();
        for span in self.spans() {
            let rows = [
                Some(all.entry(span.kind).or_default()),
                span.cost.map(|_| rows.entry(span.name).or_default()),
            ];
            for row in rows.into_iter().flatten() {
                row.calls += 1;
                row.time += span.duration;
                row.flops = row.flops.saturating_add(span.cost.map_or(0, |cost| cost.flops));
                row.bytes = row.bytes.saturating_add(span.cost.map_or(0, |cost| cost.bytes()));
            }
        }
        let total = |kind| all.get(&kind).map_or((0, Duration::ZERO), |row| (row.calls, row.time));
        let (kernels, in_kernels) = total(SpanKind::Kernel);
        let mut rows: Vec<(&str, Row)> = rows.into_iter().collect();
        rows.sort_by(|a, b| b.1.time.cmp(&a.1.time).then(a.0.cmp(b.0)));
        writeln!(
            f,
            "{:<WIDTH$} {:>8} {:>11} {:>7} {:>9} {:>8}",
            "kernel", "calls", "ms", "share", "GFLOP/s", "GB/s"
        )?;
        for (name, row) in rows.iter().take(ROWS) {
            writeln!(
                f,
                "{:<WIDTH$} {:>8} {:>11.3} {:>5.1} % {:>9.1} {:>8.1}",
                shortened(name),
                row.calls,
                milliseconds(row.time),
                100.0 * row.time.as_secs_f64() / in_kernels.as_secs_f64().max(f64::MIN_POSITIVE),
                per_nanosecond(row.flops, row.time),
                per_nanosecond(row.bytes, row.time)
            )?;
        }
        if rows.len() > ROWS {
            writeln!(f, "and {} more", rows.len() - ROWS)?;
        }
        let ((runs, in_runs), (compiles, compiling)) = (total(SpanKind::Run), total(SpanKind::Compile));
        write!(
            f,
            "{kernels} kernels, {:.3} ms; {runs} runs, {:.3} ms; {compiles} compilations, {:.3} ms",
            milliseconds(in_kernels),
            milliseconds(in_runs),
            milliseconds(compiling)
        )?;
        match self.left_out() {
            0 => Ok(()),
            left_out => write!(f, "; {left_out} spans beyond a million were left out"),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= WIDTH {
        return name.to_string();
    }
    name.chars().take(WIDTH - 2).chain("..".chars()).collect()
}
