//! Forwards over weights that are packed in blocks.

use lanthorn_io::gguf::Encoding;
use lanthorn_ir::philox::Philox;
use lanthorn_ir::{Builder, DType, Lazy, Result, ops};
use lanthorn_llm::{DecodeRequest, Pool};
use lanthorn_runtime::{Eager, EagerTensor};

use crate::models::*;

/// Bytes of a block of Q8_0, a factor in f16 and 32 numbers; a row is one block.
const BLOCK: usize = 34;

fn blocks(device: &lanthorn_runtime::Device, stream: u64) -> EagerTensor {
    let words = Philox::new(9, 0, stream);
    let byte = |i: u64| match i % BLOCK as u64 {
        0 => 0,
        // 2^-6.
        1 => 0x24,
        _ => words.below(i, 256) as u8,
    };
    let bytes: Vec<u8> = (0..(VOCAB * BLOCK) as u64).map(byte).collect();
    EagerTensor::from_slice(device, &[VOCAB, BLOCK], &bytes).unwrap()
}

/// A packed table of tokens, one layer of attention, a packed map to the logits.
fn forward<B: Builder>(
    b: &B,
    table: &B::Value,
    head: &B::Value,
    ids: &B::Value,
    positions: &B::Value,
) -> Result<B::Value> {
    let length = b.ty(ids).shape[1] as isize;
    let x = ops::dequantize(b, &ops::embedding(b, table, ids)?, Encoding::Q8_0)?;
    let heads = ops::reshape(b, &x, &[1, length, 2, 16])?;
    let turned =
        ops::rotary_embedding(b, &heads, Some(positions), 100.0, true, 1, None, None, 1.0, 4.0, 8192, false)?;
    let o = ops::attention(b, &turned, &turned, &heads, true, None, None)?;
    let x = ops::add(b, &x, &ops::reshape(b, &o, &[1, length, 32])?)?;
    ops::quantized_linear(b, &x, head, Encoding::Q8_0)
}

#[test]
fn packed_tables_and_weights_decode_as_the_whole_forward() {
    let device = device();
    let weights = [blocks(&device, 1), blocks(&device, 2)];
    let bindings: Vec<&EagerTensor> = weights.iter().collect();
    let tokens = text(13, 5);
    let ids: Vec<i64> = tokens.iter().map(|&token| token.into()).collect();
    let ids = EagerTensor::from_slice(&device, &[1, 13], &ids).unwrap();
    let positions = EagerTensor::from_slice(&device, &[13], &(0..13).collect::<Vec<i32>>()).unwrap();
    let expected = forward(&Eager::new(&device), &weights[0], &weights[1], &ids, &positions).unwrap();
    let expected: Vec<f32> = expected.to_vec().unwrap();

    for last_token_row in [true, false] {
        let trace = |length: usize| {
            let [table, head] = [0, 1].map(|_| leaf(DType::U8, &[VOCAB, BLOCK]));
            let (tokens, positions) = (leaf(DType::I64, &[1, length]), leaf(DType::I32, &[length]));
            let roots = vec![forward(&Lazy, &table, &head, &tokens, &positions).unwrap()];
            Trace { roots, tokens, positions: vec![positions], bindings: vec![table, head] }
        };
        let request = DecodeRequest { last_token_row, ..request(4, 1) };
        let prefill = trace(5).program(&device, &request).unwrap();
        let step = trace(1).program(&device, &request).unwrap();
        let pool = Pool::new(&device, step.pool().clone()).unwrap();
        let sequence = pool.sequence();
        let mut at = 0;
        for (program, count) in [(&prefill, 5), (&prefill, 3), (&step, 1), (&step, 1), (&prefill, 3)] {
            let piece = &tokens[at..at + count];
            let found = program.call(&pool, &bindings, &[&sequence], &[piece], &never()).unwrap();
            at += count;
            let row = if last_token_row { 0 } else { count - 1 };
            let logits: Vec<f32> = found[0].to_vec().unwrap();
            let off = distance(&logits[row * VOCAB..][..VOCAB], &expected[(at - 1) * VOCAB..][..VOCAB]);
            assert!(off < 1e-4, "after {at} tokens: {off}");
        }
    }
}
