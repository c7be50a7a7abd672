//! Every case on the reference backend. See the crate's page for what is checked.

use lanthorn_optest::cases::all;
use lanthorn_optest::report::over;
use lanthorn_optest::{Case, Checked, derivatives, fuzz, prims, transforms, values};

fn check(chosen: impl Fn(&Case) -> bool, check: impl Fn(&Case) -> Checked) {
    over(all().into_iter().filter(chosen), Case::name, check);
}

/// Cases of which a graph can be made.
fn has_graph(case: &Case) -> bool {
    !case.is_eager_only()
}

fn has_derivatives(case: &Case, orders: usize) -> bool {
    case.is_differentiable() && case.orders >= orders && has_graph(case)
}

#[test]
fn values_are_those_from_outside() {
    check(|_| true, values::check);
}

#[test]
fn gradients_agree_with_finite_differences() {
    check(|case| has_derivatives(case, 1), derivatives::check_first);
}

#[test]
fn second_derivatives_agree_with_finite_differences() {
    check(|case| has_derivatives(case, 2), derivatives::check_second);
}

#[test]
fn forward_and_reverse_derivatives_are_transposes() {
    check(|case| has_derivatives(case, 1), derivatives::check_transposes);
}

#[test]
fn vmap_agrees_with_a_loop() {
    check(has_graph, transforms::check_vmap);
}

#[test]
fn gradients_agree_under_vmap() {
    check(|case| has_derivatives(case, 1), transforms::check_gradients_under_vmap);
}

#[test]
fn checkpoints_change_nothing() {
    check(has_graph, transforms::check_checkpoint);
}

#[test]
fn primitives_agree_with_their_decompositions() {
    check(has_graph, prims::check_decompositions);
}

/// Random calls of random ops, graphs above all; `LANTHORN_FUZZ=600,7` makes them for 600 seconds from seed 7.
#[test]
fn random_calls_are_refused_by_name_or_have_derivatives() {
    let (seed, more) = fuzz::budget(3000);
    let findings = fuzz::fuzz(seed, more, &|_, _, expected, _, findings| {
        findings.compared += usize::from(expected.is_ok());
    });
    println!("{findings}");
    assert!(findings.accepted > 100 && findings.compared > 100, "{findings}");
    assert!(findings.faults.is_empty(), "{findings}");
}
