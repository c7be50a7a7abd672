//! Files of more than 2 and 4 GiB: read where they lie, and written without a copy.

use lanthorn_io::gguf::{self, Encoding, Metadata};
use lanthorn_io::{Gguf, View, checkpoint, safetensors};
use lanthorn_ir::DType;
use serde_json::json;
use std::io::{self, Write};

const GIB: usize = 1 << 30;

/// Counts what is written and keeps its beginning.
#[derive(Default)]
struct Counting {
    bytes: u64,
    begin: Vec<u8>,
}

impl Write for Counting {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        let kept = written.len().min(4096 - self.begin.len());
        self.begin.extend_from_slice(&written[..kept]);
        self.bytes += written.len() as u64;
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of this process in memory, files that are mapped included.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// One test, because others beside it would be counted too.
#[cfg(target_os = "linux")]
#[test]
fn files_beyond_32_bits_are_read_where_they_lie() {
    use std::os::unix::fs::FileExt;
    let folder = tempfile::tempdir().unwrap();
    let large = 5 * GIB / 2;
    let zeros = vec![0u8; large];
    let last = [1u8, 2, 3, 4];

    // A checkpoint's header for two tensors of 2.5 GiB and a small one, and nothing but a hole for their data.
    let documents = [("progress".to_owned(), json!({ "step": 7 }))].into();
    let view = |shape, bytes| View { dtype: DType::F32, shape, bytes };
    let (shape, small) = ([large / 4], [1]);
    let tensors = [
        ("params/a", view(&shape, &zeros)),
        ("optim/a", view(&shape, &zeros)),
        ("last", view(&small, &last)),
    ];
    let metadata = [
        ("format".to_owned(), checkpoint::FORMAT.to_owned()),
        ("version".to_owned(), checkpoint::VERSION.to_string()),
        ("document/progress".to_owned(), json!({ "step": 7 }).to_string()),
    ];
    let mut out = Counting::default();
    safetensors::write_to(&mut out, tensors, &metadata.into()).unwrap();
    assert!(out.bytes > 2 * large as u64);
    let path = folder.path().join("checkpoint.safetensors");
    let file = std::fs::File::create(&path).unwrap();
    let header = 8 + u64::from_le_bytes(out.begin[..8].try_into().unwrap()) as usize;
    file.write_all_at(&out.begin[..header], 0).unwrap();
    file.set_len(out.bytes).unwrap();
    file.write_all_at(&last, out.bytes - 4).unwrap();

    let before = resident();
    let (found, tensors) = checkpoint::open(&path).unwrap();
    assert_eq!(found, documents);
    let optim = tensors.get("optim/a").unwrap();
    assert_eq!((optim.bytes.len(), optim.bytes[large - 1]), (large, 0));
    assert_eq!(tensors.get("last").unwrap().bytes, last);
    let taken = resident().saturating_sub(before);
    assert!(taken < 64 << 20, "{taken} bytes of {} are in memory", out.bytes);

    // The same of GGUF, packed.
    let elements = large / 18 * 32;
    let shape = [elements / 32, 32];
    let bytes = &zeros[..large / 18 * 18];
    let tensors = [
        ("a", gguf::View { encoding: Encoding::Q4_0, shape: &shape, bytes }),
        ("b", gguf::View { encoding: Encoding::Q4_0, shape: &shape, bytes }),
        ("last", gguf::View { encoding: Encoding::F32, shape: &[1], bytes: &last }),
    ];
    let mut out = Counting::default();
    gguf::write_to(&mut out, tensors, &Metadata::new("large")).unwrap();
    let path = folder.path().join("model.gguf");
    let file = std::fs::File::create(&path).unwrap();
    // The header is far shorter than what is kept, behind which all is 0 but the last tensor.
    file.write_all_at(&out.begin, 0).unwrap();
    file.set_len(out.bytes).unwrap();
    let before = resident();
    let model = Gguf::open(&path).unwrap();
    assert_eq!(model.get("b").unwrap().bytes.len(), bytes.len());
    assert_eq!(model.get("b").unwrap().bytes[bytes.len() - 1], 0);
    let place =
        model.get("last").unwrap().bytes.as_ptr().addr() - model.get("a").unwrap().bytes.as_ptr().addr();
    assert!(place > 2 * bytes.len() - 1, "{place}");
    let taken = resident().saturating_sub(before);
    assert!(taken < 64 << 20, "{taken} bytes of {} are in memory", out.bytes);
}
