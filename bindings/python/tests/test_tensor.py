"""Factories, conversions, arithmetic and errors, against NumPy and upstream's words."""

import weakref

import lanthorn as L
import numpy as np
import pytest


@pytest.mark.parametrize(
    "data, dtype",
    [
        ([1, 2, 3], "int64"), ([1.5, 2], "float32"), ([True, False], "bool"), ([[1, 2.0], [True, 4]], "float32"),
        ([], "float32"), ([[], []], "float32"), (3, "int64"), (2.5, "float32"), (True, "bool"), (((1,), (2,)), "int64"),
    ],
)
def test_nested_data_has_the_shape_of_numpy_and_the_dtype_of_its_kind(data, dtype):
    x = L.tensor(data)
    assert x.shape == np.array(data).shape
    assert str(x.dtype) == f"torch.{dtype}"
    assert x.tolist() == np.array(data).tolist()


def test_data_of_arrays_and_tensors_is_copied():
    array = np.arange(6.0).reshape(2, 3)
    x = L.tensor(array)
    y = L.tensor(x)
    array[0, 0] = 9
    x[0, 1] = 8
    assert x.tolist()[0] == [0, 8, 2] and y.tolist()[0] == [0, 1, 2]
    assert L.tensor([L.tensor([1, 2]), L.tensor([3, 4])]).tolist() == [[1, 2], [3, 4]]


def test_broken_data_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        L.tensor(loop)
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 3\)"):
        L.tensor([[1, 2], [1, 2, 3]])
    with pytest.raises(TypeError, match="invalid data type 'str'"):
        L.tensor("text")
    with pytest.raises(RuntimeError, match="Could not infer dtype of object"):
        L.tensor([object()])
    with pytest.raises(RuntimeError, match="Overflow"):
        L.tensor([2**80])


def test_factories():
    assert L.zeros(2, 3).tolist() == [[0.0] * 3] * 2
    assert L.ones((2,), dtype=L.int32).tolist() == [1, 1]
    assert L.empty([0, 3]).shape == (0, 3)
    assert L.full([2], 7).dtype is L.int64
    assert L.full([2], 0.5, dtype=L.bfloat16).tolist() == [0.5, 0.5]
    assert L.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert L.arange(1, 2, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert L.arange(5, 1, -2).tolist() == [5, 3]
    with pytest.raises(RuntimeError, match="nonzero"):
        L.arange(0, 1, 0)
    with pytest.raises(RuntimeError, match="inconsistent"):
        L.arange(0, 1, -1)
    with pytest.raises(RuntimeError, match="negative dimension"):
        L.zeros(-1)
    for huge in ((2**62, 2**62), (2**60,), (2**40, 2**30)):
        with pytest.raises(RuntimeError):
            L.zeros(huge)
    with pytest.raises(TypeError, match="int, not float"):
        L.zeros(float("nan"))
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtpye'"):
        L.zeros(2, dtpye=L.float32)
    with pytest.raises(TypeError, match="must be torch.dtype"):
        L.zeros(2, dtype="float32")
    with pytest.raises(RuntimeError, match="no device 'cuda'"):
        L.zeros(2, device="cuda")


def test_uniform_is_the_counter_based_generator():
    """Philox 4x32-10 as published (Salmon et al. 2011), by hand."""

    def block(seed, draw, counter):
        mask = 2**32 - 1
        c = [counter & mask, counter >> 32, draw & mask, draw >> 32]
        k = [seed & mask, seed >> 32]
        for _ in range(10):
            p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & mask, (p0 >> 32) ^ c[3] ^ k[1], p0 & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        return c

    words = [word for counter in range(3) for word in block(7, 2, counter)]
    expected = [(word >> 8) * 2.0**-24 for word in words[:10]]
    assert L.uniform(7, 2, [10]).tolist() == expected
    assert L.uniform(7, 2, [10], -1.0, 1.0).tolist() == np.float32(np.array(expected) * 2 - 1).tolist()


DTYPES = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
def test_arithmetic_broadcasts_and_wraps_as_numpy(name, operation):
    dtype = getattr(np, name)
    a = (np.arange(-60, 60).reshape(4, 30)).astype(dtype)
    b = (np.arange(1, 31)).astype(dtype)
    x, y = L.from_numpy(a), L.from_numpy(b)
    ours = {"add": x + y, "sub": x - y, "mul": x * y, "div": x / y}[operation]
    if operation == "div":
        wide = a.astype(np.float32) if not name.startswith("float") else a
        theirs = wide / b.astype(wide.dtype)
    else:
        theirs = {"add": a + b, "sub": a - b, "mul": a * b}[operation]
    assert ours.shape == theirs.shape and str(ours.dtype)[6:] == theirs.dtype.name
    np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("seed", range(20))
def test_random_broadcasts_agree_with_numpy(seed):
    random = np.random.default_rng(seed)
    rank = random.integers(0, 5)
    shape = random.integers(0, 4, rank)
    a_shape = np.where(random.random(rank) < 0.3, 1, shape)
    b_shape = np.where(random.random(rank) < 0.3, 1, shape)[random.integers(0, rank + 1) if rank else 0:]
    a, b = random.normal(size=a_shape), random.normal(size=b_shape)
    x, y = L.from_numpy(a), L.from_numpy(b)
    np.testing.assert_array_equal((x * y - x).numpy(), a * b - a)
    np.testing.assert_array_equal((2 - x).numpy(), 2 - a)
    np.testing.assert_array_equal((x < y).numpy(), a < b)
    np.testing.assert_allclose(x.sum().item(), a.sum(), rtol=1e-12, atol=1e-12)


def test_shapes_that_do_not_fit_say_so():
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(2\)"):
        L.zeros(3) + L.zeros(2)
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"):
        L.zeros(2, 3) @ L.zeros(2, 3)
    with pytest.raises(RuntimeError, match="same dtype"):
        L.zeros(2, 2) @ L.zeros(2, 2, dtype=L.float64)
    with pytest.raises(TypeError):
        L.zeros(2) + "text"
    with pytest.raises(RuntimeError, match="two bool tensors"):
        L.tensor([True]) - L.tensor([True])


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)),
                                    ((2, 1, 3, 4), (5, 4, 2)), ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((0, 4), (4, 2)),
                                    ((3, 0), (0, 2))])
def test_matmul_of_all_ranks(shapes):
    a, b = (np.random.default_rng(0).normal(size=shape) for shape in shapes)
    found = L.from_numpy(a) @ L.from_numpy(b)
    assert found.shape == (a @ b).shape
    np.testing.assert_allclose(found.numpy(), a @ b, rtol=1e-12)


@pytest.mark.parametrize("axes", [None, 0, 1, -1, (0, 2), (1,), [0, 1, 2]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_and_means(axes, keepdim):
    a = np.random.default_rng(1).normal(size=(3, 4, 5))
    x = L.from_numpy(a)
    by = tuple(axes) if isinstance(axes, list) else axes
    np.testing.assert_allclose(x.sum(axes, keepdim).numpy(), a.sum(by, keepdims=keepdim), rtol=1e-12)
    np.testing.assert_allclose(x.mean(dim=axes, keepdim=keepdim).numpy(), a.mean(by, keepdims=keepdim), rtol=1e-12)


def test_sums_of_integers_are_wide():
    assert L.tensor([100, 100, 100], dtype=L.uint8).sum().item() == 300
    assert L.tensor([True, True]).sum().dtype is L.int64
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        L.tensor([1, 2]).mean()
    with pytest.raises(IndexError, match="Dimension out of range"):
        L.zeros(2, 2).sum(2)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        L.zeros(2, 2).sum((0, -2))


def test_functions_of_elements():
    a = np.linspace(0.1, 3, 50)
    x = L.from_numpy(a)
    for name, expected in {
        "exp": np.exp(a), "log": np.log(a), "tanh": np.tanh(a), "sqrt": np.sqrt(a), "neg": -a,
        "sigmoid": 1 / (1 + np.exp(-a)), "relu": np.maximum(a, 0), "square": a * a,
    }.items():
        np.testing.assert_allclose(getattr(x, name)().numpy(), expected, rtol=1e-13)
        np.testing.assert_allclose(getattr(L, name)(x).numpy(), expected, rtol=1e-13)
    np.testing.assert_allclose((x**1.7).numpy(), a**1.7, rtol=1e-12)
    np.testing.assert_allclose((x**-2).numpy(), a**-2.0, rtol=1e-12)
    assert (L.tensor([2, 3]) ** 5).tolist() == [32, 243]
    assert L.tensor([1, 2]).exp().dtype is L.float32
    with pytest.raises(RuntimeError, match="negative integer powers"):
        L.tensor([2]) ** -1


def test_every_op_of_the_table_can_be_called_by_name():
    a = np.random.default_rng(2).normal(size=(3, 4)).astype(np.float32)
    x = L.from_numpy(a)
    np.testing.assert_allclose(L._C._call("softmax", x, axis=-1).numpy().sum(-1), 1, rtol=1e-6)
    np.testing.assert_array_equal(L._C._call("flip", x, [0]).numpy(), a[::-1])
    np.testing.assert_array_equal(L._C._call("concat", [x, x], 1).numpy(), np.concatenate([a, a], 1))
    parts = L._C._call("split", x, 2, axis=0)
    assert [part.shape for part in parts] == [(2, 4), (1, 4)]
    with pytest.raises(RuntimeError, match="no op named nonsense"):
        L._C._call("nonsense", x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        L._C._call("softmax", x, axes=1)
    with pytest.raises(NotImplementedError, match="derivative for softmax is not implemented"):
        L._C._call("softmax", L.zeros(2, requires_grad=True))


def test_numbers_come_out():
    assert float(L.tensor(2.5)) == 2.5 and int(L.tensor(3)) == 3 and bool(L.tensor([[1]]))
    assert [10, 20, 30][L.tensor(1)] == 20
    assert L.tensor(2**62 + 1).item() == 2**62 + 1
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(L.zeros(2))
    with pytest.raises(RuntimeError, match="2 elements cannot be converted to Scalar"):
        L.zeros(2).item()
    with pytest.raises(TypeError, match="only integer tensors"):
        range(L.tensor(1.5))
    with pytest.raises(TypeError, match="0-d tensor"):
        len(L.tensor(1))
    assert [row.tolist() for row in L.arange(4).view(2, 2)] == [[0, 1], [2, 3]]


def test_printing():
    assert repr(L.tensor([1.0, 2.5])) == "tensor([1.0000, 2.5000])"
    assert repr(L.tensor([1, 2], dtype=L.int32)) == "tensor([1, 2], dtype=torch.int32)"
    x = L.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr(L.zeros(0, 2)) == "tensor([], size=(0, 2))"
    assert repr(L.float16) == "torch.float16" and L.half is L.float16
    assert L.float32.is_floating_point and not L.int8.is_floating_point and L.float64.itemsize == 8


def test_a_tensor_has_one_object():
    x = L.tensor([1.0], requires_grad=True)
    (x * 2).backward()
    grad = x.grad
    assert x.grad is grad and grad.tolist() == [2.0]
    gone = weakref.ref(grad)
    x.grad = None
    del grad
    assert gone() is None
    assert {x: 1}[x] == 1

    class Sub(L.Tensor):
        pass

    sub = Sub([1, 2])
    sub.name = "own"
    assert sub.tolist() == [1.0, 2.0] and isinstance(sub, L.Tensor) and sub.name == "own"
    assert type(sub + 1) is L.Tensor
    del sub


def test_meta_tensors_have_shapes_and_strides_only():
    x = L.empty(4, 6, device="meta")
    y = (x.t()[1:3] @ x + 1.0).sum(0, True)
    assert y.is_meta and y.shape == (1, 6) and y.device == "meta"
    assert x.t()[::2].stride() == (2, 6)
    assert L._C._call("softmax", x).is_meta
    x += 1
    with pytest.raises(NotImplementedError, match="meta"):
        x.tolist()
    assert x._dispatch_keys == 0x1400018000 and L.zeros(1)._dispatch_keys == 0x9400010001
