//! JSON as Python's `json.dumps` writes it: blanks after commas and colons, or lines.

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// How JSON is laid out.
#[derive(Default)]
pub(super) struct Style {
    /// Blanks for each level, and every entry on a line of its own.
    pub indent: Option<usize>,
    /// Whether what is not ASCII is escaped.
    pub ascii: bool,
    /// Between entries, and between a key and its value.
    pub separators: Option<(String, String)>,
}

pub(super) fn to_string(value: &impl Serialize, style: Style) -> serde_json::Result<String> {
    /// More blanks for a level than this make no line more readable.
    const MOST: usize = 64;
    let between = if style.indent.is_some() { "," } else { ", " };
    let (between, after_key) = style.separators.unwrap_or_else(|| (between.to_owned(), ": ".to_owned()));
    let indent = style.indent.map(|indent| indent.min(MOST));
    let mut out = Vec::new();
    let python = Python { indent, ascii: style.ascii, between, after_key, level: 0, has_entries: false };
    value.serialize(&mut Serializer::with_formatter(&mut out, python))?;
    // Only text was written.
    Ok(String::from_utf8_lossy(&out).into_owned())
}

struct Python {
    indent: Option<usize>,
    ascii: bool,
    between: String,
    after_key: String,
    level: usize,
    has_entries: bool,
}

impl Python {
    fn begin<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.has_entries = false;
        out.write_all(bracket)
    }

    fn end<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if self.has_entries {
            self.new_line(out)?;
        }
        self.has_entries = true;
        out.write_all(bracket)
    }

    fn entry<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(self.between.as_bytes())?;
        }
        self.new_line(out)
    }

    fn new_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        let Some(indent) = self.indent else { return Ok(()) };
        write!(out, "\n{:1$}", "", indent * self.level)
    }
}

impl Formatter for Python {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.entry(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_entries = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.entry(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(self.after_key.as_bytes())
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_entries = true;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if !self.ascii {
            return out.write_all(fragment.as_bytes());
        }
        for unit in fragment.encode_utf16() {
            match u8::try_from(unit) {
                Ok(byte) if byte.is_ascii() => out.write_all(&[byte])?,
                _ => write!(out, "\\u{unit:04x}")?,
            }
        }
        Ok(())
    }
}
