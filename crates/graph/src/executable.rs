//! Programs that are called with bindings and scalars.

use lanthorn_compiler::indexed::Indexed;
use lanthorn_ir::{DType, Error, ErrorKind, Result, TensorType};
use lanthorn_runtime::{CancelToken, Device, EagerTensor, Options};
use lanthorn_session::{Engine, Handle};
use serde_json::{Value as Json, json};

use crate::fold::fold;
use crate::graph::{Entry, Graph};
use crate::report::{self, type_of};
use crate::trace::{Argument, Traced, trace};

/// How an executable is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileOptions {
    /// Whether the program is simplified and its kernels are fused.
    pub optimize: bool,
    /// The elements of concrete tensors are constants: what follows from them alone is computed now.
    pub constant_weights: bool,
}

impl Default for CompileOptions {
    /// Optimised, with weights that may change.
    fn default() -> Self {
        CompileOptions { optimize: true, constant_weights: false }
    }
}

/// A compiled program with what each of its arguments stands for.
pub struct Executable {
    program: lanthorn_runtime::Executable,
    arguments: Vec<Argument>,
    inputs: Vec<Option<TensorType>>,
    scalars: Vec<Option<DType>>,
}

impl Graph {
    /// Compiles roots, or finds their program in the device's cache.
    pub fn compile(&mut self, roots: &[Handle], options: CompileOptions) -> Result<Handle> {
        self.compile_updating(roots, options, &[])
    }

    /// As [`Graph::compile`]; `updates` lists `(slot, root)` pairs: a call that takes the binding of the slot
    /// ([`Graph::begin_execute_taking`]) may write the root over it, so that both are in memory once. Pairs whose types
    /// differ, or whose slot the roots do not read, say nothing.
    ///
    /// Errors: a root that there is not.
    pub fn compile_updating(
        &mut self,
        roots: &[Handle],
        options: CompileOptions,
        updates: &[(usize, usize)],
    ) -> Result<Handle> {
        let roots = self.values("compile", roots)?;
        if let Some((_, root)) = updates.iter().find(|(_, root)| *root >= roots.len()) {
            let message = format!("an update is by root {root}, and there are {}", roots.len());
            return Err(Error::new(ErrorKind::Compile, "compile", message));
        }
        let mut traced = trace("compile", &roots)?;
        if options.constant_weights {
            traced = fold(&self.device, traced)?;
        }
        let executable = Executable::new(&self.device, traced, options, updates)?;
        self.entries.insert(Entry::Executable(executable.into()))
    }

    /// An executable.
    pub fn executable(&self, op: &str, handle: Handle) -> Result<&std::sync::Arc<Executable>> {
        match self.entries.get(handle)? {
            Entry::Executable(executable) => Ok(executable),
            other => Err(other.expected(op, "an executable")),
        }
    }

    /// What is known about an executable or a decode program, as JSON; `js/effect/src/raw.ts` lists its fields.
    pub fn report(&self, handle: Handle) -> Result<Json> {
        match self.entries.get(handle)? {
            Entry::Executable(executable) => Ok(executable.report()),
            Entry::Decode(decode) => Ok(decode.report()),
            other => Err(other.expected("executable", "an executable")),
        }
    }
}

impl Executable {
    fn new(
        device: &Device,
        traced: Traced,
        options: CompileOptions,
        updates: &[(usize, usize)],
    ) -> Result<Executable> {
        let Traced { program, arguments } = traced;
        let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
        for (argument, &node) in arguments.iter().zip(&program.inputs) {
            match *argument {
                Argument::Input(slot) => {
                    let ty = program.nodes.get(node as usize).and_then(|node| node.types.first());
                    *place(&mut inputs, slot) = ty.cloned();
                }
                Argument::Scalar(slot, dtype) => *place(&mut scalars, slot) = Some(dtype),
                Argument::Elements(_) | Argument::Key => {}
            }
        }
        let donated = donations(&program, &arguments, updates);
        let program = lanthorn_runtime::Executable::of_program_with(
            device,
            program,
            Options { optimize: options.optimize, donated, ..Options::default() },
        )?;
        Ok(Executable { program, arguments, inputs, scalars })
    }

    /// The types of the bindings by slot; `None` for one that the roots do not read.
    pub fn inputs(&self) -> &[Option<TensorType>] {
        &self.inputs
    }

    /// The dtypes of the scalars by slot; `None` for one that the roots do not read.
    pub fn scalars(&self) -> &[Option<DType>] {
        &self.scalars
    }

    /// The types of the results.
    pub fn results(&self) -> &[TensorType] {
        self.program.results()
    }

    /// What is known about it, as JSON.
    pub fn report(&self) -> Json {
        let bytes = |is_counted: fn(&Argument) -> bool| {
            let arguments = self.arguments.iter().zip(self.program.parameters());
            arguments.filter(|(argument, _)| is_counted(argument)).map(|(_, ty)| ty.bytes()).sum::<usize>()
        };
        let memory = report::Memory {
            external: bytes(|argument| !matches!(argument, Argument::Elements(_))),
            persistent: bytes(|argument| matches!(argument, Argument::Elements(_))),
            output: self.results().iter().map(TensorType::bytes).sum(),
            ..report::Memory::default()
        };
        let mut report = report::of_program(&self.program, &memory);
        report["inputs"] = json!(self.inputs.iter().map(|ty| ty.as_ref().map(type_of)).collect::<Vec<_>>());
        report["scalars"] = json!(self.scalars.len());
        report["outputs"] = json!(self.results().iter().map(type_of).collect::<Vec<_>>());
        report
    }

    /// Bytes that a call reads and writes, and operations that it does.
    pub(crate) fn cost(&self) -> u64 {
        self.program.device().cost(&self.program)
    }

    /// The arguments of a call. Bindings and scalars beyond those that the roots read are left alone.
    ///
    /// Errors: too few bindings or scalars, or such of another type.
    pub(crate) fn bind(
        &self,
        bindings: &[EagerTensor],
        scalars: &[f64],
        mut next_key: impl FnMut() -> Result<EagerTensor>,
    ) -> Result<Vec<EagerTensor>> {
        expect_count("bindings", bindings.len(), self.inputs.len())?;
        expect_count("scalars", scalars.len(), self.scalars.len())?;
        for (slot, (binding, ty)) in bindings.iter().zip(&self.inputs).enumerate() {
            match ty {
                Some(ty) if ty != binding.ty() => return Err(mismatch(slot, binding.ty(), ty)),
                _ => {}
            }
        }
        let device = self.program.device();
        let mut arguments = Vec::with_capacity(self.arguments.len());
        // Scalars may be refused, keys are taken when nothing else can be.
        for argument in &self.arguments {
            arguments.push(match argument {
                Argument::Elements(tensor) => Some(tensor.clone()),
                Argument::Input(slot) => bindings.get(*slot).cloned(),
                Argument::Scalar(slot, dtype) => match scalars.get(*slot) {
                    Some(&scalar) => Some(scalar_of(device, *slot, scalar, *dtype)?),
                    None => None,
                },
                Argument::Key => None,
            });
        }
        for (place, argument) in arguments.iter_mut().zip(&self.arguments) {
            if matches!(argument, Argument::Key) {
                *place = Some(next_key()?);
            }
        }
        let lost = || Error::new(ErrorKind::Execute, "execute", "an argument is missing");
        arguments.into_iter().map(|argument| argument.ok_or_else(lost)).collect()
    }

    pub(crate) fn call(&self, arguments: &[EagerTensor], cancel: &CancelToken) -> Result<Vec<EagerTensor>> {
        self.program.device().call(&self.program, arguments, cancel)
    }
}

/// The arguments whose memory receives a root, as the compiler takes them: each argument and root once, of one type.
fn donations(program: &Indexed, arguments: &[Argument], updates: &[(usize, usize)]) -> Vec<(u32, u32)> {
    let ty = |node: u32, output: u32| program.nodes.get(node as usize)?.types.get(output as usize);
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for &(slot, root) in updates {
        let is_slot = |argument: &Argument| matches!(argument, Argument::Input(of) if *of == slot);
        let Some(argument) = arguments.iter().position(is_slot) else { continue };
        let from = program.inputs.get(argument).and_then(|&node| ty(node, 0));
        let to = program.roots.get(root).and_then(|value| ty(value.node, value.output));
        let (argument, root) = (argument as u32, root as u32);
        let is_free = pairs.iter().all(|&(taken, by)| taken != argument && by != root);
        if from.is_some() && from == to && is_free {
            pairs.push((argument, root));
        }
    }
    pairs
}

/// The place of a slot in a list that grows up to it.
pub(crate) fn place<T: Clone>(list: &mut Vec<Option<T>>, slot: usize) -> &mut Option<T> {
    if list.len() <= slot {
        list.resize(slot + 1, None);
    }
    &mut list[slot]
}

fn expect_count(what: &str, found: usize, expected: usize) -> Result<()> {
    if found >= expected {
        return Ok(());
    }
    Err(Error::shape("execute", format!("got {found} {what}, expected {expected}")))
}

fn mismatch(slot: usize, found: &TensorType, expected: &TensorType) -> Error {
    let kind = if found.dtype == expected.dtype { ErrorKind::Shape } else { ErrorKind::Dtype };
    Error::new(kind, "execute", format!("binding {slot} is {found}, expected {expected}"))
}

fn scalar_of(device: &Device, slot: usize, scalar: f64, dtype: DType) -> Result<EagerTensor> {
    EagerTensor::scalar(device, scalar, dtype)
        .map_err(|error| Error::new(error.kind, "execute", format!("scalar {slot}: {}", error.message)))
}
