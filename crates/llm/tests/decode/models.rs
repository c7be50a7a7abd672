//! Two small language models as plain functions of a builder, and what they give without a cache.

use lanthorn_cpu::CpuBackend;
use lanthorn_ir::philox::Philox;
use lanthorn_ir::{Builder, DType, Lazy, Result, TensorType, Value, ops, transform};
use lanthorn_llm::{DecodeProgram, DecodeRequest, KvDtype, Pool, Traced};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor, Options};

pub const VOCAB: usize = 40;
pub const CONTEXT: usize = 48;
const WIDTH: usize = 24;

pub fn device() -> Device {
    Device::new(std::sync::Arc::new(CpuBackend))
}

pub fn never() -> CancelToken {
    CancelToken::never()
}

/// What stands between a model's rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A table of positions, layer norms, as many key heads as query heads, a tied head.
    Learned,
    /// Rotations, norms of queries and keys by head, three query heads for each key head, a head of its own.
    Rotary,
}

#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub kind: Kind,
    pub layers: usize,
    /// Of attention, in layers of even and of odd number.
    pub windows: [Option<isize>; 2],
}

pub const GPT: Model = Model { kind: Kind::Learned, layers: 2, windows: [None; 2] };
pub const LLAMA: Model = Model { kind: Kind::Rotary, layers: 2, windows: [None; 2] };

impl Model {
    pub fn heads(self) -> (usize, usize, usize) {
        match self.kind {
            Kind::Learned => (4, 4, 6),
            Kind::Rotary => (6, 2, 8),
        }
    }

    /// The shapes of the parameters, in order.
    pub fn shapes(self) -> Vec<Vec<usize>> {
        let (heads, kv_heads, d) = self.heads();
        let mut shapes = vec![vec![VOCAB, WIDTH], vec![CONTEXT, WIDTH]];
        for _ in 0..self.layers {
            shapes.extend([vec![WIDTH], vec![WIDTH]]);
            shapes.extend([vec![heads * d, WIDTH], vec![kv_heads * d, WIDTH], vec![kv_heads * d, WIDTH]]);
            shapes.extend([vec![WIDTH, heads * d], vec![d], vec![WIDTH], vec![WIDTH]]);
            shapes.extend([vec![2 * WIDTH, WIDTH], vec![2 * WIDTH], vec![WIDTH, 2 * WIDTH]]);
        }
        shapes.extend([vec![WIDTH], vec![WIDTH], vec![VOCAB, WIDTH]]);
        shapes
    }

    /// Parameters of which a seed decides, such that logits differ widely.
    pub fn parameters(self, device: &Device, seed: u64) -> Vec<EagerTensor> {
        let one = |(at, shape): (usize, Vec<usize>)| {
            let words = Philox::new(seed, at as u64, 7);
            let count = shape.iter().product::<usize>() as u64;
            // Weights of norms stand around 1.
            let (middle, spread) = if shape.len() == 1 { (1.0, 0.4) } else { (0.0, 0.9) };
            let elements: Vec<f32> =
                (0..count).map(|i| (middle + spread * (words.unit(i) - 0.5)) as f32).collect();
            EagerTensor::from_slice(device, &shape, &elements).unwrap()
        };
        self.shapes().into_iter().enumerate().map(one).collect()
    }

    /// Logits `[1, length, vocab]` of `ids [1, length]` at `positions [length]`.
    pub fn forward<B: Builder>(
        self,
        b: &B,
        parameters: &[B::Value],
        ids: &B::Value,
        positions: &B::Value,
    ) -> Result<B::Value> {
        let mut parameters = parameters.iter();
        let mut next = || parameters.next().unwrap().clone();
        let (tokens, table) = (next(), next());
        let mut x = ops::embedding(b, &tokens, ids)?;
        if self.kind == Kind::Learned {
            x = ops::add(b, &x, &ops::embedding(b, &table, positions)?)?;
        }
        for layer in 0..self.layers {
            let weights: Vec<B::Value> = (0..12).map(|_| next()).collect();
            x = self.block(b, layer, &weights, &x, positions)?;
        }
        let (weight, bias, head) = (next(), next(), next());
        let x = self.norm(b, &x, &weight, &bias)?;
        let head = if self.kind == Kind::Learned { tokens } else { head };
        ops::linear(b, &x, &head, None)
    }

    fn norm<B: Builder>(self, b: &B, x: &B::Value, weight: &B::Value, bias: &B::Value) -> Result<B::Value> {
        match self.kind {
            Kind::Learned => ops::layer_norm(b, x, Some(weight), Some(bias), 1e-5),
            Kind::Rotary => ops::rms_norm(b, x, Some(weight), 1e-6),
        }
    }

    pub fn block<B: Builder>(
        self,
        b: &B,
        layer: usize,
        weights: &[B::Value],
        x: &B::Value,
        positions: &B::Value,
    ) -> Result<B::Value> {
        let [norm, shift, wq, wk, wv, wo, by_head, norm_2, shift_2, up, up_bias, down] = weights else {
            panic!("twelve weights")
        };
        let (heads, kv_heads, d) = self.heads();
        let length = b.ty(x).shape[1] as isize;
        let y = self.norm(b, x, norm, shift)?;
        let split = |weight: &B::Value, heads: usize| {
            let y = ops::linear(b, &y, weight, None)?;
            ops::reshape(b, &y, &[1, length, heads as isize, d as isize])
        };
        let (mut q, mut k, v) = (split(wq, heads)?, split(wk, kv_heads)?, split(wv, kv_heads)?);
        if self.kind == Kind::Rotary {
            let turned = |x: &B::Value| {
                let x = ops::rms_norm(b, x, Some(by_head), 1e-6)?;
                ops::rotary_embedding(
                    b,
                    &x,
                    Some(positions),
                    1000.0,
                    false,
                    1,
                    None,
                    None,
                    1.0,
                    4.0,
                    8192,
                    false,
                )
            };
            (q, k) = (turned(&q)?, turned(&k)?);
        }
        let window = self.windows[layer % 2].map(|window| window - 1);
        let o = if self.kind == Kind::Rotary && window.is_none() {
            ops::attention(b, &q, &k, &v, true, None, None)?
        } else {
            let [q, k, v] = [q, k, v].map(|x| ops::transpose(b, &x, 1, 2).unwrap());
            let o = ops::scaled_dot_product_attention(
                b, &q, &k, &v, true, None, None, None, 0.0, None, window, None, None, None, None, None, 0,
            )?;
            ops::transpose(b, &o, 1, 2)?
        };
        let o = ops::reshape(b, &o, &[1, length, (heads * d) as isize])?;
        let x = ops::add(b, x, &ops::linear(b, &o, wo, None)?)?;
        let y = ops::linear(b, &self.norm(b, &x, norm_2, shift_2)?, up, Some(up_bias))?;
        let y = ops::mul(b, &y, &ops::sigmoid(b, &y)?)?;
        ops::add(b, &x, &ops::linear(b, &y, down, None)?)
    }
}

/// Logits after each of `tokens`, by a whole forward.
pub fn whole(device: &Device, model: Model, parameters: &[EagerTensor], tokens: &[u32]) -> Vec<Vec<f32>> {
    let ids: Vec<i64> = tokens.iter().map(|&token| token.into()).collect();
    let positions: Vec<i32> = (0..tokens.len() as i32).collect();
    let ids = EagerTensor::from_slice(device, &[1, ids.len()], &ids).unwrap();
    let positions = EagerTensor::from_slice(device, &[positions.len()], &positions).unwrap();
    let logits = model.forward(&Eager::new(device), parameters, &ids, &positions).unwrap();
    logits.to_vec::<f32>().unwrap().chunks(VOCAB).map(<[f32]>::to_vec).collect()
}

/// Leaves and roots of a traced forward.
pub struct Trace {
    pub roots: Vec<Value>,
    pub tokens: Value,
    pub positions: Vec<Value>,
    pub bindings: Vec<Value>,
}

pub fn leaf(dtype: DType, shape: &[usize]) -> Value {
    Value::leaf(TensorType::new(dtype, shape)).unwrap()
}

impl Trace {
    /// Leaves for a model, and the roots that `forward` gives of parameters, ids and positions.
    pub fn of(
        model: Model,
        length: usize,
        forward: impl FnOnce(&[Value], &Value, &Value) -> Result<Vec<Value>>,
    ) -> Trace {
        let tokens = leaf(DType::U32, &[1, length]);
        let bindings: Vec<Value> = model.shapes().iter().map(|shape| leaf(DType::F32, shape)).collect();
        let positions = leaf(DType::I32, &[length]);
        let roots = forward(&bindings, &tokens, &positions).unwrap();
        Trace { roots, tokens, positions: vec![positions], bindings }
    }

    /// The forward of a model.
    pub fn model(model: Model, length: usize) -> Trace {
        Trace::of(model, length, |parameters, ids, positions| {
            Ok(vec![model.forward(&Lazy, parameters, ids, positions)?])
        })
    }

    /// The forward of a model whose backward would compute each block anew.
    pub fn checkpointed(model: Model, length: usize) -> Trace {
        Trace::of(model, length, |parameters, ids, positions| {
            let mut operands = parameters.to_vec();
            operands.extend([ids.clone(), positions.clone()]);
            let count = parameters.len();
            transform::checkpoint(
                |v| Ok(vec![model.forward(&Lazy, &v[..count], &v[count], &v[count + 1])?]),
                &operands,
            )
        })
    }

    pub fn program(&self, device: &Device, request: &DecodeRequest) -> Result<DecodeProgram> {
        let traced = Traced {
            roots: &self.roots,
            tokens: &self.tokens,
            positions: &self.positions,
            bindings: &self.bindings,
        };
        DecodeProgram::new(device, traced, request, &Options::default())
    }
}

pub fn request(block_size: usize, batch: usize) -> DecodeRequest {
    DecodeRequest {
        max_tokens: 160,
        block_size,
        kv_dtype: KvDtype::F32,
        window: None,
        batch,
        last_token_row: true,
        sequences: None,
    }
}

/// Programs of one model over one pool: pieces of `chunk` tokens, and single tokens of a batch.
pub struct Engine {
    pub pool: Pool,
    pub parameters: Vec<EagerTensor>,
    pub prefill: DecodeProgram,
    pub step: DecodeProgram,
}

impl Engine {
    pub fn new(device: &Device, model: Model, chunk: usize, request: &DecodeRequest) -> Engine {
        let single = DecodeRequest { batch: 1, ..request.clone() };
        let prefill = Trace::model(model, chunk).program(device, &single).unwrap();
        let step = Trace::model(model, 1).program(device, request).unwrap();
        assert_eq!(prefill.pool(), step.pool());
        let pool = Pool::new(device, step.pool().clone()).unwrap();
        Engine { pool, parameters: model.parameters(device, 3), prefill, step }
    }

    pub fn bindings(&self) -> Vec<&EagerTensor> {
        self.parameters.iter().collect()
    }

    /// Logits after the last of `tokens`, read in pieces behind what the sequence has.
    pub fn read(&self, sequence: &lanthorn_llm::Sequence, tokens: &[u32]) -> Result<Vec<f32>> {
        let mut logits = Vec::new();
        for piece in tokens.chunks(self.prefill.length()) {
            let found = self.prefill.call(&self.pool, &self.bindings(), &[sequence], &[piece], &never())?;
            logits = found[0].to_vec()?;
        }
        Ok(logits)
    }

    /// Logits after one more token of each sequence.
    pub fn step(&self, entries: &[(&lanthorn_llm::Sequence, u32)]) -> Result<Vec<Vec<f32>>> {
        let sequences: Vec<_> = entries.iter().map(|entry| entry.0).collect();
        let tokens: Vec<&[u32]> = entries.iter().map(|entry| std::slice::from_ref(&entry.1)).collect();
        let found = self.step.call(&self.pool, &self.bindings(), &sequences, &tokens, &never())?;
        assert_eq!(found[0].shape(), [entries.len(), VOCAB]);
        Ok(found[0].to_vec::<f32>()?.chunks(VOCAB).map(<[f32]>::to_vec).collect())
    }
}

pub fn text(length: usize, seed: u64) -> Vec<u32> {
    let words = Philox::new(seed, 0, 0);
    (0..length as u64).map(|i| words.below(i, VOCAB as u64) as u32).collect()
}

pub fn best(logits: &[f32]) -> u32 {
    (0..logits.len()).max_by(|&x, &y| logits[x].total_cmp(&logits[y])).unwrap() as u32
}

/// The largest difference, relative to the largest logit.
pub fn distance(x: &[f32], y: &[f32]) -> f32 {
    assert_eq!(x.len(), y.len());
    let scale = y.iter().fold(1e-30, |most: f32, y| most.max(y.abs()));
    x.iter().zip(y).fold(0.0, |most: f32, (x, y)| most.max((x - y).abs())) / scale
}
