"""`penstock model`, `train`, `eval` and `predict`: a run from images to predictions, kill -9 and resume, mistakes before the start."""
import json
import os
import signal
import subprocess

import tap
from patience import wait_until
from tool import PENSTOCK, environment, penstock, report, scratch

MODEL = "conv 8 3 relu pad=same | maxpool 2 | conv 8 3 relu pad=same | dropout 0.1 | globalavgpool | dense 3"


def data(folder, count=60, size=24):
    penstock("generate", f"{folder}/photos", "--images", count, "--classes", 3, "--size", size, "-q")
    return f"folder {folder}/photos | shuffle | decode | resize 16 | flip | normalize imagenet | batch 8"


def fixed(folder):
    return f"folder {folder}/photos | decode | resize 16 | normalize imagenet | batch 8"


def weights(path):
    with open(path + "/weights.safetensors", "rb") as f:
        return f.read()


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def test_model():
    found = report("model", MODEL, "--input", "16x16x3")
    names = [layer["name"] for layer in found["layers"]]
    assert names[0] == "conv_1" and names[-1] == "dense_1", names
    assert sum(layer["parameters"] for layer in found["layers"]) == 3 * 3 * 3 * 8 + 8 + 3 * 3 * 8 * 8 + 8 + 8 * 3 + 3
    assert found["step_bytes"] > 0 and "conv_1" in found["plan"]
    plan = penstock("model", "conv 8 3 groups=4 | conv 8 3 dilation=2 | dense 4 | silu", "--input", "16x16x8").out
    for words in ("conv_1: conv (", "conv_2: conv (", "dense: its input is an image)", "silu: it has no other kernel)"):
        assert words in plan, plan
    table = penstock("model", "resnet20", "--input", "32x32x3").out
    assert "total" in table and "batchnorm" in table
    text = penstock("model", "cnn:7", "--input", "32x32x3", "--text").out
    assert "dense 7" in text and penstock("model", text.strip(), "--input", "32x32x3", "--text").out == text
    assert "dwconv" in penstock("model", "--layers").out and "resnet18" in penstock("model", "--presets").out
    assert "maxpol" in penstock("model", "maxpol 2", code=2).err
    for shape in ("16", "0x1x1", "axbxc", "1x2", "3x3x3x3"):
        result = penstock("model", "conv 8 3", "--input", shape, code=2)
        assert result.err.startswith("penstock: error: "), result


def test_a_whole_run():
    """Loss falls, the best checkpoint is linked, eval and predict agree with it."""
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        found = lines(penstock("train", train, "--val", fixed(folder), "--model", MODEL, "--epochs", 6, "--lr", 0.01, "--out", run, "--json",
                               "--keep", 2))
        epochs, end = found[:-1], found[-1]
        assert [e["epoch"] for e in epochs] == [1, 2, 3, 4, 5, 6] and epochs[-1]["step"] == 48 and end["step"] == 48
        assert epochs[-1]["val_loss"] < 0.95 * epochs[0]["val_loss"], epochs
        assert all(e["images_per_s"] > 0 and 0 <= e["wait_share"] <= 1 and e["peak_bytes"] > 0 and e["lr"] == 0.01 for e in epochs)
        best = min(epochs, key=lambda e: e["val_loss"])
        assert os.readlink(f"{run}/best") == f"step_{best['step']:08}" and os.readlink(f"{run}/latest") == "step_00000048"
        kept = sorted(name for name in os.listdir(run) if name.startswith("step_"))
        assert kept == sorted({"step_00000040", "step_00000048", f"step_{best['step']:08}"}), kept
        rows = open(f"{run}/logs/epochs.csv").read().splitlines()
        assert len(rows) == 7 and rows[0].startswith("epoch,step,loss") and rows[-1].startswith("6,48,"), rows
        events = [name for name in os.listdir(f"{run}/logs") if name.startswith("events.out.tfevents.")]
        assert len(events) == 1 and b"val/accuracy" in open(f"{run}/logs/{events[0]}", "rb").read()
        result = report("eval", run, fixed(folder))
        assert abs(result["loss"] - best["val_loss"]) < 1e-6 and result["accuracy"] == best["val_accuracy"]
        assert sum(map(sum, result["confusion"])) == 60 and len(result["classes"]) == 3
        right = sum(result["confusion"][i][i] for i in range(3))
        assert abs(right / 60 - result["accuracy"]) < 1e-9
        photos = f"{folder}/photos"
        guesses = lines(penstock("predict", run, photos, "--top", 2, "--json"))
        assert len(guesses) == 60 and all(len(g["top"]) == 2 for g in guesses)
        hits = sum(g["path"].split("/")[-2] == g["top"][0]["class"] for g in guesses)
        assert hits == right, (hits, right)
        assert all(g["top"][0]["probability"] >= g["top"][1]["probability"] for g in guesses)
        piped = lines(penstock("predict", run, fixed(folder), "--top", 2, "--json"))  # a pipeline in place of paths
        assert {g["path"]: g["top"] for g in piped} == {g["path"]: g["top"] for g in guesses}
        endless = penstock("eval", run, fixed(folder).replace(" | batch", " | repeat | batch"), code=None)
        assert endless.code and "never ends" in endless.err and "take" in endless.err, endless
        again = penstock("train", train, "--model", MODEL, "--out", run, code=1)
        assert "earlier run" in again.err and "--resume" in again.err


def test_kill_and_resume():
    """Killed at any moment and resumed, a run ends with the same weights as one that was left alone."""
    with scratch() as folder:
        train = data(folder)
        options = ["--val", fixed(folder), "--model", MODEL, "--steps", 30, "--save-every", 5, "--schedule", "cosine", "--ema", "0.9",
                   "--keep", 50, "-q"]
        penstock("train", train, *options, "--out", f"{folder}/straight")
        want = weights(f"{folder}/straight/step_00000030")
        for attempt, wait in enumerate((1, 3, 5)):
            run = f"{folder}/killed{attempt}"
            with subprocess.Popen([PENSTOCK, "train", train, *map(str, options), "--out", run], env=environment()) as process:
                wait_until(lambda: os.path.exists(f"{run}/step_{wait * 5:08}"), f"checkpoint {wait}", process)
                process.send_signal(signal.SIGKILL)
            penstock("train", "--resume", run)
            assert weights(f"{run}/step_00000030") == want, f"killed after step {wait * 5}"
            assert not [name for name in os.listdir(run) if name.startswith(".")], os.listdir(run)


def test_resume_goes_on():
    """A finished run can be extended, and a damaged newest checkpoint falls back to the one before."""
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        penstock("train", train, "--model", MODEL, "--epochs", 2, "--out", run, "--threads", 1, "-q")
        penstock("train", train, "--model", MODEL, "--epochs", 4, "--out", f"{folder}/long", "--threads", 2, "-q")
        with open(f"{run}/step_00000016/weights.safetensors", "r+b") as f:
            f.seek(-1, 2)
            f.write(b"!")
        os.unlink(f"{run}/latest")  # killed before the link was made
        penstock("train", "--resume", run, "--epochs", 4, "-q")
        assert weights(f"{run}/latest") == weights(f"{folder}/long/latest")

        def rows(path):
            return [line.split(",")[:4] for line in open(path + "/logs/epochs.csv")]
        assert rows(run) == rows(f"{folder}/long")


def test_interrupt():
    """Ctrl-C saves and stops; what follows a resume is the same."""
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        common = ["--model", MODEL, "--steps", "4000", "--epochs", "0", "--log-every", "1"]
        with subprocess.Popen([PENSTOCK, "train", train, *common, "--out", run], env=environment(), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.PIPE) as process:
            for line in process.stdout:
                if "step 9 " in line:
                    process.send_signal(signal.SIGINT)
                    break
            process.stdout.read()
            error = process.stderr.read()
        assert process.returncode == 130, process.returncode
        step = int(os.readlink(f"{run}/latest")[5:])
        assert 9 <= step < 4000 and "--resume" in error, (step, error)
        penstock("train", "--resume", run, "--steps", step + 3, "-q")
        penstock("train", train, *common[:2], "--steps", step + 3, "--epochs", 0, "--out", f"{folder}/straight", "-q")
        assert weights(f"{run}/latest") == weights(f"{folder}/straight/latest")


def test_mistakes():
    with scratch() as folder:
        train = data(folder)
        photos = f"folder {folder}/photos"

        def mistake(*arguments, says, code=2):
            result = penstock("train", *arguments, code=code)
            assert all(word in result.err for word in ([says] if isinstance(says, str) else says)), result
            assert result.out == ""
        mistake(train, says="--model")
        mistake("--model", MODEL, says="pipeline")
        mistake(f"{photos} | decode | batch 8", "--model", MODEL, says=("varies", "resize"), code=None)
        mistake(f"{photos} | batch 8", "--model", MODEL, says="decode", code=None)
        mistake(f"{photos} | decode | resize 16 | drop label | batch 8", "--model", MODEL, says=("label", "--target"))
        mistake(train, "--model", "conv 8 3 | dens 3", says="dense")
        mistake(train, "--model", MODEL, "--freeze", "conv_7", says="conv_7")
        mistake(train, "--model", "flatten | dense 2", "--steps", 5, says=("label 2", "photos/"))
        mistake(train, "--model", "flatten | dense 8 | dense 8 | dense 3", "--lr", "1e6", "--optimizer", "sgd", "--steps", 50, says="not finite", code=None)
        mistake(train, "--model", "flatten | dense 3 sigmoid", "--loss", "sparse", says="sigmoid")
        penstock("generate", f"{folder}/other", "--images", 8, "--classes", 2, "--size", 24, "-q")
        mistake(train, "--model", MODEL, "--val", f"folder {folder}/other | decode | resize 16 | normalize imagenet | batch 8",
                says=("class 2", "missing"))
        mistake(train, "--model", MODEL, "--val", fixed(folder).replace(" | batch", " | repeat | batch"), says=("never ends", "take"))
        mistake("--resume", f"{folder}/nothing", says="nothing", code=1)
        mistake(f"{photos} | take 0 | decode | resize 16 | batch 8", "--model", MODEL, says="no batch", code=None)


tap.main(globals())
