//! Constant weights: what follows from the elements of concrete tensors alone is computed once.

use std::collections::BTreeSet;

use lanthorn_compiler::indexed::{Indexed, ValueRef};
use lanthorn_ir::prim::{Movement, Source};
use lanthorn_ir::{Prim, Result, TensorType};
use lanthorn_runtime::{CancelToken, Device, EagerTensor};
use lanthorn_session::Engine;
use smallvec::SmallVec;

use crate::trace::{Argument, Traced};

/// Of what a node is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Made {
    /// Of numbers that are part of the structure.
    Structure,
    /// Of elements too.
    Elements,
    /// Of what an execution binds too.
    Bindings,
}

/// The program with elements in the place of what follows from elements alone. Movements stay, since a kernel reads
/// through them, and so does what would take more memory than all the elements did.
pub(crate) fn fold(device: &Device, traced: Traced) -> Result<Traced> {
    let Traced { program, arguments } = traced;
    let folded = candidates(&program, &arguments);
    if folded.is_empty() {
        return Ok(Traced { program, arguments });
    }
    let computed = compute(device, &program, &arguments, &folded)?;
    Ok(replace(program, arguments, &folded, computed))
}

/// The nodes whose one result is computed now.
fn candidates(program: &Indexed, arguments: &[Argument]) -> Vec<u32> {
    let mut made = vec![Made::Structure; program.nodes.len()];
    let mut elements_bytes = 0;
    for (argument, &node) in arguments.iter().zip(&program.inputs) {
        let is_elements = matches!(argument, Argument::Elements(_));
        made[node as usize] = if is_elements { Made::Elements } else { Made::Bindings };
        if is_elements {
            elements_bytes += program.ty(ValueRef { node, output: 0 }).bytes();
        }
    }
    // What somebody reads who is made of bindings, or the caller.
    let mut read: Vec<ValueRef> = program.roots.clone();
    for (at, node) in program.nodes.iter().enumerate() {
        let operands = node.inputs.iter().map(|input| made[input.node as usize]);
        made[at] = operands.fold(made[at], Made::max);
        if made[at] == Made::Bindings {
            read.extend(&node.inputs);
        }
    }
    let mut found = BTreeSet::new();
    for mut value in read {
        if made[value.node as usize] != Made::Elements {
            continue;
        }
        let mut node = &program.nodes[value.node as usize];
        while let (Prim::Movement(movement), Some(&operand)) = (&node.prim, node.inputs.first()) {
            if matches!(movement, Movement::Pad { .. } | Movement::Concat { .. }) {
                break;
            }
            value = operand;
            node = &program.nodes[value.node as usize];
        }
        let is_made = made[value.node as usize] == Made::Elements && !node.inputs.is_empty();
        if is_made && node.types.len() == 1 && program.ty(value).bytes() <= elements_bytes {
            found.insert(value.node);
        }
    }
    found.into_iter().collect()
}

fn compute(
    device: &Device,
    program: &Indexed,
    arguments: &[Argument],
    folded: &[u32],
) -> Result<Vec<EagerTensor>> {
    let (mut inputs, mut elements) = (Vec::new(), Vec::new());
    for (argument, &node) in arguments.iter().zip(&program.inputs) {
        if let Argument::Elements(tensor) = argument {
            inputs.push(node);
            elements.push(tensor.clone());
        }
    }
    let roots = folded.iter().map(|&node| ValueRef { node, output: 0 }).collect();
    let part = Indexed { nodes: program.nodes.clone(), inputs, roots }.prune();
    device.run(part, elements, &CancelToken::never())
}

fn replace(
    mut program: Indexed,
    mut arguments: Vec<Argument>,
    folded: &[u32],
    computed: Vec<EagerTensor>,
) -> Traced {
    for (&at, tensor) in folded.iter().zip(computed) {
        let node = &mut program.nodes[at as usize];
        let ty: TensorType = tensor.ty().clone();
        node.prim = Prim::Source(Source::Leaf { ty });
        node.inputs = SmallVec::new();
        program.inputs.push(at);
        arguments.push(Argument::Elements(tensor));
    }
    // Elements that only led to what is computed now go.
    let mut is_read = vec![false; program.nodes.len()];
    for root in &program.roots {
        is_read[root.node as usize] = true;
    }
    for at in (0..program.nodes.len()).rev() {
        if is_read[at] {
            for input in &program.nodes[at].inputs {
                is_read[input.node as usize] = true;
            }
        }
    }
    let kept =
        |argument: &Argument, node: u32| is_read[node as usize] || !matches!(argument, Argument::Elements(_));
    let (inputs, arguments) = program
        .inputs
        .iter()
        .copied()
        .zip(arguments)
        .filter(|(node, argument)| kept(argument, *node))
        .unzip();
    program.inputs = inputs;
    Traced { program: program.prune(), arguments }
}
