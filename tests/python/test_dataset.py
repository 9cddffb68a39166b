"""The fluent API: every operation is a method, chains equal their text, epochs, resume, options, errors."""

import array
import copy
import gc
import inspect
import os
import pickle
import sys
import tarfile
import tempfile
import threading
import time
import weakref

import penstock as ps
import tap
from data import child, images, raises, scratch


def values(ds):
    return [batch[0].tolist() for batch in ds]


def test_every_operation_has_its_method():
    for name, kind, doc, example, params in ps._core.operations():
        if name == "arrays":
            continue
        function = getattr(ps, name) if kind == "source" else getattr(ps.Dataset, name)
        if name in ps._JOINS or name == "decode_raw":  # written for Python: of datasets; shapes are tuples
            assert "Example:" in function.__doc__ and f"{name}(" in function.__doc__, name
            continue
        assert doc.split(".")[0] in function.__doc__ and example in function.__doc__, name
        signature = inspect.signature(function).parameters
        for param, _, default, _, text in params:
            found = signature["from_" if param == "from" else param]
            assert text in function.__doc__, (name, param)
            assert (found.default is inspect.Parameter.empty) == (default is None) or found.kind is found.VAR_POSITIONAL, (
                name,
                param,
            )


def test_chain_and_text_are_the_same():
    with scratch() as folder:
        path = images(folder)
        chain = (
            ps.folder(path)
            .shuffle(seed=7)
            .decode()
            .random_resized_crop((24, 32), scale=(0.5, 1))
            .flip(0.3)
            .normalize(mean=(0.5, 0.4, 0.3), std=0.25)
            .select("image", "label")
            .batch(8, drop_remainder=True)
            .prefetch(ps.AUTOTUNE)
        )
        text = ps.pipeline(
            f"folder '{path}' | shuffle seed=7 | decode | random_resized_crop 32x24 scale=0.5,1 | flip p=0.3 |"
            " normalize mean=0.5,0.4,0.3 std=0.25 | select image label | batch 8 drop_remainder=true"
        )
        assert chain.state_dict()["fingerprint"] == text.state_dict()["fingerprint"]
        assert [bytes(image) for image, _ in chain] == [bytes(image) for image, _ in text]
        assert chain.element_spec == {"image": ((8, 24, 32, 3), "float32"), "label": ((8,), "int64")}


def test_lists_where_a_text_has_commas():
    chain = ps.range(5).bucket("value", boundaries=[2, 4], sizes=(2, 3, 1))
    assert "boundaries='2,4' sizes='2,3,1'" in repr(chain), repr(chain)


def test_odd_words_arrive_unchanged():
    for name in ("a b", "it's", 'qu"ote', "back\\slash", "x=y", "#", "|", "tab\there", "é"):
        try:
            ps.tfrecord(os.path.join("/nowhere", name)).plan()
            raise AssertionError(name)
        except ps.Error as error:
            assert error.path == "/nowhere/" + name and error.status == "PST_ENOTFOUND"
    ds = ps.range(3).rename("value", "it's a=b").batch(3)
    assert list(ds.element_spec) == ["it's a=b"]


def test_mistakes():
    with raises(TypeError, "unexpected keyword"):
        ps.range(3).shuffle(sed=3)
    with raises(TypeError, "missing 1 required"):
        ps.range(3).batch()
    with raises(TypeError, "no option wrkers"):
        ps.range(3).with_options(wrkers=3)
    with raises(ps.Error, "did you mean batch", "^^^^"):
        ps.pipeline("range 10 | bach 4")
    with raises(ps.Error, "^"):
        ps.range(3).batch(0)
    with raises(ps.Error, "size is x", "^"):
        ps.range(3).batch("x")
    with raises(TypeError, "object: not an array of numbers"):
        ps.from_arrays((object(),))


def test_error_tells_the_place():
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        with ps.TFRecordWriter(path) as writer:
            for i in range(10):
                writer.write(b"%02d" % i * 10)
        with open(path, "r+b") as f:
            f.seek(3 * 36 + 12)
            f.write(b"x")
        try:
            values(ps.tfrecord(path).batch(2))
            raise AssertionError("no error")
        except ps.Error as error:
            assert (error.status, error.path, error.record, error.offset) == ("PST_ECORRUPT", path, 3, 108), vars(error)
        ds = ps.tfrecord(path).batch(2).with_options(bad="skip:5")
        assert sum(batch.size for batch in ds) == 9 and ds.stats()["skipped"] == 1


def test_epochs():
    ds = ps.range(20).shuffle(seed=1).batch(6)
    first, second = values(ds), values(ds)
    assert (
        len(first) == len(ds) == 4 and sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(20)) and first != second
    )
    fresh = ps.range(20).shuffle(seed=1).batch(6)
    next(iter(fresh))  # left in the middle of epoch 0
    for _ in range(3):
        iter(fresh)  # takes nothing, so it leaves no epoch out
    assert values(fresh) == second
    assert (
        values(ps.range(20).shuffle(seed=1, reshuffle=False).batch(6)) == values(ps.range(20).shuffle(seed=1).batch(6)) == first
    )


def test_shuffle_of_elements():
    """shuffle(4) is a buffer of four elements, as in tf.data."""
    def numbers():
        for i in range(200):
            yield {"value": i}
    ds = ps.from_generator(numbers, spec={"value": "int64"}).shuffle(4, seed=1).batch(1)
    order = [int(batch["value"].tolist()[0]) for batch in ds]
    assert sorted(order) == list(range(200)) and max(value - place for place, value in enumerate(order)) == 3


def test_two_iterators_at_once():
    ds = ps.range(20).shuffle(seed=1).batch(5)
    pairs = [(a[0].tolist(), b[0].tolist()) for a, b in zip(ds, ds)]
    assert len(pairs) == 4 and all(a == b for a, b in pairs)


def test_resume_at_every_batch():
    def make():
        return ps.range(50).shuffle(seed=3).map(lambda value, seed: (value,), spec={"value": "int64"}).batch(8)

    whole = make()
    expected = values(whole) + values(whole)
    for stop in range(len(expected)):
        ds, seen = make(), 0
        while seen < stop:
            for _ in ds:
                seen += 1
                if seen == stop:
                    break
        state = pickle.loads(pickle.dumps(ds.state_dict()))
        again = make()
        again.load_state_dict(state)
        rest = values(again)
        while len(rest) < len(expected) - stop:
            rest += values(again)
        assert rest[: len(expected) - stop] == expected[stop:], stop


def test_foreign_states_are_refused():
    state = ps.range(50).batch(8).state_dict()
    with raises(ps.Error):
        ps.range(51).batch(8).load_state_dict(state)
    with raises(ValueError, "version"):
        ps.range(50).batch(8).load_state_dict({**state, "version": 0})


def test_length():
    assert len(ps.range(10).batch(3)) == 4 and len(ps.range(10).batch(3, drop_remainder=True)) == 3
    with raises(TypeError, "endless or unknown"):
        len(ps.range(10).repeat().batch(3))


def test_options():
    parts = [values(ps.range(12).shuffle(seed=1).batch(2).with_options(rank=rank, world=3)) for rank in range(3)]
    assert sorted(sum(sum(parts, []), [])) == list(range(12))
    a, b = (values(ps.range(99).shuffle().batch(9).with_options(seed=seed)) for seed in (1, 2))
    assert a != b
    assert values(ps.range(99).shuffle().batch(9).with_options(seed=1, workers=1, prefetch=1, fuse=False)) == a
    with raises(ValueError, "expected pad, drop or allow"):
        ps.range(3).with_options(uneven="so")
    with raises(ps.Error, "unknown damage policy"):
        ps.range(3).with_options(bad="perhaps")
    assert values(ps.range(99).shuffle().batch(9).with_options(seed=1, workers=ps.AUTOTUNE, prefetch=ps.AUTOTUNE)) == a
    for option in ("seed", "workers", "prefetch", "ram"):
        with raises(ValueError, f"{option}=-2; expected 0 to"):
            ps.range(3).with_options(**{option: -2})
    with raises(ValueError, "workers=1099511627776"):
        ps.range(3).with_options(workers=1 << 40)
    with raises(TypeError, "prefetch=1.5; expected a whole number"):
        ps.range(3).with_options(prefetch=1.5)
    assert ps.range(3).with_options(rank=1).with_options(world=2).batch(1).element_spec


def test_ranks_from_the_environment():
    names = (
        "RANK",
        "WORLD_SIZE",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PMI_RANK",
        "PMI_SIZE",
    )
    kept = {name: os.environ.pop(name, None) for name in names}
    try:
        from penstock._ranks import resolve

        assert resolve() == (0, 1) and resolve(2, 4) == (2, 4)
        os.environ.update(RANK="1", WORLD_SIZE="2")
        assert resolve() == (1, 2)
        os.environ.update(SLURM_PROCID="1", SLURM_NTASKS="2")
        assert resolve() == (1, 2) and values(ps.range(4).batch(2).distributed()) == [[2, 3]]
        os.environ.update(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
        with raises(ValueError, "contradictory", "SLURM_PROCID and SLURM_NTASKS: rank 1 of 2", "rank 0 of 2"):
            resolve()
        assert resolve(0, 1) == (0, 1)
        os.environ.pop("WORLD_SIZE")
        with raises(ValueError, "RANK is set and WORLD_SIZE is not"):
            resolve()
        with raises(ValueError, "rank 2 of 2"):
            resolve(2, 2)
    finally:
        for name, value in kept.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def test_stats_and_plan():
    ds = ps.range(100).shuffle().batch(10)
    assert "exact and global" in ds.plan()
    values(ds)
    stats = ds.stats()
    assert stats["batches"] == 10 and stats["samples"] == 100 and stats["workers"] >= 1 and stats["stages"][0]["name"] == "read"


def test_close_and_with():
    with ps.range(100).batch(10) as ds:
        batches = iter(ds)
        first = next(batches)
    with raises(ps.Error, "closed"):
        next(batches)
    assert first[0].tolist() == list(range(10)) and len(values(ds)) == 10
    ds = ps.range(100).batch(10)
    batches = iter(ds)
    next(batches)
    ds.cancel()
    with raises(ps.Error, "cancelled"):
        list(batches)


def mapped(ds):
    return ds.map(lambda value: value, per="batch")


def test_a_loop_that_is_left_ends_its_epoch():
    """Behind functions for batches too, which are some batches ahead; nothing waits for the garbage collector."""

    def fail(value):
        raise KeyError("no")

    plain = ps.range(1000).shuffle(seed=1).batch(4)
    gc.collect()
    gc.disable()
    try:
        for ds in (plain, mapped(plain)):
            epochs = []
            for _ in range(4):
                for _ in ds:
                    epochs.append(ds.state_dict()["epoch"])
                    break
            assert epochs == [0, 1, 2, 3]
        ds, epochs = plain.map(fail), []
        for _ in range(3):
            with raises(ps.Error, "no"):
                next(iter(ds))
            epochs.append(ds.state_dict()["epoch"])
        assert epochs == [0, 1, 2]
        gone = []
        for make in (lambda ds: ds, mapped):
            ds = make(ps.range(1000).batch(4))
            next(iter(ds))
            gone.append(weakref.ref(ds))
        del ds
        for _ in range(20000):  # functions that are at work have it until they return
            if any(ref() for ref in gone):
                time.sleep(0.01)
        assert not any(ref() for ref in gone)
    finally:
        gc.enable()


def test_close_and_cancel_reach_every_iterator():
    for make in (lambda ds: ds, mapped):
        for end, status in ((ps.Dataset.close, ("PST_ECANCELLED", "PST_EINVAL")), (ps.Dataset.cancel, ("PST_ECANCELLED",))):
            ds = make(ps.range(10**6).batch(4))
            loops = [iter(ds), iter(ds), iter(ds)]
            for loop in loops:
                next(loop)
            end(ds)
            for loop in loops:
                try:
                    for _ in range(100):  # batches that were ready may still come
                        next(loop)
                    raise AssertionError("it goes on")
                except ps.Error as error:
                    assert error.status in status, error.status


def closed_at(question, line):
    """Asks a dataset something, and closes it as another thread may: before the line of Dataset's that is run as this one."""
    ds, count = mapped(ps.range(100).batch(10)), 0

    def trace(frame, event, _):
        nonlocal count
        if event == "line" and frame.f_code.co_filename.endswith("_dataset.py"):
            count += 1
            if count == line:
                ds.close()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        question(ds)
    except ps.Error as error:
        assert "cancelled" in str(error) or "closed" in str(error), error
    finally:
        sys.settrace(before)
    return count >= line


def test_close_at_any_moment():
    """Whatever another thread asks for meanwhile, it gets an answer, or is told of it."""
    for question in (iter, ps.Dataset.plan, ps.Dataset.state_dict, ps.Dataset.stats, len):
        line = 1
        while closed_at(question, line):
            line += 1
        assert line > 3, question


def test_pickled_datasets_work():
    ds = pickle.loads(pickle.dumps(ps.range(10).shuffle(seed=2).batch(5)))
    assert values(ds) == values(ps.range(10).shuffle(seed=2).batch(5))


def test_from_arrays():
    x, y = memoryview(array.array("f", range(12))).cast("B").cast("f", (4, 3)), array.array("q", [3, 2, 1, 0])
    for given, names in (((x, y), ["x", "y"]), ({"image": x, "label": y}, ["image", "label"])):
        ds = ps.from_arrays(given).batch(3)
        assert list(ds.element_spec) == names
        assert [[t.tolist() for t in batch] for batch in ds] == [[x.tolist()[:3], [3, 2, 1]], [x.tolist()[3:], [0]]]
    with raises(ps.Error, "same number"):
        ps.from_arrays((x, array.array("q", [1]))).plan()
    ds = ps.from_arrays(bytearray(range(10))).batch(10)
    gc.collect()
    assert values(ds) == [list(range(10))]


def test_from_files():
    with scratch() as folder:
        path = images(folder, 8, 2)
        files = sorted(os.path.join(base, name) for base, _, names in os.walk(path) for name in names)
        ds = ps.from_files(files, [i % 3 for i in range(8)]).decode().resize(16).select("image", "label").batch(8)
        image, label = next(iter(ds))
        assert image.shape == (8, 16, 16, 3) and label.tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
        again = ps.from_files(files, [i % 3 for i in range(8)]).decode().resize(16).select("image", "label").batch(8)
        again.load_state_dict(ds.state_dict())
        assert "label" not in ps.from_files(files).element_spec
        with raises(ValueError, "8 paths and 1 labels"):
            ps.from_files(files, [1])


def test_from_files_takes_names_as_they_are():
    """No list is written anywhere, and nothing in a name is taken for one's syntax."""
    with scratch() as folder:
        before = set(os.listdir(tempfile.gettempdir()))
        names = ["path", "a,b.jpg", 'say "x".txt', "two words", "ü;|\t.png", "line\nbreak"]
        paths = [os.path.join(folder, name) for name in names] + [os.path.join(os.fsencode(folder), b"\xff\xfe")]
        for i, path in enumerate(paths):
            with open(path, "wb") as file:
                file.write(b"%d" % i)
        ds = ps.from_files(paths, ["dog", "cat"] * 3 + ["dog"]).batch(9)
        batch = next(iter(ds))
        assert batch["image"].tolist() == [b"%d" % i for i in range(7)] and batch["label"].tolist() == [1, 0, 1, 0, 1, 0, 1]
        assert batch["key"].tolist() == [os.fsencode(path) for path in paths]
        copy = pickle.loads(pickle.dumps(ds))
        copy.load_state_dict(ds.state_dict())
        os.chdir(folder)
        assert next(iter(ps.from_files(["two words"]).batch(1)))["image"].tolist() == [b"3"]
        os.chdir("/")
        ds.close(), copy.close()
        new = {name for name in set(os.listdir(tempfile.gettempdir())) - before if name.endswith(".csv")}
        assert not new, f"left behind: {new}"
        with raises(ps.Error, "names no files"):
            ps.from_files([]).plan()


def test_a_second_iterator_beside_one_that_waits():
    """It is made at once, while the first one waits for a batch in another thread; and so is told where that stands."""
    go, entered = threading.Event(), threading.Event()

    def wait(value):
        if value == 4 and not entered.is_set():
            entered.set()
            go.wait(240)
        return value

    ds = ps.range(8).map(wait, spec={"value": "int64"}).batch(4).with_options(workers=1)
    first, seen, made = iter(ds), [], []
    assert next(first)[0].tolist() == [0, 1, 2, 3]
    waiting = threading.Thread(target=lambda: seen.append(next(first)[0].tolist()))
    waiting.start()
    try:
        assert entered.wait(240)
        time.sleep(0.2)  # now it waits, with the pipeline's lock
        beside = threading.Thread(target=lambda: made.extend([ds.state_dict()["next"], values([*iter(ds)])]))
        beside.start()
        beside.join(120)
        assert made == [1, [[0, 1, 2, 3], [4, 5, 6, 7]]] and not seen, "it waits for the first one's batch"
    finally:
        go.set()
        waiting.join(240)
    assert seen == [[4, 5, 6, 7]]
    ds.close()


def test_class_names():
    with scratch() as folder:
        path = images(folder, 20, 2, 24)
        names = sorted(os.listdir(path))
        assert ps.folder(path).class_names == names
        assert ps.folder(path).decode().resize(16).batch(4).class_names == names
        with tarfile.open(f"{folder}/photos.tar", "w") as archive:
            archive.add(path, "photos")
        tar = ps.tar(f"{folder}/photos.tar")
        assert tar.class_names == names and tar.decode().resize(16).batch(4).class_names == names
        want = {bytes(e["image"]): int(e["label"]) for e in ps.folder(path)}
        assert {bytes(e["image"]): int(e["label"]) for e in tar} == want and len(want) == 20
        packed = os.path.join(folder, "packed")
        ps.pack([path], packed)
        assert ps.tfrecord(packed).example().batch(4).class_names == names
        files = [os.path.join(path, name, os.listdir(os.path.join(path, name))[0]) for name in names]
        assert ps.from_files(files, ["b", "a"]).class_names == ["a", "b"]
        assert ps.from_files(files, [3, 4]).class_names is None


def test_image_dataset_from_directory():
    with scratch() as folder:
        path = images(folder, 20, 2, 24)
        ds = ps.image_dataset_from_directory(path, image_size=(20, 16), batch_size=8, shuffle=False)
        assert ds.class_names == sorted(os.listdir(path)) and len(ds.file_paths) == 20
        made = (ds.map(lambda image, label: (image, label)), ds.prefetch(2), ds.distributed(0, 2), ds.with_options(seed=1))
        for other in (*made, pickle.loads(pickle.dumps(ds)), copy.copy(ds)):
            assert (other.class_names, other.file_paths) == (ds.class_names, ds.file_paths), other
        assert ps.range(3).file_paths is None and ps.range(3).class_names is None
        assert ds.element_spec == {"image": ((None, 20, 16, 3), "float32"), "label": ((None,), "int32")}
        image, label = next(iter(ds))
        assert 1 < max(image[0][0][0].tolist()) <= 255 and label.tolist() == [0] * 8
        spec = ps.image_dataset_from_directory(path, label_mode="categorical", color_mode="grayscale").element_spec
        assert spec == {"image": ((None, 256, 256, 1), "float32"), "label": ((None, 2), "float32")}
        assert ps.image_dataset_from_directory(path, label_mode="binary").element_spec["label"] == ((None, 1), "float32")
        assert list(ps.image_dataset_from_directory(path, label_mode=None).element_spec) == ["image"]
        halves = [
            ps.image_dataset_from_directory(path, validation_split=0.25, subset=subset, seed=3)
            for subset in ("training", "validation")
        ]
        assert [sum(batch.size for batch in half) for half in halves] == [15, 5]
        for wrong, words in (
            ({"label_mode": "x"}, "label_mode"),
            ({"validation_split": 0.1}, "go together"),
            ({"color_mode": "cmyk"}, "rgb"),
            ({"validation_split": 0.1, "subset": "training"}, "seed"),
        ):
            with raises(ValueError, words):
                ps.image_dataset_from_directory(path, **wrong)


def test_decode_raw():
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        with ps.TFRecordWriter(path) as writer:
            for i in range(6):
                writer.write(ps.Example(data=array.array("f", [i, i + 0.5]).tobytes(), label=i))
        ds = ps.tfrecord(path).example("data:bytes label:int64").decode_raw("float32", (2,), field="data").batch(6)
        assert ds.element_spec["data"] == ((6, 2), "float32")
        data, label = next(iter(ds))
        assert data.tolist() == [[i, i + 0.5] for i in range(6)] and label.tolist() == list(range(6))
        with raises(ps.Error, "8 bytes, expected 12"):
            values(ps.tfrecord(path).example("data:bytes").decode_raw("float32", (3,), field="data").batch(6))
        assert ps.tfrecord(path).example("data:bytes").decode_raw("int32", field="data").batch(4).element_spec[
            "data"
        ].shape == (None, None)


def test_html():
    with scratch() as folder:
        ds = ps.folder(images(folder)).decode().resize(64).batch(16)
        page = ds._repr_html_()
        assert "data:image/png;base64,iVBOR" in page and "delivers" in page
        labels = [ds.class_names[label] for label in next(iter(ds))["label"].tolist()]
        assert f"labels: {', '.join(labels[:6])}<br>" in page, page[-300:]
        assert "data:image" in ds.normalize("imagenet").layout("nchw")._repr_html_()
    assert "<img" not in ps.range(3).batch(3)._repr_html_()


HEAVY = {"numpy", "torch", "tensorflow", "jax", "inspect", "multiprocessing", "asyncio", "ctypes", "logging", "subprocess", "socket", "ssl", "http",
         "urllib", "email", "concurrent", "json", "dataclasses", "typing"}


def test_import_is_light():
    """Few modules, none of them heavy. How many of the standard library are there before differs between installations."""
    done = child("import sys\nbefore = set(sys.modules)\nimport penstock\nprint(*sorted(set(sys.modules) - before))")
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.split())
    assert "penstock._core" in modules and not HEAVY & modules, HEAVY & modules
    assert len(modules) < 75, modules  # each costs about a millisecond


if __name__ == "__main__":
    tap.main(globals())
