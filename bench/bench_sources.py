#!/usr/bin/env python3
"""Tables and tars beside their peers: `csv` beside tf.data.experimental.CsvDataset, `tar` beside webdataset, raw records, in turns.

    bench_sources.py [csv] [tar] [--rows N] [--samples N] [--rounds N] [--folder DIR]

Every turn is a process of its own that reads all of the data once, after it was read once before (the page cache is warm, and
the index is made). The peers run in the environments of `make interop`. Prints rows or samples per second, best and median, the
ratio, and the private memory (RssAnon) of penstock at a tenth and at the end of the pass: flat means that they are equal.
PENSTOCK_BUILD is the build folder.
"""

import argparse
import csv
import hashlib
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PENSTOCK_BUILD", os.path.join(HERE, "..", "build"))
CACHE = os.environ.get("PENSTOCK_CACHE", os.path.expanduser("~/.cache/penstock"))
COLUMNS = ["float"] * 6 + ["int64"] * 3 + ["bytes"]


def environment(requirements):
    """The Python of the venv that scripts/interop.sh makes for these requirements."""
    with open(os.path.join(HERE, "..", "tests", "interop", requirements), "rb") as f:
        name = hashlib.sha256(f.read()).hexdigest()[:12]
    path = os.path.join(CACHE, f"venv-{name}", "bin", "python")
    if not os.path.exists(path):
        sys.exit(f"{path}: not there; `make interop` makes it")
    return path


# ---- Data ----

def make_csv(path, rows):
    r = random.Random(1)
    with open(path, "w", newline="") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow([f"c{i}" for i in range(len(COLUMNS))])
        for i in range(rows):
            writer.writerow([f"{r.gauss(0, 1):.6f}" for _ in range(6)] + [i, r.randrange(100000), r.randrange(10), f"name {i % 1000}"])


def make_tar(path, samples):
    r = random.Random(1)
    with tarfile.open(path, "w") as tar:
        for i in range(samples):
            for extension, data in (("bin", r.randbytes(1024)), ("cls", b"%d" % (i % 10))):
                member = tarfile.TarInfo(f"{i:08d}.{extension}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


# ---- Turns, each in a process of its own ----

PENSTOCK = """
import json, sys, time
import penstock as ps
def anonymous():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))
text, total = sys.argv[1], int(sys.argv[2])
with ps.pipeline(text) as dataset:
    count, begin, early = 0, time.perf_counter(), 0
    for batch in dataset:
        count += batch.size
        if not early and count >= total // 10:
            early = anonymous()
    seconds = time.perf_counter() - begin
    assert count == total, (count, total)
    print(json.dumps({"rate": count / seconds, "early": early, "late": anonymous()}))
"""

CSV_PEER = """
import json, sys, time
import tensorflow as tf
path, total, kinds = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
types = {"float": tf.float32, "int64": tf.int64, "bytes": tf.string}
dataset = tf.data.experimental.CsvDataset(path, [types[k] for k in kinds], header=True).batch(256).prefetch(tf.data.AUTOTUNE)
count, begin = 0, time.perf_counter()
for batch in dataset:
    count += batch[0].shape[0]
assert count == total, (count, total)
print(json.dumps({"rate": count / (time.perf_counter() - begin)}))
"""

TAR_PEER = """
import json, sys, time
import webdataset as wds
path, total = sys.argv[1], int(sys.argv[2])
count, begin = 0, time.perf_counter()
for sample in wds.WebDataset(path, shardshuffle=False):
    count += len(sample["bin"]) == 1024 and len(sample["cls"]) == 1
assert count == total, (count, total)
print(json.dumps({"rate": count / (time.perf_counter() - begin)}))
"""


def run(python, code, *arguments):
    place = {"PYTHONPATH": os.path.join(BUILD, "python"), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([python, "-c", code, *map(str, arguments)], check=True, capture_output=True, text=True,
                          env={**os.environ, **place})
    return json.loads(done.stdout.splitlines()[-1])


def compare(name, unit, mine, peer, goal, rounds):
    mine()  # makes the index and warms the page cache
    found, theirs = [], []
    for _ in range(rounds):
        found.append(mine())
        theirs.append(peer()["rate"])
    rates = [f["rate"] for f in found]
    ratio = max(rates) / max(theirs)
    print(f"{name}: penstock {max(rates):,.0f} {unit}/s (median {statistics.median(rates):,.0f}), "
          f"peer {max(theirs):,.0f} (median {statistics.median(theirs):,.0f}): {ratio:.1f} times, goal {goal}: "
          f"{'reached' if ratio >= goal else 'MISSED'}; memory {found[-1]['early']:,} kB at a tenth, {found[-1]['late']:,} kB at the end",
          flush=True)
    return ratio >= goal


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=["csv", "tar"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where the data is made and kept; default: a temporary folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder, reached = args.folder or scratch, True
        os.makedirs(folder, exist_ok=True)
        if "csv" in args.cases:
            path = os.path.join(folder, f"table-{args.rows}.csv")
            if not os.path.exists(path):
                make_csv(path, args.rows)
            columns = " ".join(f"c{i}:{kind}" for i, kind in enumerate(COLUMNS))
            python, text = environment("requirements.txt"), f"csv '{path}' columns='{columns}' | batch 256"
            reached &= compare("csv", "rows", lambda: run(sys.executable, PENSTOCK, text, args.rows),
                               lambda: run(python, CSV_PEER, path, args.rows, ",".join(COLUMNS)), 20, args.rounds)
        if "tar" in args.cases:
            path = os.path.join(folder, f"shard-{args.samples}.tar")
            if not os.path.exists(path):
                make_tar(path, args.samples)
            python, text = environment("requirements-webdataset.txt"), f"tar '{path}' fields='bin cls' | batch 256"
            reached &= compare("tar", "samples", lambda: run(sys.executable, PENSTOCK, text, args.samples),
                               lambda: run(python, TAR_PEER, path, args.samples), 5, args.rounds)
    sys.exit(not reached)


if __name__ == "__main__":
    main()
