//! Prints the rate of matrix products and their share of the measured multiply-add peak.
//!
//! `cargo run --release -p lanthorn-kernels --example matmul_bench`; `LANTHORN_ISA` and
//! `LANTHORN_THREADS` choose instruction set and threads; an argument keeps the cases whose name and N contain it.

use std::cell::Cell;
use std::time::Instant;

use lanthorn_kernels::matmul::{Element, MatmulPlan, MatmulShape, OperandLayout, PackedB, Store};
use lanthorn_kernels::measure::{fma_peak_gflops, read_bandwidth_gbps};
use lanthorn_kernels::pool::pool;
use lanthorn_kernels::simd::isa;
use smallvec::smallvec;

/// Which of a matrix's axes is contiguous.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Rows,
    Columns,
}
use Order::{Columns, Rows};

fn layout(element: Element, order: Order, rows: usize, cols: usize) -> OperandLayout {
    let (row_stride, col_stride) = match order {
        Rows => (cols as isize, 1),
        Columns => (1, rows as isize),
    };
    let mut layout = OperandLayout::matrix(element, row_stride, col_stride);
    layout.batch_strides = smallvec![(rows * cols) as isize];
    layout
}

/// Values that f32 and bf16 both read as small numbers.
fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 % 1013) as f32 - 506.0) / 1013.0).collect()
}

/// Seconds per call: the best of many short trials, because other work on the machine only ever makes
/// one slower.
fn best_seconds(mut call: impl FnMut()) -> f64 {
    call();
    let start = Instant::now();
    call();
    let once = start.elapsed().as_secs_f64();
    let calls = ((0.002 / once) as usize).clamp(1, 1000);
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    for trial in 0.. {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        best = best.min(start.elapsed().as_secs_f64() / calls as f64);
        if trial >= 5 && begin.elapsed().as_secs_f64() > 0.5 {
            break;
        }
    }
    best
}

struct Case {
    name: &'static str,
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a: Order,
    b: Order,
    element: Element,
    packed: bool,
    /// Copies of B that calls take in turn, so that none is in a near cache.
    copies: usize,
}

const CASE: Case = Case {
    name: "",
    batch: 1,
    m: 0,
    n: 0,
    k: 0,
    a: Rows,
    b: Rows,
    element: Element::F32,
    packed: false,
    copies: 1,
};

fn run(case: &Case, peak: f64) {
    let Case { batch, m, n, k, element, .. } = *case;
    let shape = MatmulShape {
        batch: smallvec![batch],
        rows: m,
        cols: n,
        inner: k,
        a: layout(element, case.a, m, k),
        b: layout(element, case.b, k, n),
    };
    let (a, b) = (values(batch * m * k), values(case.copies * batch * k * n));
    let turn = Cell::new(0);
    let next_b = || {
        turn.set((turn.get() + 1) % case.copies);
        b[turn.get() * batch * k * n..].as_ptr().cast::<u8>()
    };
    let mut c = vec![0.0f32; batch * m * n];
    let plan = if case.packed { MatmulPlan::prepacked(shape) } else { MatmulPlan::new(shape) };
    let mut scratch = vec![0u64; plan.scratch_bytes().div_ceil(8) + 8];
    let scratch = scratch.as_mut_ptr().cast::<u8>();
    let scratch = scratch.wrapping_add(scratch.align_offset(64));
    // SAFETY: the buffers have the sizes of their layouts.
    let seconds = unsafe {
        let store = Store::new(c.as_mut_ptr().cast(), layout(Element::F32, Rows, m, n), &[batch]);
        if case.packed {
            let packed = PackedB::new(b.as_ptr().cast(), &layout(element, case.b, k, n), k, n);
            best_seconds(|| plan.run_packed(a.as_ptr().cast(), &packed, scratch, &store))
        } else {
            best_seconds(|| plan.run(a.as_ptr().cast(), next_b(), scratch, &store))
        }
    };
    let gflops = 2e-9 * (batch * m * n * k) as f64 / seconds;
    let bytes = batch * k * n * element.bytes();
    println!(
        "{:<22} {batch:>4} x {m:>5} x {n:>5} x {k:>5}  {:>9.1} us  {gflops:>7.1} GFLOP/s  {:>5.1}%  B at {:>5.1} GB/s",
        case.name,
        seconds * 1e6,
        100.0 * gflops / peak,
        1e-9 * bytes as f64 / seconds,
    );
}

fn main() {
    let threads = pool().threads();
    let peak = fma_peak_gflops(threads);
    let bandwidth = read_bandwidth_gbps(threads);
    println!("{} on {threads} threads: peak {peak:.1} GFLOP/s, reading {bandwidth:.1} GB/s", isa().name());
    let seconds = best_seconds(|| pool().run(threads, &|_, _| {}));
    println!("a run of one empty task for each thread: {:.0} ns", 1e9 * seconds);
    println!("{:<22} {:>4}   {:>5}   {:>5}   {:>5}", "", "b", "M", "N", "K");
    let square = |n| Case { name: "square", m: n, n, k: n, ..CASE };
    let linear = |k, n| Case { name: "linear", m: 1024, n, k, ..CASE };
    let cases = [
        square(64),
        square(128),
        square(256),
        square(512),
        square(1024),
        square(2048),
        linear(256, 768),
        linear(256, 256),
        linear(256, 1024),
        linear(1024, 256),
        linear(256, 2048),
        Case { name: "linear, packed B", m: 1024, n: 768, k: 256, packed: true, ..CASE },
        Case { name: "linear, B^T", m: 1024, n: 768, k: 256, b: Columns, ..CASE },
        Case { name: "linear, B^T", m: 1024, n: 256, k: 1024, b: Columns, ..CASE },
        Case { name: "dW = X^T dY", m: 256, n: 768, k: 1024, a: Columns, ..CASE },
        Case { name: "dW = X^T dY", m: 1024, n: 256, k: 1024, a: Columns, ..CASE },
        Case { name: "bf16", m: 512, n: 512, k: 512, element: Element::Bf16, ..CASE },
        Case { name: "bf16", m: 1024, n: 1024, k: 1024, element: Element::Bf16, ..CASE },
        Case { name: "Q K^T", batch: 64, m: 128, n: 128, k: 32, b: Columns, ..CASE },
        Case { name: "P V", batch: 64, m: 128, n: 32, k: 128, ..CASE },
        Case { name: "few rows", m: 16, n: 768, k: 768, ..CASE },
        Case { name: "few rows, B^T", m: 16, n: 768, k: 768, b: Columns, ..CASE },
        // SmolLM2-135M's weights, read and decoded.
        Case { name: "llama, B^T", m: 128, n: 576, k: 576, b: Columns, copies: 400, ..CASE },
        Case { name: "llama, B^T", m: 128, n: 1536, k: 576, b: Columns, copies: 150, ..CASE },
        Case { name: "llama, B^T", m: 128, n: 576, k: 1536, b: Columns, copies: 150, ..CASE },
        Case { name: "llama, B^T", m: 512, n: 1536, k: 576, b: Columns, copies: 150, ..CASE },
        Case { name: "llama, B^T", m: 512, n: 576, k: 1536, b: Columns, copies: 150, ..CASE },
        Case { name: "llama, packed B", m: 128, n: 1536, k: 576, packed: true, ..CASE },
        Case { name: "llama, packed B", m: 128, n: 576, k: 1536, packed: true, ..CASE },
        Case { name: "gemv, llama, B^T", m: 1, n: 192, k: 576, b: Columns, copies: 1200, ..CASE },
        Case { name: "gemv, llama, B^T", m: 1, n: 576, k: 576, b: Columns, copies: 400, ..CASE },
        Case { name: "gemv, llama, B^T", m: 1, n: 1536, k: 576, b: Columns, copies: 150, ..CASE },
        Case { name: "gemv, llama, B^T", m: 1, n: 576, k: 1536, b: Columns, copies: 150, ..CASE },
        Case { name: "gemv, llama, B^T", m: 1, n: 49152, k: 576, b: Columns, ..CASE },
        // The demo's GPT.
        Case { name: "gemv, gpt, B^T", m: 1, n: 256, k: 256, b: Columns, copies: 64, ..CASE },
        Case { name: "gemv, gpt, B^T", m: 1, n: 1024, k: 256, b: Columns, copies: 16, ..CASE },
        Case { name: "gemv, gpt, B^T", m: 1, n: 256, k: 1024, b: Columns, copies: 16, ..CASE },
        Case { name: "gemv, gpt, B^T", m: 1, n: 2048, k: 256, b: Columns, copies: 8, ..CASE },
        Case { name: "gemv", m: 1, n: 4096, k: 4096, ..CASE },
        Case { name: "gemv, B^T", m: 1, n: 4096, k: 4096, b: Columns, ..CASE },
        Case { name: "gemv, B^T, bf16", m: 1, n: 4096, k: 4096, b: Columns, element: Element::Bf16, ..CASE },
        Case { name: "gemv, packed B", m: 1, n: 4096, k: 4096, packed: true, ..CASE },
        Case { name: "skinny 2", m: 2, n: 4096, k: 4096, ..CASE },
        Case { name: "skinny 4", m: 4, n: 4096, k: 4096, ..CASE },
        Case { name: "skinny 8", m: 8, n: 4096, k: 4096, ..CASE },
        Case { name: "skinny 8, B^T", m: 8, n: 4096, k: 4096, b: Columns, ..CASE },
        Case { name: "gemv, small", m: 1, n: 768, k: 768, ..CASE },
        Case { name: "gemv, small, B^T", m: 1, n: 768, k: 768, b: Columns, ..CASE },
        Case { name: "skinny 8, small", m: 8, n: 768, k: 768, ..CASE },
        Case { name: "skinny 8, small, B^T", m: 8, n: 768, k: 768, b: Columns, ..CASE },
        Case { name: "matvec", m: 4096, n: 1, k: 4096, ..CASE },
        Case { name: "matvec, A^T", m: 4096, n: 1, k: 4096, a: Columns, ..CASE },
    ];
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for case in cases.iter().filter(|case| format!("{} {}", case.name, case.n).contains(&wanted)) {
        run(case, peak);
    }
}
