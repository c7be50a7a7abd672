//! The named peers: upstream PyTorch and llama.cpp, each in its own process, measured in turn with ours.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// Who is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Torch,
    LlamaCpp,
}

impl Kind {
    /// Its name in rows.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Torch => "torch",
            Kind::LlamaCpp => "llama.cpp",
        }
    }

    /// The script that installs it, and the program that answers for it; both in `benches/peers`.
    const fn files(self) -> (&'static str, &'static str) {
        match self {
            Kind::Torch => ("setup.sh", "torch_peer.py"),
            Kind::LlamaCpp => ("llama.sh", "llama_peer.py"),
        }
    }
}

/// The peers, each started when a workload asks for it.
#[derive(Default)]
pub struct Peers {
    threads: usize,
    /// By kind; `None` for one that is not to be had.
    running: Vec<(Kind, Option<Peer>)>,
}

impl Peers {
    /// Peers with so many threads each.
    pub fn new(threads: usize) -> Peers {
        Peers { threads, running: Vec::new() }
    }

    /// The fastest of `repeats` runs of a peer's workload, in seconds; why there is none, the first time.
    pub fn seconds(&mut self, kind: Kind, name: &str, repeats: usize) -> Result<Option<f64>, String> {
        let at = match self.running.iter().position(|(running, _)| *running == kind) {
            Some(at) => at,
            None => {
                let (peer, reason) = match Peer::start(kind, self.threads) {
                    Ok(peer) => (Some(peer), None),
                    Err(reason) => (None, Some(reason)),
                };
                self.running.push((kind, peer));
                match reason {
                    Some(reason) => return Err(format!("no peer: {reason}")),
                    None => self.running.len() - 1,
                }
            }
        };
        let Some((_, peer)) = self.running.get_mut(at) else { return Ok(None) };
        let Some(running) = peer else { return Ok(None) };
        match running.seconds(name, repeats) {
            Ok(seconds) => Ok(Some(seconds)),
            Err(reason) => {
                *peer = None;
                Err(format!("{} stopped: {reason}", kind.name()))
            }
        }
    }
}

/// A peer that waits for work.
struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the peer with `threads` threads; why not, if it cannot be had here.
    fn start(kind: Kind, threads: usize) -> Result<Peer, String> {
        let folder = Path::new("benches/peers");
        let (script, program) = kind.files();
        let setup = Command::new(folder.join(script))
            .arg("--check")
            .output()
            .map_err(|error| format!("benches/peers/{script} cannot be run ({error})"))?;
        let python = String::from_utf8_lossy(&setup.stdout).trim().to_string();
        if !setup.status.success() || python.is_empty() {
            return Err(format!("{} is not installed; `make bench` installs it where it can", kind.name()));
        }
        let mut child = Command::new(&python)
            .arg(folder.join(program))
            .args(["--threads", &threads.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{python} cannot be started ({error})"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(input), Some(output)) => Ok(Peer { child, input, output: BufReader::new(output) }),
            _ => Err("the peer has no pipes".to_string()),
        }
    }

    fn seconds(&mut self, name: &str, repeats: usize) -> Result<f64, String> {
        writeln!(self.input, "run {name} {repeats}").map_err(|error| error.to_string())?;
        self.input.flush().map_err(|error| error.to_string())?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
        answer["min_s"].as_f64().ok_or_else(|| format!("the peer answered {}", line.trim()))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = writeln!(self.input, "quit");
        let _ = self.input.flush();
        let _ = self.child.wait();
    }
}
