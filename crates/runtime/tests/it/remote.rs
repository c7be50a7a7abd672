//! The reference backend behind memory that the host cannot reach, whose reads arrive late: a card, or a browser.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use lanthorn_compiler::backend::*;
use lanthorn_compiler::kernel::Kernel;
use lanthorn_compiler::plan::Plan;
use lanthorn_ir::{Error, ErrorKind, Prim, Result, TensorType};

use crate::reference::Reference;

/// The backend.
pub struct Remote;

struct Hidden(Arc<dyn Memory>);

impl Memory for Hidden {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
    fn host(&self) -> Option<NonNull<u8>> {
        None
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn found<'a>(place: &MemRef<'a>) -> Result<MemRef<'a>> {
    let hidden = place.memory.as_any().downcast_ref::<Hidden>();
    let foreign = || Error::new(ErrorKind::Device, "remote", "the memory is another device's");
    Ok(MemRef { memory: &*hidden.ok_or_else(foreign)?.0, ..*place })
}

fn all<'a>(places: &[MemRef<'a>]) -> Result<Vec<MemRef<'a>>> {
    places.iter().map(found).collect()
}

/// Arrives at the second question.
struct Late {
    asked: bool,
    read: Box<dyn Readback>,
}

impl Readback for Late {
    fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        if std::mem::replace(&mut self.asked, true) { self.read.poll() } else { Ok(None) }
    }
    fn wait(self: Box<Self>) -> Result<Vec<u8>> {
        self.read.wait()
    }
}

struct RemoteProgram(Box<dyn Program>);

impl Program for RemoteProgram {
    fn run(&self, call: &Call<'_>) -> Result<()> {
        let (inputs, outputs) = (all(call.inputs)?, all(call.outputs)?);
        let workspace = found(&call.workspace)?;
        self.0.run(&Call { inputs: &inputs, outputs: &outputs, workspace, ..*call })
    }
}

struct RemoteKernel(Arc<dyn PreparedKernel>);

impl PreparedKernel for RemoteKernel {
    fn scratch(&self) -> usize {
        self.0.scratch()
    }
    fn run(&self, inputs: &[MemRef<'_>], outputs: &[MemRef<'_>], scratch: MemRef<'_>) -> Result<()> {
        self.0.run(&all(inputs)?, &all(outputs)?, found(&scratch)?)
    }
}

impl Backend for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }
    fn caps(&self) -> BackendCaps {
        Reference.caps()
    }
    fn support(&self, prim: &Prim, inputs: &[&TensorType]) -> Result<Support> {
        Reference.support(prim, inputs)
    }
    fn requirements(&self, kernel: &Kernel) -> Requirements {
        Reference.requirements(kernel)
    }
    fn allocate(&self, bytes: usize) -> Result<Arc<dyn Memory>> {
        Ok(Arc::new(Hidden(Reference.allocate(bytes)?)))
    }
    fn write(&self, to: MemRef<'_>, bytes: &[u8]) -> Result<()> {
        Reference.write(found(&to)?, bytes)
    }
    fn read(&self, from: MemRef<'_>, bytes: usize) -> Result<Box<dyn Readback>> {
        Ok(Box::new(Late { asked: false, read: Reference.read(found(&from)?, bytes)? }))
    }
    fn lower(&self, plan: &Arc<Plan>) -> Result<Box<dyn Program>> {
        Ok(Box::new(RemoteProgram(Reference.lower(plan)?)))
    }
    fn prepare(&self, kernel: &Kernel) -> Result<Arc<dyn PreparedKernel>> {
        Ok(Arc::new(RemoteKernel(Reference.prepare(kernel)?)))
    }
}

#[test]
fn a_read_is_polled_until_it_arrives_and_sees_the_memory_as_it_was() {
    use lanthorn_runtime::{Device, EagerTensor};
    let device = Device::new(Arc::new(Remote));
    let x = EagerTensor::from_slice(&device, &[2, 2], &[1f32, 2.0, 3.0, 4.0]).unwrap();
    let turned = x.with_layout(x.layout().permute(&[1, 0])).unwrap();
    let mut read = turned.start_read().unwrap();
    x.storage().write(0, &[0; 16]).unwrap();
    assert!(read.poll().unwrap().is_none());
    let bytes = read.poll().unwrap().unwrap();
    assert_eq!(bytes, [1f32, 3.0, 2.0, 4.0].iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>());
    assert_eq!(read.poll().unwrap_err().kind, ErrorKind::Transfer);
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 4]);
}

#[test]
fn ranges_are_checked() {
    use lanthorn_runtime::{Device, Storage};
    let storage = Storage::from_bytes(&Device::new(Arc::new(Remote)), &[1, 2, 3]).unwrap();
    assert_eq!(storage.read_range(1, 2, <[u8]>::to_vec).unwrap(), [2, 3]);
    assert!(storage.read_range(2, 2, |_| ()).is_err());
    assert!(storage.start_read(usize::MAX, 1).is_err());
    assert!(storage.write(3, &[0]).is_err());
}
