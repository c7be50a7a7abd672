//! A table of vectors.

use lanthorn_ir::{Builder, Result, ops};

use crate::params::{Init, ParamKind, ParamSpec, Params};

/// Integer `ids [..]` to rows of a table, `[.., width]`.
///
/// Parameter: `NAME.weight [rows, width]`.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: String,
    rows: usize,
    width: usize,
    init: Init,
}

impl Embedding {
    /// A table that begins standard normal.
    pub fn new(name: &str, rows: usize, width: usize) -> Embedding {
        Embedding { weight: format!("{name}.weight"), rows, width, init: Init::Normal { std: 1.0 } }
    }

    /// The table with another beginning.
    pub fn with_init(self, init: Init) -> Embedding {
        Embedding { init, ..self }
    }

    /// The parameter.
    pub fn specs(&self) -> Vec<ParamSpec> {
        vec![ParamSpec::new(&self.weight, &[self.rows, self.width], self.init, ParamKind::Embedding)]
    }

    /// The rows of `ids [..]`. An id out of range is an error when the op runs.
    pub fn forward<B: Builder>(&self, b: &B, params: &Params<B::Value>, ids: &B::Value) -> Result<B::Value> {
        ops::embedding(b, self.table(params)?, ids)
    }

    /// Rows `0 .. count`, `[count, width]`, as a view.
    pub fn positions<B: Builder>(&self, b: &B, params: &Params<B::Value>, count: usize) -> Result<B::Value> {
        ops::position_embedding(b, self.table(params)?, None, count)
    }

    /// The transpose: `x [.., width]` against every row, `[.., rows]`.
    pub fn attend<B: Builder>(&self, b: &B, params: &Params<B::Value>, x: &B::Value) -> Result<B::Value> {
        ops::linear(b, x, self.table(params)?, None)
    }

    fn table<'a, V>(&self, params: &'a Params<V>) -> Result<&'a V> {
        params.get(&self.weight)
    }
}
