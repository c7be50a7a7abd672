//! Calls that fail for the numbers that they get: donated arguments are as they were.

use lanthorn_ir::{DType, Error, ErrorKind, Lazy, Result, TensorType, Value, ops};
use lanthorn_runtime::{
    CancelToken, Device, EagerTensor, Executable, Options, Tensor, compile,
};

use super::device;

fn leaf(dtype: DType, shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(dtype, shape)).unwrap()
}

fn tensor(device: &Device, shape: &[usize], elements: &[f32]) -> EagerTensor {
    EagerTensor::from_slice(device, shape, elements).unwrap()
}

fn ids(device: &Device, ids: &[i64]) -> EagerTensor {
    EagerTensor::from_slice(device, &[ids.len()], ids).unwrap()
}

fn values(tensor: &EagerTensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

/// The arguments whose memory the results receive.
fn donors(program: &Executable) -> Vec<Option<u32>> {
    program.plan().outputs.iter().map(|output| output.donated).collect()
}

/// `(w, m, ids) -> (m + w, tanh(2 w), rows of tanh(2 w))`: what is looked up is a new parameter.
fn reading_what_is_new(device: &Device, half_written: &[u32], optimize: bool) -> Executable {
    let (w, m, ids) = (leaf(DType::F32, &[2, 2]), leaf(DType::F32, &[2, 2]), leaf(DType::I64, &[3]));
    let new_w = ops::tanh(&Lazy, &ops::mul_scalar(&Lazy, &w, 2.0).unwrap()).unwrap();
    let new_m = ops::add(&Lazy, &m, &w).unwrap();
    let rows = ops::embedding(&Lazy, &new_w, &ids).unwrap();
    let options = Options { donated: vec![(1, 0), (0, 1)], half_written: half_written.to_vec(), optimize, ..Options::default() };
    Executable::new(device, &[w, m, ids], &[new_m, new_w, rows], &options).unwrap()
}

#[test]
fn a_failure_behind_an_update_changes_no_argument() {
    let device = device();
    for optimize in [true, false] {
        let program = reading_what_is_new(&device, &[], optimize);
        assert_eq!(donors(&program)[1], None, "{}", program.plan());
        let w = tensor(&device, &[2, 2], &[0.5, -0.5, 0.25, 1.0]);
        let m = tensor(&device, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let (live, never) = (device.stats().live_bytes, CancelToken::never());
        for wrong in [[0, 1, 2], [-1, 0, 0]] {
            let wrong = ids(&device, &wrong);
            let error = program.call(&[&w, &m, &wrong], &never).unwrap_err();
            assert_eq!((error.kind, error.op.as_str()), (ErrorKind::Execute, "embedding"));
            assert_eq!(values(&w), [0.5, -0.5, 0.25, 1.0]);
            assert_eq!(values(&m), [1.0, 2.0, 3.0, 4.0]);
        }
        assert_eq!(device.stats().live_bytes, live);
        let right = ids(&device, &[1, 0, 1]);
        let results = program.call(&[&w, &m, &right], &never).unwrap();
        assert_eq!(values(&results[0]), [1.5, 1.5, 3.25, 5.0]);
        let new = [1f32, -1.0, 0.5, 2.0].map(f32::tanh);
        let close = |found: &[f32], expected: &[f32]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
        };
        close(&values(&results[1]), &new);
        close(&values(&results[2]), &[new[2], new[3], new[0], new[1], new[2], new[3]]);
        // It was not donated after all.
        assert_eq!(values(&w), [0.5, -0.5, 0.25, 1.0]);
    }
}

#[test]
fn who_does_not_read_what_a_failed_call_wrote_may_have_it_written_in_place() {
    let device = device();
    let program = reading_what_is_new(&device, &[0, 1], true);
    assert_eq!(donors(&program), [Some(1), Some(0), None]);
    let w = tensor(&device, &[2, 2], &[0.0; 4]);
    let m = tensor(&device, &[2, 2], &[0.0; 4]);
    let wrong = ids(&device, &[0, 0, 9]);
    assert!(program.call(&[&w, &m, &wrong], &CancelToken::never()).is_err());
    // They are still there.
    assert!(w.to_vec::<f32>().is_ok() && m.to_vec::<f32>().is_ok());
}

#[test]
fn a_step_whose_failures_come_first_updates_in_place() {
    // Rows of a table are looked up, and the table is updated: a failure comes before the first write.
    let device = device();
    let (w, at, g) = (leaf(DType::F32, &[64, 8]), leaf(DType::I64, &[4]), leaf(DType::F32, &[4, 8]));
    let rows = ops::embedding(&Lazy, &w, &at).unwrap();
    let loss = ops::sum(&Lazy, &ops::mul(&Lazy, &rows, &g).unwrap(), &[], false).unwrap();
    let grad = ops::embedding_grad(&Lazy, &g, &at, 64).unwrap();
    let new = ops::sub(&Lazy, &w, &ops::mul_scalar(&Lazy, &grad, 0.5).unwrap()).unwrap();
    let options = Options { donated: vec![(0, 0)], ..Options::default() };
    let program = Executable::new(&device, &[w, at, g], &[new, loss], &options).unwrap();
    assert_eq!(donors(&program), [Some(0), None]);
    let (before, never) = (vec![1f32; 64 * 8], CancelToken::never());
    let (w, g) = (tensor(&device, &[64, 8], &before), tensor(&device, &[4, 8], &[2.0; 32]));
    assert!(program.call(&[&w, &ids(&device, &[0, 1, 64, 2]), &g], &never).is_err());
    assert_eq!(values(&w), before);
    let at = ids(&device, &[0, 1, 63, 2]);
    let live = device.stats().live_bytes;
    let results = program.call(&[&w, &at, &g], &never).unwrap();
    // The parameter is in memory once: all that is new is the loss.
    assert_eq!(device.stats().live_bytes - live, 64);
    assert!(w.to_vec::<f32>().is_err());
    let new = values(&results[0]);
    let expected = |row: usize| if [0, 1, 63, 2].contains(&row) { 0.0 } else { 1.0 };
    assert!(new.chunks(8).enumerate().all(|(row, found)| found == [expected(row); 8]));
}

#[test]
fn of_two_caches_a_place_out_of_range_changes_neither() {
    let device = device();
    let (a, b, row) = (leaf(DType::F32, &[4]), leaf(DType::F32, &[4]), leaf(DType::F32, &[1]));
    let (first, second) = (leaf(DType::I64, &[]), leaf(DType::I64, &[]));
    let new_a = ops::update_slice(&Lazy, &a, &row, &first, 0).unwrap();
    let new_b = ops::update_slice(&Lazy, &b, &row, &second, 0).unwrap();
    let options = Options { donated: vec![(0, 0), (1, 1)], ..Options::default() };
    let program = Executable::new(&device, &[a, b, row, first, second], &[new_a, new_b], &options).unwrap();
    assert!(donors(&program).iter().flatten().count() <= 1, "{}", program.plan());
    let place = |at: i64| EagerTensor::scalar(&device, at as f64, DType::I64).unwrap();
    let (a, b) = (tensor(&device, &[4], &[1.0; 4]), tensor(&device, &[4], &[2.0; 4]));
    let (row, never) = (tensor(&device, &[1], &[9.0]), CancelToken::never());
    for (first, second) in [(1, 4), (4, 1), (-1, 9)] {
        let error = program.call(&[&a, &b, &row, &place(first), &place(second)], &never).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Execute);
        assert_eq!((values(&a), values(&b)), (vec![1.0; 4], vec![2.0; 4]));
    }
    let results = program.call(&[&a, &b, &row, &place(1), &place(3)], &never).unwrap();
    assert_eq!(values(&results[0]), [1.0, 9.0, 1.0, 1.0]);
    assert_eq!(values(&results[1]), [2.0, 2.0, 2.0, 9.0]);
}

#[test]
fn a_matrix_that_has_no_factor_leaves_the_one_before_it() {
    // Matrices of a batch fail one by one, when others are written already.
    let device = device();
    let x = leaf(DType::F32, &[2, 2, 2]);
    let root = ops::cholesky(&Lazy, &x, false).unwrap();
    let options = Options { donated: vec![(0, 0)], ..Options::default() };
    let program = Executable::new(&device, &[x], &[root], &options).unwrap();
    let before = [4.0, 2.0, 2.0, 5.0, 1.0, 3.0, 3.0, 1.0];
    let x = tensor(&device, &[2, 2, 2], &before);
    assert!(program.call(&[&x], &CancelToken::never()).is_err());
    assert_eq!(values(&x), before);
}

#[test]
fn a_compiled_function_that_fails_leaves_its_arguments() {
    let device = device();
    let look_up = |table: &Tensor, ids: &Tensor| -> Result<Tensor> {
        let one = Tensor::call("embedding", &[Some(table), Some(ids)], &[])?.pop();
        one.ok_or_else(|| Error::new(ErrorKind::Execute, "embedding", "gives nothing"))
    };
    let step = compile(|a: &[Tensor]| {
        let w = (&a[0] * 3.0)?;
        Ok(vec![look_up(&w, &a[1])?, w])
    })
    .donate(&[(0, 1)]);
    let w = Tensor::from_slice(&device, &[2, 1], &[1f32, 2.0]).unwrap();
    let wrong = Tensor::from_slice(&device, &[1], &[2i64]).unwrap();
    for _ in 0..2 {
        assert_eq!(step.call(&[&w, &wrong]).unwrap_err().kind, ErrorKind::Execute);
        assert_eq!(w.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }
    let right = Tensor::from_slice(&device, &[1], &[1i64]).unwrap();
    let results = step.call(&[&w, &right]).unwrap();
    assert_eq!(results[0].to_vec::<f32>().unwrap(), [6.0]);
    assert_eq!(results[1].to_vec::<f32>().unwrap(), [3.0, 6.0]);
}
