"""Weights of PyTorch models: saved as safetensors in float32, float16, bfloat16 and float64, read by Model.load_weights; the results are equal."""

import json
import os
import struct
import tempfile

import numpy as np
import tap
import torch
from torch import nn

import penstock as ps

torch.set_num_threads(1)
LIMIT = 1e-5
TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int64: "I64"}


def save(state, path):
    """safetensors: sorted by name, as their own writer sorts."""
    header, data, at = {}, b"", 0
    for name in sorted(state):
        tensor = state[name].contiguous()
        raw = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        data, at = data + raw, at + len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Block(nn.Module):
    """torchvision's BasicBlock, with its names."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        self.conv2, self.bn2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.downsample = None
        if stride > 1 or inside != outside:
            self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for i, (inside, outside) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512)), 1):
            setattr(self, f"layer{i}", nn.Sequential(Block(inside, outside, 1 if i == 1 else 2), Block(outside, outside, 1)))
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        return self.fc(x.mean((2, 3)))


def resnet18(classes):
    try:
        from torchvision.models import resnet18 as theirs
    except ImportError:
        return ResNet18(classes)
    return theirs(weights=None, num_classes=classes)


def shake(net, seed):
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, value in net.state_dict().items():
            if value.is_floating_point() and value.dim() == 1:
                value.add_(torch.rand(value.shape) * 0.3 + 0.05)
    return net.eval()


def same(net, text, shape, limit=LIMIT):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        save(net.state_dict(), path)
        model = ps.Model(text, input=shape).load_weights(path)
    images = np.random.default_rng(3).uniform(-1, 1, (4, *shape)).astype(np.float32)
    with torch.no_grad():
        taken = torch.tensor(images.transpose(0, 3, 1, 2) if len(shape) == 3 else images)
        wanted = net.float()(taken).numpy()
    found = model.predict(images)
    assert np.abs(wanted - found).max() <= limit * np.abs(wanted).max(), (np.abs(wanted - found).max(), np.abs(wanted).max())


RESNET = "conv 64 7 stride=2 pad=3 bias=false | batchnorm eps=1e-5 | relu | maxpool 3 stride=2 pad=1"


def residual(channels, stride):
    return (f"residual relu ( conv {channels} 3 stride={stride} pad=1 bias=false | batchnorm eps=1e-5 | relu | conv {channels} 3 pad=1 bias=false | "
            f"batchnorm eps=1e-5 )")


def test_resnet18():
    text = " | ".join([RESNET, *[residual(c, s) for c in (64, 128, 256, 512) for s in ((1 if c == 64 else 2), 1)], "globalavgpool", "dense 11"])
    same(shake(resnet18(11), 1), text, (64, 64, 3))


def test_layers():
    """Depthwise convolutions, a flattened image before a dense layer, layer normalisation."""
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 6, 1), nn.BatchNorm2d(6), nn.ReLU(),
                        nn.Flatten(), nn.Linear(6 * 10 * 8, 20), nn.LayerNorm(20), nn.Tanh(), nn.Linear(20, 5))
    same(shake(net, 2), "conv 8 3 relu | dwconv 3 pad=1 | conv 6 1 | batchnorm eps=1e-5 | relu | flatten | dense 20 | layernorm eps=1e-5 | tanh | dense 5",
         (12, 10, 3))


def test_types():
    text = "dense 16 relu | dense 16 relu | dense 4"
    for dtype, limit in ((torch.float64, 1e-5), (torch.float16, 1e-5), (torch.bfloat16, 1e-5)):
        net = nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to(dtype)
        same(shake(net, 5), text, (9,), limit)


tap.main(globals())
