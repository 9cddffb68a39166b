"""Values from Python arrive as they are, or are refused with the reason: nothing is rounded, wrapped, cut or dropped silently."""

import os
import warnings
from array import array

import penstock as ps
import tap
from data import child, images, raises, scratch


def files(folder, count=3):
    paths = [os.path.join(folder, f"{i}.bin") for i in range(count)]
    for path in paths:
        with open(path, "wb") as f:
            f.write(b"x")
    return paths


def labels(paths, values):
    (batch,) = ps.from_files(paths, values).batch(8)
    return batch["label"].dtype, batch["label"].tolist()


def test_labels_of_files_keep_their_type():
    with scratch() as folder:
        paths = files(folder)
        assert labels(paths, [7, -1, 2**62]) == ("int64", [7, -1, 2**62])
        assert labels(paths, [0.5, 1.5, -2]) == ("float32", [0.5, 1.5, -2.0])
        assert labels(paths, ["b", "a", "b"]) == ("int64", [1, 0, 1])
        for number in (2**63, -(2**63) - 1):
            with raises(ValueError, str(number), "int64"):
                ps.from_files(paths, [1, number, 3])
        states = {ps.from_files(paths, [first, 1.5, 2.5]).batch(2).state_dict()["fingerprint"] for first in (0.5, 0.75)}
        assert len(states) == 2


def test_no_number_becomes_infinite():
    chains = {
        "map": lambda x: ps.range(1).map(lambda value: {"x": x}, spec={"x": "float32"}),
        "generator": lambda x: ps.from_generator(lambda: iter([{"x": x}]), spec={"x": "float32"}),
    }
    for make in chains.values():
        for number in (1e300, -1e39):
            with raises(ps.Error, "OverflowError", "field x", "does not fit float32"):
                list(make(number).batch(1))
        (batch,) = make(float("inf")).batch(1)
        assert batch["x"].tolist() == [float("inf")]
    with scratch() as folder:
        paths = files(folder, 2)
        with raises(OverflowError, "float32"):
            ps.from_files(paths, [0.5, 1e300])
        assert labels(paths, [0.5, float("inf")]) == ("float32", [0.5, float("inf")])
    for value in (1e300, [0.5, 1e39], array("d", [1e300])):
        with raises(OverflowError, "feature a: a number does not fit float32"):
            ps.Example({"a": value}).serialize()


def test_elements_keep_all_fields():
    (batch,) = ps.from_generator(lambda: iter([tuple(range(8))])).batch(1)
    assert batch.keys() == tuple(f"x{i}" for i in range(8)) and batch["x7"].tolist() == [7]
    spec = {"x": "int64", "y": "int64"}
    with raises(ps.Error, "has 3 values, expected 2 (x, y)"):
        list(ps.from_generator(lambda: iter([(1, 2, 3)]), spec=spec).batch(1))
    with raises(ps.Error, "has 1 values, expected 2 (x, y)"):
        list(ps.from_generator(lambda: iter([(1, 2), (1,)])).batch(1))
    with raises(ps.Error, "field z that is not planned"):
        list(ps.from_generator(lambda: iter([{"x": 1, "y": 2, "z": 3}]), spec=spec).batch(1))
    with raises(ps.Error, "field z that is not planned"):
        list(ps.range(3).map(lambda value: {"value": value, "z": 1}, spec={"value": "int64"}).batch(1))


def test_a_nul_is_refused():
    with raises(ValueError, "contains a NUL"):
        ps.Example({"a\0b": 1}).serialize()
    with raises(ValueError, "contains a NUL"):
        ps.from_arrays({"a\0b": memoryview(b"abc")}).plan()
    with scratch() as folder:
        for source, out in (("photos\0junk", "out"), ("photos", "out\0junk")):
            with raises(ValueError, "null byte"):
                ps.pack(os.path.join(folder, source), os.path.join(folder, out))
        with raises(ValueError, "null"):
            ps.TFRecordWriter(os.path.join(folder, "a\0b"))


def test_names_that_are_not_utf8_are_written_back():
    record = ps.Example({"ab": [1, 2]}).serialize().replace(b"ab", b"a\xff")
    example = ps.Example.parse(record)
    assert list(example) == ["a\udcff"] and example.serialize() == record
    text = ps.Example(path=os.fsdecode(b"\xff.jpg"))
    assert ps.Example.parse(text.serialize())["path"] == [b"\xff.jpg"]
    with raises(ValueError, "\\ud800", "cannot be encoded"):
        ps.Example({"a\ud800": 1}).serialize()
    (batch,) = ps.range(1).map(lambda value: {"value": os.fsdecode(b"\xff")}, spec={"value": "bytes"}).batch(1)
    assert batch[0].tolist() == [b"\xff"]


def test_files_whose_names_are_not_utf8():
    with scratch() as folder:
        inside = os.path.join(os.fsencode(folder), b"inside\xff")
        os.makedirs(os.path.join(inside, b"photos", b"class\xff"))
        path, cache = os.path.join(inside, b"a\xff.tfrecord"), os.path.join(inside, b"cache\xff")
        with ps.TFRecordWriter(path, index=False) as writer:
            writer.write(ps.Example({"a\udcfe": 1}))
        for place in (path, os.fsdecode(path)):
            reader = ps.TFRecordReader(place, cache_dir=cache)
            assert len(reader) == 1 and list(ps.Example.parse(reader[0])) == ["a\udcfe"]
        image = ps._core.encode_png(bytes(12), 2, 2, 3)
        for name, data in ((b"sound\xff.png", image), (b"cut\xff.png", image[:20])):
            with open(os.path.join(inside, b"photos", b"class\xff", name), "wb") as file:
                file.write(data)
        report = ps.pack(os.path.join(inside, b"photos"), os.path.join(inside, b"out\xff"), bad="skip", resize=1)
        ((key, _),) = report["skipped"]
        assert report["records"] == 1 and os.fsencode(key).endswith(b"cut\xff.png"), report


def test_arguments_are_whole():
    for value in (2.7, "4 drop_remainder=true", None, "x"):
        with raises((TypeError, ps.Error), "size" if not isinstance(value, str) else "batch"):
            ps.range(10).batch(value)
    assert [b.size for b in ps.range(10).batch("4")] == [4, 4, 2]
    with raises(TypeError, "drop_remainder='no'", "True or False"):
        ps.range(10).batch(4, drop_remainder="no")
    with scratch() as folder, raises(TypeError, "whole number"):
        ps.folder(images(folder, 4, 2)).decode().resize((10.5, 20))


def test_elements_without_batch():
    with scratch() as folder:
        ds = ps.folder(images(folder, 4, 2)).decode().resize((10, 20))
        assert {name: spec.shape for name, spec in ds.element_spec.items()} == {"image": (10, 20, 3), "label": (), "key": ()}
        image, label = element = next(iter(ds))
        assert image.shape == (10, 20, 3) and label.shape == () and label.ndim == 0 and element.size == 1
        assert int(label) == label.item() == label.tolist() == 0 and [7, 8][label] == 7 and float(label) == 0.0
        assert memoryview(label).tolist() == 0 and isinstance(element["key"], bytes)
        (whole,) = ds.batch(4)
        assert whole["image"].tolist() == [e["image"].tolist() for e in ds]
        assert whole["label"].tolist() == [e["label"].item() for e in ds] and whole["key"].tolist() == [e["key"] for e in ds]
        assert next(iter(ds.prefetch(2)))["label"].shape == () and next(iter(ds.batch(3).unbatch()))["label"].shape == ()
        with raises(TypeError, "3 dimensions"):
            int(image)
        with raises(TypeError, "no length"):
            len(label)
    ragged = ps.from_generator(lambda: ({"x": array("f", [1.0] * n)} for n in (1, 2, 3)), {"x": ("float32", (None,))})
    assert [e["x"].tolist() for e in ragged] == [[1.0], [1.0, 1.0], [1.0] * 3] and ragged.element_spec["x"].shape == (None,)
    assert [e["x"].row_splits for e in ragged] == [None] * 3


def test_spellings_of_tf_data():
    assert sorted(v for b in ps.range(10).shuffle(buffer_size=10, seed=1).batch(4) for v in b[0].tolist()) == list(range(10))
    assert ps.range(9).batch(3).prefetch(buffer_size=2).stats()["prefetch"] in (0, 2)
    ds = ps.range(4).map(lambda value: value + 1, ps.AUTOTUNE).batch(4)
    assert next(iter(ds))[0].tolist() == [1, 2, 3, 4]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            ds = ps.range(4).map(lambda value: value + 1, num_parallel_calls=4).batch(4)
        assert next(iter(ds))[0].tolist() == [1, 2, 3, 4]
    assert len(seen) == 1 and "with_options(workers=…)" in str(seen[0].message) and seen[0].filename == __file__, seen
    with raises(ValueError, "num_parallel_calls=0"):
        ps.range(4).map(lambda value: value, num_parallel_calls=0)
    assert [b[0].tolist() for b in ps.range(8).batch(2).batch(2)] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    with raises(ValueError, "workers=3000", "0 to 256"):
        ps.range(4).with_options(workers=3000)


def test_files_unpack_to_image_and_label():
    with scratch() as folder:
        ds = ps.folder(images(folder, 8, 2)).decode().resize(8).batch(4)
        for image, label in ds:
            assert image.shape == (4, 8, 8, 3) and label.dtype == "int64"
        batch = next(iter(ds))
        assert batch.keys() == ("image", "label", "key") and len(batch.values()) == 3 and len(batch[2]) == len(batch["key"]) == 4
        (key,) = next(iter(ps.folder(os.path.join(folder, "images")).select("key").batch(1)))
        assert key.dtype == "bytes"
        for image, label in ds.map(lambda image, label: (image, label)):
            assert len(label) == 4
    (x, y) = next(iter(ps.from_generator(lambda: iter([{"query": 1, "key": 2}])).batch(1)))  # a key of numbers is data
    assert y.tolist() == [2]


def test_a_size_of_pack_may_be_a_tuple():
    with scratch() as folder:
        ps.pack(images(folder, 4, 2), os.path.join(folder, "out"), resize=(10, 20), format="png")
        (batch, *_) = ps.tfrecord(os.path.join(folder, "out")).example("image:bytes").decode().batch(1)
        assert batch["image"].shape == (1, 10, 20, 3), batch


def test_a_reader_is_a_sequence():
    from collections.abc import Sequence

    with scratch() as folder:
        path = os.path.join(folder, "a")
        with ps.TFRecordWriter(path) as writer:
            for record in (b"a", b"b", b"a"):
                writer.write(record)
        reader = ps.TFRecordReader(path)
        assert isinstance(reader, Sequence) and reader.index(b"b") == 1 and reader.count(b"a") == 2 and b"c" not in reader
        assert list(reversed(reader)) == [b"a", b"b", b"a"]


def test_a_world_without_a_rank():
    for variables, there in (({"WORLD_SIZE": "4"}, "WORLD_SIZE"), ({"RANK": "1"}, "RANK")):
        done = child("import penstock as ps; ps.range(4).batch(1).distributed()", env={**os.environ, **variables})
        assert f"ValueError: {there} is set and" in done.stderr, done.stderr
    assert child("import penstock as ps; ps.range(4).batch(1).distributed()", env={**os.environ, "WORLD_SIZE": "1"}).returncode == 0


def test_states_hold_64_bits():
    ds = ps.range(10).batch(2)
    state = ds.state_dict()
    for name in ("fingerprint", "seed", "epoch", "next"):
        for number in (state[name] + 2**64, -1):
            with raises(ValueError, name, "expected 0 to 18446744073709551615"):
                ds.load_state_dict({**state, name: number})
        with raises(TypeError, name):
            ds.load_state_dict({**state, name: 1.5})

    class Index:  # as NumPy's numbers are
        def __index__(self):
            return 3

    ds.load_state_dict({**state, "next": Index()})
    assert next(iter(ds))[0].tolist() == [6, 7]


def test_states_hold_the_cursor():
    ds = ps.range(10).shuffle().batch(2)
    next(iter(ds))
    state = ds.state_dict()
    assert state["version"] == 2 and bytes.fromhex(state["cursor"])[:4] == b"PSTC"
    want = [batch[0].tolist() for batch in rest(ds, state)]
    assert len(want) == 4
    old = {name: value for name, value in state.items() if name != "cursor"} | {"version": 1}  # as it was before it had one
    assert [batch[0].tolist() for batch in rest(ds, old)] == want
    assert [batch[0].tolist() for batch in rest(ds, {**state, "next": 2})] == want[1:]  # edited: the numbers count
    for cursor, kind, words in (
        ("00" * 40, ps.Error, "not a cursor"),
        (state["cursor"][:-2], ps.Error, "not a cursor"),
        ("00" * 5000, ps.Error, "not a cursor"),
        (state["cursor"][:8] + "02" + state["cursor"][10:], ps.Error, "layout 2"),
        ("no", ValueError, "hexadecimal"),
    ):
        with raises(kind, words):
            ds.load_state_dict({**state, "cursor": cursor})
    with raises(ValueError, "version 3"):
        ds.load_state_dict({**state, "version": 3})


def rest(ds, state):
    ds.load_state_dict(state)
    return iter(ds)


def test_what_is_no_function_is_refused():
    class Device:
        address = 16  # not a compiled function's

        def __call__(self, value):
            return value + 1

    for what in (True, 4096, None, "x"):
        with raises((TypeError, ps.Error), "map takes a function"):
            list(ps.range(4).map(what, spec={"value": "int64"}).batch(4))
        with raises((TypeError, ps.Error), "map takes a function"):
            list(ps.range(4).batch(4).map(what))
    (batch,) = ps.range(4).map(Device()).batch(4)
    assert batch[0].tolist() == [1, 2, 3, 4]


def test_a_writer_closed_by_many_threads():
    code = """
import os, sys, threading, penstock as ps
for n in range(60):
    path = os.path.join(sys.argv[1], f"{n}.tfrecord")
    writer, start = ps.TFRecordWriter(path, sync=True), threading.Barrier(4)
    def work(i):
        start.wait()
        try:
            for _ in range(200 if i else 0):
                writer.write(b"x" * 10000)
            writer.close()
        except ps.Error as error:
            assert "closed" in str(error), error
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert all(len(record) == 10000 for record in ps.TFRecordReader(path))
print("fine")
"""
    with scratch() as folder:
        done = child(code, folder)
        assert done.returncode == 0 and done.stdout.strip() == "fine", (done.returncode, done.stderr)


def test_a_buffer_that_closes_the_writer():
    import sys

    if sys.version_info < (3, 12):
        return  # __buffer__ in Python classes
    with scratch() as folder:
        writer = ps.TFRecordWriter(os.path.join(folder, "a"))

        class Closing:
            def __buffer__(self, flags):
                writer.close()
                return memoryview(b"x")

        with raises(ps.Error, "closed"):
            writer.write(Closing())


tap.main(globals())
