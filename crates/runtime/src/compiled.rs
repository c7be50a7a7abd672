//! Rust functions over tensors as compiled programs.

pub(crate) mod trace;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lanthorn_ir::{Error, Result, TensorType, Value};

use crate::cancel::CancelToken;
use crate::device::Device;
use crate::eager::EagerTensor;
use crate::executable::{Executable, Options};
use crate::slot::Slot;
use crate::tensor::{Tensor, realise};

/// A function that runs once for each signature (dtypes and shapes of its arguments), to say what it computes,
/// and after that as a program.
///
/// Other tensors that it uses are bound as they are when it is traced, and numbers are part of the program: pass
/// what changes as an argument. Random tensors that it makes are drawn anew in every call.
pub struct Compiled<F> {
    function: F,
    options: Options,
    programs: Mutex<HashMap<Signature, Program>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Signature {
    types: Vec<TensorType>,
}

#[derive(Clone)]
struct Program {
    executable: Executable,
    /// How many keys the program takes after the arguments.
    keys: usize,
}

/// Compiles a function over tensors.
///
/// ```
/// # fn example(device: lanthorn_runtime::Device) -> lanthorn_ir::Result<()> {
/// use lanthorn_runtime::{Tensor, compile, value_and_grad};
/// let step = compile(|a: &[Tensor]| {
///     let (loss, grads) = value_and_grad(|w| (&w[0] * &a[1])?.sum(&[], false), &[&a[0]])?;
///     Ok(vec![(&a[0] - &(&grads[0] * &a[2])?)?, loss])
/// })
/// .donate(&[(0, 0)])
/// .finite(&[1]);
/// let mut w = Tensor::ones(&device, &[3], lanthorn_ir::DType::F32)?;
/// let x = Tensor::from_slice(&device, &[3], &[1f32, 2.0, 3.0])?;
/// for step_number in 0..10 {
///     let rate = Tensor::scalar(&device, 0.1 / (1 + step_number) as f64, lanthorn_ir::DType::F32)?;
///     w = step.call(&[&w, &x, &rate])?.swap_remove(0);
/// }
/// # Ok(())
/// # }
/// ```
pub fn compile<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>>(function: F) -> Compiled<F> {
    Compiled { function, options: Options::default(), programs: Mutex::default() }
}

impl<F: Fn(&[Tensor]) -> Result<Vec<Tensor>>> Compiled<F> {
    /// `(argument, result)` pairs of one type: the argument's memory becomes the result's if nothing else holds
    /// it, and the argument is an invalid handle after a call that succeeded. Otherwise it is copied.
    pub fn donate(mut self, pairs: &[(u32, u32)]) -> Self {
        self.options.donated = pairs.to_vec();
        self
    }

    /// Results, floats of rank 0, that must be finite: else the call fails and every argument is as it was.
    pub fn finite(mut self, results: &[u32]) -> Self {
        self.options.finite = results.to_vec();
        self
    }

    /// Calls the function.
    pub fn call<T: Borrow<Tensor>>(&self, arguments: &[T]) -> Result<Vec<Tensor>> {
        self.call_with(arguments, &CancelToken::never())
    }

    /// [`Compiled::call`], unless it is cancelled before it takes effect.
    ///
    /// Errors: what the function reports when it is traced; an argument that requires gradients, which do not
    /// pass through a program; see also [`Executable::call`].
    pub fn call_with<T: Borrow<Tensor>>(&self, arguments: &[T], cancel: &CancelToken) -> Result<Vec<Tensor>> {
        let arguments: Vec<&Tensor> = arguments.iter().map(Borrow::borrow).collect();
        if trace::is_active() {
            // Part of the function that is being traced.
            let arguments: Vec<Tensor> = arguments.into_iter().cloned().collect();
            return (self.function)(&arguments);
        }
        if let Some(at) = arguments.iter().position(|argument| argument.is_tracked()) {
            return Err(Error::unsupported(
                "call",
                format!(
                    "argument {at} requires gradients, which do not pass through a compiled call; take them \
                         inside the function, or detach the argument"
                ),
            ));
        }
        let program = self.program(&arguments)?;
        realise(&arguments)?;
        // Tensors are taken out of donated arguments last, and put back if the call fails.
        let mut operands = Vec::with_capacity(arguments.len() + program.keys);
        for argument in &arguments {
            operands.push(argument.to_eager()?);
        }
        for _ in 0..program.keys {
            operands.push(program.executable.device().next_key()?);
        }
        let mut lent: Vec<(usize, Value)> = Vec::new();
        for &(at, _) in &self.options.donated {
            let at = at as usize;
            let (Some(argument), Some(operand)) = (arguments.get(at), operands.get_mut(at)) else { continue };
            if let Some((value, tensor)) = take_unique(argument) {
                *operand = tensor;
                lent.push((at, value));
            }
        }
        let borrowed: Vec<&EagerTensor> = operands.iter().collect();
        let results = program.executable.call(&borrowed, cancel);
        for (at, value) in &lent {
            // After a failure, and where the argument has been copied after all.
            if let (Ok(Some(slot)), true) = (Slot::of(value), operands[*at].storage().is_held()) {
                slot.restore(operands[*at].clone());
            }
        }
        results?.iter().map(Tensor::from_eager).collect()
    }

    fn program(&self, arguments: &[&Tensor]) -> Result<Program> {
        let signature = Signature { types: arguments.iter().map(|argument| argument.ty().clone()).collect() };
        let known = self.programs.lock().unwrap_or_else(PoisonError::into_inner).get(&signature).cloned();
        if let Some(program) = known {
            return Ok(program);
        }
        let program = self.trace(arguments)?;
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(programs.entry(signature).or_insert(program).clone())
    }

    fn trace(&self, arguments: &[&Tensor]) -> Result<Program> {
        let mut parameters: Vec<Value> =
            arguments.iter().map(|argument| Value::leaf(argument.ty().clone())).collect::<Result<_>>()?;
        let placeholders: Vec<Tensor> = (arguments.iter().zip(&parameters))
            .map(|(argument, value)| Tensor::from_value(argument.device(), value.clone()))
            .collect();
        let (results, keys) = trace::record(|| (self.function)(&placeholders))?;
        let device: Option<Device> =
            arguments.iter().copied().chain(&results).map(|t| t.device().clone()).next();
        let device =
            device.ok_or_else(|| Error::shape("compile", "the function has no argument and no result"))?;
        for tensor in arguments.iter().copied().chain(&results) {
            device.expect("compile", tensor.device())?;
        }
        for (key, owner) in &keys {
            device.expect("compile", owner)?;
            parameters.push(key.clone());
        }
        let roots: Vec<Value> = results.iter().map(Tensor::value).collect();
        let executable = Executable::new(&device, &parameters, &roots, &self.options)?;
        Ok(Program { executable, keys: keys.len() })
    }
}

/// Takes the tensor out of an argument that nothing else holds: no other handle, and no graph that waits to be
/// run.
fn take_unique(argument: &Tensor) -> Option<(Value, EagerTensor)> {
    let value = argument.value();
    // The tensor's own reference and the one just made.
    let is_unique = argument.is_only_handle()
        && Arc::strong_count(value.node()) == 2
        && value.payload().is_some_and(|payload| Arc::strong_count(payload) == 1);
    if !is_unique {
        return None;
    }
    let tensor = Slot::of(&value).ok().flatten()?.take()?;
    Some((value, tensor))
}
