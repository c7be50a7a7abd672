use super::*;
use crate::rows::{Indices, embedding, embedding_grad, embedding_grad_scratch_bytes};

for_each_dtype! {
    embedding_grad_adds_up_rows_by_id => check_embedding_grad;
}

#[test]
fn embedding_copies_rows_by_bytes() {
    proptest!(config(), |(rows in 1usize..9, bytes in 0usize..70, count in 0usize..30, seed in any::<u64>())| {
        let table: Vec<u8> = (0..rows * (bytes + 3)).map(|at| (at * 7) as u8).collect();
        let ids: Vec<i32> = (0..count).map(|at| ((seed >> (at % 50)) as usize % rows) as i32).collect();
        for cpu in every_cpu() {
            // SAFETY: the vector holds all rows.
            let view = unsafe { Rows::from_raw(table.as_ptr(), rows, bytes, bytes as isize + 3) };
            let mut out = vec![0; count * bytes];
            embedding(cpu, view, Indices::I32(&ids), RowsMut::new(&mut out, count, bytes)).unwrap();
            for (at, id) in ids.iter().enumerate() {
                let row = &table[*id as usize * (bytes + 3)..][..bytes];
                prop_assert_eq!(&out[at * bytes..][..bytes], row);
            }
        }
    });
}

#[test]
fn an_id_out_of_range_is_an_error() {
    let table = [1u8; 12];
    for bad in [3, -1] {
        let mut out = [9u8; 8];
        let ids = [0, bad];
        let result =
            embedding(Cpu::host(), Rows::new(&table, 3, 4), Indices::I64(&ids), RowsMut::new(&mut out, 2, 4));
        let text = result.unwrap_err().to_string();
        assert!(
            text.contains(&format!("embedding: id {bad} at position 1")) && text.contains("0..3"),
            "{text}"
        );
        assert_eq!(out, [9; 8]);

        let mut dtable = [9.0f32; 6];
        let mut scratch = ScratchMemory::new(embedding_grad_scratch_bytes(3, 2));
        let (grad, out) = (Rows::new(&[0.0; 4], 2, 2), RowsMut::new(&mut dtable, 3, 2));
        let error =
            embedding_grad::<f32>(Cpu::host(), grad, Indices::I64(&ids), out, scratch.get()).unwrap_err();
        assert_eq!(error.op, "embedding_grad");
        assert_eq!(dtable, [9.0; 6]);
    }
}

fn check_embedding_grad<E: Stored>() {
    let shapes = (0usize..200, 0usize..300, 1usize..90, any::<u64>());
    proptest!(config(), |((count, width, rows, seed) in shapes)| {
        let grad = Matrix::<E>::random(count, width, 2, 1.0, seed);
        // Skewed, as words are: half of the ids are id 0.
        let ids: Vec<i64> = random_values(count, 1.0, seed ^ 1)
            .iter()
            .map(|u| (u.max(0.0) * rows as f64) as i64)
            .collect();
        let mut expected = vec![vec![0.0; width]; rows];
        for (at, id) in ids.iter().enumerate() {
            let row = grad.row(at);
            (0..width).for_each(|column| expected[*id as usize][column] += row[column]);
        }
        on_every_cpu(|cpu| {
            let mut dtable = Matrix::<E>::filled(rows, width, 1, 5.0);
            let mut scratch = ScratchMemory::new(embedding_grad_scratch_bytes(rows, count));
            let ids = Indices::I64(&ids);
            embedding_grad(cpu, grad.view(), ids, dtable.view_mut(), scratch.get()).unwrap();
            for (row, expected) in expected.iter().enumerate() {
                assert_close::<E>("embedding_grad", &dtable.row(row), expected, 1.0);
            }
            dtable.bits()
        });
    });
}

#[test]
fn embedding_grad_of_a_large_table_does_not_depend_on_threads() {
    let (rows, width, count) = (700, 300, 500);
    let grad = Matrix::<bf16>::random(count, width, 0, 1.0, 3);
    let ids: Vec<u16> = (0..count).map(|at| (at * at % rows) as u16).collect();
    on_every_cpu(|cpu| {
        let mut dtable = Matrix::<bf16>::filled(rows, width, 0, 5.0);
        let mut scratch = ScratchMemory::new(embedding_grad_scratch_bytes(rows, count));
        let ids = Indices::U16(&ids);
        embedding_grad(cpu, grad.view(), ids, dtable.view_mut(), scratch.get()).unwrap();
        dtable.bits()
    });
}
