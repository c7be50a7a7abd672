//! Decode programs, held against the uncached forward.

use lanthorn_graph::decode::Invocation;
use lanthorn_graph::{Graph, Handle, Outcome};
use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{DType, ErrorKind, Result, TensorType};
use lanthorn_runtime::CancelToken;

use super::support::{Face, close, f32_of, handles, ints};

const VOCAB: usize = 11;
const WIDTH: usize = 8;
const HEADS: usize = 2;
const CONTEXT: usize = 16;

/// Slots: token and position embeddings, query, key and value weights, the head, then the tokens.
const SHAPES: [[usize; 2]; 6] =
    [[VOCAB, WIDTH], [CONTEXT, WIDTH], [WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, WIDTH], [WIDTH, VOCAB]];
const TOKENS: usize = SHAPES.len();

/// A forward of one sequence of `length` tokens, to logits `[1, length, vocab]`.
fn forward(face: &mut Face, length: usize) -> Handle {
    let weights: Vec<Handle> =
        SHAPES.iter().enumerate().map(|(slot, shape)| face.input(slot, shape)).collect();
    let tokens = face.graph.input(TOKENS, TensorType::new(DType::I64, [1, length])).unwrap();
    let positions = face.graph.positions(length).unwrap();
    let embedded = face.op("embedding", &[weights[0], tokens], &[]);
    let placed = face.op("embedding", &[weights[1], positions], &[]);
    let x = face.op("add", &[embedded, placed], &[]);
    let heads = |face: &mut Face, weight| {
        let projected = face.op("matmul", &[x, weight], &[]);
        let sizes = [1, length as i64, HEADS as i64, (WIDTH / HEADS) as i64];
        let split = face.op("reshape", &[projected], &ints(&sizes));
        face.op("permute", &[split], &ints(&[0, 2, 1, 3]))
    };
    let [q, k, v] = [2, 3, 4].map(|slot| heads(face, weights[slot]));
    let seen = face.op("scaled_dot_product_attention", &[q, k, v], &[Attribute::Bool(true)]);
    let joined = face.op("permute", &[seen], &ints(&[0, 2, 1, 3]));
    let joined = face.op("reshape", &[joined], &ints(&[1, length as i64, WIDTH as i64]));
    let sum = face.op("add", &[x, joined], &[]);
    face.op("matmul", &[sum, weights[5]], &[])
}

fn weights(face: &mut Face) -> Vec<Handle> {
    let element = |at: usize| ((at * 7919 % 101) as f32 - 50.0) / 60.0;
    let tensor = |(slot, shape): (usize, &[usize; 2])| {
        let elements: Vec<f32> = (0..shape[0] * shape[1]).map(|at| element(at + 31 * slot)).collect();
        face.f32(shape, &elements)
    };
    SHAPES.iter().enumerate().map(tensor).collect()
}

fn request(batch: usize, last: bool) -> String {
    format!(
        r#"{{"maxTokens":64,"blockSize":4,"kvDtype":"f32","batch":{batch},"lastTokenRow":{last},"tokenSlot":{TOKENS}}}"#
    )
}

fn pool(face: &mut Face) -> Handle {
    let geometry = format!(
        r#"{{"layers":1,"kvHeads":{HEADS},"headDim":{},"maxTokens":64,"blockSize":4,"dtype":"f32","kdaLayers":0}}"#,
        WIDTH / HEADS
    );
    face.graph.pool(&geometry).unwrap()
}

/// Logits of all tokens by the uncached forward.
fn uncached(face: &mut Face, weights: &[Handle], tokens: &[u32]) -> Vec<Vec<f64>> {
    let root = forward(face, tokens.len());
    let executable = face.compile(&[root]);
    let bytes: Vec<u8> = tokens.iter().flat_map(|&token| i64::from(token).to_ne_bytes()).collect();
    let ids = face.graph.create(&TensorType::new(DType::I64, [1, tokens.len()]), &bytes).unwrap();
    let bindings: Vec<Handle> = weights.iter().copied().chain([ids]).collect();
    face.execute(executable, &bindings, &[])[0].chunks(VOCAB).map(<[f64]>::to_vec).collect()
}

fn call(
    face: &mut Face,
    program: Handle,
    weights: &[Handle],
    sequences: &[Handle],
    tokens: &[&[u32]],
    cancel: &CancelToken,
) -> Result<Outcome> {
    let bindings: Vec<Option<Handle>> = weights.iter().copied().map(Some).collect();
    let tokens = tokens.iter().map(|tokens| tokens.to_vec()).collect();
    let invocation = Invocation { bindings: &bindings, sequences, tokens, sampling: None };
    let mut job = face.graph.begin_decode(program, invocation)?;
    let output = job.run(cancel);
    face.graph.finish(job, output, cancel)
}

fn logits(face: &mut Face, outcome: Outcome) -> Vec<Vec<f64>> {
    let result = handles(outcome)[0];
    face.elements(result).chunks(VOCAB).map(<[f64]>::to_vec).collect()
}

#[test]
fn a_prompt_in_pieces_and_steps_agree_with_the_uncached_forward() {
    let mut face = Face::new();
    let weights = weights(&mut face);
    let prompt = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
    let expected = uncached(&mut face, &weights, &prompt);
    let [prefill, step] = [(4, 1), (1, 2)].map(|(length, batch)| {
        let root = forward(&mut face, length);
        face.graph.compile_decode(&[root], &request(batch, false)).unwrap()
    });
    let pool = pool(&mut face);
    let [first, second] = [(); 2].map(|()| face.graph.sequence(pool).unwrap());
    let never = CancelToken::never();
    for (at, piece) in prompt[..6].chunks(4).enumerate() {
        let outcome = call(&mut face, prefill, &weights, &[first], &[piece], &never).unwrap();
        for (row, expected) in logits(&mut face, outcome).iter().zip(&expected[4 * at..4 * at + piece.len()])
        {
            close(row, expected);
        }
    }
    assert_eq!(face.graph.cursor(first).unwrap(), 6);
    // The second begins while the first goes on; both are read in one call.
    assert_eq!(face.graph.prefill_match(second, &prompt).unwrap(), 4);
    for at in 6..10 {
        let tokens = [&prompt[at..at + 1], &prompt[at - 2..at - 1]];
        let outcome = call(&mut face, step, &weights, &[first, second], &tokens, &never).unwrap();
        let rows = logits(&mut face, outcome);
        close(&rows[0], &expected[at]);
        close(&rows[1], &expected[at - 2]);
    }
    assert_eq!([first, second].map(|sequence| face.graph.cursor(sequence).unwrap()), [10, 8]);
}

#[test]
fn a_cancelled_or_refused_call_changes_no_sequence() {
    let mut face = Face::new();
    let weights = weights(&mut face);
    let root = forward(&mut face, 4);
    let program = face.graph.compile_decode(&[root], &request(1, true)).unwrap();
    let pool = pool(&mut face);
    let sequence = face.graph.sequence(pool).unwrap();
    let cancel = CancelToken::new();
    cancel.cancel();
    let error = call(&mut face, program, &weights, &[sequence], &[&[1, 2]], &cancel).unwrap_err();
    assert_eq!((error.kind, face.graph.cursor(sequence).unwrap()), (ErrorKind::Cancelled, 0));
    let never = CancelToken::never();
    let refused: [(&[u32], &str); 3] =
        [(&[1, 2, 3, 4, 5], "5 tokens"), (&[], "0 tokens"), (&[VOCAB as u32], "out of range")];
    for (tokens, message) in refused {
        let error = call(&mut face, program, &weights, &[sequence], &[tokens], &never).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert_eq!(face.graph.cursor(sequence).unwrap(), 0);
    }
    let error = call(&mut face, program, &weights[1..], &[sequence], &[&[1]], &never).unwrap_err();
    assert!(error.message.contains("binding 5 is missing"), "{error}");
    assert!(call(&mut face, program, &weights, &[], &[], &never).is_err());
    assert!(
        call(&mut face, program, &weights, &[pool], &[&[1]], &never).unwrap_err().message.contains("a pool")
    );
    face.graph.release(sequence).unwrap();
    let error = call(&mut face, program, &weights, &[sequence], &[&[1]], &never).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidHandle);
}

#[test]
fn tokens_are_drawn_by_seed_and_counter() {
    let mut face = Face::new();
    let weights = weights(&mut face);
    let root = forward(&mut face, 4);
    let program = face.graph.compile_decode(&[root], &request(2, true)).unwrap();
    let pool = pool(&mut face);
    let expected = uncached(&mut face, &weights, &[7, 2, 8]);
    let greedy = r#"[{"temperature":0,"topK":0,"topP":1,"seed":0,"counter":0},{"temperature":1,"topK":1,"topP":1,"seed":5,"counter":9}]"#;
    let sequences = [(); 2].map(|()| face.graph.sequence(pool).unwrap());
    let bindings: Vec<Option<Handle>> = weights.iter().copied().map(Some).collect();
    let tokens = vec![vec![7, 2, 8]; 2];
    let invocation =
        Invocation { bindings: &bindings, sequences: &sequences, tokens, sampling: Some(greedy) };
    let job = face.graph.begin_decode(program, invocation);
    let Outcome::Tokens(drawn) = face.run(job).unwrap() else { panic!("tokens were asked for") };
    let best = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32;
    assert_eq!(drawn, [best(&expected[2]); 2]);
    // The same from logits that are there, of which the last row counts.
    let rows: Vec<f32> = expected.iter().flatten().map(|&x| x as f32).collect();
    let tensor = face.f32(&[3, VOCAB], &rows);
    assert_eq!(face.graph.sample(tensor, r#"{"temperature":0}"#).unwrap(), best(&expected[2]));
    assert_eq!(face.graph.sample(tensor, r#"{"temperature":-1}"#).unwrap_err().op, "sampling");
    assert_eq!(face.graph.sample(tensor, "{").unwrap_err().kind, ErrorKind::Format);
    let empty = face.f32(&[0], &[]);
    assert_eq!(face.graph.sample(empty, "{}").unwrap_err().kind, ErrorKind::Shape);
}

#[test]
fn what_is_no_forward_with_a_cache_is_refused() {
    let mut face = Face::new();
    let root = forward(&mut face, 4);
    let compile =
        |graph: &mut Graph, root, request: &str| graph.compile_decode(&[root], request).unwrap_err();
    let error = compile(&mut face.graph, root, &request(1, false).replace(&TOKENS.to_string(), "9"));
    assert!(error.message.contains("input 9, the tokens"), "{error}");
    let error = compile(&mut face.graph, root, "{}");
    assert_eq!(error.kind, ErrorKind::Format);
    let scale = face.graph.scalar_input(0, DType::F32).unwrap();
    let scaled = face.op("mul", &[root, scale], &[]);
    assert!(compile(&mut face.graph, scaled, &request(1, false)).message.contains("scalar 0"));
    let noise = face
        .graph
        .random(&f32_of(&[VOCAB]), lanthorn_session::random::Distribution::Uniform { low: 0.0, high: 1.0 });
    let noisy = face.op("add", &[root, noise.unwrap()], &[]);
    assert!(compile(&mut face.graph, noisy, &request(1, false)).message.contains("key of a draw"));
    for geometry in [
        "[]",
        r#"{"layers":1}"#,
        r#"{"layers":0,"kvHeads":1,"headDim":1,"maxTokens":8,"blockSize":4,"dtype":"f32"}"#,
        r#"{"layers":1,"kvHeads":1,"headDim":1,"maxTokens":8,"blockSize":4,"dtype":"i64"}"#,
        r#"{"layers":2,"kvHeads":1,"headDim":1,"maxTokens":8,"blockSize":4,"dtype":"f32","attention":[[1,2]]}"#,
        r#"{"layers":1,"kvHeads":1,"headDim":1,"maxTokens":8,"blockSize":4,"dtype":"f32","attention":[[1,0]]}"#,
        r#"{"layers":1,"kvHeads":1,"headDim":1,"maxTokens":8,"blockSize":4,"dtype":"f32","attention":[1]}"#,
    ] {
        assert!(face.graph.pool(geometry).is_err(), "{geometry}");
    }
    let whole = r#"{"layers":0,"kvHeads":0,"headDim":0,"maxTokens":8,"blockSize":4,"dtype":"f32","sequences":2,"kdaLayers":1,"kdaHeads":2,"kdaHeadDim":3,"kdaValueDim":4,"convLayers":2,"convChannels":5,"convKernel":3}"#;
    face.graph.pool(whole).unwrap();
    for (size, other, message) in [
        ("\"kdaHeads\":2,", "", "kda_heads is 0, expected 1 to"),
        ("\"kdaValueDim\":4", "\"kdaValueDim\":-4", "kdaValueDim is -4, expected a size"),
        ("\"convKernel\":3", "\"convKernel\":1", "conv_kernel is 1, expected 2 to"),
        ("\"sequences\":2", "\"sequences\":0", "sequences is 0, expected 1 to"),
        ("\"kdaLayers\":1", "\"kdaLayers\":4000000000", "kdaLayers is 4000000000, expected at most 65536"),
        ("\"convLayers\":2", "\"convLayers\":2,\"depth\":1", "depth is no size of a pool"),
        ("\"convLayers\":2", "\"convLayers\":\"2\"", "convLayers is \"2\", expected a size"),
    ] {
        let error = face.graph.pool(&whole.replace(size, other)).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// A forward of one sequence whose only layer is a delta rule of short convolutions.
fn recurrent(face: &mut Face, length: usize) -> Handle {
    let [table, taps, head] = [(0, [VOCAB, WIDTH]), (1, [WIDTH, 3]), (2, [WIDTH, VOCAB])]
        .map(|(slot, shape)| face.input(slot, &shape));
    let tokens = face.graph.input(3, TensorType::new(DType::I64, [1, length])).unwrap();
    let x = face.op("embedding", &[table, tokens], &[]);
    let near = face.several("short_conv1d", &[Some(x), Some(taps), None], &[])[0];
    let sizes = [1, length as i64, HEADS as i64, (WIDTH / HEADS) as i64];
    let heads = face.op("reshape", &[near], &ints(&sizes));
    let decay = face.op("abs", &[heads], &[]);
    let decay = face.op("neg", &[decay], &[]);
    let beta = face.op("mean", &[decay], &[Attribute::Ints([3].into()), Attribute::Bool(false)]);
    let beta = face.op("exp", &[beta], &[]);
    let operands = [Some(heads), Some(heads), Some(heads), Some(decay), Some(beta), None];
    let o = face.several("gated_delta_rule", &operands, &[])[0];
    let joined = face.op("reshape", &[o], &ints(&[1, length as i64, WIDTH as i64]));
    let sum = face.op("add", &[x, joined], &[]);
    face.op("matmul", &[sum, head], &[])
}

#[test]
fn recurrences_go_on_from_the_state_of_their_sequence() {
    let mut face = Face::new();
    let element = |at: usize| ((at * 7919 % 101) as f32 - 50.0) / 60.0;
    let weights: Vec<Handle> = [[VOCAB, WIDTH], [WIDTH, 3], [WIDTH, VOCAB]]
        .iter()
        .enumerate()
        .map(|(slot, shape)| {
            let elements: Vec<f32> = (0..shape[0] * shape[1]).map(|at| element(at + 31 * slot)).collect();
            face.f32(shape, &elements)
        })
        .collect();
    let text = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3];
    let root = recurrent(&mut face, text.len());
    let executable = face.compile(&[root]);
    let bytes: Vec<u8> = text.iter().flat_map(|&token| i64::from(token).to_ne_bytes()).collect();
    let ids = face.graph.create(&TensorType::new(DType::I64, [1, text.len()]), &bytes).unwrap();
    let bindings: Vec<Handle> = weights.iter().copied().chain([ids]).collect();
    let expected: Vec<Vec<f64>> =
        face.execute(executable, &bindings, &[])[0].chunks(VOCAB).map(<[f64]>::to_vec).collect();

    let request =
        |batch: usize| request(batch, false).replace(&format!(":{TOKENS}}}"), ":3,\"sequences\":2}");
    let [prefill, step] = [(4, 1), (1, 3)].map(|(length, batch)| {
        let root = recurrent(&mut face, length);
        face.graph.compile_decode(&[root], &request(batch)).unwrap()
    });
    let report = face.report(prefill);
    let state = &report["state"];
    let sizes =
        ["layers", "kdaLayers", "kdaHeads", "kdaHeadDim", "kdaValueDim"].map(|name| state[name].as_u64());
    assert_eq!(sizes, [0, 1, 2, 4, 4].map(Some));
    let sizes = ["convLayers", "convChannels", "convKernel", "sequences"].map(|name| state[name].as_u64());
    assert_eq!(sizes, [1, 8, 3, 2].map(Some));
    let slot = 4 * (2 * 4 * 4 + 2 * 8);
    assert_eq!(report["memory"]["stateBytes"], 2 * 2 * slot);
    assert_eq!(report["memory"]["transactionBytes"], slot);

    let geometry = r#"{"layers":0,"kvHeads":0,"headDim":0,"maxTokens":64,"blockSize":4,"dtype":"f32","sequences":2,"kdaLayers":1,"kdaHeads":2,"kdaHeadDim":4,"kdaValueDim":4,"convLayers":1,"convChannels":8,"convKernel":3}"#;
    let pool = face.graph.pool(geometry).unwrap();
    let [first, second, third] = [(); 3].map(|()| face.graph.sequence(pool).unwrap());
    let never = CancelToken::never();
    for (at, piece) in text[..6].chunks(4).enumerate() {
        let outcome = call(&mut face, prefill, &weights, &[first], &[piece], &never).unwrap();
        for (row, expected) in logits(&mut face, outcome).iter().zip(&expected[4 * at..4 * at + piece.len()])
        {
            close(row, expected);
        }
    }
    assert_eq!(face.graph.prefill_match(second, &text).unwrap(), 0);
    for at in 6..10 {
        let tokens = [&text[at - 6..at - 5], &text[at..at + 1]];
        let outcome = call(&mut face, step, &weights, &[second, first], &tokens, &never).unwrap();
        let rows = logits(&mut face, outcome);
        close(&rows[0], &expected[at - 6]);
        close(&rows[1], &expected[at]);
    }
    let error = call(&mut face, step, &weights, &[third], &[&[1]], &never).unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutOfMemory);
    face.graph.release(first).unwrap();
    let outcome = call(&mut face, step, &weights, &[third], &[&text[..1]], &never).unwrap();
    close(&logits(&mut face, outcome)[0], &expected[0]);
}

#[test]
fn a_report_says_of_what_the_cache_is() {
    let mut face = Face::new();
    let root = forward(&mut face, 4);
    let program = face.graph.compile_decode(&[root], &request(2, true)).unwrap();
    let report = face.report(program);
    let state = &report["state"];
    assert_eq!(
        (state["layers"].as_u64(), state["kvHeads"].as_u64(), state["headDim"].as_u64()),
        (Some(1), Some(2), Some(4))
    );
    assert_eq!(state["longest"], CONTEXT);
    assert_eq!(report["outputs"], serde_json::json!([{ "shape": [2, VOCAB], "dtype": "f32" }]));
    // Keys and values of 64 tokens.
    assert_eq!(report["memory"]["stateBytes"], 2 * 64 * WIDTH * 4);
    assert_eq!(report["memory"]["transactionBytes"], 2 * 2 * 4 * WIDTH * 4);
    let pool = pool(&mut face);
    assert!(face.graph.executable("execute", pool).is_err());
    assert!(face.graph.report(pool).unwrap_err().message.contains("that of a pool"));
}
