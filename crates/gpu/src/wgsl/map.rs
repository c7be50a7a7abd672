//! Fused pointwise regions: one invocation for each element.

use lanthorn_compiler::kernel::Phase;
use lanthorn_ir::{Layout, Result};

use super::domain::Domain;
use super::writer::{Operands, Writer};
use super::{GROUP, INVOCATIONS, Shader, entry, expr};

pub(crate) fn map(operands: Operands<'_>, domain: &[usize], body: &Phase) -> Result<Shader> {
    let layouts: Vec<&Layout> =
        operands.inputs.iter().chain(operands.outputs).map(|operand| &operand.layout).collect();
    let axes: Vec<usize> = (0..domain.len()).collect();
    let domain = Domain::new(domain, &axes, &layouts);
    let mut writer = Writer::new(operands)?;
    let places = writer.size("places", domain.count())?;
    writer.line(format!("let i = ({GROUP}) * {INVOCATIONS}u + local;"));
    writer.line(format!("if (i >= {places}) {{ return; }}"));
    let coordinates = writer.coordinates("i", "i", &domain.sizes)?;
    phase(&mut writer, body, &Place { names: "s", coordinates: &coordinates, domain: &domain }, &[], "")?;
    writer.finish(&entry(&INVOCATIONS.to_string(), true), domain.count().div_ceil(INVOCATIONS))
}

/// Where a phase is: coordinates in a domain.
pub(crate) struct Place<'a> {
    /// What the names of its steps begin with.
    pub names: &'a str,
    pub coordinates: &'a [String],
    pub domain: &'a Domain,
}

/// A phase at one place: loads, steps, stores. Loads beyond the inputs are `accumulators`. `axes` tells the
/// parameters of the strides from those of other phases.
pub(crate) fn phase(
    writer: &mut Writer<'_>,
    phase: &Phase,
    place: &Place<'_>,
    accumulators: &[String],
    axes: &str,
) -> Result<()> {
    let live = expr::live(phase, &[]);
    steps(writer, phase, &live, place, accumulators, axes)?;
    stores(writer, phase, place, axes)
}

/// The live steps of a phase.
pub(crate) fn steps(
    writer: &mut Writer<'_>,
    phase: &Phase,
    live: &[bool],
    place: &Place<'_>,
    accumulators: &[String],
    axes: &str,
) -> Result<()> {
    let inputs = writer.operands.inputs.len();
    let mut addressed = vec![false; inputs];
    expr::steps(writer, &phase.expr, live, place.names, &mut |writer, source| {
        let source = source as usize;
        if let Some(accumulator) = source.checked_sub(inputs) {
            return accumulators.get(accumulator).cloned().ok_or_else(|| {
                lanthorn_ir::Error::new(lanthorn_ir::ErrorKind::Compile, "gpu", "a load of no operand")
            });
        }
        let name = format!("{}_at{source}", place.names);
        // A phase may load one operand more than once.
        if !std::mem::replace(&mut addressed[source], true) {
            let address = writer.address(source, axes, place.coordinates, &place.domain.strides[source]);
            writer.line(format!("let {name} = {address};"));
        }
        writer.load(source, &name)
    })
}

/// The stores of a phase, after all its loads: an output may lie where an input does.
pub(crate) fn stores(writer: &mut Writer<'_>, phase: &Phase, place: &Place<'_>, axes: &str) -> Result<()> {
    let inputs = writer.operands.inputs.len();
    for store in &phase.stores {
        let at = inputs + store.output as usize;
        let address = writer.address(at, axes, place.coordinates, &place.domain.strides[at]);
        let name = format!("{}_to{}", place.names, store.output);
        writer.line(format!("let {name} = {address};"));
        writer.store(store.output as usize, &name, &format!("{}{}", place.names, store.step))?;
    }
    Ok(())
}
