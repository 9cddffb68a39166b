"""The Python module with TensorFlow and Keras: tf.data, element_spec, ragged fields, model.fit."""

import gc
import itertools
import os
import tempfile
import time
import weakref

import keras
import numpy as np
import tap
import tensorflow as tf
from patience import memory_settles, wait_until
from python_data import before_and_after, example, image_shards, normalized

import penstock as ps
import penstock.tf
from penstock.keras import Batches


def test_no_copy():
    batch = next(iter(ps.from_arrays((np.ones((64, 8), np.float32), np.arange(64))).batch(64)))
    for field in batch:
        made = penstock.tf.tensor(field)
        assert np.from_dlpack(made).ctypes.data == field.data_ptr()
        assert np.array_equal(made.numpy(), np.asarray(field)) and made.dtype.name == field.dtype


def test_a_real_dataset():
    with image_shards() as (chain, pixels):
        source = chain.normalize("imagenet").batch(16)
        dataset = penstock.tf.dataset(source)
        assert isinstance(dataset, tf.data.Dataset) and int(dataset.cardinality()) == 4 == len(dataset)
        assert dataset.element_spec == (tf.TensorSpec((None, 20, 24, 3), tf.float32), tf.TensorSpec((None,), tf.int64))
        for images, labels in dataset.map(lambda x, y: (x, y)):
            assert np.allclose(images.numpy(), normalized(pixels[labels.numpy()]), atol=2e-6)
        assert penstock.tf.dataset(source, as_dict=True).element_spec.keys() == {"image", "label"}
        assert sum(1 for _ in dataset) == 4


def test_elements_without_batch():
    chain = ps.from_files([__file__, tap.__file__], [3, 4])
    dataset = penstock.tf.dataset(chain, as_dict=True)
    assert {name: spec.shape.rank for name, spec in dataset.element_spec.items()} == {"image": 0, "label": 0, "key": 0}
    assert [int(element["label"]) for element in dataset] == [3, 4]
    assert [len(element["image"].numpy()) for element in dataset] == [os.path.getsize(path) for path in (__file__, tap.__file__)]
    rows = ps.from_generator(lambda: ({"x": np.ones(n, np.float32)} for n in (1, 3)), spec={"x": ("float32", (None,))})
    assert [x.numpy().tolist() for (x,) in penstock.tf.dataset(rows)] == [[1], [1, 1, 1]]
    pairs = ps.from_arrays((np.ones((4, 3), np.float32), np.arange(4)))
    assert [x.shape + y.shape for x, y in (Batches(pairs)[i] for i in range(4))] == [(1, 3, 1)] * 4  # Keras takes batches only


class Watched(ps.Dataset):
    """Notes where the memory of its batches lies."""

    def __init__(self, chain):
        super().__init__(chain._nodes, chain._options)
        self.places = []

    def __iter__(self):
        for batch in super().__iter__():
            (field,) = batch
            self.places.append(field.data_ptr() if field.row_splits is None else field.values.data_ptr())
            yield batch


def test_batches_of_a_dataset_are_not_copied():
    table = ps.from_arrays(np.arange(640, dtype=np.float32).reshape(64, 10))
    for short, dtype in (("u8", "uint8"), ("i32", "int32"), ("i64", "int64"), ("f16", "float16"), ("bf16", "bfloat16"),
                         ("f32", "float32"), ("f64", "float64")):
        source = Watched(table.cast(short, field="x").batch(24))
        made = list(penstock.tf.dataset(source))
        assert [len(x) for (x,) in made] == [24, 24, 16] and all(x.dtype.name == dtype for (x,) in made)
        assert dtype == "bfloat16" or [x._numpy().ctypes.data for (x,) in made] == source.places, dtype
    rows = ps.from_generator(lambda: ({"x": np.ones(40 * n, np.float32)} for n in range(1, 7)), spec={"x": ("float32", (None,))})
    source = Watched(rows.batch(2))
    assert [x.values._numpy().ctypes.data for (x,) in penstock.tf.dataset(source)] == source.places != []


def test_epochs_and_iterators():
    def values(dataset):
        return [x.tolist() for (x,) in dataset.as_numpy_iterator()]

    source = ps.range(40).shuffle(seed=1).batch(16)
    dataset = penstock.tf.dataset(source)
    want = ps.range(40).shuffle(seed=1).batch(16)
    epochs = [[batch["value"].tolist() for batch in want] for _ in range(6)]
    assert values(dataset) == epochs[0] and values(dataset) == epochs[1] != epochs[0]
    assert values(dataset.repeat(2)) == epochs[2] + epochs[3]
    first = iter(dataset)
    head = [next(first)[0].numpy().tolist()]
    second = iter(dataset)  # beside it, over the same epoch
    assert [x.numpy().tolist() for (x,) in second] == epochs[4]
    assert head + [x.numpy().tolist() for (x,) in first] == epochs[4]
    left = iter(dataset)
    next(left)
    del left, first, second  # an iterator that is left ends its epoch
    assert values(dataset)[0] not in epochs[5]
    endless = penstock.tf.dataset(ps.range(3).repeat().batch(2))
    assert values(endless.take(3)) == [[0, 1], [2, 0], [1, 2]] and endless.cardinality() == tf.data.UNKNOWN_CARDINALITY
    unknown = penstock.tf.dataset(ps.from_generator(lambda: ({"x": i} for i in range(5))).batch(2))
    assert [values(unknown) for _ in range(2)] == [[[0, 1], [2, 3], [4]]] * 2 and len(values(unknown.repeat(3))) == 9


def test_errors_arrive():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cut.png")
        with open(path, "wb") as f:
            f.write(ps._core.encode_png(bytes(300), 10, 10, 3)[:-20])
        dataset = penstock.tf.dataset(ps.from_files([path], [1]).decode().resize(8).batch(2))
        for _ in range(2):
            try:
                list(dataset)
                raise AssertionError("no error")
            except tf.errors.OpError as error:
                assert path in str(error) and "png: " in str(error)


def test_exit_calls_threads_back():
    """What is done at exit, at any other time: a thread of TensorFlow's that waits for a batch gets none, and its iterator ends."""

    def rows():
        for i in itertools.count():
            time.sleep(0.05)
            yield {"x": i}

    batches = iter(penstock.tf.dataset(ps.from_generator(rows).batch(2), prefetch=1000))
    next(batches)
    try:
        penstock.tf._end()
        assert not penstock.tf._waiting
        for i, _ in enumerate(batches):
            assert i < 300, "it goes on"  # half a minute
    finally:
        penstock.tf._ending = False


def test_what_is_let_go_is_gone():
    def tasks():
        return len(os.listdir("/proc/self/task"))

    def use():
        source = ps.range(100).batch(10)
        assert len(list(penstock.tf.dataset(source).map(lambda x: x + 1))) == 10
        return weakref.ref(source)

    use()
    before = tasks()
    used = [use() for _ in range(20)]

    def gone():
        gc.collect()
        return not any(source() for source in used) and tasks() <= before + 4

    wait_until(gone, "datasets and all threads but a few go")
    dataset = penstock.tf.dataset(ps.range(10).batch(5))
    variant, spec = tf.data.experimental.to_variant(dataset), dataset.element_spec
    del dataset
    gc.collect()
    assert len(list(tf.data.experimental.from_variant(variant, spec))) == 2  # made of its chain again


def test_same_as_tensorflows_own_parsing():
    with image_shards() as (chain, pixels):
        path = chain._nodes[0].text.strip("'")
        parsed = tf.data.TFRecordDataset(path).map(
            lambda record: tf.io.parse_single_example(
                record, {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
            )
        )
        want = {int(e["label"]): tf.io.decode_png(e["image"]).numpy() for e in parsed}
        for images, labels in penstock.tf.dataset(chain.batch(16)):
            for image, label in zip(images.numpy(), labels.numpy()):
                assert np.array_equal(image, want[int(label)]) and np.array_equal(image, pixels[label])


def test_odd_fields():
    ds = ps.from_generator(
        lambda: ({"t": [b"a"] * i, "x": np.arange(i, dtype=np.float32), "s": "z"} for i in range(1, 6)),
        spec={"t": ("bytes", (None,)), "x": ("float32", (None,)), "s": "bytes"},
    ).batch(2)
    batches = list(penstock.tf.dataset(ds))
    assert batches[1][0].to_list() == [[b"a"] * 3, [b"a"] * 4] and batches[1][1].to_list() == [[0, 1, 2], [0, 1, 2, 3]]
    assert batches[2][2].numpy().tolist() == [b"z"]


def test_images_of_their_own_size():
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, (height, width) in enumerate(((4, 6), (4, 6), (8, 2))):
            paths.append(os.path.join(folder, f"{i}.png"))
            with open(paths[-1], "wb") as f:
                f.write(ps._core.encode_png(bytes(height * width * 3), width, height, 3))
        for size, shapes in ((1, [(1, 4, 6, 3), (1, 4, 6, 3), (1, 8, 2, 3)]), (2, [(2, 4, 6, 3), (1, 8, 2, 3)])):
            ds = penstock.tf.dataset(ps.from_files(paths, [1, 2, 3]).decode().batch(size))
            assert [tuple(image.shape) for image, _ in ds] == shapes
    rows = ps.from_generator(lambda: ({"x": np.ones(n, np.float32)} for n in range(1, 5)), spec={"x": ("float32", (None,))})
    ragged = list(penstock.tf.dataset(rows.batch(2, drop_remainder=True)))
    assert [x.row_lengths().numpy().tolist() for (x,) in ragged] == [[1, 2], [3, 4]]


def test_endless_batches_of_keras():
    x = np.arange(32, dtype=np.float32).reshape(16, 2)
    batches = Batches(ps.from_arrays((x, x.sum(1))).repeat().batch(4))
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    history = model.fit(batches, epochs=3, steps_per_epoch=5, verbose=0, validation_data=batches, validation_steps=2)
    assert len(history.history["loss"]) == 3
    batches = Batches(ps.range(6).repeat().batch(4))
    assert batches.num_batches is None
    assert [batches[i][0].tolist() for i in (0, 1)] == [[0, 1, 2, 3], [4, 5, 0, 1]]  # a look, and then from the beginning
    assert [batches[i][0].tolist() for i in range(4)] == [[0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5], [0, 1, 2, 3]]


def test_text_of_functions_is_whole():
    ds = penstock.tf.dataset(ps.range(2).batch(2).map(lambda value: {"text": [b"ab\0\0", b"\0"]}))
    assert [text.numpy().tolist() for _, text in ds] == [[b"ab\0\0", b"\0"]]


def test_examples_are_tensorflows():
    ours = ps.Example(image=b"\0x", label=[1, -2], w=[0.5, 2.0])
    theirs = tf.train.Example.FromString(ours.serialize())
    assert theirs.features.feature["image"].bytes_list.value[:] == [b"\0x"]
    assert theirs.features.feature["label"].int64_list.value[:] == [1, -2] and theirs.features.feature["w"].float_list.value[
        :
    ] == [0.5, 2]
    assert ps.Example.parse(theirs.SerializeToString())["label"].tolist() == [1, -2]


def test_py_dataset():
    x = np.random.default_rng(1).random((70, 4)).astype(np.float32)
    batches = Batches(ps.from_arrays((x, x.sum(1))).shuffle(seed=1).batch(16))
    assert len(batches) == 5
    first = [batches[i] for i in range(5)]
    again = [batches[i] for i in (0, 3, 1)]  # a number only says that another one is wanted
    want = ps.from_arrays((x, x.sum(1))).shuffle(seed=1).batch(16)
    epochs = [[np.asarray(batch["y"]) for batch in want] for _ in range(3)]
    assert all(np.array_equal(y, e) for (_, y), e in zip(first + again, epochs[0] + epochs[1]))
    assert all(np.array_equal(y, e) for (_, y), e in zip(batches, epochs[2]))  # what is left early ends its epoch
    resumed = Batches(ps.from_arrays((x, x.sum(1))).shuffle(seed=1).batch(16))
    resumed.dataset.load_state_dict({**resumed.dataset.state_dict(), "next": 3})
    assert all(np.array_equal(y, e) for (_, y), e in zip(resumed, epochs[0][3:] + epochs[1]))
    for name, value in (("workers", 2), ("use_multiprocessing", True)):
        try:
            setattr(batches, name, value)
            raise AssertionError("no error")
        except ValueError as error:
            assert "threads" in str(error)


class Seen(keras.layers.Layer):
    """Notes what arrives in a model, in order, apart for training and validation."""

    def __init__(self):
        super().__init__()
        self.seen = {True: [], False: []}

    def call(self, x, training=False):
        tf.py_function(lambda rows: self.seen[bool(training)].append(rows.numpy()[:, 0].tolist()), [x], [])
        return x


def test_fit_sees_every_sample_of_an_epoch():
    """With fit's defaults, which shuffle the numbers of batches; and with steps, where a pass goes on in the next epoch."""
    x = np.arange(640, dtype=np.float32).reshape(640, 1)

    def source(mapped, seed):
        ds = ps.from_arrays((x, x[:, 0])).shuffle(seed=seed).batch(16)
        return ds.map(lambda x, y: (x, y)) if mapped else ds

    for mapped in (False, True):
        wanted = (source(True, 1), source(True, 2))
        train, validation = ([[batch["x"][:, 0].tolist() for batch in ds] for _ in range(4)] for ds in wanted)
        layer = Seen()
        model = keras.Sequential([layer, keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
        batches = Batches(source(mapped, 1))
        model.fit(batches, validation_data=Batches(source(mapped, 2)), epochs=2, verbose=0)
        assert layer.seen[True] == train[0] + train[1], mapped
        assert layer.seen[False] == validation[0] + validation[1], mapped
        layer.seen[True].clear()
        model.fit(batches, epochs=2, steps_per_epoch=20, verbose=0)  # a pass in two epochs
        model.fit(batches, verbose=0)
        assert layer.seen[True] == train[2] + train[3], mapped


def test_no_leak():
    ds = ps.from_arrays((np.ones((256, 1024), np.float32), np.arange(256))).repeat().batch(32).with_options(prefetch=4)
    for batches in (map(lambda batch: penstock.tf.tensor(batch[0]), ds), iter(penstock.tf.dataset(ds))):

        def run(count):
            for _ in range(count):
                next(batches)

        run(1000)
        memory_settles(lambda: run(10000), 8 << 20)


def test_fit():
    example("keras_fit.py")


def test_before_and_after():
    before_and_after("import tensorflow as tf\ndef loader(): return tf.data.Dataset.from_tensor_slices((tf.zeros((40, 3)),)).batch(10)")


def test_articles():
    example("articles.py")


if __name__ == "__main__":
    tap.main(globals())
