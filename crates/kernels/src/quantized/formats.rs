//! The packed encodings as vectors read them: an element is `scale · (integer - OFFSET) + minimum`, where the scale and the
//! minimum belong to a group of elements and the integers come 32 at a time, in order.
//!
//! How the bytes of a block are laid out is told beside [`lanthorn_blocks::Encoding::unpack`].

use crate::simd::{MAX_LANES, Simd};

/// Elements of a row that are taken at a time, so that their scales have a place on the stack.
pub(super) const STRETCH: usize = 2048;

/// Groups of a stretch at most.
pub(super) const GROUPS: usize = STRETCH / 16;

/// The scales and the minima of the groups of a stretch. Behind those that are there stands anything.
pub(super) struct Scales {
    pub scale: [f32; GROUPS],
    pub minimum: [f32; GROUPS],
}

impl Scales {
    pub(super) fn new() -> Scales {
        Scales { scale: [0.0; GROUPS], minimum: [0.0; GROUPS] }
    }
}

/// A packed encoding.
pub(super) trait Format {
    /// Elements of a block.
    const BLOCK: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Elements that share a scale, 16 or 32.
    const GROUP: usize = 32;
    /// Whether the bytes of [`Format::integers`] have a sign.
    const SIGNED: bool = false;
    /// What is taken off the integers.
    const OFFSET: f32 = 0.0;
    /// Whether there are minima.
    const HAS_MINIMUM: bool = false;

    /// The scales and, if there are any, the minima of consecutive blocks, which are no more than a stretch.
    ///
    /// # Safety
    /// `count` blocks are readable.
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales);

    /// Integers `32 · part ..` of a block.
    ///
    /// # Safety
    /// The block is readable and has that part.
    unsafe fn integers<S: Simd>(block: *const u8, part: usize) -> S::B;
}

/// Evaluates an expression with `$format` standing for the type of a packed encoding; `$otherwise` for any other.
macro_rules! with_format {
    ($encoding:expr, $format:ident => $body:expr, $otherwise:expr) => {{
        use lanthorn_blocks::Encoding;
        macro_rules! with {
            ($ty:ident) => {{
                type $format = $crate::quantized::formats::$ty;
                $body
            }};
        }
        match $encoding {
            Encoding::Q4_0 => with!(Q4_0),
            Encoding::Q4_1 => with!(Q4_1),
            Encoding::Q5_0 => with!(Q5_0),
            Encoding::Q5_1 => with!(Q5_1),
            Encoding::Q8_0 => with!(Q8_0),
            Encoding::Q2K => with!(Q2K),
            Encoding::Q3K => with!(Q3K),
            Encoding::Q4K => with!(Q4K),
            Encoding::Q5K => with!(Q5K),
            Encoding::Q6K => with!(Q6K),
            _ => $otherwise,
        }
    }};
}
pub(super) use with_format;

/// Reads the numbers in half precision at `at` of `count` blocks of `size` bytes, and writes whole vectors.
///
/// # Safety
/// The blocks are readable; they are no more than [`GROUPS`].
#[inline(always)]
unsafe fn halves<S: Simd>(blocks: *const u8, size: usize, at: usize, count: usize, to: &mut [f32; GROUPS]) {
    let mut bits = [0u16; GROUPS];
    // SAFETY: the caller's promise; the arrays hold whole vectors.
    unsafe {
        for (i, bits) in bits.iter_mut().enumerate().take(count) {
            *bits = u16_at(blocks.add(i * size + at));
        }
        for first in (0..count).step_by(S::LANES) {
            S::store(to.as_mut_ptr().add(first), S::load_f16(bits.as_ptr().add(first).cast()));
        }
    }
}

const _: () = assert!(GROUPS.is_multiple_of(MAX_LANES));

/// # Safety
/// Two bytes are readable.
#[inline(always)]
unsafe fn u16_at(bytes: *const u8) -> u16 {
    // SAFETY: the caller's promise.
    u16::from_le(unsafe { bytes.cast::<u16>().read_unaligned() })
}

/// # Safety
/// Four bytes are readable.
#[inline(always)]
unsafe fn u32_at(bytes: *const u8) -> u32 {
    // SAFETY: the caller's promise.
    u32::from_le(unsafe { bytes.cast::<u32>().read_unaligned() })
}

/// Four bytes of which each has its lower bits `mask`.
#[inline(always)]
const fn four(mask: u8) -> u32 {
    u32::from_le_bytes([mask; 4])
}

/// Integers of words, the lowest byte first.
#[inline(always)]
fn bytes_of<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (words[at / 4] >> (at % 4 * 8)) as u8;
    }
    bytes
}

pub(super) struct Q4_0;

impl Format for Q4_0 {
    const BLOCK: usize = 32;
    const BYTES: usize = 18;
    const OFFSET: f32 = 8.0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<S>(blocks, Self::BYTES, 0, count, &mut scales.scale) }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::load_nibbles(block.add(2)) }
    }
}

pub(super) struct Q4_1;

impl Format for Q4_1 {
    const BLOCK: usize = 32;
    const BYTES: usize = 20;
    const HAS_MINIMUM: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe {
            halves::<S>(blocks, Self::BYTES, 0, count, &mut scales.scale);
            halves::<S>(blocks, Self::BYTES, 2, count, &mut scales.minimum);
        }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::load_nibbles(block.add(4)) }
    }
}

pub(super) struct Q5_0;

impl Format for Q5_0 {
    const BLOCK: usize = 32;
    const BYTES: usize = 22;
    const OFFSET: f32 = 16.0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<S>(blocks, Self::BYTES, 0, count, &mut scales.scale) }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::or_bytes(S::load_nibbles(block.add(6)), S::spread_bits(u32_at(block.add(2)), 16)) }
    }
}

pub(super) struct Q5_1;

impl Format for Q5_1 {
    const BLOCK: usize = 32;
    const BYTES: usize = 24;
    const HAS_MINIMUM: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe {
            halves::<S>(blocks, Self::BYTES, 0, count, &mut scales.scale);
            halves::<S>(blocks, Self::BYTES, 2, count, &mut scales.minimum);
        }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::or_bytes(S::load_nibbles(block.add(8)), S::spread_bits(u32_at(block.add(4)), 16)) }
    }
}

pub(super) struct Q8_0;

impl Format for Q8_0 {
    const BLOCK: usize = 32;
    const BYTES: usize = 34;
    const SIGNED: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { halves::<S>(blocks, Self::BYTES, 0, count, &mut scales.scale) }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::load_bytes(block.add(2)) }
    }
}

pub(super) struct Q2K;

impl Format for Q2K {
    const BLOCK: usize = 256;
    const BYTES: usize = 84;
    const GROUP: usize = 16;
    const HAS_MINIMUM: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        let (mut d, mut m) = ([0.0; GROUPS], [0.0; GROUPS]);
        // SAFETY: the caller's promise.
        unsafe {
            halves::<S>(blocks, Self::BYTES, 80, count, &mut d);
            halves::<S>(blocks, Self::BYTES, 82, count, &mut m);
        }
        let groups = scales.scale.as_chunks_mut::<16>().0.iter_mut();
        let groups = groups.zip(scales.minimum.as_chunks_mut::<16>().0);
        for (at, (scale, minimum)) in groups.enumerate().take(count) {
            // SAFETY: a block begins with 16 bytes of scales.
            let packed = unsafe { blocks.add(at * Self::BYTES).cast::<[u8; 16]>().read() };
            for (group, byte) in packed.iter().enumerate() {
                scale[group] = d[at] * f32::from(byte & 15);
                minimum[group] = -(m[at] * f32::from(byte >> 4));
            }
        }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, part: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::bits(S::load_bytes(block.add(16 + part / 4 * 32)), (part % 4 * 2) as i32, 3) }
    }
}

pub(super) struct Q3K;

impl Format for Q3K {
    const BLOCK: usize = 256;
    const BYTES: usize = 110;
    const GROUP: usize = 16;
    const OFFSET: f32 = 4.0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        let mut d = [0.0; GROUPS];
        // SAFETY: the caller's promise.
        unsafe { halves::<S>(blocks, Self::BYTES, 108, count, &mut d) };
        for (at, scale) in scales.scale.as_chunks_mut::<16>().0.iter_mut().enumerate().take(count) {
            // SAFETY: 12 bytes of scales lie there.
            let words = unsafe {
                let packed = blocks.add(at * Self::BYTES + 96);
                let (a, b, c) = (u32_at(packed), u32_at(packed.add(4)), u32_at(packed.add(8)));
                let (low, high) = (four(15), four(3));
                [
                    a & low | (c & high) << 4,
                    b & low | (c >> 2 & high) << 4,
                    a >> 4 & low | (c >> 4 & high) << 4,
                    b >> 4 & low | (c >> 6 & high) << 4,
                ]
            };
            for (scale, byte) in scale.iter_mut().zip(bytes_of::<4, 16>(words)) {
                *scale = d[at] * f32::from(byte as i8 - 32);
            }
        }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, part: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe {
            let low = S::bits(S::load_bytes(block.add(32 + part / 4 * 32)), (part % 4 * 2) as i32, 3);
            S::or_bytes(low, S::bits(S::load_bytes(block), part as i32 - 2, 4))
        }
    }
}

/// The scales and minima of `Q4_K` and `Q5_K`, which begin a block.
///
/// # Safety
/// As for [`Format::scales`].
#[inline(always)]
unsafe fn scales_of_six_bits<S: Simd>(blocks: *const u8, size: usize, count: usize, scales: &mut Scales) {
    let (mut d, mut m) = ([0.0; GROUPS], [0.0; GROUPS]);
    // SAFETY: the caller's promise.
    unsafe {
        halves::<S>(blocks, size, 0, count, &mut d);
        halves::<S>(blocks, size, 2, count, &mut m);
    }
    let groups = scales.scale.as_chunks_mut::<8>().0.iter_mut();
    let groups = groups.zip(scales.minimum.as_chunks_mut::<8>().0);
    for (at, (scale, minimum)) in groups.enumerate().take(count) {
        // SAFETY: 12 bytes of scales and minima lie there.
        let (a, b, c) = unsafe {
            let packed = blocks.add(at * size + 4);
            (u32_at(packed), u32_at(packed.add(4)), u32_at(packed.add(8)))
        };
        let of_scales = [a & four(63), c & four(15) | (a >> 6 & four(3)) << 4];
        let of_minima = [b & four(63), c >> 4 & four(15) | (b >> 6 & four(3)) << 4];
        for (scale, byte) in scale.iter_mut().zip(bytes_of::<2, 8>(of_scales)) {
            *scale = d[at] * f32::from(byte);
        }
        for (minimum, byte) in minimum.iter_mut().zip(bytes_of::<2, 8>(of_minima)) {
            *minimum = -(m[at] * f32::from(byte));
        }
    }
}

pub(super) struct Q4K;

impl Format for Q4K {
    const BLOCK: usize = 256;
    const BYTES: usize = 144;
    const HAS_MINIMUM: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { scales_of_six_bits::<S>(blocks, Self::BYTES, count, scales) }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, part: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::bits(S::load_bytes(block.add(16 + part / 2 * 32)), (part % 2 * 4) as i32, 15) }
    }
}

pub(super) struct Q5K;

impl Format for Q5K {
    const BLOCK: usize = 256;
    const BYTES: usize = 176;
    const HAS_MINIMUM: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        // SAFETY: the caller's promise.
        unsafe { scales_of_six_bits::<S>(blocks, Self::BYTES, count, scales) }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, part: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe {
            let low = S::bits(S::load_bytes(block.add(48 + part / 2 * 32)), (part % 2 * 4) as i32, 15);
            S::or_bytes(low, S::bits(S::load_bytes(block.add(16)), part as i32 - 4, 16))
        }
    }
}

pub(super) struct Q6K;

impl Format for Q6K {
    const BLOCK: usize = 256;
    const BYTES: usize = 210;
    const GROUP: usize = 16;
    const OFFSET: f32 = 32.0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scales: &mut Scales) {
        let mut d = [0.0; GROUPS];
        // SAFETY: the caller's promise.
        unsafe { halves::<S>(blocks, Self::BYTES, 208, count, &mut d) };
        for (at, scale) in scales.scale.as_chunks_mut::<16>().0.iter_mut().enumerate().take(count) {
            // SAFETY: 16 bytes of scales lie there.
            let packed = unsafe { blocks.add(at * Self::BYTES + 192).cast::<[i8; 16]>().read() };
            for (scale, byte) in scale.iter_mut().zip(packed) {
                *scale = d[at] * f32::from(byte);
            }
        }
    }

    #[inline(always)]
    unsafe fn integers<S: Simd>(block: *const u8, part: usize) -> S::B {
        let (half, of_half) = (part / 4, part % 4);
        // SAFETY: the caller's promise.
        unsafe {
            let low = S::load_bytes(block.add(half * 64 + of_half % 2 * 32));
            let high = S::load_bytes(block.add(128 + half * 32));
            let low = S::bits(low, (of_half / 2 * 4) as i32, 15);
            S::or_bytes(low, S::bits(high, of_half as i32 * 2 - 4, 48))
        }
    }
}
