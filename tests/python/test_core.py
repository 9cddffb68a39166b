"""Tensors and batches: shapes, types, the ways out, lifetime."""

import array
import ctypes
import gc

import penstock as ps
import tap
from data import raises
from patience import memory_settles


def one(arrays, size=64):
    """All of the arrays as one batch; nothing else is kept."""
    return next(iter(ps.from_arrays(arrays).batch(size)))


def numbers(n=12):
    return memoryview(array.array("f", range(n))).cast("B").cast("f", (n // 3, 3))


def test_batch_is_a_mapping_and_unpacks():
    batch = one({"image": numbers(), "label": array.array("q", range(4))})
    assert batch.keys() == ("image", "label") and len(batch) == 2 and batch.size == 4
    image, label = batch
    assert image.shape == (4, 3) and label.tolist() == [0, 1, 2, 3]
    assert dict(batch).keys() == {"image", "label"} and dict(**batch)["label"].tolist() == label.tolist()
    assert batch["image"].tolist() == batch[0].tolist() == batch[-2].tolist() == image.tolist()
    assert "label" in batch and "x" not in batch and batch.get("x") is None and batch.get("x", 3) == 3
    assert [name for name, _ in batch.items()] == ["image", "label"] and len(batch.values()) == 2
    with raises(KeyError, "there are ('image', 'label')"):
        batch["x"]
    with raises(IndexError):
        batch[2]
    assert "Tensor(shape=(4, 3), dtype=float32)" in repr(batch)


def test_types_and_shapes():
    codes = {"B": "uint8", "i": "int32", "q": "int64", "l": "int64", "f": "float32", "d": "float64"}
    for code, name in codes.items():
        (tensor,) = one(array.array(code, [1, 2, 3]))
        assert (tensor.dtype, tensor.shape, tensor.ndim, tensor.tolist()) == (name, (3,), 1, [1, 2, 3]), code
        view = memoryview(tensor)
        assert view.format == {"l": "q"}.get(code, code) and not view.readonly and view.nbytes == tensor.nbytes
    with raises(ValueError, "expected 1 to 8 dimensions of uint8"):
        ps.from_arrays(array.array("h", [1])).plan()


def test_half_precision():
    (tensor,) = next(
        iter(ps.from_arrays({"x": array.array("f", [0, 1, -2.5, 65504, 1e-7, 1e9])}).cast("f16", field="x").batch(6))
    )
    assert tensor.dtype == "float16" and tensor.tolist() == [0, 1, -2.5, 65504, 1.1920928955078125e-07, float("inf")]
    (tensor,) = next(iter(ps.from_arrays({"x": array.array("f", [1, -2.5, 3e38])}).cast("bf16", field="x").batch(6)))
    assert tensor.dtype == "bfloat16" and tensor.tolist()[:2] == [1, -2.5]
    with raises(BufferError, "DLPack"):
        memoryview(tensor)


def test_elements():
    (tensor,) = one(numbers())
    assert (
        len(tensor) == 4 and tensor[1].tolist() == [3, 4, 5] and tensor[-1][2] == 11 and [len(row) for row in tensor] == [3] * 4
    )
    with raises(IndexError):
        tensor[4]
    with raises(TypeError, "numpy.asarray"):
        tensor[1:]


def test_writable_and_shared():
    batch = one(numbers())
    view = memoryview(batch[0])
    view[1, 2] = 99
    assert batch[0][1].tolist() == [3, 4, 99] and batch[0].data_ptr() == batch["x"].data_ptr()


def test_array_interface():
    (tensor,) = one(numbers())
    interface = tensor.__array_interface__
    assert interface["shape"] == (4, 3) and interface["typestr"] == "<f4" and interface["data"] == (tensor.data_ptr(), False)


def capsule_name(capsule):
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


def test_dlpack_capsules():
    (tensor,) = one(numbers())
    assert tensor.__dlpack_device__() == (1, 0)
    assert capsule_name(tensor.__dlpack__()) == b"dltensor" == capsule_name(tensor.__dlpack__(max_version=(0, 8)))
    assert capsule_name(tensor.__dlpack__(max_version=(1, 1), dl_device=(1, 0), copy=True)) == b"dltensor_versioned"
    with raises(BufferError, "CPU"):
        tensor.__dlpack__(dl_device=(2, 0))
    with raises(BufferError):
        tensor.__dlpack__(stream=1)


def test_bytes():
    batch = one({"text": ["a", b"", b"\0x", "ü"], "n": array.array("q", range(4))})
    text = batch["text"]
    assert (
        text.dtype == "bytes"
        and text.shape == (4,)
        and text.tolist() == [b"a", b"", b"\0x", "ü".encode()]
        and text[2] == b"\0x"
    )
    for way in (memoryview, lambda t: t.__dlpack__()):
        with raises(BufferError, "tolist"):
            way(text)
    assert not hasattr(text, "__array_interface__")


def test_ragged():
    rows = [array.array("f", range(n)) for n in (2, 0, 3)]
    ds = ps.from_generator(lambda: ({"x": row} for row in rows), spec={"x": ("float32", (None,))}).batch(3)
    assert ds.element_spec == {"x": ((None, None), "float32")}
    (tensor,) = next(iter(ds))
    assert (
        tensor.shape == (3, None) and tensor.row_splits.tolist() == [0, 2, 2, 5] and tensor.values.tolist() == [0, 1, 0, 1, 2]
    )
    assert tensor.tolist() == [[0, 1], [], [0, 1, 2]] and tensor[2].tolist() == [0, 1, 2]
    with raises(BufferError, "row_splits"):
        memoryview(tensor)
    assert one(numbers())[0].row_splits is None


def test_memory_outlives_everything():
    ds = ps.from_arrays(numbers(300)).batch(10)
    held = [(batch[0], batch[0].tolist()) for batch in ds]
    views = [memoryview(tensor) for tensor, _ in held]
    ds.close()
    del ds
    gc.collect()
    for batch in ps.from_arrays(array.array("f", range(10000))).batch(10):  # others use memory meanwhile
        memoryview(batch[0])[0] = -1
    for (tensor, values), view in zip(held, views):
        assert tensor.tolist() == values == view.tolist()


def test_held_batches_are_never_recycled():
    ds = ps.range(4000).repeat().batch(10)
    held = []
    for i, (values,) in enumerate(ds):
        if i % 7 == 0:
            held.append((i, values))
        if i == 2000:
            break
    for i, values in held:
        assert values.tolist() == [(10 * i + k) % 4000 for k in range(10)], i


def test_no_leak():
    ds = ps.from_arrays(numbers(3000)).repeat().batch(100)
    batches = iter(ds)

    def run(count):
        for _ in range(count):
            (x,) = next(batches)
            memoryview(x)
            x.__dlpack__(), x.__dlpack__(max_version=(1, 0)), x[0], x.shape

    run(2000)
    memory_settles(lambda: run(10000), 2 << 20)


if __name__ == "__main__":
    tap.main(globals())
