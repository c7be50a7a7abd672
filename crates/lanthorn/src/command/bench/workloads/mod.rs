//! What is measured. Names are those of `benches/peers/torch_peer.py`.

mod compiling;
mod convolutions;
mod language;
mod products;
mod reductions;
mod training;

use lanthorn_ir::{DType, TensorType, Value, ops};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor, Executable, Options};

use super::Workload;
use super::peer::Kind;
use crate::failure::Result;

/// Prepares the workload of that name.
pub type Make = fn(&Device, &'static str) -> Result<Workload>;

/// Every workload of a peer. One is prepared when its turn comes, for it may hold much memory.
pub fn all() -> impl Iterator<Item = &'static (&'static str, Make)> {
    [products::ALL, reductions::ALL, convolutions::ALL, training::ALL, language::ALL].into_iter().flatten()
}

pub use compiling::chain;
pub use language::{gguf, missing};

/// A compiled program over operands of these types, with what one run of it costs.
struct Program<'a> {
    name: &'static str,
    target: Option<f64>,
    /// Floating-point operations, 0 where the count says little.
    flops: f64,
    /// Bytes that a run must at least read, 0 where that does not bound it.
    bytes: f64,
    operands: &'a [TensorType],
}

impl Program<'_> {
    /// Every run gives a fresh result.
    fn of(self, device: &Device, build: impl Fn(&[Value]) -> lanthorn_ir::Result<Value>) -> Result<Workload> {
        self.of_many(device, |leaves| Ok(vec![build(leaves)?]))
    }

    /// Every run gives fresh results.
    fn of_many(
        self,
        device: &Device,
        build: impl Fn(&[Value]) -> lanthorn_ir::Result<Vec<Value>>,
    ) -> Result<Workload> {
        let leaves = self
            .operands
            .iter()
            .map(|ty| Value::leaf(ty.clone()))
            .collect::<lanthorn_ir::Result<Vec<_>>>()?;
        let program = Executable::new(device, &leaves, &build(&leaves)?, &Options::default())?;
        let arguments = (self.operands.iter().enumerate())
            .map(|(seed, ty)| filled(device, ty, seed))
            .collect::<Result<Vec<_>>>()?;
        let cancel = CancelToken::never();
        Ok(Workload {
            name: self.name,
            peer: Kind::Torch,
            makes: (0.0, ""),
            target: self.target,
            flops: self.flops,
            bytes: self.bytes,
            run: Box::new(move || {
                program.call(&arguments.iter().collect::<Vec<_>>(), &cancel)?;
                Ok(())
            }),
        })
    }
}

/// Numbers between -1/2 and 1/2, in memory of the device, as parameters are.
fn filled(device: &Device, ty: &TensorType, seed: usize) -> Result<EagerTensor> {
    let number = |i: usize| (i.wrapping_mul(31).wrapping_add(seed * 17) % 1009) as f32 / 1009.0 - 0.5;
    let bytes: Vec<u8> = (0..ty.numel()).flat_map(|i| number(i).to_ne_bytes()).collect();
    let wide = EagerTensor::from_bytes(device, &f32s(&ty.shape), &bytes)?;
    if ty.dtype == DType::F32 {
        return Ok(wide);
    }
    Ok(ops::cast(&Eager::new(device), &wide, ty.dtype)?)
}

fn f32s(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F32, shape)
}
