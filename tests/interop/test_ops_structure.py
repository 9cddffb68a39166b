"""Structural operations of pipelines against TensorFlow: sources, order, batches, fields and types. Everything runs through
`penstock cat --json` and is compared value by value; where a field is too long to be written out, by the digest of its bytes.

What is deliberately not as in TensorFlow, and tested as such:
- tfrecord: files are read in byte order of their paths however they are named, so that the order does not depend on a shell or
  a file system, and one that is named twice is read once; tf.data keeps the order of a list, and repeats.
- shuffle: another order than tf.data's for the same seed. Ours is exact and global over an index; over a stream,
  shuffle(1000) has a buffer of 1000 elements, too. What is compared: every pass is a permutation, seeds, reshuffling, how far elements move.
- one_hot: a number that is no class is an error; TensorFlow makes a row of zeros, and a wrong label trains on unnoticed.
- cast to integers rounds to the nearest even and saturates, NaN is 0; tf.cast cuts off the fraction, and what is out of range
  is undefined there. tf.saturate_cast(tf.round(x)) is the same thing. To floating point we round once and keep numbers below
  2^-126; TensorFlow rounds float64 to 16 bits by way of float32 and takes such numbers for 0. NumPy has our results.
- example: a feature that nothing behind it uses is not parsed, so it may be missing or of another type.
- folder: labels are int64 (keras: int32), WebP counts as an image, and which files are set aside for validation is another
  choice of as many. A batch of images whose sizes differ is refused, as tf.data's batch does.
- npy: bool and whole numbers of other widths arrive as int32 or int64, the nearest type that holds them all.
"""
import contextlib
import csv
import io
import itertools
import json
import os
import random

import numpy as np
import tensorflow as tf
from PIL import Image

import tap
from tool import penstock, scratch

ALL = ("--head", 0, "--values", 1 << 20)


def elements(text, *options):
    """The fields of every element of the first epoch."""
    return [json.loads(line)["fields"] for line in penstock("cat", text, "--json", *ALL, *options).splitlines()]


def batches(text, most=10000):
    return [json.loads(line)["fields"]
            for line in penstock("cat", text, "--json", "--batches", most, "--values", 1 << 20).splitlines()]


def refused(text, status=3):
    """What the tool says about a pipeline that fails: on its data (3), or already in its plan (2)."""
    return json.loads(penstock("cat", text, "--json", *ALL, status=status).splitlines()[-1])["error"]["message"]


def fnv(data, digest=0xCBF29CE484222325):
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest


def shown(data):
    """Bytes as `cat --json` writes them: text as it is, anything else by its length and digest."""
    try:
        text = data.decode()
        if all(c >= " " and c != "\x7f" or c in "\n\r\t" for c in text):
            return text
    except UnicodeDecodeError:
        pass
    return {"bytes": len(data), "digest": f"{fnv(data):016x}"}


def same_bytes(got, data):
    """An image among them also has its format and size."""
    want = shown(data)
    return got == want or isinstance(got, dict) and {key: got[key] for key in ("bytes", "digest")} == want


def listed(dataset):
    return [value.tolist() if isinstance(value, np.ndarray) else int(value) for value in dataset.as_numpy_iterator()]


def values(text):
    return [element["value"] for element in elements(text)]


# ---- Sources ----

def write_records(path, records, kind=""):
    with tf.io.TFRecordWriter(path, kind) as writer:
        for record in records:
            writer.write(record)


def test_tfrecord():
    """Every compression, named by pattern, folder and list; empty records and empty files."""
    rng = random.Random(1)
    for name, kind in (("none", ""), ("gzip", "GZIP"), ("zlib", "ZLIB")):
        with scratch() as folder:
            paths = []
            for number in (2, 0, 10, 1):
                paths.append(os.path.join(folder, f"part-{number}.tfrecord"))
                write_records(paths[-1], [rng.randbytes(rng.choice((0, 1, 7, 300, 5000))) for _ in range(3 * number)], kind)
            pattern = os.path.join(folder, "part-*.tfrecord")
            orders = {f"'{pattern}'": tf.data.Dataset.list_files(pattern, shuffle=False),
                      f"'{folder}'": sorted(paths), " ".join(f"'{path}'" for path in paths): sorted(paths),
                      f"'{paths[2]}' '{folder}/part-1.*'": [paths[3], paths[2]], f"'{folder}' '{paths[0]}'": sorted(paths)}
            for text, files in orders.items():
                want = [record.numpy() for record in tf.data.TFRecordDataset(files, kind)]
                got = elements(f"tfrecord {text}")
                assert len(got) == len(want) and all(same_bytes(g["record"], w) for g, w in zip(got, want)), (name, text)
                got = elements(f"tfrecord {text} | skip 4 | shard 3 1 | take 7")
                assert [g["record"] for g in got] == [shown(w) for w in want[4:][1::3][:7]], (name, text)


def test_range():
    for arguments in ((7,), (0,), (-3,), (3, 9), (9, 3), (2, 20, 3), (20, 3, -2), (3, 20, -2), (-5, 5, 4),
                      (-(1 << 62), -(1 << 62) + 3), ((1 << 63) - 4, (1 << 63) - 1)):
        text = "range " + " ".join(map(str, arguments))
        assert values(text) == listed(tf.data.Dataset.range(*arguments)), text
    most = (1 << 63) - 1
    assert values(f"range 0 {most} {1 << 61}") == list(range(0, most, 1 << 61)), "where tf.data overflows and never ends"


def test_npy():
    rng = np.random.default_rng(2)
    with scratch() as folder:
        for kind in ("<i1", "<i2", "<i4", "<i8", "<u1", "<u2", "<u4", "<f2", "<f4", "<f8", ">i2", ">i8", ">f4", ">f8", "?"):
            for order, shape in (("C", (7,)), ("C", (5, 3, 2)), ("C", (3, 0)), ("C", (0, 4)), ("F", (5, 3, 2)), ("F", (4, 6))):
                bits = rng.bytes(max(1, int(np.prod(shape))) * 8)
                array = np.frombuffer(bits, np.uint8)[:int(np.prod(shape)) * np.dtype(kind).itemsize]
                array = (array & 1).astype(bool) if kind == "?" else array.view(kind)
                array = np.nan_to_num(array.reshape(shape), posinf=1, neginf=-1).astype(kind)
                path = os.path.join(folder, "x.npy")
                np.save(path, np.asarray(array, order=order))
                got = [element["x"] for element in elements(f"npy '{path}'")]
                want = np.load(path)
                assert got == want.astype(int if kind == "?" else want.dtype).tolist() or \
                    kind[1:2] == "f" and np.array_equal(np.array(got, want.dtype).reshape(shape), want), (kind, shape)
        np.save(os.path.join(folder, "x.npy"), np.array(["", "é€", "a\U0001f600"]))
        assert [element["x"] for element in elements(f"npy '{folder}/x.npy'")] == ["", "é€", "a\U0001f600"]
        words = np.array([b"", b"one", b"three"])
        np.save(os.path.join(folder, "word.npy"), words)
        np.save(os.path.join(folder, "n.npy"), np.arange(3, dtype=np.int32))
        got = elements(f"npy '{folder}/word.npy' '{folder}/n.npy'")
        slices = tf.data.Dataset.from_tensor_slices({"word": words, "n": np.arange(3)})
        assert got == [{"word": e["word"].decode(), "n": int(e["n"])} for e in slices.as_numpy_iterator()]
        np.save(os.path.join(folder, "n.npy"), np.arange(4))
        assert "rows" in refused(f"npy '{folder}/word.npy' '{folder}/n.npy'", 2)


def save_image(folder, name, rng):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Image.frombytes("RGB", (4, 3), rng.randbytes(36)).save(path)


def photos(folder):
    """Class folders as people have them: numbers that sort as text, capitals, hidden things, folders within, an empty one."""
    rng = random.Random(3)
    for name in ("class2/b.jpg", "class2/a.PNG", "class2/deep/a.jpg", "class2/deeper.jpg", "class10/1.jpeg", "class10/10.bmp",
                 "class10/2.gif", "Zebra/z.jpg", "ähre/ü.png", "_under/x.jpg", "stray.jpg"):
        save_image(folder, name, rng)
    for number in range(40):
        save_image(folder, f"many/{number}.bmp", rng)
    os.makedirs(os.path.join(folder, "empty"))
    for name in ("class2/notes.txt", "class10/.hidden", ".git/x.jpg"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "w") as out:
            out.write("no image")


def keras_folder(folder, **options):
    with contextlib.redirect_stdout(io.StringIO()):  # it speaks of the split even when told not to
        return tf.keras.utils.image_dataset_from_directory(folder, **{"shuffle": False, "verbose": False, **options})


def keras_labels(dataset):
    return [int(label) for _, labels in dataset for label in labels]


def test_folder():
    with scratch() as folder:
        photos(folder)
        keras = keras_folder(folder)
        got = elements(f"folder '{folder}'")
        keys = [os.path.relpath(path, folder) for path in keras.file_paths]
        assert sorted(e["key"] for e in got) == sorted(keys)
        assert [e["label"] for e in got] == keras_labels(keras)
        assert {e["key"].split("/")[0]: e["label"] for e in got} == {
            name: number for number, name in enumerate(keras.class_names) if name != "empty"}
        flat = [key for key in keys if "deep" not in key]  # keras has files before those of folders within
        assert [e["key"] for e in got if "deep" not in e["key"]] == flat
        for e in got:
            with open(os.path.join(folder, e["key"]), "rb") as file:
                assert same_bytes(e["image"], file.read()), e["key"]
        plain = elements(f"folder '{folder}/many' labels=none")
        keras = keras_folder(f"{folder}/many", label_mode=None, labels=None)
        assert sorted(e["key"] for e in plain) == sorted(os.path.basename(path) for path in keras.file_paths)
        assert "label" not in plain[0]


def test_folder_split():
    """As many on each side, none on both, and none lost; which ones is another choice than keras'."""
    with scratch() as folder:
        photos(folder)
        for share in (0.1, 0.2, 1 / 3, 0.5, 0.99):
            sides = {}
            for subset in ("training", "validation"):
                keras = keras_folder(folder, shuffle=True, seed=5, validation_split=share, subset=subset)
                text = f"folder '{folder}' validation_split={share!r} subset={subset} seed=5"
                sides[subset] = [e["key"] for e in elements(text)]
                assert len(sides[subset]) == len(keras.file_paths), (share, subset)
            assert not set(sides["training"]) & set(sides["validation"])
            assert len(sides["training"] + sides["validation"]) == len(elements(f"folder '{folder}'"))
        other = [e["key"] for e in elements(f"folder '{folder}' validation_split=0.2 subset=validation seed=6")]
        assert other != [e["key"] for e in elements(f"folder '{folder}' validation_split=0.2 subset=validation seed=5")]


def test_files():
    with scratch() as folder:
        photos(folder)
        paths = [os.path.relpath(path, folder) for path in keras_folder(folder).file_paths]
        random.Random(4).shuffle(paths)
        rows = [(path, path.split("/")[0]) for path in paths] + [(paths[0], "with, comma"), (paths[1], 'with "quotes"')]
        with open(os.path.join(folder, "list.csv"), "w", newline="") as out:
            csv.writer(out).writerows([("path", "label"), *rows])
        names = sorted({label for _, label in rows}, key=str.encode)
        got = elements(f"files '{folder}/list.csv'")
        assert [(e["key"], e["label"]) for e in got] == [(path, names.index(label)) for path, label in rows]
        dataset = tf.data.Dataset.from_tensor_slices([os.path.join(folder, path) for path, _ in rows]).map(tf.io.read_file)
        assert all(same_bytes(e["image"], data) for e, data in zip(got, dataset.as_numpy_iterator(), strict=True))
        with open(os.path.join(folder, "list.txt"), "w") as out:
            out.writelines(path + "\n" for path in paths)
        assert [e["key"] for e in elements(f"files '{folder}/list.txt'")] == paths


# ---- Examples ----

def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features):
    return tf.train.Example(features=tf.train.Features(
        feature={name: feature(values) for name, values in features.items() if values})).SerializeToString()


SCHEMA = ("id:int64 words:bytes[2] grid:float[2,3] w:float=1.5 kind:int64=-7 note:bytes=none far:int64[2]=4 "
          "tags:bytes[*] scores:float[*] steps:int64[*] boxes:float[*,4]")
FEATURES = {
    "id": tf.io.FixedLenFeature([], tf.int64), "words": tf.io.FixedLenFeature([2], tf.string),
    "grid": tf.io.FixedLenFeature([2, 3], tf.float32), "w": tf.io.FixedLenFeature([], tf.float32, 1.5),
    "kind": tf.io.FixedLenFeature([], tf.int64, -7), "note": tf.io.FixedLenFeature([], tf.string, "none"),
    "far": tf.io.FixedLenFeature([2], tf.int64, [4, 4]),
    "tags": tf.io.RaggedFeature(tf.string), "scores": tf.io.RaggedFeature(tf.float32), "steps": tf.io.RaggedFeature(tf.int64),
    "boxes": tf.io.RaggedFeature(tf.float32, partitions=[tf.io.RaggedFeature.UniformRowLength(4)])}


def random_examples(count, seed):
    rng = random.Random(seed)

    def floats(n):
        return [float(np.float32(rng.choice((rng.uniform(-1, 1), rng.uniform(-1e30, 1e30), 0.1, 3e-42)))) for _ in range(n)]

    def ints(n):
        return [rng.choice((0, -1, 127, 128, 1 << 62, -(1 << 63), (1 << 63) - 1, rng.getrandbits(40))) for _ in range(n)]

    def words(n):
        return [rng.choice((b"", b"red", "grün".encode(), b"\xff\x00raw")) for _ in range(n)]

    return [example(id=[number], words=words(2), grid=floats(6), w=floats(rng.randrange(2)), kind=ints(rng.randrange(2)),
                    note=words(rng.randrange(2)), far=ints(rng.choice((0, 2))), tags=words(rng.randrange(4)),
                    scores=floats(rng.randrange(5)), steps=ints(rng.randrange(3)), boxes=floats(4 * rng.randrange(3)))
            for number in range(count)]


def plain(value):
    """A tensor of TensorFlow, ragged or not, as `cat --json` writes it."""
    if isinstance(value, tf.RaggedTensor):
        return [plain(row) for row in value]
    value = value.numpy() if hasattr(value, "numpy") else value
    if isinstance(value, bytes):
        return shown(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(v) for v in value]
    return value.tolist()


def same_values(got, want):
    """Equal; floats as float32, which is what both are."""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same_values, got, want))
    return np.float32(got) == np.float32(want) if isinstance(want, float) else got == want


def test_example():
    """Fixed and varying length, defaults, missing features, bytes that are no text: batch by batch what parse_example gives."""
    records = random_examples(61, 5)
    with scratch() as folder:
        for kind in ("", "GZIP"):
            path = os.path.join(folder, f"a{kind}.tfrecord")
            write_records(path, records, kind)
            dataset = tf.data.TFRecordDataset(path, kind).batch(8).map(lambda batch: tf.io.parse_example(batch, FEATURES))
            got = batches(f"tfrecord '{path}' | example '{SCHEMA}' | batch 8")
            for ours, theirs in itertools.zip_longest(got, dataset):
                for name, value in theirs.items():
                    assert same_values(ours[name], plain(value)), (name, ours[name], plain(value))
            singles = elements(f"tfrecord '{path}' | example '{SCHEMA}'")
            for ours, record in zip(singles, records, strict=True):
                for name, value in tf.io.parse_single_example(record, FEATURES).items():
                    assert same_values(ours[name], plain(value)), name


def test_example_errors():
    """What tf.io.parse_example refuses, we refuse, by name; unless nothing uses the feature."""
    good = dict(id=[1], x=[1.0, 2.0])
    cases = {"missing": (dict(id=[1]), "x"), "too few": (dict(id=[1], x=[1.0]), "x"),
             "too many": (dict(id=[1], x=[1.0] * 3), "x"), "another type": (dict(id=[1], x=[1, 2]), "x"),
             "bytes": (dict(id=[b"1"], x=[1.0, 2.0]), "id")}
    spec = {"id": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([2], tf.float32)}
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        for name, (features, where) in cases.items():
            records = [example(**good), example(**features), example(**good)]
            write_records(path, records)
            os.path.exists(path + ".pidx") and os.remove(path + ".pidx")
            try:
                tf.io.parse_example(records, spec)
                raise AssertionError(f"{name}: TensorFlow accepts it")
            except tf.errors.InvalidArgumentError:
                pass
            text = f"tfrecord '{path}' | example 'id:int64 x:float[2]'"
            message = refused(text)
            assert f"'{where}'" in message, (name, message)
            other = "id" if where == "x" else "x"
            assert len(elements(f"{text} | select {other}")) == 3, f"{name}: a feature that nothing uses"


def test_example_inferred():
    """Without a schema: the types and counts that the records have."""
    records = [example(id=[n], x=[n / 2.0, n / 3.0], name=[b"n%d" % n], many=list(range(n % 3))) for n in range(20)]
    spec = {"id": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([2], tf.float32),
            "name": tf.io.FixedLenFeature([], tf.string), "many": tf.io.RaggedFeature(tf.int64)}
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        write_records(path, records)
        ours, = batches(f"tfrecord '{path}' | example | batch 20")
        for name, value in tf.io.parse_example(records, spec).items():
            assert same_values(ours[name], plain(value)), name


# ---- Order ----

def random_chain(rng):
    """Operations as text and as tf.data has them; a repeat without end is followed by a take."""
    text, steps, batched, endless = [], [], False, False
    for _ in range(rng.randrange(1, 6)):
        name = rng.choice(("take", "skip", "repeat", "shard") + (() if batched else ("batch",)))
        if name in ("take", "skip"):
            n = rng.choice((-1, 0, 1, 2, 5, 13, 40) if name == "take" else (-1, 0, 1, 1, 2, 2, 3, 3, 5, 5, 13))
            if endless and n < 0:
                n = 3
            endless = endless and name == "skip"
            text.append(f"{name} {n}")
            steps.append(lambda d, name=name, n=n: getattr(d, name)(n))
        elif name == "repeat":
            n = -1 if rng.random() < 0.2 else rng.choice((0, 1, 2, 2, 3, 3))
            endless = endless or n < 0
            text.append(f"repeat {n}" if n >= 0 or rng.random() < 0.5 else "repeat")
            steps.append(lambda d, n=n: d.repeat(n))
        elif name == "shard":
            n = rng.randrange(1, 5)
            i = rng.randrange(n)
            text.append(f"shard {n} {i}")
            steps.append(lambda d, n=n, i=i: d.shard(n, i))
        else:
            n, drop = rng.randrange(1, 8), rng.random() < 0.5
            batched = True
            text.append(f"batch {n} drop_remainder={str(drop).lower()}")
            steps.append(lambda d, n=n, drop=drop: d.batch(n, drop))
    if endless:
        n = rng.randrange(30)
        text.append(f"take {n}")
        steps.append(lambda d: d.take(n))
    return text, steps, batched


def test_chains():
    """take, skip, repeat, shard and batch in any order and number, negative counts too, over an index and over a stream."""
    rng = random.Random(6)
    nothing = 0
    with scratch() as folder:
        for count in (0, 1, 10, 23):
            write_records(os.path.join(folder, f"{count}.gz"), [b"%d" % i for i in range(count)], "GZIP")
        for round_ in range(150):
            count = rng.choice((0, 1, 10, 10, 23, 23, 23))
            text, steps, batched = random_chain(rng)
            dataset = tf.data.Dataset.range(count)
            for step in steps:
                dataset = step(dataset)
            want = listed(dataset)
            nothing += not want
            chain = " | ".join(text)
            index = f"range {count} | {chain}"
            got = [batch["value"] for batch in batches(index)] if batched else values(index)
            assert got == want, f"{count}: {chain}: {got}, tf.data has {want}"
            if count and round_ % 3 == 0:
                stream = f"tfrecord '{folder}/{count}.gz' | {chain}"
                got = [b["record"] for b in batches(stream)] if batched else [e["record"] for e in elements(stream)]
                got = [list(map(int, row)) if batched else int(row) for row in got]
                assert got == want, f"{count}: {chain} over a stream: {got}, tf.data has {want}"
    print(f"# 150 chains, {nothing} of them empty")


def passes(text, count):
    """The values of a chain in parts of `count`."""
    got = values(text)
    return [got[i:i + count] for i in range(0, len(got), count)]


def test_shuffle():
    """Every pass is a permutation; seeds and reshuffling do what they do in tf.data."""
    n = 97
    for options in ("", "reshuffle=false", "window=32", "window=32 reshuffle=false"):
        reshuffle = "reshuffle" not in options
        ours = passes(f"range {n} | shuffle seed=3 {options} | repeat 3", n)
        theirs = listed(tf.data.Dataset.range(n).shuffle(n, seed=3, reshuffle_each_iteration=reshuffle).repeat(3))
        theirs = [theirs[i:i + n] for i in range(0, 3 * n, n)]
        for order in ours + theirs:
            assert sorted(order) == list(range(n)) and order != list(range(n)), options
        for order in (ours, theirs):
            assert (order[0] == order[1] == order[2]) == (not reshuffle), options
            assert len({tuple(o) for o in order}) == (3 if reshuffle else 1), options
        assert passes(f"range {n} | shuffle seed=3 {options} | repeat 3", n) == ours, "the same seed"
        assert passes(f"range {n} | shuffle seed=4 {options} | repeat 3", n) != ours, "another seed"
        if reshuffle:
            kept = passes(f"range {n} | shuffle seed=3 {options} | take 10 | repeat 2", 10)
            assert set(kept[0]) != set(kept[1]), "each pass draws its own ten, as in tf.data"
    both = values(f"range {n} | repeat 2 | shuffle seed=3")
    assert sorted(both) == sorted([*range(n), *range(n)]) and sorted(both[:n]) != list(range(n)), "passes mix behind a repeat"
    assert values(f"range {n} | shuffle | batch 10") != values(f"range {n} | shuffle seed=1 | batch 10")
    rows = [batch["value"] for batch in batches(f"range {n} | batch 10 | shuffle seed=3")]
    assert sorted(row[0] for row in rows) == list(range(0, n, 10)) and rows != sorted(rows), "behind batch: batches"
    assert all(row == list(range(row[0], min(row[0] + 10, n))) for row in rows)


def test_shuffle_of_a_stream():
    """An element comes at most as much too early as the buffer holds, as in tf.data: place >= number - (elements in it - 1)."""
    count, size = 400, 100
    with scratch() as folder:
        path = os.path.join(folder, "a.gz")
        write_records(path, [b"%0*d" % (size, i) for i in range(count)], "GZIP")
        for buffer in (10, 50):
            theirs = listed(tf.data.Dataset.range(count).shuffle(buffer, seed=1))
            ours = [int(e["record"]) for e in elements(f"tfrecord '{path}' | shuffle {buffer} seed=1")]
            early = [max(number - place for place, number in enumerate(order)) for order in (theirs, ours)]
            assert sorted(ours) == sorted(theirs) == list(range(count)) and ours != sorted(ours)
            assert early[0] <= buffer - 1 and 0 < early[1] <= buffer - 1, (buffer, early)
            assert early[0] == early[1], (buffer, early, "an element is an element")
            late = [max(place - number for place, number in enumerate(order)) for order in (theirs, ours)]
            assert late[1] > buffer, "some stay for long, as in tf.data"
            print(f"# buffer of {buffer}: up to {early[1]} early and {late[1]} late (tf.data: {early[0]} and {late[0]})")
        once = [e["record"] for e in elements(f"tfrecord '{path}' | shuffle 1K | repeat 2")]
        assert sorted(once[:count]) == sorted(once[count:]) == sorted(set(once)) and once[:count] != once[count:]
        still = [e["record"] for e in elements(f"tfrecord '{path}' | shuffle 1K reshuffle=false | repeat 2")]
        assert still[:count] == still[count:]
        whole = [int(e["record"]) for e in elements(f"tfrecord '{path}' | shuffle")]
        assert sum(abs(place - number) for place, number in enumerate(whole)) / count > count / 5, "a buffer that holds all"


# ---- Batches ----

def test_batch_ragged():
    """Fields whose first dimension varies come as tf.data's ragged_batch has them; the others as batch has them."""
    rng = random.Random(7)
    rows = [dict(id=[n], tags=[b"t%d" % k for k in range(rng.randrange(4))], boxes=[k / 4 for k in range(4 * rng.randrange(3))])
            for n in range(23)]
    spec = {"id": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.FixedLenSequenceFeature([], tf.string, allow_missing=True),
            "boxes": tf.io.FixedLenSequenceFeature([4], tf.float32, allow_missing=True)}
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        write_records(path, [example(**row) for row in rows])
        for size, drop in itertools.product((1, 4, 23, 30), (False, True)):
            dataset = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec)).ragged_batch(size, drop)
            got = batches(f"tfrecord '{path}' | example 'id:int64 tags:bytes[*] boxes:float[*,4]' | "
                          f"batch {size} drop_remainder={str(drop).lower()}")
            want = list(dataset)
            assert len(got) == len(want), (size, drop)
            for ours, theirs in zip(got, want):
                for name, value in theirs.items():
                    assert same_values(ours[name], plain(value)), (size, name, ours[name], plain(value))


def test_prefetch_and_cache_are_neutral():
    """The same elements in the same order with and without; what a cache holds, and what of it does not fit, does not show."""
    records = random_examples(40, 8)
    with scratch() as folder:
        for kind in ("", "GZIP"):
            path = os.path.join(folder, f"a{kind}.tfrecord")
            write_records(path, records, kind)
            chain = f"tfrecord '{path}' | example '{SCHEMA}'{{}} | shuffle 4K seed=2 | repeat 3 | batch 7{{}}"
            want = batches(chain.format("", ""))
            assert len(want) == -(-3 * 40 // 7)
            for cache, prefetch in ((" | cache", ""), (" | cache 2K", ""), (" | cache 1", ""), ("", " | prefetch 1"),
                                    ("", " | prefetch"), (" | cache", " | prefetch 9")):
                assert batches(chain.format(cache, prefetch)) == want, (kind, cache, prefetch)
            dataset = tf.data.TFRecordDataset(path, kind).map(lambda r: tf.io.parse_single_example(r, FEATURES)["id"])
            got = [e["id"] for e in elements(f"tfrecord '{path}' | example '{SCHEMA}' | cache | repeat 2")]
            assert got == listed(dataset.cache().repeat(2))


# ---- Fields ----

def test_select_drop_rename():
    records = random_examples(9, 9)
    with scratch() as folder:
        path = os.path.join(folder, "a.tfrecord")
        write_records(path, records)
        start = f"tfrecord '{path}' | example '{SCHEMA}'"
        parsed = [{name: plain(value) for name, value in tf.io.parse_single_example(r, FEATURES).items()} for r in records]
        cases = {"select w id": ["w", "id"], "drop words grid w kind note far tags scores": ["id", "steps", "boxes"],
                 "select id w | rename id number": ["number", "w"], "select tags": ["tags"], "drop boxes | select id": ["id"]}
        for chain, names in cases.items():
            for ours, theirs in zip(elements(f"{start} | {chain}"), parsed, strict=True):
                assert list(ours) == names, (chain, list(ours))
                assert all(same_values(ours[name], theirs["id" if name == "number" else name]) for name in names), chain
        message = refused(f"{start} | select idd", 2)
        assert "idd" in message and "id" in message


def test_one_hot():
    with scratch() as folder:
        for labels in (np.array([0, 4, 2, 2, 1]), np.array([[0, 1], [4, 3], [2, 2]], np.int32)):
            path = os.path.join(folder, "label.npy")
            np.save(path, labels)
            got = [e["label"] for e in elements(f"npy '{path}' | one_hot 5")]
            assert got == tf.one_hot(labels, 5).numpy().tolist()
        for wrong in (5, -1):
            np.save(path, np.array([0, wrong, 1]))
            assert tf.one_hot([wrong], 5).numpy().sum() == 0
            assert "class" in refused(f"npy '{path}' | one_hot 5")


TYPES = {"u8": tf.uint8, "i32": tf.int32, "i64": tf.int64, "f16": tf.float16, "bf16": tf.bfloat16, "f32": tf.float32,
         "f64": tf.float64}


def cast_digest(folder, array, name):
    """The bytes of `array` cast by a pipeline, by their digest."""
    path = os.path.join(folder, "x.npy")
    np.save(path, array.reshape(1, -1))
    line = penstock("cat", f"npy '{path}' | cast {name} x", "--json", "--values", 1)
    return json.loads(line)["fields"]["x"]


def awkward(kind):
    """Numbers at and around every limit and every tie of the narrower types."""
    if kind.kind == "f":
        rng = np.random.default_rng(10)
        ties = np.arange(-300, 300) / 2
        limits = [sign * (limit + d) for limit in (255, 2**31 - 1) for sign in (1, -1) for d in (-1, -0.5, 0, 0.5, 1)]
        wide = rng.standard_normal(3000) * 10.0 ** rng.integers(-9, 7, 3000)
        bits = rng.integers(0, 1 << 16, 3000).astype(np.uint16).view(np.float16).astype(float)
        middle = (rng.integers(0, 1 << 15, 3000).astype(np.uint32) << 16 | 0x8000).view(np.float32)  # between two bfloat16
        exact = [65504, 65519.99, 65520, 65536, 6e-8, 2.98e-8, 2.9802322e-8, 5.96e-8, 1e-40, 3.4e38, 1e18, 0.0, -0.0]
        numbers = np.concatenate([ties, limits, wide, bits, middle, exact, [np.inf, -np.inf]]).astype(kind)
        return numbers[~np.isnan(numbers)]
    info = np.iinfo(kind)
    edges = [info.min, info.min + 1, -129, -128, -1, 0, 1, 127, 128, 255, 256, 65535, 1 << 24, (1 << 24) + 1, (1 << 25) + 1,
             info.max - 1, info.max]
    return np.array([edge for edge in edges if info.min <= edge <= info.max], kind)


def saturated(array, target):
    """The nearest even whole number, held at the limits."""
    info = np.iinfo(target)
    exact = np.rint(array) if array.dtype.kind == "f" else array
    return np.array([info.max if v > info.max else info.min if v < info.min else int(v) for v in exact.tolist()], target)


@np.errstate(over="ignore", invalid="ignore")
def test_cast():
    """Every type to every other, bit by bit: floating point as tf.cast, whole numbers as tf.saturate_cast of tf.round."""
    count = 0
    with scratch() as folder:
        for source in ("u1", "i4", "i8", "f2", "f4", "f8"):
            array = awkward(np.dtype("<" + source))
            for name, target in TYPES.items():
                value = tf.constant(array)
                if target.is_integer:
                    want = saturated(array, target.as_numpy_dtype)
                    small = np.abs(array.astype(float)) < 1 << 20  # beyond, TensorFlow stops at the last float before the limit
                    convert = tf.cast if (source, name) == ("i8", "i64") else tf.saturate_cast  # overflows on its way there
                    theirs = convert(tf.round(value) if source[0] == "f" else value, target).numpy()
                    assert (theirs == want)[small].all(), (source, name)
                else:
                    want = array.astype(target.as_numpy_dtype)
                    theirs = tf.cast(value, target).numpy()
                    normal = np.abs(array.astype(float)) >= 2.0**-126
                    assert (theirs == want)[normal].all() or source == "f8" and target.size == 2, (source, name)
                got = cast_digest(folder, array, name)
                assert got["shape"] == [len(array)]
                assert got["digest"] == f"{fnv(want.tobytes()):016x}", (source, name, got["dtype"])
                count += len(array)
        path = os.path.join(folder, "x.npy")
        np.save(path, np.array([np.nan, 300, -1, 2.5, 3.5], np.float32))
        assert [e["x"] for e in elements(f"npy '{path}' | cast u8 x")] == [0, 255, 0, 2, 4]
    print(f"# {count} casts")


def test_sizes_that_differ():
    """Images of several sizes in a batch: refused here with the remedy, and by tf.data without."""
    with scratch() as folder:
        for number, size in enumerate(((4, 3), (5, 3))):
            os.makedirs(f"{folder}/c", exist_ok=True)
            Image.new("RGB", size).save(f"{folder}/c/{number}.png")
        assert "resize" in refused(f"folder '{folder}' | decode | batch 2")
        dataset = tf.data.Dataset.list_files(f"{folder}/c/*").map(lambda p: tf.io.decode_png(tf.io.read_file(p))).batch(2)
        try:
            list(dataset)
            raise AssertionError("tf.data batches images of several sizes")
        except tf.errors.InvalidArgumentError:
            pass
        assert len(elements(f"folder '{folder}' | decode | resize 4 | batch 2")) == 2


if __name__ == "__main__":
    tap.main(globals())
