//! `docs/ops.md` is what the table, the cases and the devices say.

mod columns;

#[test]
fn the_page_of_the_ops_is_up_to_date() {
    let found = std::fs::read_to_string(columns::PATH).unwrap_or_default();
    let expected = columns::page();
    let differs = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        found == expected,
        "docs/ops.md is stale; run `cargo run -p lanthorn-gpu --example ops_page`. First difference: {differs:?}"
    );
}
