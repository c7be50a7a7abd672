//! A phase with its slots assigned: what the tile loop executes.

use lanthorn_compiler::kernel::{Phase, Store};
use lanthorn_ir::DType;
use lanthorn_ir::expr::{BinaryOp, Scalar, Step, UnaryOp};
use smallvec::SmallVec;

use super::TILE;

/// The type in which a step's loop runs. Truth values are f32 ones and zeros, so that selection and
/// logic are float loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    F32,
    F64,
    I32,
    I64,
    U64,
    Bool,
}

impl Body {
    pub(crate) fn of(dtype: DType) -> Option<Body> {
        Some(match dtype {
            DType::Bool => Body::Bool,
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => Body::F32,
            DType::F64 => Body::F64,
            DType::U8 | DType::U16 | DType::I8 | DType::I16 | DType::I32 => Body::I32,
            DType::U32 | DType::I64 => Body::I64,
            DType::U64 => Body::U64,
            DType::C64 | DType::C128 => return None,
        })
    }

    /// Bytes of one element in a slot.
    pub(crate) fn size(self) -> usize {
        match self {
            Body::F32 | Body::I32 | Body::Bool => 4,
            Body::F64 | Body::I64 | Body::U64 => 8,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Select,
    /// From the body in the instruction to that of this dtype.
    Cast(DType),
    /// f32 to the nearest numbers of this dtype.
    Round(DType),
}

/// One vector loop: operands `a`, `b`, `c` and the result are slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub op: Op,
    /// The operands' body (of `a` for `Cast`, of the arms for `Select`).
    pub body: Body,
    pub target: u16,
    pub a: u16,
    pub b: u16,
    pub c: u16,
    /// Integers narrower than their body wrap to this dtype.
    pub wrap: Option<DType>,
}

/// An operand's way into a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// The kernel's input, or `inputs + k` for the `k`-th fold or the accumulator.
    pub source: u32,
    pub slot: u16,
    /// Read again after a store of the same tile, which may have overwritten the operand: it must be copied.
    pub outlives_stores: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOut {
    pub slot: u16,
    pub output: u32,
    /// The dtype whose elements are those of the slot, if an instruction may write them to memory itself: the
    /// slot is that of one computed step with one store.
    pub direct: Option<DType>,
    /// The step is the last one, after which nothing reads operands.
    pub is_last: bool,
}

/// A phase ready to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct TileProgram {
    pub loads: Vec<Load>,
    pub constants: Vec<(u16, DType, Scalar)>,
    pub instructions: Vec<Instruction>,
    pub stores: Vec<StoreOut>,
    /// The slot of each step, for folds.
    pub slot_of_step: Vec<u16>,
    /// The body of each step.
    pub body_of_step: Vec<Body>,
    pub slots: usize,
}

impl TileProgram {
    /// Bytes of slot memory.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slots * SLOT_BYTES
    }
}

/// Bytes from slot to slot: a tile of the widest body, and a little more, lest equal positions in all slots fall
/// into one set of the cache.
pub(crate) const SLOT_BYTES: usize = TILE * 8 + 128;

/// Assigns slots: loads and constants keep theirs, a computed step's slot is reused after its last
/// reader. `kept` are steps that folds read after the tile has run. `None` if a dtype has no body.
pub(crate) fn assign(phase: &Phase, kept: &[u32]) -> Option<TileProgram> {
    let expr = &phase.expr;
    let count = expr.steps.len();
    let mut last_read = vec![0usize; count];
    let mut needed = vec![false; count];
    for store in &phase.stores {
        needed[store.step as usize] = true;
        last_read[store.step as usize] = usize::MAX;
    }
    for &step in kept {
        needed[step as usize] = true;
        last_read[step as usize] = usize::MAX;
    }
    for at in (0..count).rev() {
        if needed[at] {
            for read in expr.steps[at].reads() {
                needed[read as usize] = true;
                last_read[read as usize] = last_read[read as usize].max(at);
            }
        }
    }
    let mut program = TileProgram { slot_of_step: vec![0; count], ..TileProgram::default() };
    program.body_of_step = expr.dtypes.iter().map(|&d| Body::of(d)).collect::<Option<Vec<_>>>()?;
    let mut free: Vec<u16> = Vec::new();
    for at in (0..count).filter(|&at| needed[at]) {
        let step = expr.steps[at];
        let body = program.body_of_step[at];
        let slot_of = |read: u32| program.slot_of_step[read as usize];
        let (a, b, c, op, operand_body) = match step {
            Step::Load(source) => {
                let slot = program.slots as u16;
                program.slots += 1;
                let is_stored = phase.stores.iter().any(|store| store.step as usize == at);
                let outlives_stores = is_stored && phase.stores.len() > 1
                    || kept.contains(&(at as u32)) && !phase.stores.is_empty();
                program.loads.push(Load { source, slot, outlives_stores });
                program.slot_of_step[at] = slot;
                continue;
            }
            Step::Const(value) => {
                let slot = program.slots as u16;
                program.slots += 1;
                program.constants.push((slot, expr.dtypes[at], value));
                program.slot_of_step[at] = slot;
                continue;
            }
            Step::Unary(op, a) => (slot_of(a), 0, 0, Op::Unary(op), program.body_of_step[a as usize]),
            Step::Binary(op, a, b) => {
                (slot_of(a), slot_of(b), 0, Op::Binary(op), program.body_of_step[a as usize])
            }
            Step::Select(c, a, b) => (slot_of(a), slot_of(b), slot_of(c), Op::Select, body),
            Step::Round(a, to) => (slot_of(a), 0, 0, Op::Round(to), body),
            Step::Cast(a) => (slot_of(a), 0, 0, Op::Cast(expr.dtypes[at]), program.body_of_step[a as usize]),
        };
        // Operands that nobody reads later. The target may be the slot of one, since loops read a group before
        // they write it, but only where all elements have one size.
        let mut dead: SmallVec<[u16; 3]> = SmallVec::new();
        for read in step.reads() {
            let is_temporary = !matches!(expr.steps[read as usize], Step::Load(_) | Step::Const(_));
            let slot = slot_of(read);
            if is_temporary && last_read[read as usize] == at && !dead.contains(&slot) {
                dead.push(slot);
            }
        }
        let sizes_differ =
            step.reads().iter().any(|&read| program.body_of_step[read as usize].size() != body.size());
        let is_stored = phase.stores.iter().any(|store| store.step as usize == at);
        let reused = if is_stored {
            // A slot of its own, so that it may lie in the output.
            None
        } else if sizes_differ {
            free.pop()
        } else {
            dead.pop().or_else(|| free.pop())
        };
        let target = reused.unwrap_or_else(|| {
            program.slots += 1;
            (program.slots - 1) as u16
        });
        free.extend(dead);
        let narrow = matches!(expr.dtypes[at], DType::U8 | DType::U16 | DType::U32 | DType::I8 | DType::I16);
        let wrap = (narrow && !matches!(op, Op::Cast(_))).then_some(expr.dtypes[at]);
        program.instructions.push(Instruction { op, body: operand_body, target, a, b, c, wrap });
        program.slot_of_step[at] = target;
    }
    let last = (0..count).rev().find(|&at| needed[at]);
    let store_out = |store: &Store| {
        let step = store.step as usize;
        let is_computed = !matches!(expr.steps[step], Step::Load(_) | Step::Const(_));
        let is_single = phase.stores.iter().filter(|other| other.step == store.step).count() == 1;
        StoreOut {
            slot: program.slot_of_step[step],
            output: store.output,
            direct: (is_computed && is_single).then_some(expr.dtypes[step]),
            is_last: last == Some(step),
        }
    };
    let stores = phase.stores.iter().map(store_out).collect();
    program.stores = stores;
    Some(program)
}
