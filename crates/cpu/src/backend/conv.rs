//! Convolutions: products of the weight with windows that are packed from the image as they are needed.

use lanthorn_compiler::kernel::Operand;
use lanthorn_ir::layout::numel;
use lanthorn_ir::prim::Convolution;
use lanthorn_ir::{DType, Error, Layout, Result};
use lanthorn_kernels::depthwise::Depthwise;
use smallvec::{SmallVec, smallvec};

use super::contract::element;
use super::prims::copy_kernel;
use crate::matmul::{Element, Epilogue, MatmulPlan, MatmulShape, OperandLayout, Store, WindowAxis, Windows};
use crate::pool::pool;
use crate::region::map::MapKernel;

/// Windows of an image below which several images share a matrix: a tile of columns would be mostly empty.
const FEW: usize = 256;

/// A convolution ready to run.
pub(super) struct ConvKernel {
    way: Way,
    /// Where x begins, in bytes.
    x: usize,
    /// Where the weight begins, in bytes.
    weight: usize,
    /// Copies the weight to scratch first, because it does not lie as a matrix.
    staged: Option<MapKernel>,
    staged_bytes: usize,
    out: Target,
}

enum Way {
    Product(Box<MatmulPlan>),
    /// Channels that do not mix.
    Depthwise(Depthwise),
}

/// Where the results go: `[n, channels, places]`, contiguous.
struct Target {
    /// Where they begin, in bytes.
    start: usize,
    element: Element,
    channels: usize,
    groups: usize,
    places: usize,
    /// All images are columns of one matrix.
    is_merged: bool,
}

/// True for the dtypes whose products are packed.
pub(super) fn has_kernel(dtype: DType) -> bool {
    element(dtype).is_some()
}

impl ConvKernel {
    pub(super) fn new(conv: &Convolution, inputs: &[Operand], outputs: &[Operand]) -> Result<ConvKernel> {
        let unfit =
            || Error::unsupported("conv", "the cpu convolves f32, bf16 and f16 into contiguous memory");
        let ([x, w], [out]) = (inputs, outputs) else { return Err(unfit()) };
        let kind = element(x.dtype).filter(|_| out.layout.is_contiguous()).ok_or_else(unfit)?;
        let (sx, sw, so) = (&x.layout.shape, &w.layout.shape, &out.layout.shape);
        let (images, groups, inner) = (so[0], conv.groups, sw[1]);
        let (outer, places, terms) = (sw[0] / groups, numel(&so[2..]), inner * numel(&sw[2..]));

        let split = [groups, outer, terms];
        let (layout, staged) = match w.layout.reshape(&split) {
            Some(layout) => (layout, None),
            None => (Layout::contiguous(split), Some(copy_kernel(w).ok_or_else(unfit)?)),
        };
        let strides = &x.layout.strides;
        let axes = (0..conv.strides.len()).map(|a| WindowAxis {
            count: so[a + 2],
            kernel: sw[a + 2],
            step: conv.strides[a],
            dilation: conv.dilations[a],
            low: conv.low[a],
            length: sx[a + 2],
            gap: conv.interior[a] + 1,
            stride: strides[a + 2],
        });
        let axes: SmallVec<[WindowAxis; 3]> = axes.collect();
        let is_merged = images > 1 && places < FEW;
        let side_by_side = if is_merged { images } else { 1 };
        let group_stride = inner as isize * strides[1];
        let (count, a_batch, b_batch) = if is_merged {
            (smallvec![groups], smallvec![layout.strides[0]], smallvec![group_stride])
        } else {
            let b_batch = smallvec![strides[0], group_stride];
            (smallvec![images, groups], smallvec![0, layout.strides[0]], b_batch)
        };
        let matrix = |row_stride, col_stride, batch_strides| OperandLayout {
            element: kind,
            row_stride,
            col_stride,
            batch_strides,
        };
        let shape = MatmulShape {
            batch: count,
            rows: outer,
            cols: side_by_side * places,
            inner: terms,
            a: matrix(layout.strides[1], layout.strides[2], a_batch),
            b: matrix(0, 0, b_batch),
        };
        let way = match depthwise(kind, &axes, [images, groups, outer], inner, strides, &layout) {
            Some(depthwise) => Way::Depthwise(depthwise),
            None => {
                let windows = Windows::new(side_by_side, strides[0], inner, strides[1], axes);
                Way::Product(Box::new(MatmulPlan::of_windows(shape, windows)))
            }
        };
        let size = x.dtype.size();
        Ok(ConvKernel {
            way,
            x: x.layout.offset * size,
            weight: layout.offset * size,
            staged_bytes: if staged.is_some() { (numel(sw) * size).next_multiple_of(64) } else { 0 },
            staged,
            out: Target {
                start: out.layout.offset * size,
                element: kind,
                channels: so[1],
                groups,
                places,
                is_merged,
            },
        })
    }

    pub(super) fn scratch_bytes(&self) -> usize {
        let own = match &self.way {
            Way::Product(plan) => plan.scratch_bytes(),
            Way::Depthwise(depthwise) => depthwise.scratch_bytes(),
        };
        self.staged_bytes + own.next_multiple_of(64)
    }

    /// # Safety
    /// As `Prepared::run`.
    pub(super) unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], scratch: *mut u8) {
        // SAFETY: the caller's promise; scratch holds the staged weight and then what the product needs.
        unsafe {
            let weight = match &self.staged {
                Some(copy) => {
                    copy.run(&inputs[1..], &[scratch]);
                    scratch.cast_const()
                }
                None => inputs[1].add(self.weight),
            };
            let (x, data) = (inputs[0].add(self.x), outputs[0].add(self.out.start));
            let scratch = scratch.add(self.staged_bytes);
            match &self.way {
                Way::Product(plan) => plan.run(weight, x, scratch, &Out { target: &self.out, data }),
                Way::Depthwise(depthwise) => depthwise.run(x, weight, data, scratch),
            }
        }
    }
}

/// The convolution as one of channels that do not mix, on one or two axes without gaps. `sizes` are images, groups and
/// results of a group.
fn depthwise(
    element: Element,
    axes: &[WindowAxis],
    sizes: [usize; 3],
    inner: usize,
    strides: &[isize],
    weight: &Layout,
) -> Option<Depthwise> {
    let one = WindowAxis { count: 1, kernel: 1, step: 1, dilation: 1, low: 0, length: 1, gap: 1, stride: 0 };
    let (rows, cols) = match *axes {
        [cols] => (one, cols),
        [rows, cols] => (rows, cols),
        _ => return None,
    };
    if inner != 1 || rows.gap != 1 || cols.gap != 1 {
        return None;
    }
    let [images, channels, each] = sizes;
    // Kernels of a group, and groups, must lie equally far apart.
    let apart = weight.strides[1];
    if each > 1 && channels > 1 && weight.strides[0] != apart * each as isize {
        return None;
    }
    let apart = if each > 1 { apart } else { weight.strides[0] };
    let right = weight.strides[2];
    let kernel = [apart, right * cols.kernel as isize, right];
    let strides = [strides[0], strides[1]];
    let threads = pool().threads();
    Some(Depthwise { element, images, channels, each, strides, rows, cols, kernel, threads })
        .filter(Depthwise::is_fit)
}

/// The results of one run.
struct Out<'a> {
    target: &'a Target,
    data: *mut u8,
}

// SAFETY: distinct blocks of the product are distinct elements of the output.
unsafe impl Sync for Out<'_> {}

impl Out<'_> {
    /// The address of an element of the product, and how many columns from there on belong to its image.
    fn at(&self, batch: usize, row: usize, col: usize) -> (*mut u8, usize) {
        let &Target { element, channels, groups, places, is_merged, .. } = self.target;
        let (image, place) = if is_merged { (col / places, col % places) } else { (batch / groups, col) };
        let channel = batch % groups * (channels / groups) + row;
        let offset = (image * channels + channel) * places + place;
        (self.data.wrapping_add(offset * element.bytes()), places - place)
    }
}

impl Epilogue for Out<'_> {
    fn target(&self, batch: usize, row: usize, col: usize) -> Option<(*mut f32, usize)> {
        let direct = self.target.element == Element::F32 && !self.target.is_merged;
        direct.then(|| (self.at(batch, row, col).0.cast(), self.target.places))
    }

    fn tile(
        &self,
        batch: usize,
        row: usize,
        col: usize,
        rows: usize,
        cols: usize,
        acc: *mut f32,
        ld: usize,
        worker: usize,
    ) {
        let mut done = 0;
        while done < cols {
            let (data, left) = self.at(batch, row, col + done);
            let width = left.min(cols - done);
            let layout = OperandLayout::matrix(self.target.element, self.target.places as isize, 1);
            // SAFETY: the block lies in the output, and nobody else writes it.
            let store = unsafe { Store::new(data, layout, &[]) };
            store.tile(0, 0, 0, rows, width, acc.wrapping_add(done), ld, worker);
            done += width;
        }
    }
}
