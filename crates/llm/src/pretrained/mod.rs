//! Language models that others have trained, from their files: a GGUF file or a folder of Hugging Face.
//!
//! Both say the same in other words. [`gguf`](mod@gguf) and [`folder`] translate each into a configuration of
//! [`Llama`] and parameters by its names; [`Texts`] is what comes with the model for texts. Weights go to the device one
//! tensor at a time: those that [`LlamaConfig::packed`] names as the blocks that they are in the file, all others as
//! `f32`. [`Pretrained::config`] names none, [`Pretrained::packed_config`] all that the file has packed.
//!
//! What a file says and this engine does not compute is refused by name: a model that runs is the one in the file.

#[cfg(feature = "tokenizer")]
mod agreement;
#[cfg_attr(not(feature = "tokenizer"), allow(dead_code))]
mod base;
mod folder;
mod gguf;
mod scaling;
#[cfg(feature = "tokenizer")]
mod sentences;
#[cfg(feature = "tokenizer")]
mod texts;

use std::path::Path;

use lanthorn_io::gguf::{Gguf, View};
use lanthorn_io::shown_shape;
use lanthorn_ir::{DType, Error, ErrorKind, Result};
use lanthorn_nn::params::ParamSpec;
use lanthorn_nn::{Llama, LlamaConfig, Model, Params};
use lanthorn_runtime::{Device, EagerTensor};

pub use folder::Folder;
pub use gguf::name_of as gguf_name;
#[cfg(feature = "tokenizer")]
pub use texts::Texts;

use crate::Generator;

/// A model in its files.
#[derive(Debug)]
pub enum Pretrained {
    /// One file of llama.cpp.
    Gguf(Gguf),
    /// `config.json`, safetensors and `tokenizer.json` in a folder.
    Folder(Folder),
}

/// Room for so many elements of a tensor of that name.
fn room<T>(name: &str, elements: usize) -> Result<Vec<T>> {
    let mut room = Vec::new();
    room.try_reserve_exact(elements).map_err(|_| {
        let bytes = elements.saturating_mul(size_of::<T>());
        let message = format!("tensor `{name}` takes {bytes} bytes, more than there is memory");
        Error::new(ErrorKind::OutOfMemory, "model", message)
    })?;
    Ok(room)
}

/// The elements of a tensor; integers and doubles are rounded to single precision.
///
/// Errors: memory.
fn unpacked(name: &str, view: &View<'_>) -> Result<Vec<f32>> {
    let mut elements = room(name, view.elements())?;
    elements.resize(view.elements(), 0.0);
    view.encoding.unpack(view.bytes, &mut elements)?;
    Ok(elements)
}

impl Pretrained {
    /// Opens a model; weights are read where they are touched.
    ///
    /// Errors: there is no such file or folder, or it is no model of either kind.
    pub fn open(path: impl AsRef<Path>) -> Result<Pretrained> {
        let path = path.as_ref();
        if path.is_dir() {
            return Ok(Pretrained::Folder(Folder::open(path)?));
        }
        Ok(Pretrained::Gguf(Gguf::open(path)?))
    }

    /// The name under which errors speak of the model.
    pub fn subject(&self) -> &str {
        match self {
            Pretrained::Gguf(file) => file.subject(),
            Pretrained::Folder(folder) => folder.subject(),
        }
    }

    /// The model's configuration.
    ///
    /// Errors: a size that is missing or wrong; another family; what this engine does not compute.
    pub fn config(&self) -> Result<LlamaConfig> {
        match self {
            Pretrained::Gguf(file) => gguf::config(file),
            Pretrained::Folder(folder) => folder.config(),
        }
    }

    /// [`Pretrained::config`] with every matrix that the file has packed kept so: a model of the file's size, whose
    /// products read the blocks.
    ///
    /// Errors: as [`Pretrained::config`].
    pub fn packed_config(&self) -> Result<LlamaConfig> {
        let mut config = self.config()?;
        let Pretrained::Gguf(file) = self else { return Ok(config) };
        let llama = Llama::new(config.clone()).map_err(|error| self.about(error))?;
        for spec in llama.specs().into_iter().filter(|spec| spec.shape.len() == 2) {
            let encoding = file.get(&gguf::name_of(&spec.name))?.encoding;
            if encoding.is_packed() {
                config.packed.insert(spec.name, encoding);
            }
        }
        Ok(config)
    }

    /// The model of a configuration with the files' weights on a device. The configuration is that of
    /// [`Pretrained::config`], perhaps with a shorter context, which takes less memory.
    ///
    /// Errors: a weight that is missing, of another shape, or unknown to the family; memory.
    pub fn model(&self, device: &Device, config: LlamaConfig) -> Result<(Llama, Params<EagerTensor>)> {
        let llama = Llama::new(config).map_err(|error| self.about(error))?;
        let specs = llama.specs();
        self.check_names(&specs)?;
        let params = specs
            .iter()
            .map(|spec| Ok((spec.name.clone(), self.weight(device, llama.config(), spec)?)))
            .collect::<Result<_>>()?;
        Ok((llama, params))
    }

    /// [`Pretrained::model`], ready to generate.
    ///
    /// Errors: as that.
    pub fn generator(&self, device: &Device, config: LlamaConfig) -> Result<Generator<Llama>> {
        let (llama, params) = self.model(device, config)?;
        Ok(Generator::new(device, llama, params)?.named(self.subject()))
    }

    /// What comes with the model for texts.
    ///
    /// Errors: no tokenizer, or one that is wrong; a chat template that is none.
    #[cfg(feature = "tokenizer")]
    pub fn texts(&self) -> Result<Texts> {
        match self {
            Pretrained::Gguf(file) => Texts::from_gguf(file.metadata()),
            Pretrained::Folder(folder) => Texts::from_folder(folder),
        }
    }

    /// The error told of the file that has the configuration.
    fn about(&self, error: Error) -> Error {
        let op = match self {
            Pretrained::Gguf(file) => file.subject().to_owned(),
            Pretrained::Folder(folder) => folder.path_of(folder::CONFIG),
        };
        Error { op, ..error }
    }

    /// The name under which errors speak of the file that has a tensor.
    fn file_of(&self, tensor: &str) -> &str {
        match self {
            Pretrained::Gguf(file) => file.subject(),
            Pretrained::Folder(folder) => folder.file_of(tensor),
        }
    }

    /// A parameter on the device, packed or in `f32`.
    fn weight(&self, device: &Device, config: &LlamaConfig, spec: &ParamSpec) -> Result<EagerTensor> {
        let (name, view) = match self {
            Pretrained::Gguf(file) => {
                let name = gguf::name_of(&spec.name);
                let view = file.get(&name)?;
                (name, view)
            }
            Pretrained::Folder(folder) => {
                let name = folder.stored(base::LLAMA, &spec.name);
                let view = folder.get(&name)?;
                (name, view)
            }
        };
        let View { shape, encoding, bytes } = view;
        self.check_shape(&name, shape, spec)?;
        if let Some(packed) = spec.encoding.filter(|&packed| packed != encoding) {
            let message = format!(
                "tensor `{name}` is {encoding} and should stay packed as {packed}; {encoding} would be right"
            );
            return Err(self.refusal(&name, message));
        }
        let (rows, head_dim) = (shape.first().copied().unwrap_or(0), config.head_dim);
        match (self, spec.encoding) {
            (Pretrained::Gguf(_), Some(_)) => {
                let blocks = gguf::in_halves(&spec.name, head_dim, rows, bytes)?;
                EagerTensor::from_slice(device, &spec.ty(DType::F32).shape, &blocks)
            }
            (Pretrained::Gguf(_), None) => {
                let elements = gguf::in_halves(&spec.name, head_dim, rows, &unpacked(&name, &view)?)?;
                EagerTensor::from_slice(device, shape, &elements)
            }
            (Pretrained::Folder(_), _) => EagerTensor::from_slice(device, shape, &unpacked(&name, &view)?),
        }
    }

    /// Refuses a tensor of another shape than the parameter's.
    fn check_shape(&self, name: &str, shape: &[usize], spec: &ParamSpec) -> Result<()> {
        if *shape == spec.shape[..] {
            return Ok(());
        }
        let (found, expected) = (shown_shape(shape), shown_shape(&spec.shape));
        Err(self.refusal(name, format!("tensor `{name}` has the shape {found}; {expected} would be right")))
    }

    /// Refuses tensors that the family does not have: leaving a bias out would give another model.
    fn check_names(&self, specs: &[ParamSpec]) -> Result<()> {
        let unknown = match self {
            Pretrained::Gguf(file) => {
                let known: Vec<String> = specs.iter().map(|spec| gguf::name_of(&spec.name)).collect();
                let mut names = file.iter().map(|(name, _)| name);
                names.find(|name| !gguf::is_settled(name) && !known.iter().any(|known| known == name))
            }
            Pretrained::Folder(folder) => folder.names().find(|name| {
                let parameter = folder.parameter(base::LLAMA, name).unwrap_or_default();
                !folder::is_settled(name) && !specs.iter().any(|spec| spec.name == parameter)
            }),
        };
        match unknown {
            None => Ok(()),
            Some(name) => Err(self.unknown(name, "llama")),
        }
    }

    /// Refuses a tensor that `family` does not have.
    fn unknown(&self, tensor: &str, family: &str) -> Error {
        let expected = "a model of this family as it was published would be right";
        let message = format!(
            "it has a tensor `{tensor}`, which a {family} with these settings does not have; {expected}"
        );
        self.refusal(tensor, message)
    }

    /// An error about a tensor.
    fn refusal(&self, tensor: &str, message: String) -> Error {
        Error::new(ErrorKind::Format, self.file_of(tensor), message)
    }
}
