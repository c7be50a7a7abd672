//! The forms as text, for `LANTHORN_LOG` and for people.

use std::fmt::{self, Display, Formatter, Write};

use lanthorn_ir::expr::Step;
use lanthorn_ir::graph::escaped;
use lanthorn_ir::layout::ShowShape;

use crate::kernel::{Fused, Kernel, KernelKind, Operand, Phase};
use crate::plan::{Place, Plan};

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "b{}:{}{}", self.buffer, self.dtype, ShowShape(&self.layout.shape))?;
        if !self.layout.is_contiguous() {
            write!(f, "/{:?}", &self.layout.strides[..])?;
        }
        if self.layout.offset > 0 {
            write!(f, "+{}", self.layout.offset)?;
        }
        Ok(())
    }
}

impl Display for Phase {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, (step, dtype)) in self.expr.steps.iter().zip(&self.expr.dtypes).enumerate() {
            write!(f, "    ${at}: {dtype} = ")?;
            match step {
                Step::Load(input) => writeln!(f, "load {input}")?,
                Step::Const(value) => writeln!(f, "{value:?}")?,
                Step::Unary(op, a) => writeln!(f, "{} ${a}", op.name())?,
                Step::Binary(op, a, b) => writeln!(f, "{} ${a} ${b}", op.name())?,
                Step::Select(c, a, b) => writeln!(f, "select ${c} ${a} ${b}")?,
                Step::Cast(a) => writeln!(f, "cast ${a}")?,
                Step::Round(a, to) => writeln!(f, "round ${a} to {to}")?,
            }
        }
        for store in &self.stores {
            writeln!(f, "    store ${} -> {}", store.step, store.output)?;
        }
        Ok(())
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list =
            |operands: &[Operand]| operands.iter().map(Operand::to_string).collect::<Vec<_>>().join(", ");
        let (inputs, outputs) = (list(&self.inputs), list(&self.outputs));
        match &self.kind {
            KernelKind::Map { domain, .. } => write!(f, "map{}", ShowShape(domain))?,
            KernelKind::Reduce { domain, folded, folds, .. } => {
                let ops: Vec<String> =
                    folds.iter().map(|fold| format!("{:?} ${}", fold.op, fold.step)).collect();
                write!(f, "reduce{} {folded:?} {}", ShowShape(domain), ops.join(", "))?;
            }
            KernelKind::MatMul { .. } => write!(f, "matmul")?,
            KernelKind::Prim(prim) => write!(f, "{prim}")?,
        }
        write!(f, " ({inputs}) -> ({outputs})")?;
        if !self.after.is_empty() {
            write!(f, " after {:?}", self.after)?;
        }
        writeln!(f)?;
        match &self.kind {
            KernelKind::Map { body, .. } => write!(f, "{body}"),
            KernelKind::Reduce { body, epilogue, .. } => write!(f, "{body}   epilogue\n{epilogue}"),
            KernelKind::MatMul { epilogue } => write!(f, "{epilogue}"),
            KernelKind::Prim(_) => Ok(()),
        }
    }
}

impl Display for Fused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, kernel) in self.kernels.iter().enumerate() {
            write!(f, "k{at}: {kernel}")?;
        }
        writeln!(f, "arguments {:?} results {:?}", self.inputs, self.outputs)
    }
}

impl Fused {
    /// The kernels as DOT, the language of Graphviz: a cluster for each region with its steps, a box for any other
    /// primitive, an ellipse for each buffer.
    pub fn to_dot(&self) -> String {
        let mut text = String::from("digraph kernels {\n  node [shape=box, fontname=monospace];\n");
        let role = |buffer: u32| {
            let argument = self.inputs.iter().position(|&input| input == buffer);
            let result = self.outputs.iter().position(|&output| output == buffer);
            match (argument, result) {
                (Some(at), _) => format!("argument {at}\n"),
                (None, Some(at)) => format!("result {at}\n"),
                (None, None) => String::new(),
            }
        };
        for (at, ty) in self.buffers.iter().enumerate() {
            let label = escaped(&format!("{}b{at} {ty}", role(at as u32)));
            let _ = writeln!(text, "  b{at} [label=\"{label}\", shape=ellipse];");
        }
        for (at, kernel) in self.kernels.iter().enumerate() {
            kernel.write_dot(&mut text, at);
        }
        text.push_str("}\n");
        text
    }
}

impl Kernel {
    fn write_dot(&self, text: &mut String, at: usize) {
        let (title, phases) = match &self.kind {
            KernelKind::Map { domain, body } => (format!("map {}", ShowShape(domain)), vec![body]),
            KernelKind::Reduce { domain, body, epilogue, .. } => {
                (format!("reduce {}", ShowShape(domain)), vec![body, epilogue])
            }
            KernelKind::MatMul { epilogue } => ("matmul".to_string(), vec![epilogue]),
            KernelKind::Prim(prim) => (prim.name().to_string(), Vec::new()),
        };
        // What operands point at and results come from.
        let anchor = format!("k{at}");
        let label = escaped(&format!("k{at}: {title}"));
        if phases.is_empty() {
            let _ = writeln!(text, "  {anchor} [label=\"{label}\"];");
        } else {
            let _ = writeln!(text, "  subgraph cluster_k{at} {{\n    label=\"{label}\";");
            let lines = phases.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            let lines = escaped(lines.trim_end()).replace("\\n", "\\l");
            let _ = writeln!(text, "    {anchor} [label=\"{lines}\\l\"];\n  }}");
        }
        for (operand, input) in self.inputs.iter().enumerate() {
            let _ = writeln!(text, "  b{} -> {anchor} [label=\"{operand}\"];", input.buffer);
        }
        for output in &self.outputs {
            let _ = writeln!(text, "  {anchor} -> b{};", output.buffer);
        }
        for before in &self.after {
            let _ = writeln!(text, "  k{before} -> {anchor} [style=dashed];");
        }
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, kernel) in self.kernels.iter().enumerate() {
            if at == self.commit {
                writeln!(f, "-- commit, if results {:?} are finite", self.finite)?;
            }
            let (offset, bytes) = self.scratch[at];
            let places: Vec<String> =
                kernel.outputs.iter().map(|output| self.places[output.buffer as usize].to_string()).collect();
            let name = kernel.to_string();
            let name = name.lines().next().unwrap_or_default();
            write!(f, "k{at}: {name} at {}", places.join(", "))?;
            if bytes > 0 {
                write!(f, ", {bytes} bytes of scratch at {offset}")?;
            }
            writeln!(f)?;
        }
        writeln!(f, "workspace {} bytes", self.workspace_bytes)
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Place::Input(at) => write!(f, "argument {at}"),
            Place::Output(at) => write!(f, "result {at}"),
            Place::Workspace(at) => write!(f, "workspace {at}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use lanthorn_ir::{DType, Lazy, TensorType, Value, ops};

    use crate::regions::{Fusion, regions};
    use crate::testing::indexed;
    use crate::testing::naive::Naive;

    #[test]
    fn kernels_as_dot() {
        let x = Value::leaf(TensorType::new(DType::F32, [2, 3])).unwrap();
        let y = ops::exp(&Lazy, &ops::neg(&Lazy, &x).unwrap()).unwrap();
        let fused = regions(&indexed(&[x], &[y]), &Naive::default(), Fusion::On);
        assert_eq!(
            fused.to_dot(),
            r#"digraph kernels {
  node [shape=box, fontname=monospace];
  b0 [label="argument 0\nb0 f32[2, 3]", shape=ellipse];
  b1 [label="result 0\nb1 f32[2, 3]", shape=ellipse];
  subgraph cluster_k0 {
    label="k0: map [2, 3]";
    k0 [label="    $0: f32 = load 0\l    $1: f32 = neg $0\l    $2: f32 = exp $1\l    store $2 -> 0\l"];
  }
  b0 -> k0 [label="0"];
  k0 -> b1;
}
"#
        );
    }
}
