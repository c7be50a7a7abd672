//! Writes the tables of `docs/numerics.md`.

use std::io::{Error, ErrorKind};

use lanthorn_optest::tolerance::renew;

fn main() -> std::io::Result<()> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/numerics.md");
    let page = renew(&std::fs::read_to_string(path)?);
    let page =
        page.ok_or_else(|| Error::new(ErrorKind::InvalidData, "the page has no place for the tables"))?;
    std::fs::write(path, page)
}
