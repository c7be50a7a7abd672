//! What a layer is, and layers that are put together from layers.

use lanthorn_ir::graph::{MAX_NESTING, Subgraph};
use lanthorn_ir::prim::Control;
use lanthorn_ir::{Builder, Error, Lazy, Prim, Result, Value, ops};
use serde::{Deserialize, Serialize};

use crate::mode::Mode;
use crate::params::{ParamSpec, Params};

/// One forward pass: what its layers read besides their inputs, and the state that they leave behind.
#[derive(Debug)]
pub struct Pass<'a, V> {
    params: &'a Params<V>,
    state: Params<V>,
    mode: &'a Mode<V>,
}

impl<'a, V: Clone> Pass<'a, V> {
    /// A pass from this state.
    pub fn new(params: &'a Params<V>, state: &Params<V>, mode: &'a Mode<V>) -> Pass<'a, V> {
        Pass { params, state: state.clone(), mode }
    }

    /// The parameters.
    pub fn params(&self) -> &'a Params<V> {
        self.params
    }

    /// Training or evaluation.
    pub fn mode(&self) -> &'a Mode<V> {
        self.mode
    }

    /// A value of the state, as the layers so far have left it.
    ///
    /// Errors: there is none of that name.
    pub fn state(&self, name: &str) -> Result<&V> {
        self.state.get(name)
    }

    /// Gives a value of the state another one.
    pub fn set_state(&mut self, name: &str, value: V) {
        self.state.insert(name, value);
    }

    /// The state after the pass.
    pub fn into_state(self) -> Params<V> {
        self.state
    }
}

/// A function of one value with parameters and state of its own.
///
/// Tuples of up to twelve layers, and lists, run one after the other.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value};
/// use lanthorn_nn::layers::{Activation, Layer, Linear, Residual};
/// use lanthorn_nn::{Mode, Params};
///
/// let net = (Linear::new("in", 8, 16), Activation::Relu, Residual(Linear::new("more", 16, 16)));
/// let params: Params<Value> = net
///     .specs()
///     .into_iter()
///     .map(|spec| Ok((spec.name.clone(), Value::leaf(spec.ty(DType::F32))?)))
///     .collect::<lanthorn_ir::Result<_>>()?;
/// let x = Value::leaf(TensorType::new(DType::F32, [5, 8]))?;
/// let (y, _) = net.run(&Lazy, &params, &Params::new(), &x, &Mode::Eval)?;
/// assert_eq!(y.ty(), &TensorType::new(DType::F32, [5, 16]));
/// # lanthorn_ir::Result::Ok(())
/// ```
pub trait Layer {
    /// The parameters.
    fn specs(&self) -> Vec<ParamSpec> {
        Vec::new()
    }

    /// The state at the beginning.
    fn state_specs(&self) -> Vec<ParamSpec> {
        Vec::new()
    }

    /// True if training needs a key.
    fn is_random(&self) -> bool {
        false
    }

    /// The layer's value at `x` within a pass.
    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value>;

    /// The layer as a whole model: `(params, state, x, mode) -> (output, state)`.
    fn run<B: Builder>(
        &self,
        b: &B,
        params: &Params<B::Value>,
        state: &Params<B::Value>,
        x: &B::Value,
        mode: &Mode<B::Value>,
    ) -> Result<(B::Value, Params<B::Value>)> {
        let mut pass = Pass::new(params, state, mode);
        let y = self.apply(b, &mut pass, x)?;
        Ok((y, pass.into_state()))
    }
}

/// What a layer of layers has of theirs.
macro_rules! those_of {
    ($self:ident => $layers:expr) => {
        fn specs(&$self) -> Vec<ParamSpec> {
            $layers.specs()
        }

        fn state_specs(&$self) -> Vec<ParamSpec> {
            $layers.state_specs()
        }

        fn is_random(&$self) -> bool {
            $layers.is_random()
        }
    };
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    those_of!(self => (**self));

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        (**self).apply(b, pass, x)
    }
}

/// One layer after the other.
impl<L: Layer> Layer for Vec<L> {
    fn specs(&self) -> Vec<ParamSpec> {
        self.iter().flat_map(Layer::specs).collect()
    }

    fn state_specs(&self) -> Vec<ParamSpec> {
        self.iter().flat_map(Layer::state_specs).collect()
    }

    fn is_random(&self) -> bool {
        self.iter().any(Layer::is_random)
    }

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        self.iter().try_fold(x.clone(), |x, layer| layer.apply(b, pass, &x))
    }
}

macro_rules! tuples {
    ($($($layer:ident)+;)+) => {$(
        /// One layer after the other.
        impl<$($layer: Layer),+> Layer for ($($layer,)+) {
            #[allow(non_snake_case)]
            fn specs(&self) -> Vec<ParamSpec> {
                let ($($layer,)+) = self;
                [$($layer.specs()),+].concat()
            }

            #[allow(non_snake_case)]
            fn state_specs(&self) -> Vec<ParamSpec> {
                let ($($layer,)+) = self;
                [$($layer.state_specs()),+].concat()
            }

            #[allow(non_snake_case)]
            fn is_random(&self) -> bool {
                let ($($layer,)+) = self;
                [$($layer.is_random()),+].contains(&true)
            }

            #[allow(non_snake_case)]
            fn apply<Z: Builder>(
                &self,
                b: &Z,
                pass: &mut Pass<'_, Z::Value>,
                x: &Z::Value,
            ) -> Result<Z::Value> {
                let ($($layer,)+) = self;
                let x = x.clone();
                $(let x = $layer.apply(b, pass, &x)?;)+
                Ok(x)
            }
        }
    )+};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}

/// `x + layer(x)` (He et al. 2016); the layer keeps the shape.
#[derive(Clone, Debug)]
pub struct Residual<L>(pub L);

impl<L: Layer> Layer for Residual<L> {
    those_of!(self => self.0);

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let y = self.0.apply(b, pass, x)?;
        if b.ty(&y) != b.ty(x) {
            let (x, y) = (b.ty(x), b.ty(&y));
            return Err(Error::shape(
                "residual",
                format!("the layer makes {y} of {x}, expected the same type"),
            ));
        }
        ops::add(b, x, &y)
    }
}

/// How [`Branches`] come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// Their sum.
    Add,
    /// One behind the other along an axis.
    Concat(isize),
}

/// Layers that all read `x`, and their results together.
#[derive(Clone, Debug)]
pub struct Branches<L> {
    pub layers: Vec<L>,
    pub join: Join,
}

impl<L: Layer> Layer for Branches<L> {
    those_of!(self => self.layers);

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let parts = self.layers.iter().map(|layer| layer.apply(b, pass, x)).collect::<Result<Vec<_>>>()?;
        if let Join::Concat(axis) = self.join {
            return ops::concat(b, &parts, axis);
        }
        let mut parts = parts.into_iter();
        let first = parts.next().ok_or_else(|| Error::shape("branches", "there are no layers to add"))?;
        parts.try_fold(first, |sum, part| {
            if b.ty(&part) != b.ty(&sum) {
                let (first, other) = (b.ty(&sum), b.ty(&part));
                let message = format!("the layers make {first} and {other}, expected one type");
                return Err(Error::shape("branches", message));
            }
            ops::add(b, &sum, &part)
        })
    }
}

/// A layer whose intermediate values are not kept for the backward but computed again (Chen et al. 2016): less memory
/// for a second forward. What is random draws the same again.
#[derive(Clone, Debug)]
pub struct Checkpoint<L>(pub L);

impl<L: Layer> Layer for Checkpoint<L> {
    those_of!(self => self.0);

    fn apply<B: Builder>(&self, b: &B, pass: &mut Pass<'_, B::Value>, x: &B::Value) -> Result<B::Value> {
        let mut operands = Vec::new();
        let mut leaves = Vec::new();
        let mut leaf = |value: &B::Value| {
            let leaf = Value::leaf(b.ty(value).clone())?;
            operands.push(value.clone());
            leaves.push(leaf.clone());
            Ok(leaf)
        };
        let input = leaf(x)?;
        let mut params = Params::new();
        for spec in self.0.specs() {
            params.insert(spec.name.clone(), leaf(pass.params.get(&spec.name)?)?);
        }
        let mut state = Params::new();
        for spec in self.0.state_specs() {
            state.insert(spec.name.clone(), leaf(pass.state(&spec.name)?)?);
        }
        let mode = pass.mode.try_map(&mut leaf)?;

        let (y, after) = self.0.run(&Lazy, &params, &state, &input, &mode)?;
        let roots: Vec<Value> = std::iter::once(&y).chain(after.values()).cloned().collect();
        let body = Subgraph::capture(&leaves, &roots);
        if body.nesting() > MAX_NESTING {
            return Err(Error::unsupported("checkpoint", format!("nests deeper than {MAX_NESTING} levels")));
        }
        let body = Prim::Control(Control::Checkpoint { body: body.shared() });
        let mut results = b.apply(body, &operands)?.into_iter();
        let y = results.next().ok_or_else(|| Error::unsupported("checkpoint", "gave no value"))?;
        for (name, value) in after.names().zip(results) {
            pass.set_state(name, value);
        }
        pass.mode.go_on_after(&mode);
        Ok(y)
    }
}
