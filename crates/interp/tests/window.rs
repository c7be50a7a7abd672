//! Windows and convolutions of any attributes: values against the formula, derivatives as transposes, hostile numbers.

use lanthorn_interp::{HostTensor, Interp};
use lanthorn_ir::layout::window_count;
use lanthorn_ir::prim::{Applied, Batched, Convolution, Movement, Prim, Window, Windows};
use lanthorn_ir::{Builder, DType, Dims, Lazy, TensorType, Value, ops};
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn ramp(shape: &[usize], seed: i64) -> HostTensor {
    let n: usize = shape.iter().product();
    // Small whole numbers: sums are exact.
    let elements: Vec<f64> = (0..n as i64).map(|i| ((i * 7 + seed) % 11 - 5) as f64).collect();
    HostTensor::from_f64(DType::F64, shape, &elements).unwrap()
}

fn inner(a: &HostTensor, b: &HostTensor) -> f64 {
    assert_eq!(a.ty(), b.ty());
    a.to_f64().iter().zip(b.to_f64()).map(|(a, b)| a * b).sum()
}

/// A convolution over one or two axes, with the sizes of its operands.
#[derive(Clone, Debug)]
struct Case {
    conv: Convolution,
    x: Vec<usize>,
    weight: Vec<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    let axis = (0..6usize, 1..4usize, 1..4usize, -2..4isize, -2..4isize, 0..3usize, 1..3usize);
    (prop::collection::vec(axis, 1..3), 0..3usize, 1..3usize, 0..3usize, 0..3usize).prop_map(
        |(axes, n, groups, inner, outer)| {
            let mut case = Case {
                conv: Convolution {
                    strides: Dims::new(),
                    low: Default::default(),
                    high: Default::default(),
                    interior: Dims::new(),
                    dilations: Dims::new(),
                    groups,
                },
                x: vec![n, groups * inner],
                weight: vec![groups * outer, inner],
            };
            for (length, kernel, stride, low, high, interior, dilation) in axes {
                case.x.push(length);
                case.weight.push(kernel);
                case.conv.strides.push(stride);
                case.conv.low.push(low);
                case.conv.high.push(high);
                case.conv.interior.push(interior);
                case.conv.dilations.push(dilation);
            }
            case
        },
    )
}

/// The element of the padded operand, by the definition.
fn padded(conv: &Convolution, x: &HostTensor, image: usize, channel: usize, place: &[isize]) -> f64 {
    let shape = x.shape();
    let mut flat = image * shape[1] + channel;
    for (a, &at) in place.iter().enumerate() {
        let (length, gap) = (shape[a + 2], conv.interior[a] as isize + 1);
        let at = at - conv.low[a];
        if at < 0 || at % gap != 0 || at / gap >= length as isize {
            return 0.0;
        }
        flat = flat * length + (at / gap) as usize;
    }
    x.to_f64()[flat]
}

fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![vec![]], |places, &size| {
        let extend = |place: &Vec<usize>| (0..size).map(|i| [&place[..], &[i]].concat()).collect::<Vec<_>>();
        places.iter().flat_map(extend).collect()
    })
}

/// The documented sum, term by term.
fn by_definition(case: &Case, x: &HostTensor, weight: &HostTensor, out: &[usize]) -> Vec<f64> {
    let (conv, sw, w) = (&case.conv, weight.shape(), weight.to_f64());
    let kernel = places(&sw[2..]);
    let element = |place: &Vec<usize>| {
        let first = place[1] / (sw[0] / conv.groups) * sw[1];
        let mut total = 0.0;
        for i in 0..sw[1] {
            for (number, j) in kernel.iter().enumerate() {
                let at: Vec<isize> = (0..j.len())
                    .map(|a| (place[a + 2] * conv.strides[a] + j[a] * conv.dilations[a]) as isize)
                    .collect();
                let weight = w[(place[1] * sw[1] + i) * kernel.len() + number];
                total += padded(conv, x, place[0], first + i, &at) * weight;
            }
        }
        total
    };
    places(out).iter().map(element).collect()
}

proptest! {
    #![proptest_config(config(600))]

    #[test]
    fn convolutions_and_their_transposes_follow_the_definition(case in case()) {
        let (x, weight) = (ramp(&case.x, 1), ramp(&case.weight, 4));
        let prim = Prim::Window(Window::Conv(Box::new(case.conv.clone())));
        // Groups of nothing are refused.
        prop_assume!(case.conv.groups <= case.x[1].max(case.weight[0]).max(1));
        let y = Interp.apply1(prim.clone(), &[x.clone(), weight.clone()]).unwrap();
        for a in 0..case.conv.strides.len() {
            let spread = case.x[a + 2] + case.x[a + 2].saturating_sub(1) * case.conv.interior[a];
            let size = (spread as isize + case.conv.low[a] + case.conv.high[a]).max(0) as usize;
            let count = window_count(size, case.weight[a + 2], case.conv.strides[a], case.conv.dilations[a]);
            prop_assert_eq!(y.shape()[a + 2], count);
        }
        prop_assert_eq!(y.to_f64(), by_definition(&case, &x, &weight, y.shape()));

        // <t, conv(x, w)> = <dx, x> = <dw, w>.
        let t = ramp(y.shape(), 8);
        let (inputs, outputs) = ([x.clone(), weight.clone()], [y.clone()]);
        let at = Applied { inputs: &inputs, outputs: &outputs, wanted: &[] };
        let found = prim.vjp(&Interp, &at, &[Some(t.clone())]).unwrap();
        let form = inner(&t, &y);
        for (cotangent, operand) in found.iter().zip(&inputs) {
            match cotangent {
                Some(cotangent) => prop_assert_eq!(inner(cotangent, operand), form),
                None => prop_assert_eq!(form, 0.0),
            }
        }
    }

    #[test]
    fn mapped_convolutions_are_convolutions_of_each(case in case(), mapped in 1..4usize, size in 0..3usize) {
        prop_assume!(case.conv.groups <= case.x[1].max(case.weight[0]).max(1));
        let prim = Prim::Window(Window::Conv(Box::new(case.conv.clone())));
        let operand = |shape: &[usize], bit: usize, seed: i64| {
            let is_mapped = mapped & bit != 0;
            let shape = if is_mapped { [&[size], shape].concat() } else { shape.to_vec() };
            Batched { value: ramp(&shape, seed), mapped: is_mapped }
        };
        let inputs = [operand(&case.x, 1, 2), operand(&case.weight, 2, 3)];
        let found = prim.batch(&Interp, size, &inputs).unwrap();
        prop_assert_eq!(found[0].value.shape()[0], size);
        for index in 0..size {
            let each = inputs.each_ref().map(|input| match input.mapped {
                true => ops::select(&Interp, &input.value, 0, index as isize).unwrap(),
                false => input.value.clone(),
            });
            let expected = Interp.apply1(prim.clone(), &each).unwrap();
            prop_assert_eq!(&ops::select(&Interp, &found[0].value, 0, index as isize).unwrap(), &expected);
        }
    }

    #[test]
    fn windows_and_their_transposes_agree(
        sizes in prop::collection::vec(0..8usize, 1..4),
        numbers in prop::collection::vec((any::<bool>(), 1..5usize, 1..5usize, 1..4usize), 3),
    ) {
        let chosen: Vec<usize> = (0..sizes.len()).filter(|&a| numbers[a].0).collect();
        let each = |of: fn(&(bool, usize, usize, usize)) -> usize| -> Dims {
            chosen.iter().map(|&a| of(&numbers[a])).collect()
        };
        let movement = Movement::Window(Box::new(Windows {
            axes: chosen.iter().copied().collect(),
            sizes: each(|n| n.1),
            steps: each(|n| n.2),
            dilations: each(|n| n.3),
        }));
        let prim = Prim::Movement(movement);
        let x = ramp(&sizes, 3);
        let y = Interp.apply1(prim.clone(), std::slice::from_ref(&x)).unwrap();
        let values = y.to_f64();
        for (place, value) in places(y.shape()).iter().zip(values) {
            let mut flat = 0;
            for (a, &size) in sizes.iter().enumerate() {
                let at = match chosen.iter().position(|&c| c == a) {
                    Some(i) => place[a] * numbers[a].2 + place[sizes.len() + i] * numbers[a].3,
                    None => place[a],
                };
                prop_assert!(at < size);
                flat = flat * size + at;
            }
            prop_assert_eq!(value, x.to_f64()[flat]);
        }
        let t = ramp(y.shape(), 6);
        let (inputs, outputs) = ([x.clone()], [y.clone()]);
        let at = Applied { inputs: &inputs, outputs: &outputs, wanted: &[] };
        let found = prim.vjp(&Interp, &at, &[Some(t.clone())]).unwrap();
        prop_assert_eq!(inner(found[0].as_ref().unwrap(), &x), inner(&t, &y));
    }
}

fn hostile() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..4usize,
        Just(usize::MAX),
        Just(isize::MAX as usize),
        Just(isize::MAX as usize / 8),
        Just(1usize << 31),
        any::<usize>()
    ]
}

/// Applies the rules of a primitive to graph values: whatever `infer` accepts has its rules.
fn drive(prim: &Prim, inputs: &[Value]) {
    let Ok(outputs) = Lazy.apply(prim.clone(), inputs) else { return };
    let at = Applied { inputs, outputs: &outputs, wanted: &[] };
    let Ok(cotangent) = Value::leaf(outputs[0].ty().clone()) else { return };
    if let Ok(found) = prim.vjp(&Lazy, &at, &[Some(cotangent)]) {
        for (cotangent, input) in found.iter().zip(inputs) {
            assert!(cotangent.as_ref().is_none_or(|cotangent| cotangent.ty() == input.ty()));
        }
    }
    let _ = prim.decompose(&Lazy, inputs);
    for mapped in 1..1 << inputs.len() {
        let raised = inputs.iter().enumerate().map(|(i, input)| {
            let is_mapped = mapped >> i & 1 == 1;
            let shape: Vec<usize> =
                if is_mapped { [&[2], &input.ty().shape[..]].concat() } else { input.ty().shape.to_vec() };
            let value = Value::leaf(TensorType::new(input.ty().dtype, shape)).ok()?;
            Some(Batched { value, mapped: is_mapped })
        });
        if let Some(raised) = raised.collect::<Option<Vec<_>>>() {
            let _ = prim.batch(&Lazy, 2, &raised);
        }
    }
}

proptest! {
    #![proptest_config(config(3000))]

    #[test]
    fn hostile_numbers_are_errors(
        axes in 0..3usize,
        numbers in prop::collection::vec(hostile(), 32),
        groups in hostile(),
    ) {
        let list = |from: usize| -> Dims { (0..axes).map(|a| numbers[from + a]).collect() };
        let signed = |from: usize| (0..axes).map(|a| numbers[from + a] as isize).collect();
        let conv = Convolution {
            strides: list(0),
            low: signed(3),
            high: signed(6),
            interior: list(9),
            dilations: list(12),
            groups,
        };
        let shape = |from: usize| [&numbers[from..from + 2], &list(from + 2)].concat();
        let leaf = |shape: Vec<usize>| Value::leaf(TensorType::new(DType::F32, shape));
        if let (Ok(x), Ok(weight)) = (leaf(shape(15)), leaf(shape(20))) {
            drive(&Prim::Window(Window::Conv(Box::new(conv))), &[x, weight]);
        }
        let window = Movement::Window(Box::new(Windows {
            axes: (0..axes).collect(),
            sizes: list(0).iter().map(|&size| size.min(64)).collect(),
            steps: list(3),
            dilations: list(6),
        }));
        if let Ok(x) = leaf(list(25).to_vec()) {
            drive(&Prim::Movement(window), &[x]);
        }
    }
}
