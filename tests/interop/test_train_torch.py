"""Training beside PyTorch: results and gradients of every kind of layer, batch normalisation's statistics, 20 steps of each optimiser."""

import numpy as np
import tap
import torch
from torch import nn
from torch.nn import functional as F
from train_models import batch, difference

import penstock as ps

torch.set_num_threads(1)
LIMIT = 1e-5


class Channels(nn.Module):
    """A layer of PyTorch's on the last dimension."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Flat(nn.Module):
    """Flattens in the order height, width, channel."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).reshape(len(x), -1)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


class Residual(nn.Module):
    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body, self.shortcut = body, shortcut or nn.Identity()

    def forward(self, x):
        return self.body(x) + self.shortcut(x)


class Concat(nn.Module):
    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def normal(channels):
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


HEAD = " | flatten | dense 10"
IMAGE = (12, 10, 4)
# Name: text, layers of PyTorch, and the sizes of the vector that dense gets.
CASES = {
    "conv": ("conv 8 3", lambda: [nn.Conv2d(4, 8, 3)], 10 * 8 * 8),
    "conv pad": ("conv 16 3 relu pad=1", lambda: [nn.Conv2d(4, 16, 3, padding=1), nn.ReLU()], 12 * 10 * 16),
    "conv 5": ("conv 8 5 pad=2", lambda: [nn.Conv2d(4, 8, 5, padding=2)], 12 * 10 * 8),
    "conv stride": ("conv 16 3 stride=2 pad=1", lambda: [nn.Conv2d(4, 16, 3, 2, 1)], 6 * 5 * 16),
    "conv dilation": ("conv 8 3 dilation=2 pad=2", lambda: [nn.Conv2d(4, 8, 3, padding=2, dilation=2)], 12 * 10 * 8),
    "conv groups": ("conv 8 3 groups=2", lambda: [nn.Conv2d(4, 8, 3, groups=2)], 10 * 8 * 8),
    "conv 1": ("conv 24 1 bias=false", lambda: [nn.Conv2d(4, 24, 1, bias=False)], 12 * 10 * 24),
    "dwconv": ("dwconv 3 pad=1", lambda: [nn.Conv2d(4, 4, 3, padding=1, groups=4)], 12 * 10 * 4),
    "dwconv stride": ("dwconv 3 stride=2 pad=1", lambda: [nn.Conv2d(4, 4, 3, 2, 1, groups=4)], 6 * 5 * 4),
    "relu": ("relu", lambda: [nn.ReLU()], 480),
    "relu6": ("conv 8 1 | relu6", lambda: [nn.Conv2d(4, 8, 1), nn.ReLU6()], 960),
    "leaky": ("conv 8 1 | leaky 0.01", lambda: [nn.Conv2d(4, 8, 1), nn.LeakyReLU(0.01)], 960),
    "gelu": ("conv 8 1 | gelu", lambda: [nn.Conv2d(4, 8, 1), nn.GELU()], 960),
    "silu": ("conv 8 1 | silu", lambda: [nn.Conv2d(4, 8, 1), nn.SiLU()], 960),
    "sigmoid": ("conv 8 1 | sigmoid", lambda: [nn.Conv2d(4, 8, 1), nn.Sigmoid()], 960),
    "tanh": ("conv 8 1 | tanh", lambda: [nn.Conv2d(4, 8, 1), nn.Tanh()], 960),
    "maxpool": ("conv 8 1 | maxpool 2", lambda: [nn.Conv2d(4, 8, 1), nn.MaxPool2d(2)], 6 * 5 * 8),
    "maxpool pad": ("conv 8 1 | maxpool 3 stride=2 pad=1", lambda: [nn.Conv2d(4, 8, 1), nn.MaxPool2d(3, 2, 1)], 6 * 5 * 8),
    "avgpool": ("conv 8 1 | avgpool 2", lambda: [nn.Conv2d(4, 8, 1), nn.AvgPool2d(2)], 6 * 5 * 8),
    "batchnorm": ("conv 8 3 bias=false | batchnorm | relu", lambda: [nn.Conv2d(4, 8, 3, bias=False), normal(8), nn.ReLU()], 640),
    "layernorm": ("conv 8 1 | layernorm eps=1e-3", lambda: [nn.Conv2d(4, 8, 1), Channels(nn.LayerNorm(8, eps=1e-3))], 960),
    "residual": (
        "conv 8 1 | residual(conv 8 3 relu pad=1 | conv 8 3 pad=1) | relu",
        lambda: [
            nn.Conv2d(4, 8, 1),
            Residual(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))),
            nn.ReLU(),
        ],
        960,
    ),
    "concat": (
        "concat(conv 8 1)(conv 4 3 pad=1)",
        lambda: [Concat(nn.Conv2d(4, 8, 1), nn.Conv2d(4, 4, 3, padding=1))],
        1440,
    ),
}
NETS = {
    "small": (
        "conv 16 3 relu pad=1 | maxpool 2 | conv 32 3 pad=1 bias=false | batchnorm | relu | globalavgpool | dense 10",
        lambda: nn.Sequential(
            nn.Conv2d(4, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1, bias=False),
            normal(32),
            nn.ReLU(),
            Mean(),
            nn.Linear(32, 10),
        ),
    ),
    "separable": (
        "conv 16 3 relu6 stride=2 pad=1 | dwconv 3 relu6 pad=1 | conv 32 1 relu6 | flatten | dense 10",
        lambda: nn.Sequential(
            nn.Conv2d(4, 16, 3, 2, 1),
            nn.ReLU6(),
            nn.Conv2d(16, 16, 3, padding=1, groups=16),
            nn.ReLU6(),
            nn.Conv2d(16, 32, 1),
            nn.ReLU6(),
            Flat(),
            nn.Linear(6 * 5 * 32, 10),
        ),
    ),
}


def as_ours(values):
    """A parameter of PyTorch's in our order: OIHW to HWIO, depthwise to HWC, (out, in) to (in, out)."""
    values = values.detach().double().numpy()
    if values.ndim == 4:
        return values.transpose(2, 3, 1, 0)
    return values.T if values.ndim == 2 else values


def pairs(model, net, buffers=False):
    """(Our name, PyTorch's tensor) in the order of the layers."""
    theirs = []
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear, nn.LayerNorm, nn.BatchNorm2d)):
            theirs += [p for p in (layer.weight, layer.bias) if p is not None]
            if buffers and isinstance(layer, nn.BatchNorm2d):
                theirs += [layer.running_mean, layer.running_var]
    ours = [name for name in model.weights if buffers or "moving" not in name]
    assert len(ours) == len(theirs), (ours, len(theirs))
    return list(zip(ours, theirs))


def copy_weights(model, net):
    for name, tensor in pairs(model, net, True):
        values, shape = as_ours(tensor), model.weights[name].shape
        assert values.size == np.prod(shape), (name, values.shape, shape)
        if len(shape) == 3:  # depthwise: one filter per channel
            values = values[:, :, 0, :]
        model.weights[name] = values.astype(np.float32).reshape(shape)


def make(text, net, seed=1, **options):
    torch.manual_seed(seed)
    net = net()
    with torch.no_grad():
        for tensor in net.parameters():
            if tensor.ndim == 1:
                tensor.add_(torch.randn(tensor.shape) * 0.1)
    net.train()
    model = ps.Model(text, input=IMAGE, loss="sparse", **options)
    copy_weights(model, net)
    return model, net


def samples(count=8):
    images, labels = batch(IMAGE, count)
    return images * 4 - 2, labels


def theirs(images):
    return torch.from_numpy(images).permute(0, 3, 1, 2)


def compare(text, build, name):
    """Loss, gradients and moving statistics of one step; then results without training."""
    model, net = make(text, build)
    images, labels = samples()
    wide = net.double()
    loss = F.cross_entropy(wide(theirs(images).double()), torch.from_numpy(labels))
    loss.backward()
    ours = model.train_step(images, labels, apply=False)
    assert abs(ours - loss.item()) < LIMIT * abs(loss.item()), (name, ours, loss.item())
    gradients = model.gradients()
    largest = max(np.sqrt(np.mean(as_ours(tensor.grad) ** 2)) for _, tensor in pairs(model, net))
    for key, tensor in pairs(model, net):
        wanted = as_ours(tensor.grad)
        found = gradients[key].reshape(wanted.shape if wanted.ndim < 4 or gradients[key].ndim == 4 else gradients[key].shape)
        wanted = wanted.reshape(found.shape)
        error = np.sqrt(np.mean((found - wanted) ** 2))
        assert error < LIMIT * max(np.sqrt(np.mean(wanted**2)), 1e-3 * largest), (name, key, difference(found, wanted))
    for key, tensor in pairs(model, net, True):
        if "moving_mean" in key:
            assert difference(model.weights[key], tensor.numpy()) < LIMIT, (name, key)
    net.eval()
    copy_weights(model, net)
    with torch.no_grad():
        wanted = wide(theirs(images).double()).numpy()
    assert difference(model.predict(images), wanted) < LIMIT, (name, difference(model.predict(images), wanted))


def test_every_layer():
    failed = []
    for name, (text, layers, width) in CASES.items():
        try:
            compare(text + HEAD, lambda: nn.Sequential(*layers(), Flat(), nn.Linear(width, 10)), name)
        except (AssertionError, ps.Error) as error:
            failed.append(f"{name}: {error}")
    assert not failed, "\n".join(failed)


def test_small_models():
    for name, (text, build) in NETS.items():
        compare(text, build, name)


def steps(make_optimizer, name, **options):
    """20 steps, each from where the step before ended."""
    text, build = NETS[name]
    model, net = make(text, build, **options)
    images, labels = samples(16)
    chosen = make_optimizer(net.double().parameters())
    for step in range(20):
        chosen.zero_grad()
        loss = F.cross_entropy(net(theirs(images).double()), torch.from_numpy(labels))
        loss.backward()
        chosen.step()
        ours = model.train_step(images, labels)
        assert abs(ours - loss.item()) < 1e-4 * loss.item(), (name, step, ours, loss.item())
    for key, tensor in pairs(model, net):
        wanted = as_ours(tensor)
        found = model.weights[key]
        assert difference(found, wanted.reshape(found.shape)) < 1e-4, (name, key, difference(found, wanted.reshape(found.shape)))


def test_sgd():
    for name in NETS:
        steps(lambda p: torch.optim.SGD(p, lr=0.05), name, optimizer="sgd", learning_rate=0.05)


def test_momentum():
    for name in NETS:
        steps(lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9), name, optimizer="sgd", learning_rate=0.02, momentum=0.9)
        steps(
            lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
            name,
            optimizer="nesterov",
            learning_rate=0.02,
            momentum=0.9,
        )


def test_adam():
    """Keras adds epsilon to the uncorrected root, PyTorch to the corrected one: with a tiny one they agree."""
    steps(lambda p: torch.optim.Adam(p, lr=1e-3, eps=1e-12), "separable", epsilon=1e-12)


if __name__ == "__main__":
    tap.main(globals())
