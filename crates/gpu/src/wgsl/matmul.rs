//! Matrix products with their epilogue: tiles of both factors in workgroup memory, sums in registers.
//!
//! A workgroup of 16 by 16 invocations makes a tile of the product, each invocation `MICRO` by `MICRO` elements of
//! it, 16 apart, so that neighbours read and write neighbours.

use lanthorn_compiler::kernel::Phase;
use lanthorn_ir::{DType, Error, Layout, Result};

use super::domain::Domain;
use super::map::{Place, phase};
use super::writer::{Operands, Writer, refused};
use super::{GROUP, Shader, entry};

/// Invocations along each side of a workgroup, and how much of the inner axis is in workgroup memory at a time.
const SIDE: usize = 16;
/// Elements of an invocation along each side where the product is large.
const MICRO: usize = 4;

pub(crate) fn matmul(operands: Operands<'_>, epilogue: &Phase) -> Result<Shader> {
    let [a, b, ..] = operands.inputs else {
        return Err(Error::shape("matmul", "a product has two factors"));
    };
    let rank = a.layout.rank();
    if rank < 2 || b.layout.rank() != rank {
        return Err(Error::shape("matmul", "factors have two axes or more, equally many"));
    }
    if let Some(other) = [a.dtype, b.dtype].into_iter().find(|&dtype| dtype != DType::F32) {
        return Err(refused(other));
    }
    let (m, k, n) = (a.layout.shape[rank - 2], a.layout.shape[rank - 1], b.layout.shape[rank - 1]);
    let layouts: Vec<&Layout> =
        operands.inputs.iter().chain(operands.outputs).map(|operand| &operand.layout).collect();
    let axes: Vec<usize> = (0..rank - 2).collect();
    let batch = Domain::new(&a.layout.shape, &axes, &layouts);
    let last = |at: usize| {
        let strides = &layouts[at].strides;
        [strides[rank - 2], strides[rank - 1]]
    };
    // Batch coordinates, then row and column.
    let whole = Domain {
        sizes: batch.sizes.iter().copied().chain([m, n]).collect(),
        strides: (0..layouts.len())
            .map(|at| batch.strides[at].iter().copied().chain(last(at)).collect())
            .collect(),
    };
    let micro = if m >= SIDE * MICRO / 2 && n >= SIDE * MICRO / 2 { MICRO } else { 1 };
    let tile = SIDE * micro;
    let (row_tiles, column_tiles) = (m.div_ceil(tile), n.div_ceil(tile));
    let tiles = batch.count() * row_tiles * column_tiles;

    let mut writer = Writer::new(operands)?;
    finish(&mut writer, epilogue, &whole)?;
    let w = &mut writer;
    let [rows, columns, inner] =
        [("rows", m), ("columns", n), ("inner", k)].map(|(name, size)| w.size(name, size));
    let (rows, columns, inner) = (rows?, columns?, inner?);
    let [row_tiles, column_tiles, count] =
        [("row_tiles", row_tiles), ("column_tiles", column_tiles), ("tiles", tiles)]
            .map(|(name, size)| w.size(name, size));
    let (row_tiles, column_tiles, count) = (row_tiles?, column_tiles?, count?);
    w.global(format!("var<workgroup> left: array<f32, {}>;", tile * SIDE));
    w.global(format!("var<workgroup> right: array<f32, {}>;", tile * SIDE));
    w.line(format!("let tile = {GROUP};"));
    w.line(format!("if (tile >= {count}) {{ return; }}"));
    w.line(format!("let row_tile = (tile / {column_tiles} % {row_tiles}) * {tile}u;"));
    w.line(format!("let column_tile = (tile % {column_tiles}) * {tile}u;"));
    w.line(format!("let batch = tile / {column_tiles} / {row_tiles};"));
    let coordinates = w.coordinates("batch", "batch", &batch.sizes)?;
    for (at, name) in [(0, "a"), (1, "b")] {
        let address = w.address(at, "batch", &coordinates, &batch.strides[at]);
        w.line(format!("let {name}_base = {address};"));
    }
    w.line(format!("let x = local % {SIDE}u;"));
    w.line(format!("let y = local / {SIDE}u;"));
    for i in 0..micro * micro {
        w.line(format!("var sum{i} = 0.0f;"));
    }
    w.open(format!("for (var start = 0u; start < {inner}; start += {SIDE}u)"));
    for i in 0..micro {
        // Outside of the factors there are zeros.
        load(
            w,
            0,
            "left",
            i,
            &format!("row_tile + y + {}u", i * SIDE),
            "start + x",
            (&rows, &inner),
            last(0),
        )?;
        load(
            w,
            1,
            "right",
            i,
            "start + y",
            &format!("column_tile + x + {}u", i * SIDE),
            (&inner, &columns),
            last(1),
        )?;
    }
    w.line("workgroupBarrier();");
    w.open(format!("for (var k = 0u; k < {SIDE}u; k++)"));
    for i in 0..micro {
        w.line(format!("let l{i} = left[{}u + y * {SIDE}u + k];", i * SIDE * SIDE));
        w.line(format!("let r{i} = right[{}u + k * {SIDE}u + x];", i * SIDE * SIDE));
    }
    for i in 0..micro {
        for j in 0..micro {
            let sum = i * micro + j;
            w.line(format!("sum{sum} = fma(l{i}, r{j}, sum{sum});"));
        }
    }
    w.close();
    w.line("workgroupBarrier();");
    w.close();
    for i in 0..micro {
        for j in 0..micro {
            w.line(format!(
                "finish(batch, row_tile + y + {}u, column_tile + x + {}u, sum{});",
                i * SIDE,
                j * SIDE,
                i * micro + j
            ));
        }
    }
    writer.finish(&entry(&(SIDE * SIDE).to_string(), true), tiles)
}

/// Brings one element of a factor into workgroup memory.
#[allow(clippy::too_many_arguments)]
fn load(
    w: &mut Writer<'_>,
    at: usize,
    tile: &str,
    block: usize,
    row: &str,
    column: &str,
    (rows, columns): (&str, &str),
    strides: [isize; 2],
) -> Result<()> {
    let base = if at == 0 { "a_base" } else { "b_base" };
    w.open("");
    w.line(format!("let row = {row};"));
    w.line(format!("let column = {column};"));
    w.line("var value = 0.0f;");
    w.open(format!("if (row < {rows} && column < {columns})"));
    let steps = w.steps(at, "matrix", &["row".to_string(), "column".to_string()], &strides);
    w.line(format!("let at = {base}{steps};"));
    let value = w.load(at, "at")?;
    w.line(format!("value = {value};"));
    w.close();
    w.line(format!("{tile}[{}u + y * {SIDE}u + x] = value;", block * SIDE * SIDE));
    w.close();
    Ok(())
}

/// The epilogue of one element, as a function: it stands in the text once, however many elements an invocation has.
fn finish(writer: &mut Writer<'_>, epilogue: &Phase, whole: &Domain) -> Result<()> {
    let start = writer.mark();
    let axes = whole.sizes.len();
    let rows = writer.size("rows", whole.sizes[axes - 2])?;
    let columns = writer.size("columns", whole.sizes[axes - 1])?;
    writer.line(format!("if (row >= {rows} || column >= {columns}) {{ return; }}"));
    let mut coordinates = writer.coordinates("batch", "batch", &whole.sizes[..axes - 2])?;
    coordinates.extend(["row".to_string(), "column".to_string()]);
    let place = Place { names: "e", coordinates: &coordinates, domain: whole };
    phase(writer, epilogue, &place, &["sum".to_string()], "out")?;
    let body = writer.cut(start);
    writer.global(format!("fn finish(batch: u32, row: u32, column: u32, sum: f32) {{\n{body}}}"));
    Ok(())
}
