//! A call that is cancelled inside a kernel, through the public interface: a token is raised at the n-th time that the
//! CPU asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lanthorn_compiler::backend::{
    Backend, BackendCaps, Call, Memory, PreparedKernel, Program, Requirements, Support,
};
use lanthorn_compiler::kernel::Kernel;
use lanthorn_compiler::plan::Plan;
use lanthorn_cpu::CpuBackend;
use lanthorn_ir::{DType, ErrorKind, Lazy, Prim, Result, TensorType, Value, ops};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};

/// How often the programs of a device were asked whether to stop, and what happens then.
#[derive(Default)]
struct Hook {
    asked: AtomicUsize,
    /// Raised when asked that often.
    at: AtomicUsize,
    token: CancelToken,
}

/// The CPU with a hook.
struct Hooked(Arc<Hook>);

struct HookedProgram(Box<dyn Program>, Arc<Hook>);

impl Program for HookedProgram {
    fn run(&self, call: &Call<'_>) -> Result<()> {
        let hook = &self.1;
        let cancelled = || {
            if hook.asked.fetch_add(1, Ordering::Relaxed) == hook.at.load(Ordering::Relaxed) {
                hook.token.cancel();
            }
            (call.cancelled)()
        };
        let Call { inputs, outputs, workspace, observer, .. } = *call;
        self.0.run(&Call { inputs, outputs, workspace, cancelled: &cancelled, observer })
    }
}

impl Backend for Hooked {
    fn name(&self) -> &'static str {
        "hooked"
    }
    fn caps(&self) -> BackendCaps {
        CpuBackend.caps()
    }
    fn set_threads(&self, threads: usize) -> Result<()> {
        CpuBackend.set_threads(threads)
    }
    fn support(&self, prim: &Prim, inputs: &[&TensorType]) -> Result<Support> {
        CpuBackend.support(prim, inputs)
    }
    fn requirements(&self, kernel: &Kernel) -> Requirements {
        CpuBackend.requirements(kernel)
    }
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>> {
        CpuBackend.allocate(bytes)
    }
    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>> {
        Ok(Box::new(HookedProgram(CpuBackend.lower(plan)?, self.0.clone())))
    }
    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>> {
        CpuBackend.prepare(kernel)
    }
}

/// A device whose token is raised when it is asked for the `at`-th time.
fn device(at: usize) -> (Device, Arc<Hook>) {
    let hook = Arc::new(Hook { token: CancelToken::new(), at: at.into(), ..Hook::default() });
    (Device::new(Arc::new(Hooked(hook.clone()))), hook)
}

fn leaf(shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(DType::F32, shape)).unwrap()
}

fn ramp(device: &Device, shape: &[usize]) -> EagerTensor {
    let count = shape.iter().product::<usize>();
    let elements: Vec<f32> = (0..count).map(|i| ((i * 7919) % count) as f32 / count as f32).collect();
    EagerTensor::from_slice(device, shape, &elements).unwrap()
}

#[test]
fn a_long_product_sum_or_sort_is_cancelled_and_leaves_nothing() {
    type Root = fn(&Value) -> Result<Value>;
    let cases: [(&str, &[usize], Root); 3] = [
        ("a product", &[512, 512], |x| ops::matmul(&Lazy, x, x)),
        ("a sum", &[1000, 1000], |x| ops::sum(&Lazy, x, &[], false)),
        ("a sort", &[1 << 20], |x| Ok(ops::sort(&Lazy, x, 0, true)?.remove(1))),
    ];
    for (name, shape, root) in cases {
        for threads in [1, 2] {
            let (device, hook) = device(5);
            device.set_threads(threads).unwrap();
            let x = leaf(shape);
            let root = root(&x).unwrap();
            let program = Executable::new(&device, &[x], &[root], &Options::default()).unwrap();
            assert_eq!(program.kernels().len(), 1, "{name}");
            let argument = ramp(&device, shape);
            let live = device.stats().live_bytes;
            let error = program.call(&[&argument], &hook.token).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Cancelled, "{name} on {threads} threads");
            assert!(hook.asked.load(Ordering::Relaxed) > 5, "{name} was asked inside of the kernel");
            assert_eq!(device.stats().live_bytes, live);

            // What the cancelled call has left in the pool's memory does not matter to the next one.
            let bytes = |tensor: &EagerTensor| tensor.storage().read(<[u8]>::to_vec).unwrap();
            let found = bytes(&program.call(&[&argument], &CancelToken::never()).unwrap()[0]);
            assert_eq!(device.stats().live_bytes, live);
            device.trim();
            let fresh = bytes(&program.call(&[&argument], &CancelToken::never()).unwrap()[0]);
            assert!(found == fresh, "{name} on {threads} threads");
        }
    }
}

#[test]
fn donated_arguments_are_as_before_or_updated_wherever_the_cancellation_falls() {
    let updated = {
        let (w, x) = (leaf(&[300, 300]), leaf(&[300, 300]));
        let y = ops::sub(&Lazy, &w, &ops::tanh(&Lazy, &ops::matmul(&Lazy, &x, &w).unwrap()).unwrap());
        (w, x, y.unwrap())
    };
    let options = Options { donated: vec![(0, 0)], ..Options::default() };
    let mut outcomes = [0, 0];
    for at in 0..40 {
        let (device, hook) = device(at);
        let (w, x, root) = &updated;
        let program =
            Executable::new(&device, &[w.clone(), x.clone()], std::slice::from_ref(root), &options).unwrap();
        let (w, x) = (ramp(&device, &[300, 300]), ramp(&device, &[300, 300]));
        let before = w.to_vec::<f32>().unwrap();
        match program.call(&[&w, &x], &hook.token) {
            Ok(results) => {
                outcomes[1] += 1;
                assert_ne!(results[0].to_vec::<f32>().unwrap(), before);
                assert!(w.to_vec::<f32>().is_err(), "it was donated");
            }
            Err(error) => {
                outcomes[0] += 1;
                assert_eq!(error.kind, ErrorKind::Cancelled);
                assert_eq!(w.to_vec::<f32>().unwrap(), before);
            }
        }
    }
    assert!(outcomes[0] > 1 && outcomes[1] > 1, "cancelled and completed: {outcomes:?}");
}
