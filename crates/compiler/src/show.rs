//! The forms as text, for `LANTHORN_LOG` and for people.

use std::fmt::{self, Display, Formatter};

use lanthorn_ir::expr::Step;
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
