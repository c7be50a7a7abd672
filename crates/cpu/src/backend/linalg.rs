//! Linear algebra: matrices go to `lanthorn-linalg` in f64 one by one, and what fails there comes back in words.

use std::sync::Mutex;

use lanthorn_ir::prim::Linalg;
use lanthorn_ir::prim::linalg::{Failed, failed};
use lanthorn_ir::{DType, Error, Result};
use lanthorn_kernels::pool::pool;
use lanthorn_linalg::{self as linalg, Failure, Matrix};

use super::prims::Operands;

/// An element type of matrices.
trait Element: Copy {
    fn wide(self) -> f64;
    fn narrow(v: f64) -> Self;
}

impl Element for f32 {
    fn wide(self) -> f64 {
        self.into()
    }

    fn narrow(v: f64) -> f32 {
        v as f32
    }
}

impl Element for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn narrow(v: f64) -> f64 {
        v
    }
}

/// True if the cpu has a kernel; the others decompose.
pub(super) fn has_kernel(prim: &Linalg) -> bool {
    match prim {
        Linalg::Cholesky
        | Linalg::Lu { .. }
        | Linalg::Permutation { .. }
        | Linalg::TriangularSolve { .. }
        | Linalg::Qr { .. }
        | Linalg::Eigh
        | Linalg::Svd
        | Linalg::MatrixExp => true,
        Linalg::Completion
        | Linalg::Solve { .. }
        | Linalg::Det
        | Linalg::Cofactor
        | Linalg::SlogDet
        | Linalg::Pinv { .. } => false,
    }
}

/// # Safety
/// The operands are those of the primitive, dense.
pub(super) unsafe fn run(prim: &Linalg, call: &Operands<'_>) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        match (prim, call.dtype(0)) {
            (Linalg::Permutation { rows, inverse }, _) => permutations(call, *rows, *inverse),
            (_, DType::F32) => run_in::<f32>(prim, call),
            (_, DType::F64) => run_in::<f64>(prim, call),
            (_, other) => Err(Error::dtype(prim_name(prim), format!("the cpu has no kernel for {other}"))),
        }
    }
}

fn prim_name(prim: &Linalg) -> &'static str {
    lanthorn_ir::prim::Rules::name(prim)
}

/// # Safety
/// As [`run`].
unsafe fn permutations(call: &Operands<'_>, rows: usize, inverse: bool) -> Result<()> {
    // SAFETY: as the caller.
    let (pivots, orders) = unsafe { (call.slice::<i32>(0), call.slice_mut::<i32>(0)) };
    let count = call.shape(0).last().copied().unwrap_or(0);
    for (at, order) in orders.chunks_exact_mut(rows.max(1)).enumerate() {
        let pivots = &pivots[at * count..(at + 1) * count];
        linalg::permutation(pivots, order, inverse).map_err(|failure| worded("permutation", at, failure))?;
    }
    Ok(())
}

fn worded(op: &'static str, at: usize, failure: Failure) -> Error {
    failed(
        at,
        match failure {
            Failure::NotPositiveDefinite { order } => Failed::NotPositiveDefinite { order },
            Failure::NotFinite => Failed::NotFinite { op },
            Failure::NotConverged => Failed::NotConverged { op },
            Failure::PivotOutOfRange { pivot } => Failed::PivotOutOfRange { pivot: pivot.into() },
        },
    )
}

/// Where the parts of a batch lie; each task reads and writes its own.
struct Batch<E> {
    inputs: [(*const E, [usize; 2]); 2],
    outputs: [*mut E; 3],
    pivots: *mut i32,
}

// SAFETY: inputs are only read, and a task writes the outputs of its own matrix alone.
unsafe impl<E> Sync for Batch<E> {}

impl<E: Element> Batch<E> {
    /// # Safety
    /// The input has more than `at` matrices.
    unsafe fn matrix(&self, input: usize, at: usize) -> Matrix {
        let (base, [rows, columns]) = self.inputs[input];
        let size = rows * columns;
        // SAFETY: the caller's promise.
        let elements = unsafe { std::slice::from_raw_parts(base.add(at * size), size) };
        Matrix::new(rows, columns, elements.iter().map(|v| v.wide()).collect())
    }

    /// # Safety
    /// The output has room for more than `at` parts of this size, and nobody else writes this one.
    unsafe fn put(&self, output: usize, at: usize, values: &[f64]) {
        for (i, &v) in values.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { self.outputs[output].add(at * values.len() + i).write(E::narrow(v)) };
        }
    }
}

/// The sizes of the last two axes, and of all before them.
fn matrices_of(shape: &[usize]) -> (usize, [usize; 2]) {
    match shape {
        [lead @ .., rows, columns] => (lead.iter().product(), [*rows, *columns]),
        _ => (0, [0, 0]),
    }
}

/// # Safety
/// As [`run`], in elements of `E`.
unsafe fn run_in<E: Element>(prim: &Linalg, call: &Operands<'_>) -> Result<()> {
    let (count, sizes) = matrices_of(call.shape(0));
    let is_lu = matches!(prim, Linalg::Lu { .. });
    let mut batch = Batch::<E> {
        inputs: [(std::ptr::null(), [0, 0]); 2],
        outputs: [std::ptr::null_mut(); 3],
        pivots: std::ptr::null_mut(),
    };
    // SAFETY: the caller's promise.
    unsafe {
        for input in 0..call.inputs().min(2) {
            batch.inputs[input] = (call.slice::<E>(input).as_ptr(), matrices_of(call.shape(input)).1);
        }
        for output in 0..call.outputs().min(3) {
            if is_lu && output == 1 {
                batch.pivots = call.slice_mut::<i32>(output).as_mut_ptr();
            } else {
                batch.outputs[output] = call.slice_mut::<E>(output).as_mut_ptr();
            }
        }
    }
    let epsilon = if call.dtype(0) == DType::F32 { f32::EPSILON.into() } else { f64::EPSILON };
    // SAFETY: `at` is below the number of matrices, and each task has its own.
    let one = |at: usize| unsafe { run_one(prim, &batch, at, epsilon) };
    let [rows, columns] = sizes;
    let work = count.saturating_mul(rows).saturating_mul(columns).saturating_mul(rows.min(columns));
    if count < 2 || work < 1 << 16 {
        return (0..count).try_for_each(one);
    }
    // Of several that fail, the first is told.
    let first: Mutex<Option<(usize, Error)>> = Mutex::new(None);
    pool().run(count, &|at, _| {
        if let Err(error) = one(at) {
            let mut first = first.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if first.as_ref().is_none_or(|(known, _)| at < *known) {
                *first = Some((at, error));
            }
        }
    });
    match first.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// # Safety
/// `at` is below the number of matrices, and nobody else writes its results.
unsafe fn run_one<E: Element>(prim: &Linalg, batch: &Batch<E>, at: usize, epsilon: f64) -> Result<()> {
    let name = prim_name(prim);
    // SAFETY: the caller's promise.
    unsafe {
        let mut a = batch.matrix(0, at);
        match *prim {
            Linalg::Cholesky => {
                let l = linalg::cholesky(&a).map_err(|failure| worded(name, at, failure))?;
                batch.put(0, at, &l.data);
            }
            Linalg::Lu { regular } => {
                let pivots = linalg::lu(&mut a);
                if let (Some(asker), Some(place)) = (regular, linalg::singular_at(&a)) {
                    return Err(failed(at, Failed::Singular { asker, place }));
                }
                batch.put(0, at, &a.data);
                for (i, &pivot) in pivots.iter().enumerate() {
                    batch.pivots.add(at * pivots.len() + i).write(pivot);
                }
            }
            Linalg::TriangularSolve { upper, unit, full_rank } => {
                if full_rank && let Err(column) = linalg::full_rank(&a, upper, epsilon) {
                    return Err(failed(at, Failed::RankDeficient { column }));
                }
                let mut x = batch.matrix(1, at);
                linalg::triangular_solve(&a, &mut x, upper, unit);
                batch.put(0, at, &x.data);
            }
            Linalg::Qr { complete } => {
                let (q, r) = if complete { linalg::complete_qr(a) } else { linalg::qr(a) };
                batch.put(0, at, &q.data);
                batch.put(1, at, &r.data);
            }
            Linalg::Eigh => {
                let (values, vectors) = linalg::eigh(&a).map_err(|failure| worded(name, at, failure))?;
                batch.put(0, at, &values);
                batch.put(1, at, &vectors.data);
            }
            Linalg::Svd => {
                let (u, s, vt) = linalg::svd(&a).map_err(|failure| worded(name, at, failure))?;
                batch.put(0, at, &u.data);
                batch.put(1, at, &s);
                batch.put(2, at, &vt.data);
            }
            Linalg::MatrixExp => batch.put(0, at, &linalg::exponential(&a).data),
            _ => return Err(Error::unsupported(name, "the cpu has no kernel for this primitive")),
        }
    }
    Ok(())
}
