"""`penstock export`: a trained run as ONNX and as safetensors. What ONNX Runtime makes of it is tested in tests/interop."""
import json
import os
import struct

import tap
from tool import penstock, report, scratch

MODEL = "conv 4 3 relu | batchnorm | globalavgpool | dense 3 softmax"


def train(folder):
    penstock("generate", f"{folder}/photos", "--images", 24, "--classes", 3, "--size", 20, "-q")
    pipeline = f"folder {folder}/photos | decode | resize 16 | normalize imagenet | batch 8"
    penstock("train", pipeline, "--val", pipeline, "--model", MODEL, "--epochs", 2, "--out", f"{folder}/run", "--json")
    return f"{folder}/run", pipeline


def arrays(path):
    with open(path, "rb") as f:
        data = f.read()
    [length] = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    return {name: (x["shape"], body[slice(*x["data_offsets"])]) for name, x in header.items() if name != "__metadata__"}


def test_formats_and_mistakes():
    with scratch() as folder:
        run, pipeline = train(folder)
        found = report("export", run, f"{folder}/w.safetensors", "--checkpoint", "latest")
        assert found["step"] == 6 and found["bytes"] == os.path.getsize(f"{folder}/w.safetensors") and found["checkpoint"] == f"{run}/latest"
        assert arrays(f"{folder}/w.safetensors") == arrays(f"{run}/latest/weights.safetensors")
        assert arrays(f"{folder}/w.safetensors")["conv_1/kernel"][0] == [3, 3, 3, 4]

        said = penstock("export", run, f"{folder}/m.onnx").out
        assert said.startswith(f"{folder}/m.onnx: ") and "step" in said, said
        with open(f"{folder}/m.onnx", "rb") as f:
            channels_first = f.read()
        for part in (b"images", b"conv_1/kernel", pipeline.encode(), b"class"):
            assert part in channels_first, part
        assert "m.onnx" in penstock("export", run, f"{folder}/m.onnx", code=1).err  # it exists
        penstock("export", run, f"{folder}/m.onnx", "--layout", "nhwc", "--force")
        with open(f"{folder}/m.onnx", "rb") as f:
            assert f.read() != channels_first

        assert ".safetensors" in penstock("export", run, f"{folder}/m.h5", code=2).err
        assert not os.path.exists(f"{folder}/m.h5")
        assert "nowhere" in penstock("export", f"{folder}/nowhere", f"{folder}/x.onnx", code=1).err
        penstock("export", run, code=2)
        penstock("export", run, f"{folder}/x.onnx", "--checkpoint", "999", code=1)
        assert not os.path.exists(f"{folder}/x.onnx")


tap.main(globals())
