"""The Python module with NumPy: values that do not fit their field are refused; NumPy's numbers are taken where Python's are."""

import numpy as np
import tap

import penstock as ps


def refused(ds, *words):
    try:
        list(ds)
    except ps.Error as error:
        assert all(word in str(error) for word in words), error
        assert isinstance(error.__cause__, OverflowError), error.__cause__
        return
    raise AssertionError("taken")


def test_whole_numbers_do_not_wrap():
    spec = {"value": "int32"}
    refused(ps.range(4).map(lambda value: np.array(2**40), spec=spec).batch(2), "field value", "1099511627776", "int32")
    refused(ps.range(4).map(lambda value: np.int64(-(2**40)), spec=spec).batch(2), "-1099511627776", "int32")
    refused(ps.range(4).map(lambda value: np.full(3, 300), spec={"value": ("uint8", (3,))}).batch(2), "300", "uint8")
    refused(ps.range(4).map(lambda value: np.uint64(2**63), spec={"value": "int64"}).batch(2), "9223372036854775808")
    later = [{"x": np.zeros(2, np.int32)}, {"x": np.array([1, 2**40])}]  # a wider one after the first
    refused(ps.from_generator(lambda: iter(later)).batch(1), "field x", "1099511627776", "int32")
    refused(ps.from_generator(lambda: iter([{"x": np.array([2**31])}]), spec={"x": ("int32", (1,))}).batch(1), "2147483648")


def test_whole_numbers_that_fit_are_taken():
    for dtype in ("uint8", "int32", "int64"):
        (batch,) = ps.range(4).map(lambda value: np.array([value, 200]), spec={"value": (dtype, (2,))}).batch(4)
        assert batch[0].dtype == dtype and batch[0].tolist() == [[0, 200], [1, 200], [2, 200], [3, 200]]
    (batch,) = ps.from_generator(lambda: iter([{"x": np.zeros((0,), np.int64)}]), spec={"x": ("int32", (None,))}).batch(1)
    assert batch[0].values.shape == (0,)


def one(dataset):
    (batch,) = dataset.batch(1)
    return batch["x"].dtype, batch["x"].tolist()


def test_float64_stays():
    for number in (1e300, 16777217.0):
        for x, shape in ((np.float64(number), [number]), (np.array(number), [number]), (np.array([number]), [[number]])):
            assert one(ps.from_generator(lambda: iter([{"x": x}]))) == ("float64", shape)
            assert one(ps.range(1).map(lambda value: {"x": x})) == ("float64", shape)
    assert one(ps.from_generator(lambda: iter([{"x": 0.5}]))) == ("float32", [0.5])


def test_floats_do_not_become_infinite():
    for dtype in ("float32", "float16"):
        for x in (np.array(1e300), np.array([2.0, 1e300]), np.array([10**300], float), np.full(2, -1e39)):
            spec = {"x": (dtype, x.shape)}
            refused(ps.from_generator(lambda: iter([{"x": x}]), spec=spec).batch(1), "field x", f"does not fit {dtype}")
            refused(ps.range(1).map(lambda value: {"x": x}, spec=spec).batch(1), "field x", f"does not fit {dtype}")
    refused(ps.from_generator(lambda: iter([{"x": np.float64(1e300)}]), spec={"x": "float32"}).batch(1), "does not fit float32")
    spec = {"x": ("float16", (2,))}
    assert one(ps.from_generator(lambda: iter([{"x": np.array([np.inf, 2])}]), spec=spec)) == ("float16", [[np.inf, 2]])


def test_arrays_of_other_types():
    for dtype, want in (("int8", "int32"), ("int16", "int32"), ("uint16", "int32"), ("uint32", "int64"), ("uint64", "int64")):
        values = [np.iinfo(dtype).min, 7, min(np.iinfo(dtype).max, 2**63 - 1)]
        (batch,) = ps.from_arrays({"x": np.array(values, dtype)}).batch(3)
        assert (batch["x"].dtype, batch["x"].tolist()) == (want, values)
    for texts in (np.array(["a", "ünz", ""]), np.array([b"a", b"bc", b""])):
        (batch,) = ps.from_arrays({"x": texts}).batch(3)
        assert batch["x"].tolist() == [t.encode() if isinstance(t, str) else t for t in texts.tolist()]
    try:
        ps.from_arrays({"x": np.array([2**63], np.uint64)})
    except OverflowError as error:
        assert "9223372036854775808" in str(error)
    else:
        raise AssertionError("taken")


def test_numpy_numbers_as_arguments():
    ds = ps.range(np.int64(10)).batch(np.int32(4)).with_options(seed=np.uint64(7), workers=np.int16(2))
    state = {name: value if name == "cursor" else np.uint64(value) for name, value in ds.state_dict().items()}
    state["next"] = np.int64(1)
    ds.load_state_dict(state)
    (tensor,) = batch = next(iter(ds))
    assert batch[np.int64(0)].tolist() == [4, 5, 6, 7] and tensor[np.int32(-1)] == 7 and tensor[np.uint8(0)] == 4
    assert next(iter(ds.map(lambda value: value + 1)))[np.int64(0)].tolist() == [1, 2, 3, 4]


def test_labels_of_files():
    for labels, dtype in (
        (np.array([0.5, 1.5]), "float64"),
        (np.array([0.5, 1.5], np.float32), "float32"),
        ([np.float32(0.5), 1.5], "float32"),
        (np.array([3, 4], np.uint8), "int64"),
    ):
        (batch,) = ps.from_files([__file__, tap.__file__], labels).batch(2)
        assert batch["label"].dtype == dtype and batch["label"].tolist() == list(labels)


tap.main(globals())
