"""Random programs of the operations that divide a chain into segments, against tf.data, element by element: window (with batch),
batch of batches, unbatch, rebatch, padded_batch, ragged_batch, bucket (bucket_by_sequence_length), group (group_by_window)
and unique, mixed with take, skip, shard and repeat. A program that fails is shrunk; the seed and the text are printed.

    SEGMENTS_PROGRAMS=2000 SEGMENTS_SEED=1     how many programs, and which
"""

import os
import random
import tempfile

import numpy as np
import tap
import tensorflow as tf

import penstock as ps

PROGRAMS = int(os.environ.get("SEGMENTS_PROGRAMS", "100"))
SEED = int(os.environ.get("SEGMENTS_SEED", "1"))
SEQUENCES = 29


# ---- A program is a list of (name, arguments); its text and its tf.data are made from the same list ----

def text_of(source, program):
    def word(name, arguments):
        return " ".join([name, *(f"{k}={v}" if v != "" else k for k, v in arguments.items())])

    return " | ".join([source, *(word(*op) for op in program)])


def apply(dataset, name, a):
    """One operation of tf.data."""
    drop = a.get("drop_remainder") == "true"
    if name in ("take", "skip", "repeat"):
        return getattr(dataset, name)(a["count"])
    if name == "shard":
        return dataset.shard(a["count"], a["index"])
    if name == "batch":
        return dataset.batch(a["size"], drop_remainder=drop)
    if name == "rebatch":
        return dataset.rebatch(a["size"], drop_remainder=drop)
    if name == "unbatch":
        return dataset.unbatch()
    if name == "unique":
        return dataset.unique()
    if name == "window":
        windows = dataset.window(a["size"], a.get("shift"), a.get("stride", 1), drop)
        return windows.flat_map(lambda w: w.batch(a["size"]))
    if name == "group":
        key = (lambda e: e[a["field"]]) if isinstance(dataset.element_spec, dict) else (lambda e: e)
        return dataset.group_by_window(key, lambda _, d: d.batch(a["size"], drop_remainder=drop), window_size=a["size"])
    if name == "padded_batch":
        shapes = {k: s.shape for k, s in dataset.element_spec.items()}
        if a.get("length"):
            shapes["seq"] = [a["length"]]
        values = {k: tf.cast(a.get("value", 0), s.dtype) for k, s in dataset.element_spec.items()}
        return dataset.padded_batch(a["size"], shapes, values, drop_remainder=drop)
    if name == "ragged_batch":
        return dataset.ragged_batch(a["size"], drop_remainder=drop)
    assert name == "bucket", name
    return dataset.bucket_by_sequence_length(
        lambda e: tf.shape(e["seq"])[0], [int(b) for b in a["boundaries"].split(",")], [int(s) for s in a["sizes"].split(",")],
        padding_values={k: tf.cast(a.get("value", 0), s.dtype) for k, s in dataset.element_spec.items()},
        pad_to_bucket_boundary=a.get("pad_to_boundary") == "true", drop_remainder=drop)


# ---- What they deliver ----

def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def of_tensorflow(dataset, program):
    for name, arguments in program:
        dataset = apply(dataset, name, arguments)
    return [plain(e) for e in dataset]


def of_penstock(text, program, workers):
    result = []
    for batch in ps.pipeline(text, workers=workers):
        fields = {k: batch[k].tolist() for k in batch.keys()}
        result.append(fields["value"] if list(fields) == ["value"] else fields)
    return result


def attempt(make):
    try:
        return make()
    except (tf.errors.OpError, ps.Error, ValueError, TypeError) as error:
        return error


def differs(source, dataset, program, workers):
    """What is wrong; None: nothing. Where tf.data refuses a program, so do we, with one exception: elements of which only the
    first dimension differs come as a ragged batch."""
    want = attempt(lambda: of_tensorflow(dataset, program))
    got = attempt(lambda: of_penstock(text_of(source, program), program, workers))
    if isinstance(want, Exception) and "different shapes" in str(want):
        return None
    if isinstance(want, Exception) or isinstance(got, Exception):
        return None if isinstance(want, Exception) and isinstance(got, Exception) else f"tf.data: {want}\npenstock: {got}"
    return None if want == got else f"tf.data: {want}\npenstock: {got}"


def shrink(source, dataset, program, workers):
    again = True
    while again:
        again = False
        for i in range(len(program)):
            shorter = program[:i] + program[i + 1:]
            if attempt(lambda: differs(source, dataset, shorter, workers)) is not None:
                program, again = shorter, True
                break
    return program


def check(seed, source, dataset, program, workers):
    wrong = differs(source, dataset, program, workers)
    if wrong is not None:
        small = shrink(source, dataset, program, workers)
        raise AssertionError(f"seed {seed}, workers {workers}: {text_of(source, program)}\nshrunk: {text_of(source, small)}\n"
                             f"{differs(source, dataset, small, workers)}")


# ---- Programs ----

def drop(r):
    return {"drop_remainder": "true"} if r.random() < 0.5 else {}


def order(r):
    name = r.choice(["take", "skip", "shard", "repeat"])
    if name == "shard":
        count = r.randint(1, 3)
        return name, {"count": count, "index": r.randrange(count)}
    return name, {"count": r.randint(1, 3) if name == "repeat" else r.randint(0, 12)}


def of_numbers(r):
    """Over whole numbers: any operation at any place. `depth` counts the dimensions of an element."""
    program, depth = [], 0
    is_batched = False
    for _ in range(r.randint(1, 5)):
        name = r.choice(["order", "order", "batch", "window", "unbatch", "rebatch", "unique", "group"])
        total = depth + is_batched
        if name == "order":
            program.append(order(r))
        elif name == "batch" and total < 4:
            program.append(("batch", {"size": r.randint(1, 5), **drop(r)}))
            depth, is_batched = total, True
        elif name == "window" and total < 4:
            shift = {"shift": r.randint(1, 6)} if r.random() < 0.7 else {}
            stride = {"stride": r.randint(1, 3)} if r.random() < 0.5 else {}
            program.append(("window", {"size": r.randint(1, 5), **shift, **stride, **drop(r)}))
            depth, is_batched = total + 1, False
        elif name == "unbatch" and total > 0:
            program.append(("unbatch", {}))
            depth, is_batched = total - 1, False
        elif name == "rebatch" and total > 0:
            program.append(("rebatch", {"size": r.randint(1, 5), **drop(r)}))
            depth, is_batched = total - 1, True
        elif name == "unique" and total == 0:
            program.append(("unique", {}))
        elif name == "group" and total == 0:
            program.append(("group", {"field": "value", "size": r.randint(1, 3), **drop(r)}))
            is_batched = True
    return program


def of_sequences(r):
    """Over elements of different lengths: batches of several kinds."""
    program = [order(r) for _ in range(r.randint(0, 2))]
    kind = r.choice(["padded_batch", "ragged_batch", "bucket", "bucket"])
    size = {"size": r.randint(1, 6)}
    value = {"value": r.randint(-3, 3)} if r.random() < 0.5 else {}
    if kind == "padded_batch":
        length = {"length": r.randint(5, 9)} if r.random() < 0.3 else {}
        program.append((kind, {**size, **value, **length, **drop(r)}))
    elif kind == "ragged_batch":
        program.append((kind, {**size, **drop(r)}))
    else:
        ends = sorted(r.sample(range(1, 9), r.randint(1, 3)))
        sizes = [r.randint(1, 4) for _ in range(len(ends) + 1)]
        if r.random() < 0.3:
            ends.append(9)
            sizes.append(2)
            value["pad_to_boundary"] = "true"
        program.append((kind, {"field": "seq", "boundaries": ",".join(map(str, ends)), "sizes": ",".join(map(str, sizes)),
                               **value, **drop(r)}))
    if r.random() < 0.4:
        program.append(order(r))
    return program  # without unbatch: TensorFlow 2.21 crashes when a batch holds empty sequences only


# ---- Tests ----

def test_numbers():
    print(f"# seed {SEED}, {PROGRAMS} programs", flush=True)
    for i in range(PROGRAMS):
        r = random.Random(f"{SEED} numbers {i}")
        count = r.randint(0, 25)
        check(f"{SEED} {i}", f"range {count}", tf.data.Dataset.range(count), of_numbers(r), r.choice([1, 2, 4]))


def sequences(folder):
    """Two files of the same records: one with an index, one that is only a stream."""
    r = random.Random(5)
    data = [(i % 4, [r.randint(0, 99) for _ in range(r.randint(0, 8))], [i / 2, -i]) for i in range(SEQUENCES)]

    def feature(values, kind):
        return tf.train.Feature(**{f"{kind}_list": getattr(tf.train, kind.capitalize() + "List")(value=values)})

    for name, compression in (("plain.tfrecord", None), ("packed.tfrecord.gz", "GZIP")):
        with tf.io.TFRecordWriter(os.path.join(folder, name), compression) as writer:
            for key, seq, x in data:
                writer.write(tf.train.Example(features=tf.train.Features(feature={
                    "key": tf.train.Feature(int64_list=tf.train.Int64List(value=[key])),
                    "seq": tf.train.Feature(int64_list=tf.train.Int64List(value=seq)),
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x))})).SerializeToString())
    keys, seqs, xs = zip(*data)
    seqs = tf.ragged.constant(seqs, dtype=tf.int64)
    dataset = tf.data.Dataset.from_tensor_slices((np.array(keys, np.int64), seqs, np.array(xs, np.float32)))
    return dataset.map(lambda k, s, v: {"key": k, "seq": s, "x": v})


def test_sequences():
    with tempfile.TemporaryDirectory() as folder:
        dataset = sequences(folder)
        schema = 'example schema="key:int64 seq:int64[*] x:float[2]"'
        for i in range(PROGRAMS):
            r = random.Random(f"{SEED} sequences {i}")
            file = os.path.join(folder, r.choice(["plain.tfrecord", "packed.tfrecord.gz"]))
            source = f"tfrecord '{file}' | {schema}"
            check(f"{SEED} {i}", source, dataset, of_sequences(r), r.choice([1, 2, 4]))
            fixed = [("group", {"field": "key", "size": r.randint(1, 4), **drop(r)})] + [order(r) for _ in range(r.randint(0, 2))]
            check(f"{SEED} {i}", source + " | drop seq", dataset.map(lambda e: {"key": e["key"], "x": e["x"]}), fixed, 2)


def test_frameworks_take_ragged_batches():
    with tempfile.TemporaryDirectory() as folder:
        dataset = sequences(folder)
        file = os.path.join(folder, "plain.tfrecord")
        import penstock.tf

        ours = ps.pipeline(f"tfrecord '{file}' | example | select seq | ragged_batch 8")
        for got, want in zip(ours, dataset.ragged_batch(8), strict=True):
            made = penstock.tf.tensor(got["seq"])
            assert isinstance(made, tf.RaggedTensor) and made.to_list() == want["seq"].to_list()


if __name__ == "__main__":
    tap.main(globals())
