//! Whether an engine can run an op, before anything is made.

use lanthorn_compiler::pipeline::index;
use lanthorn_ir::ops::table::{self, Kind, OPS};
use lanthorn_ir::{Error, ErrorKind, Lazy, Result, TensorType, Value};

use crate::engine::Engine;
use crate::session::{Session, check_type};

/// An answer with its reason.
#[derive(Clone, Debug)]
pub enum Support {
    Yes,
    /// The type of the operands alone does not say.
    Unknown(Error),
    No(Error),
}

impl<E: Engine> Session<E> {
    /// Whether the engine can apply op `id` of the table to operands that are all of type `ty`, other arguments left
    /// out. The program is compiled and not run.
    pub fn can_run(&self, id: usize, ty: &TensorType) -> Support {
        let Some(op) = OPS.get(id) else {
            return Support::No(Error::unsupported("can_run", format!("there is no op number {id}")));
        };
        if let Err(error) = check_type(op.name, ty) {
            return Support::No(error);
        }
        let required =
            op.parameters.iter().filter(|parameter| matches!(parameter.kind, Kind::Tensor | Kind::Tensors));
        let graph = || -> Result<(Vec<Value>, Vec<Value>)> {
            let leaves = required.clone().map(|_| Value::leaf(ty.clone())).collect::<Result<Vec<_>>>()?;
            let operands: Vec<Option<&Value>> = leaves.iter().map(Some).collect();
            let roots = table::call_id(&Lazy, id, &operands, &[])?.into_vec();
            Ok((leaves, roots))
        };
        let (leaves, roots) = match graph() {
            Ok(graph) => graph,
            Err(error) if matches!(error.kind, ErrorKind::Dtype) => return Support::No(error),
            // Other operands, or arguments that were left out, may do.
            Err(error) => return Support::Unknown(error),
        };
        if !self.engine.can_read_now() {
            let message =
                "the engine runs elsewhere and tells with the first read; the shapes and dtypes fit";
            return Support::Unknown(Error::new(ErrorKind::Device, op.name, message));
        }
        match self.engine.compile(index(&leaves, &roots, |_| false).0) {
            Ok(_) => Support::Yes,
            Err(error) => Support::No(error),
        }
    }
}
