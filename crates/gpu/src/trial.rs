//! A first program for a device that nobody can debug: one fused region and one matrix product, on any backend, read
//! by polling. What a browser's tests run in a worker and hold against the CPU.

use lanthorn_compiler::backend::{Backend, Call, MemRef, Readback};
use lanthorn_compiler::pipeline::{Options, compile, index};
use lanthorn_ir::{DType, Error, Lazy, Result, TensorType, Value, ops};

/// The inputs: `x [rows, inner]`, `scale [inner]`, `w [inner, columns]`, row-major.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub rows: usize,
    pub inner: usize,
    pub columns: usize,
    pub x: &'a [f32],
    pub scale: &'a [f32],
    pub w: &'a [f32],
}

/// A trial under way.
pub struct Trial {
    reads: Vec<(Box<dyn Readback>, Arrived)>,
}

/// The elements, once they are there.
type Arrived = Option<Vec<f32>>;

/// Compiles and runs `exp(tanh(x * scale)) - scale` and `x w`, and begins to read both.
pub fn start(backend: &dyn Backend, inputs: &Inputs<'_>) -> Result<Trial> {
    let Inputs { rows, inner, columns, .. } = *inputs;
    let leaf = |shape: &[usize]| Value::leaf(TensorType::new(DType::F32, shape));
    let leaves = [leaf(&[rows, inner])?, leaf(&[inner])?, leaf(&[inner, columns])?];
    let [x, scale, w] = &leaves;
    let region = ops::exp(&Lazy, &ops::tanh(&Lazy, &ops::mul(&Lazy, x, scale)?)?)?;
    let roots = [ops::sub(&Lazy, &region, scale)?, ops::matmul(&Lazy, x, w)?];
    let (indexed, _) = index(&leaves, &roots, |_| false);
    let compiled = compile(backend, indexed, &Options::default())?;

    let mut memories = Vec::new();
    for (leaf, elements) in leaves.iter().zip([inputs.x, inputs.scale, inputs.w]) {
        if elements.len() != leaf.ty().numel() {
            let (found, ty) = (elements.len(), leaf.ty());
            return Err(Error::shape("trial", format!("{found} elements for {ty}")));
        }
        let memory = backend.allocate(leaf.ty().bytes())?;
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
        backend.write(MemRef { memory: &*memory, offset: 0 }, &bytes)?;
        memories.push(memory);
    }
    for root in &roots {
        memories.push(backend.allocate(root.ty().bytes())?);
    }
    let workspace = backend.allocate(compiled.plan.workspace_bytes)?;
    let places: Vec<MemRef<'_>> =
        memories.iter().map(|memory| MemRef { memory: &**memory, offset: 0 }).collect();
    let (arguments, results) = places.split_at(leaves.len());
    compiled.program.run(&Call {
        inputs: arguments,
        outputs: results,
        workspace: MemRef { memory: &*workspace, offset: 0 },
        cancelled: &|| false,
        observer: None,
    })?;
    let read = |(place, root): (&MemRef<'_>, &Value)| Ok((backend.read(*place, root.ty().bytes())?, None));
    Ok(Trial { reads: results.iter().zip(&roots).map(read).collect::<Result<_>>()? })
}

impl Trial {
    /// The region's and the product's elements, once both have arrived.
    pub fn poll(&mut self) -> Result<Option<[Vec<f32>; 2]>> {
        for (read, elements) in self.reads.iter_mut().filter(|(_, elements)| elements.is_none()) {
            *elements = read
                .poll()?
                .map(|bytes| bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect());
        }
        match &self.reads[..] {
            [(_, Some(region)), (_, Some(product))] => Ok(Some([region.clone(), product.clone()])),
            _ => Ok(None),
        }
    }
}
