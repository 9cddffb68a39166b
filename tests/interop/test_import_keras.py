"""Weights of Keras models: saved as .weights.h5, read by Model.load_weights; the results are equal."""

import os
import tempfile

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tap
from keras import layers

import penstock as ps

LIMIT = 1e-5


def shake(net, seed):
    """Random values everywhere: fresh biases and statistics are all alike."""
    random = np.random.default_rng(seed)
    net.set_weights([w + random.uniform(0.01, 0.2, w.shape).astype(np.float32) * (1 if w.ndim == 1 else 0.1) for w in net.get_weights()])


def same(net, text, shape, name="w.weights.h5"):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        net.save_weights(path)
        model = ps.Model(text, input=shape).load_weights(path)
    images = np.random.default_rng(3).uniform(-1, 1, (4, *shape)).astype(np.float32)
    wanted, found = net.predict(images, verbose=0), model.predict(images)
    largest = np.abs(wanted).max()
    assert np.abs(wanted - found).max() <= LIMIT * largest, (np.abs(wanted - found).max(), largest)


def test_mobilenet():
    net = keras.applications.MobileNet(weights=None, input_shape=(96, 96, 3), classes=7, classifier_activation=None)
    shake(net, 1)
    text = ps.Model("mobilenet", input=(96, 96, 3)).text
    body = text[: text.index(" | globalavgpool")]
    # Keras's classifier is a 1×1 convolution of the mean.
    same(net, body + " | avgpool 3 | conv 7 1 | flatten", (96, 96, 3))


def test_layers():
    net = keras.Sequential([
        keras.Input((12, 10, 3)),
        layers.Conv2D(8, 3, activation="relu"), layers.SeparableConv2D(12, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(),
        layers.DepthwiseConv2D(3, padding="same"), layers.Conv2D(6, 1, use_bias=False), layers.LayerNormalization(), layers.Flatten(),
        layers.Dense(20, activation="tanh"), layers.Dense(5),
    ])
    shake(net, 2)
    same(net, "conv 8 3 relu | sepconv 12 3 pad=same | batchnorm | relu | dwconv 3 pad=same | conv 6 1 bias=false | layernorm | flatten | "
              "dense 20 tanh | dense 5", (12, 10, 3))


def test_many_layers():
    """More than ten of a kind: dense_10 comes after dense_9."""
    net = keras.Sequential([keras.Input((6,)), *[layers.Dense(6, activation="tanh") for _ in range(12)], layers.Dense(3)])
    shake(net, 3)
    same(net, " | ".join(["dense 6 tanh"] * 12 + ["dense 3"]), (6,))


def test_new_head():
    """A last layer of another shape starts fresh; anything else that differs is refused."""
    net = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(3)])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "w.weights.h5")
        net.save_weights(path)
        model = ps.Model("dense 8 relu | dense 5", input=(6,), seed=4)
        head = model.weights["dense_2/kernel"]
        model.load_weights(path)
        assert np.array_equal(model.weights["dense_1/kernel"], net.get_weights()[0]) and np.array_equal(model.weights["dense_2/kernel"], head)
        other = ps.Model("dense 9 relu | dense 3", input=(6,), seed=4)
        before = other.weights["dense_1/kernel"]
        try:
            other.load_weights(path)
        except ps.Error as error:
            assert "dense_1" in str(error) and path in str(error), error
        else:
            raise AssertionError("another model was accepted")
        assert np.array_equal(other.weights["dense_1/kernel"], before)
        with open(path, "r+b") as f:
            f.truncate(600)
        try:
            ps.Model("dense 8 relu | dense 3", input=(6,)).load_weights(path)
        except ps.Error as error:
            assert path in str(error), error
        else:
            raise AssertionError("a truncated file was accepted")


tap.main(globals())
