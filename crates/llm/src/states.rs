//! The running state of recurrent layers: what a sequence has of its past beside keys and values, of one size however
//! long it is.
//!
//! It lies in slots of the pool, two for each sequence. A call reads the one and writes the other, and they change places
//! when it commits, so that a call which fails leaves the state as it was.

use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};

/// The state of a gated delta rule: `[heads, head_dim, value_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeltaShape {
    pub heads: usize,
    /// Of queries and keys.
    pub head_dim: usize,
    pub value_dim: usize,
}

/// The state of a short convolution: its last `kernel - 1` inputs, `[kernel - 1, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    pub channels: usize,
    /// Taps, that of the token itself included; at least 2.
    pub kernel: usize,
}

/// What each recurrent layer keeps of a sequence, each kind in the order of the graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateShapes {
    pub deltas: Vec<DeltaShape>,
    pub convs: Vec<ConvShape>,
}

/// What tells programs where the state of each sequence is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// Where it is.
    pub from: usize,
    /// Where that of after the call goes.
    pub to: usize,
}

impl StateShapes {
    /// True if no layer keeps state.
    pub fn is_empty(&self) -> bool {
        self.deltas.is_empty() && self.convs.is_empty()
    }

    /// As many layers of each kind, all of the largest sizes: what a few numbers can say. A smaller layer uses a part of its
    /// slots.
    pub fn widest(&self) -> StateShapes {
        let delta = self.deltas.iter().copied().reduce(|a, b| DeltaShape {
            heads: a.heads.max(b.heads),
            head_dim: a.head_dim.max(b.head_dim),
            value_dim: a.value_dim.max(b.value_dim),
        });
        let conv = self.convs.iter().copied().reduce(|a, b| ConvShape {
            channels: a.channels.max(b.channels),
            kernel: a.kernel.max(b.kernel),
        });
        StateShapes {
            deltas: delta.into_iter().cycle().take(self.deltas.len()).collect(),
            convs: conv.into_iter().cycle().take(self.convs.len()).collect(),
        }
    }

    /// A pool's tensors for so many sequences, those of delta rules first. They are pools of blocks of one row for
    /// [`paged_update`](lanthorn_ir::ops::paged_update).
    pub(crate) fn types(&self, dtype: DType, sequences: usize) -> Vec<TensorType> {
        let slots = sequences.saturating_mul(2);
        let deltas = self
            .deltas
            .iter()
            .map(|delta| TensorType::new(dtype, [slots, 1, delta.heads, delta.head_dim, delta.value_dim]));
        let convs = (self.convs.iter())
            .map(|conv| TensorType::new(dtype, [slots, 1, conv.kernel.saturating_sub(1), conv.channels]));
        deltas.chain(convs).collect()
    }

    /// The sizes by their names, with the least that each may be.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (&'static str, usize, usize)> {
        let deltas = self.deltas.iter().flat_map(|delta| {
            [
                ("kda_heads", delta.heads, 1),
                ("kda_head_dim", delta.head_dim, 1),
                ("kda_value_dim", delta.value_dim, 1),
            ]
        });
        let convs = (self.convs.iter())
            .flat_map(|conv| [("conv_channels", conv.channels, 1), ("conv_kernel", conv.kernel, 2)]);
        deltas.chain(convs)
    }
}

/// A sequence's two slots of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    number: usize,
    /// The state is in the second.
    is_second: bool,
}

impl Pair {
    pub fn slots(self) -> Slots {
        let first = self.number.saturating_mul(2);
        match self.is_second {
            false => Slots { from: first, to: first + 1 },
            true => Slots { from: first + 1, to: first },
        }
    }

    /// What the last call has written is the state.
    pub fn advance(&mut self) {
        self.is_second = !self.is_second;
    }
}

/// Which pairs of slots are free.
#[derive(Debug)]
pub(crate) struct Pairs {
    count: usize,
    free: Vec<usize>,
}

impl Pairs {
    pub fn new(count: usize) -> Pairs {
        Pairs { count, free: (0..count).rev().collect() }
    }

    /// Pairs that sequences have.
    pub fn used(&self) -> usize {
        self.count - self.free.len()
    }

    /// Refuses a call that needs more pairs than there are.
    pub fn expect_free(&self, op: &str, needed: usize) -> Result<()> {
        let (count, free) = (self.count, self.free.len());
        if needed <= free {
            return Ok(());
        }
        let message = format!(
            "the cache is full: it holds the running state of {count} sequences, {needed} more are needed and {free} are free; finish a sequence, or give it more sequences"
        );
        Err(Error::new(ErrorKind::OutOfMemory, op, message))
    }

    pub fn take(&mut self) -> Option<Pair> {
        self.free.pop().map(|number| Pair { number, is_second: false })
    }

    pub fn give_back(&mut self, pair: Pair) {
        self.free.push(pair.number);
    }
}
