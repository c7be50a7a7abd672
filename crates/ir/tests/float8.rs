//! The 8-bit floats against torch: all codes, and numbers at, beside and between ties.

use lanthorn_ir::float8::{F8E4M3, F8E5M2};

const TORCH: &str = include_str!("float8.txt");

fn bits(x: f32) -> u32 {
    match (x.is_nan(), x.is_sign_negative()) {
        (true, false) => 0x7fc0_0000,
        (true, true) => 0xffc0_0000,
        _ => x.to_bits(),
    }
}

#[test]
fn codes_and_numbers_are_those_of_torch() {
    let (mut decoded, mut encoded) = (0, 0);
    for line in TORCH.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, kind, from, to] = words[..] else { panic!("{line}") };
        let [from, to] = [from, to].map(|word| u32::from_str_radix(word, 16).unwrap());
        if kind == "d" {
            let code = from as u8;
            let value = if name == "e4m3" { F8E4M3(code).to_f32() } else { F8E5M2(code).to_f32() };
            assert_eq!(bits(value), to, "{line}");
            decoded += 1;
        } else {
            let value = f32::from_bits(from);
            let code = if name == "e4m3" { F8E4M3::from_f32(value).0 } else { F8E5M2::from_f32(value).0 };
            assert_eq!(u32::from(code), to, "{line}");
            encoded += 1;
        }
    }
    assert!(decoded == 512 && encoded > 1500, "{decoded} {encoded}");
}
