use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::{DType, Result, ops};
use lanthorn_nn::layers::Rotation;
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::{CachedModel, Gpt, KeyValueCache, Llama, LlamaConfig, Mode, Params};

use crate::support::{distance, ids, shaken, tiny};

/// The plainest cache: what there was, and the new behind it.
#[derive(Default)]
struct Whole(Vec<[Reference; 2]>);

impl KeyValueCache<Interp> for Whole {
    fn attend(
        &mut self,
        b: &Interp,
        layer: usize,
        q: &Reference,
        k: &Reference,
        v: &Reference,
    ) -> Result<Reference> {
        let longer = |old: Option<&Reference>, new: &Reference| match old {
            Some(old) => ops::concat(b, &[old.clone(), new.clone()], 1),
            None => Ok(new.clone()),
        };
        let old = self.0.get(layer);
        let both = [longer(old.map(|old| &old[0]), k)?, longer(old.map(|old| &old[1]), v)?];
        let attended = ops::attention(b, q, &both[0], &both[1], true, None, None)?;
        match self.0.get_mut(layer) {
            Some(place) => *place = both,
            None => self.0.push(both),
        }
        Ok(attended)
    }
}

fn columns(ids: &Reference, range: std::ops::Range<usize>) -> Reference {
    ops::narrow(&Interp, ids, 1, range.start as isize, range.len()).unwrap()
}

fn positions(batch: usize, range: std::ops::Range<usize>) -> Reference {
    let row = range.clone().map(|at| at as i64);
    let all: Vec<i64> = (0..batch).flat_map(|_| row.clone()).collect();
    Reference::from_i64(DType::I32, &[batch, range.len()], &all).unwrap()
}

fn llama() -> Llama {
    Llama::new(LlamaConfig {
        vocab: 11,
        context: 6,
        layers: 2,
        width: 8,
        inner: 12,
        heads: 4,
        kv_heads: 2,
        head_dim: 4,
        rotation: Rotation { theta: 100.0, scaling: None },
        head: Head::Tied,
        norm_eps: 1e-5,
        packed: Default::default(),
    })
    .unwrap()
}

/// Decoding in pieces gives the rows of the whole forward.
fn check(model: &impl CachedModel) {
    let params = shaken(model, 4, DType::F64);
    let ids = ids(&[2, 6], 3, 11);
    let whole = model.forward(&Interp, &params, &Params::new(), &ids, &Mode::Eval).unwrap().0;
    let row = |at: usize| ops::select(&Interp, &whole, 1, at as isize).unwrap();
    for pieces in [vec![1, 1, 1, 1, 1, 1], vec![3, 1, 2], vec![6], vec![4, 1, 1]] {
        let (mut cache, mut begin) = (Whole::default(), 0);
        for length in pieces {
            let end = begin + length;
            let (piece, at) = (columns(&ids, begin..end), positions(2, begin..end));
            // The first sequence's row before the last, where there is one.
            let rows = [length.saturating_sub(2), length - 1];
            let last = Reference::from_i64(DType::I32, &[2], &rows.map(|row| row as i64)).unwrap();
            let logits = model.decode(&Interp, &params, &piece, &at, &last, &mut cache).unwrap();
            for (sequence, within) in rows.into_iter().enumerate() {
                let of = |x: &Reference| ops::select(&Interp, x, 0, sequence as isize).unwrap();
                assert!(distance(&of(&logits), &of(&row(begin + within))) < 1e-12, "{begin} and {within}");
            }
            begin = end;
        }
        assert_eq!(cache.0.len(), model.cache_shapes().len());
        let shape = model.cache_shapes()[1];
        assert_eq!(cache.0[1][0].shape(), [2, 6, shape.heads, shape.head_dim]);
    }
}

#[test]
fn gpt_decodes_in_pieces() {
    check(&Gpt::new(tiny()).unwrap());
}

#[test]
fn llama_decodes_in_pieces() {
    check(&llama());
}

#[test]
fn sequences_of_a_batch_may_stand_at_positions_of_their_own() {
    let model = llama();
    let params = shaken(&model, 4, DType::F64);
    // Keys far away turn as the queries do, so that a sequence which begins later has the same logits.
    let piece = ids(&[1, 3], 5, 11);
    let both = ops::concat(&Interp, &[piece.clone(), piece], 0).unwrap();
    let at = Reference::from_i64(DType::I32, &[2, 3], &[0, 1, 2, 100, 101, 102]).unwrap();
    let last = Reference::from_i64(DType::I32, &[2], &[2, 2]).unwrap();
    let logits = model.decode(&Interp, &params, &both, &at, &last, &mut Whole::default()).unwrap();
    let of = |sequence| ops::select(&Interp, &logits, 0, sequence).unwrap();
    assert!(distance(&of(0), &of(1)) < 1e-12);
}
