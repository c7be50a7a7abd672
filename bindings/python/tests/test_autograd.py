"""The tape: finite differences, what upstream refuses in its words, hooks, deep chains."""

import lanthorn as L
import numpy as np
import pytest


def numeric(function, arrays, at, step=1e-6):
    """The gradient of a scalar function by central differences."""
    gradient = np.zeros_like(arrays[at])
    for index in np.ndindex(arrays[at].shape):
        values = []
        for sign in (1, -1):
            moved = [array.copy() for array in arrays]
            moved[at][index] += sign * step
            values.append(function(*[L.from_numpy(array) for array in moved]).item())
        gradient[index] = (values[0] - values[1]) / (2 * step)
    return gradient


CASES = {
    "add": lambda a, b: a + b[0],
    "sub": lambda a, b: a - b * 2,
    "rsub": lambda a, b: 3 - a,
    "mul": lambda a, b: a * b,
    "mul broadcast": lambda a, b: a * b[:1] * a[:, :1],
    "div": lambda a, b: a / b,
    "rdiv": lambda a, b: 2 / b + a[0] / b,
    "neg": lambda a, b: -a,
    "pow 3": lambda a, b: b**3,
    "pow 1.5": lambda a, b: b**1.5,
    "pow -1": lambda a, b: b**-1,
    "pow 1 and 0": lambda a, b: b**1 + a**0,
    "exp": lambda a, b: a.exp(),
    "log": lambda a, b: b.log(),
    "sqrt": lambda a, b: b.sqrt(),
    "tanh": lambda a, b: a.tanh(),
    "sigmoid": lambda a, b: a.sigmoid(),
    "relu": lambda a, b: a.relu(),
    "matmul": lambda a, b: a @ b.t(),
    "matmul vectors": lambda a, b: (a[0] @ b[1]) * (a @ b[0]).sum() * (b[0] @ a.t()).sum(),
    "matmul batched": lambda a, b: a.unsqueeze(0).expand(3, 2, 3) @ b.t(),
    "bmm": lambda a, b: a.unsqueeze(0) @ b.t().unsqueeze(0),
    "matmul broadcast": lambda a, b: a.unsqueeze(1).unsqueeze(1) @ b.t().unsqueeze(0),
    "sum": lambda a, b: a.sum(0) * b.sum(1, keepdim=True) * a.sum(),
    "mean": lambda a, b: a.mean(1) * b.mean() + a.mean((0, 1), True),
    "view": lambda a, b: a.view(3, 2) * b.reshape(3, 2),
    "reshape copies": lambda a, b: a.t().reshape(6) * b.view(6),
    "expand": lambda a, b: a.unsqueeze(1).expand(2, 4, 3) * b.unsqueeze(1),
    "permute": lambda a, b: a.permute(1, 0) * b.t(),
    "slice": lambda a, b: a[:, ::2] * b[:, 1:] * a[-1, 1],
    "empty slice": lambda a, b: a[:, 3:].sum() + b[0],
    "as_strided": lambda a, b: a.as_strided((2, 2, 2), (1, 2, 1)) * b[0, 0],
    "squeeze": lambda a, b: a.unsqueeze(0).unsqueeze(-1).squeeze() * b.unsqueeze(1).squeeze(1),
    "clone": lambda a, b: a.clone() * b.contiguous() + b.t().contiguous().t(),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_finite_differences(name):
    random = np.random.default_rng(3)
    arrays = [random.normal(size=(2, 3)), random.uniform(0.5, 2, size=(2, 3))]

    def loss(a, b):
        y = CASES[name](a, b)
        return (y * y * 0.5 + y).sum()

    leaves = [L.from_numpy(array.copy()).requires_grad_() for array in arrays]
    gradients = L.grad(loss(*leaves), leaves, create_graph=True, allow_unused=True)
    for at, gradient in enumerate(gradients):
        expected = numeric(loss, arrays, at)
        found = np.zeros((2, 3)) if gradient is None else gradient.detach().numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)

    # The gradient's own gradient, along a fixed direction.
    direction = L.from_numpy(random.normal(size=(2, 3)))

    def slope(a, b):
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        found = L.grad(loss(a, b), [a, b], create_graph=True, allow_unused=True)
        return sum((g * direction).sum() for g in found if g is not None)

    total = sum((g * direction).sum() for g in gradients if g is not None)
    if not total.requires_grad:
        return
    second = L.grad(total, leaves, allow_unused=True)
    for at, gradient in enumerate(second):
        found = np.zeros((2, 3)) if gradient is None else gradient.numpy()
        np.testing.assert_allclose(found, numeric(slope, arrays, at, 1e-5), rtol=1e-5, atol=1e-5)


def test_gradients_accumulate_and_are_nobody_elses():
    a, b = (L.ones(3, requires_grad=True) for _ in range(2))
    (a + b).backward(L.ones(3))
    assert a.grad is not b.grad and a.grad.data_ptr() != b.grad.data_ptr()
    a.grad.zero_()
    assert b.grad.tolist() == [1.0] * 3
    (a * 2 + b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0] * 3, [2.0] * 3)
    # The gradient of a sum is one number seen many times; that of a leaf must be memory of its own.
    c = L.ones(2, 2, requires_grad=True)
    c.sum().backward()
    assert c.grad.stride() == (2, 1)
    c.grad += 1
    given = L.ones(2, 2)
    c.grad = None
    c.clone().backward(given)
    assert c.grad.data_ptr() != given.data_ptr()


def test_dtypes_of_gradients_are_those_of_the_leaves():
    half = L.ones(3, dtype=L.float16, requires_grad=True)
    single = L.ones(2, 3, requires_grad=True)
    y = (half * single).sum()
    assert y.dtype is L.float32
    y.backward()
    assert half.grad.dtype is L.float16 and half.grad.tolist() == [2.0] * 3
    (single.to(L.float64) * L.tensor(2.0, dtype=L.float64)).sum().backward()
    assert single.grad.tolist() == [[3.0] * 3] * 2


def test_what_upstream_refuses_is_refused_in_its_words():
    x = L.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x += 1
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0].zero_()
    with L.no_grad():
        x += 1
    assert x.tolist() == [2.0] * 3 and x._version == 1
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        L.ones(1).sum().backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(L.ones(2))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    z = (x + 1).sum()
    z.backward(retain_graph=False)
    z.backward()
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        L.grad(x.sum(), [L.ones(1, requires_grad=True)])
    assert L.grad(x.sum(), [L.ones(1, requires_grad=True)], allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="does not require grad"):
        L.grad(x.sum(), [L.ones(1)])
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        L.arange(3).requires_grad_()
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        (x * 2).requires_grad = False
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        L.ones(1).retain_grad()
    with pytest.raises(RuntimeError, match="requires grad. Use tensor.detach"):
        x.numpy()
    with pytest.raises(RuntimeError, match="own grad"):
        x.grad = x
    with pytest.raises(RuntimeError, match="different size"):
        x.grad = L.ones(2)
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None"):
        x.grad = 3


def test_saved_tensors_that_were_written_are_found():
    x = L.ones(3, requires_grad=True)
    y = x.exp()
    y += 1
    with pytest.raises(
        RuntimeError,
        match=r"has been modified by an inplace operation: \[torch.FloatTensor \[3\]\], which is output 0 of "
        r"ExpBackward0, is at version 1; expected version 0 instead",
    ):
        y.sum().backward()
    a = L.ones(3)
    z = (x * a).sum()
    with L.no_grad():
        a[1:].add_(1)
    with pytest.raises(RuntimeError, match=r"\[torch.FloatTensor \[3\]\] is at version 1; expected version 0"):
        z.backward()
    # What no derivative reads may be written.
    b = x * 2
    c = (b * 3).sum()
    b += 1
    c.backward()
    assert x.grad.tolist() == [6.0] * 3


def test_augmented_assignment_to_a_part():
    """Python writes the part back after it has been written in place."""
    w, y = L.ones(3, requires_grad=True), L.tensor([2.0, 3.0], requires_grad=True)
    base = w * 2
    other = base[:2]
    base[1:] *= y
    base[0] += 5
    (base.sum() + other.sum()).backward()
    assert base.tolist() == [7.0, 4.0, 6.0] and other.tolist() == [7.0, 4.0]
    assert w.grad.tolist() == [4.0, 8.0, 6.0] and y.grad.tolist() == [4.0, 2.0]


def test_a_view_made_without_gradients_is_not_written_with_them():
    x = (L.ones(3, requires_grad=True) * 2)
    with L.no_grad():
        view = x[1:]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        view.add_(L.ones(2, requires_grad=True))
        view.add_(1)


def test_modes_nest_and_decorate():
    x = L.ones(1, requires_grad=True)
    with L.no_grad():
        assert not (x * 2).requires_grad
        with L.enable_grad():
            assert (x * 2).requires_grad
        assert not L.is_grad_enabled()

    @L.no_grad()
    def quiet():
        return (x * 2).requires_grad

    assert not quiet() and (x * 2).requires_grad
    with L.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert L.is_grad_enabled()


def test_only_what_is_asked_for_is_computed():
    seen = []
    x, y = (L.ones(2, requires_grad=True) for _ in range(2))
    inner = y * 3
    inner.register_hook(lambda g: seen.append("y's part"))
    loss = (x * 2 + inner).sum()
    (gx,) = L.grad(loss, [x], retain_graph=True)
    assert gx.tolist() == [2.0, 2.0] and seen == [] and y.grad is None and x.grad is None
    loss.backward(inputs=[x])
    assert x.grad.tolist() == [2.0, 2.0] and y.grad is None
    (middle,) = L.grad((inner * inner).sum(), [inner])
    assert middle.tolist() == [6.0, 6.0]


def test_hooks_that_fail_or_lie():
    x = L.ones(2, requires_grad=True)

    def failing(_):
        raise KeyError("mine")

    handle = x.register_hook(failing)
    with pytest.raises(KeyError, match="mine"):
        x.sum().backward()
    assert L.is_grad_enabled()
    handle.remove()
    handle.remove()
    handle = x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="hooks must return None or a Tensor"):
        x.sum().backward()
    handle.remove()
    handle = x.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="hook has changed the size of value"):
        x.sum().backward()
    handle.remove()
    x.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="callable"):
        x.register_hook(3)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        L.ones(1).register_hook(lambda g: g)


def test_a_hook_may_run_backward():
    x = L.ones(2, requires_grad=True)
    other = L.ones(2, requires_grad=True)
    y = x * 2

    def hook(_):
        # Hooks run with recording off, as the backward pass that calls them.
        assert not L.is_grad_enabled()
        with L.enable_grad():
            (other * 3).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert other.grad.tolist() == [3.0, 3.0] and x.grad.tolist() == [2.0, 2.0]


def test_a_graph_of_nodes_can_be_looked_at():
    x = L.ones(2, requires_grad=True)
    y = (x * 2 + 1).sum()
    node = y.grad_fn
    names = []
    while node is not None:
        names.append(node.name())
        following = node.next_functions
        node = following[0][0] if following else None
    assert names == ["SumBackward0", "AddBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"]
    assert x.is_leaf and x.grad_fn is None and not y.is_leaf and y.output_nr == 0


def test_training_on_a_line_converges_to_the_least_squares():
    random = np.random.default_rng(5)
    inputs = random.normal(size=(64, 3))
    targets = inputs @ np.array([1.0, -2.0, 0.5]) + 0.7
    x, y = L.from_numpy(inputs), L.from_numpy(targets)
    w, b = L.zeros(3, dtype=L.float64, requires_grad=True), L.zeros([], dtype=L.float64, requires_grad=True)
    for _ in range(400):
        loss = ((x @ w + b - y) ** 2).mean()
        loss.backward()
        with L.no_grad():
            for parameter in (w, b):
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
    np.testing.assert_allclose(w.detach().numpy(), [1.0, -2.0, 0.5], atol=1e-6)
    assert abs(b.item() - 0.7) < 1e-6
