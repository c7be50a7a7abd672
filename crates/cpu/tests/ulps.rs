//! The largest errors of the functions of one number on the CPU, in units in the last place of the exact result: what
//! `docs/numerics.md` states, from `lanthorn_optest::tolerance`.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::expr::UnaryOp;
use lanthorn_ir::prim::Elementwise;
use lanthorn_ir::{Builder, DType, Prim, TensorType};
use lanthorn_optest::device::{Device, Eager, Lie};
use lanthorn_optest::sequence::Sequence;
use lanthorn_optest::tolerance::ULPS;

const SAMPLES: usize = 60_000;

/// Floats of every sign and exponent of the type, and as many between -20 and 20.
fn sample(dtype: DType) -> Vec<f64> {
    let mut s = Sequence::new(9);
    let any = |bits: u64| match dtype {
        DType::F32 => f64::from(f32::from_bits((bits >> 32) as u32)),
        _ => f64::from_bits(bits),
    };
    let mut found: Vec<f64> = (0..SAMPLES).map(|_| any(s.bits())).filter(|x| x.is_finite()).collect();
    found.extend((0..SAMPLES).map(|_| s.uniform(-20.0, 20.0)).map(|x| match dtype {
        DType::F32 => f64::from(x as f32),
        _ => x,
    }));
    found
}

/// The distance of neighbours at `x` in a type.
fn ulp(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F32 => {
            let x = (x.abs() as f32).min(f32::MAX);
            f64::from(f32::from_bits(x.to_bits() + 1)) - f64::from(x)
        }
        _ => {
            let x = x.abs().min(f64::MAX);
            f64::from_bits(x.to_bits() + 1) - x
        }
    }
}

/// The largest error of `op` on the sample between `low` and `high`, and where.
fn worst(op: UnaryOp, dtype: DType, low: f64, high: f64) -> (f64, f64) {
    let device = Device::whole(&lanthorn_cpu::CpuBackend);
    let x: Vec<f64> = sample(dtype).into_iter().filter(|x| (low..=high).contains(x)).collect();
    let prim = Prim::Elementwise(Elementwise::Unary(op));
    let operand = HostTensor::from_f64(dtype, &[x.len()], &x).unwrap();
    let placed = device.place(&operand, Lie::Contiguous);
    let found = device.fetch(&Eager(device).apply(prim.clone(), &[placed]).unwrap()[0]).to_f64();
    let wide = HostTensor::collect(&TensorType::new(DType::F64, [x.len()]), operand.data().iter()).unwrap();
    let exact = Interp.apply(prim, &[wide]).unwrap()[0].to_f64();
    let mut worst = (0.0, 0.0);
    for (at, (found, exact)) in found.into_iter().zip(exact).enumerate() {
        let rounded = if dtype == DType::F32 { f64::from(exact as f32) } else { exact };
        let error = match found == rounded || (found.is_nan() && exact.is_nan()) {
            true => 0.0,
            // One of both overflows, or is no number: nothing that counts in units.
            false if !found.is_finite() || !rounded.is_finite() => {
                let most = if dtype == DType::F32 { f64::from(f32::MAX) } else { f64::MAX };
                let at_the_edge = found.abs() >= most && rounded.abs() >= most;
                if at_the_edge { 1.0 } else { f64::INFINITY }
            }
            false => (found - exact).abs() / ulp(dtype, exact),
        };
        if error > worst.0 {
            worst = (error, x[at]);
        }
    }
    worst
}

#[test]
fn functions_keep_their_bounds() {
    let mut broken = Vec::new();
    for bound in ULPS {
        let op = UnaryOp::ALL.into_iter().find(|op| op.name() == bound.name).unwrap();
        for (dtype, most) in [(DType::F32, bound.f32), (DType::F64, bound.f64)] {
            let (error, at) = worst(op, dtype, bound.low, bound.high);
            println!("{:>12} {dtype}: {error:.2} at {at:e}, stated {most}", bound.name);
            if error > most {
                broken.push(format!("{} in {dtype}: {error:.2} at {at:e}, stated {most}", bound.name));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_function_has_a_bound() {
    for op in UnaryOp::ALL {
        let is_exact = matches!(op, UnaryOp::Not | UnaryOp::IsFinite | UnaryOp::BitNot);
        assert!(is_exact || ULPS.iter().any(|bound| bound.name == op.name()), "{} has no bound", op.name());
    }
}
