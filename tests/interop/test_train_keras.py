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


def loop(tf, model, optimizer, loss_fn, batches):
    """The loop of the articles, for TensorFlow and for us."""
    losses = []

    def train_step(images, labels):
        with tf.GradientTape() as tape:
            predictions = model(images)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for images, labels in batches:
        loss_value = train_step(images, labels)
        losses.append(float(loss_value))
    return losses


def test_the_loop_of_articles():
    """Depthwise separable blocks, one-hot labels, Adam: the same losses."""
    keras.utils.set_random_seed(1)
    net = keras.Sequential([keras.Input(IMAGE), layers.Conv2D(16, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
                            layers.DepthwiseConv2D(3, padding="same", activation="relu"), layers.Conv2D(32, 1, padding="same", activation="relu"),
                            layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(10, activation="softmax")])
    model = ps.Model("conv 16 3 relu pad=same | maxpool 2 | dwconv 3 relu pad=same | conv 32 1 relu | maxpool 2 | flatten | dense 10 softmax", input=IMAGE)
    copy_weights(model, net)
    batches = [(images, np.eye(10, dtype=np.float32)[labels]) for images, labels in (batch(IMAGE, 16) for _ in range(6))]
    theirs = loop(tf, net, keras.optimizers.Adam(), keras.losses.CategoricalCrossentropy(), batches)
    ours = loop(ps, model, ps.optimizers.Adam(), ps.losses.CategoricalCrossentropy(), batches)
    assert np.allclose(theirs, ours, rtol=1e-5), (theirs, ours)


def test_the_loop_with_a_scaled_loss():
    """Mixed precision: scaled gradients are those of the loss times its scale; unscaled, they train."""
    model = ps.Model("conv 8 3 relu | globalavgpool | dense 10", input=IMAGE, mixed="float16")
    plain = ps.Model("conv 8 3 relu | globalavgpool | dense 10", input=IMAGE)
    optimizer, loss_fn = ps.optimizers.Adam(0.01), ps.losses.SparseCategoricalCrossentropy()
    images, labels = batch(IMAGE, 16)
    first = None
    for _ in range(20):
        with ps.GradientTape() as tape:
            loss = loss_fn(labels, model(images))
            scaled_loss = optimizer.get_scaled_loss(loss)
        scaled = tape.gradient(scaled_loss, model.trainable_variables)
        gradients = optimizer.get_unscaled_gradients(scaled)
        if first is None:
            first = float(loss)
            assert model.loss_scale == 32768 and abs(float(scaled_loss) - 32768 * first) < 1e-3 * float(scaled_loss)
            plain.train_step(images, labels, apply=False)
            for wanted, found, other in zip(plain.gradients().values(), gradients, scaled):
                assert np.abs(wanted - found).max() <= 0.02 * np.abs(wanted).max() and np.allclose(other, found * 32768)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    assert float(loss) < first and model.steps == 20


if __name__ == "__main__":
    tap.main(globals())
