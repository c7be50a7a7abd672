//! The ways in which an operand can lie in memory.

use std::sync::Arc;

use lanthorn_compiler::backend::Memory;
use lanthorn_interp::HostTensor;
use lanthorn_ir::{Layout, TensorType};

use super::Device;
use super::memory::{from_bytes, memory, read, to_bytes};

/// How an operand lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    Contiguous,
    /// In order, from an element that is not the first.
    Offset,
    /// Axes reversed.
    Transposed,
    /// Every second element of every axis of something larger, from an offset.
    Sliced,
    /// Rows in order but farther apart than they are wide.
    Padded,
    /// Backwards along every axis.
    Flipped,
    /// One axis of stride 0.
    Broadcast,
    /// All axes of stride 1: neighbours along one axis are neighbours along every other.
    Overlapping,
}

impl Lie {
    pub const ALL: [Lie; 8] = [
        Lie::Contiguous,
        Lie::Offset,
        Lie::Transposed,
        Lie::Sliced,
        Lie::Padded,
        Lie::Flipped,
        Lie::Broadcast,
        Lie::Overlapping,
    ];

    /// The tensor with elements that can lie so; `None` if they are the same that lie in some other way.
    pub fn adapt(self, tensor: &HostTensor) -> Option<HostTensor> {
        let shape = tensor.shape();
        let layout = self.shared(shape)?;
        let numbers = indices(&layout).map(|at| tensor.data().get(at));
        HostTensor::collect(tensor.ty(), numbers.collect::<Vec<_>>().into_iter()).ok()
    }

    /// A layout in which places share elements, for the lies that have such.
    fn shared(self, shape: &[usize]) -> Option<Layout> {
        let long = |axis: &usize| shape[*axis] > 1;
        let mut axes = (0..shape.len()).filter(long);
        let mut layout = Layout::contiguous(shape);
        match self {
            Lie::Broadcast => layout.strides[axes.next()?] = 0,
            Lie::Overlapping => {
                axes.nth(1)?;
                layout.strides.iter_mut().for_each(|stride| *stride = 1);
            }
            _ => return None,
        }
        (layout.numel() > 0).then_some(layout)
    }

    fn layout(self, shape: &[usize]) -> Layout {
        let rank = shape.len();
        let plain = Layout::contiguous(shape);
        match self {
            Lie::Contiguous => plain,
            Lie::Offset => Layout { offset: 3, ..plain },
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
            Lie::Broadcast | Lie::Overlapping => self.shared(shape).unwrap_or(plain),
        }
    }
}

/// A strided tensor on a device.
#[derive(Clone)]
pub struct Strided {
    pub(super) memory: Arc<dyn Memory>,
    pub(super) layout: Layout,
    pub(super) ty: TensorType,
    /// Bytes before the guard.
    pub(super) bytes: usize,
}

impl Strided {
    /// Dtype and shape.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }
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

impl Device {
    /// A tensor that lies so. Where places would share elements that are not equal it is contiguous instead; see
    /// [`Lie::adapt`].
    pub fn place(&self, tensor: &HostTensor, lie: Lie) -> Strided {
        let source = to_bytes(tensor);
        let suits = lie.adapt(tensor).is_none_or(|adapted| to_bytes(&adapted) == source);
        let layout = if suits { lie.layout(tensor.shape()) } else { Layout::contiguous(tensor.shape()) };
        let size = tensor.ty().dtype.size();
        let elements = layout.extent().map_or(0, |(_, last)| last + 1);
        let mut bytes = vec![0xff; elements * size];
        for (at, element) in indices(&layout).zip(source.chunks_exact(size)) {
            bytes[at * size..][..size].copy_from_slice(element);
        }
        Strided { memory: memory(self.backend, &bytes), layout, ty: tensor.ty().clone(), bytes: bytes.len() }
    }

    /// What a strided tensor shows.
    pub fn fetch(&self, tensor: &Strided) -> HostTensor {
        let size = tensor.ty.dtype.size();
        let all = read(self.backend, &*tensor.memory, tensor.bytes);
        let bytes: Vec<u8> =
            indices(&tensor.layout).flat_map(|at| all[at * size..][..size].to_vec()).collect();
        from_bytes(&tensor.ty, &bytes)
    }
}
