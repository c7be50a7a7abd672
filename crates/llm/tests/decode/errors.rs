//! Graphs that cannot be cached, and calls that do not fit.

use lanthorn_ir::{DType, Lazy, Result, Value, ops};
use lanthorn_llm::{DecodeRequest, KvDtype, Pool, PoolOptions};
use lanthorn_runtime::{CancelToken, EagerTensor};

use crate::models::*;

/// A model of parameters and ids.
type Forward<'a> = &'a dyn Fn(&[Value], &Value) -> Result<Vec<Value>>;

/// Why the program of these roots is refused, traced for `length` tokens.
fn refused_at(length: usize, forward: impl FnOnce(&[Value], &Value, &Value) -> Result<Vec<Value>>) -> String {
    let trace = Trace::of(GPT, length, forward);
    trace.program(&device(), &request(4, 2)).unwrap_err().to_string()
}

fn refused(forward: impl FnOnce(&[Value], &Value, &Value) -> Result<Vec<Value>>) -> String {
    refused_at(6, forward)
}

fn assert_has(message: &str, part: &str) {
    assert!(message.contains(part), "{message}\n  does not say: {part}");
}

/// `x [1, length, width]` of the ids.
fn embedded(parameters: &[Value], ids: &Value) -> Value {
    ops::embedding(&Lazy, &parameters[0], ids).unwrap()
}

/// Attention of one head of `x` to itself, by torch's op.
fn attention(x: &Value, causal: bool, mask: Option<&Value>) -> Result<Value> {
    let x = ops::unsqueeze(&Lazy, x, 1)?;
    let o = ops::scaled_dot_product_attention(
        &Lazy, &x, &x, &x, causal, None, None, mask, 0.0, None, None, None, None, None, None, None, 0,
    )?;
    ops::squeeze(&Lazy, &o, &[1])
}

#[test]
fn graphs_without_causal_attention_are_refused() {
    for length in [1, 6] {
        let message = refused_at(length, |w, ids, _| Ok(vec![embedded(w, ids)]));
        assert_has(&message, "decode: there is no causal attention to cache");
        let message = refused_at(length, |w, ids, _| Ok(vec![attention(&embedded(w, ids), false, None)?]));
        assert_has(&message, "attention cannot be cached: it is not causal");
        let mask = leaf(DType::Bool, &[length, length]);
        let message =
            refused_at(length, |w, ids, _| Ok(vec![attention(&embedded(w, ids), true, Some(&mask))?]));
        assert_has(&message, "attention cannot be cached: it has a mask");
        let message = refused_at(length, |w, ids, _| {
            let x = ops::unsqueeze(&Lazy, &embedded(w, ids), 2)?;
            let past = leaf(DType::I32, &[]);
            Ok(vec![ops::attention(&Lazy, &x, &x, &x, true, None, Some(&past))?])
        });
        assert_has(&message, "it has a past, and so a cache of its own");
        let message = refused_at(length, |w, ids, _| {
            let x = ops::unsqueeze(&Lazy, &embedded(w, ids), 2)?;
            let memory = leaf(DType::F32, &x.ty().shape);
            Ok(vec![ops::attention(&Lazy, &x, &memory, &memory, true, None, None)?])
        });
        assert_has(&message, "does not come from the tokens");
        let message = refused_at(length, |w, ids, _| {
            let x = attention(&embedded(w, ids), true, None)?;
            Ok(vec![x, ops::square(&Lazy, &w[0])?])
        });
        assert_has(&message, "result 1 does not depend on the tokens");
    }
}

#[test]
fn what_else_brings_tokens_together_is_refused_by_name() {
    let attended = |w: &[Value], ids: &Value| attention(&embedded(w, ids), true, None).unwrap();
    let message = refused(|w, ids, _| Ok(vec![ops::mean(&Lazy, &attended(w, ids), &[1], true)?]));
    assert_has(&message, "decode: sum brings different tokens together");
    let message = refused(|w, ids, _| Ok(vec![ops::cumsum(&Lazy, &attended(w, ids), 1)?]));
    assert_has(&message, "brings different tokens together");
    let message = refused(|w, ids, _| {
        // Attention by hand.
        let x = attended(w, ids);
        let scores = ops::matmul(&Lazy, &x, &ops::transpose(&Lazy, &x, 1, 2)?)?;
        Ok(vec![ops::matmul(&Lazy, &ops::softmax(&Lazy, &scores, -1)?, &x)?])
    });
    assert_has(&message, "matmul brings different tokens together");
    let message = refused(|w, ids, _| {
        let x = attended(w, ids);
        Ok(vec![ops::add(&Lazy, &x, &ops::flip(&Lazy, &x, &[1])?)?])
    });
    assert_has(&message, "flip brings different tokens together");
    let message = refused(|w, ids, _| Ok(vec![ops::narrow(&Lazy, &attended(w, ids), 1, 5, 1)?]));
    assert_has(&message, "slice takes some of the tokens");
    let message = refused(|w, ids, _| {
        // State from token to token.
        let x = attended(w, ids);
        Ok(vec![ops::linear_scan(&Lazy, &x, &x, None, 1, false)?])
    });
    assert_has(&message, "over tokens cannot be cached");
}

#[test]
fn a_graph_of_one_token_is_held_against_the_same_of_two() {
    let attended = |w: &[Value], ids: &Value| attention(&embedded(w, ids), true, None).unwrap();
    let shows = "the graph was traced for one token, and for two this shows";
    let assert_refused = |part: &str, forward: Forward<'_>| {
        let message = refused_at(1, |w, ids, _| forward(w, ids));
        assert_has(&message, part);
        assert_has(&message, shows);
    };
    assert_refused("decode: sum brings different tokens together", &|w, ids| {
        Ok(vec![ops::mean(&Lazy, &attended(w, ids), &[1], true)?])
    });
    assert_refused("brings different tokens together", &|w, ids| {
        // Without the axis of the sequence, and of heads of one element each.
        let x = ops::reshape(&Lazy, &attended(w, ids), &[1, 24, 1])?;
        Ok(vec![ops::reshape(&Lazy, &ops::sum(&Lazy, &x, &[0], true)?, &[1, 1, 24])?])
    });
    assert_refused("matmul brings different tokens together", &|w, ids| {
        let x = attended(w, ids);
        let scores = ops::matmul(&Lazy, &x, &ops::transpose(&Lazy, &x, 1, 2)?)?;
        Ok(vec![ops::matmul(&Lazy, &ops::softmax(&Lazy, &scores, -1)?, &x)?])
    });
    assert_refused("softmax brings different tokens together", &|w, ids| {
        Ok(vec![ops::softmax(&Lazy, &attended(w, ids), 1)?])
    });

    // Heads that were laid beside each other in the wrong order are the wrong elements for two.
    let message = refused_at(1, |w, ids, _| {
        let heads = ops::reshape(&Lazy, &attended(w, ids), &[1, 1, 4, 6])?;
        let turned = ops::transpose(&Lazy, &heads, 1, 2)?;
        let joined = ops::reshape(&Lazy, &turned, &[1, 1, 24])?;
        Ok(vec![ops::matmul(&Lazy, &joined, &leaf(DType::F32, &[24, 24]))?])
    });
    assert_has(&message, "decode: the graph was traced for one token and is none for two");
    assert_has(&message, "trace it for two or more, a call may have fewer");
}

#[test]
fn a_graph_of_one_token_may_have_axes_of_one_element() {
    let trace = Trace::of(GPT, 1, |w, ids, _| {
        let x = attention(&embedded(w, ids), true, None)?;
        // Rows without the sequence, a sum over one head, a bias for all tokens, heads turned and turned back.
        let rows = ops::reshape(&Lazy, &x, &[1, 24])?;
        let heads = ops::reshape(&Lazy, &ops::unsqueeze(&Lazy, &rows, 0)?, &[1, 1, 1, 24])?;
        let rows = ops::squeeze(&Lazy, &ops::sum(&Lazy, &heads, &[2], false)?, &[0])?;
        let rows = ops::add(&Lazy, &rows, &ops::narrow(&Lazy, &w[1], 0, 3, 1)?)?;
        let turned = ops::transpose(&Lazy, &ops::reshape(&Lazy, &rows, &[1, 1, 4, 6])?, 1, 2)?;
        let back = ops::reshape(&Lazy, &ops::transpose(&Lazy, &turned, 1, 2)?, &[1, 1, 24])?;
        let flat = ops::reshape(&Lazy, &back, &[24])?;
        Ok(vec![ops::reshape(&Lazy, &ops::tanh(&Lazy, &flat)?, &[1, 1, 24])?])
    });
    trace.program(&device(), &request(4, 2)).unwrap();
}

#[test]
fn positions_that_were_fixed_by_the_trace_are_refused() {
    let message = refused(|w, ids, _| {
        let places = ops::narrow(&Lazy, &w[1], 0, 0, 6)?;
        let x = ops::add(&Lazy, &embedded(w, ids), &places)?;
        Ok(vec![attention(&x, true, None)?])
    });
    assert_has(&message, "add takes an operand f32[1, 6, 24] that differs from token to token");
    for length in [1, 6] {
        let message = refused_at(length, |w, ids, _| {
            let x = embedded(w, ids);
            let x =
                ops::rotary_embedding(&Lazy, &x, None, 1000.0, false, 1, None, None, 1.0, 4.0, 8192, false)?;
            Ok(vec![attention(&x, true, None)?])
        });
        assert_has(&message, "rotary_embedding has positions that were fixed when the graph was traced");
    }
}

#[test]
fn a_table_of_positions_bounds_its_sequences() {
    let device = device();
    let engine = Engine::new(&device, GPT, 8, &DecodeRequest { window: Some(12), ..request(4, 1) });
    assert_eq!((engine.step.longest(), engine.prefill.longest()), (Some(CONTEXT), Some(CONTEXT)));
    let sequence = engine.pool.sequence();
    engine.read(&sequence, &text(CONTEXT - 2, 1)).unwrap();
    let before = engine.pool.stats();
    let error = engine.read(&sequence, &[1, 2, 3]).unwrap_err().to_string();
    let message = "sequence 0 has 46 tokens and 3 more come, but the model's table of positions ends at 48";
    assert_has(&error, message);
    assert_eq!((sequence.length().unwrap(), engine.pool.stats()), (46, before));
    // The padding of a piece stays inside the table.
    engine.read(&sequence, &[1, 2]).unwrap();
    assert!(engine.step(&[(&sequence, 1)]).is_err());
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let device = device();
    let engine = Engine::new(&device, GPT, 8, &request(4, 2));
    let (a, b, c) = (engine.pool.sequence(), engine.pool.sequence(), engine.pool.sequence());
    let bindings = engine.bindings();
    let never = CancelToken::never();
    let call = |pool: &Pool, bindings: &[&EagerTensor], sequences: &[_], tokens: &[&[u32]]| {
        engine.step.call(pool, bindings, sequences, tokens, &never).unwrap_err().to_string()
    };
    let one: &[u32] = &[1];
    assert_has(&call(&engine.pool, &bindings, &[], &[]), "decode: 0 sequences, expected 1 to 2");
    assert_has(&call(&engine.pool, &bindings, &[&a, &b, &c], &[one; 3]), "3 sequences, expected 1 to 2");
    assert_has(&call(&engine.pool, &bindings, &[&a], &[one; 2]), "2 lists of tokens for 1 sequences");
    assert_has(&call(&engine.pool, &bindings, &[&a], &[&[]]), "list 0 has 0 tokens, expected 1 to 1");
    assert_has(&call(&engine.pool, &bindings, &[&a, &b], &[one, &[1, 2]]), "list 1 has 2 tokens");
    assert_has(&call(&engine.pool, &bindings, &[&a, &a], &[one; 2]), "sequence 0 is named twice in one call");
    assert_has(&call(&engine.pool, &bindings[1..], &[&a], &[one]), "28 bindings, expected 29");
    let mut wrong = bindings.clone();
    wrong.swap(0, 2);
    assert_has(&call(&engine.pool, &wrong, &[&a], &[one]), "binding 0 is f32[24], expected f32[40, 24]");
    b.release().unwrap();
    assert_has(&call(&engine.pool, &bindings, &[&b], &[one]), "sequence 1 has been released");
    assert_has(&b.release().unwrap_err().to_string(), "sequence 1 has been released");
    assert_has(&b.length().unwrap_err().to_string(), "sequence 1 has been released");

    let other = Pool::new(&device, engine.pool.options().clone()).unwrap();
    assert_has(&call(&other, &bindings, &[&a], &[one]), "sequence 0 belongs to another pool");
    let options = PoolOptions::uniform(2, 4, 6, 160, 8, KvDtype::F32);
    let other = Pool::new(&device, options).unwrap();
    let message = "block_size of the pool is 8, expected 4: the pool has 2 layers of 4 heads of 6 in f32, 20 blocks of 8 tokens, but the program takes one of 2 layers of 4 heads of 6 in f32, 40 blocks of 4 tokens";
    assert_has(&call(&other, &bindings, &[&a], &[one]), message);

    engine.read(&a, &text(6, 1)).unwrap();
    assert_has(&a.share(&text(9, 1)).unwrap_err().to_string(), "sequence 0 has 6 tokens already");
    assert_eq!((a.length().unwrap(), c.length().unwrap()), (6, 0));
}

#[test]
fn what_one_window_has_dropped_another_does_not_show() {
    let device = device();
    let engine = Engine::new(&device, LLAMA, 8, &DecodeRequest { window: Some(5), ..request(4, 1) });
    let wide = Trace::model(LLAMA, 1).program(&device, &request(4, 1)).unwrap();
    let (long, short) = (engine.pool.sequence(), engine.pool.sequence());
    engine.read(&long, &text(14, 1)).unwrap();
    engine.read(&short, &text(3, 1)).unwrap();
    let call = |sequence| wide.call(&engine.pool, &engine.bindings(), &[sequence], &[&[1]], &never());
    assert_has(
        &call(&long).unwrap_err().to_string(),
        "sequence 0 has dropped tokens that this program's window shows",
    );
    call(&short).unwrap();
}

#[test]
fn requests_and_pools_that_make_no_cache_are_refused() {
    let device = device();
    let fault =
        |request: DecodeRequest| Trace::model(GPT, 2).program(&device, &request).unwrap_err().to_string();
    for (request, message) in [
        (DecodeRequest { max_tokens: 0, ..request(4, 1) }, "decode: max_tokens is 0, expected 1 to"),
        (request(0, 1), "block_size is 0"),
        (request(4, 0), "batch is 0"),
        (DecodeRequest { window: Some(0), ..request(4, 1) }, "window is 0"),
        (
            DecodeRequest { kv_dtype: KvDtype::F64, ..request(4, 1) },
            "a cache of f64 does not fit the model: q is f32",
        ),
    ] {
        assert_has(&fault(request), message);
    }
    let pool = |layers, heads| {
        let options = PoolOptions::uniform(layers, heads, 6, 100, 8, KvDtype::F32);
        Pool::new(&device, options).unwrap_err().to_string()
    };
    assert_has(&pool(0, 4), "pool: layers is 0, expected 1 to");
    assert_has(&pool(2, 0), "pool: kv_heads is 0, expected 1 to");

    let mut trace = Trace::model(GPT, 2);
    trace.bindings.push(trace.tokens.clone());
    assert_has(
        &trace.program(&device, &request(4, 1)).unwrap_err().to_string(),
        "binding 29 is no leaf of its own",
    );
    let mut trace = Trace::model(GPT, 2);
    trace.tokens = leaf(DType::I32, &[2, 2]);
    let message = "the tokens are i32[2, 2], expected a leaf [1, length] of an integer dtype";
    assert_has(&trace.program(&device, &request(4, 1)).unwrap_err().to_string(), message);
}
