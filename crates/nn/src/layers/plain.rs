//! Layers that need nothing of a pass but parameters, as [`Layer`]s.

use lanthorn_ir::{Builder, Error, Result, ops};

use super::{Dropout, Embedding, GatedMlp, Layer, LayerNorm, Linear, Mlp, Pass, RmsNorm, SelfAttention};
use crate::params::ParamSpec;

macro_rules! plain {
    ($($layer:ident),*) => {$(
        impl Layer for $layer {
            fn specs(&self) -> Vec<ParamSpec> {
                $layer::specs(self)
            }

            fn apply<B: Builder>(
                &self,
                b: &B,
                pass: &mut Pass<'_, B::Value>,
                x: &B::Value,
            ) -> Result<B::Value> {
                self.forward(b, pass.params(), x)
            }
        }
    )*};
}

plain!(Embedding, GatedMlp, LayerNorm, Linear, Mlp, RmsNorm, SelfAttention);

impl Layer for Dropout {
    fn is_random(&self) -> bool {
        Dropout::is_random(self)
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        self.forward(b, x, pass.mode())
    }
}

/// Adds a learned vector for each position to `x [batch, seq, width]`.
///
/// Parameter: that of the table, `[context, width]`.
#[derive(Clone, Debug)]
pub struct Positions(pub Embedding);

impl Layer for Positions {
    fn specs(&self) -> Vec<ParamSpec> {
        self.0.specs()
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let ty = b.ty(x);
        let &[_, seq, _] = &ty.shape[..] else {
            return Err(Error::shape("positions", format!("x is {ty}, expected [batch, seq, width]")));
        };
        let table = self.0.positions(b, pass.params(), seq)?;
        ops::add(b, x, &ops::cast(b, &table, b.ty(x).dtype)?)
    }
}
