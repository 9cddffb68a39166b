"""ONNX files of ours, checked by onnx and run by ONNX Runtime: its results equal those of our own step, for every layer, in both
layouts. The program under test is named by the environment variable ONNX_DUMP."""
import json
import os
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
import safetensors.numpy

import tap

TOLERANCE = 1e-5  # absolute, where results are about 1; relative to the largest value otherwise
IMAGE = (12, 10, 3)

MODELS = {
    "conv": ("conv 8 3 relu | maxpool 2 | flatten | dense 10", IMAGE),
    "same": ("conv 16 3 relu stride=2 pad=same | conv 6 4 pad=same | conv 5 2 stride=3 pad=same | flatten | dense 3", (13, 10, 3)),
    "pad": ("conv 16 3 stride=2 pad=1 | relu | conv 8 5 pad=3 stride=3 bias=false | flatten | dense 4 bias=false", IMAGE),
    "groups": ("conv 12 3 groups=3 dilation=2 pad=same | conv 8 3 groups=4 bias=false pad=1 | globalavgpool", IMAGE),
    "depthwise": ("dwconv 3 pad=same stride=2 | dwconv 3 bias=false dilation=2 pad=same | conv 9 1 relu6 | globalavgpool | dense 5", IMAGE),
    "separable": ("sepconv 8 3 relu pad=same | maxpool 2 | sepconv 12 3 | flatten | dense 6", IMAGE),
    "batchnorm": ("conv 16 3 pad=same bias=false | batchnorm | relu | maxpool 3 stride=2 pad=1 | flatten | dense 7 | batchnorm eps=0.1", IMAGE),
    "layernorm": ("conv 6 3 | layernorm | conv 5 3 | flatten | layernorm eps=0.01 | dense 3", IMAGE),
    "activations": ("conv 8 3 gelu | conv 8 3 silu pad=same | conv 8 1 tanh | conv 8 1 | leaky 0.1 | conv 8 1 relu6 | conv 4 1 sigmoid | flatten"
                    " | dense 6 | leaky | dense 5 softmax", IMAGE),
    "pools": ("avgpool 3 stride=2 pad=same | maxpool 3 stride=1 pad=same | avgpool 2 stride=1 pad=1 | maxpool 2 stride=1 pad=1 | avgpool 2 | "
              "flatten", (14, 11, 4)),
    "residual": ("conv 8 3 pad=same | repeat 2 ( residual relu ( conv 8 3 pad=same bias=false | batchnorm ) ) | residual ( conv 12 3 stride=2 "
                 "pad=same | batchnorm ) | globalavgpool | dropout 0.3 | dense 10", IMAGE),
    "joins": ("concat ( conv 5 1 )( conv 7 3 relu pad=same )( avgpool 3 stride=1 pad=same ) | add ( conv 4 1 )( conv 4 3 pad=same )( conv 4 1 tanh )"
              " | dropout 0.5", IMAGE),
    "image result": ("conv 4 3 pad=same | dense 6 relu | softmax", IMAGE),
    "pixels": ("flatten | dense 8 relu | dense 3", IMAGE),
    "vector": ("dense 64 relu | dropout 0.2 | flatten | dense 2 sigmoid", (9,)),
    "nothing": ("dropout 0.2", (9,)),
    "mobilenet": ("conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6 | dwconv 3 pad=same bias=false | batchnorm | relu6 | conv 32 1 "
                  "bias=false | batchnorm | relu6 | dwconv 3 stride=2 pad=same bias=false | batchnorm | relu6 | conv 48 1 bias=false | batchnorm"
                  " | relu6 | globalavgpool | dense 10 softmax", (32, 32, 3)),
    "resnet": ("conv 16 3 pad=same bias=false | batchnorm | relu | repeat 3 ( residual relu ( conv 16 3 pad=same bias=false | batchnorm | relu | "
               "conv 16 3 pad=same bias=false | batchnorm ) ) | residual relu ( conv 32 3 stride=2 pad=same bias=false | batchnorm | relu | "
               "conv 32 3 pad=same bias=false | batchnorm ) | globalavgpool | dense 10", (32, 32, 3)),
}


def export(text, shape, layout, folder, samples=3, *more):
    """Writes the model; returns its path, the input (as the model wants it) and the result of our step."""
    done = subprocess.run([os.environ["ONNX_DUMP"], text, "x".join(map(str, shape)), layout, str(samples), folder, *more], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    values = np.fromfile(f"{folder}/input.f32", np.float32).reshape(samples, *shape)
    if layout == "nchw" and len(shape) == 3:
        values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    return f"{folder}/model.onnx", values, np.fromfile(f"{folder}/output.f32", np.float32)


def run(path, values):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    [wanted], [result] = session.get_inputs(), session.get_outputs()
    assert wanted.name == ("images" if values.ndim == 4 else "inputs") and result.name == "output", (wanted.name, result.name)
    assert wanted.shape == ["N", *values.shape[1:]], wanted.shape
    got = session.run(None, {wanted.name: values})[0]
    assert list(got.shape[1:]) == result.shape[1:] and result.shape[0] == "N", (got.shape, result.shape)
    return got


def check(name, layout):
    text, shape = MODELS[name]
    with tempfile.TemporaryDirectory() as folder:
        path, values, want = export(text, shape, layout, folder)
        onnx.checker.check_model(path, full_check=True)
        got = run(path, values)
        if layout == "nchw" and got.ndim == 4:
            got = got.transpose(0, 2, 3, 1)
        want = want.reshape(got.shape)
        off = np.abs(got - want).max() / max(1, np.abs(want).max())
        assert off <= TOLERANCE, f"{name}, {layout}: off by {off}"
        assert np.abs(want).max() > 0 and np.ptp(want) > 0, f"{name}: a result that is the same everywhere proves nothing"


def test_runtime_agrees_nchw():
    for name in MODELS:
        check(name, "nchw")


def test_runtime_agrees_nhwc():
    for name in MODELS:
        check(name, "nhwc")


SINGLE = {  # one layer between stored integers
    "conv": ("conv 16 3 relu pad=same | maxpool 1", IMAGE),
    "strided": ("conv 24 5 stride=2 | maxpool 1", IMAGE),
    "pointwise": ("conv 40 1 relu6 | maxpool 1", IMAGE),
    "depthwise": ("dwconv 3 relu pad=same | maxpool 1", (12, 10, 16)),
    "pool": ("conv 8 3 relu | maxpool 2", IMAGE),
    "groups": ("conv 12 3 groups=3 dilation=2 pad=same | maxpool 1", IMAGE),
}


def quantised(text, shape, layout, samples=8):
    """Our integers and those of ONNX Runtime, and the step between them."""
    with tempfile.TemporaryDirectory() as folder:
        path, values, want = export(text, shape, layout, folder, samples, "int8")
        onnx.checker.check_model(path, full_check=True)
        kinds = [n.op_type for n in onnx.load(path).graph.node]
        assert kinds.count("QuantizeLinear") >= 1 and kinds.count("DequantizeLinear") >= kinds.count("QuantizeLinear"), kinds
        got = run(path, values)
        if layout == "nchw" and got.ndim == 4:
            got = got.transpose(0, 2, 3, 1)
        return got, want.reshape(got.shape), float(np.fromfile(f"{folder}/scale.f32", np.float32)[0])


def test_quantised_layers_agree():
    """The integers of single layers are identical but for ties that the two round apart: at most one level, on one value of a thousand."""
    for name, (text, shape) in SINGLE.items():
        for layout in ("nchw", "nhwc"):
            got, want, step = quantised(text, shape, layout)
            levels = np.abs(got - want) / step
            assert levels.max() < 1.01 and (levels > 0.5).mean() <= 1e-3, f"{name}, {layout}: {levels.max()} levels, {(levels > 0.5).mean()} differ"
            assert np.ptp(want) > 0


def test_quantised_models_agree():
    """Whole models: the results differ by 2 % of their range at most."""
    for name in ("conv", "same", "pad", "groups", "depthwise", "separable", "batchnorm", "pools", "residual", "joins", "pixels", "vector", "mobilenet",
                 "resnet"):
        got, want, _ = quantised(*MODELS[name], "nchw")
        off = np.abs(got - want).max() / np.ptp(want)
        assert off < 0.02, f"{name}: off by {off}"


def test_batch_is_open():
    with tempfile.TemporaryDirectory() as folder:
        path, values, _ = export(*MODELS["residual"], "nhwc", folder, samples=5)
        whole = run(path, values)
        for i in range(5):
            assert np.allclose(run(path, values[i : i + 1]), whole[i], atol=TOLERANCE)


def test_versions_and_metadata():
    with tempfile.TemporaryDirectory() as folder:
        path, _, _ = export(*MODELS["conv"], "nchw", folder)
        model = onnx.load(path)
        assert model.ir_version == 8 and [(o.domain, o.version) for o in model.opset_import] == [("", 17)]
        assert model.producer_name == "penstock" and model.producer_version
        notes = {p.key: p.value for p in model.metadata_props}
        assert json.loads(notes["classes"]) == ["cat", 'dog "big"', "häuschen"]
        assert notes["preprocessing"] == "decode | resize 32" and notes["model"] == MODELS["conv"][0]
        assert {t.name for t in model.graph.initializer} == {"conv_1/kernel", "conv_1/bias", "dense_1/kernel", "dense_1/bias"}


def test_pools_in_padding_are_refused():
    with tempfile.TemporaryDirectory() as folder:
        try:
            export("maxpool 2 pad=2 | flatten", IMAGE, "nchw", folder)
            raise SystemExit("accepted")
        except AssertionError as error:
            assert "PST_EUNSUPPORTED" in str(error) and "maxpool_1" in str(error), error
        assert not os.path.exists(f"{folder}/model.onnx")


def tool(*words):
    done = subprocess.run([os.environ["PENSTOCK"], *map(str, words)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_a_trained_run():
    """`penstock export` of a run gives the probabilities that `penstock predict` prints; safetensors reads the weights."""
    with tempfile.TemporaryDirectory() as folder:
        photos, trained = f"{folder}/photos", f"{folder}/run"
        prepare = f"folder {photos} | decode | resize 16 | normalize imagenet"
        tool("generate", photos, "--images", 12, "--classes", 3, "--size", 20, "-q")
        tool("train", prepare + " | batch 4", "--model", "conv 8 3 relu | batchnorm | conv 8 3 relu | globalavgpool | dense 3 softmax", "--epochs", 3,
             "--lr", 0.01, "--out", trained, "--json")
        tool("export", trained, f"{folder}/model.onnx", "--layout", "nhwc")
        tool("export", trained, f"{folder}/model.safetensors")
        model = onnx.load(f"{folder}/model.onnx")
        notes = {p.key: p.value for p in model.metadata_props}
        names = json.loads(notes["classes"])
        assert len(names) == 3 and notes["preprocessing"] == prepare + " | batch 4", notes

        weights = safetensors.numpy.load_file(f"{folder}/model.safetensors")
        stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        assert weights["conv_1/kernel"].shape == (3, 3, 3, 8) and weights.keys() == stored.keys()
        assert np.array_equal(stored["conv_1/kernel"].transpose(2, 3, 1, 0), weights["conv_1/kernel"])

        elements = [json.loads(line)["fields"]["image"] for line in tool("cat", prepare, "-n", 0, "--values", 1000, "--json").splitlines()]
        got = run(f"{folder}/model.onnx", np.array(elements, np.float32))
        said = [json.loads(line) for line in tool("predict", trained, photos, "--json").splitlines()]
        assert len(said) == len(got) == 12
        for one, result in zip(sorted(said, key=lambda x: x["path"]), got):
            for x in one["top"]:
                assert names[x["index"]] == x["class"] and abs(result[x["index"]] - x["probability"]) < TOLERANCE, (one, result)


tap.main(globals())
