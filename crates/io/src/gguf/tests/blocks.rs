//! Packed blocks, held against ggml's own Python package; see `fixtures/gguf/make.py`.

use super::*;
use std::sync::LazyLock;

static REFERENCE: LazyLock<Gguf> = LazyLock::new(|| {
    let bytes = include_bytes!("../../../fixtures/gguf/blocks.gguf");
    Gguf::from_bytes("blocks.gguf", *bytes).unwrap()
});

fn get(name: &str) -> View<'static> {
    REFERENCE.get(name).unwrap()
}

fn bits(elements: &[f32]) -> Vec<u32> {
    elements.iter().map(|element| element.to_bits()).collect()
}

#[test]
fn every_encoding_is_unpacked_to_the_bit() {
    for encoding in Encoding::ALL.into_iter().filter(|encoding| *encoding != Encoding::F32) {
        let (packed, expected) = (get(encoding.name()), get(&format!("{encoding}.f32")));
        assert_eq!(packed.encoding, encoding);
        assert!(expected.elements() >= 36, "{encoding}");
        let (elements, expected) = (packed.to_f32(), expected.to_f32());
        for (at, (ours, theirs)) in elements.iter().zip(&expected).enumerate() {
            assert_eq!(ours.to_bits(), theirs.to_bits(), "{encoding}, element {at}: {ours} for {theirs}");
        }
        assert_eq!(elements.len(), expected.len());
    }
}

#[test]
fn elements_are_packed_to_the_bit() {
    let elements = get("elements").to_f32();
    for encoding in [
        Encoding::F16,
        Encoding::BF16,
        Encoding::Q4_0,
        Encoding::Q4_1,
        Encoding::Q5_0,
        Encoding::Q5_1,
        Encoding::Q8_0,
    ] {
        let expected = get(&format!("{encoding}.packed"));
        let bytes = encoding.pack(&elements).unwrap();
        let per_block = encoding.block_bytes();
        for (at, (ours, theirs)) in bytes.chunks(per_block).zip(expected.bytes.chunks(per_block)).enumerate()
        {
            assert_eq!(ours, theirs, "{encoding}, block {at}");
        }
        assert_eq!(bytes.len(), expected.bytes.len());
    }
    assert_eq!(Encoding::F32.pack(&elements).unwrap(), get("elements").bytes);
}

#[test]
fn a_part_of_a_row_is_unpacked_in_place() {
    let packed = get("Q6_K");
    let whole = packed.to_f32();
    let mut part = [0.0; 256];
    packed.encoding.unpack(&packed.bytes[210..420], &mut part).unwrap();
    assert_eq!(bits(&part), bits(&whole[256..512]));

    let message = packed.encoding.unpack(&packed.bytes[..210], &mut [0.0; 255]).unwrap_err().to_string();
    assert_eq!(message, "blocks: 210 bytes of Q6_K for 255 elements; 210 bytes are 256 elements");
    assert!(packed.encoding.unpack(&packed.bytes[..209], &mut part).is_err());
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let message = |encoding: Encoding, elements: &[f32]| encoding.pack(elements).unwrap_err().to_string();
    assert_eq!(message(Encoding::Q8_0, &[0.0; 33]), "elements: there are 33; Q8_0 packs 32 at a time");
    assert!(message(Encoding::Q4K, &[0.0; 256]).contains("should become Q4_K; F32, F16,"));
    for wrong in [f32::NAN, f32::NEG_INFINITY, 70_000.0] {
        let mut elements = [0.0; 64];
        elements[40] = wrong;
        let message = message(Encoding::Q4_1, &elements);
        assert!(message.starts_with(&format!("elements: element 40 is {wrong}; Q4_1 packs")), "{message}");
    }
}

proptest! {
    /// An element comes back within a step of the integers, and the scale's own rounding to 11 bits. (Half a step would
    /// do but for `Q4_0` and `Q5_0`, whose integers reach one further to one side than to the other.)
    #[test]
    fn what_is_packed_comes_back_nearly(elements in prop::array::uniform32(-100f32..100.0)) {
        let most = elements.iter().fold(0f32, |most, element| most.max(element.abs()));
        let spread = 2.0 * most;
        for (encoding, step) in [
            (Encoding::Q4_0, most / 8.0),
            (Encoding::Q4_1, spread / 15.0),
            (Encoding::Q5_0, most / 16.0),
            (Encoding::Q5_1, spread / 31.0),
            (Encoding::Q8_0, most / 127.0),
        ] {
            let bytes = encoding.pack(&elements).unwrap();
            let back = View { encoding, shape: &[32], bytes: &bytes }.to_f32();
            for (before, after) in elements.iter().zip(&back) {
                prop_assert!((before - after).abs() <= step + spread / 1024.0, "{encoding}: {before} became {after}");
            }
        }
    }

    /// Whatever the bytes are, scales that are no numbers included.
    #[test]
    fn any_block_is_unpacked(bytes in prop::collection::vec(any::<u8>(), 210)) {
        for encoding in Encoding::ALL {
            let whole = bytes.len() / encoding.block_bytes();
            let view = View { encoding, shape: &[], bytes: &bytes };
            prop_assert_eq!(view.to_f32().len(), whole * encoding.block_elements());
        }
    }
}
