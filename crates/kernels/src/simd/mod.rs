//! One abstraction over instruction sets.
//!
//! A kernel is written once, generic over [`Simd`], as a struct that implements [`SimdOp`];
//! [`dispatch`] runs it inside a function compiled for the best instruction set of this machine.
//! The instruction sets themselves are private to this module: a type `S: Simd` can only be
//! had through `dispatch`, which has checked that the processor supports it. That is what makes the
//! safe methods of [`Simd`] sound, so no other door may ever be opened.
//!
//! Two rules keep a kernel fast:
//!
//! - `SimdOp::run` and every generic function that it calls per vector carry `#[inline(always)]`:
//!   only code inlined into the dispatching function is compiled for its instruction set.
//! - No closures on the hot path; a closure is a function of its own, compiled for the baseline.
//!
//! A part that several kernels share, or that would make one function too large for the compiler, is a `SimdOp` of its
//! own, run by [`Simd::apart`].
//!
//! Plain loops over `f64`, `i32` or `i64` inside `run` are vectorised by the compiler for the chosen
//! instruction set, so those types need no vector type here.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod half_bits;
#[cfg(target_arch = "aarch64")]
mod neon;
// A wasm module with SIMD128 runs nowhere without it: a second copy of every kernel would only make it larger.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod scalar;
#[cfg(test)]
mod tests;
pub mod vecmath;
mod vector;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm128;

use std::sync::atomic::{AtomicU8, Ordering};

pub use vector::{MAX_LANES, Simd};

/// An instruction set, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// Portable code over four-lane arrays; the compiler may use its baseline vectors.
    Scalar = 1,
    /// WebAssembly SIMD128.
    Wasm128,
    /// AArch64 Advanced SIMD.
    Neon,
    /// x86-64 AVX2 with FMA and F16C.
    Avx2,
    /// x86-64 AVX-512 F, BW, DQ and VL (with all of AVX2's companions).
    Avx512,
}

impl Isa {
    /// Every instruction set that this machine can run, narrowest first.
    pub fn supported() -> impl Iterator<Item = Isa> {
        [Isa::Scalar, Isa::Wasm128, Isa::Neon, Isa::Avx2, Isa::Avx512]
            .into_iter()
            .filter(|isa| isa.is_supported())
    }

    /// Whether this machine can run it.
    pub fn is_supported(self) -> bool {
        match self {
            Isa::Scalar => !Isa::Wasm128.is_supported(),
            Isa::Wasm128 => cfg!(all(target_arch = "wasm32", target_feature = "simd128")),
            Isa::Neon => cfg!(target_arch = "aarch64"),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Isa::Avx2 | Isa::Avx512 => false,
        }
    }

    /// f32 lanes per vector.
    pub const fn lanes(self) -> usize {
        match self {
            Isa::Scalar | Isa::Wasm128 | Isa::Neon => 4,
            Isa::Avx2 => 8,
            Isa::Avx512 => 16,
        }
    }

    /// The name that `LANTHORN_ISA` understands.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Wasm128 => "wasm128",
            Isa::Neon => "neon",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    #[inline(always)]
    const fn from_code(code: u8) -> Option<Isa> {
        const ALL: [Isa; 5] = [Isa::Scalar, Isa::Wasm128, Isa::Neon, Isa::Avx2, Isa::Avx512];
        // Codes begin with 1.
        let at = code.wrapping_sub(1) as usize;
        if at < ALL.len() { Some(ALL[at]) } else { None }
    }
}

/// The instruction set that [`dispatch`] uses: the widest supported one, or a narrower one named
/// by the environment variable `LANTHORN_ISA` (read once). A name that is none is passed over here, and an error of
/// whoever makes a device: [`isa_of_environment`].
#[inline(always)]
pub fn isa() -> Isa {
    static CHOSEN: AtomicU8 = AtomicU8::new(0);
    match Isa::from_code(CHOSEN.load(Ordering::Relaxed)) {
        Some(isa) => isa,
        None => choose_isa(&CHOSEN),
    }
}

#[cold]
#[inline(never)]
fn choose_isa(chosen: &AtomicU8) -> Isa {
    let named = isa_of_environment().ok().flatten();
    let isa = named.or(Isa::supported().last()).unwrap_or(Isa::Scalar);
    chosen.store(isa as u8, Ordering::Relaxed);
    isa
}

/// The variable of the environment that names the instruction set.
pub const ISA: &str = "LANTHORN_ISA";

/// What the environment says of the instruction set; nothing where it is empty or absent.
///
/// # Errors
///
/// What was found and what would be right.
pub fn isa_of_environment() -> Result<Option<Isa>, String> {
    match std::env::var_os(ISA) {
        Some(name) => isa_of(&name.to_string_lossy()),
        None => Ok(None),
    }
}

fn isa_of(name: &str) -> Result<Option<Isa>, String> {
    let name = name.trim();
    if name.is_empty() {
        return Ok(None);
    }
    Isa::supported().find(|isa| isa.name() == name).map(Some).ok_or_else(|| {
        let names: Vec<&str> = Isa::supported().map(Isa::name).collect();
        format!("{name:?} is no instruction set of this machine; expected one of {}", names.join(", "))
    })
}

/// A kernel, generic over the instruction set.
pub trait SimdOp {
    /// What the kernel returns.
    type Output;

    /// Runs the kernel. Implementations carry `#[inline(always)]`; see the module page for why.
    fn run<S: Simd>(self) -> Self::Output;
}

/// Runs `op` with the instruction set of [`isa`].
///
/// ```
/// use lanthorn_kernels::simd::{Simd, SimdOp, dispatch};
///
/// struct Sum<'a>(&'a [f32]);
///
/// impl SimdOp for Sum<'_> {
///     type Output = f32;
///
///     #[inline(always)]
///     fn run<S: Simd>(self) -> f32 {
///         let mut total = S::splat(0.0);
///         let mut chunks = self.0.chunks_exact(S::LANES);
///         for chunk in &mut chunks {
///             // SAFETY: the chunk holds exactly `LANES` values.
///             total = S::add(total, unsafe { S::load(chunk.as_ptr()) });
///         }
///         let rest = chunks.remainder();
///         // SAFETY: the remainder holds `rest.len() < LANES` values.
///         let rest = unsafe { S::load_partial(rest.as_ptr(), rest.len()) };
///         S::reduce_add(S::add(total, rest))
///     }
/// }
///
/// assert_eq!(dispatch(Sum(&[1.0; 37])), 37.0);
/// ```
// Part of the caller, so that `op` is made where the kernel reads it: a copy of fields that were written one by one just
// before waits until all earlier writes are in the cache.
#[inline(always)]
pub fn dispatch<O: SimdOp>(op: O) -> O::Output {
    // `isa()` only ever returns a supported instruction set.
    dispatch_unchecked(isa(), op)
}

/// Runs `op` with a named instruction set, or with the narrowest there is where this machine lacks it.
/// Tests use it to hold every instruction set to the same results.
pub fn dispatch_on<O: SimdOp>(isa: Isa, op: O) -> O::Output {
    dispatch_unchecked(if isa.is_supported() { isa } else { Isa::Scalar }, op)
}

/// The caller vouches that `isa` is supported.
#[inline(always)]
fn dispatch_unchecked<O: SimdOp>(isa: Isa, op: O) -> O::Output {
    match isa {
        // SAFETY: `isa` is supported, so the target features of the callee are present.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { run_avx512(op) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { run_avx2(op) },
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => run_neon(op),
        _ => run_portable(op),
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn run_neon<O: SimdOp>(op: O) -> O::Output {
    op.run::<neon::Neon>()
}

/// With the instruction set that every machine of this target has.
#[inline(never)]
fn run_portable<O: SimdOp>(op: O) -> O::Output {
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    return op.run::<wasm128::Wasm128>();
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    op.run::<scalar::Scalar>()
}

/// [`run_avx512`], never inlined.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
#[inline(never)]
unsafe fn apart_avx512<O: SimdOp>(op: O) -> O::Output {
    op.run::<avx512::Avx512>()
}

/// [`run_avx2`], never inlined.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
unsafe fn apart_avx2<O: SimdOp>(op: O) -> O::Output {
    op.run::<avx2::Avx2>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn run_avx512<O: SimdOp>(op: O) -> O::Output {
    op.run::<avx512::Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn run_avx2<O: SimdOp>(op: O) -> O::Output {
    op.run::<avx2::Avx2>()
}
