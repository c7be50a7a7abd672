//! The graph as DOT, the language of Graphviz: `dot -Tsvg graph.dot -o graph.svg`.

use std::collections::HashMap;
use std::fmt::Write;

use super::{Value, topological};
use crate::prim::{Prim, Source};

/// One box for each node, with its primitive and types; edges go from operands to readers and carry the operand's
/// number where there are several. Leaves are ellipses, and roots point at `result`s.
///
/// ```
/// use lanthorn_ir::{DType, Lazy, TensorType, Value, graph, ops};
///
/// let x = Value::leaf(TensorType::new(DType::F32, [2]))?;
/// let dot = graph::to_dot(&[ops::exp(&Lazy, &x)?]);
/// assert!(dot.contains("n0 -> n1") && dot.contains("exp"));
/// # Ok::<(), lanthorn_ir::Error>(())
/// ```
pub fn to_dot(roots: &[Value]) -> String {
    let order = topological(roots, |_| false);
    let number: HashMap<u64, usize> = order.iter().enumerate().map(|(i, node)| (node.id(), i)).collect();
    let mut text = String::from("digraph program {\n  node [shape=box, fontname=monospace];\n");
    for (i, node) in order.iter().enumerate() {
        let types: Vec<String> = node.types().iter().map(ToString::to_string).collect();
        let shape =
            if matches!(node.prim(), Prim::Source(Source::Leaf { .. })) { ", shape=ellipse" } else { "" };
        let label = format!("{}\n{}", label(node.prim()), types.join(", "));
        let _ = writeln!(text, "  n{i} [label=\"{}\"{shape}];", escaped(&label));
        for (operand, value) in node.inputs().iter().enumerate() {
            let Some(from) = number.get(&value.node().id()) else { continue };
            let mut words = Vec::new();
            if node.inputs().len() > 1 {
                words.push(operand.to_string());
            }
            if value.node().types().len() > 1 {
                words.push(format!("of result {}", value.index()));
            }
            let _ = writeln!(text, "  n{from} -> n{i}{};", edge(&words.join(" ")));
        }
    }
    for (i, root) in roots.iter().enumerate() {
        let Some(from) = number.get(&root.node().id()) else { continue };
        let words =
            if root.node().types().len() > 1 { format!("result {}", root.index()) } else { String::new() };
        let _ = writeln!(text, "  r{i} [label=\"result {i}\", shape=plaintext];");
        let _ = writeln!(text, "  n{from} -> r{i}{};", edge(&words));
    }
    text.push_str("}\n");
    text
}

/// The primitive's name, and its attributes where it has any.
fn label(prim: &Prim) -> String {
    let name = prim.name();
    match prim {
        Prim::Source(Source::Leaf { .. }) | Prim::Elementwise(_) | Prim::Control(_) => name.to_string(),
        Prim::Source(Source::Const { value, .. }) => format!("{name} {}", value.as_f64()),
        other => {
            let text = other.to_string();
            let shown: String = text.chars().take(MOST_SHOWN).collect();
            if shown.len() < text.len() { format!("{name}\n{shown}...") } else { format!("{name}\n{shown}") }
        }
    }
}

/// Characters of attributes in a box: a primitive may hold a whole graph.
const MOST_SHOWN: usize = 80;

fn edge(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" [label=\"{}\"]", escaped(words)) }
}

/// Text inside the quotes of a DOT string; line breaks stay centred.
pub fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Lazy, TensorType, ops};

    #[test]
    fn a_graph_as_text_and_as_dot() {
        let x = Value::leaf(TensorType::new(DType::F32, [2, 3])).unwrap();
        let y = ops::mul_scalar(&Lazy, &ops::exp(&Lazy, &x).unwrap(), 2.0).unwrap();
        let roots = [ops::sum(&Lazy, &y, &[1], false).unwrap(), x];
        assert_eq!(
            crate::graph::to_text(&roots),
            "%0: f32[2, 3] = Leaf { ty: TensorType { dtype: F32, shape: [2, 3] } }()\n\
             %1: f32[2, 3] = Unary(Exp)(%0)\n\
             %2: f32[] = Const { value: Float(F64(2.0)), dtype: F32 }()\n\
             %3: f32[2, 3] = Broadcast { shape: [2, 3] }(%2)\n\
             %4: f32[2, 3] = Binary(Mul)(%1, %3)\n\
             %5: f32[2, 1] = Fold { op: Sum, axes: [1] }(%4)\n\
             %6: f32[2] = Reshape { shape: [2] }(%5)\n\
             return %6.0, %0.0\n"
        );
        assert_eq!(
            to_dot(&roots),
            r#"digraph program {
  node [shape=box, fontname=monospace];
  n0 [label="leaf\nf32[2, 3]", shape=ellipse];
  n1 [label="exp\nf32[2, 3]"];
  n0 -> n1;
  n2 [label="const 2\nf32[]"];
  n3 [label="broadcast_to\nBroadcast { shape: [2, 3] }\nf32[2, 3]"];
  n2 -> n3;
  n4 [label="mul\nf32[2, 3]"];
  n1 -> n4 [label="0"];
  n3 -> n4 [label="1"];
  n5 [label="sum\nFold { op: Sum, axes: [1] }\nf32[2, 1]"];
  n4 -> n5;
  n6 [label="reshape\nReshape { shape: [2] }\nf32[2]"];
  n5 -> n6;
  r0 [label="result 0", shape=plaintext];
  n6 -> r0;
  r1 [label="result 1", shape=plaintext];
  n0 -> r1;
}
"#
        );
    }

    #[test]
    fn several_results_and_quotes_are_told_apart() {
        let x = Value::leaf(TensorType::new(DType::F32, [2, 3])).unwrap();
        let w = Value::leaf(TensorType::new(DType::F32, [3])).unwrap();
        let y = ops::rms_norm(&Lazy, &x, Some(&w), 1e-6).unwrap();
        let dot = to_dot(&[y]);
        assert!(dot.contains("rms_norm") && dot.contains("[label=\"result 0\"]"), "{dot}");
        assert_eq!(escaped("a \"b\"\nc\\"), "a \\\"b\\\"\\nc\\\\");
    }
}
