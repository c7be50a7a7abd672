//! Speed of products with packed weights: `cargo run --release -p lanthorn-kernels --example quantized_bench [filter]`.
//!
//! Few rows are held against the rate at which memory can be read, many rows against the product of the same shape with
//! f32 weights; `model` is all products of one token of SmolLM2-135M, each with a weight of its own.

use std::time::Instant;

use lanthorn_blocks::Encoding;
use lanthorn_kernels::matmul::{Element, MatmulPlan, MatmulShape, OperandLayout, Store};
use lanthorn_kernels::measure::{fma_peak_gflops, read_bandwidth_gbps};
use lanthorn_kernels::pool::pool;
use lanthorn_kernels::quantized::{QuantizedPlan, QuantizedShape, dequantize, is_supported};
use lanthorn_kernels::simd::isa;

/// The least seconds that a call takes, of trials for half a second.
fn best_seconds(mut call: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    for trial in 0.. {
        let start = Instant::now();
        call();
        best = best.min(start.elapsed().as_secs_f64());
        if trial >= 5 && begin.elapsed().as_secs_f64() > 0.5 {
            break;
        }
    }
    best
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 1009) as f32 / 504.0 - 1.0).collect()
}

/// Blocks of any bytes: the time does not depend on them, unless their scales are subnormal.
fn blocks(encoding: Encoding, elements: usize) -> Vec<u8> {
    vec![0x2d; elements / encoding.block_elements() * encoding.block_bytes()]
}

/// A product with everything that it needs.
struct Product {
    plan: QuantizedPlan,
    x: Vec<f32>,
    blocks: Vec<u8>,
    out: Vec<f32>,
    scratch: Vec<u64>,
}

impl Product {
    fn new(encoding: Encoding, rows: usize, inner: usize, outputs: usize) -> Product {
        let plan = QuantizedPlan::new(encoding, QuantizedShape { rows, inner, outputs });
        Product {
            x: values(rows * inner),
            blocks: blocks(encoding, inner * outputs),
            out: vec![0.0; rows * outputs],
            scratch: vec![0; plan.scratch_bytes().div_ceil(8) + 8],
            plan,
        }
    }

    fn run(&mut self) {
        let scratch = self.scratch.as_mut_ptr().cast::<u8>();
        let scratch = scratch.wrapping_add(scratch.align_offset(64));
        // SAFETY: the buffers have the sizes of the plan.
        unsafe { self.plan.run(self.x.as_ptr(), self.blocks.as_ptr(), self.out.as_mut_ptr(), scratch) }
    }
}

/// Seconds of the product of f32 operands.
fn dense_seconds(rows: usize, inner: usize, outputs: usize) -> f64 {
    let plan = MatmulPlan::new(MatmulShape {
        batch: [].into_iter().collect(),
        rows,
        cols: outputs,
        inner,
        a: OperandLayout::matrix(Element::F32, inner as isize, 1),
        b: OperandLayout::matrix(Element::F32, 1, inner as isize),
    });
    let (x, weight, mut out) = (values(rows * inner), values(inner * outputs), vec![0.0f32; rows * outputs]);
    let mut scratch = vec![0u64; plan.scratch_bytes().div_ceil(8) + 8];
    let scratch = scratch.as_mut_ptr().cast::<u8>();
    let scratch = scratch.wrapping_add(scratch.align_offset(64));
    let layout = OperandLayout::matrix(Element::F32, outputs as isize, 1);
    // SAFETY: the buffers have the sizes of the plan.
    unsafe {
        let store = Store::new(out.as_mut_ptr().cast(), layout, &[]);
        best_seconds(|| plan.run(x.as_ptr().cast(), weight.as_ptr().cast(), scratch, &store))
    }
}

fn few_rows(encoding: Encoding, [outputs, inner]: [usize; 2], rows: usize, bandwidth: f64) {
    let mut product = Product::new(encoding, rows, inner, outputs);
    let seconds = best_seconds(|| product.run());
    let rate = product.blocks.len() as f64 * 1e-9 / seconds;
    println!(
        "few {:<4} {rows:>4} x {outputs:>5} x {inner:>4}  {:>9.1} us  {rate:>6.2} GB/s  {:>4.0}% of reading  {:>7.1} GFLOP/s",
        encoding.name(),
        seconds * 1e6,
        100.0 * rate / bandwidth,
        2e-9 * (rows * inner * outputs) as f64 / seconds,
    );
}

fn many_rows(encoding: Encoding, [outputs, inner]: [usize; 2], rows: usize, peak: f64) {
    let mut product = Product::new(encoding, rows, inner, outputs);
    let seconds = best_seconds(|| product.run());
    let dense = dense_seconds(rows, inner, outputs);
    let rate = 2e-9 * (rows * inner * outputs) as f64 / seconds;
    println!(
        "many {:<4} {rows:>4} x {outputs:>5} x {inner:>4}  {:>9.1} us  {rate:>7.1} GFLOP/s  {:>4.0}% of peak  {:>5.2} of f32's speed",
        encoding.name(),
        seconds * 1e6,
        100.0 * rate / peak,
        dense / seconds,
    );
}

/// All products of a pass over SmolLM2-135M, each with its own weight.
fn model(encoding: Encoding, head: Encoding, rows: usize) {
    let mut products = Vec::new();
    for _ in 0..30 {
        for [outputs, inner] in
            [[576, 576], [192, 576], [192, 576], [576, 576], [1536, 576], [1536, 576], [576, 1536]]
        {
            products.push(Product::new(encoding, rows, inner, outputs));
        }
    }
    products.push(Product::new(head, 1, 576, 49152));
    let bytes: usize = products.iter().map(|product| product.blocks.len()).sum();
    let seconds = best_seconds(|| products.iter_mut().for_each(Product::run));
    println!(
        "model {encoding} and {head}, {rows} rows: {:.2} ms, {:.2} GB/s, {:.0} tokens/s",
        seconds * 1e3,
        bytes as f64 * 1e-9 / seconds,
        rows as f64 / seconds,
    );
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let threads = pool().threads();
    let bandwidth = read_bandwidth_gbps(threads);
    let peak = fma_peak_gflops(threads);
    println!("{} on {threads} threads: peak {peak:.1} GFLOP/s, reading {bandwidth:.1} GB/s", isa().name());
    let shapes = [[576, 576], [192, 576], [1536, 576], [576, 1536], [49152, 576], [4096, 4096]];
    let takes = |name: &str| name.contains(&wanted);
    for encoding in Encoding::ALL.into_iter().filter(|encoding| is_supported(*encoding)) {
        let block = encoding.block_elements();
        for shape in shapes.into_iter().filter(|[_, inner]| inner % block == 0) {
            for rows in [1, 4, 8].into_iter().filter(|_| takes(&format!("few {encoding} {shape:?}"))) {
                few_rows(encoding, shape, rows, bandwidth);
            }
            for rows in [128, 1024].into_iter().filter(|_| takes(&format!("many {encoding} {shape:?}"))) {
                if shape[0] < 10_000 {
                    many_rows(encoding, shape, rows, peak);
                }
            }
        }
        if takes(&format!("dequantize {encoding}")) {
            let count = 4096 * 4096;
            let (bytes, mut elements) = (blocks(encoding, count), vec![0.0f32; count]);
            // SAFETY: the elements are as many as the blocks hold.
            let seconds = best_seconds(|| unsafe {
                dequantize(encoding, bytes.as_ptr(), bytes.len(), elements.as_mut_ptr());
            });
            println!("dequantize {:<4} {:>6.2} GB/s of f32", encoding.name(), count as f64 * 4e-9 / seconds);
        }
    }
    for rows in [1, 2, 4, 8, 128, 1024].into_iter().filter(|rows| takes(&format!("model {rows}"))) {
        model(Encoding::Q4_1, Encoding::Q8_0, rows);
    }
}
