//! The named peer: upstream PyTorch in its own process, measured in turn with ours.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

/// PyTorch, waiting for work.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts the peer with `threads` threads; why not, if it cannot be had here.
    pub fn start(threads: usize) -> Result<Peer, String> {
        let folder = Path::new("benches/peers");
        let setup = Command::new(folder.join("setup.sh"))
            .arg("--check")
            .output()
            .map_err(|error| format!("benches/peers/setup.sh cannot be run ({error})"))?;
        let python = String::from_utf8_lossy(&setup.stdout).trim().to_string();
        if !setup.status.success() || python.is_empty() {
            return Err("PyTorch is not installed; `make bench` installs it where it can".to_string());
        }
        let mut child = Command::new(&python)
            .arg(folder.join("torch_peer.py"))
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

    /// The fastest of `repeats` runs of a workload, in seconds.
    pub fn seconds(&mut self, name: &str, repeats: usize) -> Result<f64, String> {
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
