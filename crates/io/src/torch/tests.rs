use super::*;
use proptest::prelude::*;

const STATE: &[u8] = include_bytes!("fixtures/state.pt");
const CHECKPOINT: &[u8] = include_bytes!("fixtures/checkpoint.pt");

fn floats(content: &Content, name: &str) -> Vec<f64> {
    content.tensors[name].view().floats().unwrap().collect()
}

#[test]
fn a_state_dictionary_is_read_with_its_strides_offsets_and_ties() {
    let content = from_bytes("state.pt", STATE).unwrap();
    let names: Vec<&str> = content.tensors.keys().map(String::as_str).collect();
    let expected = ["weight", "turned", "tail", "tied", "half", "brain", "ids", "mask", "scalar", "empty"];
    assert_eq!(names, expected);
    assert_eq!(floats(&content, "weight"), [0., 1., 2., 3., 4., 5.]);
    assert_eq!(content.tensors["weight"].shape, [2, 3]);
    assert_eq!(floats(&content, "turned"), [0., 3., 1., 4., 2., 5.]);
    assert_eq!(content.tensors["turned"].shape, [3, 2]);
    assert_eq!(floats(&content, "tail"), [5., 7., 9., 11.]);
    assert_eq!(floats(&content, "tied"), floats(&content, "weight"));
    assert_eq!((content.tensors["half"].dtype, floats(&content, "half")), (DType::F16, vec![0.5, -2.0]));
    assert_eq!((content.tensors["brain"].dtype, floats(&content, "brain")), (DType::BF16, vec![1.5, -3.0]));
    let ids = [1i64 << 40, -1].map(i64::to_le_bytes).concat();
    assert_eq!((content.tensors["ids"].dtype, &content.tensors["ids"].bytes), (DType::I64, &ids));
    assert_eq!(
        (content.tensors["mask"].dtype, &content.tensors["mask"].bytes[..]),
        (DType::Bool, &[1, 0, 1][..])
    );
    assert_eq!((content.tensors["scalar"].shape.len(), floats(&content, "scalar")), (0, vec![0.1]));
    assert_eq!((&content.tensors["empty"].shape[..], content.tensors["empty"].bytes.len()), (&[0, 4][..], 0));
    assert!(content.metadata.is_empty());
}

#[test]
fn what_lies_in_other_dictionaries_has_their_names() {
    let content = from_bytes("checkpoint.pt", CHECKPOINT).unwrap();
    let names: Vec<&str> = content.tensors.keys().map(String::as_str).collect();
    assert_eq!(names, ["model.weight", "optimizer.0.m", "3"]);
    let metadata: Vec<(&str, &str)> =
        content.metadata.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let expected = [
        ("step", "7"),
        ("lr", "0.001"),
        ("name", "tiny"),
        ("done", "false"),
        ("large", "1099511627776"),
        ("negative", "-300"),
    ];
    assert_eq!(metadata, expected);
}

#[test]
fn nothing_is_run_and_nothing_is_believed() {
    let refused = |bytes: &[u8]| from_bytes("some.pt", bytes).unwrap_err().to_string();
    let evil = refused(include_bytes!("fixtures/evil.pt"));
    let expected = "some.pt: the pickle asks for `__builtin__.print`; dictionaries of tensors, numbers and texts are read, and \
                    nothing is run";
    assert_eq!(evil, expected);
    let outside = refused(include_bytes!("fixtures/outside.pt"));
    assert!(
        outside.contains("`weight`: its shape is [5, 3] from element 0 on; no more than the 12"),
        "{outside}"
    );
    let overlapping = refused(include_bytes!("fixtures/overlapping.pt"));
    assert!(overlapping.contains("its elements overlap"), "{overlapping}");
    let compressed = refused(include_bytes!("fixtures/compressed.pt"));
    assert!(compressed.contains("it is compressed"), "{compressed}");
    let big = refused(include_bytes!("fixtures/big.pt"));
    assert!(big.contains("not little-endian"), "{big}");
    assert!(refused(b"\x80\x02\x8a\nl\xfc").contains("no end of a ZIP archive"));
    assert!(refused(include_bytes!("../archive/fixtures/plain.zip")).contains("no entry data.pkl"));
}

#[test]
fn what_has_no_name_or_one_that_is_taken_is_refused() {
    let refused = |bytes: &[u8]| from_bytes("some.pt", bytes).unwrap_err().to_string();
    let content = from_bytes("keys.pt", include_bytes!("fixtures/keys.pt")).unwrap();
    assert_eq!(
        (floats(&content, "a.weight").len(), content.tensors.len(), content.metadata.len()),
        (6, 1, 0)
    );
    let nameless = refused(include_bytes!("fixtures/nameless.pt"));
    assert!(nameless.contains("a key of `a` is no text and no whole number, and has a tensor"), "{nameless}");
    let twice = refused(include_bytes!("fixtures/twice.pt"));
    assert!(twice.contains("the value `a.b` is there twice"), "{twice}");
}

#[test]
fn marks_of_conjugates_and_negatives_are_not_passed_over() {
    for (mark, is_set) in [("conj", true), ("neg", true), ("neg", false), ("else", true)] {
        let mut program =
            b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
                .to_vec();
        program.extend_from_slice(
            b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x01tQK\x00K\x01\x85K\x01\x85\x89N}X",
        );
        program.extend_from_slice(&(mark.len() as u32).to_le_bytes());
        program.extend_from_slice(mark.as_bytes());
        program.extend_from_slice(if is_set { b"\x88stR." } else { b"\x89stR." });
        assert_eq!(of_pickle(&program).is_err(), is_set && mark != "else", "{mark} {is_set}");
    }
}

/// The program of a pickle that is a file's only one.
fn of_pickle(program: &[u8]) -> Result<Pickle, Refusal> {
    Pickle::read(program)
}

#[test]
fn deep_and_repeated_objects_take_no_more_than_their_file() {
    // A tuple in a tuple, a million deep.
    let deep = [&b"\x80\x02)"[..], &vec![0x85; 1_000_000], b"."].concat();
    assert!(of_pickle(&deep).is_ok());
    // A dictionary of one long list of pairs, made over and over.
    let copies = |count: usize| {
        let mut program = b"\x80\x02ccollections\nOrderedDict\nq\x00K\x01K\x02\x86q\x01]q\x02(".to_vec();
        program.extend_from_slice(&b"h\x01".repeat(1000));
        program.extend_from_slice(b"e\x85q\x03");
        program.extend_from_slice(&b"h\x00h\x03R0".repeat(count));
        program.extend_from_slice(b"}.");
        program
    };
    assert!(of_pickle(&copies(2)).is_ok());
    assert!(of_pickle(&copies(100)).is_err());
    // Lists of the list before, twice each: looking at all of them would take for ever.
    let mut twice = b"\x80\x02]q\x00".to_vec();
    for at in 0..40u8 {
        twice.extend_from_slice(&[b']', b'(', b'h', at, b'h', at, b'e', b'q', at + 1]);
    }
    twice.push(b'.');
    let pickle = of_pickle(&twice).ok().unwrap();
    let archive =
        Archive::from_bytes("empty", [b"PK\x05\x06".as_slice(), &[0; 18]].concat(), Format::Zip).unwrap();
    let found = Content::default();
    let mut reader =
        Reader { archive: &archive, root: "", pickle: &pickle, found, words: 100_000, elements: 0 };
    assert!(reader.walk(pickle.root(), "", 0).is_err());
}

proptest! {
    #[test]
    fn no_program_is_believed(program in proptest::collection::vec(any::<u8>(), 0..60)) {
        let _ = of_pickle(&program);
    }

    #[test]
    fn no_file_is_believed(changes in proptest::collection::vec((0..3000usize, any::<u8>()), 1..8)) {
        let mut bytes = STATE.to_vec();
        for (at, to) in changes {
            let length = bytes.len();
            bytes[at % length] = to;
        }
        if let Ok(content) = from_bytes("changed", bytes) {
            for tensor in content.tensors.values() {
                prop_assert_eq!(tensor.bytes.len(), tensor.shape.iter().product::<usize>() * tensor.dtype.size());
            }
        }
    }
}
