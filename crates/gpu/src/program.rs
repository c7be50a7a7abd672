//! A plan as one submission: every kernel's pipeline is made when the program is, and a call writes parameters
//! (where its operands lie elsewhere than in the call before) and submits the dispatches.

use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_compiler::backend::{Call, Program};
use lanthorn_compiler::plan::{Place, Plan};
use lanthorn_ir::{DType, Error, ErrorKind, Result};

use crate::driver::{Dispatch, Driver, Range};
use crate::launch::{Launch, Pipelines, whole};
use crate::memory::GpuMemory;
use crate::wgsl::Slot;

/// A plan with every kernel's pipeline.
pub(crate) struct GpuProgram {
    driver: Arc<dyn Driver>,
    plan: Arc<Plan>,
    /// By kernel; nothing where there is nothing to do. The second number is where its parameters begin.
    launches: Vec<Option<(Launch, usize)>>,
    params: Mutex<Params>,
}

struct Params {
    memory: GpuMemory,
    /// What the buffer holds.
    written: Vec<u8>,
}

/// The memory of a buffer: the workspace, then the arguments, then fresh results.
fn slot(plan: &Plan, place: Place) -> Slot {
    let arguments = plan.inputs.len() as Slot;
    match place {
        Place::Workspace(_) => 0,
        Place::Input(at) => 1 + at,
        Place::Output(at) => match plan.outputs.get(at as usize).and_then(|output| output.donated) {
            Some(argument) => 1 + argument,
            None => 1 + arguments + at,
        },
    }
}

fn fail(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Execute, "gpu", message)
}

impl GpuProgram {
    pub fn new(driver: &Arc<dyn Driver>, pipelines: &Pipelines, plan: &Arc<Plan>) -> Result<GpuProgram> {
        if !plan.finite.is_empty() && !driver.limits().can_wait {
            let message = "a result that must be finite is looked at before the call commits, and this device \
                           cannot be waited for; check the result after the call";
            return Err(Error::unsupported("gpu", message));
        }
        let mut launches = Vec::with_capacity(plan.kernels.len());
        let mut bytes = 0;
        for kernel in &plan.kernels {
            let operands = kernel.inputs.iter().chain(&kernel.outputs);
            let slots: Vec<Slot> =
                operands.map(|operand| slot(plan, plan.places[operand.buffer as usize])).collect();
            let launch = Launch::new(&**driver, pipelines, kernel, &slots)?;
            launches.push(launch.map(|launch| {
                let at = bytes;
                bytes += launch.params_bytes();
                (launch, at)
            }));
        }
        let memory = GpuMemory::new(driver, bytes)?;
        let params = Mutex::new(Params { memory, written: Vec::new() });
        Ok(GpuProgram { driver: driver.clone(), plan: plan.clone(), launches, params })
    }

    /// Where every buffer begins in its memory, checked to lie in it.
    fn places(&self, call: &Call<'_>) -> Result<Vec<usize>> {
        let plan = &self.plan;
        if call.workspace.memory.bytes() < call.workspace.offset + plan.workspace_bytes {
            return Err(fail("the workspace is too small"));
        }
        let missing = || fail("the call has fewer operands than the program");
        (plan.places.iter().zip(&plan.buffers))
            .map(|(place, ty)| {
                let found = match *place {
                    Place::Workspace(offset) => return Ok(call.workspace.offset + offset),
                    Place::Input(at) => call.inputs.get(at as usize),
                    Place::Output(at) => call.outputs.get(at as usize),
                };
                let found = found.ok_or_else(missing)?;
                if found.offset + ty.bytes() > found.memory.bytes() {
                    let rest = found.memory.bytes().saturating_sub(found.offset);
                    return Err(fail(format!("an operand of type {ty} lies in memory of {rest} bytes")));
                }
                Ok(found.offset)
            })
            .collect()
    }

    /// The memory of a slot.
    fn memory(&self, call: &Call<'_>, slot: Slot) -> Result<Range> {
        let arguments = self.plan.inputs.len();
        let place = match slot as usize {
            0 => Some(&call.workspace),
            at if at <= arguments => call.inputs.get(at - 1),
            at => call.outputs.get(at - 1 - arguments),
        };
        let place = place.ok_or_else(|| fail("the call has fewer operands than the program"))?;
        Ok(whole(GpuMemory::of(place, &self.driver)?))
    }

    /// Every result that must be finite is.
    fn check_finite(&self, call: &Call<'_>) -> Result<()> {
        for &output in &self.plan.finite {
            let Some(planned) = self.plan.outputs.get(output as usize) else { continue };
            let Some(place) = call.outputs.get(output as usize) else { continue };
            if self.plan.buffers[planned.buffer as usize].dtype != DType::F32 {
                continue;
            }
            let memory = GpuMemory::of(place, &self.driver)?;
            let bytes = self.driver.read(memory.buffer, place.offset as u64, 4)?.wait()?;
            let value = bytes.first_chunk().map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes));
            if !value.is_finite() {
                let message = format!("result {output} is {value}; it must be finite, nothing was updated");
                return Err(Error::new(ErrorKind::Execute, "finite", message));
            }
        }
        Ok(())
    }

    fn submit(&self, dispatches: &[Dispatch]) -> Result<()> {
        if dispatches.is_empty() { Ok(()) } else { self.driver.submit(dispatches) }
    }
}

impl Program for GpuProgram {
    fn run(&self, call: &Call<'_>) -> Result<()> {
        let plan = &self.plan;
        let places = self.places(call)?;
        // Held until the dispatches are submitted: another call may write other parameters after that.
        let mut params = self.params.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::new();
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for (at, (kernel, launch)) in plan.kernels.iter().zip(&self.launches).enumerate() {
            let Some((launch, offset)) = launch else { continue };
            bytes.resize(offset + launch.params_bytes(), 0);
            launch.write_params(&mut bytes[*offset..], |operand| {
                let operand = match operand.checked_sub(kernel.inputs.len()) {
                    None => &kernel.inputs[operand],
                    Some(output) => &kernel.outputs[output],
                };
                places[operand.buffer as usize]
            })?;
            let dispatch = launch.dispatch(params.memory.buffer, *offset, |slot| self.memory(call, slot))?;
            if at < plan.commit { &mut early } else { &mut late }.push(dispatch);
        }
        if (call.cancelled)() {
            return Err(Error::new(ErrorKind::Cancelled, "gpu", "the call was cancelled"));
        }
        if params.written != bytes {
            // A write that fails leaves it open what the buffer holds.
            params.written.clear();
            self.driver.write(params.memory.buffer, 0, &bytes)?;
            params.written = bytes;
        }
        if plan.finite.is_empty() {
            early.append(&mut late);
            return self.submit(&early);
        }
        self.submit(&early)?;
        self.check_finite(call)?;
        if (call.cancelled)() {
            return Err(Error::new(ErrorKind::Cancelled, "gpu", "the call was cancelled"));
        }
        self.submit(&late)
    }
}
