//! Programs and single kernels on a backend, with values as the reference's tensors.
//!
//! The tests of other backends use this file too: the crate of tests names its backend by `crate::backend`.

use std::sync::Arc;

use lanthorn_compiler::backend::{Call, MemRef, Memory, Support};
use lanthorn_compiler::pipeline::{Compiled, Options, compile, index};
use lanthorn_compiler::single::single;
use lanthorn_interp::HostTensor;
use lanthorn_ir::builder::Outputs;
use lanthorn_ir::{Builder, DType, Layout, Prim, Result, TensorType, Value};

use crate::backend;

/// Everything the CPU computes in.
pub const DTYPES: [DType; 13] = [
    DType::Bool,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

pub fn to_bytes(tensor: &HostTensor) -> Vec<u8> {
    tensor.to_bytes()
}

pub fn from_bytes(ty: &TensorType, bytes: &[u8]) -> HostTensor {
    if ty.dtype == DType::Bool {
        assert!(bytes.iter().all(|&b| b <= 1), "a truth value is neither 0 nor 1");
    }
    HostTensor::from_bytes(ty, bytes).unwrap()
}

/// Memory with these bytes, and a guard after them that no kernel may touch.
pub fn memory(bytes: &[u8]) -> Arc<dyn Memory> {
    let memory = backend().allocate(bytes.len() + GUARD).unwrap();
    let guarded = [bytes, &[GUARD_BYTE; GUARD]].concat();
    backend().write(MemRef { memory: &*memory, offset: 0 }, &guarded).unwrap();
    memory
}

const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0x5a;

/// The first `length` bytes; the guard behind them must stand.
pub fn read(memory: &dyn Memory, length: usize) -> Vec<u8> {
    let mut all = backend().read(MemRef { memory, offset: 0 }, length + GUARD).unwrap().wait().unwrap();
    assert!(all[length..].iter().all(|&b| b == GUARD_BYTE), "a kernel wrote behind its output");
    all.truncate(length);
    all
}

/// A compiled program whose arguments are host tensors.
pub struct Runner {
    pub compiled: Compiled,
    /// The plan knows complex results as pairs of real ones.
    results: Vec<TensorType>,
}

/// The memories of one call.
pub struct Memories {
    pub inputs: Vec<Arc<dyn Memory>>,
    pub outputs: Vec<Arc<dyn Memory>>,
}

pub fn build(leaves: &[Value], roots: &[Value], options: &Options) -> Result<Runner> {
    let (indexed, further) = index(leaves, roots, |_| false);
    assert!(further.is_empty(), "a test names all its leaves");
    let results = roots.iter().map(|root| root.ty().clone()).collect();
    Ok(Runner { compiled: compile(backend(), indexed, options)?, results })
}

impl Runner {
    pub fn call(
        &self,
        arguments: &[HostTensor],
        cancelled: &(dyn Fn() -> bool + Sync),
    ) -> (Result<()>, Memories) {
        let plan = &self.compiled.plan;
        let inputs: Vec<Arc<dyn Memory>> = arguments.iter().map(|t| memory(&to_bytes(t))).collect();
        // Whatever lies in fresh memory must not matter.
        let garbage = |bytes: usize| memory(&vec![0xff; bytes]);
        let outputs: Vec<Arc<dyn Memory>> = (plan.outputs.iter())
            .map(|output| match output.donated {
                Some(argument) => inputs[argument as usize].clone(),
                None => garbage(plan.buffers[output.buffer as usize].bytes()),
            })
            .collect();
        let workspace = garbage(plan.workspace_bytes);
        fn refs(memories: &[Arc<dyn Memory>]) -> Vec<MemRef<'_>> {
            memories.iter().map(|memory| MemRef { memory: &**memory, offset: 0 }).collect()
        }
        let result = self.compiled.program.run(&Call {
            inputs: &refs(&inputs),
            outputs: &refs(&outputs),
            workspace: MemRef { memory: &*workspace, offset: 0 },
            cancelled,
        });
        read(&*workspace, plan.workspace_bytes);
        (result, Memories { inputs, outputs })
    }

    pub fn run(&self, arguments: &[HostTensor]) -> Result<Vec<HostTensor>> {
        let (result, memories) = self.call(arguments, &|| false);
        result?;
        let plan = &self.compiled.plan;
        for ((memory, argument), at) in memories.inputs.iter().zip(arguments).zip(0u32..) {
            if plan.outputs.iter().all(|output| output.donated != Some(at)) {
                let kept = read(&**memory, argument.ty().bytes()) == to_bytes(argument);
                assert!(kept, "argument {at} was overwritten");
            }
        }
        Ok((self.results.iter().zip(&memories.outputs))
            .map(|(ty, memory)| from_bytes(ty, &read(&**memory, ty.bytes())))
            .collect())
    }
}

/// Compiles and runs.
pub fn run(
    leaves: &[Value],
    roots: &[Value],
    arguments: &[HostTensor],
    optimize: bool,
) -> Result<Vec<HostTensor>> {
    build(leaves, roots, &Options { optimize, ..Options::default() })?.run(arguments)
}

/// How an argument lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    Contiguous,
    /// Axes reversed.
    Transposed,
    /// Every second element of every axis of something larger, from an offset.
    Sliced,
    /// Rows in order but farther apart than they are wide.
    Padded,
    /// Backwards along every axis.
    Flipped,
    /// One axis of stride 0 where all its elements are equal, else as `Contiguous`.
    Broadcast,
}

impl Lie {
    pub const ALL: [Lie; 6] =
        [Lie::Contiguous, Lie::Transposed, Lie::Sliced, Lie::Padded, Lie::Flipped, Lie::Broadcast];
}

/// A strided tensor on the backend.
#[derive(Clone)]
pub struct Strided {
    memory: Arc<dyn Memory>,
    layout: Layout,
    ty: TensorType,
    /// Bytes before the guard.
    bytes: usize,
}

/// The elements of a layout as indices into its buffer.
fn indices(layout: &Layout) -> impl Iterator<Item = usize> + '_ {
    (0..layout.numel()).map(|flat| {
        let mut rest = flat;
        let mut at = layout.offset as isize;
        for axis in (0..layout.rank()).rev() {
            at += (rest % layout.shape[axis]) as isize * layout.strides[axis];
            rest /= layout.shape[axis];
        }
        at as usize
    })
}

impl Strided {
    pub fn new(tensor: &HostTensor, lie: Lie) -> Strided {
        let shape = tensor.shape();
        let rank = shape.len();
        let plain = Layout::contiguous(shape);
        let layout = match lie {
            Lie::Contiguous => plain,
            Lie::Transposed => {
                let axes: Vec<usize> = (0..rank).rev().collect();
                let turned: Vec<usize> = axes.iter().map(|&a| shape[a]).collect();
                Layout::contiguous(&turned).permute(&axes)
            }
            Lie::Sliced => {
                let whole: Vec<usize> = shape.iter().map(|&size| 2 * size + 2).collect();
                let (starts, steps) = (vec![1; rank], vec![2; rank]);
                let stops: Vec<usize> = shape.iter().map(|&size| 2 * size + 1).collect();
                Layout::contiguous(&whole).slice(&starts, &stops, &steps)
            }
            Lie::Padded if rank > 0 => {
                let mut whole = shape.to_vec();
                whole[rank - 1] += 3;
                let (starts, steps) = (vec![0; rank], vec![1; rank]);
                Layout::contiguous(&whole).slice(&starts, shape, &steps)
            }
            Lie::Padded => plain,
            Lie::Flipped => plain.flip(&(0..rank).collect::<Vec<_>>()),
            Lie::Broadcast => match (0..rank).find(|&axis| is_constant_along(tensor, axis)) {
                Some(axis) => {
                    let mut single = shape.to_vec();
                    single[axis] = 1;
                    Layout::contiguous(&single).broadcast(shape)
                }
                None => plain,
            },
        };
        let size = tensor.ty().dtype.size();
        let elements = layout.extent().map_or(0, |(_, last)| last + 1);
        let source = to_bytes(tensor);
        let mut bytes = vec![0xff; elements * size];
        for (at, element) in indices(&layout).zip(source.chunks_exact(size)) {
            bytes[at * size..][..size].copy_from_slice(element);
        }
        Strided { memory: memory(&bytes), layout, ty: tensor.ty().clone(), bytes: bytes.len() }
    }

    pub fn tensor(&self) -> HostTensor {
        let size = self.ty.dtype.size();
        let all = read(&*self.memory, self.bytes);
        let bytes: Vec<u8> = indices(&self.layout).flat_map(|at| all[at * size..][..size].to_vec()).collect();
        from_bytes(&self.ty, &bytes)
    }
}

fn is_constant_along(tensor: &HostTensor, axis: usize) -> bool {
    let layout = Layout::contiguous(tensor.shape());
    let mut first = layout.clone();
    first.strides[axis] = 0;
    let size = tensor.ty().dtype.size();
    let bytes = to_bytes(tensor);
    tensor.shape()[axis] > 0
        && indices(&layout)
            .zip(indices(&first))
            .all(|(a, b)| bytes[a * size..][..size] == bytes[b * size..][..size])
}

/// The eager path: each primitive at once, on views, one kernel at a time.
#[derive(Clone, Copy, Default)]
pub struct Eager;

impl Builder for Eager {
    type Value = Strided;

    fn apply(&self, prim: Prim, inputs: &[Strided]) -> Result<Outputs<Strided>> {
        let types: Vec<&TensorType> = inputs.iter().map(|input| &input.ty).collect();
        let outputs = prim.infer(&types)?;
        if let Prim::Movement(movement) = &prim
            && let Some(layout) = inputs.first().and_then(|input| movement.view(&input.layout))
        {
            return Ok([Strided { layout, ty: outputs[0].clone(), ..inputs[0].clone() }]
                .into_iter()
                .collect());
        }
        if backend().support(&prim, &types)? == Support::Decompose {
            return prim.decompose_or_fail(self, inputs);
        }
        let operands: Vec<_> = inputs.iter().map(|input| (input.ty.dtype, input.layout.clone())).collect();
        let results: Vec<Strided> = outputs
            .iter()
            .map(|ty| Strided {
                memory: memory(&vec![0xff; ty.bytes()]),
                layout: Layout::contiguous(&ty.shape),
                ty: ty.clone(),
                bytes: ty.bytes(),
            })
            .collect();
        let all: Vec<&Strided> = inputs.iter().chain(&results).collect();
        for kernel in single(&prim, &operands)? {
            let place = |buffer: u32| MemRef { memory: &*all[buffer as usize].memory, offset: 0 };
            let prepared = backend().prepare(&kernel)?;
            let bytes = prepared.scratch();
            assert_eq!(bytes, backend().requirements(&kernel).scratch);
            let scratch = memory(&vec![0xff; bytes]);
            prepared.run(
                &kernel.inputs.iter().map(|o| place(o.buffer)).collect::<Vec<_>>(),
                &kernel.outputs.iter().map(|o| place(o.buffer)).collect::<Vec<_>>(),
                MemRef { memory: &*scratch, offset: 0 },
            )?;
            read(&*scratch, bytes);
        }
        Ok(results.into_iter().collect())
    }

    fn ty<'a>(&self, value: &'a Strided) -> &'a TensorType {
        &value.ty
    }
}

/// How far a backend may be from the reference, which computes in f64 and rounds at every primitive.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-11,
        DType::F32 => 2e-5,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.0,
    }
}

/// Integers and truth values agree exactly, floats within `tolerance`, absolute and relative.
#[track_caller]
pub fn assert_close(what: &str, found: &HostTensor, expected: &HostTensor, tolerance: f64) {
    assert_eq!(found.ty(), expected.ty(), "{what}");
    if !found.ty().dtype.is_float() {
        assert_eq!(found.data(), expected.data(), "{what}");
        return;
    }
    for (i, (x, y)) in found.to_f64().into_iter().zip(expected.to_f64()).enumerate() {
        let same = x == y || (x.is_nan() && y.is_nan());
        assert!(
            same || (x - y).abs() <= tolerance * (1.0 + y.abs()),
            "{what}: element {i} of {} is {x}, expected {y}",
            found.ty()
        );
    }
}

pub fn leaf_of(tensor: &HostTensor) -> Value {
    Value::leaf(tensor.ty().clone()).unwrap()
}

/// Holds programs of `f`, optimised and not, and (if `lies`) eager runs over every way the arguments can lie
/// in memory, against the reference.
#[track_caller]
pub fn check(
    what: &str,
    f: &dyn Fn(&[Value]) -> Result<Vec<Value>>,
    arguments: &[HostTensor],
    tolerance: f64,
) -> Vec<HostTensor> {
    let leaves: Vec<Value> = arguments.iter().map(leaf_of).collect();
    let roots = f(&leaves).unwrap();
    let bindings: Vec<_> = leaves.iter().cloned().zip(arguments.iter().cloned()).collect();
    let expected = lanthorn_interp::eval(&roots, &bindings).unwrap();
    for optimize in [false, true] {
        let what = format!("{what}, optimize {optimize}");
        let found = run(&leaves, &roots, arguments, optimize).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_close(&what, found, expected, tolerance);
        }
    }
    expected
}

/// Applies a primitive eagerly to arguments in every lie and holds the results against the reference.
#[track_caller]
pub fn check_prim(what: &str, prim: &Prim, arguments: &[HostTensor], tolerance: f64) {
    let expected = lanthorn_interp::Interp.apply(prim.clone(), arguments).unwrap();
    for lie in Lie::ALL {
        let what = format!("{what}, {lie:?}");
        let operands: Vec<Strided> = arguments.iter().map(|t| Strided::new(t, lie)).collect();
        let found = Eager.apply(prim.clone(), &operands).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (found, expected) in found.iter().zip(&expected) {
            assert_close(&what, &found.tensor(), expected, tolerance);
        }
    }
}

/// Numbers from a fixed sequence.
pub struct Sequence(u64);

impl Sequence {
    pub fn new(seed: u64) -> Self {
        Sequence(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1)
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        low + (high - low) * ((self.0 >> 11) as f64 / (1u64 << 53) as f64)
    }

    /// Elements in `low..high`, rounded to `dtype`.
    pub fn within(&mut self, dtype: DType, shape: &[usize], low: f64, high: f64) -> HostTensor {
        let n: usize = shape.iter().product();
        let elements: Vec<f64> = (0..n).map(|_| self.uniform(low, high)).collect();
        HostTensor::from_f64(dtype, shape, &elements).unwrap()
    }

    /// Elements of either sign that suit `dtype`.
    pub fn tensor(&mut self, dtype: DType, shape: &[usize]) -> HostTensor {
        if dtype.is_float() {
            return self.within(dtype, shape, -2.0, 2.0);
        }
        let n: usize = shape.iter().product();
        let elements: Vec<i64> = (0..n).map(|_| self.uniform(-9.0, 9.0).round() as i64).collect();
        HostTensor::from_i64(dtype, shape, &elements).unwrap()
    }

    /// Integers in `0..limit`.
    pub fn ids(&mut self, dtype: DType, shape: &[usize], limit: usize) -> HostTensor {
        let n: usize = shape.iter().product();
        let elements: Vec<i64> = (0..n).map(|_| self.uniform(0.0, limit as f64) as i64).collect();
        HostTensor::from_i64(dtype, shape, &elements).unwrap()
    }
}
