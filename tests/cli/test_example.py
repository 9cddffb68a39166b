"""examples/train.c and quantize.c: compiled as a user's programs, one learns the images of packed shards, the other makes an int8 model of a run."""
import os
import re
import subprocess

import tap
from patience import HANG
from tool import environment, penstock, report, scratch

EXAMPLE = os.environ["TRAIN_EXAMPLE"]


def test_trains_from_shards():
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 240, "--classes", 4, "--size", 40, "-q")
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "-q")
        done = subprocess.run([EXAMPLE, f"{folder}/shards"], env=environment(), text=True, capture_output=True, timeout=HANG)
        assert done.returncode == 0, done
        losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", done.stdout)]
        right = float(re.search(r"([0-9.]+) % of 240 images", done.stdout)[1])
        assert len(losses) == 6 and losses[-1] < 0.8 * losses[0] and right > 50, done.stdout


def test_mistakes_are_said():
    with scratch() as folder:
        done = subprocess.run([EXAMPLE, f"{folder}/nothing"], env=environment(), text=True, capture_output=True, timeout=HANG)
        assert done.returncode == 1 and "nothing" in done.stderr, done


def test_quantizes_a_run():
    """The int8 model is a quarter of the bytes, nearly as good, and runs by eval, predict and export."""
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 240, "--classes", 4, "--size", 40, "-q")
        data = f"folder {folder}/photos | decode | resize 32 | normalize imagenet | batch 32"
        model = "conv 16 3 relu | maxpool 2 | conv 32 3 relu | maxpool 2 | flatten | dense 4"
        penstock("train", data.replace("decode", "shuffle | decode"), "--val", data, "--model", model, "--epochs", 6, "--lr", 0.002, "--out",
                 f"{folder}/run", "-q")
        done = subprocess.run([os.environ["QUANTIZE_EXAMPLE"], f"{folder}/run", f"{folder}/int8"], env=environment(), text=True, capture_output=True,
                              timeout=HANG)
        assert done.returncode == 0, done
        rows = re.findall(r"accuracy ([0-9.]+) %, loss ([0-9.]+), ([0-9]+) bytes", done.stdout)
        full, small = [[float(x) for x in row] for row in rows]
        assert full[0] > 50 and abs(full[0] - small[0]) <= 2.5 and small[2] < 0.3 * full[2], done.stdout
        assert os.path.getsize(f"{folder}/int8/weights.safetensors") < 0.4 * os.path.getsize(f"{folder}/run/best/weights.safetensors")
        assert abs(report("eval", f"{folder}/int8", data)["accuracy"] - small[0] / 100) < 1e-4
        guesses = penstock("predict", f"{folder}/int8", f"{folder}/photos", "--top", 1, "--csv").out.splitlines()
        assert len(guesses) == 240, guesses[:3]
        same = sum(a.split(",")[1] == b.split(",")[1] for a, b in
                   zip(guesses, penstock("predict", f"{folder}/int8", f"{folder}/photos", "--top", 1, "--csv", "--fp32").out.splitlines()))
        assert same >= 228, same
        penstock("export", f"{folder}/int8", f"{folder}/int8.onnx")
        assert b"QuantizeLinear" in open(f"{folder}/int8.onnx", "rb").read()
        resumed = penstock("train", "--resume", f"{folder}/int8", code=1)
        assert resumed.err.startswith("penstock: error: "), resumed.err


tap.main(globals())
