//! Folders of models whose settings are not what anybody meant: every value of every file of JSON but the tokenizer's,
//! changed. What opens them gives a model or an error that names the file, and never panics.
#![cfg(feature = "tokenizer")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lanthorn_ir::Result;
use lanthorn_llm::Pretrained;
use lanthorn_nn::Llama;
use lanthorn_runtime::Device;
use serde_json::{Value, json};

/// The paths to all values that hold no others, and to those that do.
fn paths(value: &Value, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    found.push(path.clone());
    let mut within = |step: String, value: &Value| {
        path.push(step);
        paths(value, path, found);
        path.pop();
    };
    match value {
        // Further ones are as the first.
        Value::Array(list) => {
            list.iter().take(4).enumerate().for_each(|(at, value)| within(at.to_string(), value))
        }
        Value::Object(object) => object.iter().for_each(|(name, value)| within(name.clone(), value)),
        _ => {}
    }
}

fn with(mut value: Value, path: &[String], other: Value) -> Value {
    let place = path.iter().fold(&mut value, |value, step| match value {
        Value::Array(list) => &mut list[step.parse::<usize>().unwrap()],
        object => &mut object[step.as_str()],
    });
    *place = other;
    value
}

fn others() -> Vec<Value> {
    let numbers = [0, 1, 3, 1 << 31, 1 << 32, 1 << 62, u64::MAX].map(Value::from);
    let further = [json!(-1), json!(1e308), json!(1e-300), json!(0.5), Value::Null, json!(true)];
    let texts =
        [json!(""), json!("x"), json!("../../etc"), json!([]), json!([1]), json!({}), json!({"a": [{}]})];
    numbers.into_iter().chain(further).chain(texts).collect()
}

/// A copy of a fixture's folder.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Opens the folder after each change of each of these files; how many gave a model and how many an error.
fn tried(fixture: &str, files: &[&str], open: impl Fn(&Path) -> Result<()>) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture), folder.path());
    open(folder.path()).unwrap();
    let (mut opened, mut refused) = (0, 0);
    for file in files {
        let path: PathBuf = folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let mut places = Vec::new();
        paths(&value, &mut Vec::new(), &mut places);
        let changed = places
            .iter()
            .flat_map(|place| others().into_iter().map(|other| with(value.clone(), place, other)));
        let changed = changed.map(|value| value.to_string());
        let cut = (0..text.len()).step_by(7).map(|at| text.get(..at).unwrap_or("").to_owned());
        for content in changed.chain(cut) {
            fs::write(&path, &content).unwrap();
            match open(folder.path()) {
                Ok(()) => opened += 1,
                Err(error) => {
                    assert!(!error.message.is_empty() && !error.op.is_empty(), "{file}: {content}");
                    refused += 1;
                }
            }
        }
        fs::write(&path, text).unwrap();
    }
    (opened, refused)
}

#[test]
fn a_llama_with_settings_of_any_kind_opens_or_is_refused() {
    let open = |folder: &Path| {
        let model = Pretrained::open(folder)?;
        Llama::new(model.config()?)?;
        model.texts().map(|_| ())
    };
    let (opened, refused) = tried("llama/tied", &["config.json", "tokenizer_config.json"], open);
    assert!(opened > 100 && refused > 100, "{opened} {refused}");
}

#[test]
fn a_bert_with_settings_of_any_kind_embeds_or_is_refused() {
    let device = Device::new(Arc::new(lanthorn_cpu::CpuBackend));
    let files = [
        "config.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "tokenizer_config.json",
    ];
    let (opened, refused) =
        tried("bert/small", &files, |folder| Pretrained::open(folder)?.embedder(&device).map(|_| ()));
    assert!(opened > 100 && refused > 100, "{opened} {refused}");
}

/// The index names a file for each tensor.
#[test]
fn an_index_of_any_kind_opens_or_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/llama/tied"), folder.path());
    let path = folder.path().join("model.safetensors.index.json");
    let name = "model.norm.weight";
    let index = |file: Value| json!({"weight_map": {name: file}});
    fs::write(&path, index("model.safetensors".into()).to_string()).unwrap();
    Pretrained::open(folder.path()).unwrap();
    let wrong = others()
        .into_iter()
        .flat_map(|other| [other.clone(), index(other.clone()), json!({"weight_map": other})]);
    let named =
        [json!("config.json"), json!("no-such.safetensors"), json!("/etc/passwd"), json!(".."), json!(".")];
    for content in wrong.chain(named.map(index)).filter(|content| *content != json!({"weight_map": {}})) {
        fs::write(&path, content.to_string()).unwrap();
        assert!(Pretrained::open(folder.path()).is_err(), "{content}");
    }
    // What names no tensor at all has none.
    fs::write(&path, "{\"weight_map\": {}}").unwrap();
    let error = Pretrained::open(folder.path()).and_then(|model| {
        model.model(&Device::new(Arc::new(lanthorn_cpu::CpuBackend)), model.config()?).map(|_| ())
    });
    assert!(error.unwrap_err().to_string().contains("it has no tensor"));
}
