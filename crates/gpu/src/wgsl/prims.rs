//! Primitives with shaders of their own: numbers in order and random ones.

use lanthorn_ir::prim::{Random, Source};
use lanthorn_ir::{DType, Error, Layout, Prim, Result};

use super::domain::Domain;
use super::functions::Function;
use super::writer::{Operands, Writer, refused};
use super::{GROUP, INVOCATIONS, Shader, entry};

/// The golden ratio in 64 bits, which separates streams.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

pub(crate) fn prim(operands: Operands<'_>, prim: &Prim) -> Result<Shader> {
    match prim {
        Prim::Source(Source::Iota { dtype, .. }) => iota(operands, *dtype),
        Prim::Random(random) => self::random(operands, random),
        other => Err(Error::unsupported(other.name(), "the gpu has no kernel for this primitive")),
    }
}

fn output_domain(operands: &Operands<'_>) -> Domain {
    let layouts: Vec<&Layout> = operands.outputs.iter().map(|operand| &operand.layout).collect();
    let shape = layouts.first().map(|layout| layout.shape.to_vec()).unwrap_or_default();
    let axes: Vec<usize> = (0..shape.len()).collect();
    Domain::new(&shape, &axes, &layouts)
}

fn iota(operands: Operands<'_>, dtype: DType) -> Result<Shader> {
    let domain = output_domain(&operands);
    let at = operands.inputs.len();
    let mut writer = Writer::new(operands)?;
    let places = writer.size("places", domain.count())?;
    writer.line(format!("let i = ({GROUP}) * {INVOCATIONS}u + local;"));
    writer.line(format!("if (i >= {places}) {{ return; }}"));
    let coordinates = writer.coordinates("i", "i", &domain.sizes)?;
    let address = writer.address(at, "", &coordinates, &domain.strides[0]);
    writer.line(format!("let to = {address};"));
    let value = match dtype {
        DType::F32 => "f32(i)",
        DType::I32 => "bitcast<i32>(i)",
        DType::U32 => "i",
        other => return Err(refused(other)),
    };
    writer.store(0, "to", value)?;
    writer.finish(&entry(&INVOCATIONS.to_string(), true), domain.count().div_ceil(INVOCATIONS))
}

/// Each invocation makes one Philox block, so four elements.
fn random(operands: Operands<'_>, random: &Random) -> Result<Shader> {
    let stream = random.stream();
    let domain = output_domain(&operands);
    let key_strides: Vec<isize> =
        operands.inputs.iter().flat_map(|key| key.layout.strides.to_vec()).collect();
    let mut writer = Writer::new(operands)?;
    let w = &mut writer;
    let places = w.size("places", domain.count())?;
    w.line(format!("let block = ({GROUP}) * {INVOCATIONS}u + local;"));
    w.line(format!("if (block * 4u >= {places}) {{ return; }}"));
    let offset = stream.wrapping_mul(GOLDEN);
    let (low, high) = (w.field("stream_low", offset as u32), w.field("stream_high", (offset >> 32) as u32));
    let seed = w.address(0, "", &["0u".to_string()], &key_strides);
    let draw = w.address(0, "", &["1u".to_string()], &key_strides);
    w.line(format!("let seed_low = {};", w.load_half(0, &seed, 0)));
    w.line(format!("let seed_high = {};", w.load_half(0, &seed, 1)));
    w.line(format!("let draw_low = {};", w.load_half(0, &draw, 0)));
    w.line(format!("let draw_high = {};", w.load_half(0, &draw, 1)));
    // A 64-bit sum: the low words carry when their sum is less than either.
    w.line(format!("let key_low = seed_low + {low};"));
    w.line(format!("let key_high = seed_high + {high} + select(0u, 1u, key_low < seed_low);"));
    let philox = w.call(Function::Philox);
    w.line(format!(
        "let words = {philox}(vec4<u32>(block, 0u, draw_low, draw_high), vec2<u32>(key_low, key_high));"
    ));
    w.line("let u = vec4<f32>(words >> vec4<u32>(8u)) * 5.9604644775390625e-8f;");
    match random {
        Random::Uniform { .. } => w.line("let values = u;"),
        Random::Bits { .. } => w.line("let values = words;"),
        Random::Normal { .. } => {
            let (log, sin, cos) = (w.call(Function::Log), w.call(Function::Sin), w.call(Function::Cos));
            w.line(format!("let r0 = sqrt(-2.0f * {log}(1.0f - u.x));"));
            w.line(format!("let r1 = sqrt(-2.0f * {log}(1.0f - u.z));"));
            w.line("let t0 = 6.2831855f * u.y;");
            w.line("let t1 = 6.2831855f * u.w;");
            w.line(format!(
                "let values = vec4<f32>(r0 * {cos}(t0), r0 * {sin}(t0), r1 * {cos}(t1), r1 * {sin}(t1));"
            ));
        }
    }
    for part in 0..4 {
        w.open("");
        w.line(format!("let i = block * 4u + {part}u;"));
        w.line(format!("if (i >= {places}) {{ return; }}"));
        let coordinates = w.coordinates("i", "i", &domain.sizes)?;
        let address = w.address(1, "", &coordinates, &domain.strides[0]);
        w.line(format!("let to = {address};"));
        w.store(0, "to", &format!("values[{part}]"))?;
        w.close();
    }
    writer.finish(&entry(&INVOCATIONS.to_string(), true), domain.count().div_ceil(4).div_ceil(INVOCATIONS))
}
