//! Writes `docs/ops.md`.

#[path = "../tests/page/columns.rs"]
mod columns;

fn main() -> std::io::Result<()> {
    std::fs::write(columns::PATH, columns::page())
}
