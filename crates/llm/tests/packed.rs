//! Models whose weights stay packed: what they give is what their unpacked weights give.

use std::path::Path;
use std::sync::Arc;

use lanthorn_cpu::CpuBackend;
use lanthorn_io::gguf::{self, Encoding, Metadata, View};
use lanthorn_ir::DType;
use lanthorn_llm::{GenerationOptions, Pretrained, Sampling};
use lanthorn_nn::layers::Rotation;
use lanthorn_nn::models::gpt::Head;
use lanthorn_nn::{Llama, LlamaConfig, Mode, Model, Params, params};
use lanthorn_runtime::{CancelToken, Device, Eager, EagerTensor};

const LAYERS: u32 = 2;

fn config(head: Head) -> LlamaConfig {
    LlamaConfig {
        vocab: 96,
        context: 64,
        layers: LAYERS as usize,
        width: 64,
        inner: 96,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        rotation: Rotation { theta: 10_000.0, scaling: None },
        head,
        norm_eps: 1e-5,
        packed: Default::default(),
    }
}

/// A random model as a file; matrices packed in turn by `encodings`.
fn file(path: &Path, head: Head, encodings: &[Encoding]) {
    let mut metadata = Metadata::new("packed");
    metadata.insert("general.architecture", "llama");
    for (key, size) in [
        ("context_length", 64u32),
        ("embedding_length", 64),
        ("block_count", LAYERS),
        ("feed_forward_length", 96),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        metadata.insert(format!("llama.{key}"), size);
    }
    metadata.insert("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    let specs = Llama::new(config(head)).unwrap().specs();
    let first = params::initial(&specs, 11, DType::F32).unwrap();
    let mut matrices = 0;
    let tensors: Vec<(String, Encoding, Vec<usize>, Vec<u8>)> = specs
        .iter()
        .map(|spec| {
            // Four times the usual spread, so that attention has something to choose.
            let elements: Vec<f32> = first
                .get(&spec.name)
                .unwrap()
                .to_f32()
                .unwrap()
                .iter()
                .map(|element| element * 4.0)
                .collect();
            let encoding = match spec.shape.len() {
                2 => encodings[matrices % encodings.len()],
                _ => Encoding::F32,
            };
            matrices += usize::from(spec.shape.len() == 2);
            let name = lanthorn_llm::pretrained::gguf_name(&spec.name);
            (name, encoding, spec.shape.to_vec(), encoding.pack(&elements).unwrap())
        })
        .collect();
    let views = tensors
        .iter()
        .map(|(name, encoding, shape, bytes)| (name.as_str(), View { encoding: *encoding, shape, bytes }));
    gguf::save(path, views, &metadata).unwrap();
}

fn logits(model: &Pretrained, config: LlamaConfig, ids: &[i32]) -> (Vec<f32>, usize) {
    let device = Device::new(Arc::new(CpuBackend));
    let (llama, params) = model.model(&device, config).unwrap();
    let bytes = params.values().map(|tensor| tensor.ty().bytes()).sum();
    let ids = EagerTensor::from_slice(&device, &[1, ids.len()], ids).unwrap();
    let eager = Eager::new(&device);
    let (logits, _) = llama.forward(&eager, &params, &Params::new(), &ids, &Mode::Eval).unwrap();
    (logits.to_vec().unwrap(), bytes)
}

#[test]
fn packed_weights_give_the_logits_and_tokens_of_the_unpacked_ones() {
    use Encoding::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
    let folder = tempfile::tempdir().unwrap();
    for (name, head, encodings) in [
        ("q4", Head::Tied, &[Q4_1][..]),
        ("mixed", Head::Untied, &[Q8_0, Q4_0, Q5_1, Q5_0]),
        ("partly", Head::Untied, &[Q8_0, Encoding::F32, Encoding::F16]),
    ] {
        let path = folder.path().join(name);
        file(&path, head, encodings);
        let model = Pretrained::open(&path).unwrap();
        let (plain, packed) = (model.config().unwrap(), model.packed_config().unwrap());
        assert_eq!(plain, LlamaConfig { packed: Default::default(), ..packed.clone() });
        // A prompt of several rows, and of one.
        for ids in [&[3, 95, 17, 4, 4, 60, 31, 8, 9, 1, 0, 22][..], &[5]] {
            let ((right, whole), (found, small)) =
                (logits(&model, plain.clone(), ids), logits(&model, packed.clone(), ids));
            assert!(small < whole * 3 / 4, "{name}: {small} bytes of {whole}");
            let largest = right.iter().fold(0.0f32, |most, logit| most.max(logit.abs()));
            for (found, right) in found.iter().zip(&right) {
                assert!((found - right).abs() <= 1e-3 * largest, "{name}: {found} for {right}");
            }
        }
        let write = |config| {
            let device = Device::new(Arc::new(CpuBackend));
            let generator = model.generator(&device, config).unwrap();
            let options =
                GenerationOptions { max_tokens: 40, sampling: Sampling::greedy(), stop: Vec::new() };
            let generation = generator.generate(&[3, 95, 17], options, &CancelToken::never()).unwrap();
            generation.map(Result::unwrap).collect::<Vec<u32>>()
        };
        assert_eq!(write(plain), write(packed), "{name}");
    }
}

#[test]
fn a_weight_that_is_packed_otherwise_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    file(&path, Head::Tied, &[Encoding::Q4_1]);
    let model = Pretrained::open(&path).unwrap();
    let device = Device::new(Arc::new(CpuBackend));
    let refused = |name: &str, encoding| {
        let mut config = model.config().unwrap();
        config.packed.insert(name.into(), encoding);
        model.model(&device, config).unwrap_err().to_string()
    };
    let error = refused("model.embed_tokens.weight", Encoding::Q8_0);
    assert!(error.contains("`token_embd.weight` is Q4_1 and should stay packed as Q8_0"), "{error}");
    let error = refused("model.norm.weight", Encoding::Q8_0);
    assert!(error.contains("`model.norm.weight` is packed as Q8_0 and is no weight that can be"), "{error}");
    let error = refused("model.embed_tokens.weight", Encoding::Q6K);
    assert!(error.contains("expected rows of whole blocks of 256"), "{error}");
}
