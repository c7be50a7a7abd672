//! Bytes to the device and back: any offset and length, by polling and by waiting.

use lanthorn_compiler::backend::{MemRef, Memory};
use lanthorn_ir::ErrorKind;

use crate::backend;

fn bytes_of(memory: &dyn Memory, offset: usize, length: usize) -> Vec<u8> {
    backend().read(MemRef { memory, offset }, length).unwrap().wait().unwrap()
}

#[test]
fn any_range_of_bytes_is_written_and_read() {
    let memory = backend().allocate(32).unwrap();
    let at = |offset| MemRef { memory: &*memory, offset };
    backend().write(at(0), &[9; 32]).unwrap();
    for (offset, length) in [(0, 32), (4, 8), (1, 1), (3, 7), (30, 2), (5, 0), (7, 1)] {
        let mut expected = bytes_of(&*memory, 0, 32);
        let new: Vec<u8> = (0..length as u8).map(|i| i.wrapping_mul(77).wrapping_add(offset as u8)).collect();
        backend().write(at(offset), &new).unwrap();
        expected[offset..offset + length].copy_from_slice(&new);
        assert_eq!(bytes_of(&*memory, 0, 32), expected, "{length} bytes at {offset}");
        assert_eq!(bytes_of(&*memory, offset, length), new);
    }
    assert_eq!(backend().write(at(30), &[0; 3]).unwrap_err().kind, ErrorKind::Transfer);
    assert_eq!(backend().read(at(usize::MAX), 1).err().unwrap().kind, ErrorKind::Transfer);
}

#[test]
fn a_read_is_polled_until_it_arrives_and_sees_the_memory_as_it_was() {
    let memory = backend().allocate(64).unwrap();
    let place = MemRef { memory: &*memory, offset: 0 };
    backend().write(place, &[1; 64]).unwrap();
    let mut ticket = backend().read(place, 64).unwrap();
    backend().write(place, &[2; 64]).unwrap();
    let found = loop {
        match ticket.poll().unwrap() {
            Some(bytes) => break bytes,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(found, [1; 64]);
    assert_eq!(ticket.poll().unwrap_err().kind, ErrorKind::Transfer);
    assert_eq!(bytes_of(&*memory, 0, 64), [2; 64]);
}
