//! Stable sorts along an axis of dense values.

use super::number::Number;
use super::scan::Lines;
use crate::rows::Cpu;
use crate::rows::operands::Shared;

/// The elements of each line in order and their places in it; equal elements keep their order.
pub fn sort<T: Number>(
    cpu: Cpu,
    lines: Lines,
    descending: bool,
    x: &[T],
    values: &mut [T],
    places: &mut [i64],
) {
    assert!(x.len() == values.len() && x.len() == places.len(), "a sort keeps the shape");
    let (values, places) = (Shared::new(values), Shared::new(places));
    let key = |element: T| {
        let key = element.key();
        // Turned over, the order of keys runs down; that of places stays.
        match (descending, T::SHORT) {
            (false, _) => key,
            (true, true) => u64::from(!(key as u32)),
            (true, false) => !key,
        }
    };
    let put = |first: usize, at: usize, from: usize| {
        // SAFETY: both places lie in the line, which belongs to this task.
        unsafe {
            values.at(first + at * lines.inner).write(x[first + from * lines.inner]);
            places.at(first + at * lines.inner).write(from as i64);
        }
    };
    if T::SHORT && u32::try_from(lines.size).is_ok() {
        lines.run(cpu, |first| {
            let mut order: Vec<u64> =
                (0..lines.size).map(|at| key(x[first + at * lines.inner]) << 32 | at as u64).collect();
            order.sort_unstable();
            order.iter().enumerate().for_each(|(at, &from)| put(first, at, from as u32 as usize));
        });
    } else {
        lines.run(cpu, |first| {
            let mut order: Vec<(u64, usize)> =
                (0..lines.size).map(|at| (key(x[first + at * lines.inner]), at)).collect();
            order.sort_unstable();
            order.iter().enumerate().for_each(|(at, &(_, from))| put(first, at, from));
        });
    }
}
