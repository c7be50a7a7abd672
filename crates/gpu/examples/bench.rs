//! A fused region and a matrix product on this machine's GPU beside our CPU, as rows of `out/bench.json`.
//!
//!     cargo run --release --package lanthorn-gpu --example bench -- [out/bench.json]
//!
//! For information: on a software GPU it says what the tests cost, on a card what a card gains. The GPU's times
//! include handing the work over and waiting for it, not the way of operands and results through memory.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lanthorn_cpu::CpuBackend;
use lanthorn_gpu::GpuBackend;
use lanthorn_ir::{DType, Lazy, Result, TensorType, Value, ops};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};
use serde_json::{Value as Json, json};

const TURNS: usize = 5;

type Build = fn(&[Value]) -> Result<Value>;

/// Name, the arguments' shapes, the program.
const WORKLOADS: [(&str, &[&[usize]], Build); 2] = [
    ("gpu_fused_region_1m", &[&[1024, 1024], &[1024]], |v| {
        let y = ops::tanh(&Lazy, &ops::mul(&Lazy, &v[0], &v[1])?)?;
        ops::add(&Lazy, &ops::exp(&Lazy, &ops::neg(&Lazy, &ops::square(&Lazy, &y)?)?)?, &v[1])
    }),
    ("gpu_matmul_f32_256", &[&[256, 256], &[256, 256]], |v| ops::matmul(&Lazy, &v[0], &v[1])),
];

/// Runs the program on a device and gives seconds of one call that is waited for.
struct Timed {
    program: Executable,
    arguments: Vec<EagerTensor>,
}

impl Timed {
    fn new(device: &Device, shapes: &[&[usize]], build: Build) -> Result<Timed> {
        let leaves: Vec<Value> = shapes
            .iter()
            .map(|shape| Value::leaf(TensorType::new(DType::F32, shape)))
            .collect::<Result<_>>()?;
        let root = build(&leaves)?;
        let program = Executable::new(device, &leaves, &[root], &Options::default())?;
        let tensor = |shape: &&[usize]| {
            let elements: Vec<f32> =
                (0..shape.iter().product::<usize>()).map(|i| (i % 17) as f32 / 16.0).collect();
            EagerTensor::from_slice(device, shape, &elements)
        };
        Ok(Timed { program, arguments: shapes.iter().map(tensor).collect::<Result<_>>()? })
    }

    fn run(&self) -> Result<f64> {
        let arguments: Vec<&EagerTensor> = self.arguments.iter().collect();
        let start = Instant::now();
        let results = self.program.call(&arguments, &CancelToken::never())?;
        // One element: the call has ended when it is here.
        results[0].storage().read_range(0, 4, |_| ())?;
        Ok(start.elapsed().as_secs_f64())
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "out/bench.json".to_string());
    let gpu = GpuBackend::open()?;
    println!("{}", gpu.describe());
    let (gpu, cpu) = (Device::new(Arc::new(gpu)), Device::new(Arc::new(CpuBackend)));
    let mut rows = Vec::new();
    for (name, shapes, build) in WORKLOADS {
        let (ours, peer) = (Timed::new(&gpu, shapes, build)?, Timed::new(&cpu, shapes, build)?);
        ours.run()?;
        peer.run()?;
        let (mut ours_s, mut peer_s) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            ours_s = ours_s.min(ours.run()?);
            peer_s = peer_s.min(peer.run()?);
        }
        let ratio = peer_s / ours_s;
        println!("{name}: {:.2} ms, cpu {:.2} ms, ratio {ratio:.3}", ours_s * 1e3, peer_s * 1e3);
        rows.push(json!({
            "name": name,
            "ours_s": ours_s,
            "peer": "lanthorn cpu",
            "peer_s": peer_s,
            "ratio": ratio,
            "target": Json::Null,
        }));
    }
    merge(Path::new(&path), rows)?;
    Ok(())
}

/// Puts rows into the file's list, over those of the same names.
fn merge(path: &Path, rows: Vec<Json>) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut all: Vec<Json> = match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    all.retain(|row| rows.iter().all(|new| new["name"] != row["name"]));
    all.extend(rows);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, Json::from(all).to_string())?;
    println!("written to {}", path.display());
    Ok(())
}
