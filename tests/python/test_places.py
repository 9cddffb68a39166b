"""Where a function failed: the file, the record and the byte of what it was called for, as errors of built-in operations have
them; and the line of Python. For every kind of function and of source."""

import array
import ctypes
import gzip
import os
import traceback

import penstock as ps
import tap
from data import images, raises, scratch
from test_functions import CALLBACK


def write(folder):
    """20 records in two files: x counts from 0."""
    paths = [os.path.join(folder, f"{name}.tfrecord") for name in "ab"]
    for i, path in enumerate(paths):
        with ps.TFRecordWriter(path) as writer:
            for x in range(10 * i, 10 * i + 10):
                writer.write(ps.Example(x=x, text=b"." * x))
    return paths


def failure(ds):
    try:
        for _ in ds:
            pass
    except ps.Error as error:
        return error
    raise AssertionError("no error")


def check(x):
    if x == 17:
        raise LookupError("no seventeen")
    return x


def check_all(x):
    if 17 in x.tolist():
        raise LookupError("no seventeen")
    return x


@CALLBACK
def check_compiled(inputs, outputs, sizes):
    x = ctypes.cast(inputs[0], ctypes.POINTER(ctypes.c_int64))[0]
    ctypes.cast(outputs[0], ctypes.POINTER(ctypes.c_int64))[0] = x
    return 3 if x == 17 else 0


def test_functions_for_samples():
    with scratch() as folder:
        paths = write(folder)
        ds = ps.tfrecord(folder).example("x:int64")
        decode = failure(ps.tfrecord(folder).skip(17).example("x:float").batch(1))
        assert (decode.op, decode.path, decode.record) == ("example", paths[1], 7) and decode.offset > 0
        for workers in ("thread", "process"):
            for order in (ds, ds.shuffle(seed=3)):
                error = failure(order.map(check, workers=workers).batch(4))
                assert (error.op, error.path, error.record, error.offset) == ("map", paths[1], 7, decode.offset), error
                text = f"{paths[1]}: record 7 at byte {decode.offset}: map: check: LookupError: no seventeen"
                assert str(error) == text and error.errno is None and error.status == "PST_EINVAL", error
                lines = "".join(traceback.format_exception(error))
                assert 'raise LookupError("no seventeen")' in lines and "in check\n" in lines, lines
                assert isinstance(error.__cause__, LookupError)
        error = failure(ds.map(check_compiled).batch(4))
        assert (error.op, error.path, error.record, error.offset) == ("map", paths[1], 7, decode.offset)
        assert "returned 3" in str(error)


def test_what_it_returned_is_its_failure_too():
    with scratch() as folder:
        paths = write(folder)
        ds = ps.tfrecord(folder).example("x:int64").map(lambda x: {"y": array.array("f", [0] * (2 if x == 12 else 1))}).batch(3)
        error = failure(ds)
        assert (error.path, error.record) == (paths[1], 2) and "float32 (2,), planned float32 (1,)" in str(error)


def test_streams_and_files():
    with scratch() as folder:
        paths = write(folder)
        packed = os.path.join(folder, "c.tfrecord.gz")
        with gzip.open(packed, "wb") as out:
            for path in paths:
                with open(path, "rb") as file:
                    out.write(file.read())
        error = failure(ps.tfrecord(packed).example("x:int64").map(check).batch(4))
        assert (error.path, error.record) == (packed, 17) and error.offset == os.path.getsize(paths[0]) + failure(
            ps.tfrecord(paths[1]).example("x:int64").map(check).batch(4)
        ).offset
        error = failure(ps.tfrecord(packed).example("x:int64").batch(6).map(check_all))
        assert [place[:2] for place in error.places] == [(packed, i) for i in range(12, 18)] and error.batch == 2
        files = sorted(os.path.join(base, name) for base, _, names in os.walk(images(folder, 8, 2)) for name in names)
        ds = ps.from_files(files, range(8))
        error = failure(ds.map(lambda label: label // (label != 5)).batch(4))
        assert (error.path, error.record, error.offset) == (files[5], None, None) and str(error).startswith(f"{files[5]}: map: ")
        error = failure(ds.select("label").batch(2).map(lambda label: label if label[0] != 4 else 1 // 0))
        assert error.places == [(files[4], None, None), (files[5], None, None)] and f"({files[4]}, {files[5]})" in str(error)


def test_functions_for_batches():
    with scratch() as folder:
        paths = write(folder)
        ds = ps.tfrecord(folder).example("x:int64")
        for workers in ("thread", "process"):
            error = failure(ds.batch(4).map(lambda x: x).map(check_all, workers=workers))
            assert (error.op, error.batch, error.path, error.record) == ("map", 4, paths[1], 6), error
            words = f"batch 4 of this iteration ({paths[1]} records 6 to 9): check_all: LookupError: no seventeen"
            assert words in str(error) and 'raise LookupError("no seventeen")' in "".join(traceback.format_exception(error))
            assert [(path, record) for path, record, _ in error.places] == [(paths[1], i) for i in range(6, 10)]
            assert error.offset == error.places[0][2] and len({offset for _, _, offset in error.places}) == 4
        seen = [batch["x"].tolist() for batch in ds.shuffle(seed=5).batch(5)]
        number = next(i for i, batch in enumerate(seen) if 17 in batch)
        error = failure(ds.shuffle(seed=5).batch(5).map(check_all))
        assert error.batch == number
        assert [(path, record) for path, record, _ in error.places] == [(paths[x // 10], x % 10) for x in seen[number]]
        first = ", ".join(f"{paths[x // 10]} record {x % 10}" for x in seen[number][:3])
        assert f"({first} and 2 more)" in str(error), error
        error = failure(ps.from_arrays({"x": array.array("q", range(20))}).batch(6).map(check_all))
        assert (error.path, error.record) == (None, 12) and "batch 2 of this iteration (records 12 to 17): " in str(error)


def test_sources_without_files():
    error = failure(ps.from_arrays({"x": array.array("q", range(20))}).shuffle(seed=1).map(check).batch(4))
    assert (error.op, error.path, error.record) == ("map", None, 17) and str(error).startswith("record 17: map: check: ")

    def broken():
        yield from range(6)
        raise OSError("the disk is gone")

    def early():
        raise OSError("no disk at all")
        yield

    def odd():
        yield from range(3)
        yield "text"

    for chain in (lambda ds: ds.batch(4), lambda ds: ds.shuffle(seed=1).batch(4), lambda ds: ds.repeat().batch(4)):
        error = failure(chain(ps.from_generator(broken, spec={"x": "int64"})))
        assert (error.op, error.path, error.record) == ("generator", None, 6) and isinstance(error.__cause__, OSError)
        assert str(error).startswith("record 6: generator: ") and str(error).endswith("broken: OSError: the disk is gone"), error
        assert 'raise OSError("the disk is gone")' in "".join(traceback.format_exception(error))
    assert failure(ps.from_generator(early, spec={"x": "int64"}).batch(2)).record == 0
    assert failure(ps.from_generator(odd).batch(2)).record == 3
    error = failure(ps.from_generator(lambda: ({"x": x} for x in range(20))).map(check).batch(4))
    assert (error.op, error.record) == ("map", 17)


def test_the_element_that_a_function_is_tried_on():
    with scratch() as folder:
        paths = write(folder)
        for workers in ("thread", "process"):
            ds = ps.tfrecord(folder).skip(17).example("x:int64").map(check, workers=workers).batch(4)
            try:
                ds.plan()
                raise AssertionError("no error")
            except ps.Error as error:
                assert (error.op, error.path, error.record) == ("map", paths[1], 7) and error.offset > 0, error
                text = "".join(traceback.format_exception(error))
                assert 'raise LookupError("no seventeen")' in text and "called on the first element" in text, text


def test_other_batches_have_no_place_here():
    one, two = ps.range(10).batch(5), ps.range(10).batch(5)
    batch = next(iter(one))
    assert one._pipeline.locate(batch) == [(None, i, None) for i in range(5)]
    two.plan()
    with raises(ps.Error, "another pipeline"):
        two._pipeline.locate(batch)
    with raises(TypeError, "Batch"):
        one._pipeline.locate({})
    one.close()


def test_paths_that_are_not_utf8():
    def refuse(image):
        raise ValueError("not this one: " + os.fsdecode(b"\xff"))

    with scratch() as folder:
        path = os.path.join(os.fsencode(folder), b"\xff.bin")
        with open(path, "wb") as f:
            f.write(b"x")
        for spec in (None, {"image": "bytes"}):  # tried on the first element; run
            with raises(ps.Error, "not this one: \\udcff"):
                try:
                    list(ps.from_files([path]).map(refuse, spec=spec).batch(1))
                except ps.Error as error:
                    assert (error.op, os.fsencode(error.path)) == ("map", path), (spec, error.path)
                    raise


if __name__ == "__main__":
    tap.main(globals())
