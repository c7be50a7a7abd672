//! A table of vectors.

use lanthorn_ir::ops::{self, Encoding};
use lanthorn_ir::{Builder, Result};

use crate::params::{Init, ParamKind, ParamSpec, Params};

/// Integer `ids [..]` to rows of a table, `[.., width]`.
///
/// Parameter: `NAME.weight [rows, width]`, which may be packed in blocks.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: String,
    rows: usize,
    width: usize,
    init: Init,
    encoding: Option<Encoding>,
}

impl Embedding {
    /// A table that begins standard normal.
    pub fn new(name: &str, rows: usize, width: usize) -> Embedding {
        let init = Init::Normal { std: 1.0 };
        Embedding { weight: format!("{name}.weight"), rows, width, init, encoding: None }
    }

    /// The table with another beginning.
    pub fn with_init(self, init: Init) -> Embedding {
        Embedding { init, ..self }
    }

    /// The table packed in blocks.
    pub fn with_encoding(self, encoding: Option<Encoding>) -> Embedding {
        Embedding { encoding, ..self }
    }

    /// The parameter.
    pub fn specs(&self) -> Vec<ParamSpec> {
        let spec = ParamSpec::new(&self.weight, &[self.rows, self.width], self.init, ParamKind::Embedding);
        vec![spec.with_encoding(self.encoding)]
    }

    /// The rows of `ids [..]`. An id out of range is an error when the op runs.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, ids: &B::Value) -> Result<B::Value> {
        let rows = ops::embedding(b, self.table(params)?, ids)?;
        self.encoding.map_or(Ok(rows.clone()), |encoding| ops::dequantize(b, &rows, encoding))
    }

    /// Rows `0 .. count`, `[count, width]`, as a view.
    pub fn positions<B: Builder>(&self, b: &B, params: &Params<B::Value>, count: usize) -> Result<B::Value> {
        let rows = ops::position_embedding(b, self.table(params)?, None, count)?;
        self.encoding.map_or(Ok(rows.clone()), |encoding| ops::dequantize(b, &rows, encoding))
    }

    /// The transpose: `x [.., width]` against every row, `[.., rows]`.
    pub fn attend<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        let table = self.table(params)?;
        match self.encoding {
            Some(encoding) => ops::quantized_linear(b, x, table, encoding),
            None => ops::linear(b, x, table, None),
        }
    }

    fn table<'a, V>(&self, params: &'a Params<V>) -> Result<&'a V> {
        params.get(&self.weight)
    }
}
