//! A run's state in host memory: JSON documents and named tensors, as a checkpoint file holds them.
//!
//! | document | what |
//! |---|---|
//! | `model` | the model's configuration |
//! | `trainer` | settings, steps done, precision |
//! | others | their owner's, such as `sampler` |
//!
//! | tensors | what |
//! |---|---|
//! | `params/NAME` | parameters |
//! | `optim/SLOT/NAME` | what the optimiser keeps, such as `optim/m/NAME` and `optim/v/NAME` |
//! | `ema/NAME` | averages of the parameters, where there are any |
//! | `state/NAME` | the model's state |

use std::path::Path;

use indexmap::IndexMap;
use lanthorn_io::{OwnedTensor, View, checkpoint};
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::host::HostTensor;
use crate::model::Model;
use crate::params::{ParamSpec, Params, matched};

/// Documents and tensors by name, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub documents: IndexMap<String, Value>,
    pub tensors: IndexMap<String, HostTensor>,
}

impl Snapshot {
    /// Adds a document, or replaces it.
    ///
    /// Errors: a value that is not JSON, such as a map whose keys are no text.
    pub fn insert(&mut self, name: &str, value: &impl Serialize) -> Result<()> {
        let document = serde_json::to_value(value).map_err(|error| fault(name, error.to_string()))?;
        self.documents.insert(name.to_owned(), document);
        Ok(())
    }

    /// A document.
    ///
    /// Errors: there is none of that name, or it says something else.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        let document =
            self.documents.get(name).ok_or_else(|| fault(name, "there is no such document".into()))?;
        T::deserialize(lanthorn_io::json::Document(document))
            .map_err(|error| fault(name, lanthorn_io::json::plain(&error)))
    }

    /// Writes a checkpoint file; an old one stays until the new one is complete.
    ///
    /// Errors: what the system refuses.
    pub fn save(&self, path: impl AsRef<Path>) -> lanthorn_io::Result<()> {
        let tensors = self.tensors.iter().map(|(name, tensor)| {
            let TensorType { dtype, shape } = tensor.ty();
            (name.as_str(), View { dtype: *dtype, shape, bytes: tensor.bytes() })
        });
        checkpoint::save(path.as_ref(), &self.documents, tensors)
    }

    /// Reads a checkpoint file.
    ///
    /// Errors: what the system refuses; a file that is no checkpoint, or of a newer version.
    pub fn load(path: impl AsRef<Path>) -> lanthorn_io::Result<Snapshot> {
        let path = path.as_ref();
        let file = checkpoint::Checkpoint::load(path)?;
        let mut snapshot = Snapshot { documents: file.documents, ..Snapshot::default() };
        for (name, OwnedTensor { dtype, shape, bytes }) in file.tensors {
            let tensor = HostTensor::new(TensorType::new(dtype, shape), bytes).map_err(|error| {
                lanthorn_io::Error::format(
                    path.display().to_string(),
                    error.to_string(),
                    "expected the bytes of its type",
                )
            })?;
            snapshot.tensors.insert(name, tensor);
        }
        Ok(snapshot)
    }

    /// The model and its parameters; what generation needs.
    ///
    /// Errors: a document or a parameter that is missing or wrong.
    pub fn model<M: Model>(&self) -> Result<(M, Params<HostTensor>)> {
        let model = M::from_config(self.get("model")?)?;
        let specs = model.specs();
        let first = specs.first().and_then(|spec| self.tensors.get(&format!("params/{}", spec.name)));
        let dtype = first.map_or(DType::F32, |tensor| tensor.ty().dtype);
        let params = self.values("params", &specs, dtype)?;
        Ok((model, params))
    }

    /// Adds the values of a group of tensors.
    pub(crate) fn insert_values(&mut self, group: &str, values: Params<HostTensor>) {
        self.tensors.extend(values.into_iter().map(|(name, value)| (format!("{group}/{name}"), value)));
    }

    /// The values of a group of tensors: exactly one for each parameter.
    pub(crate) fn values(
        &self,
        group: &str,
        specs: &[ParamSpec],
        dtype: DType,
    ) -> Result<Params<HostTensor>> {
        let prefix = format!("{group}/");
        let found = self
            .tensors
            .iter()
            .filter_map(|(name, tensor)| Some((name.strip_prefix(&prefix)?.to_owned(), tensor.clone())));
        matched(&format!("checkpoint {group}"), specs, dtype, found.collect(), HostTensor::ty)
    }
}

fn fault(name: &str, message: String) -> Error {
    Error::new(ErrorKind::Format, "checkpoint", format!("document `{name}`: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gpt, GptConfig};

    #[test]
    fn documents_come_back_and_faults_are_named() {
        let mut snapshot = Snapshot::default();
        snapshot.insert("progress", &(7u64, 0.1f64)).unwrap();
        assert_eq!(snapshot.get::<(u64, f64)>("progress").unwrap(), (7, 0.1));
        let missing = snapshot.get::<u64>("sampler").unwrap_err();
        assert_eq!(missing.to_string(), "checkpoint: document `sampler`: there is no such document");
        let list = snapshot.get::<crate::SamplerState>("progress").unwrap_err().to_string();
        assert!(list.contains("a list stands where an object is expected"), "{list}");
        let other = snapshot.get::<String>("progress").unwrap_err();
        let right = "checkpoint: document `progress`: a list stands where a string is expected";
        assert!(other.to_string().starts_with(right), "{other}");
    }

    #[test]
    fn a_file_brings_back_what_was_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.safetensors");
        let mut snapshot = Snapshot::default();
        snapshot.insert("progress", &(u64::MAX, 0.1f64)).unwrap();
        let tensor = HostTensor::from_f64(DType::F64, &[2, 1], [0.1, f64::NAN].into_iter()).unwrap();
        snapshot.tensors.insert("params/a.b".into(), tensor);
        snapshot.save(&path).unwrap();
        assert_eq!(Snapshot::load(&path).unwrap(), snapshot);
        std::fs::write(&path, b"nothing of the kind").unwrap();
        let error: Error = Snapshot::load(&path).unwrap_err().into();
        assert_eq!(error.kind, ErrorKind::Format);
    }

    #[test]
    fn a_model_needs_all_its_parameters() {
        let gpt = Gpt::new(GptConfig { layers: 0, ..GptConfig::small(3) }).unwrap();
        let mut snapshot = Snapshot::default();
        snapshot.insert("model", gpt.config()).unwrap();
        let params = crate::params::initial(&gpt.specs(), 1, DType::F64).unwrap();
        snapshot.insert_values("params", params.clone());
        let scalar = HostTensor::zeros(TensorType::scalar(DType::F32)).unwrap();
        snapshot.tensors.insert("optim/m/wte.weight".into(), scalar);
        let (model, found) = snapshot.model::<Gpt>().unwrap();
        assert_eq!((model.config(), found), (gpt.config(), params));
        snapshot.tensors.shift_remove("params/ln_f.bias");
        let error = snapshot.model::<Gpt>().unwrap_err().to_string();
        assert_eq!(error, "checkpoint params: there is no ln_f.bias, which the model needs");
    }
}
