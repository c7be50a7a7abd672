//! The text of one kernel in the making: parameters, bindings, functions and statements.

use std::collections::BTreeSet;
use std::fmt::Write;

use lanthorn_compiler::kernel::Operand;
use lanthorn_ir::{DType, Error, Result};

use super::functions::Function;
use super::{Base, Binding, Shader};
use crate::driver::Access;

/// Which memory an operand lies in. Operands with one number share a binding.
pub(crate) type Slot = u32;

/// What a kernel's operands are: inputs, then outputs, each with its memory.
pub(crate) struct Operands<'a> {
    pub inputs: &'a [Operand],
    pub outputs: &'a [Operand],
    pub slots: &'a [Slot],
}

impl Operands<'_> {
    /// Operand `at`, outputs counted after inputs.
    pub fn get(&self, at: usize) -> &Operand {
        match at.checked_sub(self.inputs.len()) {
            None => &self.inputs[at],
            Some(output) => &self.outputs[output],
        }
    }

    fn len(&self) -> usize {
        self.inputs.len() + self.outputs.len()
    }
}

/// How the words of a binding are declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Of(&'static str),
    /// Elements narrower than a word are written: neighbours of one word belong to several invocations.
    Atomic,
}

/// The type of a value in a shader; `None` for a dtype that kernels do not compute in.
///
/// Bytes are moved but not computed with.
pub(crate) fn value_type(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F32 => "f32",
        DType::I32 => "i32",
        DType::U32 | DType::U8 => "u32",
        DType::Bool => "bool",
        _ => return None,
    })
}

/// Writes one kernel.
pub(crate) struct Writer<'a> {
    pub operands: Operands<'a>,
    fields: Vec<(String, u32)>,
    bases: Vec<Base>,
    bindings: Vec<(Slot, Access, Words)>,
    functions: BTreeSet<Function>,
    globals: String,
    code: String,
    depth: usize,
}

impl<'a> Writer<'a> {
    pub fn new(operands: Operands<'a>) -> Result<Writer<'a>> {
        let mut bindings: Vec<(Slot, Access, Words)> = Vec::new();
        for at in 0..operands.len() {
            let (slot, dtype) = (operands.slots[at], operands.get(at).dtype);
            let written = at >= operands.inputs.len();
            let words = match dtype {
                DType::Bool | DType::U8 if written => Words::Atomic,
                DType::F32 => Words::Of("f32"),
                DType::I32 => Words::Of("i32"),
                _ => Words::Of("u32"),
            };
            match bindings.iter_mut().find(|binding| binding.0 == slot) {
                Some((_, access, known)) => {
                    if written {
                        *access = Access::ReadWrite;
                    }
                    *known = match (*known, words) {
                        (Words::Atomic, _) | (_, Words::Atomic) => Words::Atomic,
                        (a, b) if a == b => a,
                        _ => Words::Of("u32"),
                    };
                }
                None => {
                    let access = if written { Access::ReadWrite } else { Access::Read };
                    bindings.push((slot, access, words));
                }
            }
        }
        Ok(Writer {
            operands,
            fields: Vec::new(),
            bases: Vec::new(),
            bindings,
            functions: BTreeSet::new(),
            globals: String::new(),
            code: String::new(),
            depth: 1,
        })
    }

    /// A parameter of the dispatch. A name stands for one value.
    pub fn field(&mut self, name: impl Into<String>, value: u32) -> String {
        let name = name.into();
        let text = format!("p.{name}");
        if !self.fields.iter().any(|field| field.0 == name) {
            self.fields.push((name, value));
        }
        text
    }

    /// A size as a parameter.
    ///
    /// Errors: more than a shader can count.
    pub fn size(&mut self, name: impl Into<String>, value: usize) -> Result<String> {
        let value = u32::try_from(value).map_err(|_| {
            Error::shape("gpu", format!("a kernel of {value} places exceeds what a shader counts (2^32 - 1)"))
        })?;
        Ok(self.field(name, value))
    }

    /// Where an operand's first element lies, in elements.
    fn base(&mut self, at: usize) -> String {
        let operand = self.operands.get(at);
        let (offset, size) = (operand.layout.offset as u32, operand.dtype.size() as u32);
        let name = format!("base{at}");
        if !self.fields.iter().any(|field| field.0 == name) {
            self.bases.push(Base { word: self.fields.len(), operand: at, element: size });
        }
        self.field(name, offset)
    }

    /// Uses a function of the library.
    pub fn call(&mut self, function: Function) -> &'static str {
        for &needed in function.needs() {
            self.call(needed);
        }
        self.functions.insert(function);
        function.name()
    }

    /// Declares something outside of the entry point.
    pub fn global(&mut self, text: impl AsRef<str>) {
        self.globals.push_str(text.as_ref());
        self.globals.push('\n');
    }

    /// One statement.
    pub fn line(&mut self, text: impl AsRef<str>) {
        for _ in 0..self.depth {
            self.code.push_str("  ");
        }
        self.code.push_str(text.as_ref());
        self.code.push('\n');
    }

    /// A statement that opens a block.
    pub fn open(&mut self, text: impl AsRef<str>) {
        self.line(format!("{} {{", text.as_ref()).trim_start());
        self.depth += 1;
    }

    pub fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// Takes the statements written since `from`, to be put elsewhere.
    pub fn cut(&mut self, from: usize) -> String {
        self.code.split_off(from)
    }

    /// How much has been written.
    pub fn mark(&self) -> usize {
        self.code.len()
    }

    /// The coordinates of place `flat` in a domain with these sizes, whose parameters are named after `name`.
    pub fn coordinates(&mut self, name: &str, flat: &str, sizes: &[usize]) -> Result<Vec<String>> {
        if sizes.len() <= 1 {
            return Ok(sizes.iter().map(|_| flat.to_string()).collect());
        }
        let names: Vec<String> = (0..sizes.len()).map(|axis| format!("{name}{axis}")).collect();
        let mut rest = flat.to_string();
        for axis in (1..sizes.len()).rev() {
            let size = self.size(format!("{name}_size{axis}"), sizes[axis])?;
            self.line(format!("let {} = {rest} % {size};", names[axis]));
            if axis > 1 {
                self.line(format!("let {name}_rest{axis} = {rest} / {size};"));
                rest = format!("{name}_rest{axis}");
            } else {
                self.line(format!("let {} = {rest} / {size};", names[0]));
            }
        }
        Ok(names)
    }

    /// The place of an operand's element in its memory, in elements: the base plus steps along coordinates. `axes`
    /// tells the parameters of different coordinate lists apart.
    pub fn address(&mut self, at: usize, axes: &str, coordinates: &[String], strides: &[isize]) -> String {
        let steps = self.steps(at, axes, coordinates, strides);
        self.base(at) + &steps
    }

    /// What steps along coordinates add to an address.
    pub fn steps(&mut self, at: usize, axes: &str, coordinates: &[String], strides: &[isize]) -> String {
        let mut text = String::new();
        for (axis, (coordinate, &stride)) in coordinates.iter().zip(strides).enumerate() {
            match stride {
                0 => {}
                1 => {
                    let _ = write!(text, " + {coordinate}");
                }
                // Negative strides wrap around: addresses are whole numbers modulo 2^32.
                stride => {
                    let step = self.field(format!("step{at}_{axes}{axis}"), stride as u32);
                    let _ = write!(text, " + {coordinate} * {step}");
                }
            }
        }
        text
    }

    fn binding(&self, at: usize) -> (usize, Words) {
        let slot = self.operands.slots[at];
        let place = self.bindings.iter().position(|binding| binding.0 == slot).unwrap_or(0);
        (place, self.bindings[place].2)
    }

    /// The word at an index, as the binding declares it, and its type.
    fn word(&self, at: usize, index: &str) -> (String, &'static str) {
        match self.binding(at) {
            (place, Words::Of(ty)) => (format!("b{place}[{index}]"), ty),
            (place, Words::Atomic) => (format!("atomicLoad(&b{place}[{index}])"), "u32"),
        }
    }

    /// The element of an operand at an address that is a name.
    pub fn load(&self, at: usize, address: &str) -> Result<String> {
        let dtype = self.operands.get(at).dtype;
        let ty = value_type(dtype).ok_or_else(|| refused(dtype))?;
        if dtype.size() == 1 {
            let (word, declared) = self.word(at, &format!("{address} >> 2u"));
            let word = if declared == "u32" { word } else { format!("bitcast<u32>({word})") };
            let byte = format!("({word} >> (({address} & 3u) * 8u)) & 255u");
            return Ok(if dtype == DType::Bool { format!("({byte}) != 0u") } else { byte });
        }
        let (word, declared) = self.word(at, address);
        Ok(if declared == ty { word } else { format!("bitcast<{ty}>({word})") })
    }

    /// Word `part` of a 64-bit element.
    pub fn load_half(&self, at: usize, address: &str, part: u32) -> String {
        let (word, declared) = self.word(at, &format!("2u * ({address}) + {part}u"));
        if declared == "u32" { word } else { format!("bitcast<u32>({word})") }
    }

    /// Writes a value to an output's element at an address that is a name.
    pub fn store(&mut self, output: usize, address: &str, value: &str) -> Result<()> {
        let at = self.operands.inputs.len() + output;
        let dtype = self.operands.get(at).dtype;
        let ty = value_type(dtype).ok_or_else(|| refused(dtype))?;
        let (place, words) = self.binding(at);
        if dtype.size() == 1 {
            let byte =
                if dtype == DType::Bool { format!("select(0u, 1u, {value})") } else { value.to_string() };
            let word = format!("&b{place}[{address} >> 2u]");
            self.line(format!("atomicAnd({word}, ~(255u << (({address} & 3u) * 8u)));"));
            self.line(format!("atomicOr({word}, {byte} << (({address} & 3u) * 8u));"));
            return Ok(());
        }
        self.line(match words {
            Words::Of(declared) if declared == ty => format!("b{place}[{address}] = {value};"),
            Words::Of(declared) => format!("b{place}[{address}] = bitcast<{declared}>({value});"),
            Words::Atomic => format!("atomicStore(&b{place}[{address}], bitcast<u32>({value}));"),
        });
        Ok(())
    }

    /// The whole text, with `entry` before the entry point's body.
    pub fn finish(mut self, entry: &str, workgroups: usize) -> Result<Shader> {
        if self.fields.is_empty() {
            // A uniform buffer holds something.
            self.fields.push(("unused".to_string(), 0));
        }
        let mut text = String::from("struct Params {\n");
        for (name, _) in &self.fields {
            let _ = writeln!(text, "  {name}: u32,");
        }
        text.push_str("}\n@group(0) @binding(0) var<uniform> p: Params;\n");
        for (place, (_, access, words)) in self.bindings.iter().enumerate() {
            let access = match access {
                Access::Read => "read",
                Access::ReadWrite => "read_write",
            };
            let ty = match words {
                Words::Of(ty) => ty,
                Words::Atomic => "atomic<u32>",
            };
            let _ = writeln!(
                text,
                "@group(0) @binding({}) var<storage, {access}> b{place}: array<{ty}>;",
                place + 1
            );
        }
        text.push_str(&self.globals);
        for function in &self.functions {
            text.push_str(function.text());
        }
        let _ = write!(text, "@compute {entry} {{\n{}}}\n", self.code);
        Ok(Shader {
            text,
            params: self.fields.iter().map(|field| field.1).collect(),
            bases: self.bases,
            bindings: self.bindings.iter().map(|&(slot, access, _)| Binding { slot, access }).collect(),
            workgroups,
        })
    }
}

/// A dtype that no shader here computes in.
pub(crate) fn refused(dtype: DType) -> Error {
    Error::dtype("gpu", format!("kernels compute in f32, i32, u32 and bool, not in {dtype}; cast it first"))
}
