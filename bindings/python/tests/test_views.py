"""Views share memory; what is written through one is read through all. NumPy's views say what is right."""

import lanthorn as L
import numpy as np
import pytest


def both(shape, dtype=np.float64):
    array = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    return array, L.from_numpy(array.copy())


INDICES = [
    (0,), (-1,), (slice(1, 3),), (slice(None, None, 2),), (slice(-2, None),), (Ellipsis, 0), (None, 1), (1, None, 2),
    (slice(1, None, 2), slice(None, 1)), (Ellipsis,), (Ellipsis, None), (0, slice(5, 2)), (slice(None), -1, slice(1, 9, 3)),
    (slice(-100, 100),), (0, 1, 2), (None, Ellipsis, slice(0, 2), None),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indices_are_numpys_and_share_memory(index):
    array, x = both((3, 4, 5))
    index = index if len(index) > 1 else index[0]
    view = x[index]
    np.testing.assert_array_equal(view.numpy(), array[index])
    assert view._is_view() and view._base is x
    array[index] = -1
    x[index] = -1
    np.testing.assert_array_equal(x.numpy(), array)
    array[index] += 2
    view += 2
    np.testing.assert_array_equal(x.numpy(), array)


def test_indices_that_do_not_fit_are_refused():
    _, x = both((3, 4))
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        x[3]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 2"):
        x[0, 0, 0]
    with pytest.raises(IndexError, match="0-dim tensor"):
        L.tensor(1)[0]
    with pytest.raises(IndexError, match="single ellipsis"):
        x[..., ...]
    with pytest.raises(ValueError, match="step must be greater than zero"):
        x[::-1]
    with pytest.raises(IndexError, match="valid indices"):
        x["a"]
    with pytest.raises(NotImplementedError, match="index_select"):
        x[L.tensor([0, 1])]
    with pytest.raises(TypeError, match="slice indices"):
        x["a":]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[0] = L.zeros(3)
    with pytest.raises(TypeError, match="deleting"):
        del x[0]
    assert x[2**100 :].shape == (0, 4) and x[: -(2**100)].shape == (0, 4)


def random_view(random, array, x):
    """One more view of both."""
    kind = random.integers(0, 7)
    rank = array.ndim
    if kind == 0 and rank:
        axes = random.permutation(rank)
        return array.transpose(axes), x.permute(*map(int, axes))
    if kind == 1 and rank:
        axis, index = int(random.integers(0, rank)), []
        for at in range(rank):
            size = array.shape[at]
            start, stop = sorted(random.integers(-size - 1, size + 2, 2).tolist())
            index.append(slice(start, stop, int(random.integers(1, 4))) if at == axis else slice(None))
        return array[tuple(index)], x[tuple(index)]
    if kind == 2 and rank and array.shape[0]:
        at = int(random.integers(-array.shape[0], array.shape[0]))
        return array[at, ...], x[at]
    if kind == 3 and rank < 6:
        axis = int(random.integers(0, rank + 1))
        return np.expand_dims(array, axis), x.unsqueeze(axis)
    if kind == 4:
        return array.squeeze(), x.squeeze()
    if kind == 5 and rank >= 2:
        return np.swapaxes(array, 0, -1), x.transpose(0, -1)
    return array, x


@pytest.mark.parametrize("seed", range(150))
def test_random_chains_of_views_write_where_numpy_writes(seed):
    random = np.random.default_rng(seed)
    shape = random.integers(0 if seed % 10 == 0 else 1, 5, random.integers(1, 5))
    array, x = both(shape)
    base_array, base = array, x
    for _ in range(random.integers(1, 6)):
        array, x = random_view(random, array, x)
        assert x.shape == array.shape
    version = base._version
    other = random.normal(size=array.shape[random.integers(0, array.ndim + 1):])
    y = L.from_numpy(other)
    match random.integers(0, 5):
        case 0:
            array += other
            x += y
        case 1:
            array *= other
            x.mul_(y)
        case 2:
            array[...] = other
            x.copy_(y)
        case 3:
            # The source overlaps the target and is read before anything is written.
            if array.ndim and array.shape[0] > 1:
                array[1:] = array[:-1].copy()
                x[1:] = x[:-1]
            else:
                array += 1
                x += 1
        case 4:
            array += array[::-1].copy() if array.ndim else array
            x += L._C._call("flip", x, [0]) if array.ndim else x
    np.testing.assert_array_equal(base.numpy(), base_array)
    np.testing.assert_array_equal(x.numpy(), array)
    assert base._version > version and x._version == base._version


def test_a_source_that_overlaps_is_read_first():
    array, x = both((4, 4))
    x += x.t()
    array = array + array.T
    np.testing.assert_array_equal(x.numpy(), array)
    x[:, 1:].copy_(x[:, :-1])
    array[:, 1:] = array[:, :-1].copy()
    np.testing.assert_array_equal(x.numpy(), array)
    x[0].add_(x[:, 0])
    array[0] += array[:, 0].copy()
    np.testing.assert_array_equal(x.numpy(), array)
    x.t().mul_(x)
    array = (array.T * array).T
    np.testing.assert_array_equal(x.numpy(), array)


def test_expanded_memory_is_not_written():
    x = L.ones(3, 1).expand(3, 4)
    assert x.stride() == (1, 0)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        x += 1
    with pytest.raises(RuntimeError, match="more than one element"):
        L.arange(5).as_strided((3, 3), (1, 1)).zero_()
    assert (L.ones(3, 1).expand(3, -1)._version, L.ones(3, 1).expand(3, -1).add_(1).tolist()) == (0, [[2.0]] * 3)
    x = L.ones(1)
    x.expand(1, 1).add_(1)
    assert x.tolist() == [2.0]


def test_in_place_results_must_fit():
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        L.zeros(3).add_(L.zeros(2, 3))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        L.arange(3).add_(0.5)
    with pytest.raises(RuntimeError, match="result type Float can't be cast"):
        L.arange(3).div_(2)
    x = L.zeros(3, dtype=L.float16)
    x += L.ones(3, dtype=L.float64)
    assert x.dtype is L.float16 and x.tolist() == [1.0] * 3
    x = L.zeros(3, dtype=L.int32)
    x.copy_(L.tensor([1.7, -1.7, 3.0]))
    assert x.tolist() == [1, -1, 3]


def test_view_and_reshape():
    array, x = both((4, 6))
    assert x.view(3, -1)._base is x and x.view([2, 2, 6]).shape == (2, 2, 6) and x.view((24,)).shape == (24,)
    with pytest.raises(RuntimeError, match=r"Use .reshape\(...\) instead"):
        x.t().view(24)
    np.testing.assert_array_equal(x.t().reshape(24).numpy(), array.T.reshape(24))
    with pytest.raises(RuntimeError, match=r"shape '\[5, -1\]' is invalid for input of size 24"):
        x.view(5, -1)
    with pytest.raises(RuntimeError, match="only one dimension can be inferred"):
        x.view(-1, -1)
    with pytest.raises(RuntimeError, match="ambiguous"):
        L.zeros(0, 3).view(0, -1)
    with pytest.raises(RuntimeError, match="duplicate dims"):
        x.permute(0, 0)
    with pytest.raises(RuntimeError, match=r"must match the existing size \(4\)"):
        x.expand(5, 6)
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        x.as_strided((5, 6), (6, 1))
    with pytest.raises(RuntimeError, match="invalid storage offset"):
        x.as_strided((1,), (1,), -1)
    np.testing.assert_array_equal(x.as_strided((2, 3), (1, 7), 2).numpy(),
                                  np.lib.stride_tricks.as_strided(array.ravel()[2:], (2, 3), (8, 56)))
    assert x.narrow(1, 2, 3).storage_offset() == 2 and x[1:3, ::2].stride() == (6, 2) and x.T.stride() == (1, 6)


def test_a_detached_tensor_shares_memory_and_versions():
    x = L.ones(3)
    y = x.detach()
    y += 1
    assert x.tolist() == [2.0] * 3 and x._version == 1 and y._version == 1 and not y._is_view()
    assert x.data_ptr() == y.data_ptr() and x[1:].data_ptr() == x.data_ptr() + 4
