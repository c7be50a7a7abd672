//! `lanthorn bench`: ours against a named peer, in turn, in one run.

mod peer;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use lanthorn_cpu::{measure, pool, simd};
use lanthorn_io::atomic;
use serde_json::{Value, json};

use super::failure::{Failure, Result, say};
use super::machine::Machine;
use super::output::Output;
use super::saved::make_folder;
use super::trace::Trace;
use peer::{Kind, Peers};

/// Measure against upstream PyTorch and llama.cpp; writes out/bench.json.
#[derive(Args)]
#[command(after_help = "\
Examples:
  lanthorn bench
  lanthorn bench --rounds 3 --only matmul_f32_1024
  lanthorn bench --only gpt_step --just 20 --trace out/gpt_step.json
  valgrind --tool=callgrind lanthorn bench --only eager_add --just 2   (LANTHORN_ISA=avx2)
PyTorch and llama.cpp are measured where benches/peers has installed them, and published models where it has fetched
them (`make bench` does).")]
pub struct Bench {
    /// Where the rows go
    #[arg(long, value_name = "FILE", default_value = "out/bench.json")]
    out: PathBuf,
    /// How many times ours and the peer take turns
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only the workloads whose names begin so
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Run each of them so many times and measure nothing: for a profiler
    #[arg(long, value_name = "TIMES")]
    just: Option<usize>,
    #[command(flatten)]
    trace: Trace,
    #[command(flatten)]
    machine: Machine,
}

/// One comparison.
pub struct Workload {
    /// The peer's name for it, and the row's.
    pub name: &'static str,
    pub peer: Kind,
    /// How many of what (tokens, sentences) one run makes; 0 where a run is what counts.
    pub makes: (f64, &'static str),
    /// The ratio (peer's time over ours) to reach, where there is one.
    pub target: Option<f64>,
    /// Floating-point operations of one run; 0 where the count says little.
    pub flops: f64,
    /// Bytes that one run must at least read; 0 where that does not bound it.
    pub bytes: f64,
    /// Runs it once.
    pub run: Box<dyn FnMut() -> Result<()>>,
}

/// Our fastest run among some that last at least a fifth of a second together.
fn ours(workload: &mut Workload) -> Result<f64> {
    let begin = Instant::now();
    let (mut best, mut runs) = (f64::INFINITY, 0);
    while runs < 3 || begin.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        (workload.run)()?;
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    Ok(best)
}

impl Bench {
    pub fn run(self) -> Result<ExitCode> {
        self.machine.apply()?;
        let threads = self.threads();
        pool::pool().set_threads(threads);
        let device = crate::device();
        self.check_name()?;
        let chosen = workloads::all().filter(|(name, _)| name.starts_with(&self.only));
        if let Some(times) = self.just {
            for (name, make) in chosen.filter(|(name, _)| workloads::missing(name).is_none()) {
                let mut workload = make(&device, name)?;
                self.trace.around(&device, &[], || (0..times).try_for_each(|_| (workload.run)()))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let folder = self.out.parent().filter(|folder| !folder.as_os_str().is_empty());
        let _folder = folder.map(|folder| make_folder("--out", folder)).transpose()?;
        let out =
            Output { option: "--out", file: &self.out, kind: "file of rows of bench", is_ours: is_rows };
        out.check(&[])?;
        let (peak, bandwidth) = (measure::fma_peak_gflops(threads), measure::read_bandwidth_gbps(threads));
        say(format!(
            "this machine, {} threads, {}: {peak:.0} GFLOP/s f32 multiply-add, {bandwidth:.1} GB/s read",
            threads,
            simd::isa().name()
        ))?;
        let mut peers = Peers::new(threads);
        say(format!(
            "{:<24} {:>11} {:>11} {:>7} {:>7}  what that is",
            "name", "ours", "peer", "ratio", "target"
        ))?;
        let mut rows = Vec::new();
        for (name, make) in chosen {
            match workloads::missing(name) {
                Some(file) => say(format!("{name:<24} not measured: there is no {}", file.display()))?,
                None => rows.push(self.compare(&mut make(&device, name)?, &mut peers, peak)?),
            }
        }
        if "smollm2".starts_with(&self.only) || self.only.starts_with("smollm2") {
            self.first_answer(&mut rows)?;
        }
        if self.only.is_empty() || CHAIN.starts_with(&self.only) {
            rows.push(self.chains()?);
        }
        let text = serde_json::Value::from(rows).to_string();
        out.check(&[])?;
        atomic::write(&self.out, text.as_bytes())?;
        say(format!("written to {}", self.out.display()))?;
        Ok(ExitCode::SUCCESS)
    }

    fn threads(&self) -> usize {
        self.machine.threads().unwrap_or(2)
    }

    /// Refuses a name that no workload's begins with.
    fn check_name(&self) -> Result<()> {
        let names: Vec<&str> = workloads::all().map(|(name, _)| *name).chain([CHAIN]).collect();
        if names.iter().any(|name| name.starts_with(&self.only)) {
            return Ok(());
        }
        Err(Failure::request_with(
            format!("--only {}: no workload's name begins so", self.only),
            format!("those that there are: {}", names.join(", ")),
        ))
    }

    /// Ours and the peer's in turn, as one row.
    fn compare(&self, workload: &mut Workload, peers: &mut Peers, peak: f64) -> Result<Value> {
        ours(workload)?;
        let (mut best, mut theirs, mut bandwidth) = (f64::INFINITY, f64::INFINITY, 0.0f64);
        for _ in 0..self.rounds.max(1) {
            best = best.min(ours(workload)?);
            if workload.bytes > 0.0 {
                bandwidth = bandwidth.max(measure::read_bandwidth_gbps(self.threads()));
            }
            match peers.seconds(workload.peer, workload.name, 3) {
                Ok(seconds) => theirs = theirs.min(seconds.unwrap_or(f64::INFINITY)),
                Err(reason) => say(reason)?,
            }
        }
        let measured = theirs.is_finite().then_some(theirs);
        let ratio = measured.map(|seconds| seconds / best);
        let of_peak = (workload.flops > 0.0).then(|| workload.flops / best / peak / 1e9);
        let of_bandwidth = (workload.bytes > 0.0).then(|| workload.bytes / best / bandwidth / 1e9);
        let share = match (of_bandwidth, of_peak) {
            (Some(share), _) => {
                format!("{:.1} GB/s, {:.0}% of {bandwidth:.1}", workload.bytes / best / 1e9, 100.0 * share)
            }
            (None, Some(share)) => {
                format!("{:.0} GFLOP/s, {:.0}%", workload.flops / best / 1e9, 100.0 * share)
            }
            (None, None) => String::new(),
        };
        let (count, what) = workload.makes;
        let share = match count > 0.0 {
            true => format!("{:.0} {what}/s {share}", count / best).trim_end().to_string(),
            false => share,
        };
        line(workload.name, best, measured, ratio, workload.target, &share)?;
        Ok(json!({
            "name": workload.name,
            "ours_s": best,
            "peer": workload.peer.name(),
            "peer_s": measured,
            "ratio": ratio,
            "target": workload.target,
            "share_of_fma_peak": of_peak,
            "share_of_read_bandwidth": of_bandwidth,
        }))
    }

    /// What one waits for who asks a published model in a new process: loading, the first token, and memory.
    fn first_answer(&self, rows: &mut Vec<Value>) -> Result<()> {
        let model = workloads::gguf();
        if !model.exists() {
            return Ok(());
        }
        for weights in ["packed", "f32"] {
            let asked = std::process::Command::new(std::env::current_exe()?)
                .args(["run", "--prompt", "Why is the sky blue?", "--max-tokens", "32", "--temperature", "0"])
                .args(["--timings=json", "--weights", weights])
                .arg(&model)
                .env("LANTHORN_THREADS", self.threads().to_string())
                .output()?;
            let log = String::from_utf8_lossy(&asked.stderr);
            let Some(mut found) = log.lines().find_map(|line| serde_json::from_str::<Value>(line).ok())
            else {
                say(format!("smollm2, `lanthorn run --weights {weights}`: {}", log.trim()))?;
                continue;
            };
            say(format!(
                "smollm2, `lanthorn run --weights {weights}`: loaded in {:.2} s, first token after {:.2} s, {} MiB of memory",
                found["load_s"].as_f64().unwrap_or(f64::NAN),
                found["first_token_s"].as_f64().unwrap_or(f64::NAN),
                found["peak_bytes"].as_u64().unwrap_or(0) >> 20,
            ))?;
            found["name"] = format!("smollm2_run_{weights}").into();
            rows.push(found);
        }
        Ok(())
    }

    /// Compiling a chain of 100,000 nodes against one of 50,000: what is linear takes twice as long.
    fn chains(&self) -> Result<Value> {
        const NODES: usize = 50_000;
        let device = crate::device();
        let (mut short, mut long) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..self.rounds.max(1) {
            short = short.min(workloads::chain(&device, NODES)?);
            long = long.min(workloads::chain(&device, 2 * NODES)?);
        }
        // At most 2.3 times as long.
        let target = 1.0 / 2.3;
        let share = format!("{:.0} nodes/s", 2.0 * NODES as f64 / long);
        line(CHAIN, long, Some(short), Some(short / long), Some(target), &share)?;
        Ok(json!({
            "name": CHAIN,
            "ours_s": long,
            "peer": "itself, 50,000 nodes",
            "peer_s": short,
            "ratio": short / long,
            "target": target,
        }))
    }
}

/// Whether a file begins as one of rows does: a list of objects with names.
fn is_rows(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    text == "[]" || (text.starts_with("[{\"") && text.contains("\"name\":"))
}

const CHAIN: &str = "compile_chain_100k";

fn line(
    name: &str,
    ours: f64,
    peer: Option<f64>,
    ratio: Option<f64>,
    target: Option<f64>,
    share: &str,
) -> Result<()> {
    let show = |value: Option<f64>, unit: f64, suffix: &str| {
        value.map_or("-".to_string(), |value| format!("{:.2}{suffix}", value * unit))
    };
    say(format!(
        "{name:<24} {:>11} {:>11} {:>7} {:>7}  {share}",
        show(Some(ours), 1e3, " ms"),
        show(peer, 1e3, " ms"),
        show(ratio, 1.0, ""),
        show(target, 1.0, "")
    ))
}
