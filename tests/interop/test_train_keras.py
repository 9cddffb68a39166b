"""Training beside Keras: `pad=same` at stride 2, gradients, Adam; and the first losses of models whose start values are a formula."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tap
import tensorflow as tf
from keras import layers
from train_models import S3, batch, difference, start

import penstock as ps

LIMIT = 1e-5
IMAGE = (12, 10, 4)
CASES = {
    "conv": ("conv 16 3 stride=2 pad=same", lambda: [layers.Conv2D(16, 3, 2, "same")]),
    "conv odd": ("conv 16 5 stride=3 pad=same", lambda: [layers.Conv2D(16, 5, 3, "same")]),
    "conv 1": ("conv 16 1 stride=2 pad=same", lambda: [layers.Conv2D(16, 1, 2, "same")]),
    "dwconv": ("dwconv 3 stride=2 pad=same", lambda: [layers.DepthwiseConv2D(3, 2, "same")]),
    "maxpool": ("conv 8 1 | maxpool 3 stride=2 pad=same", lambda: [layers.Conv2D(8, 1), layers.MaxPooling2D(3, 2, "same")]),
    "avgpool": ("conv 8 1 | avgpool 3 stride=2 pad=same", lambda: [layers.Conv2D(8, 1), layers.AveragePooling2D(3, 2, "same")]),
    "batchnorm": ("conv 8 3 bias=false | batchnorm | relu", lambda: [layers.Conv2D(8, 3, use_bias=False), layers.BatchNormalization(), layers.ReLU()]),
}
# The first five losses of Keras with Adam on one batch of 64.
LOSSES = {
    "S3": (S3, (2.301504, 2.276035, 2.259642, 2.251922, 2.237123)),
    "resnet20": ("resnet20", (2.720543, 1.924963, 1.350222, 0.899143, 0.551287)),
}


def make(text, build):
    keras.utils.set_random_seed(1)
    net = keras.Sequential([keras.Input(IMAGE), *build(), layers.Flatten(), layers.Dense(10)])
    model = ps.Model(text + " | flatten | dense 10", input=IMAGE, loss="sparse")
    copy_weights(model, net)
    return model, net


def copy_weights(model, net):
    values = net.get_weights()
    assert len(values) == len(model.weights), list(model.weights)
    for name, array in zip(model.weights, values):
        model.weights[name] = array.reshape(model.weights[name].shape)


def test_same_padding():
    images, labels = batch(IMAGE, 8)
    images = images * 4 - 2
    for name, (text, build) in CASES.items():
        model, net = make(text, build)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, net(images, training=True), from_logits=True))
        wanted = tape.gradient(loss, net.trainable_variables)
        assert abs(model.train_step(images, labels, apply=False) - float(loss)) < LIMIT * float(loss), name
        gradients = list(model.gradients().items())
        assert len(gradients) == len(wanted)
        largest = max(np.sqrt(np.mean(np.square(gradient))) for gradient in wanted)
        for (key, found), gradient in zip(gradients, wanted):
            error = np.sqrt(np.mean((found - gradient.numpy().reshape(found.shape)) ** 2))
            assert error < 2 * LIMIT * max(np.sqrt(np.mean(np.square(gradient))), 0.01 * largest), (name, key, error)
        copy_weights(model, net)
        assert difference(model.predict(images), net.predict(images, verbose=0)) < LIMIT, name


def test_adam():
    images, labels = batch(IMAGE, 16)
    model, net = make(*CASES["conv"])
    net.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    for _ in range(20):
        net.train_on_batch(images, labels)
        model.train_step(images, labels)
    for (name, found), wanted in zip(model.weights.items(), net.get_weights()):
        assert difference(found, wanted.reshape(found.shape)) < 1e-4, (name, difference(found, wanted.reshape(found.shape)))


def test_first_losses():
    """Adam's first steps enlarge differences of rounding; padding at the other end would show in the first loss."""
    images, labels = batch((32, 32, 3), 64)
    for name, (text, wanted) in LOSSES.items():
        model = ps.Model(text, input=(32, 32, 3))
        start(model)
        for step, loss in enumerate(wanted):
            found = model.train_step(images, labels)
            assert abs(found - loss) < (2e-6, 3e-4, 1e-3, 2e-3, 2e-3)[step] * loss, (name, step, found, loss)


if __name__ == "__main__":
    tap.main(globals())
