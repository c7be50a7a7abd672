//! Builds an op and releases it so many times, by the calls that bindings make: for a profiler.
//!
//!     valgrind --tool=callgrind target/release/examples/op_cost 1000 [OP]

use std::sync::Arc;

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::Result;
use lanthorn_ir::ops::table::{OPS, id_of};
use lanthorn_runtime::Device;
use lanthorn_session::Raw;
use lanthorn_session::raw::SCRATCH;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(1000), |count| count.parse())?;
    let name = arguments.next().unwrap_or_else(|| "add".into());
    let id = id_of(&name).ok_or_else(|| format!("there is no op {name}"))?;
    Ok(build(count, id)?)
}

/// Builds op `id`, of tensors and no more arguments, `count` times.
fn build(count: usize, id: usize) -> Result<()> {
    let mut raw = Raw::new(Device::new(Arc::new(CpuBackend)));
    let mut scratch = vec![0.0; SCRATCH];
    let bytes: Vec<u8> = [1_f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
    let mut operands = [0.0; 2];
    for operand in &mut operands {
        scratch[..2].copy_from_slice(&[1.0, 4.0]);
        *operand = raw.create(&mut scratch, f64::from(lanthorn_ir::DType::F32.code()), 0.0, &bytes)?;
    }
    let tensors = OPS[id].parameters.iter().filter(|parameter| parameter.kind.is_tensor()).count();
    for _ in 0..count {
        scratch[0] = tensors as f64;
        for (place, operand) in scratch[1..=tensors].iter_mut().zip(operands.iter().cycle()) {
            *place = *operand;
        }
        let result = raw.op(&mut scratch, id as f64)?;
        raw.release(result)?;
    }
    Ok(())
}
