//! The packed encodings as vectors read them: an element is `scale · (integer - OFFSET) + minimum`, where the scale and the
//! minimum belong to a group of elements and the integers come 32 at a time, in order.
//!
//! How the bytes of a block are laid out is told beside [`lanthorn_blocks::Encoding::unpack`].

use crate::simd::{MAX_LANES, Simd};

/// Elements of a row that are taken at a time, so that their scales have a place on the stack.
pub(super) const STRETCH: usize = 2048;

/// Groups of a stretch at most.
pub(super) const GROUPS: usize = STRETCH / 16;

/// Stretches whose scales are read together at most.
pub(super) const TOGETHER: usize = 4;

/// Places for scales, or minima.
pub(super) type Places = [f32; TOGETHER * GROUPS];

/// Of the largest blocks, so many are in those stretches.
const LARGEST_BLOCKS: usize = TOGETHER * STRETCH / 256;

/// A packed encoding.
pub(super) trait Format: Sized {
    /// Elements of a block.
    const BLOCK: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Where the scale, or the scale of the scales, lies in a block.
    const SCALE: usize = 0;
    /// Whether there are minima. Their one, or the scale of them, follows the scale.
    const MINIMUM: bool = false;
    /// Elements that share a scale, 16 or 32.
    const GROUP: usize = 32;
    /// Whether the bytes of [`Format::integers`] have a sign.
    const SIGNED: bool = false;
    /// What is taken off the integers.
    const OFFSET: f32 = 0.0;

    /// The scales and, if there are any, the minima of the groups of consecutive blocks. Whole vectors are written.
    ///
    /// # Safety
    /// `count` blocks are readable, and there is room for their groups, rounded up to whole vectors.
    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scale: &mut [f32], minimum: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { halves::<S, Self>(blocks, count, scale, minimum) }
    }

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

/// The numbers in half precision of blocks: their scales and, if there are any, their minima. Whole vectors are written.
///
/// # Safety
/// `count` blocks are readable, and there is room for so many numbers, rounded up to whole vectors.
#[inline(always)]
unsafe fn halves<S: Simd, F: Format>(
    blocks: *const u8,
    count: usize,
    scale: &mut [f32],
    minimum: &mut [f32],
) {
    let (scale, minimum) = (scale.as_mut_ptr(), minimum.as_mut_ptr());
    // The scale and what follows it, or precedes it where the block ends with it, are read at once.
    let is_last = F::SCALE + 2 == F::BYTES;
    let at = if is_last { F::SCALE - 2 } else { F::SCALE };
    for from in (0..count).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe {
            let (words, from) = if count >= S::LANES {
                // The last vector may overlap with the one before.
                let from = from.min(count - S::LANES);
                (S::gather(blocks.add(from * F::BYTES + at), F::BYTES), from)
            } else {
                let mut words = [0; MAX_LANES];
                for (block, word) in words.iter_mut().enumerate().take(count) {
                    *word = u32_at(blocks.add(block * F::BYTES + at)) as i32;
                }
                (S::load_i(words.as_ptr()), 0)
            };
            let (low, high) = (S::and_i(words, S::splat_i(0xffff)), S::shr(words, 16));
            S::store(scale.add(from), S::from_half(if is_last { high } else { low }));
            if F::MINIMUM {
                S::store(minimum.add(from), S::from_half(high));
            }
        }
    }
}

const _: () = assert!(GROUPS.is_multiple_of(MAX_LANES) && LARGEST_BLOCKS.is_multiple_of(MAX_LANES));

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
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::load_nibbles(block.add(2)) }
    }
}

pub(super) struct Q4_1;

impl Format for Q4_1 {
    const BLOCK: usize = 32;
    const BYTES: usize = 20;
    const MINIMUM: bool = true;

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
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::or_bytes(S::load_nibbles(block.add(6)), S::spread_bits(u32_at(block.add(2)), 16)) }
    }
}

pub(super) struct Q5_1;

impl Format for Q5_1 {
    const BLOCK: usize = 32;
    const BYTES: usize = 24;
    const MINIMUM: bool = true;

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
    unsafe fn integers<S: Simd>(block: *const u8, _: usize) -> S::B {
        // SAFETY: the caller's promise.
        unsafe { S::load_bytes(block.add(2)) }
    }
}

pub(super) struct Q2K;

impl Format for Q2K {
    const BLOCK: usize = 256;
    const BYTES: usize = 84;
    const SCALE: usize = 80;
    const MINIMUM: bool = true;
    const GROUP: usize = 16;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scale: &mut [f32], minimum: &mut [f32]) {
        let (mut d, mut m) = ([0.0; LARGEST_BLOCKS], [0.0; LARGEST_BLOCKS]);
        // SAFETY: the caller's promise.
        unsafe { halves::<S, Self>(blocks, count, &mut d, &mut m) };
        let groups = scale.as_chunks_mut::<16>().0.iter_mut().zip(minimum.as_chunks_mut::<16>().0);
        for (block, (scale, minimum)) in groups.enumerate().take(count) {
            // SAFETY: a block begins with 16 bytes of scales.
            let packed = unsafe { blocks.add(block * Self::BYTES).cast::<[u8; 16]>().read() };
            for (group, byte) in packed.iter().enumerate() {
                scale[group] = d[block] * f32::from(byte & 15);
                minimum[group] = -(m[block] * f32::from(byte >> 4));
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
    const SCALE: usize = 108;
    const GROUP: usize = 16;
    const OFFSET: f32 = 4.0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scale: &mut [f32], _: &mut [f32]) {
        let mut d = [0.0; LARGEST_BLOCKS];
        // SAFETY: the caller's promise.
        unsafe { halves::<S, Self>(blocks, count, &mut d, &mut []) };
        for (block, scale) in scale.as_chunks_mut::<16>().0.iter_mut().enumerate().take(count) {
            // SAFETY: 12 bytes of scales lie there.
            let words = unsafe {
                let packed = blocks.add(block * Self::BYTES + 96);
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
                *scale = d[block] * f32::from(byte as i8 - 32);
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
unsafe fn scales_of_six_bits<S: Simd, F: Format>(
    blocks: *const u8,
    count: usize,
    scale: &mut [f32],
    minimum: &mut [f32],
) {
    let (mut d, mut m) = ([0.0; LARGEST_BLOCKS], [0.0; LARGEST_BLOCKS]);
    // SAFETY: the caller's promise.
    unsafe { halves::<S, F>(blocks, count, &mut d, &mut m) };
    let groups = scale.as_chunks_mut::<8>().0.iter_mut().zip(minimum.as_chunks_mut::<8>().0);
    for (block, (scale, minimum)) in groups.enumerate().take(count) {
        // SAFETY: 12 bytes of scales and minima lie there.
        let (a, b, c) = unsafe {
            let packed = blocks.add(block * F::BYTES + 4);
            (u32_at(packed), u32_at(packed.add(4)), u32_at(packed.add(8)))
        };
        let of_scales = [a & four(63), c & four(15) | (a >> 6 & four(3)) << 4];
        let of_minima = [b & four(63), c >> 4 & four(15) | (b >> 6 & four(3)) << 4];
        for (scale, byte) in scale.iter_mut().zip(bytes_of::<2, 8>(of_scales)) {
            *scale = d[block] * f32::from(byte);
        }
        for (minimum, byte) in minimum.iter_mut().zip(bytes_of::<2, 8>(of_minima)) {
            *minimum = -(m[block] * f32::from(byte));
        }
    }
}

pub(super) struct Q4K;

impl Format for Q4K {
    const BLOCK: usize = 256;
    const BYTES: usize = 144;
    const MINIMUM: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scale: &mut [f32], minimum: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { scales_of_six_bits::<S, Self>(blocks, count, scale, minimum) }
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
    const MINIMUM: bool = true;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scale: &mut [f32], minimum: &mut [f32]) {
        // SAFETY: the caller's promise.
        unsafe { scales_of_six_bits::<S, Self>(blocks, count, scale, minimum) }
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
    const SCALE: usize = 208;
    const GROUP: usize = 16;
    const OFFSET: f32 = 32.0;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, scale: &mut [f32], _: &mut [f32]) {
        let mut d = [0.0; LARGEST_BLOCKS];
        // SAFETY: the caller's promise.
        unsafe { halves::<S, Self>(blocks, count, &mut d, &mut []) };
        for (block, scale) in scale.as_chunks_mut::<16>().0.iter_mut().enumerate().take(count) {
            // SAFETY: 16 bytes of scales lie there.
            let packed = unsafe { blocks.add(block * Self::BYTES + 192).cast::<[i8; 16]>().read() };
            for (scale, byte) in scale.iter_mut().zip(packed) {
                *scale = d[block] * f32::from(byte);
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
