"""What `penstock train` can do beyond a plain run: accumulation, weights, validations, monitors, sweeps, lr-find, the report."""
import csv
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import time

import tap
from patience import HANG, wait_until
from tool import PENSTOCK, environment, penstock, report, scratch
from trace_events import check_trace

MODEL = "conv 6 3 relu pad=same | maxpool 2 | conv 8 3 pad=same bias=false | batchnorm | relu | dropout 0.1 | globalavgpool | dense 3"


def data(folder, count=60, classes=3):
    penstock("generate", f"{folder}/photos", "--images", count, "--classes", classes, "--size", 24, "-q")
    return f"folder {folder}/photos | shuffle | decode | resize 16 | flip | normalize imagenet | batch 8"


def fixed(folder):
    return f"folder {folder}/photos | decode | resize 16 | normalize imagenet | batch 8"


def weights(path):
    with open(path + "/weights.safetensors", "rb") as f:
        return f.read()


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def test_kill_with_accumulation():
    """Killed at any moment and resumed: the same weights, with several batches per update, a mean of the weights and validations."""
    with scratch() as folder:
        train = data(folder)
        options = ["--val", fixed(folder), "--model", MODEL, "--steps", 16, "--save-every", 3, "--accumulate", 3, "--ema", "0.9", "--val-every", 2,
                   "--schedule", "plateau", "--plateau", 1, "--monitor", "val-accuracy", "--keep", 50, "-q"]
        penstock("train", train, *options, "--out", f"{folder}/straight")
        want = [weights(f"{folder}/straight/step_00000016"), open(f"{folder}/straight/step_00000016/optimizer.safetensors", "rb").read()]
        state = json.load(open(f"{folder}/straight/latest/state.json"))
        assert state["batches_per_step"] == 3 and state["run"]["validations"] == 8 and state["threads"] >= 1, state
        for attempt, wait in enumerate((2, 6, 9, 14)):
            run = f"{folder}/killed{attempt}"
            with subprocess.Popen([PENSTOCK, "train", train, *map(str, options), "--out", run], env=environment()) as process:
                wait_until(lambda: os.path.exists(f"{run}/step_{wait:08}") or process.poll() is not None, f"step {wait}")
                process.send_signal(signal.SIGKILL)
            penstock("train", "--resume", run)
            assert [weights(f"{run}/step_00000016"), open(f"{run}/step_00000016/optimizer.safetensors", "rb").read()] == want, wait


def test_interrupt_within_a_step():
    """Ctrl-C between the batches of one update: what follows a resume is the same."""
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        common = ["--model", MODEL, "--epochs", "0", "--accumulate", "50"]
        with subprocess.Popen([PENSTOCK, "train", train, *common, "--steps", "4000", "--log-every", "1", "--out", run], env=environment(),
                              stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as process:
            for line in process.stdout:
                if "step 3 " in line:
                    process.send_signal(signal.SIGINT)
                    break
            process.stdout.read()
        assert process.returncode == 130, process.returncode
        step = int(os.readlink(f"{run}/latest")[5:])
        penstock("train", "--resume", run, "--steps", step + 2, "-q")
        penstock("train", train, *common, "--steps", step + 2, "--out", f"{folder}/straight", "-q")
        assert weights(f"{run}/latest") == weights(f"{folder}/straight/latest")


def test_interrupt_validation():
    """Ctrl-C ends a long validation at once, and the validation is repeated after a resume."""
    with scratch() as folder:
        train, run = data(folder, 16), f"{folder}/run"
        slow = f"folder {folder}/photos | repeat 1000000000 | decode | resize 16 | normalize imagenet | batch 8"
        with subprocess.Popen([PENSTOCK, "train", train, "--val", slow, "--model", MODEL, "--epochs", "1", "--log-every", "1", "--out", run],
                              env=environment(), stdout=subprocess.PIPE, text=True, stderr=subprocess.PIPE) as process:
            for line in process.stdout:
                if "step 2 " in line:
                    break
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)  # the validation takes days
        assert process.returncode == 130, process.returncode
        assert os.readlink(f"{run}/latest") == "step_00000002" and not os.path.exists(f"{run}/best")


def test_ema_is_what_is_used():
    """eval, predict and export use the mean of the weights, which the validation saw."""
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        epochs = lines(penstock("train", train, "--val", fixed(folder), "--model", MODEL, "--epochs", 3, "--lr", 0.01, "--ema", 0.8, "--out", run,
                                "--json"))
        best = min(epochs[:-1], key=lambda e: e["val_loss"])
        result = report("eval", run, fixed(folder))
        assert abs(result["loss"] - best["val_loss"]) < 1e-6, (result["loss"], best)
        penstock("export", run, f"{folder}/mean.safetensors")
        raw, mean = weights(f"{run}/best"), open(f"{folder}/mean.safetensors", "rb").read()
        assert len(raw) == len(mean) and raw != mean
        again = f"{folder}/again"
        penstock("train", train, "--model", MODEL, "--weights", f"{folder}/mean.safetensors", "--epochs", 1, "--lr", "1e-12", "--out", again, "-q")
        hits = [g["top"][0]["index"] for g in lines(penstock("predict", run, f"{folder}/photos", "--json"))]
        confusion = result["confusion"]
        assert [hits.count(k) for k in range(3)] == [sum(row[k] for row in confusion) for k in range(3)]


def test_monitor_and_validations():
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        found = lines(penstock("train", train, "--val", fixed(folder), "--model", MODEL, "--epochs", 3, "--lr", 0.02, "--val-every", 3, "--monitor",
                               "val-f1", "--out", run, "--json"))
        rows, end = found[:-1], found[-1]
        assert [r["step"] for r in rows if not r["epoch_end"]] == [3, 6, 9, 12, 15, 18, 21, 24], rows
        assert [r["step"] for r in rows if r["epoch_end"]] == [8, 16, 24]
        best = max(rows, key=lambda r: (r["val_f1"], -r["step"]))
        assert os.readlink(f"{run}/best") == f"step_{best['step']:08}" and abs(end["best_loss"] - best["val_f1"]) < 1e-12
        assert "validation" in penstock("train", train, "--model", MODEL, "--monitor", "val-f1", "--steps", 1, code=2).err
        varying = fixed(folder).replace("| resize 16 ", "")
        assert "validation data: the shape of field image varies" in penstock("train", train, "--val", varying, "--model", MODEL, "--steps", 1, code=1).err
        stop = lines(penstock("train", train, "--val", fixed(folder), "--model", MODEL, "--epochs", 50, "--lr", "1e-12", "--val-every", 2,
                              "--patience", 3, "--monitor", "val-accuracy", "--json"))
        assert stop[-1]["early"] and stop[-1]["step"] == 8, stop[-1]


def test_binary_metrics():
    """One result: AUC and F1 by eval agree with the scores that predict prints."""
    with scratch() as folder:
        train, run = data(folder, 40, classes=2), f"{folder}/run"
        penstock("train", train, "--val", fixed(folder), "--model", MODEL.replace("dense 3", "dense 1"), "--epochs", 4, "--lr", 0.02, "--monitor", "val-auc",
                 "--out", run, "-q")
        found = report("eval", run, fixed(folder))
        names = sorted(os.listdir(f"{folder}/photos"))
        scores = [(g["top"][0]["probability"], names.index(g["path"].split("/")[-2])) for g in lines(penstock("predict", run, f"{folder}/photos", "--json"))]
        pairs = [(a, b) for a, label in scores if label for b, other in scores if not other]
        auc = sum(1 if a > b else 0.5 if a == b else 0 for a, b in pairs) / len(pairs)
        right = sum(1 for p, label in scores if p > 0.5 and label)
        wrong = sum(1 for p, label in scores if (p > 0.5) != bool(label))
        assert abs(found["auc"] - auc) < 1e-3 and abs(found["f1"] - (2 * right / (2 * right + wrong) if right else 0)) < 1e-9, (found, auc)
        assert "AUC" in penstock("eval", run, fixed(folder)).out


def test_class_weights():
    """balanced is the same as a file with the weights that follow from the counts."""
    with scratch() as folder:
        data(folder)
        names = sorted(os.listdir(f"{folder}/photos"))
        for name in sorted(os.listdir(f"{folder}/photos/{names[0]}"))[5:]:
            os.unlink(f"{folder}/photos/{names[0]}/{name}")
        train = f"folder {folder}/photos | shuffle | decode | resize 16 | normalize imagenet | batch 8"
        counts = [len(os.listdir(f"{folder}/photos/{name}")) for name in names]
        total = sum(counts)
        with open(f"{folder}/weights.txt", "w") as f:
            f.write("# class weight\n")
            for i, (name, count) in enumerate(zip(names, counts)):
                f.write(f"{name if i else i}{',' if i == 1 else '  '}{total / (3 * count)!r}\n")
        for how, out in (("balanced", "a"), (f"{folder}/weights.txt", "b"), (None, "c")):
            penstock("train", train, "--model", MODEL, "--steps", 6, *(["--class-weight", how] if how else []), "--out", f"{folder}/{out}", "-q")
        assert weights(f"{folder}/a/latest") == weights(f"{folder}/b/latest") != weights(f"{folder}/c/latest")
        for text, says in (("dog 1\n", "no class dog"), ("0 x\n", "invalid weight"), ("7\n", "expected a class")):
            with open(f"{folder}/weights.txt", "w") as f:
                f.write(text)
            assert says in penstock("train", train, "--model", MODEL, "--class-weight", f"{folder}/weights.txt", "--steps", 1, code=2).err
        assert "nowhere" in penstock("train", train, "--model", MODEL, "--class-weight", f"{folder}/nowhere", "--steps", 1, code=1).err


def npy(path, shape, kind, values):
    """An array file, from the description of the format."""
    header = f"{{'descr': '{ {'f': '<f4', 'q': '<i8'}[kind] }', 'fortran_order': False, 'shape': {shape!r}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{kind}", *values))


def test_sample_weights():
    """A field of weights: samples of weight 0 do not count, and the others count twice where they weigh 2."""
    with scratch() as folder:
        def write(name, numbers, weigh):
            os.mkdir(f"{folder}/{name}")
            npy(f"{folder}/{name}/x.npy", (len(numbers), 2), "f", [v for i in numbers for v in (i % 7 - 3, i % 5 - 2)])
            npy(f"{folder}/{name}/label.npy", (len(numbers),), "q", [i % 3 for i in numbers])
            npy(f"{folder}/{name}/w.npy", (len(numbers),), "f", [weigh(i) for i in numbers])
            return f"npy {folder}/{name}/*.npy | batch 32"
        every, odd = write("all", range(32), lambda i: 2 * (i % 2)), write("odd", range(1, 32, 2), lambda i: 1)
        common = ["--model", "dense 4 relu | dense 3", "--input-field", "x", "--steps", 3, "--epochs", 0, "--optimizer", "sgd", "--json"]
        found = [lines(penstock("train", source, *common, "--sample-weight", "w", "--log-every", 1, "--out", f"{folder}/{name}"))
                 for source, name in ((every, "a"), (odd, "b"))]
        ours = [struct.unpack("<27f", weights(f"{folder}/{name}/latest")[-27 * 4:]) for name in ("a", "b")]
        assert max(abs(a - b) for a, b in zip(*ours)) < 1e-6, (ours, found)
        assert "nothing" in penstock("train", every, *common, "--sample-weight", "nothing", code=2).err
        write("bad", range(8), lambda i: -1.0 if i == 5 else 1.0)
        result = penstock("train", f"npy {folder}/bad/*.npy | batch 8", *common, "--sample-weight", "w", code=None)
        assert result.code != 0 and "weight" in result.err and "5" in result.err, result


def test_sweep():
    """Every combination has its run; the same command finishes what is missing and repeats nothing."""
    with scratch() as folder:
        train, out = data(folder), f"{folder}/sweep"
        command = ["train", train, "--val", fixed(folder), "--model", MODEL, "--epochs", 1, "--sweep", "lr=0.01,0.001", "--sweep", "optimizer=adam,sgd",
                   "--out", out, "--json"]
        end = lines(penstock(*command))[-1]
        names = {f"lr={lr},optimizer={o}" for lr in ("0.01", "0.001") for o in ("adam", "sgd")}
        assert set(os.listdir(out)) == names and {r["values"] for r in end["runs"]} == names, end
        assert end["best"] == min(end["runs"], key=lambda r: r["best_value"])["values"]
        kept = os.stat(f"{out}/lr=0.01,optimizer=adam/latest/weights.safetensors").st_mtime_ns
        subprocess.run(["rm", "-r", f"{out}/lr=0.001,optimizer=sgd"], check=True)
        again = lines(penstock(*command))[-1]
        assert again == end and os.stat(f"{out}/lr=0.01,optimizer=adam/latest/weights.safetensors").st_mtime_ns == kept
        assert "cannot vary" in penstock("train", train, "--model", MODEL, "--sweep", "out=a,b", "--out", out, code=2).err
        assert "lr=0.1,0.01" in penstock("train", train, "--model", MODEL, "--sweep", "lr", "--out", out, code=2).err
        assert "--out" in penstock("train", train, "--model", MODEL, "--sweep", "lr=1,2", code=2).err


def test_lr_find():
    with scratch() as folder:
        train, page = data(folder), f"{folder}/rates.html"
        found = report("lr-find", train, "--model", "flatten | dense 3", "--steps", 60, "--out", page)
        assert len(found["rates"]) == len(found["losses"]) <= 60 and found["rates"] == sorted(found["rates"])
        assert found["rates"][0] == 1e-7 and 1e-7 < found["suggested"] < 10, found["suggested"]
        text = open(page).read()
        assert "Loss by learning rate" in text and "<svg" in text
        shown = penstock("lr-find", train, "--model", "flatten | dense 3", "--steps", 60).out
        assert "learning rate" in shown and "#" in shown, shown
        assert "lower" in penstock("lr-find", train, "--model", MODEL, "--from", 1, "--to", 0.1, code=2).err


def test_lr_find_is_robust():
    """The suggestion of every seed lies where the loss falls: above the rates that change nothing, below those that break learning."""
    with scratch() as folder:
        train = data(folder)
        for model, low, high in (("flatten | dense 3", 3e-5, 1e-2), (MODEL, 3e-4, 0.1), ("cnn:3", 5e-5, 1e-2)):
            for seed in range(5):
                found = report("lr-find", train, "--model", model, "--seed", seed)
                assert low < found["suggested"] < high, (model, seed, found["suggested"])
            assert low < report("lr-find", train, "--model", model, "--steps", 200)["suggested"] < high, model
        assert report("lr-find", train, "--model", "cnn:3", "--freeze", "*")["suggested"] is None


def test_report():
    """The page has the answer, both curves, the matrix, the mistakes as pictures and the split of time; a resume that does nothing keeps it."""
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        penstock("train", train, "--val", fixed(folder), "--model", MODEL, "--epochs", 2, "--out", run, "-q")
        page = open(f"{run}/report.html").read()
        for part in ("right about", "Loss by epoch", "Accuracy by epoch", "Confusion matrix", "worst mistakes", "data:image/png;base64,",
                     "waiting for data", "triangle", "taken for", "Model, data and command"):
            assert part in page, part
        assert any(f"the run was {word}" in page for word in ("consumer-bound", "balanced", "input-bound"))
        assert "<script" not in page and page.count("data:image/png") <= 12
        penstock("train", "--resume", run, "-q")
        assert open(f"{run}/report.html").read() == page


def test_profile():
    """Times of every layer and pass, as a table, as JSON and as a trace; the weights are those of a run that is not measured."""
    with scratch() as folder:
        train, run = data(folder), f"{folder}/run"
        common = [train, "--model", MODEL, "--steps", 8, "--epochs", 0, "-q"]
        shown = penstock("train", *common, "--profile", 4, "--out", run).out
        assert "4 steps of 8 samples" in shown and "GFLOP/s" in shown and "conv_1" in shown and "optimiser" in shown, shown
        spans = check_trace(f"{run}/trace.json")
        assert {s["name"] for s in spans if s["ph"] == "X"} >= {"forward", "backward", "update", "conv_1", "dense_1"}
        found = lines(penstock("train", *common, "--profile", 4, "--json"))[-1]
        assert found["steps"] == 4 and sum(layer["layers"] for layer in found["layers"]) >= 8
        penstock("train", *common, "--out", f"{folder}/plain")
        assert weights(f"{run}/latest") == weights(f"{folder}/plain/latest")
        assert "too short" in penstock("train", *common, "--profile", 400, "--steps", 2).err


def test_predict_preprocessing():
    """Without a validation pipeline: random crops keep their other arguments, files of stages are read, names are quoted in CSV."""
    with scratch() as folder:
        data(folder)
        with open(f"{folder}/train.pst", "w") as f:
            f.write(f"# the data\nfolder {folder}/photos | shuffle  # all of it\n| rename image picture | decode field=picture\n")
        train = (f"@{folder}/train.pst | random_resized_crop 16 scale=0.5,1 method=nearest field=picture | flip field=picture | "
                 "normalize imagenet field=picture | batch 8")
        penstock("train", train, "--model", MODEL, "--input-field", "picture", "--steps", 4, "--epochs", 0, "--out", f"{folder}/run", "-q")
        os.mkdir(f"{folder}/a,b")
        first = sorted(os.listdir(f"{folder}/photos/circle"))[0]
        name = f'{folder}/a,b/with "quotes".png'
        shutil.copy(f"{folder}/photos/circle/{first}", name)
        result = penstock("predict", f"{folder}/run", name, "--csv", "--top", 2)
        rows = list(csv.reader(io.StringIO(result.out)))
        assert len(rows) == 2 and all(len(row) == 4 and row[0] == name for row in rows), result.out
        assert "random operations" in result.err
        data_of = f"folder {folder}/photos | rename  to=picture from='image' | decode field=picture | resize 16 field=picture | normalize 0..1 field=picture | batch 8"
        penstock("train", data_of, "--model", MODEL, "--input-field", "picture", "--steps", 2, "--epochs", 0, "--out", f"{folder}/named", "-q")
        assert len(lines(penstock("predict", f"{folder}/named", name, "--json"))) == 1
        wild = f"{folder}/a,b/wild\x1b[31m.png"
        shutil.copy(name, wild)
        shown = penstock("predict", f"{folder}/named", wild, "--csv").out
        assert "\x1b" not in shown and "wild\\x1b[31m.png" in shown, shown
        penstock("train", f"folder {folder}/photos | rename label class | decode | resize 16 | cast i32 class | normalize 0..1 | batch 8", "--model", MODEL,
                 "--target", "class", "--steps", 2, "--epochs", 0, "--out", f"{folder}/other", "-q")
        assert len(lines(penstock("predict", f"{folder}/other", name, "--json"))) == 1  # the files have no class to convert
        assert len(lines(penstock("predict", f"{folder}/run", f"{folder}/photos", "--json"))) == 60


def test_resume_elsewhere():
    """Relative paths start where the run began; data that has moved can be named again."""
    with scratch() as folder:
        data(folder)
        train = "folder photos | shuffle | decode | resize 16 | normalize imagenet | batch 8"

        def run(*arguments, cwd):
            return subprocess.run([PENSTOCK, "train", *map(str, arguments)], cwd=cwd, env=environment(), text=True, capture_output=True)
        assert run(train, "--model", MODEL, "--steps", 4, "--epochs", 0, "--out", "run", "-q", cwd=folder).returncode == 0
        assert run(train, "--model", MODEL, "--steps", 12, "--epochs", 0, "--out", "straight", "-q", cwd=folder).returncode == 0
        os.mkdir(f"{folder}/sub")
        result = run("--resume", "../run", "--steps", 8, cwd=f"{folder}/sub")
        assert result.returncode == 0 and "relative paths" in result.stderr, result
        os.rename(f"{folder}/photos", f"{folder}/moved")
        result = run("--resume", "run", "--steps", 10, train.replace("photos", "moved"), cwd=folder)
        assert result.returncode == 0, result
        result = run("--resume", "../run", "--steps", 11, train.replace("photos", "../moved"), cwd=f"{folder}/sub")
        assert result.returncode == 0, result
        result = run("--resume", "run", "--steps", 12, cwd=folder)  # the newest place of the data is recorded
        assert result.returncode == 0 and "sub" in result.stderr, result
        result = run("--resume", "run", "--steps", 13, "--val", train.replace("photos", "moved"), cwd=folder)
        assert result.returncode == 2 and "began in" in result.stderr, result
        assert weights(f"{folder}/run/latest") == weights(f"{folder}/straight/latest")


def test_ram():
    """--ram is for the step and both pipelines: the same weights; a step that does not fit is an error before the start."""
    with scratch() as folder:
        options = ["train", data(folder), "--val", fixed(folder), "--model", MODEL, "--steps", 4, "--epochs", 0, "-q"]
        penstock(*options, "--out", f"{folder}/a")
        penstock(*options, "--out", f"{folder}/b", "--ram", "64M")
        assert weights(f"{folder}/a/latest") == weights(f"{folder}/b/latest")
        options[options.index(MODEL)] = "conv 256 3 relu pad=same | conv 256 3 relu pad=same | globalavgpool | dense 3"
        result = penstock(*options, "--ram", "2M", code=None)
        assert result.code != 0 and "--ram" in result.err and "smaller batch" in result.err, result


def test_kernels():
    """A table of kernels is measured, shown and used; the checkpoint keeps it, and a resume uses it although the file has changed."""
    with scratch() as folder:
        data(folder)
        model, table = "conv 16 3 relu pad=same | conv 16 3 relu pad=same | globalavgpool | dense 3", f"{folder}/kernels.txt"
        shown = penstock("model", model, "--input", "16x16x3", "--batch", 8, "--tune", table).out
        lines_of = [line for line in open(table, encoding="utf-8") if not line.startswith("#")]
        assert len(lines_of) == 2 and all(" ms" in line for line in lines_of) and table in shown, (lines_of, shown)
        # another kernel than the usual one, where there is another
        others = [line.split("#")[1].split(";") for line in lines_of]
        chosen = []
        for line, names in zip(lines_of, others):
            chosen.append(line.split(": ")[0] + ": " + names[-1].strip().rsplit(" ", 2)[0])
        open(table, "w", encoding="utf-8").write("\n".join(chosen) + "\n")
        train = f"folder {folder}/photos | shuffle | decode | resize 16 | normalize imagenet | batch 8"
        options = ["train", train, "--model", model, "--epochs", 0, "--kernels", table, "-q"]
        penstock(*options, "--steps", 6, "--out", f"{folder}/straight")
        penstock(*options, "--steps", 3, "--out", f"{folder}/run")
        state = json.load(open(f"{folder}/run/latest/state.json", encoding="utf-8"))
        assert state["kernels"].split("\n")[:-1] == chosen, state["kernels"]
        # a table of a machine with other vectors: the same kernels
        swapped = state["kernels"].replace(" (avx512)", "") if "avx512" in state["kernels"] else state["kernels"].replace("\n", " (avx512)\n")
        open(table, "w", encoding="utf-8").write(swapped)
        assert "not used" not in penstock(*options, "--steps", 1, "--out", f"{folder}/other").err
        os.remove(table)
        penstock("train", "--resume", f"{folder}/run", "--steps", 6, "-q")
        assert weights(f"{folder}/run/latest") == weights(f"{folder}/straight/latest")
        open(table, "w", encoding="utf-8").write("conv 3x3: fast\n")
        result = penstock(*options, "--steps", 1, code=2)
        assert "line 1" in result.err and "--tune" in result.err, result.err
        open(table, "w", encoding="utf-8").write("conv 5x5 stride=1 16->16 at 16x16: direct\n")
        assert "not used" in penstock(*options, "--steps", 1).err


tap.main(globals())
