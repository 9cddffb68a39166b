"""ONNX files as MODEL of every command. Files of other programs are read in tests/interop."""
import json
import os

import tap
from tool import penstock, report, scratch

MODEL = "conv 8 3 pad=same bias=false | batchnorm | relu | residual relu ( conv 8 3 pad=same | batchnorm ) | maxpool 2 | globalavgpool | dense 3 softmax"


def setting(folder):
    """A trained run, and the same model as ONNX."""
    penstock("generate", f"{folder}/photos", "--images", 36, "--classes", 3, "--size", 20, "-q")
    pipeline = f"folder {folder}/photos | decode | resize 16 | normalize imagenet | batch 12"
    penstock("train", pipeline, "--val", pipeline, "--model", MODEL, "--epochs", 2, "--lr", 0.01, "--out", f"{folder}/run", "--json")
    penstock("export", f"{folder}/run", f"{folder}/m.onnx")
    return f"{folder}/run", f"{folder}/m.onnx", pipeline


def test_every_command_takes_it():
    with scratch() as folder:
        run, file, pipeline = setting(folder)
        text = penstock("model", file, "--text").out
        assert "residual" in text and "conv 8 3" in text and "16x16x3" in penstock("model", file).out
        assert penstock("model", run, "--text").out.startswith("conv 8 3")
        os.mkdir(f"{folder}/resnet20")
        assert "residual" in penstock("model", "resnet20", "--text", cwd=folder).out, "a preset is a preset, whatever folders there are"

        first, second = report("eval", run, pipeline), report("eval", file, pipeline)
        assert abs(first["loss"] - second["loss"]) < 1e-4 and first["accuracy"] == second["accuracy"] and second["classes"] == first["classes"], second

        said = [json.loads(line) for line in penstock("predict", file, f"{folder}/photos", "--json").out.splitlines()]
        want = [json.loads(line) for line in penstock("predict", run, f"{folder}/photos", "--json").out.splitlines()]
        assert len(said) == 36 and [x["top"][0]["class"] for x in said] == [x["top"][0]["class"] for x in want]
        assert all(abs(a["top"][0]["probability"] - b["top"][0]["probability"]) < 1e-4 for a, b in zip(said, want))

        penstock("export", file, f"{folder}/again.onnx")
        penstock("export", file, f"{folder}/again.safetensors")
        assert penstock("model", f"{folder}/again.onnx", "--text").out == text
        assert abs(report("eval", f"{folder}/again.onnx", pipeline)["loss"] - first["loss"]) < 1e-4

        penstock("compress", file, "--quantize", "int8", "--data", pipeline, "--val", pipeline, "--out", f"{folder}/small", "-q")
        assert abs(report("eval", f"{folder}/small/model", pipeline)["loss"] - first["loss"]) < 0.1

        lines = penstock("train", pipeline, "--weights", file, "--epochs", 1, "--lr", 1e-9, "--out", f"{folder}/tuned", "--val", pipeline, "--json").out
        assert abs(json.loads(lines.splitlines()[0])["loss"] - first["loss"]) < 0.5, lines
        penstock("train", pipeline, "--model", "conv 4 3 relu | globalavgpool | dense 3", "--teacher", file, "--epochs", 1, "--out", f"{folder}/student", "-q")
        assert os.path.exists(f"{folder}/student/latest/state.json")


def test_mistakes_are_named():
    with scratch() as folder:
        _, file, pipeline = setting(folder)
        assert "no checkpoints" in penstock("eval", file, pipeline, "--checkpoint", "best", code=2).err
        for command in (["eval", f"{folder}/missing.onnx", pipeline], ["doctor", pipeline, "--model", f"{folder}/missing.onnx", "--quick"]):
            said = penstock(*command, code=1).err
            assert "missing.onnx" in said and "layer" not in said, said
        with open(file, "rb") as f:
            data = f.read()
        with open(f"{folder}/cut.onnx", "wb") as f:
            f.write(data[: len(data) // 2])
        for command in (["eval", f"{folder}/cut.onnx", pipeline], ["export", f"{folder}/cut.onnx", f"{folder}/x.onnx"], ["model", f"{folder}/cut.onnx"],
                        ["predict", f"{folder}/cut.onnx", f"{folder}/photos"]):
            said = penstock(*command, code=3).err
            assert "cut.onnx" in said and "ONNX" in said, said
        assert not os.path.exists(f"{folder}/x.onnx")
        with open(f"{folder}/bare.onnx", "wb") as f:  # of another program: without the metadata
            f.write(data.replace(b"preprocessing", b"preprocessing"[::-1]))
        assert "text of one" in penstock("predict", f"{folder}/bare.onnx", f"{folder}/photos", code=1).err
        assert "%" in penstock("predict", f"{folder}/bare.onnx", pipeline).out


tap.main(globals())
