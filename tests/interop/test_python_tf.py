"""The Python module with TensorFlow and Keras: tf.data, element_spec, ragged fields, model.fit."""

import os
import tempfile

import keras
import numpy as np
import tap
import tensorflow as tf
from python_data import example, image_shards, normalized, resident

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


def test_examples_are_tensorflows():
    ours = ps.Example(image=b"\0x", label=[1, -2], w=[0.5, 2.0])
    theirs = tf.train.Example.FromString(ours.serialize())
    assert theirs.features.feature["image"].bytes_list.value[:] == [b"\0x"]
    assert theirs.features.feature["label"].int64_list.value[:] == [1, -2] and theirs.features.feature["w"].float_list.value[
        :
    ] == [0.5, 2]
    assert ps.Example.parse(theirs.SerializeToString())["label"].tolist() == [1, -2]


def test_keras_folder():
    with image_shards(12) as (_, pixels):
        with tempfile.TemporaryDirectory() as folder:
            for i, image in enumerate(pixels):
                os.makedirs(os.path.join(folder, "ab"[i % 2]), exist_ok=True)
                with open(os.path.join(folder, "ab"[i % 2], f"{i:02d}.png"), "wb") as f:
                    f.write(ps._core.encode_png(image, 24, 20, 3))
            for options in (
                {},
                {"label_mode": "categorical"},
                {"label_mode": "binary", "color_mode": "grayscale"},
                {"interpolation": "area"},
            ):
                options = {"image_size": (14, 18), "batch_size": 5, "shuffle": False, **options}
                theirs = keras.utils.image_dataset_from_directory(folder, verbose=False, **options)
                ours = ps.image_dataset_from_directory(folder, **options)
                assert ours.class_names == theirs.class_names and len(ours) == len(theirs)
                gray = options.get("color_mode") == "grayscale"
                for (x, y), (u, v) in zip(theirs, ours):
                    assert x.shape == u.shape and y.shape == v.shape and x.dtype.name == u.dtype and y.dtype.name == v.dtype, (
                        options
                    )
                    assert np.array_equal(y.numpy(), np.asarray(v))
                    assert np.abs(x.numpy() - np.asarray(u)).max() < (2.1 if gray else 1.01), options  # ours are whole levels


def test_py_dataset():
    x = np.random.default_rng(1).random((70, 4)).astype(np.float32)
    batches = Batches(ps.from_arrays((x, x.sum(1))).shuffle(seed=1).batch(16))
    assert len(batches) == 5
    first = [batches[i] for i in range(5)]
    again = [batches[i] for i in (0, 3, 1)]  # as Keras never asks, but may
    assert sorted(np.concatenate([y for _, y in first])) == sorted(x.sum(1)) and [len(b[0]) for b in first] == [16] * 4 + [6]
    assert not np.array_equal(first[0][0], again[0][0]) and len({b[1].tobytes() for b in again}) == 3


def test_no_leak():
    ds = ps.from_arrays((np.ones((256, 1024), np.float32), np.arange(256))).repeat().batch(32).with_options(prefetch=4)
    batches = iter(ds)

    def run(count):
        for _ in range(count):
            penstock.tf.tensor(next(batches)[0])

    run(1000)
    before = resident()
    run(10000)
    assert resident() - before < 8 << 20, f"{(resident() - before) >> 10} KiB more"


def test_fit():
    example("keras_fit.py")


def test_articles():
    example("articles.py")


if __name__ == "__main__":
    tap.main(globals())
