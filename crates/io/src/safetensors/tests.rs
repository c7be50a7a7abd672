use super::*;
use indexmap::IndexMap;
use proptest::prelude::*;

fn no_metadata() -> IndexMap<String, String> {
    IndexMap::new()
}

/// Distinct bytes of the right number.
fn tensor(dtype: DType, shape: &[usize]) -> OwnedTensor {
    let elements: usize = shape.iter().product();
    let bytes = (0..elements * dtype.size()).map(|at| at as u8).collect();
    OwnedTensor { dtype, shape: shape.to_vec(), bytes }
}

/// A file with that header text and so many bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    let error = Tensors::from_bytes("model.safetensors", bytes).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Format);
    let message = error.to_string();
    assert!(message.starts_with("model.safetensors: "), "{message}");
    message
}

#[test]
fn every_dtype_and_shape_comes_back_in_order_and_aligned() {
    let mut tensors = IndexMap::new();
    for dtype in DType::ALL {
        for shape in [&[][..], &[3], &[0, 4], &[2, 1, 3]] {
            tensors.insert(format!("{dtype}/{shape:?}"), tensor(dtype, shape));
        }
    }
    let metadata: IndexMap<_, _> =
        [("z".to_owned(), "1".to_owned()), ("a".to_owned(), "\"π\"\n".to_owned())].into();
    let views = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.view()));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.safetensors");
    save(&path, views.clone(), &metadata).unwrap();
    let opened = Tensors::open(&path).unwrap();
    assert!(opened.iter().eq(views), "names, order, dtypes, shapes or bytes differ");
    assert!(opened.metadata().iter().eq(&metadata));
    for (name, view) in &opened {
        assert_eq!(view.bytes.as_ptr().addr() % view.dtype.size(), 0, "{name} is not aligned");
    }
}

#[test]
fn the_reference_implementation_reads_what_we_write() {
    let tensors: Vec<_> = DType::ALL
        .into_iter()
        .filter(|dtype| *dtype != DType::C128)
        .map(|dtype| (dtype.name(), tensor(dtype, &[2, 3])))
        .collect();
    let metadata = [("key".to_owned(), "value".to_owned())].into();
    let bytes = to_bytes(tensors.iter().map(|(name, t)| (*name, t.view())), &metadata).unwrap();
    let reference = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(reference.len(), tensors.len());
    for (name, tensor) in &tensors {
        let read = reference.tensor(name).unwrap();
        assert_eq!(read.data(), tensor.bytes);
        assert_eq!(read.shape(), tensor.shape);
        assert_eq!(read.dtype().to_string(), name_of(tensor.dtype));
    }
    let (_, header) = ::safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header.metadata().as_ref().unwrap()["key"], "value");
}

#[test]
fn we_read_what_the_reference_implementation_writes() {
    use ::safetensors::tensor::{Dtype, TensorView};
    let (a, b) = ([1u8, 2, 3], [4u8; 16]);
    let views = [
        ("a", TensorView::new(Dtype::U8, vec![3], &a).unwrap()),
        ("b", TensorView::new(Dtype::BF16, vec![2, 4], &b).unwrap()),
    ];
    let bytes = ::safetensors::serialize(views, None).unwrap();
    let tensors = Tensors::from_bytes("reference", bytes).unwrap();
    assert_eq!(tensors.len(), 2);
    assert_eq!(tensors.get("a").unwrap(), View { dtype: DType::U8, shape: &[3], bytes: &a });
    assert_eq!(tensors.get("b").unwrap(), View { dtype: DType::BF16, shape: &[2, 4], bytes: &b });
}

#[test]
fn a_file_without_tensors_is_a_file() {
    let bytes = to_bytes([], &no_metadata()).unwrap();
    assert!(Tensors::from_bytes("empty", bytes).unwrap().is_empty());
}

#[test]
fn a_header_that_contradicts_itself_or_the_file_is_refused_with_the_reason() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#)
    };
    let one =
        |dtype: &str, shape: &str, offsets: &str| format!(r#"{{"w":{}}}"#, entry(dtype, shape, offsets));
    let two = |first: &str, second: &str| {
        format!(r#"{{"a":{},"b":{}}}"#, entry("U8", "[4]", first), entry("U8", "[4]", second))
    };
    let duplicate = format!(r#"{{"a":{0},"a":{0}}}"#, entry("U8", "[4]", "[0,4]"));
    let deep = format!(r#"{{"w":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let many_axes = one("U8", &format!("[2{}]", ",2".repeat(99)), "[0,4]");
    let cases: Vec<(String, usize, &str)> = vec![
        (
            one("F7", "[1]", "[0,4]"),
            4,
            "model.safetensors: tensor `w` has the dtype `F7`; known are BOOL, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32,",
        ),
        (
            one("F32", "[1]", "[0,4]").replace("\"F32\"", "7"),
            4,
            "header: tensor `w`: the number 7 stands where a string is expected, at line 1 column",
        ),
        (
            one("F32", "[1]", "[0,4]").replace("\"dtype\":\"F32\",", ""),
            4,
            "tensor `w`: missing field `dtype`, at line 1",
        ),
        (one("F32", "[2]", "[0,4]"), 4, "f32 of shape [2] needs 8"),
        (one("F32", "[1]", "[4,0]"), 4, "begins at byte 4 and ends at byte 0"),
        (one("F32", "[2]", "[0,8]"), 4, "cut short"),
        (one("F32", "[1]", "[0,4]"), 5, "1 bytes follow the last tensor"),
        (one("F32", "[1]", "[1,5]"), 5, "bytes 0 to 1 of the data belong to no tensor"),
        (one("F32", "[-1]", "[0,4]"), 4, "not a safetensors header"),
        (one("F32", "[1.5]", "[0,4]"), 4, "not a safetensors header"),
        (one("F32", "[1]", "[0]"), 4, "not a safetensors header"),
        (one("U8", "[4294967296,4294967296]", "[0,4]"), 4, "countable in 64 bits"),
        (one("F64", "[18446744073709551615]", "[0,4]"), 4, "countable in 64 bits"),
        (one("U8", "[0,18446744073709551615,9]", "[0,4]"), 4, "needs 0"),
        (one("U8", "[18446744073709551615]", "[0,18446744073709551615]"), 4, "cut short"),
        (many_axes, 4, "and 92 more sizes"),
        (two("[0,4]", "[2,6]"), 6, "tensors `a` and `b` overlap at byte 2"),
        (two("[0,4]", "[0,4]"), 4, "overlap"),
        (two("[0,4]", "[5,9]"), 9, "bytes 4 to 5 of the data belong to no tensor"),
        (duplicate, 4, "tensor `a` is declared twice"),
        (r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(), 0, "stands in it twice"),
        (r#"{"__metadata__":{"a":1}}"#.to_owned(), 0, "not a safetensors header"),
        ("[]".to_owned(), 0, "not a safetensors header"),
        ("{".to_owned(), 0, "not a safetensors header"),
        ("{} {}".to_owned(), 0, "not a safetensors header"),
        (deep, 0, "not a safetensors header"),
    ];
    for (header, data, reason) in cases {
        let message = refusal(&file(&header, data));
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
        assert!(message.len() < 500, "{message}");
    }
}

#[test]
fn a_field_that_the_format_does_not_know_is_passed_over() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let header = format!(r#"{{"w":{{"more":{deep},"dtype":"U8","shape":[],"data_offsets":[0,1]}}}}"#);
    let tensors = Tensors::from_bytes("model", file(&header, 1)).unwrap();
    assert_eq!(tensors.get("w").unwrap().shape, [0usize; 0]);
}

#[test]
fn debugging_output_is_short() {
    let weight = tensor(DType::F32, &[1000, 10]);
    assert_eq!(
        format!("{weight:?}"),
        "OwnedTensor { f32 [1000, 10], 40000 bytes: 00 01 02 03 04 05 06 07 ... }"
    );
    let bytes = to_bytes([("w", weight.view())], &no_metadata()).unwrap();
    assert!(format!("{:?}", Tensors::from_bytes("model", bytes).unwrap()).len() < 200);
}

#[test]
fn what_is_no_safetensors_file_is_named() {
    let huge = |length: u64| length.to_le_bytes().to_vec();
    for (bytes, reason) in [
        (Vec::new(), "the file is empty"),
        (vec![1, 2, 3], "only 3 bytes"),
        (huge(u64::MAX), "18446744073709551615 bytes long"),
        (huge(100_000_001), "no safetensors file"),
        (huge(50), "cut short: its header should have 50 bytes and 0 are there"),
        (b"PK\x03\x04rest of it".to_vec(), "zip archive"),
        (b"GGUF\x03\0\0\0rest".to_vec(), "GGUF"),
        (b"{\"model\": {}}".to_vec(), "it is JSON"),
    ] {
        let message = refusal(&bytes);
        assert!(message.contains(reason), "{message}\nshould say: {reason}");
    }
    let mut not_utf8 = file("{}", 0);
    not_utf8[9] = 0xFF;
    assert!(refusal(&not_utf8).contains("not UTF-8 from byte 9"));
}

#[test]
fn names_and_bytes_are_checked_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let good = tensor(DType::F32, &[2]);
    let short = View { bytes: &good.bytes[..7], ..good.view() };
    for (tensors, reason) in [
        (vec![("w", short)], "tensor `w` has 7 bytes; f32 of shape [2] needs 8"),
        (vec![("w", good.view()), ("w", good.view())], "named `w`, which is taken"),
        (vec![("__metadata__", good.view())], "named `__metadata__`"),
    ] {
        let message = save(&path, tensors, &no_metadata()).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
        assert!(!path.exists());
    }
}

#[test]
fn folders_missing_files_and_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Tensors::open(folder.path()).unwrap_err().kind(), crate::ErrorKind::Io);
    let missing = Tensors::open(folder.path().join("no.safetensors")).unwrap_err().to_string();
    assert!(missing.contains("no.safetensors: No such file"), "{missing}");
    #[cfg(unix)]
    assert!(Tensors::open("/dev/zero").unwrap_err().to_string().contains("device"));
    let empty = folder.path().join("empty.safetensors");
    std::fs::write(&empty, b"").unwrap();
    assert!(Tensors::open(&empty).unwrap_err().to_string().contains("the file is empty"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_reported() {
    let weight = tensor(DType::F32, &[1000]);
    let error = save("/dev/full", [("w", weight.view())], &no_metadata()).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device");
}

#[test]
fn a_cancelled_save_leaves_the_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.safetensors");
    let [small, large] = [tensor(DType::F32, &[2]), tensor(DType::U8, &[3 << 20])];
    save(&path, [("small", small.view())], &no_metadata()).unwrap();
    let before = std::fs::read(&path).unwrap();
    for pieces in 0_u32..6 {
        let left = std::cell::Cell::new(pieces);
        let is_cancelled = || left.replace(left.get().saturating_sub(1)) == 0;
        let error = save_unless(&path, [("large", large.view())], &no_metadata(), &is_cancelled).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Cancelled, "{pieces}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
    save_unless(&path, [("large", large.view())], &no_metadata(), &|| false).unwrap();
    assert!(std::fs::read(&path).unwrap().len() > 3 << 20);
}

#[test]
fn another_element_type_than_f32_is_not_read_as_f32() {
    let message = tensor(DType::F16, &[4]).to_f32().unwrap_err().to_string();
    assert!(message.contains("elements are f16"), "{message}");
}

/// A file larger than 32 bits can count, mostly a hole on the disk.
#[cfg(target_os = "linux")]
#[test]
fn a_tensor_of_more_than_4_gib_is_read_where_it_lies() {
    use std::io::{Seek, SeekFrom, Write};
    let (size, last) = ((1u64 << 32) + 4, [1u8, 2, 3]);
    let header = format!(
        r#"{{"big":{{"dtype":"U8","shape":[{size}],"data_offsets":[0,{size}]}},"last":{{"dtype":"U8","shape":[3],"data_offsets":[{size},{}]}}}}"#,
        size + 3
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.safetensors");
    let mut out = std::fs::File::create(&path).unwrap();
    out.write_all(&file(&header, 0)).unwrap();
    out.seek(SeekFrom::Current(size as i64)).unwrap();
    out.write_all(&last).unwrap();
    drop(out);
    let tensors = Tensors::open(&path).unwrap();
    assert_eq!(tensors.get("big").unwrap().bytes.len() as u64, size);
    assert_eq!(tensors.get("last").unwrap().bytes, last);
}

proptest! {
    /// Whatever is done to a valid file, the answer is tensors or an error, and tensors lie within the file.
    #[test]
    fn a_damaged_file_never_panics(
        cut in 0usize..600,
        damage in prop::collection::vec((0usize..600, any::<u8>()), 0..6),
    ) {
        let tensors: Vec<_> = [DType::F32, DType::BF16, DType::Bool]
            .map(|dtype| (dtype.name(), tensor(dtype, &[2, 3])))
            .into();
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        let views = tensors.iter().map(|(name, tensor)| (*name, tensor.view()));
        let mut bytes = to_bytes(views, &metadata).unwrap();
        for (at, value) in damage {
            let length = bytes.len();
            bytes[at % length] = value;
        }
        bytes.truncate(bytes.len().saturating_sub(cut).max(bytes.len() / 600));
        let total = bytes.len();
        if let Ok(tensors) = Tensors::from_bytes("damaged", bytes) {
            let read: usize = tensors.iter().map(|(_, view)| view.bytes.len()).sum();
            prop_assert!(read <= total);
        }
    }

    /// Any bytes at all.
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Tensors::from_bytes("arbitrary", bytes);
    }

    /// A header of arbitrary JSON-like pieces, with a right length.
    #[test]
    fn an_arbitrary_header_never_panics(header in r#"[\{\}\[\]",:a0-9 _dtypeshofsUF]{0,80}"#, data in 0usize..9) {
        let _ = Tensors::from_bytes("arbitrary", file(&header, data));
    }
}
