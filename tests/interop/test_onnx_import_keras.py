"""Models that tf2onnx writes of Keras models, read by Model.load: results equal those of ONNX Runtime."""

import os
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import onnxruntime
import tap
import tensorflow as tf
import tf2onnx
from tensorflow import keras

import penstock as ps

LIMIT = 1e-4  # relative to the largest result


def stir(model):
    rng = np.random.default_rng(1)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            gamma, beta, mean, variance = layer.get_weights()
            layer.set_weights([rng.uniform(0.5, 1.5, gamma.shape), rng.normal(0, 0.1, beta.shape), rng.normal(0, 0.1, mean.shape),
                               rng.uniform(0.5, 1.5, variance.shape)])
    return model


def check(model, opset=17):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        shape = model.input_shape[1:]
        function = tf.function(lambda x: model(x, training=False), input_signature=[tf.TensorSpec((None, *shape), tf.float32, name="images")])
        tf2onnx.convert.from_function(function, input_signature=function.input_signature, opset=opset, output_path=path)
        images = np.random.default_rng(2).normal(size=(2, *shape)).astype(np.float32)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        want = session.run(None, {session.get_inputs()[0].name: images})[0]
        ours = ps.Model.load(path)
        got = np.asarray(ours.predict(images)).reshape(want.shape)
        off = np.abs(got - want).max() / np.abs(want).max()
        assert off <= LIMIT and np.ptp(want) > 0, f"off by {off}"
        return ours


def test_mobilenet():
    model = check(stir(keras.applications.MobileNet(input_shape=(96, 96, 3), alpha=0.5, weights=None, classes=20)))
    assert model.input == (96, 96, 3) and model.output == (20,) and "dwconv" in model.text, model.text


def test_mobilenet_of_even_and_odd_sizes():
    for size in (64, 97):
        check(stir(keras.applications.MobileNet(input_shape=(size, size, 3), alpha=0.25, weights=None, classes=10)), opset=13)


def test_layers():
    layers = keras.layers
    x = source = layers.Input((20, 18, 3))
    x = layers.Rescaling(1 / 127.5, -1)(x)
    x = layers.Conv2D(8, 3, padding="same", strides=2, activation="swish")(x)
    x = layers.Concatenate()([layers.Conv2D(4, 1, activation="tanh")(x), layers.SeparableConv2D(6, 3, padding="same")(x)])
    x = layers.ZeroPadding2D(1)(layers.ReLU()(x))
    x = layers.MaxPooling2D(3, 2)(x)
    y = layers.Conv2D(10, 3, padding="same", use_bias=False)(x)
    x = layers.Add()([x, layers.BatchNormalization()(y)])
    x = layers.AveragePooling2D(2, padding="same")(layers.LeakyReLU(negative_slope=0.1)(x))
    x = layers.Flatten()(x)
    x = layers.Dense(12, activation="tanh")(x)
    check(stir(keras.Model(source, layers.Dense(5, activation="softmax")(layers.Dropout(0.3)(x)))))


tap.main(globals())
