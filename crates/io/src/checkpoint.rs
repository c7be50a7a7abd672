//! A training run's state in one file: JSON documents and tensors.
//!
//! A checkpoint is a safetensors file, so any tool that knows the format can look at the tensors. Its metadata holds
//!
//! | key | value |
//! |---|---|
//! | `format` | `lanthorn-checkpoint` |
//! | `version` | the format's version in decimal, now 1 |
//! | `document/NAME` | a JSON document: the model's configuration, the step, the sampler's state ... |
//!
//! By convention parameters are tensors named `params/...` and the optimiser's state `optim/...`. What the documents
//! say is their writer's business; this module only promises that what was saved comes back: documents and tensors in
//! their order, integers in full, floating-point numbers bit for bit. JSON knows no NaN or infinity; a document that
//! needs them says so in its own words.
//!
//! A newer version is refused, an older one is read for ever.

use crate::error::shorten;
use crate::safetensors::{self, OwnedTensor, Tensors, View};
use crate::{Error, Result, json};
use indexmap::IndexMap;
use serde_json::Value;
use std::path::Path;

/// The value of the metadata key `format`.
pub const FORMAT: &str = "lanthorn-checkpoint";

/// The version that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 1;

const FORMAT_KEY: &str = "format";
const VERSION_KEY: &str = "version";
const DOCUMENT_PREFIX: &str = "document/";

/// Named JSON documents, in order.
pub type Documents = IndexMap<String, Value>;

/// A run's state in memory.
///
/// ```
/// use lanthorn_io::{Checkpoint, OwnedTensor};
/// use serde_json::json;
///
/// let mut checkpoint = Checkpoint::default();
/// checkpoint.documents.insert("progress".to_owned(), json!({ "step": 400, "loss": 2.75 }));
/// checkpoint.tensors.insert("params/bias".to_owned(), OwnedTensor::from_f32(vec![2], &[0.5, -0.5]));
///
/// let path = std::env::temp_dir().join(format!("lanthorn-checkpoint-{}.safetensors", std::process::id()));
/// checkpoint.save(&path).unwrap();
/// assert_eq!(Checkpoint::load(&path).unwrap(), checkpoint);
/// # std::fs::remove_file(&path).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// JSON documents by name.
    pub documents: Documents,
    /// Tensors by name.
    pub tensors: IndexMap<String, OwnedTensor>,
}

impl Checkpoint {
    /// Writes the checkpoint, all of it or nothing ([`crate::atomic`]).
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be written; the old one is untouched. `format`: as [`safetensors::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        save(path, &self.documents, self.views())
    }

    /// The bytes of the file that [`Checkpoint::save`] writes.
    ///
    /// # Errors
    ///
    /// `format`: as [`safetensors::save`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        safetensors::to_bytes(self.views(), &metadata(&self.documents)?)
    }

    /// Reads a checkpoint into memory.
    ///
    /// # Errors
    ///
    /// `io`: the file cannot be read. `format`: it is cut short or damaged, no checkpoint, or one of a newer version.
    pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
        Ok(Checkpoint::copy(open(path)?))
    }

    /// Reads a checkpoint from memory; `subject` names it in errors.
    ///
    /// # Errors
    ///
    /// `format`: as [`Checkpoint::load`].
    pub fn from_bytes(subject: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Result<Checkpoint> {
        Ok(Checkpoint::copy(with_documents(Tensors::from_bytes(subject, bytes)?)?))
    }

    /// The document of that name.
    ///
    /// # Errors
    ///
    /// `format`: there is none.
    pub fn document(&self, name: &str) -> Result<&Value> {
        self.documents.get(name).ok_or_else(|| missing_document(&self.documents, name))
    }

    fn copy((documents, tensors): (Documents, Tensors)) -> Checkpoint {
        let tensors = tensors.iter().map(|(name, view)| (name.to_owned(), view.to_tensor())).collect();
        Checkpoint { documents, tensors }
    }

    fn views(&self) -> impl Iterator<Item = (&str, View<'_>)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.view()))
    }
}

/// Writes a checkpoint from tensors that lie elsewhere, without copying them.
///
/// # Errors
///
/// As [`Checkpoint::save`].
pub fn save<'a>(
    path: impl AsRef<Path>,
    documents: &Documents,
    tensors: impl IntoIterator<Item = (&'a str, View<'a>)>,
) -> Result<()> {
    safetensors::save(path, tensors, &metadata(documents)?)
}

/// Opens a checkpoint without copying its tensors: only the header and the documents are read.
///
/// # Errors
///
/// As [`Checkpoint::load`].
pub fn open(path: impl AsRef<Path>) -> Result<(Documents, Tensors)> {
    with_documents(Tensors::open(path)?)
}

fn metadata(documents: &Documents) -> Result<IndexMap<String, String>> {
    let mut metadata = IndexMap::with_capacity(2 + documents.len());
    metadata.insert(FORMAT_KEY.to_owned(), FORMAT.to_owned());
    metadata.insert(VERSION_KEY.to_owned(), VERSION.to_string());
    for (name, document) in documents {
        metadata.insert(format!("{DOCUMENT_PREFIX}{name}"), document.to_string());
    }
    Ok(metadata)
}

fn with_documents(tensors: Tensors) -> Result<(Documents, Tensors)> {
    let metadata = tensors.metadata();
    check_version(tensors.subject(), metadata)?;
    let mut documents = Documents::new();
    for (key, text) in metadata {
        let Some(name) = key.strip_prefix(DOCUMENT_PREFIX) else { continue };
        let document = serde_json::from_str(text).map_err(|error| {
            Error::format(
                tensors.subject(),
                format!("the document `{}` is not JSON: {}", shorten(name), json::plain(&error)),
                "the checkpoint is damaged; use an earlier one",
            )
        })?;
        documents.insert(name.to_owned(), document);
    }
    Ok((documents, tensors))
}

fn check_version(subject: &str, metadata: &IndexMap<String, String>) -> Result<()> {
    if metadata.get(FORMAT_KEY).map(String::as_str) != Some(FORMAT) {
        return Err(Error::format(
            subject,
            "it is a safetensors file and not a checkpoint of Lanthorn",
            "a file that `lanthorn train` wrote would be right",
        ));
    }
    let version = metadata.get(VERSION_KEY).map_or("", String::as_str);
    match version.parse::<u32>() {
        Ok(1..=VERSION) => Ok(()),
        Ok(newer) if newer > VERSION => Err(Error::format(
            subject,
            format!("it is a checkpoint of version {newer}, written by a newer Lanthorn"),
            format!("this one reads versions up to {VERSION}"),
        )),
        _ => Err(Error::format(
            subject,
            format!("the checkpoint's version is `{}`", shorten(version)),
            format!("a number from 1 to {VERSION} would be right"),
        )),
    }
}

fn missing_document(documents: &Documents, name: &str) -> Error {
    let names: Vec<_> = documents.keys().map(|name| format!("`{}`", shorten(name))).collect();
    Error::format(
        "checkpoint",
        format!("it has no document `{name}`"),
        match names.is_empty() {
            true => "it has no documents at all".to_owned(),
            false => format!("its documents are {}", names.join(", ")),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lanthorn_ir::DType;
    use proptest::prelude::*;
    use serde_json::json;

    fn example() -> Checkpoint {
        let mut checkpoint = Checkpoint::default();
        for (name, document) in [
            ("model", json!({ "layers": 4, "width": 256 })),
            ("progress", json!({ "step": 400, "seed": u64::MAX, "history": [0.1, 1e-300, 2.5e17] })),
            ("note", json!("naïve \"quotes\" \u{0} and\nlines")),
        ] {
            checkpoint.documents.insert(name.to_owned(), document);
        }
        for (name, dtype) in [("params/w", DType::F32), ("params/b", DType::BF16), ("optim/m", DType::F64)] {
            let bytes = (0..6 * dtype.size()).map(|at| at as u8).collect();
            let tensor = OwnedTensor { dtype, shape: vec![2, 3], bytes };
            checkpoint.tensors.insert(name.to_owned(), tensor);
        }
        checkpoint
    }

    /// A checkpoint file with this metadata and no tensors.
    fn with_metadata(entries: &[(&str, &str)]) -> Result<Checkpoint> {
        let metadata = entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let bytes = safetensors::to_bytes([], &metadata).unwrap();
        Checkpoint::from_bytes("run.safetensors", bytes)
    }

    #[test]
    fn documents_and_tensors_come_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        let saved = example();
        saved.save(&path).unwrap();
        let loaded = Checkpoint::load(&path).unwrap();
        assert_eq!(loaded, saved);
        assert!(loaded.documents.keys().eq(saved.documents.keys()));
        assert!(loaded.tensors.keys().eq(saved.tensors.keys()));
        assert_eq!(std::fs::read(&path).unwrap(), saved.to_bytes().unwrap());

        let (documents, tensors) = open(&path).unwrap();
        assert_eq!(documents, saved.documents);
        assert_eq!(tensors.get("params/w").unwrap(), saved.tensors["params/w"].view());
    }

    #[test]
    fn what_cannot_be_written_is_an_error_and_the_old_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        example().save(&path).unwrap();
        let mut wrong = example();
        wrong.tensors[0].bytes.pop();
        let message = wrong.save(&path).unwrap_err().to_string();
        assert!(
            message.contains("tensor `params/w` has 23 bytes; f32 of shape [2, 3] needs 24"),
            "{message}"
        );
        assert_eq!(Checkpoint::load(&path).unwrap(), example());
        let message = example().save(path.join("inside")).unwrap_err().to_string();
        assert!(message.starts_with(&format!("cannot write {}", path.join("inside").display())), "{message}");
        #[cfg(target_os = "linux")]
        assert_eq!(
            example().save("/dev/full").unwrap_err().to_string(),
            "cannot write /dev/full: No space left on device"
        );
    }

    #[test]
    fn a_foreign_safetensors_file_is_named_as_such() {
        let foreign = [&[][..], &[("format", "pt")], &[("version", "1")]];
        for metadata in foreign {
            assert_eq!(
                with_metadata(metadata).unwrap_err().to_string(),
                "run.safetensors: it is a safetensors file and not a checkpoint of Lanthorn; \
                 a file that `lanthorn train` wrote would be right"
            );
        }
    }

    #[test]
    fn a_newer_version_is_named_as_such() {
        assert_eq!(
            with_metadata(&[("format", FORMAT), ("version", "7")]).unwrap_err().to_string(),
            "run.safetensors: it is a checkpoint of version 7, written by a newer Lanthorn; \
             this one reads versions up to 1"
        );
        for version in ["0", "", "one", "-1", "99999999999"] {
            let error = with_metadata(&[("format", FORMAT), ("version", version)]).unwrap_err();
            assert!(error.to_string().contains(&format!("version is `{version}`")), "{error}");
        }
    }

    #[test]
    fn a_truncated_file_is_named_as_such() {
        let bytes = example().to_bytes().unwrap();
        for length in [bytes.len() - 1, bytes.len() / 2, 9] {
            let error = Checkpoint::from_bytes("run", &bytes[..length]).unwrap_err();
            assert!(error.to_string().starts_with("run: the file is cut short: "), "{error}");
        }
    }

    #[test]
    fn a_damaged_document_is_named() {
        let deep = "[".repeat(100_000);
        for text in ["{", "", &deep] {
            let metadata = [("format", FORMAT), ("version", "1"), ("document/model", text)];
            let message = with_metadata(&metadata).unwrap_err().to_string();
            assert!(message.contains("the document `model` is not JSON"), "{message}");
        }
    }

    #[test]
    fn a_missing_document_is_named() {
        let message = example().document("sampler").unwrap_err().to_string();
        assert!(message.contains("no document `sampler`"), "{message}");
        assert!(message.contains("`model`, `progress`, `note`"), "{message}");
    }

    proptest! {
        #[test]
        fn floating_point_numbers_come_back_bit_for_bit(
            numbers in prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL, 0..20)
        ) {
            let mut checkpoint = Checkpoint::default();
            checkpoint.documents.insert("numbers".to_owned(), json!(numbers));
            let bytes = checkpoint.to_bytes().unwrap();
            let loaded = Checkpoint::from_bytes("run", bytes).unwrap();
            let back: Vec<f64> = serde_json::from_value(loaded.documents["numbers"].clone()).unwrap();
            prop_assert!(back.iter().map(|n| n.to_bits()).eq(numbers.iter().map(|n| n.to_bits())));
        }

        #[test]
        fn a_damaged_checkpoint_never_panics(
            cut in 0usize..64,
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut bytes = example().to_bytes().unwrap();
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(bytes.len() - cut);
            let _ = Checkpoint::from_bytes("damaged", bytes);
        }
    }
}
