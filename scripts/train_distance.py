#!/usr/bin/env python3
"""How far training in float32 strays from training in float64: Penstock beside PyTorch and Keras, each beside its own float64 run.

    python3 scripts/train_distance.py BUILD [--torch PYTHON] [--keras PYTHON] [--models S1 S2 S3 M R] [--batch 8] [--steps 50] [--parts 3]

PYTHON: interpreters that have torch, or keras and tensorflow. The same start weights, images and labels everywhere, Adam with 1e-3. Prints
the difference of the last losses, and the distance between the weights of both runs over the distance that they have gone. Rounding errors
grow exponentially over such steps, so that one run says little: --parts repeats it with other samples. `avx2` and `plain`: our kernels, and our
reference layers in float32.
"""

import argparse
import os
import statistics
import subprocess
import sys

RELU, RELU6, POOL, FLAT, MEAN, NORM = "relu", "relu6", "pool", "flat", "mean", "norm"


def conv(n, k, stride=1, same=True, bias=True):
    return ("conv", n, k, stride, same, bias)


def depthwise(stride, bias):
    return ("depthwise", stride, bias)


def mobile():
    layers = [conv(16, 3, 2, bias=False), NORM, RELU6]
    for n, stride in [(32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2)] + [(256, 1)] * 5 + [(512, 2), (512, 1)]:
        layers += [depthwise(stride, False), NORM, RELU6, conv(n, 1, bias=False), NORM, RELU6]
    return [*layers, MEAN, ("dense", 10)]


def residual():
    layers, before = [conv(16, 3, bias=False), NORM, RELU], 16
    for n in (16, 32, 64):
        for i in range(3):
            stride = 2 if n > 16 and i == 0 else 1
            body = [conv(n, 3, stride, bias=False), NORM, RELU, conv(n, 3, bias=False), NORM]
            layers += [("residual", body, [conv(n, 1, stride, bias=False), NORM] if n != before else []), RELU]
            before = n
    return [*layers, MEAN, ("dense", 10)]


MODELS = {
    "S1": (224, [conv(32, 3, same=False), RELU, POOL, FLAT, ("dense", 10)]),
    "S2": (224, [conv(32, 3), RELU, POOL, depthwise(1, True), RELU, conv(64, 1), RELU, POOL, FLAT, ("dense", 10)]),
    "S3": (32, [conv(32, 3), RELU, conv(32, 3), RELU, POOL, conv(64, 3), RELU, conv(64, 3), RELU, POOL, conv(128, 3), RELU, POOL, FLAT, ("dense", 10)]),
    "M": (96, mobile()),
    "R": (32, residual()),
}


def uniform(seed, count):
    import numpy as np

    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed * 0x9E3779B9 & 0xFFFFFFFF)
    x = (x ^ x >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    x = (x ^ x >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return (x >> np.uint32(8)) / np.float64(2**24)


def kernel(seed, shape):
    """A start kernel: height, width, in, out; height, width, channel; or in, out."""
    import numpy as np

    area = 1 if len(shape) == 2 else shape[0] * shape[1]
    ends = 2 if len(shape) == 3 else shape[-2] + shape[-1]
    return (((2 * uniform(seed, int(np.prod(shape))) - 1) * np.sqrt(6 / (area * ends))).astype(np.float32)).reshape(shape)


def start_data(side, batch, part):
    """Samples part · batch and following."""
    import numpy as np

    values, end = side * side * 3, (part + 1) * batch
    images = uniform(0, end * values)[part * batch * values :].reshape(batch, side, side, 3)
    return images, np.floor(10 * uniform(1, end)[part * batch :]).astype(np.int64)


def torch_run(name, batch, steps, part, wide):
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    seeds = iter(range(2, 1000))

    def filled(layer, shape, order):
        values = kernel(next(seeds), shape)
        values = values if len(shape) != 3 else values[:, :, None, :]
        layer.weight.data = torch.from_numpy(np.ascontiguousarray(values.transpose(order))).to(torch.get_default_dtype())
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        return layer

    class Flat(nn.Module):
        def forward(self, x):
            return x.permute(0, 2, 3, 1).flatten(1)

    class Mean(nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    class Sum(nn.Module):
        def __init__(self, body, shortcut):
            super().__init__()
            self.body, self.shortcut = body, shortcut

        def forward(self, x):
            return self.body(x) + self.shortcut(x)

    def build(layers, c, side):
        made = []
        for layer in layers:
            kind = layer[0] if isinstance(layer, tuple) else layer
            if kind == "conv":
                _, n, k, stride, same, bias = layer
                made.append(filled(nn.Conv2d(c, n, k, stride, k // 2 if same else 0, bias=bias), (k, k, c, n), (3, 2, 0, 1)))
                c, side = n, (side - 1) // stride + 1 if same else side - k + 1
            elif kind == "depthwise":
                made.append(filled(nn.Conv2d(c, c, 3, layer[1], 1, groups=c, bias=layer[2]), (3, 3, c), (3, 2, 0, 1)))
                side = (side - 1) // layer[1] + 1
            elif kind == "dense":
                made.append(filled(nn.Linear(c, layer[1]), (c, layer[1]), (1, 0)))
            elif kind == "residual":
                body, after, small = build(layer[1], c, side)
                shortcut, _, _ = build(layer[2], c, side)
                made.append(Sum(body, shortcut))
                c, side = after, small
            elif kind == FLAT:
                made.append(Flat())
                c *= side * side
            elif kind == POOL:
                made.append(nn.MaxPool2d(2))
                side //= 2
            else:
                made.append({RELU: nn.ReLU, RELU6: nn.ReLU6, MEAN: Mean}[kind]() if kind != NORM else nn.BatchNorm2d(c, eps=1e-3, momentum=0.01))
        return nn.Sequential(*made), c, side

    side, layers = MODELS[name]
    net = build(layers, 3, side)[0].train()
    images, labels = (torch.from_numpy(x) for x in start_data(side, batch, part))
    images = images.to(torch.get_default_dtype()).permute(0, 3, 1, 2)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, eps=1e-7)
    begin = [p.detach().double().clone() for p in net.parameters()]
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().double().numpy() for p in net.parameters()], [p.numpy() for p in begin]


def keras_run(name, batch, steps, part, wide):
    import keras
    import numpy as np
    from keras import layers as L

    keras.backend.set_floatx("float64" if wide else "float32")

    def build(layers, x):
        for layer in layers:
            kind = layer[0] if isinstance(layer, tuple) else layer
            if kind == "conv":
                _, n, k, stride, same, bias = layer
                x = L.Conv2D(n, k, stride, "same" if same else "valid", use_bias=bias)(x)
            elif kind == "depthwise":
                x = L.DepthwiseConv2D(3, layer[1], "same", use_bias=layer[2])(x)
            elif kind == "dense":
                x = L.Dense(layer[1])(x)
            elif kind == "residual":
                x = L.Add()([build(layer[1], x), build(layer[2], x)])
            elif kind == NORM:
                x = L.BatchNormalization(momentum=0.99, epsilon=1e-3)(x)
            else:
                x = {RELU: L.ReLU, RELU6: lambda: L.ReLU(6.0), POOL: L.MaxPooling2D, FLAT: L.Flatten, MEAN: L.GlobalAveragePooling2D}[kind]()(x)
        return x

    side, layers = MODELS[name]
    inputs = keras.Input((side, side, 3))
    model = keras.Model(inputs, build(layers, inputs))
    seed = 2
    for layer in model.layers:  # in the order of building: a body before its shortcut
        for variable in layer.weights:
            if variable.name == "kernel":
                shape = tuple(variable.shape[:-1]) if isinstance(layer, L.DepthwiseConv2D) else tuple(variable.shape)
                variable.assign(kernel(seed, shape).reshape(variable.shape))
                seed += 1
    images, labels = start_data(side, batch, part)
    images = images.astype(keras.backend.floatx())
    model.compile(keras.optimizers.Adam(1e-3, epsilon=1e-7), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    begin = [np.array(v, np.float64) for v in model.trainable_variables]
    losses = [float(model.train_on_batch(images, labels)) for _ in range(steps)]
    return losses, [np.array(v, np.float64) for v in model.trainable_variables], begin


def framework(kind, name, batch, steps, part):
    """In the framework's own interpreter: one line with the difference of losses and the distance of weights."""
    import numpy as np

    run = {"torch": torch_run, "keras": keras_run}[kind]
    narrow_losses, narrow, begin = run(name, batch, steps, part, False)
    wide_losses, wide, _ = run(name, batch, steps, part, True)
    apart = sum(np.sum((a - b) ** 2) for a, b in zip(narrow, wide))
    gone = sum(np.sum((b - c) ** 2) for b, c in zip(wide, begin))
    print(abs(narrow_losses[-1] - wide_losses[-1]), np.sqrt(apart / gone))


def ours(build, name, batch, steps, part, isa):
    command = [os.path.join(build, "bench", "bench_train_f64"), "--model", name, "--batch", str(batch), "--steps", str(steps), "--part", str(part), "--isa", isa]
    last = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[-2].split()
    return abs(float(last[1]) - float(last[2])), float(last[3])


def main():
    if len(sys.argv) > 2 and sys.argv[1] == "--framework":
        framework(sys.argv[2], sys.argv[3], *(int(a) for a in sys.argv[4:7]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--torch")
    parser.add_argument("--keras")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--parts", type=int, default=1, help="how many batches of other samples; the median is printed")
    options = parser.parse_args()
    kinds = [k for k in ("torch", "keras") if getattr(options, k)]
    print(f"{'model':6} {'':10} {'loss':>10} {'weights':>10}   weights of each part", flush=True)
    for name in options.models:
        found = {kind: [] for kind in ("avx2", "plain", *kinds)}
        for part in range(options.parts):
            for kind in ("avx2", "plain"):
                found[kind].append(ours(options.build, name, options.batch, options.steps, part, kind))
            for kind in kinds:
                command = [getattr(options, kind), os.path.abspath(__file__), "--framework", kind, name, str(options.batch), str(options.steps), str(part)]
                output = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}).stdout
                found[kind].append(tuple(float(x) for x in output.split("\n")[-2].split()))
        for kind, results in found.items():
            loss, weights = (statistics.median(r[i] for r in results) for i in (0, 1))
            print(f"{name:6} {kind:10} {loss:10.2e} {weights:10.2e}   {' '.join(f'{r[1]:.1e}' for r in results)}", flush=True)


if __name__ == "__main__":
    main()
