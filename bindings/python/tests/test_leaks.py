"""Loops leave nothing behind: neither bytes of tensors nor references."""

import gc
import sys

import lanthorn as L
import numpy as np
import pytest


def arithmetic():
    x = L.ones(8, requires_grad=True)
    y = ((x * 2 + 1) / 3 - x).sum()
    y.backward()
    x.grad.zero_()


def double_backward():
    x = L.ones(4, requires_grad=True)
    (g,) = L.grad((x**3).sum(), [x], create_graph=True)
    L.grad(g.sum(), [x])


def views():
    x = L.ones(4, 4)
    x[1:, 0] += 1
    x.t().reshape(-1)
    list(x)


def history_through_views():
    x = L.ones(4, requires_grad=True)
    base = x * 2
    view = base[1:]
    view.mul_(x[1:])
    view.sum().backward()


def hooks():
    x = L.ones(2, requires_grad=True)
    handle = x.register_hook(lambda g: g * 2)
    y = x * 2
    y.register_hook(lambda g: None)
    y.retain_grad()
    y.sum().backward()
    handle.remove()


def interop():
    array = np.ones(6)
    x = L.from_numpy(array)
    np.from_dlpack(x)
    L.from_dlpack(array)
    x.__dlpack__()
    x.numpy()
    memoryview(x)
    L.frombuffer(b"1234", dtype=L.uint8)
    L.tensor([[1, 2], [3, 4]]).tolist()


def errors():
    for failing in (
        lambda: L.ones(2) + L.ones(3),
        lambda: L.ones(2).backward(),
        lambda: L.zeros(2, nothing=1),
        lambda: L.from_dlpack(object()),
        lambda: L.tensor([[1], [1, 2]]),
        lambda: L.ones(2)[5],
        lambda: L._C._call("softmax", L.arange(3)),
    ):
        try:
            failing()
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            pass


PROGRAMS = [arithmetic, double_backward, views, history_through_views, hooks, interop, errors]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_loop_leaves_nothing(program):
    def state():
        gc.collect()
        return L._C._memory()[0], sys.getallocatedblocks()

    constants = [None, True, False, L.float32, L.Tensor, NotImplemented, Ellipsis]
    for _ in range(3):
        program()
    before = state()
    counts = [sys.getrefcount(constant) for constant in constants]
    for _ in range(500):
        program()
    after = state()
    assert after[0] == before[0]
    # The interpreter's own caches grow a little; one object a round would be 500.
    assert after[1] - before[1] < 250, f"{after[1] - before[1]} objects are left of 500 rounds"
    for constant, count in zip(constants, counts):
        assert abs(sys.getrefcount(constant) - count) < 50, constant
