"""`penstock train --teacher`: logits computed once and stored, a file of logits, features, kill -9 and resume, mistakes."""
import glob
import json
import os
import random
import signal
import struct
import subprocess
import time

import tap
from tool import PENSTOCK, environment, penstock, scratch

LARGE = "conv 16 3 relu pad=same | maxpool 2 | conv 16 3 pad=same bias=false | batchnorm | relu | globalavgpool | dense 3"
SMALL = "conv 4 3 relu pad=same | maxpool 2 | conv 8 3 pad=same bias=false | batchnorm | relu | globalavgpool | dense 3 | softmax"
FIXED = "decode | resize 16 | normalize imagenet | batch 8"


def weights(path):
    with open(path + "/weights.safetensors", "rb") as f:
        return f.read()


def apart(a, b):
    """The largest difference between two sets of weights."""
    both = []
    for data in (weights(a), weights(b)):
        values = data[8 + struct.unpack_from("<Q", data)[0]:]
        both.append(struct.unpack(f"<{len(values) // 4}f", values))
    return max(abs(x - y) for x, y in zip(*both))


def setting(folder):
    """Shards and a teacher."""
    penstock("generate", f"{folder}/photos", "--images", 60, "--classes", 3, "--size", 24, "-q")
    penstock("pack", f"{folder}/photos", f"{folder}/shards", "--shards", 3, "-q")
    train = f"tfrecord {folder}/shards | shuffle | example | {FIXED}"
    penstock("train", train, "--model", LARGE, "--epochs", 2, "--out", f"{folder}/teacher", "-q")
    return train


def stored(folder):
    return {name: os.stat(name).st_mtime_ns for name in glob.glob(f"{folder}/shards/.teacher-*.logits")}


def student(folder, train, name, *options, epochs=2, code=0):
    out = f"{folder}/{name}"
    result = penstock("train", train, "--model", SMALL, "--epochs", epochs, "--teacher", f"{folder}/teacher", "--out", out, "--json", *options, code=code)
    return (out, [json.loads(line) for line in result.out.splitlines()]) if code == 0 else result


def test_logits_are_stored_once():
    """The second run reads what the first has stored, and learns the same bits; random crops store nothing; another teacher reads nothing old."""
    with scratch() as folder:
        train = setting(folder)
        first, lines = student(folder, train, "first")
        assert len(lines) == 3 and lines[0]["loss"] > lines[1]["loss"] > 0
        kept = stored(folder)
        assert len(kept) == 1, kept
        second, _ = student(folder, train, "second")
        assert stored(folder) == kept and weights(first + "/latest") == weights(second + "/latest")
        penstock("train", train, "--model", SMALL, "--epochs", 2, "--out", f"{folder}/alone", "-q")
        assert weights(f"{folder}/alone/latest") != weights(first + "/latest")
        whole, _ = student(folder, train, "labels", "--alpha", 1)  # labels alone
        assert weights(f"{folder}/alone/latest") == weights(whole + "/latest")
        # damage is noticed, and mended
        name = next(iter(kept))
        data = bytearray(open(name, "rb").read())
        data[len(data) // 2] ^= 1
        open(name, "wb").write(data)
        third, _ = student(folder, train, "third")
        assert weights(first + "/latest") == weights(third + "/latest")
        kept = stored(folder)
        # a table whose samples lie elsewhere now is made anew, once
        os.rename(f"{folder}/shards", f"{folder}/moved")
        os.symlink("moved", f"{folder}/shards")
        there = train.replace("/shards", "/moved")
        moved, _ = student(folder, there, "moved-data")
        assert stored(folder) != kept and weights(first + "/latest") == weights(moved + "/latest")
        kept = stored(folder)
        student(folder, there, "moved-again")
        assert stored(folder) == kept
        cropped, _ = student(folder, train.replace("resize 16", "random_resized_crop 16"), "cropped")
        assert stored(folder) == kept
        penstock("train", "--resume", f"{folder}/teacher", "--epochs", 3, "-q")
        fourth, _ = student(folder, train, "fourth")
        assert len(stored(folder)) == 2 and weights(fourth + "/latest") != weights(first + "/latest")


def test_joins():
    """Random operations in a branch of a join are seen, and so are pairs that change; nothing is stored then."""
    with scratch() as folder:
        setting(folder)
        source = f"tfrecord {folder}/shards"
        shards = {"random_resized_crop 16": 0, "resize 16": 1}
        for resize, count in shards.items():
            branch = f"( {source} | example | decode | {resize} | normalize imagenet )"
            student(folder, f"concatenate {branch}{branch} | batch 8", f"joined {count}", epochs=1)
            assert len(stored(folder)) == count, resize
        pairs = f"zip ( {source} | shuffle | example | decode | resize 16 | normalize imagenet )( {source} | shuffle seed=9 | example | select label | rename label other ) | batch 8"
        student(folder, pairs, "pairs", epochs=1)
        assert len(stored(folder)) == 1


def test_mean_squared_error():
    """The mean squared error compares logits: a student that ends in softmax is refused."""
    with scratch() as folder:
        train = setting(folder).replace("| normalize", "| one_hot 3 | normalize")
        result = student(folder, train, "refused", "--loss", "mse", code=2)
        assert "softmax" in result.err and "loss" in result.err, result
        penstock("train", train, "--model", LARGE, "--epochs", 1, "--teacher", f"{folder}/teacher", "--loss", "mse", "-q")


def test_rows_of_a_file():
    """An .npy with the logits, in the order of the source, gives what the model itself would; too few rows are an error."""
    with scratch() as folder:
        train = setting(folder)
        out, _ = student(folder, train, "model")
        name = next(iter(stored(folder)))
        data = open(name, "rb").read()
        _, _, width, count = struct.unpack_from("<4Q", data)
        assert (width, count) == (3, 60)
        rows = predictions(folder)
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (60, 3), }}".ljust(117) + "\n"
        body = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        open(f"{folder}/logits.npy", "wb").write(body + struct.pack("<180f", *rows))
        penstock("train", train, "--model", SMALL, "--epochs", 2, "--teacher", f"{folder}/logits.npy", "--out", f"{folder}/file", "-q")
        # not the same bits: the engine for predictions has folded the teacher's batch normalisation
        assert apart(f"{folder}/file/latest", out + "/latest") < 2e-3
        penstock("train", train, "--model", SMALL, "--epochs", 2, "--out", f"{folder}/alone", "-q")
        assert apart(f"{folder}/alone/latest", out + "/latest") > 5e-3
        short = header.replace("(60, 3)", "(59, 3)")
        open(f"{folder}/short.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(short)) + short.encode() + struct.pack("<177f", *rows[:177]))
        result = penstock("train", train, "--model", SMALL, "--epochs", 1, "--teacher", f"{folder}/short.npy", "-q", code=None)
        assert result.code != 0 and "59 rows for 60" in result.err, result


def predictions(folder):
    """The teacher's logits in the order of the source."""
    train = f"tfrecord {folder}/shards | example | {FIXED}"
    python = os.path.join(os.path.dirname(os.path.dirname(PENSTOCK)), "python")
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import penstock as ps\n"
            "m = ps.Model.load(sys.argv[2]); d = ps.pipeline(sys.argv[3])\n"
            "print(' '.join(repr(float(v)) for b in d for row in memoryview(m.logits(b['image'])).tolist() for v in row))")
    done = subprocess.run(["python3", "-c", code, python, f"{folder}/teacher", train], capture_output=True, text=True)
    if done.returncode:
        raise tap.Skip(f"the Python module is not built: {done.stderr[-200:]}")
    return [float(v) for v in done.stdout.split()]


def test_kill_and_resume():
    """Killed at any moment, with stored logits, with features, and while logits are computed: the same weights."""
    with scratch() as folder:
        train = setting(folder)
        penstock("train", train, "--model", SMALL, "--epochs", 1, "--out", f"{folder}/start", "-q")
        for name, options in (("logits", []), ("pruned and for int8", ["--weights", f"{folder}/start", "--prune", 0.5, "--prune-every", 4, "--qat"]), ("features", ["--distill-features", "relu_1=relu_1", "--distill-features", "relu_2=relu_2", "--feature-weight", 5])):
            common = ["train", train, "--model", SMALL, "--epochs", 6, "--teacher", f"{folder}/teacher", "--save-every", 3, "-q", *options]
            penstock(*common, "--out", f"{folder}/{name}")
            run = f"{folder}/{name}-killed"
            generator = random.Random(name)
            for stored_name in stored(folder):
                os.remove(stored_name)
            for _ in range(4):
                again = ["train", "--resume", run] if glob.glob(run + "/step_*") else [*common, "--out", run]
                process = subprocess.Popen([PENSTOCK, *map(str, again)], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(generator.uniform(0.02, 0.4))
                process.send_signal(signal.SIGKILL)
                process.wait()
            penstock(*(["train", "--resume", run] if glob.glob(run + "/step_*") else [*common, "--out", run]))
            assert weights(run + "/latest") == weights(f"{folder}/{name}/latest"), name


def test_mistakes():
    with scratch() as folder:
        train = setting(folder)
        out, _ = student(folder, train, "run", epochs=1)
        penstock("train", "--resume", f"{folder}/teacher", "--epochs", 3, "-q")
        result = penstock("train", "--resume", out, "--epochs", 2, code=None)
        assert result.code != 0 and "teacher is another one" in result.err, result
        common = ["train", train, "--model", SMALL, "--epochs", 1, "-q"]
        for options, says in ((["--distill-features", "relu_1=relu_1"], "--teacher"),
                              (["--teacher", f"{folder}/nothing"], "nothing"),
                              (["--teacher", f"{folder}/teacher", "--distill-features", "relu_1"], "STUDENT_LAYER=TEACHER_LAYER"),
                              (["--teacher", f"{folder}/teacher", "--distill-features", "relu_7=relu_1"], "no layer relu_7"),
                              (["--teacher", f"{folder}/teacher", "--distill-features", "maxpool_1=relu_1"], "same height and width"),
                              (["--teacher", f"{folder}/teacher", "--alpha", 2], "alpha")):
            result = penstock(*common, *options, code=None)
            assert result.code != 0 and says in result.err, (options, str(result))
        result = penstock("train", train, "--model", SMALL.replace("dense 3", "dense 4"), "--epochs", 1, "--teacher", f"{folder}/teacher", "-q", code=None)
        assert result.code != 0 and "3 results, the model 4" in result.err, result


tap.main(globals())
