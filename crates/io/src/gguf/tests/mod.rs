use super::*;
use proptest::prelude::*;

mod blocks;

/// A file written by hand, field by field.
struct File(Vec<u8>);

impl File {
    fn new(tensors: u64, entries: u64) -> File {
        let mut file = File(b"GGUF".to_vec());
        file.u32(3).u64(tensors).u64(entries);
        file
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut File {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u32(&mut self, value: u32) -> &mut File {
        self.raw(&value.to_le_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut File {
        self.raw(&value.to_le_bytes())
    }

    fn text(&mut self, text: &str) -> &mut File {
        self.u64(text.len() as u64).raw(text.as_bytes())
    }

    fn alignment(&mut self, alignment: u32) -> &mut File {
        self.text("general.alignment").u32(4).u32(alignment)
    }

    /// An entry of the list of tensors; `sizes` as the format has them, innermost first.
    fn tensor(&mut self, name: &str, sizes: &[u64], id: u32, offset: u64) -> &mut File {
        self.text(name).u32(sizes.len() as u32);
        sizes.iter().for_each(|size| {
            self.u64(*size);
        });
        self.u32(id).u64(offset)
    }

    /// Padding and so many bytes of data.
    fn data(&mut self, bytes: usize) -> &mut File {
        let begin = self.0.len().next_multiple_of(32);
        self.0.resize(begin + bytes, 7);
        self
    }
}

fn refusal(bytes: &[u8]) -> String {
    let error = Gguf::from_bytes("model.gguf", bytes).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Format);
    let message = error.to_string();
    assert!(message.starts_with("model.gguf: "), "{message}");
    assert!(message.len() < 500, "{message}");
    message
}

/// One value and one array of each type, and texts that are awkward.
fn every_value() -> Metadata {
    let mut metadata = Metadata::new("gguf");
    metadata.insert("u8", u8::MAX);
    metadata.insert("i8", i8::MIN);
    metadata.insert("u16", u16::MAX);
    metadata.insert("i16", i16::MIN);
    metadata.insert("u32", u32::MAX);
    metadata.insert("i32", i32::MIN);
    metadata.insert("f32", 0.1f32);
    metadata.insert("bool", true);
    metadata.insert("string", "naïve\n\0🏮");
    metadata.insert("u64", u64::MAX);
    metadata.insert("i64", i64::MIN);
    metadata.insert("f64", 0.1f64);
    metadata.insert("general.alignment", 64u32);
    metadata.insert("u8s", vec![0u8, 255]);
    metadata.insert("i8s", vec![-128i8, 127]);
    metadata.insert("u16s", vec![0u16, u16::MAX]);
    metadata.insert("i16s", vec![i16::MIN, 1]);
    metadata.insert("u32s", vec![0u32, u32::MAX]);
    metadata.insert("i32s", vec![i32::MIN, 1]);
    metadata.insert("f32s", vec![f32::MIN_POSITIVE, -0.0]);
    metadata.insert("bools", vec![true, false, true]);
    metadata.insert("strings", vec![String::new(), "Ġthe".to_owned()]);
    metadata.insert("u64s", vec![0u64, u64::MAX]);
    metadata.insert("i64s", vec![i64::MIN, 1]);
    metadata.insert("f64s", vec![f64::MAX, 1e-300]);
    metadata.insert("empty", Vec::<String>::new());
    metadata
}

/// Distinct bytes of the right number.
fn blocks_of(encoding: Encoding, shape: &[usize]) -> Vec<u8> {
    (0..encoding.byte_length(shape).unwrap()).map(|at| at as u8).collect()
}

#[test]
fn the_table_of_encodings_is_in_their_order() {
    for (at, encoding) in Encoding::ALL.into_iter().enumerate() {
        assert_eq!(encoding as usize, at);
        assert_eq!(Encoding::from_id(encoding.id()), Some(encoding));
        let shown: String = format!("{encoding:?}").replace('_', "");
        assert_eq!(encoding.name().replace('_', ""), shown);
    }
}

#[test]
fn every_value_encoding_and_shape_comes_back_in_order_and_aligned() {
    let metadata = every_value();
    let mut tensors = Vec::new();
    for encoding in Encoding::ALL {
        let row = 2 * encoding.block_elements();
        let shapes = [vec![row], vec![3, row], vec![2, 1, 3, row], vec![0, row], vec![2, 0]];
        for shape in shapes.into_iter().chain((encoding.block_elements() == 1).then(Vec::new)) {
            let bytes = blocks_of(encoding, &shape);
            tensors.push((format!("{encoding}/{shape:?}"), encoding, shape, bytes));
        }
    }
    let views = tensors
        .iter()
        .map(|(name, encoding, shape, bytes)| (name.as_str(), View { encoding: *encoding, shape, bytes }));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.gguf");
    save(&path, views.clone(), &metadata).unwrap();
    let file = Gguf::open(&path).unwrap();
    assert_eq!(file.version(), 3);
    assert!(file.metadata().values().iter().eq(metadata.values()), "{:?}", file.metadata());
    assert!(file.iter().eq(views.clone()), "names, order, encodings, shapes or bytes differ");
    assert_eq!(file.iter().len(), tensors.len());
    for (name, view) in &file {
        assert_eq!(view.elements(), view.shape.iter().product::<usize>(), "{name}");
        if !view.bytes.is_empty() {
            assert_eq!(view.bytes.as_ptr().addr() % 64, 0, "{name} is not aligned");
        }
    }
    assert_eq!(to_bytes(views, &metadata).unwrap(), std::fs::read(&path).unwrap());
}

/// `reference.gguf` was written by ggml's own Python package; see `fixtures/gguf/make.py`.
#[test]
fn the_reference_implementation_writes_the_same_bytes() {
    let reference = include_bytes!("../../../fixtures/gguf/reference.gguf");
    let file = Gguf::from_bytes("reference.gguf", *reference).unwrap();
    assert_eq!(file.metadata().require::<&str>("general.architecture").unwrap(), "llama");
    assert_eq!(file.metadata().require::<&[String]>("test.strings").unwrap(), ["", "Ġthe", "naïve 🏮"]);
    assert_eq!(file.metadata().get::<i64>("test.i8").unwrap(), Some(-128));
    assert_eq!(file.get("shape").unwrap().shape, [2, 3, 4]);
    let again = to_bytes(&file, file.metadata()).unwrap();
    assert!(again == reference, "our writer lays the file out in another way");
}

#[test]
fn a_header_that_contradicts_itself_or_the_file_is_refused_with_the_reason() {
    const F32: u32 = 0;
    const Q4_0: u32 = 2;
    let max = u64::MAX;
    let one = |name: &str, sizes: &[u64], id: u32, offset: u64, data: usize| {
        File::new(1, 0).tensor(name, sizes, id, offset).data(data).0.clone()
    };
    let two = |first: (&str, u64), second: (&str, u64)| {
        File::new(2, 0)
            .tensor(first.0, &[16], F32, first.1)
            .tensor(second.0, &[16], F32, second.1)
            .data(160)
            .0
            .clone()
    };
    let value = |id: u32, bytes: &[u8]| File::new(0, 1).text("key").u32(id).raw(bytes).0.clone();
    let array = |id: u32, count: u64| File::new(0, 1).text("key").u32(9).u32(id).u64(count).0.clone();
    let aligned = |to: u32| File::new(0, 1).alignment(to).0.clone();

    let cases: Vec<(Vec<u8>, &str)> = vec![
        // Counts and lengths.
        (File::new(max, 0).0.clone(), "tensors: there should be 18446744073709551615 of them"),
        (File::new(0, max).0.clone(), "metadata entries: there should be 18446744073709551615 of them"),
        (File::new(0, 1).0.clone(), "room for 0"),
        (File::new(0, 1).u64(max).raw(&[0; 8]).0.clone(), "a metadata key: the file is cut short"),
        (File::new(0, 1).text("key").u32(8).u64(max).0.clone(), "`key`: the file is cut short"),
        (File::new(1, 0).u64(max - 7).raw(&[0; 16]).0.clone(), "a tensor's name: the file is cut short"),
        (array(4, max), "there should be 18446744073709551615 of them"),
        (array(8, 1 << 40), "there should be 1099511627776 of them"),
        (array(0, 1), "there should be 1 of them, and the rest of the file has room for 0"),
        // Values.
        (value(13, &[0; 8]), "the metadata `key`: the value's type is 13; types go from 0 to 12"),
        (value(7, &[2]), "a truth value is 2; 0 or 1 would be right"),
        (value(4, &[1, 2, 3]), "4 bytes should follow byte 39, and 3 are there"),
        (array(9, 0), "it is an array of arrays"),
        (array(77, 0), "the value's type is 77"),
        (value(8, b"\x02\0\0\0\0\0\0\0a\xFF"), "the text is not UTF-8 from byte 48 of the file on"),
        (File::new(0, 1).text("").u32(0).raw(&[0; 2]).0.clone(), "a metadata key has 0 bytes"),
        (File::new(0, 1).text(&"k".repeat(70_000)).u32(0).raw(&[0]).0.clone(), "a metadata key has 70000"),
        (File::new(0, 2).alignment(32).alignment(32).0.clone(), "`general.alignment` stands in it twice"),
        (aligned(0), "`general.alignment` is 0; a power of two"),
        (aligned(48), "`general.alignment` is 48; a power of two"),
        (File::new(0, 1).text("general.alignment").u32(10).u64(32).0.clone(), "is of type u64"),
        // Tensors.
        (one("w", &[8, 8, 1, 1, 1], F32, 0, 256), "tensor `w`: it has 5 axes; at most 4"),
        (File::new(1, 0).text("w").u32(u32::MAX).raw(&[0; 64]).0.clone(), "it has 4294967295 axes"),
        (one("w", &[8], 99, 0, 32), "tensor `w`: it has the unknown type 99; known are F32, F16"),
        (one("w", &[256], 23, 0, 256), "tensor `w`: it is IQ4_XS; known are"),
        (one("w", &[48], Q4_0, 0, 64), "it is Q4_0 and its rows have 48 elements; a multiple of 32"),
        (one("w", &[1 << 32, 1 << 32], F32, 0, 64), "[4294967296, 4294967296]; its bytes must be countable"),
        (one("w", &[max], F32, 0, 64), "its bytes must be countable"),
        (one("w", &[1 << 40], F32, 0, 64), "cut short: tensor `w` has 4398046511104 bytes at byte 0"),
        (one("w", &[16], F32, 0, 63), "cut short: tensor `w` has 64 bytes at byte 0 of the data"),
        (one("w", &[16], F32, 32, 64), "cut short: tensor `w` has 64 bytes at byte 32 of the data"),
        (one("w", &[16], F32, max - 31, 64), "cut short"),
        (one("w", &[0], F32, 64, 32), "cut short"),
        (one("w", &[16], F32, 4, 128), "begins at byte 4 of the data; a multiple of 32"),
        (one(&"w".repeat(9_999), &[16], F32, 4, 128), "www...` begins"),
        (two(("a", 0), ("a", 64)), "tensor `a` is declared twice"),
        (two(("a", 0), ("b", 32)), "tensor `a` and tensor `b` overlap at byte"),
        (two(("a", 64), ("b", 64)), "overlap"),
    ];
    for (bytes, reason) in cases {
        let message = refusal(&bytes);
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
    }
}

#[test]
fn gaps_between_tensors_and_bytes_after_them_are_the_writers_business() {
    let mut file = File::new(2, 0);
    file.tensor("b", &[4], 0, 96).tensor("a", &[4, 2], 0, 0).data(200);
    let file = Gguf::from_bytes("gaps", file.0).unwrap();
    assert_eq!(file.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(file.get("a").unwrap(), View { encoding: Encoding::F32, shape: &[2, 4], bytes: &[7; 32] });
}

#[test]
fn an_empty_tensor_is_empty_whatever_its_other_sizes_are() {
    let mut file = File::new(1, 0);
    file.tensor("w", &[1 << 40, 0, 1 << 40], 0, 0).data(0);
    let file = Gguf::from_bytes("empty", file.0).unwrap();
    assert_eq!(file.get("w").unwrap().elements(), 0);
}

#[test]
fn versions_2_and_3_are_read_and_others_named() {
    let of_version = |version: [u8; 4]| {
        let mut file = File::new(0, 0);
        file.0[4..8].copy_from_slice(&version);
        file.0
    };
    for version in [2, 3] {
        let file = Gguf::from_bytes("model", of_version([version, 0, 0, 0])).unwrap();
        assert_eq!(file.version(), u32::from(version));
        assert!(file.is_empty());
    }
    for (version, reason) in [
        ([1, 0, 0, 0], "version 1, of which few"),
        ([0, 0, 0, 3], "it is a big-endian file"),
        ([0, 0, 0, 0], "it is of version 0; versions 2 and 3 are read"),
        ([4, 0, 0, 0], "it is of version 4"),
        ([9, 9, 9, 9], "it is of version 151587081"),
    ] {
        let message = refusal(&of_version(version));
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
    }
}

#[test]
fn what_is_no_gguf_file_is_named() {
    let safetensors = crate::safetensors::to_bytes([], &Default::default()).unwrap();
    for (bytes, reason) in [
        (&b""[..], "the file is empty"),
        (b"GGU", "does not begin with the letters GGUF"),
        (b"GGUF", "cut short: 4 bytes should follow byte 4, and 0 are there"),
        (b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0", "8 bytes should follow byte 16"),
        (b"tjgg\x03\0\0\0", "GGML file of before August 2023"),
        (b"PK\x03\x04rest of it", "zip archive"),
        (&safetensors, "safetensors"),
    ] {
        let message = refusal(bytes);
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
    }
}

#[test]
fn values_are_given_in_the_type_that_is_asked_for_or_refused() {
    let mut metadata = Metadata::new("model.gguf");
    metadata.insert("count", -1i32);
    metadata.insert("wide", u64::MAX);
    metadata.insert("name", "llama");
    metadata.insert("scale", 0.5f64);
    metadata.insert("kinds", vec![1i32, 3]);
    assert_eq!(metadata.get::<i64>("count").unwrap(), Some(-1));
    assert_eq!(metadata.get::<u64>("wide").unwrap(), Some(u64::MAX));
    assert_eq!(metadata.get::<f32>("scale").unwrap(), Some(0.5));
    assert_eq!(metadata.get::<&[i32]>("kinds").unwrap(), Some(&[1, 3][..]));
    assert_eq!(metadata.get::<&Array>("kinds").unwrap().map(Array::kind), Some("i32"));
    assert_eq!(metadata.get::<&str>("absent").unwrap(), None);
    let message = |result: crate::Result<usize>| result.unwrap_err().to_string();
    assert_eq!(
        message(metadata.require("count")),
        "model.gguf: the metadata `count` is -1; a size that fits this machine's address space would be right"
    );
    assert!(message(metadata.require("absent")).contains("`absent` is missing; a size"));
    assert!(message(metadata.require("name")).contains("`name` is of type string; a size"));
    let strings = metadata.get::<&[String]>("kinds").unwrap_err().to_string();
    assert!(
        strings.contains("`kinds` is of type array of i32; an array of strings would be right"),
        "{strings}"
    );
}

#[test]
fn what_cannot_be_read_again_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let empty = Metadata::new("model");
    let with = |key: &str, value: Value| {
        let mut metadata = Metadata::new("model");
        metadata.insert(key, value);
        metadata
    };
    let bytes = [0u8; 36];
    let good = View { encoding: Encoding::Q4_0, shape: &[2, 32], bytes: &bytes };
    let long = "w".repeat(64);
    for (tensors, metadata, reason) in [
        (
            vec![("w", View { bytes: &bytes[..35], ..good })],
            &empty,
            "has 35 bytes; Q4_0 of shape [2, 32] needs 36",
        ),
        (vec![("w", View { shape: &[2, 18], ..good })], &empty, "rows are multiples of 32"),
        (vec![("w", View { shape: &[1, 1, 1, 2, 32], ..good })], &empty, "tensor `w` has 5 axes; at most 4"),
        (vec![("w", good), ("w", good)], &empty, "named `w`, which is too long or taken"),
        (vec![(long.as_str(), good)], &empty, "unique and of at most 63 bytes"),
        (vec![], &with("", 1u8.into()), "a metadata key is ``"),
        (vec![], &with("schlüssel", 1u8.into()), "a metadata key is `schlüssel`; a key is ASCII"),
        (vec![], &with("general.alignment", 24u32.into()), "`general.alignment` is 24"),
        (vec![], &with("general.alignment", 32u64.into()), "the format asks for u32"),
    ] {
        let message = save(&path, tensors, metadata).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
        assert!(message.starts_with(&path.display().to_string()), "{message}");
        assert!(!path.exists());
    }
}

#[test]
fn folders_missing_files_and_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Gguf::open(folder.path()).unwrap_err().kind(), crate::ErrorKind::Io);
    let missing = Gguf::open(folder.path().join("no.gguf")).unwrap_err().to_string();
    assert!(missing.contains("no.gguf: No such file"), "{missing}");
    #[cfg(unix)]
    assert!(Gguf::open("/dev/zero").unwrap_err().to_string().contains("device"));
    #[cfg(target_os = "linux")]
    {
        let error = save("/dev/full", [], &every_value()).unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device");
    }
}

#[test]
fn a_missing_tensor_is_answered_with_those_that_are_there() {
    let mut file = File::new(1, 0);
    file.tensor("w", &[8], 0, 0).data(32);
    let file = Gguf::from_bytes("model", file.0).unwrap();
    assert_eq!(file.get("v").unwrap_err().to_string(), "model: it has no tensor `v`; its tensors are `w`");
    assert_eq!(format!("{:?}", file.get("w").unwrap()), "View { F32 [8], 32 bytes }");
    assert!(format!("{file:?}").len() < 200);
}

/// A small file with metadata and tensors of several kinds.
fn specimen() -> Vec<u8> {
    let (packed, plain) = (blocks_of(Encoding::Q6K, &[2, 256]), blocks_of(Encoding::F16, &[3]));
    let tensors = [
        ("packed", View { encoding: Encoding::Q6K, shape: &[2, 256], bytes: &packed }),
        ("plain", View { encoding: Encoding::F16, shape: &[3], bytes: &plain }),
    ];
    to_bytes(tensors, &every_value()).unwrap()
}

proptest! {
    /// Whatever is done to a valid file, the answer is a model or an error, and tensors lie within the file.
    #[test]
    fn a_damaged_file_never_panics(
        cut in prop::option::of(any::<prop::sample::Index>()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut bytes = specimen();
        // The header is what can contradict; the tensors' own bytes mean nothing to the reader.
        let header = bytes.len() - 448 - 64;
        for (at, value) in damage {
            bytes[at.index(header)] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let total = bytes.len();
        if let Ok(file) = Gguf::from_bytes("damaged", bytes) {
            let read: usize = file.iter().map(|(_, view)| view.bytes.len()).sum();
            prop_assert!(read <= total);
        }
    }

    /// A field of eight bytes, as lengths and counts are, becomes any number.
    #[test]
    fn a_wrong_length_never_panics(at in any::<prop::sample::Index>(), value in any::<u64>(), shift in 0u32..64) {
        let mut bytes = specimen();
        let at = at.index(bytes.len() - 8);
        bytes[at..at + 8].copy_from_slice(&(value >> shift).to_le_bytes());
        let _ = Gguf::from_bytes("damaged", bytes);
    }

    /// Any bytes at all after the magic.
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Gguf::from_bytes("arbitrary", bytes.clone());
        let _ = Gguf::from_bytes("arbitrary", [b"GGUF\x03\0\0\0", &bytes[..]].concat());
    }
}

#[test]
fn every_truncation_is_refused() {
    let whole = specimen();
    // The last tensor is padded; without the padding it is whole.
    let needed = whole.len() - 64 + 6;
    for length in 0..needed {
        assert!(Gguf::from_bytes("cut", &whole[..length]).is_err(), "{length} of {needed} bytes");
    }
    assert!(Gguf::from_bytes("cut", &whole[..needed]).is_ok());
}
