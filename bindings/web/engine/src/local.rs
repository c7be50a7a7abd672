//! placeholder until the run-time implements the trait
use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::{Builder, Lazy, Prim, Result, TensorType, Value, prim::Source};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Executable, Options};
use lanthorn_session::Engine;

pub struct Local(pub Device);

impl Engine for Local {
    type Concrete = EagerTensor;
    fn upload(&self, ty: &TensorType, bytes: &[u8]) -> Result<EagerTensor> {
        EagerTensor::from_bytes(&self.0, ty, bytes)
    }
    fn run(&self, program: Indexed, arguments: Vec<EagerTensor>, cancel: &CancelToken) -> Result<Vec<EagerTensor>> {
        let mut values: Vec<Vec<Value>> = Vec::new();
        for node in &program.nodes {
            values.push(match &node.prim {
                Prim::Source(Source::Leaf { ty }) => vec![Value::leaf(ty.clone())?],
                prim => {
                    let ins: Vec<Value> =
                        node.inputs.iter().map(|i| values[i.node as usize][i.output as usize].clone()).collect();
                    Lazy.apply(prim.clone(), &ins)?.into_vec()
                }
            });
        }
        let leaves: Vec<Value> = program.inputs.iter().map(|&i| values[i as usize][0].clone()).collect();
        let roots: Vec<Value> =
            program.roots.iter().map(|r| values[r.node as usize][r.output as usize].clone()).collect();
        let e = Executable::new(&self.0, &leaves, &roots, &Options::default())?;
        let arguments: Vec<&EagerTensor> = arguments.iter().collect();
        e.call(&arguments, cancel)
    }
}
