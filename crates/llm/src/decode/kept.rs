//! Recurrences of which the state is kept from call to call: what they must be like, and how large their state is.

use lanthorn_ir::prim::Recurrent;
use lanthorn_ir::{Node, Result};

use super::rows::Rows::{Free, Tokens};
use super::rows::{Analysis, Kept, Rows, unsupported};
use crate::states::{ConvShape, DeltaShape};

impl Analysis {
    /// Whether operand `at` of a recurrence has an axis of steps, its second, behind that of sequences.
    pub fn has_steps(rule: Recurrent, at: usize) -> bool {
        match rule {
            Recurrent::LinearScan { .. } => false,
            Recurrent::DeltaRule { .. } => at < 5,
            Recurrent::ShortConv { .. } => at == 0,
        }
    }

    /// Whether operand `at` of a recurrence is one for all sequences.
    pub fn is_weight(rule: Recurrent, at: usize) -> bool {
        matches!(rule, Recurrent::ShortConv { .. }) && at == 1
    }

    /// A recurrence over the tokens of one sequence.
    ///
    /// Errors: one over anything else, or that begins with a state of the tokens, by its name.
    pub(super) fn recurrence(&mut self, node: &Node, rule: Recurrent) -> Result<Vec<Rows>> {
        let name = node.prim().name();
        let fail = |message: String| Err(unsupported(format!("{name} cannot be cached: {message}")));
        let inputs = node.inputs();
        let steps = (0..inputs.len()).filter(|&at| Analysis::has_steps(rule, at));
        for (at, input) in inputs.iter().enumerate() {
            let ty = input.ty();
            if Analysis::has_steps(rule, at) {
                if ty.shape.get(..2) != Some(&[1, self.length]) {
                    let length = self.length;
                    return fail(format!(
                        "an operand is {ty}, expected [1, {length}, ..]: one sequence, all of its tokens"
                    ));
                }
            } else if self.is_of_tokens(input) {
                let what = if Analysis::is_weight(rule, at) { "weight" } else { "first state" };
                return fail(format!("its {what} {ty} comes from the tokens"));
            }
        }
        // Of one token the graph of two tells.
        if self.length > 1 && self.aligned(node, steps, &[])? != (1, 1) {
            return Err(self.mixes(node));
        }
        let (Some(output), Some(second)) = (node.types().first(), inputs.get(1)) else {
            return Err(self.mixes(node));
        };
        let inner = output.shape.iter().skip(2).product();
        let rows = vec![Tokens { inner, is_position: false }; 2];
        let dtype = output.dtype.wide();
        match (rule, &output.shape[..], &second.ty().shape[..]) {
            (Recurrent::DeltaRule { .. }, &[_, _, heads, value_dim], &[_, _, _, head_dim]) => {
                self.places.insert(node.id(), Kept::Delta(self.states.deltas.len()));
                self.states.deltas.push(DeltaShape { heads, head_dim, value_dim });
            }
            // One tap sees the token itself, so that the state is empty.
            (Recurrent::ShortConv { .. }, _, &[_, 1]) => {
                return Ok(vec![Tokens { inner, is_position: false }, Free { equal: u64::MAX }]);
            }
            (Recurrent::ShortConv { .. }, &[_, _, channels], &[_, kernel]) => {
                self.places.insert(node.id(), Kept::Convolution(self.states.convs.len()));
                self.states.convs.push(ConvShape { channels, kernel });
            }
            _ => return Err(self.mixes(node)),
        }
        self.state_dtypes.push((name, dtype));
        Ok(rows)
    }
}
