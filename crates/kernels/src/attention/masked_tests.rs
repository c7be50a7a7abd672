//! Masked attention against the plain kernel, which goes row by row: over several tiles of keys and blocks of queries, with
//! rows that see nothing, on every instruction set.

use super::*;
use crate::plain::attention::{Attention, Mask};
use crate::rows::tests::{ScratchMemory, on_every_cpu, random_values};

const BATCH: usize = 2;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const WIDTH: usize = 24;

fn values(count: usize, seed: u64) -> Vec<f32> {
    random_values(count, 1.0, seed).into_iter().map(|x| x as f32).collect()
}

/// Compares the two for a mask of this shape, causal or not.
fn check(queries: usize, keys: usize, mask: Mask<'_, f32>, shape: [usize; 4], causal: bool) {
    let q = values(BATCH * queries * HEADS * WIDTH, 1);
    let (k, v) = (values(BATCH * keys * KEY_HEADS * WIDTH, 2), values(BATCH * keys * KEY_HEADS * WIDTH, 3));
    let plain = Attention {
        q: &q,
        k: &k,
        v: &v,
        mask: Some((mask, shape)),
        batch: BATCH,
        queries,
        keys,
        heads: HEADS,
        key_heads: KEY_HEADS,
        width: WIDTH,
        value_width: WIDTH,
        scale: 0.3,
        softcap: None,
        first: keys as i64 - queries as i64,
        valid: keys,
        left: None,
        right: causal.then_some(0),
    };
    let (mut right, mut right_lse) = (vec![0.0; q.len()], vec![0.0; BATCH * queries * HEADS]);
    let mut memory = vec![0.0; plain.scratch_len(false).max(plain.scratch_len(true))];
    plain.forward(&mut right, &mut right_lse, &mut memory, 1);
    let cotangent = values(q.len(), 4);
    let mut right_grads = [vec![0.0; q.len()], vec![0.0; k.len()], vec![0.0; k.len()]];
    let results = right_grads.each_mut().map(|grad| &mut grad[..]);
    plain.backward([&right, &cotangent], &right_lse, results, &mut memory, 1);

    let (q_len, k_len) = (q.len(), k.len());
    let (q_shape, k_shape) = ([BATCH, queries, HEADS, WIDTH], [BATCH, keys, KEY_HEADS, WIDTH]);
    let options = AttentionOptions { causal, scale: 0.3, past: None };
    on_every_cpu(|cpu| {
        let (mut o, mut lse) = (vec![0.0f32; q.len()], vec![0.0f32; right_lse.len()]);
        let bytes = attention_scratch_bytes::<f32>(q_shape, k_shape, true, cpu.threads);
        let mut scratch = ScratchMemory::new(bytes);
        let masked = Masked::new(mask, shape, [BATCH, HEADS, queries, keys]);
        let (q, k, v) = (Heads::new(&q, q_shape), Heads::new(&k, k_shape), Heads::new(&v, k_shape));
        let out = HeadsMut::new(&mut o, q_shape);
        attention(cpu, q, k, v, Some(masked), &options, out, &mut lse, scratch.get()).unwrap();
        let expect = |what: &str, found: &[f32], right: &[f32]| {
            for (found, right) in found.iter().zip(right) {
                let same = found == right || (found - right).abs() <= 2e-5 * right.abs().max(1.0);
                assert!(same, "{what}: {found} for {right}, mask {shape:?}, causal {causal}");
            }
        };
        expect("o", &o, &right);
        expect("lse", &lse, &right_lse);

        let mut grads = [vec![0.0; q_len], vec![0.0; k_len], vec![0.0; k_len]];
        let bytes = attention_grad_scratch_bytes::<f32>(q_shape, k_shape, cpu.threads);
        let mut scratch = ScratchMemory::new(bytes);
        let [dq, dk, dv] = grads.each_mut();
        let (dq, dk, dv) =
            (HeadsMut::new(dq, q_shape), HeadsMut::new(dk, k_shape), HeadsMut::new(dv, k_shape));
        let (o, d_o) = (Heads::new(&o, q_shape), Heads::new(&cotangent, q_shape));
        attention_grad(cpu, q, k, v, Some(masked), o, &lse, d_o, &options, dq, dk, dv, scratch.get())
            .unwrap();
        for (name, (found, right)) in ["dq", "dk", "dv"].into_iter().zip(grads.iter().zip(&right_grads)) {
            expect(name, found, right);
        }
    });
}

#[test]
fn masks_hide_keys_and_add_to_scores() {
    for (queries, keys) in [(70, 150), (1, 67), (33, 33)] {
        for causal in [false, true] {
            let bytes: Vec<u8> = (0..BATCH * HEADS * queries * keys)
                .map(|at| u8::from(at * 7919 % 13 > 4 && at / keys % 9 != 3))
                .collect();
            for shape in [
                [BATCH, 1, 1, keys],
                [1, HEADS, queries, keys],
                [BATCH, HEADS, queries, keys],
                [BATCH, 1, queries, 1],
            ] {
                let length = shape.iter().product();
                check(queries, keys, Mask::Visible(&bytes[..length]), shape, causal);
                let added: Vec<f32> = (values(length, 5).iter().zip(&bytes))
                    .map(|(x, &seen)| if seen == 0 { f32::NEG_INFINITY } else { *x })
                    .collect();
                check(queries, keys, Mask::Same(&added), shape, causal);
                check(queries, keys, Mask::Wide(&added), shape, causal);
            }
        }
    }
}
