//! Graphs as bytes: a round trip keeps them, and bytes from anywhere give a graph or one error.

use lanthorn_ir::graph::{MAX_NESTING, Subgraph, from_bytes, to_bytes, to_text};
use lanthorn_ir::prim::{Movement, Source};
use lanthorn_ir::transform::{checkpoint, grad};
use lanthorn_ir::{Builder, DType, ErrorKind, Lazy, Prim, TensorType, Value, ops};
use proptest::prelude::*;

fn leaf(dtype: DType, shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(dtype, shape)).unwrap()
}

/// A training step that meets most families.
fn sample() -> (Vec<Value>, Vec<Value>) {
    let leaves = vec![
        leaf(DType::F32, &[11, 8]),
        leaf(DType::I64, &[2, 5]),
        leaf(DType::F32, &[8]),
        leaf(DType::U64, &[2]),
        leaf(DType::I64, &[2, 5]),
    ];
    let [table, ids, weight, key, targets] = &leaves[..] else { unreachable!() };
    let h = ops::embedding(&Lazy, table, ids).unwrap();
    let h = checkpoint(
        |v| {
            let h = ops::rms_norm(&Lazy, &v[0], Some(&v[1]), 1e-6)?;
            let heads = ops::reshape(&Lazy, &h, &[2, -1, 4, 2])?;
            let o = ops::attention(&Lazy, &heads, &heads, &heads, true, None, None)?;
            Ok(vec![ops::add(&Lazy, &h, &ops::reshape(&Lazy, &o, &[2, 5, 8])?)?])
        },
        &[h, weight.clone()],
    )
    .unwrap();
    let h = ops::dropout(&Lazy, &h[0], 0.1, key, 4).unwrap();
    let logits = ops::linear(&Lazy, &h, table, None).unwrap();
    let loss =
        ops::cross_entropy(&Lazy, &logits, targets, ops::Reduction::Mean, Some(-1), None, 0.0, -1).unwrap();
    let mut roots = grad(&loss, &[table.clone(), weight.clone()]).unwrap();
    roots.push(loss);
    (leaves, roots)
}

#[test]
fn a_round_trip_keeps_the_graph() {
    let (leaves, roots) = sample();
    let bytes = to_bytes(&leaves, &roots).unwrap();
    let (new_leaves, new_roots) = from_bytes(&bytes).unwrap();
    assert_eq!(to_text(&new_roots), to_text(&from_bytes(&bytes).unwrap().1));
    assert_eq!(to_bytes(&new_leaves, &new_roots).unwrap(), bytes);
    let types = |values: &[Value]| values.iter().map(|v| v.ty().clone()).collect::<Vec<_>>();
    assert_eq!((types(&new_leaves), types(&new_roots)), (types(&leaves), types(&roots)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_bytes_never_panic(edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3), cut in any::<prop::sample::Index>()) {
        thread_local!(static BYTES: Vec<u8> = { let (leaves, roots) = sample(); to_bytes(&leaves, &roots).unwrap() });
        let mut bytes = BYTES.with(Clone::clone);
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut.index(8) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        let _ = from_bytes(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = from_bytes(&bytes);
    }
}

fn any_type() -> impl Strategy<Value = TensorType> {
    let size = prop_oneof![0..5usize, Just(usize::MAX), Just(1 << 40)];
    (0..DType::ALL.len(), prop::collection::vec(size, 0..5))
        .prop_map(|(dtype, shape)| TensorType::new(DType::ALL[dtype], shape))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any primitive with any attributes over any operands gives types or an error.
    #[test]
    fn inference_never_panics(
        family in 0..12u8,
        variant in 0..8u8,
        attributes in prop::collection::vec(prop_oneof![0..6u8, any::<u8>()], 0..40),
        inputs in prop::collection::vec(any_type(), 0..8),
    ) {
        let mut bytes = vec![family, variant];
        bytes.extend(attributes);
        if let Ok((prim, _)) = postcard::take_from_bytes::<Prim>(&bytes) {
            let _ = prim.infer(&inputs.iter().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_length_that_the_bytes_do_not_hold_is_an_error() {
    // version 1, arity 0, then a node count of 2^63.
    let mut bytes = vec![1, 0];
    bytes.extend([0x80; 9]);
    bytes.push(0x01);
    assert_eq!(from_bytes(&bytes).unwrap_err().kind, ErrorKind::Format);
}

#[test]
fn graphs_nest_only_so_deep() {
    let x = leaf(DType::F32, &[2]);
    let mut body = Subgraph::capture(std::slice::from_ref(&x), &[ops::exp(&Lazy, &x).unwrap()]);
    let mut nested = 1;
    loop {
        let prim = Prim::Control(lanthorn_ir::prim::Control::Checkpoint { body: body.shared() });
        let y = Lazy.apply1(prim, std::slice::from_ref(&x)).unwrap();
        body = Subgraph::capture(std::slice::from_ref(&x), std::slice::from_ref(&y));
        nested += 1;
        assert_eq!(body.nesting(), nested);
        let bytes = to_bytes(std::slice::from_ref(&x), std::slice::from_ref(&y)).unwrap();
        let read = std::thread::Builder::new().stack_size(256 * 1024);
        let result = read.spawn(move || from_bytes(&bytes).map(|_| ())).unwrap().join().unwrap();
        if nested > MAX_NESTING {
            assert_eq!(result.unwrap_err().kind, ErrorKind::Format);
            break;
        }
        result.unwrap();
    }
}

#[test]
fn sizes_beyond_the_address_space_are_refused() {
    let huge = usize::MAX / 2;
    let x = leaf(DType::F32, &[2]);
    let apply = |movement| Lazy.apply1(Prim::Movement(movement), std::slice::from_ref(&x)).unwrap_err();
    let dims = |sizes: &[usize]| sizes.iter().copied().collect();
    for movement in [
        Movement::Broadcast { shape: dims(&[huge, huge, 2]) },
        Movement::Broadcast { shape: dims(&[0, huge, huge, 2]) },
        Movement::Reshape { shape: dims(&[huge, 4, 0]) },
        Movement::Pad { low: dims(&[usize::MAX]), high: dims(&[usize::MAX]), interior: dims(&[usize::MAX]) },
    ] {
        assert_eq!(apply(movement).kind, ErrorKind::Shape);
    }
    let leaf = Value::leaf(TensorType::new(DType::F64, [huge, 3])).unwrap_err();
    assert!(leaf.message.contains("does not fit the address space"), "{leaf}");
    let iota = Lazy.apply1(Prim::Source(Source::Iota { len: usize::MAX, dtype: DType::I64 }), &[]);
    assert_eq!(iota.unwrap_err().kind, ErrorKind::Shape);
}
