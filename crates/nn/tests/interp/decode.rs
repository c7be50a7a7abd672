use lanthorn_interp::{HostTensor as Reference, Interp};
use lanthorn_ir::DType;
use lanthorn_nn::{CachedModel, Decoded, Gpt, KeyValue, Mode, Model, Params};

use crate::support::{distance, ids, integer, shaken, tiny};

/// A cache full of NaN: whatever reads what was not written shows.
fn empty_cache(gpt: &Gpt, batch: usize) -> Vec<KeyValue<Reference>> {
    let unset = |ty: lanthorn_ir::TensorType| {
        Reference::from_f64(ty.dtype, &ty.shape, &vec![f64::NAN; ty.numel()]).unwrap()
    };
    let types = gpt.cache_types(batch, DType::F64);
    types.into_iter().map(|ty| KeyValue { key: unset(ty.clone()), value: unset(ty) }).collect()
}

fn columns(ids: &Reference, range: std::ops::Range<usize>) -> Reference {
    lanthorn_ir::ops::narrow(&Interp, ids, 1, range.start as isize, range.len()).unwrap()
}

#[test]
fn decoding_in_pieces_gives_the_rows_of_the_whole() {
    let gpt = Gpt::new(tiny()).unwrap();
    let params = shaken(&gpt, 4, DType::F64);
    let ids = ids(&[2, 6], 3, 11);
    let whole = gpt.forward(&Interp, &params, &Params::new(), &ids, &Mode::Eval).unwrap().0;
    let row = |at: isize| lanthorn_ir::ops::select(&Interp, &whole, 1, at).unwrap();
    for pieces in [vec![1, 1, 1, 1, 1, 1], vec![3, 1, 2], vec![6], vec![4, 1, 1]] {
        let mut cache = empty_cache(&gpt, 2);
        let mut position = 0;
        for length in pieces {
            let piece = columns(&ids, position..position + length);
            let (at, last) = (integer(position as i64), integer(length as i64 - 1));
            let Decoded { logits, cache: written } =
                gpt.decode(&Interp, &params, &piece, &at, &last, &cache).unwrap();
            cache = written;
            position += length;
            assert!(distance(&logits, &row(position as isize - 1)) < 1e-12, "after {position}");
        }
    }
}

#[test]
fn padding_behind_the_last_token_changes_nothing() {
    let gpt = Gpt::new(tiny()).unwrap();
    let params = shaken(&gpt, 4, DType::F64);
    let ids = ids(&[1, 6], 3, 11);
    let whole = gpt.forward(&Interp, &params, &Params::new(), &ids, &Mode::Eval).unwrap().0;
    let row = |at: isize| lanthorn_ir::ops::select(&Interp, &whole, 1, at).unwrap();
    // Three tokens in a piece of five, then one by one.
    let mut padded = columns(&ids, 0..3).to_i64();
    padded.extend([0, 0]);
    let padded = Reference::from_i64(DType::I32, &[1, 5], &padded).unwrap();
    let cache = empty_cache(&gpt, 1);
    let Decoded { logits, mut cache } =
        gpt.decode(&Interp, &params, &padded, &integer(0), &integer(2), &cache).unwrap();
    assert!(distance(&logits, &row(2)) < 1e-12);
    for at in 3..6 {
        let piece = columns(&ids, at..at + 1);
        let Decoded { logits, cache: written } =
            gpt.decode(&Interp, &params, &piece, &integer(at as i64), &integer(0), &cache).unwrap();
        cache = written;
        assert!(distance(&logits, &row(at as isize)) < 1e-12, "{at}");
    }
}

#[test]
fn a_cache_of_another_depth_is_refused() {
    let gpt = Gpt::new(tiny()).unwrap();
    let params = shaken(&gpt, 4, DType::F64);
    let cache = empty_cache(&gpt, 1);
    let error = gpt.decode(&Interp, &params, &ids(&[1, 1], 0, 9), &integer(0), &integer(0), &cache[..1]);
    assert_eq!(error.unwrap_err().to_string(), "gpt: the cache has 1 layers, expected 2");
}
