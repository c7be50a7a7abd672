//! What the README shows is what the examples run.

#[test]
fn the_first_program_is_the_example() {
    let readme = include_str!("../../../README.md");
    assert!(
        readme.contains(include_str!("../examples/readme.rs")),
        "README.md and examples/readme.rs differ"
    );
}
