//! The list of passes.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lanthorn_ir::Result;

use crate::backend::{Backend, Program};
use crate::clock::Moment;
use crate::cost::KernelInfo;
pub use crate::index::index;
use crate::indexed::Indexed;
use crate::legalize::legalize;
use crate::plan::Plan;
use crate::planner::plan;
use crate::regions::{Fusion, regions};
use crate::simplify::simplify;
use crate::verify;

/// What the caller decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// False: the same path without simplification and with each node in a kernel of its own.
    pub optimize: bool,
    /// `(argument, result)`: the argument's memory receives the result, after the commit point, unless a kernel that may
    /// fail would come behind; then the result has memory of its own.
    pub donated: Vec<(u32, u32)>,
    /// Donated arguments that a kernel which fails for the numbers that it gets may leave half written, so that they are
    /// always written in place. For caches that are large and of which nobody reads what a call that failed has written.
    pub half_written: Vec<u32>,
    /// Results (rank-0 floats) that must be finite for the call to commit.
    pub finite: Vec<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Options { optimize: true, donated: Vec::new(), half_written: Vec::new(), finite: Vec::new() }
    }
}

/// A program with its plan and what it took to make it.
pub struct Compiled {
    pub plan: Arc<Plan>,
    pub program: Box<dyn Program>,
    pub report: Report,
    /// What it was made of.
    pub source: Arc<Indexed>,
    infos: OnceLock<Arc<[KernelInfo]>>,
}

impl Compiled {
    /// Name and cost of every kernel in the order of execution, reckoned when first asked for.
    pub fn kernel_infos(&self) -> &Arc<[KernelInfo]> {
        self.infos.get_or_init(|| self.plan.kernel_infos().into())
    }
}

/// Counts and times of one compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How long each pass took; zero where there is no clock.
    pub times: Vec<(&'static str, Duration)>,
    /// Nodes as indexed, after decomposition, and after simplification.
    pub nodes: usize,
    pub legal_nodes: usize,
    pub simple_nodes: usize,
    /// How often each rule of simplification fired.
    pub rules: Vec<(&'static str, usize)>,
    pub kernels: usize,
    /// Bytes of workspace, which no call exceeds.
    pub workspace_bytes: usize,
    /// Bytes of workspace, arguments and fresh results together.
    pub peak_bytes: usize,
}

/// Makes a program for `backend`.
pub fn compile(
    backend: &dyn Backend,
    indexed: impl Into<Arc<Indexed>>,
    options: &Options,
) -> Result<Compiled> {
    let indexed: Arc<Indexed> = indexed.into();
    let log = Log::from_environment();
    let mut clock = Clock::start();
    let mut report = Report { nodes: indexed.nodes.len(), ..Report::default() };

    let legal = legalize(backend, &indexed)?;
    report.legal_nodes = legal.nodes.len();
    clock.lap("legalize", &mut report);
    log.check("legalize", || verify::indexed(&legal))?;

    let simple = if options.optimize {
        let (simple, rules) = simplify(legal);
        report.rules = rules;
        simple
    } else {
        legal.prune()
    };
    report.simple_nodes = simple.nodes.len();
    clock.lap("simplify", &mut report);
    log.check("simplify", || verify::indexed(&simple))?;
    log.print(log.graph, "graph", &simple);

    let fusion = if options.optimize { Fusion::On } else { Fusion::Off };
    let fused = regions(&simple, backend, fusion);
    report.kernels = fused.kernels.len();
    clock.lap("regions", &mut report);
    log.check("regions", || verify::fused(&fused))?;
    log.print(log.regions, "regions", &fused);

    let plan = plan(backend, fused, options)?;
    report.workspace_bytes = plan.workspace_bytes;
    report.peak_bytes = plan.peak_bytes();
    clock.lap("plan", &mut report);
    log.check("plan", || verify::plan(&plan, options))?;
    log.print(log.plan, "plan", &plan);

    let plan = Arc::new(plan);
    let program = backend.lower(&plan)?;
    clock.lap("lower", &mut report);
    tracing::debug!(
        nodes = report.nodes,
        kernels = report.kernels,
        workspace_bytes = report.workspace_bytes,
        "compiled"
    );
    Ok(Compiled { plan, program, report, source: indexed, infos: OnceLock::new() })
}

/// What `LANTHORN_LOG` (a comma list) asks for; printed to the error stream.
struct Log {
    graph: bool,
    regions: bool,
    plan: bool,
    verify: bool,
}

impl Log {
    fn from_environment() -> Log {
        let list = std::env::var("LANTHORN_LOG").unwrap_or_default();
        let has = |name: &str| list.split(',').any(|entry| entry.trim() == name);
        Log {
            graph: has("graph"),
            regions: has("regions"),
            plan: has("plan"),
            // Every test of every crate runs with it, and what is released does not pay for it.
            verify: cfg!(debug_assertions) || has("verify"),
        }
    }

    fn print(&self, wanted: bool, title: &str, form: &dyn Display) {
        if wanted {
            eprintln!("-- {title}\n{form}");
        }
    }

    fn check(&self, pass: &str, check: impl FnOnce() -> std::result::Result<(), String>) -> Result<()> {
        if !self.verify {
            return Ok(());
        }
        check().map_err(|message| {
            lanthorn_ir::Error::new(
                lanthorn_ir::ErrorKind::Compile,
                "verify",
                format!("after {pass}: {message}"),
            )
        })
    }
}

/// Notes how long each pass took.
struct Clock(Moment);

impl Clock {
    fn start() -> Clock {
        Clock(Moment::now())
    }

    fn lap(&mut self, pass: &'static str, report: &mut Report) {
        let now = Moment::now();
        report.times.push((pass, now.since(self.0)));
        self.0 = now;
    }
}
