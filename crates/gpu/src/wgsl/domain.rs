//! Iteration domains: the axes of a kernel, merged as far as every operand's strides allow.

use lanthorn_ir::Layout;

/// Axes of size 1 left out, and neighbours joined where all operands step through them as through one. `strides`
/// has one row for each operand, innermost axis last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    pub sizes: Vec<usize>,
    pub strides: Vec<Vec<isize>>,
}

impl Domain {
    /// The axes `axes` of a shape, in this order, with the operands' layouts over that shape.
    pub fn new(shape: &[usize], axes: &[usize], layouts: &[&Layout]) -> Domain {
        let mut sizes: Vec<usize> = Vec::new();
        let mut strides: Vec<Vec<isize>> = vec![Vec::new(); layouts.len()];
        for &axis in axes {
            let size = shape[axis];
            if size == 1 {
                continue;
            }
            let step = |layout: &Layout| layout.strides.get(axis).copied().unwrap_or(0);
            let joins = !sizes.is_empty()
                && (layouts.iter().zip(&strides))
                    .all(|(layout, row)| row.last() == Some(&(step(layout) * size as isize)));
            if joins {
                if let Some(outer) = sizes.last_mut() {
                    *outer *= size;
                }
                for (layout, row) in layouts.iter().zip(&mut strides) {
                    row.pop();
                    row.push(step(layout));
                }
            } else {
                sizes.push(size);
                for (layout, row) in layouts.iter().zip(&mut strides) {
                    row.push(step(layout));
                }
            }
        }
        Domain { sizes, strides }
    }

    /// The number of places.
    pub fn count(&self) -> usize {
        self.sizes.iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_join_where_every_operand_lets_them() {
        let whole = Layout::contiguous([2, 3, 4]);
        let row = Layout::contiguous([4]).broadcast(&[2, 3, 4]);
        let turned = Layout::contiguous([3, 2, 4]).permute(&[1, 0, 2]);
        let domain = |layouts: &[&Layout]| Domain::new(&[2, 3, 4], &[0, 1, 2], layouts);
        assert_eq!(domain(&[&whole]), Domain { sizes: vec![24], strides: vec![vec![1]] });
        let both = domain(&[&whole, &row]);
        assert_eq!(both, Domain { sizes: vec![6, 4], strides: vec![vec![4, 1], vec![0, 1]] });
        assert_eq!(domain(&[&whole, &turned]).sizes, [2, 3, 4]);
        assert_eq!(domain(&[&whole, &turned]).count(), 24);
    }

    #[test]
    fn axes_of_one_place_vanish() {
        let layout = Layout::contiguous([1, 5, 1]);
        let domain = Domain::new(&[1, 5, 1], &[0, 1, 2], &[&layout]);
        assert_eq!(domain, Domain { sizes: vec![5], strides: vec![vec![1]] });
        assert_eq!(Domain::new(&[], &[], &[&Layout::contiguous([])]).count(), 1);
    }
}
