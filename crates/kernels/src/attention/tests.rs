//! Attention against the naive formula in f64: every storage type and instruction set, grouped heads, masks, caches,
//! strides, ragged and empty shapes, one or several threads with the same bits.

use half::bf16;
use lanthorn_error::ErrorKind;
use proptest::prelude::*;

use super::*;
use crate::rows::tests::{
    ScratchMemory, Stored, assert_close, bits, config, every_cpu, for_each_dtype, on_every_cpu, random_values,
};
use crate::rows::{Cpu, Wide};

for_each_dtype! {
    attention_follows_its_formula => check_forward;
    attention_grad_follows_its_formula => check_backward;
}

/// A tensor `[batch, seq, heads, head_dim]` in one of two orders of memory, with gaps.
#[derive(Clone)]
struct Tensor<E> {
    elements: Vec<E>,
    shape: [usize; 4],
    strides: [isize; 3],
}

#[derive(Clone, Copy, Debug)]
enum Order {
    /// As a projection leaves it; heads are adjacent.
    SeqOuter,
    /// As a cache may keep it; positions of a head are adjacent.
    HeadsOuter,
}

impl<E: Stored> Tensor<E> {
    fn random(shape: [usize; 4], order: Order, gap: usize, scale: f64, seed: u64) -> Self {
        let [batch, seq, heads, width] = shape;
        let row = width + gap;
        let strides = match order {
            Order::SeqOuter => [seq * heads * row, heads * row, row],
            Order::HeadsOuter => [seq * heads * row, row, seq * row],
        };
        let values = random_values(batch * seq * heads * row, scale, seed);
        let elements = values.iter().map(|x| E::from_f64(*x)).collect();
        Tensor { elements, shape, strides: strides.map(|stride| stride as isize) }
    }

    fn at(&self, [batch, seq, head]: [usize; 3]) -> usize {
        batch * self.strides[0] as usize + seq * self.strides[1] as usize + head * self.strides[2] as usize
    }

    fn row(&self, place: [usize; 3]) -> Vec<f64> {
        self.elements[self.at(place)..][..self.shape[3]].iter().map(|x| x.to_f64()).collect()
    }

    fn row_mut(&mut self, place: [usize; 3]) -> &mut [E] {
        let at = self.at(place);
        &mut self.elements[at..][..self.shape[3]]
    }

    fn view(&self) -> Heads<'_, E> {
        // SAFETY: the vector holds every element that the strides reach.
        unsafe { Heads::from_raw(self.elements.as_ptr(), self.shape, self.strides) }
    }

    fn view_mut(&mut self) -> HeadsMut<'_, E> {
        // SAFETY: as above, borrowed exclusively.
        unsafe { HeadsMut::from_raw(self.elements.as_mut_ptr(), self.shape, self.strides) }
    }

    fn all(&self) -> Vec<f64> {
        self.elements.iter().map(|x| x.to_f64()).collect()
    }
}

/// The operands of one call and what should come out of it.
struct Case<E: Stored> {
    q: Tensor<E>,
    k: Tensor<E>,
    v: Tensor<E>,
    options: AttentionOptions,
}

struct Expected {
    /// By row in the order of `places`.
    o: Vec<Vec<f64>>,
    lse: Vec<f64>,
}

impl<E: Stored> Case<E> {
    /// `[batch, query, head]` in the order of `lse`.
    fn places(&self) -> Vec<[usize; 3]> {
        let [batch, queries, heads, _] = self.q.shape;
        let place = |at: usize| [at / heads / queries, at / heads % queries, at % heads];
        (0..batch * queries * heads).map(place).collect()
    }

    fn kv_head(&self, head: usize) -> usize {
        head / (self.q.shape[2] / self.k.shape[2])
    }

    /// The keys that a query sees.
    fn visible(&self, query: usize) -> usize {
        let (queries, room) = (self.q.shape[1] as i64, self.k.shape[1] as i64);
        let keys = self.options.past.map_or(room, |past| past + queries);
        let position = query as i64 + self.options.past.unwrap_or(room - queries);
        if self.options.causal { (position + 1).clamp(0, keys) as usize } else { keys as usize }
    }

    /// The probabilities of a query and their log-sum-exp.
    fn probabilities(&self, [batch, query, head]: [usize; 3]) -> (Vec<f64>, f64) {
        let q = self.q.row([batch, query, head]);
        let scores: Vec<f64> = (0..self.visible(query))
            .map(|key| {
                let k = self.k.row([batch, key, self.kv_head(head)]);
                self.options.scale * q.iter().zip(&k).map(|(q, k)| q * k).sum::<f64>()
            })
            .collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let lse = max + scores.iter().map(|s| (s - max).exp()).sum::<f64>().ln();
        let lse = if max == f64::NEG_INFINITY { max } else { lse };
        (scores.iter().map(|s| (s - lse).exp()).collect(), lse)
    }

    fn expected(&self) -> Expected {
        let (mut o, mut lse) = (vec![], vec![]);
        for [batch, query, head] in self.places() {
            let (p, log_sum) = self.probabilities([batch, query, head]);
            let mut sum = vec![0.0; self.q.shape[3]];
            for (key, p) in p.iter().enumerate() {
                let v = self.v.row([batch, key, self.kv_head(head)]);
                sum.iter_mut().zip(&v).for_each(|(sum, v)| *sum += p * v);
            }
            o.push(sum);
            lse.push(log_sum);
        }
        Expected { o, lse }
    }

    /// The gradients in the layout of [`Case::backward`]'s results.
    fn expected_grad(&self, expected: &Expected, d_o: &Tensor<E>) -> [Vec<f64>; 3] {
        let at = |shape: [usize; 4], [b, s, h]: [usize; 3]| ((b * shape[1] + s) * shape[2] + h) * shape[3];
        let zeros = |shape: [usize; 4]| vec![0.0; shape.iter().product()];
        let (mut dq, mut dk, mut dv) = (zeros(self.q.shape), zeros(self.k.shape), zeros(self.k.shape));
        for (index, [batch, query, head]) in self.places().into_iter().enumerate() {
            let (p, _) = self.probabilities([batch, query, head]);
            let (q, d_o) = (self.q.row([batch, query, head]), d_o.row([batch, query, head]));
            let delta: f64 = d_o.iter().zip(&expected.o[index]).map(|(d, o)| d * o).sum();
            let q_at = at(self.q.shape, [batch, query, head]);
            for (key, p) in p.iter().enumerate() {
                let place = [batch, key, self.kv_head(head)];
                let (k, v, k_at) = (self.k.row(place), self.v.row(place), at(self.k.shape, place));
                let dp: f64 = d_o.iter().zip(&v).map(|(d, v)| d * v).sum();
                let ds = p * (dp - delta) * self.options.scale;
                for c in 0..q.len() {
                    dq[q_at + c] += ds * k[c];
                    dk[k_at + c] += ds * q[c];
                    dv[k_at + c] += p * d_o[c];
                }
            }
        }
        [dq, dk, dv]
    }

    fn backward(&self, cpu: Cpu, o: &Tensor<E>, lse: &[E::Wide], d_o: &Tensor<E>) -> [Vec<E>; 3] {
        let full = |shape: [usize; 4]| vec![E::from_f64(44.0); shape.iter().product()];
        let (mut dq, mut dk, mut dv) = (full(self.q.shape), full(self.k.shape), full(self.k.shape));
        let bytes = attention_grad_scratch_bytes::<E>(self.q.shape, self.k.shape, cpu.threads);
        let mut scratch = ScratchMemory::new(bytes);
        attention_grad(
            cpu,
            self.q.view(),
            self.k.view(),
            self.v.view(),
            None,
            o.view(),
            lse,
            d_o.view(),
            &self.options,
            HeadsMut::new(&mut dq, self.q.shape),
            HeadsMut::new(&mut dk, self.k.shape),
            HeadsMut::new(&mut dv, self.k.shape),
            scratch.get(),
        )
        .unwrap();
        [dq, dk, dv]
    }

    fn forward(&self, cpu: Cpu) -> (Tensor<E>, Vec<E::Wide>) {
        let mut o = Tensor::random(self.q.shape, Order::HeadsOuter, 1, 1.0, 99);
        let mut lse = vec![E::Wide::from_f64(55.0); self.places().len()];
        let bytes = attention_scratch_bytes::<E>(self.q.shape, self.k.shape, false, cpu.threads);
        let mut scratch = ScratchMemory::new(bytes);
        let (q, k, v) = (self.q.view(), self.k.view(), self.v.view());
        attention(cpu, q, k, v, None, &self.options, o.view_mut(), &mut lse, scratch.get()).unwrap();
        (o, lse)
    }
}

#[derive(Clone, Debug)]
struct Shape {
    batch: usize,
    queries: usize,
    keys: usize,
    kv_heads: usize,
    group: usize,
    width: usize,
    causal: bool,
    /// Room in the cache beyond the valid keys, which `past` then says.
    room: Option<usize>,
    order: Order,
    gap: usize,
    seed: u64,
}

impl Shape {
    fn case<E: Stored>(&self) -> Case<E> {
        let keys = match self.room {
            Some(room) => self.keys.max(self.queries) + room,
            None => self.keys,
        };
        let kv = [self.batch, keys, self.kv_heads, self.width];
        let q = [self.batch, self.queries, self.kv_heads * self.group, self.width];
        let past = self.room.map(|_| self.keys.saturating_sub(self.queries) as i64);
        let scale = 1.0 / (self.width.max(1) as f64).sqrt();
        let mut case = Case {
            q: Tensor::random(q, Order::SeqOuter, self.gap, 3.0, self.seed),
            k: Tensor::random(kv, self.order, self.gap, 3.0, self.seed ^ 1),
            v: Tensor::random(kv, self.order, 0, 1.0, self.seed ^ 2),
            options: AttentionOptions { causal: self.causal, scale, past },
        };
        // What lies beyond the valid keys must not be read.
        let valid = past.map_or(keys, |past| past as usize + self.queries);
        for batch in 0..self.batch {
            for head in 0..self.kv_heads {
                for key in valid..keys {
                    case.k.row_mut([batch, key, head]).fill(E::from_f64(f64::NAN));
                    case.v.row_mut([batch, key, head]).fill(E::from_f64(f64::NAN));
                }
            }
        }
        case
    }
}

fn shapes() -> impl Strategy<Value = Shape> {
    let queries = prop_oneof![3 => 0usize..6, 3 => 6usize..40, 2 => 60usize..150];
    let keys = prop_oneof![4 => 0usize..40, 3 => 60usize..150];
    let width =
        prop_oneof![3 => 0usize..20, 2 => prop_oneof![Just(16usize), Just(32), Just(64)], 1 => 60usize..140];
    let heads = (1usize..3, 1usize..4, 0usize..3);
    let room = prop_oneof![Just(None), (0usize..70).prop_map(Some)];
    let order = prop_oneof![Just(Order::SeqOuter), Just(Order::HeadsOuter)];
    let rest = (any::<bool>(), room, order, 0usize..3, any::<u64>());
    (queries, keys, width, heads, rest).prop_map(
        |(queries, keys, width, (kv_heads, group, batch), (causal, room, order, gap, seed))| Shape {
            batch,
            queries,
            keys,
            kv_heads,
            group,
            width,
            causal,
            room,
            order,
            gap,
            seed,
        },
    )
}

fn to_f64<W: Wide>(values: &[W]) -> Vec<f64> {
    values.iter().map(|x| x.to_f64()).collect()
}

fn check_forward<E: Stored>() {
    proptest!(config(), |(shape in shapes())| check_forward_of::<E>(&shape));
}

fn check_forward_of<E: Stored>(shape: &Shape) {
    let case = shape.case::<E>();
    let expected = case.expected();
    on_every_cpu(|cpu| {
        let (o, lse) = case.forward(cpu);
        for (at, place) in case.places().into_iter().enumerate() {
            assert_close::<E>("o", &o.row(place), &expected.o[at], 1.0);
        }
        let tolerance = if E::RELATIVE < 1e-10 { 1e-11 } else { 3e-5 };
        for (lse, expected) in lse.iter().zip(&expected.lse) {
            let lse = lse.to_f64();
            assert!(lse == *expected || (lse - expected).abs() < tolerance, "lse {lse}, expected {expected}");
        }
        (bits(&o.all()), bits(&to_f64(&lse)))
    });
}

fn check_backward<E: Stored>() {
    proptest!(config(), |(shape in shapes())| check_backward_of::<E>(&shape));
}

fn check_backward_of<E: Stored>(shape: &Shape) {
    let case = shape.case::<E>();
    let expected = case.expected();
    let d_o = Tensor::<E>::random(case.q.shape, shape.order, 1, 1.0, shape.seed ^ 3);
    // The exact results of the forward, so that only the backward is judged.
    let mut o = Tensor::<E>::random(case.q.shape, Order::SeqOuter, 2, 1.0, 1);
    for (place, row) in case.places().into_iter().zip(&expected.o) {
        o.row_mut(place).iter_mut().zip(row).for_each(|(o, exact)| *o = E::from_f64(*exact));
    }
    let lse: Vec<_> = expected.lse.iter().map(|x| E::Wide::from_f64(*x)).collect();
    let rounded =
        Expected { o: case.places().into_iter().map(|place| o.row(place)).collect(), lse: expected.lse };
    let gradients = case.expected_grad(&rounded, &d_o);
    on_every_cpu(|cpu| {
        let results = case.backward(cpu, &o, &lse, &d_o).map(|x| crate::rows::tests::widened(&x));
        for ((what, got), expected) in ["dq", "dk", "dv"].iter().zip(&results).zip(&gradients) {
            // Sums over up to some hundred queries or keys of terms up to about 30.
            assert_close::<E>(what, got, expected, 10.0);
        }
        results.map(|x| bits(&x))
    });
}

#[test]
fn gradients_over_several_chunks_of_keys_follow_the_formula() {
    for (queries, keys, causal, room) in
        [(70, 600, true, None), (20, 530, false, Some(300)), (600, 600, true, None)]
    {
        let (kv_heads, group, width, order) = (1, 2, 20, Order::SeqOuter);
        let shape =
            Shape { batch: 1, queries, keys, kv_heads, group, width, causal, room, order, gap: 0, seed: 4 };
        check_backward_of::<f32>(&shape);
        check_backward_of::<f64>(&shape);
    }
}

#[test]
fn decoding_over_a_long_cache_follows_the_formula() {
    for (queries, group, keys, causal) in
        [(1, 1, 1500, true), (1, 6, 1025, true), (2, 4, 513, true), (3, 1, 600, false)]
    {
        let (kv_heads, width, order) = (2, 24, Order::HeadsOuter);
        let shape = Shape {
            batch: 2,
            queries,
            keys,
            kv_heads,
            group,
            width,
            causal,
            room: Some(40),
            order,
            gap: 0,
            seed: 4,
        };
        check_forward_of::<f32>(&shape);
        check_forward_of::<f64>(&shape);
        check_forward_of::<bf16>(&shape);
    }
}

/// Cases of a fixed shape for tests of single properties.
fn plain(queries: usize, keys: usize, width: usize, causal: bool) -> Case<f32> {
    let (kv_heads, group, order) = (2, 1, Order::SeqOuter);
    Shape { batch: 1, queries, keys, kv_heads, group, width, causal, room: None, order, gap: 0, seed: 7 }
        .case()
}

#[test]
fn queries_before_the_first_key_give_zero() {
    let case = plain(70, 5, 16, true);
    for cpu in every_cpu() {
        let (o, lse) = case.forward(cpu);
        assert_eq!(o.row([0, 64, 1]), [0.0; 16]);
        assert_eq!(lse[64 * 2 + 1], f32::NEG_INFINITY);
        assert!(lse[65 * 2 + 1].is_finite());
    }
}

#[test]
fn extreme_scores_neither_overflow_nor_lose_their_log_sum_exp() {
    for queries in [1, 9, 70] {
        let mut case = plain(queries, 130, 16, false);
        case.options.scale = 1e3;
        let expected = case.expected();
        for cpu in every_cpu() {
            let (o, lse) = case.forward(cpu);
            for (at, place) in case.places().into_iter().enumerate() {
                // Scores of about 1e4 carry an error of about 1e-3, relative in the probabilities.
                assert_close::<f32>("o", &o.row(place), &expected.o[at], 200.0);
                assert!((f64::from(lse[at]) - expected.lse[at]).abs() <= 1e-6 * expected.lse[at].abs());
            }
        }
    }
}

#[test]
fn nan_reaches_the_queries_that_see_it_and_no_others() {
    for queries in [1, 4, 70] {
        let mut case = plain(queries, queries + 64, 20, true);
        let place = [0, queries / 2 + 64, 1];
        case.k.row_mut(place)[3] = f32::NAN;
        for cpu in every_cpu() {
            let (o, lse) = case.forward(cpu);
            for (at, [batch, query, head]) in case.places().into_iter().enumerate() {
                let spoiled = head == 1 && query >= queries / 2;
                assert_eq!(lse[at].is_nan(), spoiled, "query {query} of head {head} on {cpu:?}");
                let o = o.row([batch, query, head]);
                assert!(o.iter().all(|o| o.is_nan() == spoiled), "query {query} of head {head} on {cpu:?}");
            }
        }
    }
}

#[test]
fn hidden_infinite_scores_count_as_hidden() {
    for queries in [1, 9] {
        let mut case = plain(queries, 20, 16, false);
        // All scores of head 0 are -inf, in head 1 those of key 3.
        case.q.elements.fill(1.0);
        for key in 0..20 {
            case.k.row_mut([0, key, 0])[0] = f32::NEG_INFINITY;
        }
        case.k.row_mut([0, 3, 1])[0] = f32::NEG_INFINITY;
        let expected = case.expected();
        for cpu in every_cpu() {
            let (o, lse) = case.forward(cpu);
            assert_eq!((o.row([0, 0, 0]), lse[0]), (vec![0.0; 16], f32::NEG_INFINITY));
            assert_close::<f32>("o", &o.row([0, 0, 1]), &expected.o[1], 1.0);
        }
    }
}

#[test]
fn a_past_that_does_not_fit_is_an_error() {
    let mut case = plain(3, 10, 8, true);
    for past in [-1, 8, i64::MAX, i64::MIN] {
        case.options.past = Some(past);
        let (mut o, mut lse) = (vec![9.0; 48], vec![9.0; 6]);
        let bytes = attention_scratch_bytes::<f32>(case.q.shape, case.k.shape, false, 1);
        let mut scratch = ScratchMemory::new(bytes);
        let out = HeadsMut::new(&mut o, case.q.shape);
        let (q, k, v) = (case.q.view(), case.k.view(), case.v.view());
        let error =
            attention(Cpu::host(), q, k, v, None, &case.options, out, &mut lse, scratch.get()).unwrap_err();
        assert_eq!((error.kind, error.op.as_str()), (ErrorKind::Execute, "attention"));
        let text = error.to_string();
        assert!(text.contains(&format!("past is {past}")) && text.contains("room for 10 keys"), "{text}");
        assert_eq!((o, lse), (vec![9.0; 48], vec![9.0; 6]));
    }
}

#[test]
fn scratch_for_one_thread_serves_a_pool_of_many() {
    let case = plain(70, 70, 16, true);
    let (mut o, mut lse) = (vec![0.0; 70 * 32], vec![0.0; 140]);
    let mut scratch =
        ScratchMemory::new(attention_scratch_bytes::<f32>(case.q.shape, case.k.shape, false, 1));
    let cpu = Cpu { threads: 3, ..Cpu::host() };
    let (q, k, v) = (case.q.view(), case.k.view(), case.v.view());
    attention(
        cpu,
        q,
        k,
        v,
        None,
        &case.options,
        HeadsMut::new(&mut o, case.q.shape),
        &mut lse,
        scratch.get(),
    )
    .unwrap();
    assert_eq!(lse, case.forward(cpu).1);
}

#[test]
fn half_operands_are_summed_in_f32() {
    // 300 keys with equal scores: the mean of ones is one only if nothing is summed in bf16.
    let mut case = Shape {
        keys: 300,
        ..Shape {
            batch: 1,
            queries: 2,
            keys: 0,
            kv_heads: 1,
            group: 1,
            width: 16,
            causal: false,
            room: None,
            order: Order::SeqOuter,
            gap: 0,
            seed: 1,
        }
    }
    .case::<bf16>();
    case.q.elements.fill(bf16::ZERO);
    case.v.elements.fill(bf16::ONE);
    for cpu in every_cpu() {
        assert_eq!(case.forward(cpu).0.row([0, 1, 0]), [1.0; 16]);
    }
}
