//! The driver of this machine: wgpu over Vulkan, Metal or Direct3D 12.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lanthorn_compiler::backend::Readback;
use lanthorn_ir::{Error, ErrorKind, Result};

use super::{Access, BufferId, Dispatch, Driver, Limits, PipelineId, Range};

/// How many storage buffers a kernel is given where the device has more: a wide region gains little beyond.
const STORAGE_BUFFERS: u32 = 16;

/// One device of wgpu.
pub struct Native {
    device: wgpu::Device,
    queue: wgpu::Queue,
    name: String,
    limits: Limits,
    next: AtomicU32,
    buffers: Mutex<HashMap<BufferId, wgpu::Buffer>>,
    pipelines: Mutex<HashMap<PipelineId, Pipeline>>,
    groups: Mutex<Groups>,
    /// An error that the platform reported outside of a call, such as the loss of the device.
    failure: Arc<Mutex<Option<String>>>,
}

struct Pipeline {
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
}

/// Bind groups by what they bind: a program binds the same buffers in every call.
#[derive(Default)]
struct Groups {
    known: HashMap<(PipelineId, Vec<Range>), wgpu::BindGroup>,
}

/// Bind groups beyond which all are forgotten.
const MOST_GROUPS: usize = 4096;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(op: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Execute, op, message)
}

fn unknown(what: &str) -> Error {
    Error::new(ErrorKind::InvalidHandle, "gpu", format!("there is no such {what}"))
}

impl Native {
    /// The first GPU of this machine, real ones before software.
    ///
    /// Errors: [`ErrorKind::Device`] if there is none.
    pub fn open() -> Result<Native> {
        pollster::block_on(Native::connect())
    }

    async fn connect() -> Result<Native> {
        let missing = |why: String| {
            let message = format!(
                "no GPU is to be had ({why}); install its Vulkan driver, or for a software one on Debian \
                 the packages mesa-vulkan-drivers and libvulkan1"
            );
            Error::new(ErrorKind::Device, "gpu", message)
        };
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let options = wgpu::RequestAdapterOptions {
            power_preference: wgpu::PowerPreference::HighPerformance,
            ..Default::default()
        };
        let adapter = instance.request_adapter(&options).await.map_err(|e| missing(e.to_string()))?;
        let found = adapter.limits();
        let storage_buffers = found.max_storage_buffers_per_shader_stage.min(STORAGE_BUFFERS);
        let wanted = wgpu::Limits {
            max_storage_buffers_per_shader_stage: storage_buffers,
            max_storage_buffer_binding_size: found.max_storage_buffer_binding_size,
            max_buffer_size: found.max_buffer_size,
            ..wgpu::Limits::default()
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("lanthorn"),
            required_limits: wanted.clone(),
            ..Default::default()
        };
        let (device, queue) =
            adapter.request_device(&descriptor).await.map_err(|e| missing(e.to_string()))?;
        let failure: Arc<Mutex<Option<String>>> = Arc::default();
        let slot = failure.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            lock(&slot).get_or_insert_with(|| error.to_string());
        }));
        let slot = failure.clone();
        device.set_device_lost_callback(move |reason, message| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                lock(&slot).get_or_insert_with(|| format!("the device is lost: {message}"));
            }
        });
        let info = adapter.get_info();
        // A byte more than 32 bits would not fit a range; no shader of ours could address it.
        let most = u64::from(u32::MAX) & !3;
        Ok(Native {
            name: format!("{} ({:?})", info.name, info.backend),
            limits: Limits {
                storage_buffers,
                binding_bytes: wanted.max_storage_buffer_binding_size.min(most),
                buffer_bytes: wanted.max_buffer_size,
                workgroups: wanted.max_compute_workgroups_per_dimension,
                can_wait: true,
            },
            device,
            queue,
            next: AtomicU32::new(1),
            buffers: Mutex::default(),
            pipelines: Mutex::default(),
            groups: Mutex::default(),
            failure,
        })
    }

    /// Calls `run`, and gives what the platform objects to as an error.
    fn checked<T>(&self, op: &str, run: impl FnOnce() -> T) -> Result<T> {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        let memory = self.device.push_error_scope(OutOfMemory);
        let internal = self.device.push_error_scope(Internal);
        let validation = self.device.push_error_scope(Validation);
        let value = run();
        let invalid = now(validation.pop());
        let internal = now(internal.pop());
        if let Some(error) = now(memory.pop()) {
            return Err(Error::new(ErrorKind::OutOfMemory, op, error.to_string()));
        }
        if let Some(error) = invalid.or(internal) {
            return Err(failed(op, error.to_string()));
        }
        if let Some(message) = lock(&self.failure).clone() {
            return Err(failed(op, message));
        }
        Ok(value)
    }

    fn number(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn buffer(&self, id: BufferId) -> Result<wgpu::Buffer> {
        lock(&self.buffers).get(&id).cloned().ok_or_else(|| unknown("buffer"))
    }

    fn group(&self, dispatch: &Dispatch, pipeline: &Pipeline) -> Result<wgpu::BindGroup> {
        let key = (dispatch.pipeline, dispatch.bindings.clone());
        if let Some(group) = lock(&self.groups).known.get(&key) {
            return Ok(group.clone());
        }
        let buffers =
            dispatch.bindings.iter().map(|range| self.buffer(range.buffer)).collect::<Result<Vec<_>>>()?;
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (0..)
            .zip(buffers.iter().zip(&dispatch.bindings))
            .map(|(binding, (buffer, range))| wgpu::BindGroupEntry {
                binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset: u64::from(range.offset),
                    size: std::num::NonZeroU64::new(u64::from(range.bytes)),
                }),
            })
            .collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries,
        });
        let mut groups = lock(&self.groups);
        if groups.known.len() >= MOST_GROUPS {
            groups.known.clear();
        }
        groups.known.insert(key, group.clone());
        Ok(group)
    }
}

/// The value of a future that wgpu has ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    pollster::block_on(future)
}

fn entry(binding: u32, ty: wgpu::BufferBindingType) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

impl Driver for Native {
    fn describe(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn create_buffer(&self, bytes: u64) -> Result<BufferId> {
        use wgpu::BufferUsages;
        let usage =
            BufferUsages::STORAGE | BufferUsages::UNIFORM | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let descriptor =
            wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
        let buffer = self.checked("allocate", || self.device.create_buffer(&descriptor))?;
        let id = BufferId(self.number());
        lock(&self.buffers).insert(id, buffer);
        Ok(id)
    }

    fn destroy_buffer(&self, buffer: BufferId) {
        // Bind groups hold the buffer too.
        lock(&self.groups).known.retain(|(_, ranges), _| ranges.iter().all(|range| range.buffer != buffer));
        lock(&self.buffers).remove(&buffer);
    }

    fn write(&self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<()> {
        let buffer = self.buffer(buffer)?;
        self.checked("write", || self.queue.write_buffer(&buffer, offset, bytes))
    }

    fn create_pipeline(&self, text: &str, storage: &[Access]) -> Result<PipelineId> {
        let pipeline = self.checked("pipeline", || {
            let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: None,
                source: wgpu::ShaderSource::Wgsl(text.into()),
            });
            let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform)];
            entries.extend((1..).zip(storage).map(|(binding, access)| {
                let read_only = *access == Access::Read;
                entry(binding, wgpu::BufferBindingType::Storage { read_only })
            }));
            let layout = self.device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &entries,
            });
            let whole = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: None,
                layout: Some(&whole),
                module: &module,
                entry_point: Some("main"),
                compilation_options: Default::default(),
                cache: None,
            });
            Pipeline { pipeline, layout }
        })?;
        let id = PipelineId(self.number());
        lock(&self.pipelines).insert(id, pipeline);
        Ok(id)
    }

    fn submit(&self, dispatches: &[Dispatch]) -> Result<()> {
        let pipelines = lock(&self.pipelines);
        self.checked("submit", || {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                for dispatch in dispatches {
                    let pipeline = pipelines.get(&dispatch.pipeline).ok_or_else(|| unknown("pipeline"))?;
                    let group = self.group(dispatch, pipeline)?;
                    pass.set_pipeline(&pipeline.pipeline);
                    pass.set_bind_group(0, &group, &[]);
                    let [x, y] = dispatch.workgroups;
                    pass.dispatch_workgroups(x, y, 1);
                }
            }
            self.queue.submit([encoder.finish()]);
            Ok(())
        })?
    }

    fn read(&self, buffer: BufferId, offset: u64, bytes: usize) -> Result<Box<dyn Readback>> {
        let buffer = self.buffer(buffer)?;
        let (sender, receiver) = channel();
        let staging = self.checked("read", || {
            let staging = self.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: bytes as u64,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            let mut encoder = self.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&buffer, offset, &staging, 0, bytes as u64);
            self.queue.submit([encoder.finish()]);
            staging.map_async(wgpu::MapMode::Read, .., move |result| {
                // A ticket that was dropped listens no more.
                let _ = sender.send(result.map_err(|e| e.to_string()));
            });
            staging
        })?;
        Ok(Box::new(Mapping { device: self.device.clone(), staging, mapped: receiver }))
    }
}

/// A staging buffer that is being mapped.
struct Mapping {
    device: wgpu::Device,
    staging: wgpu::Buffer,
    mapped: Receiver<std::result::Result<(), String>>,
}

impl Mapping {
    /// The bytes, once the platform has told that they are mapped.
    fn bytes(&self, told: std::result::Result<(), String>) -> Result<Vec<u8>> {
        told.map_err(failed_read)?;
        let bytes = self.staging.get_mapped_range(..).map_err(|e| failed_read(e.to_string()))?.to_vec();
        self.staging.unmap();
        Ok(bytes)
    }

    fn advance(&self, poll: wgpu::PollType) -> Result<()> {
        self.device.poll(poll).map(drop).map_err(|e| failed_read(e.to_string()))
    }
}

fn failed_read(message: String) -> Error {
    Error::new(ErrorKind::Transfer, "read", message)
}

fn taken() -> Error {
    failed_read("the bytes of this read have been taken already, or the device is lost".into())
}

impl Readback for Mapping {
    fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        self.advance(wgpu::PollType::Poll)?;
        match self.mapped.try_recv() {
            Ok(told) => self.bytes(told).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(taken()),
        }
    }

    fn wait(self: Box<Self>) -> Result<Vec<u8>> {
        self.advance(wgpu::PollType::wait_indefinitely())?;
        // Another thread's poll may be the one that tells us, and be about to.
        let told = self.mapped.recv().map_err(|_| taken())?;
        self.bytes(told)
    }
}
