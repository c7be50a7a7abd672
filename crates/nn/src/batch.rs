//! Batches of windows of a token stream.

use lanthorn_ir::{Error, ErrorKind, Result};
use lanthorn_runtime::{Device, EagerTensor};

use crate::model::IGNORE;

/// Ids and the ids that follow them, both `[rows, context]` in row-major order. Targets of [`IGNORE`] do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub rows: usize,
    pub context: usize,
    pub ids: Vec<i32>,
    pub targets: Vec<i32>,
}

impl Batch {
    /// Batches of `rows` windows that cover `tokens` in order, of at most `windows` windows in all, evenly spread. The
    /// last window and the last batch are filled up with targets that do not count. Where there are fewer windows than
    /// `rows`, the one batch has as many rows as there are windows.
    ///
    /// Errors: fewer than two tokens, sizes of 0 or beyond the address space, a token beyond 31 bits, memory.
    pub fn covering(
        tokens: &[u32],
        context: usize,
        rows: usize,
        windows: usize,
    ) -> Result<impl Iterator<Item = Batch>> {
        batch_size(rows, context)?;
        check_tokens(tokens)?;
        if tokens.len() < 2 || windows == 0 {
            let count = tokens.len();
            return Err(Error::shape(
                "batch",
                format!("{windows} windows of {count} tokens; expected at least one window and two tokens"),
            ));
        }
        let available = (tokens.len() - 1).div_ceil(context);
        let windows = windows.min(available);
        let rows = rows.min(windows);
        let size = batch_size(rows, context)?;
        // Room for one batch is asked for here, where it can be refused, and the first batch takes it.
        let mut first_room = Some((room(rows, context, size)?, room(rows, context, size)?));
        // Multiplied in 128 bits, as the product may exceed a word.
        let start =
            move |window: usize| (window as u128 * available as u128 / windows as u128) as usize * context;
        Ok((0..windows).step_by(rows).map(move |first| {
            let (mut ids, mut targets) = first_room.take().unwrap_or_default();
            for window in first..windows.min(first.saturating_add(rows)) {
                let rest = tokens.get(start(window)..).unwrap_or_default();
                let pairs = rest.windows(2).take(context).filter_map(|pair| pair.first().zip(pair.last()));
                for (&id, &target) in pairs {
                    ids.push(id as i32);
                    targets.push(target as i32);
                }
                let filled = ids.len().next_multiple_of(context);
                ids.resize(filled, 0);
                targets.resize(filled, IGNORE as i32);
            }
            ids.resize(size, 0);
            targets.resize(size, IGNORE as i32);
            Batch { rows, context, ids, targets }
        }))
    }

    /// Rows and context.
    pub fn shape(&self) -> [usize; 2] {
        [self.rows, self.context]
    }

    /// How many targets count.
    pub fn counted_targets(&self) -> usize {
        self.targets.iter().filter(|&&target| i64::from(target) != IGNORE).count()
    }

    /// Ids and targets on a device, `i32 [rows, context]`.
    ///
    /// Errors: a number of ids or targets that is not the shape's; memory.
    pub fn to_device(&self, device: &Device) -> Result<[EagerTensor; 2]> {
        let shape = self.shape();
        Ok([
            EagerTensor::from_slice(device, &shape, &self.ids)?,
            EagerTensor::from_slice(device, &shape, &self.targets)?,
        ])
    }
}

/// The number of ids in a batch.
pub(crate) fn batch_size(rows: usize, context: usize) -> Result<usize> {
    rows.checked_mul(context)
        .filter(|&size| size > 0 && size < isize::MAX as usize / 4)
        .ok_or_else(|| Error::shape("batch", format!("cannot make {rows} rows of {context} tokens")))
}

/// Room for the ids or targets of a batch, `size` of them.
pub(crate) fn room(rows: usize, context: usize, size: usize) -> Result<Vec<i32>> {
    let mut ids = Vec::new();
    ids.try_reserve_exact(size).map_err(|_| {
        let bytes = size.saturating_mul(size_of::<i32>());
        let message = format!(
            "{rows} rows of {context} tokens take {bytes} bytes, which cannot be had; take fewer rows"
        );
        Error::new(ErrorKind::OutOfMemory, "batch", message)
    })?;
    Ok(ids)
}

/// Refuses tokens that are no `i32`.
pub(crate) fn check_tokens(tokens: &[u32]) -> Result<()> {
    match tokens.iter().find(|&&token| i32::try_from(token).is_err()) {
        Some(token) => Err(Error::shape("batch", format!("the token {token} exceeds 31 bits"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covering_batches_hold_every_target_once() {
        let tokens: Vec<u32> = (0..24).collect();
        let batches: Vec<Batch> = Batch::covering(&tokens, 5, 2, 99).unwrap().collect();
        assert_eq!(batches.len(), 3);
        assert!(batches.iter().all(|b| b.shape() == [2, 5] && b.ids.len() == 10 && b.targets.len() == 10));
        let counted: Vec<i32> =
            batches.iter().flat_map(|b| &b.targets).copied().filter(|&target| target != -1).collect();
        assert_eq!(counted, (1..24).collect::<Vec<i32>>());
        assert_eq!(batches.iter().map(Batch::counted_targets).sum::<usize>(), 23);
        let mut pairs = batches.iter().flat_map(|b| b.ids.iter().zip(&b.targets));
        assert!(pairs.all(|(id, target)| *target == -1 || id + 1 == *target));
    }

    #[test]
    fn fewer_windows_than_there_are_lie_evenly() {
        let tokens: Vec<u32> = (0..101).collect();
        let batches: Vec<Batch> = Batch::covering(&tokens, 10, 3, 5).unwrap().collect();
        let starts: Vec<i32> = batches.iter().flat_map(|b| b.ids.iter().step_by(10)).copied().collect();
        assert_eq!(starts, [0, 20, 40, 60, 80, 0]);
        assert_eq!(batches[1].counted_targets(), 20);
    }

    #[test]
    fn what_covers_nothing_is_refused() {
        let tokens = [1, 2, 3];
        assert!(Batch::covering(&[1], 10, 3, 5).is_err());
        assert!(Batch::covering(&tokens, 0, 3, 5).is_err());
        assert!(Batch::covering(&tokens, 10, 3, 0).is_err());
        assert!(Batch::covering(&tokens, usize::MAX / 8, 1, 1).is_err());
        assert!(Batch::covering(&[1, u32::MAX], 10, 3, 5).is_err());
        // Far more than there is memory, and within the address space.
        let error = Batch::covering(&tokens, 1 << 58, 1, 1).err().unwrap();
        assert_eq!(error.kind, ErrorKind::OutOfMemory);
    }

    #[test]
    fn more_rows_than_windows_take_no_memory() {
        let tokens: Vec<u32> = (0..24).collect();
        let batches: Vec<Batch> = Batch::covering(&tokens, 5, 1_000_000_000, usize::MAX).unwrap().collect();
        assert_eq!((batches.len(), batches[0].shape(), batches[0].counted_targets()), (1, [5, 5], 23));
    }
}
