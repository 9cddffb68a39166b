"""penstock.doctor with TensorFlow and Keras: a tf.data pipeline as articles on slow training have it, and model.fit."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time

import keras
import numpy as np
import tap
import tensorflow as tf
from patience import HANG, examined
from PIL import Image

import penstock as ps
import penstock.keras

SIDE = 96


def photos(folder, count, side):
    random = np.random.default_rng(7)
    for i in range(count):
        where = os.path.join(folder, f"class{i % 2}")
        os.makedirs(where, exist_ok=True)
        small = random.integers(0, 255, (side // 8, side // 8, 3), np.uint8)
        Image.fromarray(small).resize((side, side)).save(os.path.join(where, f"{i:04}.jpg"), quality=90)


def article(folder):
    """Photos in class folders at one size, then a second resize and a flip in a map of one thread; no prefetch."""

    def prepare(image, label):
        return tf.image.random_flip_left_right(tf.image.resize(image, (SIDE, SIDE))), label

    dataset = keras.utils.image_dataset_from_directory(folder, labels="inferred", image_size=(256, 256), batch_size=8, shuffle=True, verbose=False)
    return dataset.map(prepare)


def a_step(milliseconds):
    return lambda batch: time.sleep(milliseconds / 1e3)


@examined
def test_tf_data_and_a_measured_gain(patience):
    with tempfile.TemporaryDirectory() as folder:
        photos(folder, 64, 1600)
        answer = ps.doctor(article(folder), step=a_step(5), data=folder, seconds=5 * patience)
        verdict = answer.verdict
        assert verdict["class"] in ("input-bound", "balanced") and verdict["wait_share"] > 0.1, verdict
        assert verdict["cause"] in ("large-images", "single-worker", "no-prefetch"), verdict
        native = next(r for r in answer.remedies if r["id"] == "native-op")
        assert native["measured"] and native["predicted"], native
        smaller = next(r for r in answer.remedies if r["id"] == "resize-offline")
        assert smaller["measured"]["gain"] > 1.3 and smaller["price"]["disk_bytes"] > 0, smaller
        assert "measured" in verdict["sentence"], verdict
        ids = [remedy["id"] for remedy in answer.remedies]
        assert "more-workers" in ids and "prefetch" in ids and "resize-offline" in ids, ids
        assert "Map" in answer.to_dict()["settings"]["chain"]


@examined
def test_a_python_function_in_map(patience):
    def slow(x):
        return np.float32(sum(k * float(x) for k in range(4000)))

    dataset = tf.data.Dataset.range(4096).map(lambda x: tf.numpy_function(slow, [x], tf.float32)).batch(8)
    answer = ps.doctor(dataset, step=a_step(1), seconds=2.5 * patience, verify=False)
    assert answer.verdict["cause"] == "python-function", answer.verdict
    assert answer.remedies[0]["id"] in ("native-op", "processes", "more-workers"), answer.remedies


def small_model():
    model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def slow_rows(pause):
    def rows():
        while True:
            time.sleep(pause)
            yield np.ones(16, np.float32), np.float32(1)

    signature = (tf.TensorSpec((16,), tf.float32), tf.TensorSpec((), tf.float32))
    return tf.data.Dataset.from_generator(rows, output_signature=signature).batch(8)


@examined
def test_fit_waits(patience):
    doctor = penstock.keras.Doctor()
    small_model().fit(slow_rows(0.005), steps_per_epoch=60, epochs=1, verbose=0, callbacks=[doctor])
    answer = doctor.answer(seconds=2 * patience)
    assert answer.verdict["class"] == "input-bound" and answer.verdict["wait_share"] > 0.4, answer.verdict


@examined
def test_fit_does_not_wait(patience):
    model = keras.Sequential([keras.layers.Input((512,))] + [keras.layers.Dense(1024, activation="relu") for _ in range(4)])
    model.compile("sgd", "mse")
    x = np.ones((256, 512), np.float32)
    data = tf.data.Dataset.from_tensors((x, np.ones((256, 1024), np.float32))).repeat(40).prefetch(4)
    doctor = penstock.keras.Doctor()
    model.fit(data, verbose=0, callbacks=[doctor])
    assert doctor.seen.wait_share() < 0.2, doctor.seen.wait_share()


@examined
def test_fit_and_a_measured_gain(patience):
    """The inefficient example in fit(): the callback knows its dataset, and remedies are measured with real steps, which change nothing."""
    model = keras.Sequential([keras.layers.Input((SIDE, SIDE, 3)), keras.layers.Conv2D(4, 3, strides=4), keras.layers.GlobalAveragePooling2D(),
                              keras.layers.Dense(2)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    doctor = penstock.keras.Doctor()
    with tempfile.TemporaryDirectory() as folder:
        photos(folder, 64, 1600)
        model.fit(article(folder), epochs=4, verbose=0, callbacks=[doctor])
        before = [variable.numpy().copy() for variable in model.variables + model.optimizer.variables]
        answer = doctor.answer(data=folder, seconds=5 * patience)
    verdict, gains = answer.verdict, {one["id"]: one["measured"]["gain"] for one in answer.remedies if one["measured"]}
    assert verdict["class"] == "input-bound" and verdict["cause"] in ("large-images", "single-worker", "no-prefetch"), verdict
    assert gains["native-op"] > 0 and gains["more-workers"] > 0 and max(gains.values()) > 1.3, gains
    assert "(measured)" in verdict["sentence"] and answer.to_dict()["settings"]["kind"] == "tf.data", verdict
    assert all(np.array_equal(a, b.numpy()) for a, b in zip(before, model.variables + model.optimizer.variables))


def test_the_callback_changes_nothing():
    random = np.random.default_rng(3)
    x, y = random.normal(size=(160, 16)).astype("f4"), random.normal(size=(160, 1)).astype("f4")
    losses = []
    for callbacks in ([], [penstock.keras.Doctor()]):
        keras.utils.set_random_seed(5)
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
        losses.append(small_model().fit(data, epochs=3, verbose=0, callbacks=callbacks).history["loss"])
    assert np.allclose(losses[0], losses[1], rtol=1e-6), losses


SCRIPT = """
    import numpy as np
    import keras

    class Rows(keras.utils.PyDataset):
        def __len__(self):
            return 100000
        def __getitem__(self, i):
            total = 0
            for k in range(60000):
                total += k * i
            return np.ones((8, 16), "f4"), np.full((8, 1), total % 7, "f4")

    model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    try:
        model.fit(Rows(), epochs=2, verbose=0)
    finally:
        print("in good order")
"""


@examined
def test_fit_in_a_script(patience):
    with tempfile.TemporaryDirectory() as folder:
        script, out = os.path.join(folder, "train.py"), os.path.join(folder, "answer.json")
        with open(script, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(SCRIPT))
        done = subprocess.run([sys.executable, "-m", "penstock.doctor", "--json", out, "--seconds", str(2.5 * patience), script], capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 0 and "in good order" in done.stdout, done.stderr
        with open(out, encoding="utf-8") as f:
            values = json.load(f)
        assert values["verdict"]["class"] == "input-bound" and values["verdict"]["cause"] == "python-function", values["verdict"]
        assert values["remedies"][0]["id"] in ("native-op", "processes", "more-workers"), values["remedies"]


tap.main(globals())
