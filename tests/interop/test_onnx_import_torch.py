"""Models that torch.onnx.export writes, read by Model.load and by the tool: results equal those of ONNX Runtime."""

import os
import subprocess
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import tap
import torch
import torchvision
from torch import nn

import penstock as ps

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
LIMIT = 1e-4  # relative to the largest result


def stir(model, seed):
    """Statistics and scales that are not 0 and 1, as after training."""
    torch.manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.1)
    return model.eval()


def write(model, shape, path, dynamo=False, **options):
    torch.onnx.export(model, torch.zeros(1, *shape), path, dynamo=dynamo, verbose=False, **options)


def runtime(path, images):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: images[i : i + 1]})[0] for i in range(len(images))])


def check(model, shape, limit=LIMIT, **options):
    """The file as our model: returns it and its results, which equal those of ONNX Runtime."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.onnx"
        write(stir(model, 1), shape, path, **options)
        images = np.random.default_rng(2).normal(size=(2, *shape)).astype(np.float32)
        want = runtime(path, images)
        ours = ps.Model.load(path)
        given = np.ascontiguousarray(images.transpose(0, 2, 3, 1)) if len(shape) == 3 else images
        got = np.asarray(ours.predict(given)).reshape(len(want), *ours.output)
        off = np.abs(got.reshape(want.shape) - want).max() / np.abs(want).max()
        assert off <= limit and np.ptp(want) > 0, f"off by {off}"
        return ours, path


def test_resnet18():
    model, _ = check(torchvision.models.resnet18(num_classes=100), (3, 96, 96), dynamic_axes={"input.1": {0: "batch"}}, input_names=["input.1"])
    assert "residual" in model.text and model.input == (96, 96, 3) and model.output == (100,), model.text
    assert "layer3.1.conv2/kernel" in model.weights, list(model.weights)


def test_resnet18_with_batch_norm():
    """Not folded: every layer is there, with the names of PyTorch's modules."""
    model, _ = check(torchvision.models.resnet18(num_classes=10), (3, 64, 64), training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    assert "batchnorm" in model.text and "layer1.0.bn1/gamma" in model.weights, list(model.weights)[:12]


def test_mobilenet_v2():
    model, _ = check(torchvision.models.mobilenet_v2(num_classes=100), (3, 96, 96))
    assert "dwconv" in model.text and "residual" in model.text and "relu6" in model.text, model.text


def test_exporter_of_programs():
    """What torch.onnx.export writes by default from version 2.9 on, with weights in a file beside it."""
    for make in (torchvision.models.resnet18, torchvision.models.mobilenet_v2):
        model, _ = check(make(num_classes=10), (3, 64, 64), dynamo=True)
        assert "residual" in model.text and model.output == (10,), model.text


def test_versions_of_operators():
    for opset in (9, 11, 13, 17):
        check(torchvision.models.mobilenet_v2(num_classes=10, width_mult=0.35), (3, 64, 64), opset_version=opset)


class Layers(nn.Module):
    """What else models are made of."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.ZeroPad2d((1, 2, 1, 2)), nn.Conv2d(3, 12, 3, 2), nn.SiLU(), nn.Conv2d(12, 12, (1, 5), padding=(0, 2)), nn.GELU())
        self.left, self.right = nn.Conv2d(12, 6, 3, padding=1, groups=3), nn.Conv2d(12, 10, 3, padding=2, dilation=2)
        self.pools = nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.LeakyReLU(0.2), nn.Tanh())
        self.dense = nn.Sequential(nn.Linear(16 * 3 * 4, 20), nn.Sigmoid(), nn.Dropout(0.5), nn.LayerNorm(20), nn.Linear(20, 7), nn.Softmax(1))

    def forward(self, x):
        x = self.stem(x * 2 - 0.5)
        x = self.pools(torch.cat((self.left(x), self.right(x)), 1))
        return self.dense(x.view(x.size(0), -1))  # channels first: the weights of the next layer change their order


def test_other_layers():
    check(Layers(), (3, 27, 34), opset_version=17)


class Block(nn.Module):
    """A block of DenseNet: every layer reads the block's input and all layers before it."""

    def __init__(self, channels, growth, layers, spelled):
        super().__init__()
        self.spelled = spelled
        self.layers = nn.ModuleList(nn.Sequential(nn.BatchNorm2d(channels + i * growth), nn.ReLU(), nn.Conv2d(channels + i * growth, 2 * growth, 1, bias=False),
                                                  nn.BatchNorm2d(2 * growth), nn.ReLU(), nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False)) for i in range(layers))

    def forward(self, x):
        if not self.spelled:  # as in Keras: the input and one layer at a time
            for layer in self.layers:
                x = torch.cat((x, layer(x)), 1)
            return x
        values = [x]  # as in torchvision: all of them each time
        for layer in self.layers:
            values.append(layer(torch.cat(values, 1)))
        return torch.cat(values, 1)


def test_dense_blocks():
    for spelled in (False, True):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), Block(8, 4, 3, spelled), nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1), nn.AvgPool2d(2), Block(10, 4, 20, spelled),
                              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(90, 5))
        ours, _ = check(model, (3, 24, 24))
        assert ours.text.count("concat name=") == 23, ours.text


def test_densenet121():
    ours, _ = check(torchvision.models.densenet121(num_classes=10), (3, 64, 64))
    assert ours.text.count("concat name=") == 58, ours.text


def test_vector():
    check(nn.Sequential(nn.Linear(9, 16), nn.ReLU(), nn.Linear(16, 3, bias=False)), (9,))


def test_unsupported_is_named():
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/hard.onnx"
        write(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Hardswish()).eval(), (3, 8, 8), path, opset_version=14)
        try:
            ps.Model.load(path)
            raise SystemExit("accepted")
        except ps.Error as error:
            assert "hard.onnx" in str(error) and "HardSwish" in str(error) and "docs/onnx.md" in str(error), error


def tool(*words):
    done = subprocess.run([os.environ["PENSTOCK"], *map(str, words)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_external_data():
    with tempfile.TemporaryDirectory() as folder:
        model = stir(nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 36, 5)), 3)
        write(model, (3, 8, 8), f"{folder}/inside.onnx")
        onnx.save_model(onnx.load(f"{folder}/inside.onnx"), f"{folder}/outside.onnx", save_as_external_data=True, location="weights.bin", size_threshold=64)
        assert os.path.getsize(f"{folder}/weights.bin") > 20000 and os.path.getsize(f"{folder}/outside.onnx") < 10000
        images = np.random.default_rng(2).normal(size=(2, 8, 8, 3)).astype(np.float32)
        a, b = ps.Model.load(f"{folder}/inside.onnx"), ps.Model.load(f"{folder}/outside.onnx")
        assert np.array_equal(np.asarray(a.predict(images)), np.asarray(b.predict(images)))


def test_export_again():
    """What the tool exports from an imported file computes the same, and imports to the same model."""
    with tempfile.TemporaryDirectory() as folder:
        first, second, third = (f"{folder}/{i}.onnx" for i in "abc")
        write(stir(torchvision.models.resnet18(num_classes=10), 1), (3, 64, 64), first)
        tool("export", first, second)
        tool("export", second, third, "--layout", "nhwc")
        images = np.random.default_rng(2).normal(size=(2, 3, 64, 64)).astype(np.float32)
        want = runtime(first, images)
        for path, given in ((second, images), (third, np.ascontiguousarray(images.transpose(0, 2, 3, 1)))):
            off = np.abs(runtime(path, given) - want).max() / np.abs(want).max()
            assert off <= LIMIT, off
        assert tool("model", second, "--text") == tool("model", third, "--text") == tool("model", first, "--text")


tap.main(globals())
