"""NumPy, DLPack and buffers: one memory seen from both sides, which lives as long as either needs it."""

import array
import gc
import weakref
import zlib

import lanthorn as L
import numpy as np
import pytest

NAMES = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
SHAPES = [(), (3,), (2, 3), (0,), (2, 0, 3), (1, 1)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("way", ["numpy", "dlpack", "buffer"])
def test_there_and_back(name, shape, way):
    given = (np.arange(int(np.prod(shape))) % 2).astype(name).reshape(shape)
    x = L.from_dlpack(given) if way == "dlpack" else L.from_numpy(given)
    assert str(x.dtype) == f"torch.{name}" and x.shape == shape and x.tolist() == given.tolist()
    back = {"numpy": lambda: x.numpy(), "dlpack": lambda: np.from_dlpack(x),
            "buffer": lambda: np.asarray(memoryview(x))}[way]()
    assert back.dtype == given.dtype and back.shape == shape
    np.testing.assert_array_equal(back, given)
    if given.size:
        x.fill_(1)
        assert given.astype(bool).all() and back.astype(bool).all()


def test_strides_are_kept():
    given = np.arange(24.0).reshape(4, 6)
    for part in (given.T, given[::2, 1::3], given[1:], given[:, 2]):
        for x in (L.from_numpy(part), L.from_dlpack(part)):
            assert x.stride() == tuple(s // 8 for s in part.strides)
            for back in (x.numpy(), np.from_dlpack(x)):
                assert back.strides == part.strides and back.ctypes.data == part.ctypes.data
    x = L.arange(12).view(3, 4).t()[1:]
    np.testing.assert_array_equal(x.numpy(), np.arange(12).reshape(3, 4).T[1:])
    assert x.numpy().ctypes.data == x.data_ptr()


def test_arrays_that_cannot_be_shared_are_refused():
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        L.from_numpy([1])
    with pytest.raises(ValueError, match="negative"):
        L.from_numpy(np.arange(3)[::-1])
    with pytest.raises(ValueError, match="negative"):
        L.from_dlpack(np.arange(3)[::-1])
    for bad in (np.array(["a"]), np.array([object()]), np.arange(3, dtype=">f4"), np.zeros(2, "M8[s]"),
                np.zeros(2, [("a", "f4")]), np.zeros(2, "complex64")):
        with pytest.raises(TypeError, match="only supported types"):
            L.from_numpy(bad)
    packed = np.zeros(4, [("a", "u1"), ("b", "f4")])
    with pytest.raises(ValueError, match="multiple of the element byte size|aligned"):
        L.from_numpy(packed["b"])
    with pytest.raises(TypeError, match="BFloat16"):
        L.zeros(2, dtype=L.bfloat16).numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(L.zeros(2, requires_grad=True))
    assert L.zeros(2, requires_grad=True).numpy(force=True).tolist() == [0, 0]


def test_memory_that_may_only_be_read():
    given = np.arange(3.0)
    given.setflags(write=False)
    x = L.from_numpy(given)
    with pytest.raises(NotImplementedError, match="read-only"):
        x += 1
    assert (x + 1).tolist() == [1.0, 2.0, 3.0]
    assert not x.numpy().flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__()
    assert not np.from_dlpack(x).flags.writeable
    assert L.frombuffer(b"\x01\x02", dtype=L.uint8).tolist() == [1, 2]
    assert given.tolist() == [0.0, 1.0, 2.0]


def test_owners_outlive_their_users():
    class Owner(np.ndarray):
        pass

    given = np.arange(1000.0).view(Owner)
    gone = weakref.ref(given)
    x = L.from_numpy(given)
    view = x[10:].view(99, 10)
    address = given.ctypes.data
    del given, x
    gc.collect()
    assert gone() is not None and view[0, 0].item() == 10 and view.data_ptr() == address + 80
    del view
    gc.collect()
    assert gone() is None

    x = L.ones(500)
    live = L._C._memory()[0]
    arrays = [x.numpy(), np.from_dlpack(x), np.asarray(x)[3:]]
    del x
    gc.collect()
    assert all(one.sum() == one.size for one in arrays) and L._C._memory()[0] == live
    arrays.clear()
    gc.collect()
    assert L._C._memory()[0] < live


def test_a_capsule_is_taken_once():
    x = L.ones(3)
    for version in (None, (1, 0)):
        capsule = x.__dlpack__(max_version=version)
        assert ("versioned" in repr(capsule)) == (version is not None)
        y = L.from_dlpack(capsule)
        assert y.data_ptr() == x.data_ptr()
        with pytest.raises(RuntimeError, match="consumed only once"):
            L.from_dlpack(capsule)
        del capsule
        x.__dlpack__(max_version=version)
    with pytest.raises(TypeError, match="no __dlpack__"):
        L.from_dlpack(3)
    with pytest.raises(BufferError, match="require gradient"):
        L.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="not on device"):
        x.__dlpack__(dl_device=(2, 0))
    copied = L.from_dlpack(x.__dlpack__(copy=True))
    assert copied.data_ptr() != x.data_ptr()
    assert x.__dlpack_device__() == (1, 0)

    class Old:
        """A producer from before version 1."""

        def __dlpack__(self):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    assert L.from_dlpack(Old()).data_ptr() == x.data_ptr()

    class Elsewhere(Old):
        def __dlpack_device__(self):
            return (2, 0)

    with pytest.raises(RuntimeError, match="not on the CPU"):
        L.from_dlpack(Elsewhere())

    class Broken(Old):
        def __dlpack__(self, **_):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        L.from_dlpack(Broken())


def test_buffers():
    x = L.frombuffer(array.array("d", [1, 2, 3]), dtype=L.float64)
    assert x.tolist() == [1, 2, 3]
    raw = bytearray(b"\0\0" + np.arange(4, dtype="f4").tobytes())
    with pytest.raises(ValueError, match="aligned"):
        L.frombuffer(raw, dtype=L.float32, offset=2)
    x = L.frombuffer(raw, dtype=L.uint8, count=2, offset=2)
    x.fill_(7)
    assert raw[:4] == b"\0\0\7\7"
    with pytest.raises(BufferError):
        raw.append(1)
    del x
    raw.append(1)
    for arguments, message in [
        ({"offset": 19}, "offset"), ({"offset": -1}, "offset"), ({"count": 100}, "must not be greater"),
        ({"count": 0}, "must not be 0"), ({"dtype": L.float64}, "multiple of element size"),
        ({"count": 2**62, "dtype": L.float64}, "must not be greater"),
    ]:
        with pytest.raises(ValueError, match=message):
            L.frombuffer(raw, **{"dtype": L.uint8, **arguments})
    with pytest.raises(TypeError):
        L.frombuffer(3, dtype=L.uint8)
    view = memoryview(L.arange(6).view(2, 3))
    assert view.shape == (2, 3) and view.format == "q" and view.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert bytes(L.tensor([1, 2], dtype=L.uint8)) == b"\1\2"
    with pytest.raises(BufferError, match="contiguous"):
        zlib.crc32(L.arange(6).view(2, 3).t())


def test_numbers_and_arrays_of_numpy_are_operands():
    x = L.ones(2, requires_grad=True)
    for number in (np.float64(2), np.float32(2), np.int64(2)):
        for y in (x * number, number * x, number + x + 0 * x):
            assert isinstance(y, L.Tensor) and y.requires_grad
    assert (L.ones(2) * np.float32(3)).tolist() == [3.0, 3.0]


def test_numpy_converts_by_array():
    x = L.arange(3)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.array(x).tolist() == [0, 1, 2] and np.array(x).ctypes.data != x.data_ptr()
    assert x.__array__(np.float64).dtype == np.float64
    assert x.__array__(copy=True).ctypes.data != x.data_ptr()
