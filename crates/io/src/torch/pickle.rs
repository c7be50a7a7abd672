//! The part of Python's pickle format that `torch.save` uses. Objects are numbers into one list, so that none holds another and what a
//! file nests deeply is no recursion.

use crate::error::{Refusal, refuse, shorten};
use lanthorn_ir::DType;
use std::collections::HashMap;
use std::sync::Arc;

/// An object of a pickle; others are named by their place.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Object {
    /// `None`, and what is passed over.
    Nothing,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    Tuple(Vec<usize>),
    List(Vec<usize>),
    Dict(Vec<(usize, usize)>),
    /// What a file may ask to be called.
    Call(Call),
    DType(DType),
    Storage(Storage),
    Tensor(Tensor),
}

/// The functions that are followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Call {
    OrderedDict,
    Tensor,
    /// With a dtype of its own over bytes.
    TypedTensor,
    Parameter,
}

/// An entry of the archive with elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Storage {
    name: Arc<str>,
    /// None where tensors say it.
    dtype: Option<DType>,
}

/// A tensor over a storage; offset and strides in elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub storage: Arc<str>,
    pub dtype: DType,
    pub offset: usize,
    pub shape: Vec<usize>,
    pub strides: Vec<usize>,
}

/// The dtypes by the names that torch has for their storages and for themselves.
const DTYPES: [(&str, &str, DType); 15] = [
    ("FloatStorage", "float32", DType::F32),
    ("DoubleStorage", "float64", DType::F64),
    ("HalfStorage", "float16", DType::F16),
    ("BFloat16Storage", "bfloat16", DType::BF16),
    ("LongStorage", "int64", DType::I64),
    ("IntStorage", "int32", DType::I32),
    ("ShortStorage", "int16", DType::I16),
    ("CharStorage", "int8", DType::I8),
    ("ByteStorage", "uint8", DType::U8),
    ("BoolStorage", "bool", DType::Bool),
    ("ComplexFloatStorage", "complex64", DType::C64),
    ("ComplexDoubleStorage", "complex128", DType::C128),
    ("", "uint16", DType::U16),
    ("", "uint32", DType::U32),
    ("", "uint64", DType::U64),
];

/// The most axes that a tensor may have.
const MAX_AXES: usize = 64;

/// How many pairs, sizes and strides calls may copy for each byte of a pickle: it may have a list once and name it often.
const MOST_COPIED: usize = 4;

const SAFE: &str = "dictionaries of tensors, numbers and texts are read, and nothing is run";
const WHOLE: &str = "a whole pickle would be right";

/// The objects of a pickle.
#[derive(Debug)]
pub(super) struct Pickle {
    objects: Vec<Object>,
    root: usize,
}

impl Pickle {
    /// Follows a pickle to its end.
    pub fn read(bytes: &[u8]) -> Result<Pickle, Refusal> {
        let mut machine = Machine {
            bytes,
            at: 0,
            objects: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            room: MOST_COPIED * bytes.len() + 1024,
        };
        loop {
            let code = machine.byte()?;
            if code == b'.' {
                let root = machine.pop()?;
                return Ok(Pickle { objects: machine.objects, root });
            }
            machine.step(code)?;
        }
    }

    /// The place of the object that was pickled.
    pub fn root(&self) -> usize {
        self.root
    }

    pub fn get(&self, at: usize) -> &Object {
        self.objects.get(at).unwrap_or(&Object::Nothing)
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    objects: Vec<Object>,
    stack: Vec<usize>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: HashMap<usize, usize>,
    /// How many pairs, sizes and strides calls may still copy.
    room: usize,
}

impl<'a> Machine<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let range = self.at..self.at.saturating_add(length);
        let Some(taken) = self.bytes.get(range.clone()) else {
            return refuse(format!("the pickle is cut short at byte {}", self.at), WHOLE);
        };
        self.at = range.end;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        Ok(self.take(1)?.iter().fold(0, |_, &byte| byte))
    }

    /// An unsigned number of so many bytes.
    fn size(&mut self, bytes: usize) -> Result<usize, Refusal> {
        let number =
            self.take(bytes)?.iter().rev().fold(0u64, |number, &byte| (number << 8) | u64::from(byte));
        // What is not there is refused where it is taken.
        Ok(usize::try_from(number).unwrap_or(usize::MAX))
    }

    fn text(&mut self, length: usize) -> Result<String, Refusal> {
        match std::str::from_utf8(self.take(length)?) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => refuse(format!("the text before byte {} is not UTF-8", self.at), WHOLE),
        }
    }

    fn line(&mut self) -> Result<String, Refusal> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        let line = self.text(length)?;
        self.take(1)?;
        Ok(line)
    }

    fn push(&mut self, object: Object) {
        self.stack.push(self.objects.len());
        self.objects.push(object);
    }

    fn pop(&mut self) -> Result<usize, Refusal> {
        let lowest = self.marks.last().copied().unwrap_or(0);
        match self.stack.pop() {
            Some(top) if self.stack.len() >= lowest => Ok(top),
            _ => refuse(format!("nothing is there to be used before byte {}", self.at), WHOLE),
        }
    }

    /// What was put on the stack since the last mark.
    fn since_mark(&mut self) -> Result<Vec<usize>, Refusal> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            _ => refuse(format!("there is no mark before byte {}", self.at), WHOLE),
        }
    }

    fn top(&mut self) -> Result<usize, Refusal> {
        let top = self.pop()?;
        self.stack.push(top);
        Ok(top)
    }

    fn get(&self, at: usize) -> &Object {
        self.objects.get(at).unwrap_or(&Object::Nothing)
    }

    /// One instruction; the numbers are those of Python's `pickletools`.
    fn step(&mut self, code: u8) -> Result<(), Refusal> {
        match code {
            // PROTO, FRAME.
            0x80 => drop(self.byte()?),
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.since_mark()?),
            b'N' => self.push(Object::Nothing),
            0x88 => self.push(Object::Bool(true)),
            0x89 => self.push(Object::Bool(false)),
            b'J' => {
                let number = self.size(4)? as u32 as i32;
                self.push(Object::Int(number.into()));
            }
            b'K' => {
                let number = self.size(1)?;
                self.push(Object::Int(number as i64));
            }
            b'M' => {
                let number = self.size(2)?;
                self.push(Object::Int(number as i64));
            }
            0x8A => {
                let length = self.size(1)?;
                let number = whole(self.take(length)?);
                self.push(number);
            }
            b'G' => {
                let bits = self.take(8)?.iter().fold(0, |bits, &byte| (bits << 8) | u64::from(byte));
                self.push(Object::Float(f64::from_bits(bits)));
            }
            b'X' | 0x8C | 0x8D => {
                let length = self.size(match code {
                    b'X' => 4,
                    0x8C => 1,
                    _ => 8,
                })?;
                let text = self.text(length)?;
                self.push(Object::Text(text.into()));
            }
            // Bytes of several ages: nothing of a state.
            b'U' | b'C' | b'T' | b'B' => {
                let length = self.size(if matches!(code, b'U' | b'C') { 1 } else { 4 })?;
                self.take(length)?;
                self.push(Object::Nothing);
            }
            b')' => self.push(Object::Tuple(Vec::new())),
            b't' => {
                let items = self.since_mark()?;
                self.push(Object::Tuple(items));
            }
            0x85..=0x87 => {
                let mut items = Vec::new();
                for _ in 0..code - 0x84 {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.push(Object::Tuple(items));
            }
            b']' => self.push(Object::List(Vec::new())),
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' => {
                let items = self.since_mark()?;
                self.append(items)?;
            }
            b'}' => self.push(Object::Dict(Vec::new())),
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set(&items)?;
            }
            b'q' | b'r' | 0x94 => {
                let at = match code {
                    b'q' => self.size(1)?,
                    b'r' => self.size(4)?,
                    _ => self.memo.len(),
                };
                let top = self.top()?;
                self.memo.insert(at, top);
            }
            b'h' | b'j' => {
                let at = self.size(if code == b'h' { 1 } else { 4 })?;
                match self.memo.get(&at) {
                    Some(&object) => self.stack.push(object),
                    None => {
                        return refuse(
                            format!("the pickle refers to object {at}, which it does not have"),
                            WHOLE,
                        );
                    }
                }
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(&module, &name)?;
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (self.get(module).clone(), self.get(name).clone()) {
                    (Object::Text(module), Object::Text(name)) => self.global(&module, &name)?,
                    _ => return refuse("the pickle names something by no text", WHOLE),
                }
            }
            b'Q' => {
                let id = self.pop()?;
                let storage = self.storage(id)?;
                self.push(storage);
            }
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let result = self.call(function, arguments)?;
                self.spend(&result)?;
                self.push(result);
            }
            // What is set on an object, such as the versions of a state's modules.
            b'b' => drop(self.pop()?),
            other => {
                let found = format!("the pickle has the instruction {other:#04x} at byte {}", self.at - 1);
                return refuse(found, SAFE);
            }
        }
        Ok(())
    }

    fn append(&mut self, items: Vec<usize>) -> Result<(), Refusal> {
        let top = self.top()?;
        match self.objects.get_mut(top) {
            Some(Object::List(list)) => {
                list.extend(items);
                Ok(())
            }
            _ => refuse(format!("something is added to what is no list before byte {}", self.at), WHOLE),
        }
    }

    fn set(&mut self, items: &[usize]) -> Result<(), Refusal> {
        let top = self.top()?;
        match self.objects.get_mut(top) {
            Some(Object::Dict(pairs)) => {
                pairs.extend(items.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.last()?))));
                Ok(())
            }
            _ => refuse(format!("something is set in what is no dictionary before byte {}", self.at), WHOLE),
        }
    }

    /// What a file refers to by a name of Python.
    fn global(&mut self, module: &str, name: &str) -> Result<(), Refusal> {
        let object = match (module, name) {
            ("collections", "OrderedDict") => Object::Call(Call::OrderedDict),
            ("torch._utils", "_rebuild_tensor_v2") => Object::Call(Call::Tensor),
            ("torch._utils", "_rebuild_tensor_v3") => Object::Call(Call::TypedTensor),
            ("torch._utils", "_rebuild_parameter") => Object::Call(Call::Parameter),
            ("torch.storage", "UntypedStorage") => Object::Storage(Storage { name: "".into(), dtype: None }),
            ("torch", name) => {
                match DTYPES.iter().find(|row| !name.is_empty() && [row.0, row.1].contains(&name)) {
                    Some(&(storage, _, dtype)) if storage == name => {
                        Object::Storage(Storage { name: "".into(), dtype: Some(dtype) })
                    }
                    Some(&(_, _, dtype)) => Object::DType(dtype),
                    None => return foreign(module, name),
                }
            }
            _ => return foreign(module, name),
        };
        self.push(object);
        Ok(())
    }

    /// The storage of `("storage", type, name, device, count)`.
    fn storage(&self, id: usize) -> Result<Object, Refusal> {
        if let Object::Tuple(items) = self.get(id)
            && let [kind, class, name, ..] = items[..]
            && let (Object::Text(kind), Object::Storage(storage), Object::Text(name)) =
                (self.get(kind), self.get(class), self.get(name))
            && &**kind == "storage"
        {
            return Ok(Object::Storage(Storage { name: name.clone(), dtype: storage.dtype }));
        }
        refuse("the pickle refers to something beside it that is no storage", SAFE)
    }

    fn call(&self, function: usize, arguments: usize) -> Result<Object, Refusal> {
        let (Object::Call(call), Object::Tuple(arguments)) = (self.get(function), self.get(arguments)) else {
            return refuse(format!("the pickle calls what is no function before byte {}", self.at), SAFE);
        };
        match (call, &arguments[..]) {
            (Call::OrderedDict, []) => Ok(Object::Dict(Vec::new())),
            (Call::OrderedDict, [pairs]) => self.ordered(*pairs),
            (Call::Tensor, [storage, offset, shape, strides, further @ ..]) => {
                self.expect_own_elements(further.get(2))?;
                self.tensor([*storage, *offset, *shape, *strides], None)
            }
            (Call::TypedTensor, [storage, offset, shape, strides, _, _, dtype, further @ ..]) => {
                self.expect_own_elements(further.first())?;
                let Object::DType(dtype) = *self.get(*dtype) else {
                    return refuse("a tensor has no dtype that is read", SAFE);
                };
                self.tensor([*storage, *offset, *shape, *strides], Some(dtype))
            }
            (Call::Parameter, [tensor, ..]) if matches!(self.get(*tensor), Object::Tensor(_)) => {
                Ok(self.get(*tensor).clone())
            }
            _ => refuse(format!("the pickle calls {call:?} with {} arguments", arguments.len()), SAFE),
        }
    }

    /// Counts what a call has copied.
    fn spend(&mut self, made: &Object) -> Result<(), Refusal> {
        let copied = match made {
            Object::Dict(pairs) => pairs.len(),
            Object::Tensor(tensor) => tensor.shape.len() + tensor.strides.len(),
            _ => 0,
        };
        match self.room.checked_sub(copied) {
            Some(left) => {
                self.room = left;
                Ok(())
            }
            None => refuse(format!("the pickle makes the same over and over before byte {}", self.at), SAFE),
        }
    }

    /// Refuses a tensor whose elements stand for others: torch marks conjugates and negatives, and leaves the bytes as they are.
    fn expect_own_elements(&self, metadata: Option<&usize>) -> Result<(), Refusal> {
        let Some(Object::Dict(pairs)) = metadata.map(|&at| self.get(at)) else {
            return Ok(());
        };
        for &(key, value) in pairs {
            if let (Object::Text(mark), Object::Bool(true)) = (self.get(key), self.get(value))
                && matches!(&**mark, "conj" | "neg")
            {
                return refuse(
                    format!("a tensor is marked `{mark}`: its elements stand for others"),
                    "one that resolve_conj() and resolve_neg() gave would be right",
                );
            }
        }
        Ok(())
    }

    /// A dictionary of a list of pairs.
    fn ordered(&self, pairs: usize) -> Result<Object, Refusal> {
        let items = match self.get(pairs) {
            Object::List(items) | Object::Tuple(items) => items,
            _ => return refuse("a dictionary is made of what is no list of pairs", WHOLE),
        };
        let pair = |item: &usize| match self.get(*item) {
            Object::Tuple(pair) | Object::List(pair) if pair.len() == 2 => {
                Some((*pair.first()?, *pair.last()?))
            }
            _ => None,
        };
        match items.iter().map(pair).collect::<Option<Vec<_>>>() {
            Some(pairs) => Ok(Object::Dict(pairs)),
            None => refuse("a dictionary is made of what are no pairs", WHOLE),
        }
    }

    fn tensor(
        &self,
        [storage, offset, shape, strides]: [usize; 4],
        dtype: Option<DType>,
    ) -> Result<Object, Refusal> {
        let size = |at: usize| match *self.get(at) {
            Object::Int(number) => usize::try_from(number).ok(),
            _ => None,
        };
        let sizes = |at: usize| -> Option<Vec<usize>> {
            match self.get(at) {
                Object::Tuple(items) if items.len() <= MAX_AXES => {
                    items.iter().map(|&item| size(item)).collect()
                }
                _ => None,
            }
        };
        let Object::Storage(Storage { name, dtype: own }) = self.get(storage) else {
            return refuse("a tensor has no storage", SAFE);
        };
        let Some(dtype) = dtype.or(*own) else {
            return refuse("a tensor has no dtype", SAFE);
        };
        match (size(offset), sizes(shape), sizes(strides)) {
            (Some(offset), Some(shape), Some(strides)) => {
                Ok(Object::Tensor(Tensor { storage: name.clone(), dtype, offset, shape, strides }))
            }
            _ => refuse(
                "a tensor's offset, shape or strides are no whole numbers of at least 0, or it has too many axes",
                SAFE,
            ),
        }
    }
}

/// A whole number of bytes from the lowest on, in two's complement; one beyond 64 bits is passed over.
fn whole(bytes: &[u8]) -> Object {
    if bytes.len() > 8 {
        return Object::Nothing;
    }
    let sign = if bytes.last().is_some_and(|&byte| byte >= 0x80) { -1 } else { 0 };
    Object::Int(bytes.iter().rev().fold(sign, |number, &byte| (number << 8) | i64::from(byte)))
}

fn foreign(module: &str, name: &str) -> Result<(), Refusal> {
    refuse(format!("the pickle asks for `{}.{}`", shorten(module), shorten(name)), SAFE)
}
