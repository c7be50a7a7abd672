//! `docs/numerics.md` states what the tests hold.

use lanthorn_optest::tolerance::renew;

#[test]
fn the_tables_of_the_page_are_those_of_the_tests() {
    let page = include_str!("../../../docs/numerics.md");
    let expected = renew(page).expect("the page has a place for the tables");
    assert!(page == expected, "stale; run `cargo run -p lanthorn-optest --example numerics_page`");
}
