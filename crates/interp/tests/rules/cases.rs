//! One case or more for every primitive and for every op that is more than one primitive.

use lanthorn_interp::HostTensor;
use lanthorn_ir::expr::{BinaryOp, F64, Scalar, UnaryOp};
use lanthorn_ir::layout::Dims;
use lanthorn_ir::prim::attention::{Attend, Position};
use lanthorn_ir::prim::{
    Attention, Contract, Control, Elementwise, Index, Loss, Movement, Norm, Prim, Reduce, ReduceOp, Scan,
    ScanOp, ScatterOp, Sort, State,
};
use lanthorn_ir::{Builder, DType, Lazy, Result, Value, ops, transform};

use crate::support::{Sequence, floats, ints};

type Function = Box<dyn Fn(&[Value]) -> Result<Vec<Value>>>;

pub struct Case {
    pub name: String,
    pub inputs: Vec<HostTensor>,
    pub f: Function,
    /// How many derivatives agree with finite differences at these inputs.
    pub orders: usize,
}

struct Cases(Vec<Case>);

impl Cases {
    fn smooth(
        &mut self,
        name: impl Into<String>,
        inputs: Vec<HostTensor>,
        f: impl Fn(&[Value]) -> Result<Vec<Value>> + 'static,
    ) {
        self.0.push(Case { name: name.into(), inputs, f: Box::new(f), orders: 2 });
    }

    fn op(
        &mut self,
        name: impl Into<String>,
        inputs: Vec<HostTensor>,
        f: impl Fn(&[Value]) -> Result<Value> + 'static,
    ) {
        self.smooth(name, inputs, move |v| Ok(vec![f(v)?]));
    }

    fn prim(&mut self, name: impl Into<String>, inputs: Vec<HostTensor>, prim: impl Into<Wrapped>) {
        let Wrapped(prim) = prim.into();
        self.smooth(name, inputs, move |v| Ok(Lazy.apply(prim.clone(), v)?.into_vec()));
    }
}

struct Wrapped(Prim);

macro_rules! wrapped {
    ($($family:ident),*) => {$(
        impl From<$family> for Wrapped {
            fn from(family: $family) -> Self {
                Wrapped(Prim::$family(family))
            }
        }
    )*};
}
wrapped!(Elementwise, Movement, Reduce, Contract, Index, Norm, Attention, Loss, State, Control, Scan, Sort);

fn dims(sizes: &[usize]) -> Dims {
    Dims::from_slice(sizes)
}

pub fn all() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    elementwise(&mut cases);
    movement(&mut cases);
    reduce(&mut cases);
    contract_and_index(&mut cases);
    norm(&mut cases);
    attention(&mut cases);
    loss_and_state(&mut cases);
    library(&mut cases);
    control(&mut cases);
    select(&mut cases);
    cases.0
}

fn elementwise(cases: &mut Cases) {
    let mut s = Sequence::new(1);
    for op in UnaryOp::ALL {
        let positive = matches!(op, UnaryOp::Log | UnaryOp::Log1p | UnaryOp::Sqrt | UnaryOp::Rsqrt);
        let x = match op {
            UnaryOp::Not => continue,
            UnaryOp::BitNot => ints(&[3], &[5, -7, 0]),
            UnaryOp::Acosh => s.tensor(&[2, 3], 1.3, 3.0),
            UnaryOp::Asin | UnaryOp::Acos | UnaryOp::Atanh | UnaryOp::Erfinv => s.tensor(&[2, 3], -0.8, 0.8),
            UnaryOp::Ndtri => s.tensor(&[2, 3], 0.1, 0.9),
            UnaryOp::Erfcinv => s.tensor(&[2, 3], 0.2, 1.8),
            UnaryOp::NdtriExp => s.tensor(&[2, 3], -3.0, -0.2),
            UnaryOp::Lgamma | UnaryOp::Digamma => s.tensor(&[2, 3], 0.6, 4.0),
            // Whole and half numbers are jumps.
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc => {
                floats(&[4], &[0.3, -1.2, 2.7, 0.8])
            }
            _ if positive => s.tensor(&[2, 3], 0.4, 2.0),
            _ => s.away_from_zero(&[2, 3]),
        };
        cases.prim(op.name(), vec![x], Elementwise::Unary(op));
    }
    for op in BinaryOp::ALL {
        let inputs = match op {
            BinaryOp::And | BinaryOp::Or => continue,
            op if op.is_bitwise() => vec![ints(&[3], &[5, -7, 12]), ints(&[3], &[1, 2, 3])],
            BinaryOp::Polygamma | BinaryOp::ErfcIntegral => {
                // The order is no operand in which derivatives are taken.
                cases.op(op.name(), vec![s.tensor(&[2, 3], 0.6, 4.0)], move |v| {
                    let order = ops::full_like(&Lazy, &v[0], 2.0)?;
                    Lazy.apply1(Prim::Elementwise(Elementwise::Binary(op)), &[order, v[0].clone()])
                });
                continue;
            }
            BinaryOp::Pow => vec![s.tensor(&[2, 3], 0.5, 2.0), s.away_from_zero(&[2, 3])],
            BinaryOp::Rem => vec![floats(&[3], &[5.3, -7.1, 2.2]), floats(&[3], &[2.0, 3.0, -0.9])],
            _ => vec![s.away_from_zero(&[2, 3]), s.away_from_zero(&[2, 3])],
        };
        cases.prim(op.name(), inputs, Elementwise::Binary(op));
    }
    // Whole powers at a base of zero and below: the masked branches of the slope.
    cases.op("pow at zero", vec![floats(&[4], &[0.0, -1.5, 2.0, 0.0])], |v| {
        ops::pow_scalar(&Lazy, &v[0], 3.0)
    });
    let condition = HostTensor::new(&[2, 2], vec![true, false, false, true]).unwrap();
    let inputs = vec![condition, s.away_from_zero(&[2, 2]), s.away_from_zero(&[2, 2])];
    cases.prim("where", inputs, Elementwise::Select);
    cases.prim("cast", vec![s.away_from_zero(&[3])], Elementwise::Cast(DType::F64));
    cases.op("broadcast add", vec![s.away_from_zero(&[2, 1, 3]), s.away_from_zero(&[4, 1])], |v| {
        ops::mul(&Lazy, &ops::add(&Lazy, &v[0], &v[1])?, &v[0])
    });
}

fn movement(cases: &mut Cases) {
    let mut s = Sequence::new(2);
    let x = || Sequence::new(20).tensor(&[2, 3, 4], -1.0, 1.0);
    let square = |name: &str, cases: &mut Cases, movement: Movement, x: HostTensor| {
        // Squared, so that there is a second derivative to see.
        cases.op(name, vec![x], move |v| {
            let y = Lazy.apply1(Prim::Movement(movement.clone()), v)?;
            ops::square(&Lazy, &y)
        });
    };
    square("reshape", cases, Movement::Reshape { shape: dims(&[4, 6]) }, x());
    square("permute", cases, Movement::Permute { axes: dims(&[2, 0, 1]) }, x());
    square("broadcast", cases, Movement::Broadcast { shape: dims(&[3, 2, 4]) }, s.tensor(&[2, 1], -1.0, 1.0));
    square(
        "broadcast of one",
        cases,
        Movement::Broadcast { shape: dims(&[1, 1, 3]) },
        s.tensor(&[1, 3], -1.0, 1.0),
    );
    let slice =
        Movement::Slice { starts: dims(&[0, 1, 0]), stops: dims(&[2, 3, 4]), steps: dims(&[1, 1, 3]) };
    square("slice", cases, slice, x());
    let slice = Movement::Slice { starts: dims(&[1]), stops: dims(&[6]), steps: dims(&[2]) };
    square("slice with a rest", cases, slice, s.tensor(&[7], -1.0, 1.0));
    let slice = Movement::Slice { starts: dims(&[3]), stops: dims(&[3]), steps: dims(&[2]) };
    square("slice of nothing", cases, slice, s.tensor(&[7], -1.0, 1.0));
    square("flip", cases, Movement::Flip { axes: dims(&[0, 2]) }, x());
    let pad = Movement::Pad { low: dims(&[1, 0]), high: dims(&[0, 2]), interior: dims(&[0, 2]) };
    square("pad", cases, pad, s.tensor(&[2, 3], -1.0, 1.0));
    let parts =
        vec![s.tensor(&[2, 1], -1.0, 1.0), s.tensor(&[2, 0], -1.0, 1.0), s.tensor(&[2, 3], -1.0, 1.0)];
    cases.op("concat", parts, |v| ops::square(&Lazy, &ops::concat(&Lazy, v, 1)?));
    cases.op("pad with a value", vec![x()], |v| {
        ops::square(&Lazy, &ops::pad(&Lazy, &v[0], &[0, 1, 0], &[0, 0, 2], 3.0)?)
    });
    cases.op("roll and repeat", vec![x()], |v| {
        let rolled = ops::roll(&Lazy, &v[0], -1, 2)?;
        ops::square(&Lazy, &ops::repeat(&Lazy, &rolled, &[2, 1, 1, 2])?)
    });
    cases.smooth("split and stack", vec![x()], |v| {
        let parts = ops::split(&Lazy, &v[0], 2, 2)?;
        let stacked = ops::stack(&Lazy, &parts, -1)?;
        Ok(vec![ops::square(&Lazy, &stacked)?, ops::repeat_interleave(&Lazy, &parts[0], 3, 0)?])
    });
    cases.op("diagonal and tril", vec![s.tensor(&[2, 3, 3], -1.0, 1.0)], |v| {
        let lower = ops::tril(&Lazy, &v[0], -1)?;
        let both = ops::add(&Lazy, &lower, &ops::triu(&Lazy, &v[0], 1)?)?;
        let diagonal = ops::unsqueeze(&Lazy, &ops::diagonal(&Lazy, &v[0], 0, -2, -1)?, -1)?;
        ops::mul(&Lazy, &both, &diagonal)
    });
}

fn reduce(cases: &mut Cases) {
    let mut s = Sequence::new(3);
    for (op, name) in
        [(ReduceOp::Sum, "sum"), (ReduceOp::Prod, "prod"), (ReduceOp::Max, "max"), (ReduceOp::Min, "min")]
    {
        let x = s.away_from_zero(&[2, 3, 5]);
        cases.op(name, vec![x], move |v| {
            let y = Lazy.apply1(Prim::Reduce(Reduce::Fold { op, axes: dims(&[0, 2]) }), v)?;
            ops::square(&Lazy, &y)
        });
    }
    let zeros = floats(&[3, 4], &[1.0, 0.0, 2.0, 3.0, 0.0, 0.0, 1.5, 2.0, 1.0, 2.0, 3.0, -1.0]);
    cases.op("prod with zeros", vec![zeros], |v| ops::prod(&Lazy, &v[0], &[-1], false));
    cases.op("argmax", vec![s.away_from_zero(&[3, 4])], |v| ops::argmax(&Lazy, &v[0], Some(1), false));
    cases.op("argmin", vec![s.away_from_zero(&[3, 4])], |v| ops::argmin(&Lazy, &v[0], Some(0), true));
    cases.op("mean", vec![s.away_from_zero(&[3, 4])], |v| {
        ops::square(&Lazy, &ops::mean(&Lazy, &v[0], &[-1], true)?)
    });
    cases.op("var", vec![s.away_from_zero(&[3, 4])], |v| ops::var(&Lazy, &v[0], &[-1], 1.0, false));
    cases.op("std", vec![s.away_from_zero(&[3, 4])], |v| ops::std(&Lazy, &v[0], &[], 0.0, false));
    cases.op("norm", vec![s.away_from_zero(&[3, 4])], |v| ops::norm(&Lazy, &v[0], &[0], false, 2.0));
    cases.op("logsumexp", vec![s.away_from_zero(&[3, 4])], |v| ops::logsumexp(&Lazy, &v[0], &[-1], false));
    cases.op("weighted_mean", vec![s.away_from_zero(&[3, 4]), s.tensor(&[4], 0.5, 1.0)], |v| {
        ops::weighted_mean(&Lazy, &v[0], &v[1])
    });
}

fn contract_and_index(cases: &mut Cases) {
    let mut s = Sequence::new(4);
    let matmul = Contract::MatMul { out: DType::F64 };
    cases.prim("matmul", vec![s.away_from_zero(&[2, 3]), s.away_from_zero(&[3, 4])], matmul.clone());
    let inputs = vec![s.away_from_zero(&[2, 2, 3]), s.away_from_zero(&[2, 3, 2])];
    cases.prim("batched matmul", inputs, matmul);
    for (x, y) in [
        (&[3][..], &[3][..]),
        (&[3], &[2, 3, 2]),
        (&[2, 2, 3], &[3]),
        (&[2, 2, 3], &[3, 2]),
        (&[2, 1, 2, 3], &[2, 3, 2]),
    ] {
        let inputs = vec![s.away_from_zero(x), s.away_from_zero(y)];
        cases.op(format!("matmul {x:?} {y:?}"), inputs, |v| ops::matmul(&Lazy, &v[0], &v[1]));
    }
    let inputs = vec![s.away_from_zero(&[2, 2, 3]), s.away_from_zero(&[4, 3]), s.away_from_zero(&[4])];
    cases.op("linear", inputs, |v| ops::linear(&Lazy, &v[0], &v[1], Some(&v[2])));
    cases.op("dot and outer", vec![s.away_from_zero(&[3]), s.away_from_zero(&[3])], |v| {
        ops::mul(&Lazy, &ops::outer(&Lazy, &v[0], &v[1])?, &ops::dot(&Lazy, &v[0], &v[1])?)
    });
    let ids = || ints(&[2, 2], &[3, 0, 3, 1]);
    cases.op("embedding", vec![s.away_from_zero(&[4, 3]), ids()], |v| {
        ops::square(&Lazy, &ops::embedding(&Lazy, &v[0], &v[1])?)
    });
    cases.op("embedding_grad", vec![s.away_from_zero(&[2, 2, 3]), ids()], |v| {
        ops::square(&Lazy, &ops::embedding_grad(&Lazy, &v[0], &v[1], 5)?)
    });
    cases.op("index_select", vec![s.away_from_zero(&[2, 4, 3]), ints(&[3], &[2, 2, 0])], |v| {
        ops::square(&Lazy, &ops::index_select(&Lazy, &v[0], 1, &v[1])?)
    });
    let places = ints(&[2, 3, 2], &[0, 3, 1, 1, 2, 0, 3, 3, 3, 0, 1, 2]);
    cases.op("gather", vec![s.away_from_zero(&[2, 3, 4]), places], |v| {
        ops::square(&Lazy, &ops::gather(&Lazy, &v[0], -1, &v[1])?)
    });
    let places = ints(&[1, 3], &[1, 0, 1]);
    cases.op("gather along the first axis", vec![s.away_from_zero(&[2, 3]), places], |v| {
        ops::square(&Lazy, &ops::gather(&Lazy, &v[0], 0, &v[1])?)
    });
}

fn norm(cases: &mut Cases) {
    let mut s = Sequence::new(5);
    let shape = [2, 2, 4];
    let x = s.away_from_zero(&shape);
    let (dy, y) = (s.away_from_zero(&shape), s.tensor(&shape, 0.1, 0.5));
    let (weight, bias) = (s.away_from_zero(&[4]), s.away_from_zero(&[4]));
    let (mean, rstd) = (s.away_from_zero(&[2, 2, 1]), s.tensor(&[2, 2, 1], 0.5, 1.5));
    let eps = F64(1e-2);
    let of = |tensors: &[&HostTensor]| tensors.iter().map(|&t| t.clone()).collect::<Vec<_>>();
    cases.prim("softmax", of(&[&x]), Norm::Softmax);
    cases.prim("softmax_grad", of(&[&y, &dy]), Norm::SoftmaxGrad);
    cases.prim("log_softmax", of(&[&x]), Norm::LogSoftmax);
    cases.prim("log_softmax_grad", of(&[&y, &dy]), Norm::LogSoftmaxGrad);
    cases.prim("layer_norm", of(&[&x, &weight, &bias]), Norm::LayerNorm { eps });
    cases.prim("layer_norm_grad", of(&[&x, &weight, &mean, &rstd, &dy]), Norm::LayerNormGrad);
    cases.prim("rms_norm", of(&[&x, &weight]), Norm::RmsNorm { eps });
    cases.prim("rms_norm_grad", of(&[&x, &weight, &rstd, &dy]), Norm::RmsNormGrad);
    cases.op("softmax over the first axis", of(&[&x]), |v| ops::softmax(&Lazy, &v[0], 0));
    cases.op("log_softmax over the middle axis", of(&[&x]), |v| ops::log_softmax(&Lazy, &v[0], 1));
    cases.op("layer_norm without parameters", of(&[&x]), |v| ops::layer_norm(&Lazy, &v[0], None, None, 1e-2));
    cases.op("rms_norm without parameters", of(&[&x]), |v| ops::rms_norm(&Lazy, &v[0], None, 1e-2));
}

fn attention(cases: &mut Cases) {
    let mut s = Sequence::new(6);
    // (name, queries, keys, heads, key heads, causal, past)
    for (name, tq, tk, h, hk, causal, past) in [
        ("attention", 2, 3, 2, 2, false, None),
        ("causal attention", 3, 3, 2, 1, true, None),
        ("causal attention over more keys", 2, 3, 1, 1, true, None),
        ("causal attention with blind queries", 3, 2, 1, 1, true, None),
        ("attention over a cache", 2, 5, 2, 1, true, Some(1)),
        ("attention over a cache, not causal", 2, 5, 1, 1, false, Some(2)),
    ] {
        let (q, k, v) = (
            s.away_from_zero(&[2, tq, h, 2]),
            s.away_from_zero(&[2, tk, hk, 2]),
            s.away_from_zero(&[2, tk, hk, 2]),
        );
        let past: Vec<HostTensor> = past.iter().map(|&past| ints(&[], &[past])).collect();
        let attend = Attend {
            causal,
            position: if !past.is_empty() { Position::Past } else { Position::Last },
            ..Attend::new(0.7)
        };
        let with_past = |tensors: &[&HostTensor]| {
            tensors.iter().map(|&t| t.clone()).chain(past.iter().cloned()).collect::<Vec<_>>()
        };
        let forward = Attention::Forward(attend);
        // A blind query's log-sum-exp is -inf, of which finite differences know nothing.
        cases.smooth(name, with_past(&[&q, &k, &v]), move |x| {
            let outputs = Lazy.apply(Prim::Attention(forward), x)?;
            let seen = ops::maximum_scalar(&Lazy, &outputs[1], -1e3)?;
            Ok(vec![outputs[0].clone(), seen])
        });
        let (o, lse, t) = (
            s.away_from_zero(&[2, tq, h, 2]),
            s.away_from_zero(&[2, tq, h]),
            s.away_from_zero(&[2, tq, h, 2]),
        );
        let grad = Attention::Grad { attend, mask_grad: false };
        cases.prim(format!("{name}, backward"), with_past(&[&q, &k, &v, &o, &lse, &t]), grad);
    }
    let (q, k) = (s.away_from_zero(&[1, 2, 2, 2]), s.away_from_zero(&[1, 1, 3, 2]));
    cases.op("attention of views", vec![q, k.clone(), k], |v| {
        let [q, k, v] = [&v[0], &v[1], &v[2]].map(|x| ops::transpose(&Lazy, x, 1, 2));
        ops::attention(&Lazy, &q?, &k?, &v?, true, None, None)
    });
}

fn loss_and_state(cases: &mut Cases) {
    let mut s = Sequence::new(7);
    let (logits, targets) = (s.away_from_zero(&[3, 4]), ints(&[3], &[2, -1, 0]));
    let ignore = Some(-1);
    let of = |tensors: &[&HostTensor]| tensors.iter().map(|&t| t.clone()).collect::<Vec<_>>();
    cases.prim("cross_entropy", of(&[&logits, &targets]), Loss::CrossEntropy { ignore });
    let (lse, dloss) = (s.away_from_zero(&[3]), s.away_from_zero(&[3]));
    let inputs = of(&[&logits, &targets, &lse, &dloss]);
    cases.prim("cross_entropy_grad", inputs, Loss::CrossEntropyGrad { ignore });
    for (reduction, name) in [(ops::Reduction::Mean, "mean"), (ops::Reduction::Sum, "sum")] {
        cases.op(format!("cross_entropy, {name}"), of(&[&logits, &targets]), move |v| {
            ops::cross_entropy(&Lazy, &v[0], &v[1], reduction, ignore, None, 0.0, -1)
        });
    }
    let (x, y) = (s.away_from_zero(&[2, 3]), s.tensor(&[2, 3], 0.0, 0.2));
    cases.op("mse_loss", of(&[&x, &y]), |v| ops::mse_loss(&Lazy, &v[0], &v[1], ops::Reduction::Mean));
    cases.op("l1_loss", of(&[&x, &y]), |v| ops::l1_loss(&Lazy, &v[0], &v[1], ops::Reduction::None));
    cases.op("huber_loss", of(&[&x, &y]), |v| ops::huber_loss(&Lazy, &v[0], &v[1], 0.7, ops::Reduction::Sum));
    cases.op("binary_cross_entropy_with_logits", of(&[&x, &y]), |v| {
        ops::binary_cross_entropy_with_logits(&Lazy, &v[0], &v[1], ops::Reduction::Mean, None, None)
    });

    let start = ints(&[], &[1]);
    let (base, source) = (s.away_from_zero(&[2, 4, 2]), s.away_from_zero(&[2, 2, 2]));
    cases.op("update_slice", of(&[&base, &source, &start]), |v| {
        ops::square(&Lazy, &ops::update_slice(&Lazy, &v[0], &v[1], &v[2], 1)?)
    });
    let adamw = State::AdamW { beta1: F64(0.8), beta2: F64(0.9), eps: F64(0.1), weight_decay: F64(0.3) };
    let mut inputs = vec![s.away_from_zero(&[2, 2]), s.away_from_zero(&[2, 2]), s.away_from_zero(&[2, 2])];
    inputs.extend((0..4).map(|_| s.tensor(&[2, 2], 0.3, 0.9)));
    cases.prim("adamw", inputs, adamw);
}

fn library(cases: &mut Cases) {
    let mut s = Sequence::new(8);
    let x = s.away_from_zero(&[2, 3]);
    type Unary = fn(&Lazy, &Value) -> Result<Value>;
    let functions: [(&str, Unary); 7] = [
        ("tan", ops::tan),
        ("exp2", ops::exp2),
        ("softplus", |b, x| ops::softplus(b, x, 1.0, 20.0)),
        ("log_sigmoid", ops::log_sigmoid),
        ("square", ops::square),
        ("leaky_relu", |b, x| ops::leaky_relu(b, x, 0.1)),
        ("elu", |b, x| ops::elu(b, x, 1.3)),
    ];
    for (name, f) in functions {
        cases.op(name, vec![x.clone()], move |v| f(&Lazy, &v[0]));
    }
    cases.op("clamp", vec![x.clone()], |v| {
        ops::clamp(&Lazy, &v[0], Some(Scalar::float(-0.5)), Some(Scalar::float(0.6)))
    });
    cases.op("scalars", vec![x.clone()], |v| {
        let y = ops::rsub_scalar(&Lazy, &ops::mul_scalar(&Lazy, &v[0], 3.0)?, 1i64)?;
        ops::pow_scalar(&Lazy, &y, 2.0)
    });
    let key = HostTensor::from_i64(DType::U64, &[2], &[7, 1]).unwrap();
    cases.op("dropout", vec![x.clone(), key.clone()], |v| ops::dropout(&Lazy, &v[0], 0.4, &v[1], 3));
    cases.op("noise", vec![x, key], |v| {
        let noise = ops::normal(&Lazy, &v[1], &[2, 3], 1.0, 2.0, DType::F64, 0)?;
        let noise = ops::add(&Lazy, &noise, &ops::uniform(&Lazy, &v[1], &[2, 3], -1.0, 1.0, DType::F64, 1)?)?;
        ops::mul(&Lazy, &ops::square(&Lazy, &v[0])?, &noise)
    });
}

fn control(cases: &mut Cases) {
    let mut s = Sequence::new(9);
    let inputs = vec![s.away_from_zero(&[2, 3]), s.away_from_zero(&[3, 2]), ints(&[2], &[1, 0])];
    cases.smooth("checkpoint", inputs.clone(), |v| {
        let captured = ops::exp(&Lazy, &v[1])?;
        transform::checkpoint(
            |inner| {
                let h = ops::tanh(&Lazy, &ops::matmul(&Lazy, &inner[0], &captured)?)?;
                let rows = ops::embedding(&Lazy, &h, &inner[1])?;
                Ok(vec![ops::mul(&Lazy, &rows, &h)?, ops::sin(&Lazy, &inner[0])?])
            },
            &[v[0].clone(), v[2].clone()],
        )
    });
    cases.smooth("checkpoint in a checkpoint", inputs, |v| {
        transform::checkpoint(
            |outer| {
                let inner = transform::checkpoint(|x| Ok(vec![ops::exp(&Lazy, &x[0])?]), &outer[..1])?;
                Ok(vec![ops::mul(&Lazy, &inner[0], &outer[0])?])
            },
            &v[..1],
        )
    });
    cases.op("barrier", vec![s.away_from_zero(&[3]), s.away_from_zero(&[2])], |v| {
        let kept = Lazy.apply1(Prim::Control(Control::Barrier), v)?;
        ops::exp(&Lazy, &kept)
    });
}

fn select(cases: &mut Cases) {
    let mut s = Sequence::new(10);
    let places = ints(&[2, 2], &[2, 0, 1, 1]);
    cases.op("gather along an axis", vec![s.away_from_zero(&[2, 3]), places.clone()], |v| {
        ops::square(&Lazy, &ops::gather(&Lazy, &v[0], 1, &v[1])?)
    });
    for op in [ScatterOp::Set, ScatterOp::Add, ScatterOp::Mul, ScatterOp::Min, ScatterOp::Max] {
        // Two elements for one place, and a row of the base that no id names.
        let inputs = vec![s.away_from_zero(&[3, 3]), places.clone(), s.away_from_zero(&[2, 2])];
        cases.prim(format!("scatter {op:?}"), inputs, Index::Scatter { axis: 1, op });
    }
    for (op, reverse) in [
        (ScanOp::Sum, false),
        (ScanOp::Sum, true),
        (ScanOp::Prod, false),
        (ScanOp::Prod, true),
        (ScanOp::Max, false),
        (ScanOp::Max, true),
        (ScanOp::Min, false),
        (ScanOp::LogSumExp, false),
        (ScanOp::LogSumExp, true),
    ] {
        let name = format!("scan {op:?}, {reverse}");
        cases.prim(name, vec![s.away_from_zero(&[2, 5, 2])], Scan::Cumulative { op, axis: 1, reverse });
    }
    cases.prim("cumprod of zeros", vec![floats(&[5], &[2.0, 0.0, 3.0, 0.0, -1.5])], {
        Scan::Cumulative { op: ScanOp::Prod, axis: 0, reverse: false }
    });
    cases.prim("logcumsumexp of equals", vec![floats(&[4], &[0.5, 0.5, 0.5, -0.25])], {
        Scan::Cumulative { op: ScanOp::LogSumExp, axis: 0, reverse: false }
    });
    for descending in [false, true] {
        let x = s.away_from_zero(&[2, 5, 2]);
        cases.prim(format!("sort, {descending}"), vec![x], Sort::Stable { axis: 1, descending });
    }
    let product = |v: &[Value]| Lazy.apply1(Prim::Index(Index::Scatter { axis: 0, op: ScatterOp::Mul }), v);
    let zeros =
        vec![floats(&[2], &[0.0, 3.0]), ints(&[4], &[1, 1, 0, 1]), floats(&[4], &[0.0, 2.0, 1.5, 0.0])];
    cases.op("scatter_mul of zeros", zeros, product);
}
