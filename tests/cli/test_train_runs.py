"""Ends of runs of `penstock train`, what it reads of the data, new heads, and mistakes in its command."""
import csv
import json
import math
import os
import struct

import tap
from tool import example, frame, penstock, report, scratch

MODEL = "flatten | dense 3"


def npy(path, shape, kind, values):
    """An array file, from the description of the format."""
    header = f"{{'descr': '{ {'f': '<f4', 'q': '<i8'}[kind] }', 'fortran_order': False, 'shape': {shape!r}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{kind}", *values))


def arrays(folder, count=40, x=lambda i, k: (i * 7 + k * 3) % 5 - 2, label=lambda i: i % 3, kind="q"):
    """A pipeline of vectors of four numbers in batches of 8."""
    os.makedirs(folder)
    npy(f"{folder}/x.npy", (count, 4), "f", [x(i, k) for i in range(count) for k in range(4)])
    npy(f"{folder}/label.npy", (count,), kind, [label(i) for i in range(count)])
    return f"npy {folder}/*.npy | batch 8"


def weights(path):
    with open(path + "/weights.safetensors", "rb") as f:
        return f.read()


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def rows(run):
    with open(f"{run}/logs/epochs.csv") as f:
        return list(csv.DictReader(f))


def records(path, whole):
    """Records of a vector and a label. Not `whole`: most lack the other features."""
    with open(path, "wb") as f:
        for i in range(32):
            others = {"extra": [1.0, 2.0, 3.0], "big": [b"x" * 50]} if whole or i % 8 == 0 else {}
            f.write(frame(example(x=[i % 5 - 2.0, i % 3 - 1.0], label=[i % 3], **others)))


def test_unused_features_are_not_parsed():
    """Missing features that nothing learns from do not matter, and a checkpoint continues whichever command wrote it."""
    with scratch() as folder:
        schema = "example 'x:float[2] label:int64 extra:float[3] big:bytes'"
        for name in ("whole", "partly"):
            records(f"{folder}/{name}.tfrecord", name == "whole")
        common = ["--model", "dense 4 relu | dense 3", "--input-field", "x", "--lr", 0.01, "-q"]
        whole, partly = (f"tfrecord {folder}/{name}.tfrecord | shuffle | {schema} | batch 8" for name in ("whole", "partly"))
        penstock("train", whole, "--val", whole, *common, "-e", 2, "-o", f"{folder}/a")
        penstock("train", partly, "--val", partly, *common, "-e", 2, "-o", f"{folder}/b")
        assert weights(f"{folder}/a/latest") == weights(f"{folder}/b/latest")
        assert report("eval", f"{folder}/b", partly)["samples"] == 32
        assert len(lines(penstock("predict", f"{folder}/b", partly, "--json"))) == 32
        assert "extra" in penstock("cat", partly, code=None).err  # elsewhere every field is wanted


def test_fields_that_are_kept():
    """Fields of weights stay, and those that a batch asks for; what is missing is named with all fields."""
    with scratch() as folder:
        records(f"{folder}/a.tfrecord", True)
        source = f"tfrecord {folder}/a.tfrecord | example 'x:float[2] label:int64 extra:float[3]' | expr 'label + 1' weight dtype=f32"
        common = ["--model", "dense 3", "--input-field", "x", "-s", 2, "-e", 0, "-q"]
        penstock("train", source + " | batch 8", *common, "--sample-weight", "weight")
        penstock("train", source + " | padded_batch 8 values=extra:1", *common)
        penstock("train", source.replace("float[3]", "float[*]") + " | bucket extra boundaries=4,8 sizes=8 pad_to_boundary=true", *common)
        assert "extra" in penstock("train", source + " | batch 8", *common, "--target", "nothing", code=2).err
        assert "extra" in penstock("train", source + " | batch 8", *common, "--sample-weight", "nothing", code=2).err


def test_steps_end_a_run():
    """The numbers of the last part of an epoch are printed and kept; an epoch that ends with the last step is closed."""
    with scratch() as folder:
        data = arrays(f"{folder}/data")
        shown = penstock("train", data, "-m", MODEL.replace("flatten | ", ""), "--input-field", "x", "-s", 3, "-e", 0).out
        assert "epoch 1  step 3  loss" in shown and "accuracy" in shown, shown
        for val in ([], ["--val", data]):
            run = f"{folder}/run{len(val)}"
            common = ["train", data, *val, "-m", "dense 3", "--input-field", "x", "--lr", 0.01, "-e", 3]
            straight = lines(penstock(*common, "-o", f"{run}s", "--json"))
            found = lines(penstock(*common, "-s", 3, "-o", run, "--json"))
            assert len(found) == 2 and found[0]["step"] == 3 and found[0]["loss"] > 0 and not found[0]["epoch_end"], found
            assert [row["step"] for row in rows(run)] == ["3"]
            for end in (found[-1], straight[-1]):
                for key in ("epoch", "step", "loss", "accuracy", "val_loss", "val_accuracy", "lr", "images_per_s", "wait_share", "peak_bytes"):
                    assert key in end and (end[key] is not None or (key.startswith("val_") and not val)), (key, end)
            found = lines(penstock("train", "--resume", run, "-s", 5, "--json"))
            assert [(e["step"], e["epoch_end"]) for e in found[:-1]] == [(5, True)], found
            found = lines(penstock("train", "--resume", run, "-s", 0, "--json"))
            assert [(e["epoch"], e["step"], e["epoch_end"]) for e in found[:-1]] == [(2, 10, True), (3, 15, True)], found
            columns = ("epoch", "step", "loss", "accuracy", "val_loss", "val_accuracy", "lr")
            assert [[row[c] for c in columns] for row in rows(run)] == [[row[c] for c in columns] for row in rows(f"{run}s")]
            assert os.readlink(f"{run}/best") == os.readlink(f"{run}s/best")
            assert weights(f"{run}/latest") == weights(f"{run}s/latest")


def test_steps_end_a_run_on_a_stream():
    """Where the length of an epoch is not known, its end is looked for; what follows it is not lost."""
    with scratch() as folder:
        records(f"{folder}/a.tfrecord", True)
        data = f"tfrecord {folder}/a.tfrecord | shuffle | example 'x:float[2] label:int64 extra:float[*]' | bucket extra boundaries=4 sizes=8"
        common = ["train", data, "-m", "dense 3", "--input-field", "x", "-e", 3, "-q"]
        penstock(*common, "-o", f"{folder}/straight")
        for step, count in ((4, 1), (6, 2), (8, 2), (12, 3)):
            run = f"{folder}/run{step}"
            penstock(*common, "-s", step, "-o", run)
            assert [row["step"] for row in rows(run)] == ["4", "8", "12"][:count - (step % 4 > 0)] + ([str(step)] if step % 4 else []), rows(run)
            penstock("train", "--resume", run, "-s", 0, "-q")
            assert weights(f"{run}/latest") == weights(f"{folder}/straight/latest") and len(rows(run)) == 3, step


def test_a_pause_of_a_live_stream_does_not_delay_the_end():
    """The run is validated and saved although the producer holds the pipe open and sends nothing more."""
    with scratch() as folder:
        data = arrays(f"{folder}/data")
        os.mkfifo(f"{folder}/live")
        with open(f"{folder}/records", "wb") as f:
            f.write(b"".join(frame(example(x=[float(i % 5 - k) for k in range(4)], label=[i % 3])) for i in range(36)))  # four batches, and a part of one
        with open(f"{folder}/records", "rb") as f:
            sent = f.read()
        pipe = os.open(f"{folder}/live", os.O_RDWR)  # open until the end of the test
        try:
            assert len(sent) < 65536 and os.write(pipe, sent) == len(sent)
            penstock("train", f"tfrecord {folder}/live | example 'x:float[4] label:int64' | batch 8", "--val", data, "-m", "dense 3", "--input-field", "x", "-s", 4,
                     "-e", 0, "-o", f"{folder}/run", "-q")
        finally:
            os.close(pipe)
        assert rows(f"{folder}/run")[-1]["step"] == "4" and rows(f"{folder}/run")[-1]["val_loss"], rows(f"{folder}/run")
        assert os.path.exists(f"{folder}/run/latest/weights.safetensors")


def test_metrics_are_columns():
    with scratch() as folder:
        kinds = {"classes": ("dense 3", lambda i: i % 3, "q", {"val_f1"}), "binary": ("dense 1", lambda i: i % 2, "q", {"val_auc", "val_f1"}),
                 "numbers": ("dense 1", lambda i: i / 10, "f", {"val_mae", "val_r2"})}
        for name, (model, label, kind, metrics) in kinds.items():
            data, run = arrays(f"{folder}/{name}", label=label, kind=kind), f"{folder}/run-{name}"
            shown = penstock("train", data, "--val", data, "-m", model, "--input-field", "x", "-e", 2, "-o", run).out
            found = rows(run)
            assert set(found[0]) - {"epoch", "step", "loss", "accuracy", "val_loss", "val_accuracy", "lr", "images_per_s", "wait_share"} == metrics
            assert len(found) == 2 and all(math.isfinite(float(row[metric])) for row in found for metric in metrics)
            words = {"val_auc": "val AUC", "val_mae": "val MAE", "val_r2": "val R²"}
            assert all(words[metric] in shown for metric in metrics if metric in words), shown
        shown = penstock("train", f"npy {folder}/classes/*.npy | batch 8", "--val", f"npy {folder}/classes/*.npy | batch 8", "-m", "dense 3", "--input-field",
                         "x", "-e", 1, "--monitor", "val-f1").out
        assert "val F1 0." in shown, shown
        with open(f"{folder}/run-numbers/logs/epochs.csv") as f:  # as an earlier version wrote it
            old = [",".join(line.split(",")[:9]) for line in f.read().splitlines()]
        with open(f"{folder}/run-numbers/logs/epochs.csv", "w") as f:
            f.write("\n".join(old) + "\n")
        penstock("train", "--resume", f"{folder}/run-numbers", "-e", 3, "-q")
        assert [row["val_mae"] == "" for row in rows(f"{folder}/run-numbers")] == [True, True, False]


def test_endless_data():
    with scratch() as folder:
        data = arrays(f"{folder}/data").replace("| batch", "| repeat | batch")
        common = ["train", data, "-m", "dense 3", "--input-field", "x", "-q"]
        assert "never ends" in penstock(*common, "-e", 1, code=2).err
        penstock(*common, "-s", 7)
        assert "never ends" in penstock(*common, "-s", 7, "--class-weight", "balanced", code=2).err
        penstock(*common, "-e", 2, "--steps-per-epoch", 3, "-o", f"{folder}/run")
        assert [row["step"] for row in rows(f"{folder}/run")] == ["3", "6"]
        early = [*common, "--val", arrays(f"{folder}/val"), "-e", 1000, "--val-every", 2, "--patience", 1, "--lr", 1e-12, "--monitor", "val-accuracy"]
        penstock(*early, "-o", f"{folder}/early")
        assert rows(f"{folder}/early")[-1]["step"] == "4", rows(f"{folder}/early")
        assert "never ends" in penstock(*early[:-1], "loss", code=2).err


def test_a_new_head():
    """A last layer of another shape starts fresh, also where a mean of the weights is kept; other layers must fit."""
    with scratch() as folder:
        data = arrays(f"{folder}/data")
        common = ["train", data, "--input-field", "x", "-s", 1, "-e", 0]
        penstock(*common, "-m", "dense 6 relu | dense 3", "-o", f"{folder}/three", "--ema", 0.9, "-q")
        result = penstock(*common, "-m", "dense 6 relu | dense 5", "--weights", f"{folder}/three", "--freeze", "dense_1", "-o", f"{folder}/five", "-q")
        assert "2 of 4 parameters" in result.err and "fresh" in result.err, result
        first = 4 * 6 * 4 + 6 * 4
        kept = penstock(*common, "-m", "dense 6 relu | dense 3", "--weights", f"{folder}/three", "--freeze", "*", "-o", f"{folder}/same", "-q")
        assert "4 parameters come" in kept.err and "nothing is trained" in kept.err, kept
        assert "nothing is trained" in penstock(*common, "-m", "dense 3", "--freeze", "*/kernel", "--freeze", "dense_1/b*", "-q").err
        assert "nothing is trained" not in penstock(*common, "-m", "dense 3", "--freeze", "*/kernel", "-q").err

        def first_layer(run):
            whole = weights(f"{folder}/{run}/latest")
            header = json.loads(whole[8:8 + struct.unpack("<Q", whole[:8])[0]])
            begin = len(whole) - max(v["data_offsets"][1] for k, v in header.items() if k != "__metadata__")
            parts = [header[f"dense_1/{name}"]["data_offsets"] for name in ("kernel", "bias")]
            return b"".join(whole[begin + a:begin + b] for a, b in parts)
        assert len(first_layer("five")) == first and first_layer("five") == first_layer("same")
        result = penstock(*common, "-m", "dense 7 relu | dense 3", "--weights", f"{folder}/three", code=None)
        assert result.code != 0 and "dense_1/kernel" in result.err, result


def test_where_a_value_is_not_finite():
    with scratch() as folder:
        photos = f"{folder}/photos"
        penstock("generate", photos, "--images", 40, "--classes", 3, "--size", 16, "-q")
        result = penstock("train", f"folder {photos} | decode | resize 16 | normalize imagenet | batch 8", "-m",
                          "conv 6 3 relu name=aa | flatten | dense 3 name=bb", "--lr", "1e6", "--optimizer", "sgd", "--seed", 3, code=None)
        assert result.code != 0 and "the first value that is not finite is in bb:" in result.err, result
        nan = arrays(f"{folder}/data", x=lambda i, k: float("nan") if (i, k) == (21, 2) else k)
        result = penstock("train", nan, "-m", "dense 3", "--input-field", "x", code=None)
        assert result.code == 3 and ".npy: record 21" in result.err and "learning rate" not in result.err, result


def test_what_a_resume_ignores():
    with scratch() as folder:
        data, run = arrays(f"{folder}/data"), f"{folder}/run"
        penstock("train", data, "-m", "dense 3", "--input-field", "x", "-e", 2, "-o", run, "-q")
        for option in (["--lr", 5], ["--optimizer", "sgd"], ["-m", "dense 3"], ["--keep", 5], ["--seed", 1], ["--monitor", "loss"]):
            result = penstock("train", "--resume", run, *option, code=2)
            assert {"-m": "--model"}.get(option[0], option[0]) in result.err and "cannot change" in result.err, result
        penstock("train", "--resume", run, "-e", 3, "--workers", 1, "--json", "--ram", "1G", "--log-every", 1)
        penstock("train", "--resume", f"{run}/latest", "-e", 4, "-q")
        newest = os.path.realpath(f"{run}/latest")
        penstock("train", "--resume", newest, "-e", 5, "-q")
        assert len(rows(run)) == 5
        result = penstock("train", "--resume", newest, "-e", 6, code=2)  # it is not the newest any more
        assert "newest" in result.err and "--weights" in result.err, result
        with open(f"{run}/latest/state.json") as f:
            state = json.load(f)
        with open(f"{run}/latest/state.json", "w") as f:  # as an earlier version recorded it
            json.dump({**state, "arguments": [*state["arguments"], "--alpha", "0.3"]}, f)
        penstock("train", "--resume", run, "-e", 6, "-q")
        assert "--teacher" in penstock("train", data, "-m", "dense 3", "--input-field", "x", "--alpha", 0.3, "-q", code=2).err


def test_mistakes():
    with scratch() as folder:
        photos = f"{folder}/photos"
        penstock("generate", photos, "--images", 24, "--classes", 3, "--size", 16, "-q")
        data = f"folder {photos} | decode | resize 16 | batch 8"

        def mistake(*arguments, says, code=2):
            result = penstock("train", *arguments, code=code)
            assert all(word in result.err for word in says), result
        before = sorted(os.listdir(photos))
        mistake(data, "-m", MODEL, "-o", photos, says=("other files", "not a run"))
        assert sorted(os.listdir(photos)) == before
        mistake(data, "-m", "conv 8 3 | dens 3", says=("dense", "penstock model --layers"))
        mistake(data, "-m", "resnet2", says=("--presets", "penstock model --layers"))
        mistake(data, "-m", MODEL, "--target", "image", says=("--input-field",), code=1)
        mistake(data, "-m", MODEL, "--sweep", "lr=0.1,x", "-o", f"{folder}/sweep", says=("--lr x",))
        assert not os.path.exists(f"{folder}/sweep/lr=0.1")
        penstock("train", data, "-m", MODEL, "-e", 1, "-o", f"{folder}/run", "-q")
        mistake(data, "-m", f"{folder}/run", says=("is a run", "--weights"))
        assert "is a run" in json.loads(penstock("train", data, "-m", f"{folder}/run", "--json", code=2).out)["error"]["message"]
        result = penstock("eval", f"{folder}/nonesuch", data, code=1)
        assert "nonesuch: no such" in result.err and "state.json" not in result.err, result
        penstock("train", data, "-m", MODEL, "-e", 1, "-o", f"{folder}/empty/run", "-q")


def test_skipped_records_are_counted():
    with scratch() as folder:
        photos = f"{folder}/photos"
        penstock("generate", photos, "--images", 24, "--classes", 3, "--size", 16, "-q")
        name = next(os.path.join(place, files[0]) for place, _, files in sorted(os.walk(photos)) if files)
        with open(name, "wb") as f:
            f.write(b"not an image")
        common = ["train", f"folder {photos} | decode | resize 16 | batch 8", "-m", MODEL, "-e", 2, "--bad", "skip"]
        result = penstock(*common)
        assert "training: skipped 1 of 24 records" in result.err and os.path.basename(name) in result.err, result
        assert lines(penstock(*common, "--json"))[-1]["skipped_records"] == 1


tap.main(globals())
