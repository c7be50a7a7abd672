//! Numbers on the command line. What is none is told in the option's own name, which `clap` adds.

use std::str::FromStr;

/// What a parser says of a value that it refuses.
type Parsed<T> = Result<T, String>;

fn parsed<T: FromStr>(text: &str, is_right: impl Fn(&T) -> bool, expected: &str) -> Parsed<T> {
    let refused = || format!("{expected} would be right");
    text.parse().ok().filter(is_right).ok_or_else(refused)
}

/// A whole number of at least 0.
pub fn count(text: &str) -> Parsed<usize> {
    parsed(text, |_| true, "a whole number of at least 0")
}

/// A whole number of at least 1.
pub fn at_least_one(text: &str) -> Parsed<usize> {
    parsed(text, |&number| number > 0, "a whole number of at least 1")
}

/// [`count`], in 64 bits on every machine.
pub fn count_64(text: &str) -> Parsed<u64> {
    parsed(text, |_| true, "a whole number of at least 0")
}

/// [`at_least_one`], in 64 bits on every machine.
pub fn at_least_one_64(text: &str) -> Parsed<u64> {
    parsed(text, |&number| number > 0, "a whole number of at least 1")
}

/// Any number; whoever takes it says which it takes.
pub fn number(text: &str) -> Parsed<f64> {
    parsed(text, |_| true, "a number")
}

/// A finite number of at least 0.
pub fn not_negative(text: &str) -> Parsed<f64> {
    parsed(text, |number| (0.0..f64::INFINITY).contains(number), "a finite number of at least 0")
}

/// A part that is not the whole.
pub fn share(text: &str) -> Parsed<f64> {
    parsed(text, |number| (0.0..1.0).contains(number), "a number from 0 to below 1")
}
