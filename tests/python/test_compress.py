"""penstock.compress: int8, zeros and channels from Python; ONNX files, models in memory, mistakes, progress that stops."""
import array
import os
import tempfile

import tap

import penstock as ps

MODEL = "conv 8 3 relu pad=same | maxpool 2 | conv 8 3 pad=same bias=false | batchnorm | relu | globalavgpool | dense 3 softmax"


def setting():
    """Images whose label is their brightest channel, and a model that has learned it."""
    images, labels = [], []
    for i in range(96):
        label = i % 3
        images.append([[[0.8 if c == label else 0.1 * ((i * 7 + y * 3 + x) % 5) for c in range(3)] for x in range(8)] for y in range(8)])
        labels.append(label)
    flat = memoryview(array.array("f", [v for image in images for row in image for pixel in row for v in pixel])).cast("B").cast("f", (96, 8, 8, 3))
    data = ps.from_arrays({"image": flat, "label": memoryview(array.array("q", labels))}).batch(16)
    model = ps.Model(MODEL, input=(8, 8, 3), seed=1, learning_rate=0.01)
    model.fit(data, epochs=6)
    return model, data


def test_int8():
    model, data = setting()
    with tempfile.TemporaryDirectory() as folder:
        seen = []
        result = ps.compress(model, f"{folder}/small", quantize="int8", validation=data, progress=lambda what, about: seen.append((what, about)) and None)
        assert [v["name"] for v in result.variants] == ["original", "int8"] and result.chosen == 1 and result.path == f"{folder}/small/model", result
        assert result.variants[1]["accuracy"] > 0.9 and result.variants[1]["latency1"] > 0 and "int8" in str(result), str(result)
        assert any("accuracy" in about for _, about in seen), seen
        again = result.load()
        assert again.evaluate(data)["accuracy"] > 0.9


def test_calibration():
    model, data = setting()
    with tempfile.TemporaryDirectory() as folder:
        found = set()
        for i, options in enumerate(({}, dict(calibration="percentile", percentile=0.9), dict(weight_bits=8), dict(calibration="minmax", calibration_samples=1))):
            ps.compress(model, f"{folder}/{i}", quantize="int8", validation=data, **options)
            with open(f"{folder}/{i}/model/weights.safetensors", "rb") as f:
                found.add(f.read())
        assert len(found) == 4, len(found)


def test_zeros_and_page():
    model, data = setting()
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model")
        result = ps.compress(f"{folder}/model", f"{folder}/small", prune=0.5, data=data, validation=data, epochs=1, html=f"{folder}/page.html")
        first, last = result.variants[0], result.variants[-1]
        assert last["nonzero"] < 0.7 * first["nonzero"], result.variants
        assert "<svg" in open(f"{folder}/page.html").read()


def test_bits_per_layer():
    model, data = setting()
    with tempfile.TemporaryDirectory() as folder:
        long = os.path.join(folder, *["a" * 200] * 8)
        os.makedirs(long)
        result = ps.compress(model, f"{long}/small", quantize="weights-mixed", bits=5, validation=data, html=f"{folder}/page.html")
        sizes = [(layer["bits"], layer["weights"]) for layer in result.layers]
        assert len(sizes) == 3 and 4 <= sum(b * n for b, n in sizes) / sum(n for _, n in sizes) <= 5, result.layers
        assert result.path == f"{long}/small/model" and result.load().evaluate(data)["accuracy"] > 0.8
        page = open(f"{folder}/page.html").read()
        assert "<title>model in memory" in page and tempfile.gettempdir() + "/" not in page, page[:400]


def dense(rows, images, labels):
    """A model of one dense layer, flatten | dense, with a kernel, and samples with their labels."""
    width, classes = len(rows), len(rows[0])
    floats = memoryview(array.array("f", [v for image in images for v in image])).cast("B").cast("f", (len(images), 1, 1, width))
    data = ps.from_arrays({"image": floats, "label": memoryview(array.array("q", labels))}).batch(4)
    model = ps.Model(f"flatten | dense {classes}", input=(1, 1, width), seed=1, loss="sparse")
    model.weights["dense_1/kernel"] = memoryview(array.array("f", [v for row in rows for v in row])).cast("B").cast("f", (width, classes))
    return model, data


def searched(model, data, *arguments, **options):
    """The result, and how often a layer was measured."""
    seen = []
    result = ps.compress(model, *arguments, quantize="weights-mixed", validation=data, progress=lambda what, about: seen.append(what) and None, **options)
    return result, seen.count("how sensitive layers are to fewer bits")


def test_layers_are_measured_once():
    """Also where three tries lose too much, and without a folder for the measurements: the large weights, of an input that is 0, leave the others no bits."""
    model, data = dense([[1000, 1000], [1, -1]], [[0, 1], [0, -1]] * 4, [0, 1] * 4)
    result, count = searched(model, data, bits=4, target_accuracy=-0.001)
    assert len(result.variants) == 4 and result.chosen == 0 and count == 3, (result.variants, count)


def test_losses_that_are_not_numbers():
    """Values that overflow with 4 bits: measured once, and never chosen. Of a model that is broken already, nothing can be measured."""
    model, data = dense([[1.75e38, 0], [0.93 * 1.75e38, 0]], [[1, 1]] * 8, [0] * 8)
    with tempfile.TemporaryDirectory() as folder:
        for count in (3, 0):
            result, found = searched(model, data, f"{folder}/small", bits=4)
            assert found == count and [layer["bits"] for layer in result.layers] == [8], (found, result.layers)
    model, data = dense([[3e38, 0], [3e38, 0]], [[1, 1]] * 8, [0] * 8)
    try:
        searched(model, data)
        raise SystemExit("accepted")
    except ps.Error as error:
        assert "loss on the validation data is" in str(error), error


def test_mistakes():
    model, data = setting()
    for wrong, said in ((dict(validation=data), "nothing to do"), (dict(quantize="int9", validation=data), "expected one of none, bfloat16, float16, weights-int8, weights-int4, int8, weights-mixed"),
                        (dict(prune=0.5, norm="l3", validation=data), 'norm="l3"; expected one of l1, l2, scale'), (dict(quantize="weights-mixed", bits=3, validation=data), "3 bits"), (dict(prune=1.5, validation=data), "prune"),
                        (dict(quantize="int8", validation=[1]), "list"), (dict(quantize="int8", target_accuracy=0.5, validation=data), "may be lost"),
                        (dict(prune="2:4:8", validation=data), "2:4:8"), (dict(prune="2:4", structured=True, validation=data), "not whole channels"),
                        (dict(structured=True, quantize="int8", validation=data), "needs a share"),
                        (dict(quantize="weights-int8", qat=True, validation=data), "--quantize int8"), (dict(quantize="int8", bits=5, validation=data), "weights-mixed"),
                        (dict(prune=0.5, structured=True, flops=0.3, validation=data), "no flops"), (dict(prune=0.5, epochs=-1, validation=data), "at least 1"),
                        (dict(quantize="int8", calibration="best", validation=data), "expected one of auto, minmax"),
                        (dict(quantize="int8", weight_bits=6, validation=data), "7 or 8 bits"), (dict(prune=0.5, calibration="mse", validation=data), "--quantize int8"),
                        (dict(prune=0.5, search=True, structured=True, validation=data), "--search"), (dict(prune=0.5, exclude="nope", validation=data), "nope"),
                        (dict(prune="4294967298:4294967300", validation=data), "at most 64"), (dict(prune=0.5, data=data, validation=data), "--out"),
                        (dict(quantize="int8"), "validation"), (dict(quantize="int8", validation=data.map(lambda b: b, per="batch")), "map before batch")):
        try:
            ps.compress(model, **wrong)
            raise SystemExit(f"accepted: {wrong}")
        except (ValueError, TypeError, ps.Error) as error:
            assert said in str(error), error
    try:
        ps.compress("/nowhere/at/all.onnx", quantize="int8", validation=data)
        raise SystemExit("accepted")
    except ps.Error as error:
        assert "all.onnx" in str(error), error


def test_exceptions_and_stops():
    model, data = setting()

    def fails(what, about):
        raise KeyError("mine")

    try:
        ps.compress(model, quantize="int8", validation=data, progress=fails)
        raise SystemExit("went on")
    except KeyError as error:
        assert "mine" in str(error)
    with tempfile.TemporaryDirectory() as folder:
        result = ps.compress(model, f"{folder}/small", quantize="int8", validation=data, progress=lambda what, about: True)
        assert result.stopped and result.path is None and not os.path.exists(f"{folder}/small/model")


tap.main(globals())
