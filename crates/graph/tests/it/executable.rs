//! Executables: slots, checks, constant weights, reports.

use lanthorn_graph::Handle;
use lanthorn_graph::executable::CompileOptions;
use lanthorn_ir::ops::table::Attribute;
use lanthorn_ir::{DType, ErrorKind, TensorType};

use super::support::{Face, close, f32_of, handles};

/// `x w scale`, of inputs 1 and 0 and scalar 0.
fn scaled_product(face: &mut Face) -> Handle {
    let [w, x] = [face.input(0, &[2, 2]), face.input(1, &[1, 2])];
    let scale = face.graph.scalar_input(0, DType::F32).unwrap();
    let product = face.op("matmul", &[x, w], &[]);
    face.op("mul", &[product, scale], &[])
}

#[test]
fn bindings_and_scalars_go_to_their_slots() {
    let mut face = Face::new();
    let root = scaled_product(&mut face);
    let executable = face.compile(&[root]);
    let w = face.f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let x = face.f32(&[1, 2], &[10.0, 1.0]);
    assert_eq!(face.execute(executable, &[w, x], &[2.0]), [[26.0, 48.0]]);
    assert_eq!(face.execute(executable, &[w, x], &[-1.0]), [[-13.0, -24.0]]);
    assert_eq!(face.graph.stats().engine.compiles, 1);
    // What the roots do not read may be there.
    assert_eq!(face.execute(executable, &[w, x, x], &[1.0, 5.0]), [[13.0, 24.0]]);
}

#[test]
fn leaves_of_one_slot_are_one_argument() {
    let mut face = Face::new();
    let [x, again] = [face.input(0, &[2]), face.input(0, &[2])];
    let [scale, twice] = [(); 2].map(|()| face.graph.scalar_input(1, DType::F32).unwrap());
    let sum = face.op("add", &[x, again], &[]);
    let product = face.op("mul", &[sum, scale], &[]);
    let product = face.op("mul", &[product, twice], &[]);
    let executable = face.compile(&[product, again]);
    let x = face.f32(&[2], &[1.0, 2.0]);
    assert_eq!(face.execute(executable, &[x], &[9.0, 3.0]), [[18.0, 36.0], [1.0, 2.0]]);
    let other = face.input(0, &[3]);
    let error = face.graph.compile(&[product, other], CompileOptions::default()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Compile);
    assert!(error.message.contains("input 0 is f32[2] in one place"), "{error}");
}

#[test]
fn wrong_arguments_are_named() {
    let mut face = Face::new();
    let root = scaled_product(&mut face);
    let executable = face.compile(&[root]);
    let w = face.f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let x = face.f32(&[1, 2], &[10.0, 1.0]);
    let lazy = face.op("exp", &[x], &[]);
    let wide = face.graph.create(&TensorType::new(DType::F64, [1, 2]), &[0; 16]).unwrap();
    let cases: [(&[Handle], &[f64], ErrorKind, &str); 6] = [
        (&[w], &[1.0], ErrorKind::Shape, "got 1 bindings, expected 2"),
        (&[w, x], &[], ErrorKind::Shape, "got 0 scalars, expected 1"),
        (&[x, w], &[1.0], ErrorKind::Shape, "binding 0 is f32[1, 2], expected f32[2, 2]"),
        (&[w, wide], &[1.0], ErrorKind::Dtype, "binding 1 is f64[1, 2], expected f32[1, 2]"),
        (&[w, lazy], &[1.0], ErrorKind::InvalidHandle, "is lazy"),
        (&[w, executable], &[1.0], ErrorKind::InvalidHandle, "that of an executable, expected a tensor"),
    ];
    for (bindings, scalars, kind, message) in cases {
        let error = face.try_execute(executable, bindings, scalars).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    let error = face.try_execute(w, &[], &[]).unwrap_err();
    assert!(error.message.contains("expected an executable"), "{error}");
    // A scalar of a whole dtype takes whole numbers.
    let count = face.graph.scalar_input(0, DType::I64).unwrap();
    let counting = face.compile(&[count]);
    assert_eq!(face.execute(counting, &[], &[3.0]), [[3.0]]);
    let error = face.try_execute(counting, &[], &[0.5]).unwrap_err();
    assert!(error.message.contains("scalar 0"), "{error}");
}

/// A call of the steps `x - rate g` and `m + g`, whose results update slots 0 and 1.
fn step(face: &mut Face, len: usize) -> Handle {
    let [x, m, g] = [0, 1, 2].map(|slot| face.input(slot, &[len]));
    let rate = face.graph.scalar_input(0, DType::F32).unwrap();
    let down = face.op("mul", &[g, rate], &[]);
    let loss = face.op("sum", &[g], &[]);
    let roots = [loss, face.op("sub", &[x, down], &[]), face.op("add", &[m, g], &[])];
    let updates = [(0, 1), (1, 2), (2, 0), (7, 1)];
    face.graph.compile_updating(&roots, CompileOptions::default(), &updates).unwrap()
}

#[test]
fn taken_bindings_are_written_over() {
    const LEN: usize = 1 << 18;
    let mut face = Face::new();
    let executable = step(&mut face, LEN);
    let mut bindings = [1.0, 2.0, 3.0].map(|x| face.f32(&[LEN], &[x; LEN]));
    let before = face.graph.stats();
    for round in 1..4 {
        let job = face.graph.begin_execute_taking(executable, &bindings, &[0.5], &[0, 1]);
        let [loss, x, m] = handles(face.run(job).unwrap())[..] else { panic!("three results") };
        assert_eq!(face.elements(loss), [3.0 * LEN as f64]);
        assert!(face.elements(x).iter().all(|&x| x == 1.0 - 1.5 * f64::from(round)));
        assert!(face.elements(m).iter().all(|&m| m == 2.0 + 3.0 * f64::from(round)));
        for taken in &bindings[..2] {
            assert_eq!(face.graph.release(*taken).unwrap_err().kind, ErrorKind::InvalidHandle);
        }
        bindings[..2].copy_from_slice(&[x, m]);
        face.graph.release(loss).unwrap();
    }
    let after = face.graph.stats();
    assert_eq!(after.handles, before.handles);
    // No second copy of either has been there, not even for a while.
    assert!(after.engine.peak_bytes < before.engine.live_bytes + 4 * LEN as u64, "{before:?} {after:?}");
}

#[test]
fn what_others_have_is_not_written_over() {
    let mut face = Face::new();
    let executable = step(&mut face, 4);
    let bindings = [1.0, 2.0, 3.0].map(|x| face.f32(&[4], &[x; 4]));
    // Further handles to the same elements, one lazy.
    let kept = face.compute(&bindings[..1])[0];
    let doubled = face.op("add", &[bindings[1], bindings[1]], &[]);
    let job = face.graph.begin_execute_taking(executable, &bindings, &[1.0], &[0, 1]);
    let results = handles(face.run(job).unwrap());
    assert_eq!(face.elements(results[1]), [-2.0; 4]);
    assert_eq!(face.elements(results[2]), [5.0; 4]);
    assert_eq!(face.elements(kept), [1.0; 4]);
    assert_eq!(face.read(doubled), [4.0; 4]);
    // A call that takes nothing, or whose tensor is bound twice, reads what was there.
    let g = bindings[2];
    let results = face.try_execute(executable, &[g, g, g], &[1.0]).unwrap();
    assert_eq!([face.elements(results[1]), face.elements(results[2])], [[0.0; 4], [6.0; 4]]);
    let job = face.graph.begin_execute_taking(executable, &[g, g, g], &[1.0], &[0, 1]);
    let results = handles(face.run(job).unwrap());
    assert_eq!([face.elements(results[1]), face.elements(results[2])], [[0.0; 4], [6.0; 4]]);
    // What does not begin takes nothing.
    let x = face.f32(&[4], &[1.0; 4]);
    let error = face.graph.begin_execute_taking(executable, &[x, x], &[1.0], &[0]).map(drop).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Shape);
    assert_eq!(face.elements(x), [1.0; 4]);
}

#[test]
fn an_executable_keeps_the_elements_that_it_was_made_with() {
    let mut face = Face::new();
    let w = face.f32(&[2], &[3.0, 4.0]);
    let x = face.input(0, &[2]);
    let sum = face.op("add", &[x, w], &[]);
    let executable = face.compile(&[sum]);
    face.graph.release(w).unwrap();
    face.graph.release(sum).unwrap();
    let x = face.f32(&[2], &[1.0, 1.0]);
    assert_eq!(face.execute(executable, &[x], &[]), [[4.0, 5.0]]);
    face.graph.release(executable).unwrap();
    assert_eq!(face.try_execute(executable, &[x], &[]).unwrap_err().kind, ErrorKind::InvalidHandle);
}

#[test]
fn without_optimisation_the_numbers_are_the_same() {
    let mut face = Face::new();
    let x = face.input(0, &[8]);
    let y = face.op("exp", &[x], &[]);
    let y = face.op("add_scalar", &[y], &[Attribute::Float(0.0)]);
    let y = face.op("mul", &[y, x], &[]);
    let plain = CompileOptions { optimize: false, ..CompileOptions::default() };
    let [plain, fused] = [face.graph.compile(&[y], plain).unwrap(), face.compile(&[y])];
    let elements: Vec<f32> = (0..8).map(|i| i as f32 * 0.25).collect();
    let x = face.f32(&[8], &elements);
    let expected = elements.iter().map(|&x| f64::from(x).exp() * f64::from(x)).collect::<Vec<_>>();
    close(&face.execute(plain, &[x], &[])[0], &expected);
    close(&face.execute(fused, &[x], &[])[0], &expected);
    let commands = |executable| face.report(executable)["commandCount"].as_u64().unwrap();
    assert!(commands(plain) > commands(fused));
}

#[test]
fn constant_weights_compute_once_what_follows_from_elements() {
    let mut face = Face::new();
    let x = face.input(0, &[1, 2]);
    let w = face.f32(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let bias = face.f32(&[2], &[0.5, 0.25]);
    // exp(w), transposed; the bias is only broadcast, which takes no memory of its own.
    let exp = face.op("exp", &[w], &[]);
    let turned = face.op("transpose", &[exp], &[Attribute::Int(0), Attribute::Int(1)]);
    let product = face.op("matmul", &[x, turned], &[]);
    let root = face.op("add", &[product, bias], &[]);
    let constant = CompileOptions { constant_weights: true, ..CompileOptions::default() };
    let [bound, constant] = [face.compile(&[root]), face.graph.compile(&[root], constant).unwrap()];
    let x = face.f32(&[1, 2], &[2.0, -1.0]);
    let e = |x: f64| x.exp();
    let expected = [2.0 * e(1.0) - e(2.0) + 0.5, 2.0 * e(3.0) - e(4.0) + 0.25];
    close(&face.execute(bound, &[x], &[])[0], &expected);
    close(&face.execute(constant, &[x], &[])[0], &expected);
    let nodes = |executable| face.report(executable)["semanticNodesBeforeOptimization"].as_u64().unwrap();
    assert_eq!(nodes(bound), nodes(constant) + 1);
    for executable in [bound, constant] {
        assert_eq!(face.report(executable)["memory"]["persistentBytes"], 16 + 8);
    }
}

#[test]
fn constant_weights_leave_alone_what_would_grow() {
    let mut face = Face::new();
    let x = face.input(0, &[64, 64]);
    let w = face.f32(&[64, 1], &[1.0; 64]);
    let v = face.f32(&[1, 64], &[2.0; 64]);
    let outer = face.op("mul", &[w, v], &[]);
    let root = face.op("mul", &[x, outer], &[]);
    let constant = CompileOptions { constant_weights: true, ..CompileOptions::default() };
    let executable = face.graph.compile(&[root], constant).unwrap();
    assert_eq!(face.report(executable)["memory"]["persistentBytes"], 2 * 64 * 4);
    let x = face.f32(&[64, 64], &[1.5; 64 * 64]);
    assert_eq!(face.execute(executable, &[x], &[]), [[3.0; 64 * 64]]);
}

#[test]
fn constant_weights_serve_a_root_that_reads_no_input() {
    let mut face = Face::new();
    let w = face.f32(&[2], &[1.0, 4.0]);
    let root = face.op("sqrt", &[w], &[]);
    let constant = CompileOptions { constant_weights: true, ..CompileOptions::default() };
    let executable = face.graph.compile(&[root, w], constant).unwrap();
    assert_eq!(face.execute(executable, &[], &[]), [[1.0, 2.0], [1.0, 4.0]]);
}

#[test]
fn a_report_says_what_an_executable_takes_and_gives() {
    let mut face = Face::new();
    let x = face.input(1, &[2, 3]);
    let scale = face.graph.scalar_input(0, DType::F32).unwrap();
    let w = face.f32(&[3, 4], &[1.0; 12]);
    let y = face.op("matmul", &[x, w], &[]);
    let y = face.op("mul", &[y, scale], &[]);
    let executable = face.compile(&[y]);
    let report = face.report(executable);
    assert_eq!(report["inputs"], serde_json::json!([null, { "shape": [2, 3], "dtype": "f32" }]));
    assert_eq!(report["scalars"], 1);
    assert_eq!(report["outputs"], serde_json::json!([{ "shape": [2, 4], "dtype": "f32" }]));
    let memory = &report["memory"];
    assert_eq!(memory["externalBytes"], 4 * 6 + 4);
    assert_eq!(memory["persistentBytes"], 4 * 12);
    assert_eq!(memory["outputBytes"], 4 * 8);
    let counts: u64 =
        report["instructions"].as_array().unwrap().iter().map(|i| i["count"].as_u64().unwrap()).sum();
    assert_eq!(report["commandCount"], counts);
    assert!(report["instructions"].as_array().unwrap().iter().any(|i| i["kind"] == "matmul"));
    let phases: Vec<&str> =
        report["compilePhases"].as_array().unwrap().iter().map(|p| p["phase"].as_str().unwrap()).collect();
    assert_eq!(phases, ["legalize", "simplify", "regions", "plan", "lower"]);
    let executable = face.graph.executable("executable", executable).unwrap();
    assert_eq!(executable.inputs(), [None, Some(f32_of(&[2, 3]))]);
}
