//! Rates of the row kernels and of attention, beside what this machine can do.
//!
//! `cargo run --release -p lanthorn-cpu --example rows_bench [filter]`

use std::mem::MaybeUninit;
use std::time::Instant;

use half::bf16;
use lanthorn_kernels::attention::{
    AttentionOptions, Heads, HeadsMut, attention, attention_grad, attention_grad_scratch_bytes,
    attention_scratch_bytes,
};
use lanthorn_kernels::measure::{fma_peak_gflops, read_bandwidth_gbps};
use lanthorn_kernels::rows::*;

/// Seconds of the fastest of several runs.
fn fastest(mut run: impl FnMut()) -> f64 {
    run();
    let (start, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    while runs < 5 || start.elapsed().as_secs_f64() < 0.4 {
        let begin = Instant::now();
        run();
        best = best.min(begin.elapsed().as_secs_f64());
        runs += 1;
    }
    best
}

struct Report {
    filter: String,
    cpu: Cpu,
}

impl Report {
    fn line(&self, name: &str, unit: &str, amount: f64, run: impl FnMut()) {
        if name.contains(&self.filter) {
            let seconds = fastest(run);
            println!(
                "{name:<44} {:>8.1} {unit:<8} {:>9.3} ms  ({} threads)",
                amount / seconds * 1e-9,
                seconds * 1e3,
                self.cpu.threads
            );
        }
    }
}

fn random(count: usize, seed: u64) -> Vec<f32> {
    let mut values = vec![0.0; count];
    normal(Cpu::host(), RandomKey { seed, draw: 0, stream: 0 }, &mut values);
    values
}

/// Aligned scratch.
struct Memory(Vec<[u128; 4]>);

impl Memory {
    fn new(bytes: usize) -> Self {
        Memory(vec![[0; 4]; bytes / 64 + 2])
    }

    fn get(&mut self) -> Scratch<'_> {
        let ptr = self.0.as_mut_ptr().cast::<u8>();
        let skip = ptr.align_offset(64);
        let bytes = self.0.len() * 64 - 64;
        // SAFETY: the vector holds the skipped bytes and the rest.
        Scratch::new(unsafe {
            std::slice::from_raw_parts_mut(ptr.add(skip).cast::<MaybeUninit<u8>>(), bytes)
        })
    }
}

fn rows(report: &Report) {
    let cpu = report.cpu;
    let (rows, width) = (4096, 4096);
    let (x, mut y) = (random(rows * width, 1), random(rows * width, 2));
    let bytes = (rows * width * 8) as f64;
    let copy = |x: &[f32], y: &mut [f32]| y.copy_from_slice(x);
    report.line("copy [4096,4096], one thread", "GB/s", bytes, || copy(&x, &mut y));
    report.line("softmax [4096,4096]", "GB/s", bytes, || {
        softmax(cpu, Rows::new(&x, rows, width), RowsMut::new(&mut y, rows, width));
    });
    report.line("log_softmax [4096,4096]", "GB/s", bytes, || {
        log_softmax(cpu, Rows::new(&x, rows, width), RowsMut::new(&mut y, rows, width));
    });
    let (weight, bias) = (random(width, 3), random(width, 4));
    let (mut mean, mut rstd) = (vec![0.0; rows], vec![0.0; rows]);
    report.line("layer_norm [4096,4096]", "GB/s", bytes, || {
        let (x, y) = (Rows::new(&x, rows, width), RowsMut::new(&mut y, rows, width));
        layer_norm(cpu, x, &weight, &bias, 1e-5, y, &mut mean, &mut rstd);
    });
    let dy = random(rows * width, 5);
    let (mut dweight, mut dbias) = (weight.clone(), bias.clone());
    let mut scratch = Memory::new(layer_norm_grad_scratch_bytes::<f32>(rows, width));
    report.line("layer_norm_grad [4096,4096]", "GB/s", bytes * 1.5, || {
        let (x, dy) = (Rows::new(&x, rows, width), Rows::new(&dy, rows, width));
        let dx = RowsMut::new(&mut y, rows, width);
        layer_norm_grad(cpu, x, &weight, &mean, &rstd, dy, dx, &mut dweight, &mut dbias, scratch.get());
    });
    report.line("rms_norm [4096,4096]", "GB/s", bytes, || {
        let (x, y) = (Rows::new(&x, rows, width), RowsMut::new(&mut y, rows, width));
        rms_norm(cpu, x, &weight, 1e-5, y, &mut rstd);
    });

    let narrow = |values: &[f32]| values.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
    let (x, mut y, weight, bias) = (narrow(&x), narrow(&y), narrow(&weight), narrow(&bias));
    report.line("softmax bf16 [4096,4096]", "GB/s", bytes * 0.5, || {
        softmax(cpu, Rows::new(&x, rows, width), RowsMut::new(&mut y, rows, width));
    });
    report.line("layer_norm bf16 [4096,4096]", "GB/s", bytes * 0.5, || {
        let (x, y) = (Rows::new(&x, rows, width), RowsMut::new(&mut y, rows, width));
        layer_norm(cpu, x, &weight, &bias, 1e-5, y, &mut mean, &mut rstd);
    });
}

fn loss(report: &Report) {
    let cpu = report.cpu;
    let (rows, classes) = (1024, 2048);
    let mut logits = random(rows * classes, 1);
    let targets: Vec<i64> = (0..rows as i64).map(|row| row * 7 % classes as i64).collect();
    let targets = Indices::I64(&targets);
    let (mut loss, mut lse, dloss) = (vec![0.0; rows], vec![0.0; rows], vec![1.0 / rows as f32; rows]);
    let bytes = (rows * classes * 4) as f64;
    report.line("cross_entropy [1024,2048]", "GB/s", bytes, || {
        let logits = Rows::new(&logits, rows, classes);
        cross_entropy(cpu, logits, targets, None, &mut loss, &mut lse).expect("targets are classes");
    });
    let mut dlogits = vec![0.0; rows * classes];
    report.line("cross_entropy_grad [1024,2048]", "GB/s", 2.0 * bytes, || {
        let (logits, out) = (Rows::new(&logits, rows, classes), RowsMut::new(&mut dlogits, rows, classes));
        cross_entropy_grad(cpu, logits, targets, None, &lse, &dloss, out).expect("targets are classes");
    });
    report.line("cross_entropy_grad in place [1024,2048]", "GB/s", 2.0 * bytes, || {
        let (ptr, stride) = (logits.as_mut_ptr(), classes as isize);
        // SAFETY: both are the very same rows of one vector.
        let (x, out) = unsafe {
            (Rows::from_raw(ptr, rows, classes, stride), RowsMut::from_raw(ptr, rows, classes, stride))
        };
        cross_entropy_grad(cpu, x, targets, None, &lse, &dloss, out).expect("targets are classes");
    });
}

fn indexed(report: &Report) {
    let cpu = report.cpu;
    let (vocabulary, width, count) = (32_000, 512, 8192);
    let table = random(vocabulary * width, 1);
    let ids: Vec<i64> = (0..count as i64).map(|at| at * at * 31 % vocabulary as i64).collect();
    let mut out = vec![0.0; count * width];
    report.line("embedding 8192 of [32000,512]", "GB/s", (count * width * 8) as f64, || {
        // SAFETY: the vectors hold the rows; every f32 is four bytes.
        let (rows, out) = unsafe {
            let bytes = width * 4;
            (
                Rows::from_raw(table.as_ptr().cast::<u8>(), vocabulary, bytes, bytes as isize),
                RowsMut::from_raw(out.as_mut_ptr().cast::<u8>(), count, bytes, bytes as isize),
            )
        };
        embedding(cpu, rows, Indices::I64(&ids), out).expect("ids are rows");
    });
    let mut dtable = table.clone();
    let mut scratch = Memory::new(embedding_grad_scratch_bytes(vocabulary, count));
    let bytes = ((count + vocabulary) * width * 4) as f64;
    report.line("embedding_grad 8192 of [32000,512]", "GB/s", bytes, || {
        let (grad, out) = (Rows::new(&out, count, width), RowsMut::new(&mut dtable, vocabulary, width));
        embedding_grad(cpu, grad, Indices::I64(&ids), out, scratch.get()).expect("ids are rows");
    });
    let mut values = vec![0.0; 1 << 22];
    let key = RandomKey { seed: 1, draw: 2, stream: 3 };
    report.line("uniform 4M", "Gvalue/s", values.len() as f64, || uniform(cpu, key, &mut values));
    report.line("normal 4M", "Gvalue/s", values.len() as f64, || normal(cpu, key, &mut values));
}

fn attend<E: Element>(report: &Report, name: &str, q: [usize; 4], k: [usize; 4], causal: bool) {
    let cpu = report.cpu;
    let len = |shape: [usize; 4]| shape.iter().product::<usize>();
    let make = |count, seed| -> Vec<E> {
        random(count, seed).iter().map(|x| E::from_wide(E::Wide::from_f64(f64::from(*x)))).collect()
    };
    let (queries, keys, values) = (make(len(q), 1), make(len(k), 2), make(len(k), 3));
    let (mut o, mut lse) = (make(len(q), 4), vec![E::Wide::ZERO; len(q) / q[3]]);
    let past = (k[1] != q[1]).then(|| (k[1] - q[1]) as i64);
    let options = AttentionOptions { causal, scale: 1.0 / (q[3] as f64).sqrt(), past };
    let mut scratch = Memory::new(attention_scratch_bytes::<E>(q, k, false, cpu.threads));
    // A causal mask over equal lengths hides half.
    let pairs = (q[0] * q[1] * q[2] * k[1]) as f64 * if causal && q[1] == k[1] { 0.5 } else { 1.0 };
    let flops = 4.0 * pairs * q[3] as f64;
    let (queries, keys, values) = (Heads::new(&queries, q), Heads::new(&keys, k), Heads::new(&values, k));
    let mut forward = || {
        let out = HeadsMut::new(&mut o, q);
        attention(cpu, queries, keys, values, None, &options, out, &mut lse, scratch.get())
            .expect("past fits");
    };
    if q[1] <= 4 {
        let bytes = (2 * len(k) * size_of::<E>()) as f64;
        return report.line(&format!("decode {name}"), "GB/s", bytes, forward);
    }
    report.line(&format!("attention {name}"), "GFLOP/s", flops, &mut forward);
    forward();
    let d_o = make(len(q), 5);
    let (mut dq, mut dk, mut dv) = (make(len(q), 6), make(len(k), 7), make(len(k), 8));
    let mut scratch = Memory::new(attention_grad_scratch_bytes::<E>(q, k, cpu.threads));
    report.line(&format!("attention_grad {name}"), "GFLOP/s", 2.5 * flops, || {
        let (o, d_o) = (Heads::new(&o, q), Heads::new(&d_o, q));
        let (dq, dk, dv) = (HeadsMut::new(&mut dq, q), HeadsMut::new(&mut dk, k), HeadsMut::new(&mut dv, k));
        attention_grad(cpu, queries, keys, values, None, o, &lse, d_o, &options, dq, dk, dv, scratch.get())
            .expect("past fits");
    });
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for threads in [1, Cpu::host().threads] {
        let report = Report { filter: filter.clone(), cpu: Cpu { threads, ..Cpu::host() } };
        println!(
            "{:?}: peak {:.0} GFLOP/s, reading {:.1} GB/s ({threads} threads)",
            report.cpu.isa,
            fma_peak_gflops(threads),
            read_bandwidth_gbps(threads)
        );
        rows(&report);
        loss(&report);
        indexed(&report);
        attend::<f32>(&report, "b=8 h=8 t=128 d=32 causal", [8, 128, 8, 32], [8, 128, 8, 32], true);
        attend::<bf16>(&report, "bf16 b=8 h=8 t=128 d=32 causal", [8, 128, 8, 32], [8, 128, 8, 32], true);
        attend::<f32>(&report, "b=2 h=8 t=1024 d=64", [2, 1024, 8, 64], [2, 1024, 8, 64], false);
        attend::<f32>(&report, "b=2 h=8 t=1024 d=64 causal", [2, 1024, 8, 64], [2, 1024, 8, 64], true);
        attend::<f32>(&report, "b=1 h=8 t=1024 d=128", [1, 1024, 8, 128], [1, 1024, 8, 128], false);
        attend::<f32>(&report, "b=8 h=8 t=1 of 128 d=32", [8, 1, 8, 32], [8, 128, 8, 32], true);
        attend::<f32>(&report, "b=1 h=8 t=1 of 8192 d=64", [1, 1, 8, 64], [1, 8192, 8, 64], true);
        attend::<bf16>(
            &report,
            "bf16 b=1 h=32/8 t=1 of 8192 d=128",
            [1, 1, 32, 128],
            [1, 8192, 8, 128],
            true,
        );
    }
}
