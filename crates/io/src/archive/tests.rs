use super::*;
use proptest::prelude::*;

const ZIPS: [&[u8]; 2] = [include_bytes!("fixtures/plain.zip"), include_bytes!("fixtures/wide.zip")];
const TARS: [&[u8]; 2] = [include_bytes!("fixtures/pax.tar"), include_bytes!("fixtures/gnu.tar")];

/// What Python has put into each.
fn expected() -> Vec<(String, Vec<u8>)> {
    let long = format!("folder/{}.bin", "long".repeat(40));
    let bytes: Vec<u8> = (0..=255).cycle().take(768).collect();
    vec![
        ("one.txt".into(), b"first".to_vec()),
        (long, bytes),
        ("empty".into(), Vec::new()),
        ("süß".into(), vec![0, 1]),
    ]
}

fn all() -> impl Iterator<Item = (&'static [u8], Format)> {
    let zips = ZIPS.into_iter().map(|bytes| (bytes, Format::Zip));
    zips.chain(TARS.into_iter().map(|bytes| (bytes, Format::Tar)))
}

#[test]
fn the_entries_of_archives_of_another_writer_are_read() {
    for (bytes, format) in all() {
        let archive = Archive::from_bytes("example", bytes, format).unwrap();
        let found: Vec<_> = archive.iter().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())).collect();
        assert_eq!(found, expected(), "{format:?}");
        assert_eq!(archive.get("one.txt"), Some(&b"first"[..]));
        assert_eq!(archive.get("two.txt"), None);
    }
}

#[test]
fn what_is_no_archive_is_refused_by_name() {
    let refused = |bytes: &[u8], format| {
        Archive::from_bytes("some file", bytes, format)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let deflated = include_bytes!("fixtures/deflated.zip");
    let expected =
        "some file: the entry `one.txt`: it is compressed; an entry that is stored as it is would be right";
    assert_eq!(refused(deflated, Format::Zip), expected);
    let overlapping = refused(include_bytes!("fixtures/overlapping.zip"), Format::Zip);
    assert!(overlapping.contains("its entries lie over one another"), "{overlapping}");
    assert!(refused(b"no archive", Format::Zip).contains("no end of a ZIP archive"));
    assert!(refused(&[7; 2000], Format::Tar).contains("byte 0 is no header of an entry"));
    assert!(refused(b"\x1f\x8b\x08", Format::Tar).contains("compressed by gzip"));
    assert!(refused(b"", Format::Tar).contains("no header"));
    let twice = [TARS[0], TARS[0]].concat();
    // The end of the first is the end.
    assert_eq!(refused(&twice, Format::Tar), "");
    let first = TARS[0].windows(7).position(|name| name == b"one.txt").unwrap();
    let entry = &TARS[0][first..first + 1024];
    assert!(refused(&[entry, entry].concat(), Format::Tar).contains("`one.txt` is there twice"));
}

proptest! {
    /// Whatever the bytes are, there is a result or an error, and no entry has bytes that are not there.
    #[test]
    fn no_bytes_are_believed(which in 0..4usize, cut in 0..4000usize, changes in proptest::collection::vec((0..8000usize, any::<u8>()), 0..6)) {
        let (bytes, format) = all().nth(which).unwrap();
        let mut bytes = bytes.to_vec();
        for (at, to) in changes {
            let length = bytes.len();
            bytes[at % length] = to;
        }
        bytes.truncate(bytes.len().saturating_sub(cut.saturating_sub(2000)));
        let length = bytes.len();
        if let Ok(archive) = Archive::from_bytes("changed", bytes, format) {
            for (_, bytes) in archive.iter() {
                prop_assert!(bytes.len() <= length);
            }
        }
    }
}
