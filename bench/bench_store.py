#!/usr/bin/env python3
"""Reads shards from an object store once or several times, and prints one line of JSON: MB/s, seconds to the first batch, the rate after the first
second, CPU seconds per GB, and for each epoch its MB/s.

    bench_store.py PATH [--epochs N] [--batch 64] [--pipeline "| shuffle"]

PATH: s3://bucket/shards. The variables AWS_* say where the store is. Records are delivered to this process and not decoded. Importing is not timed;
listing, opening and the index are. PENSTOCK_BUILD is the build folder.
"""
import argparse
import json
import os
import resource
import sys
import time

BUILD = os.environ.get("PENSTOCK_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build"))
sys.path.insert(0, os.path.join(BUILD, "python"))
import penstock  # noqa: E402


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pipeline", default="")
    a = parser.parse_args()
    cpu, began, marks, epochs, total = cpu_seconds(), time.monotonic(), [], [], 0
    data = penstock.pipeline(f"tfrecord {a.path} {a.pipeline} | batch {a.batch}")
    opened = None
    for _ in range(a.epochs):
        start, before = time.monotonic(), total
        for batch in data:
            opened = opened or time.monotonic() - began
            total += batch["record"].values.nbytes
            marks.append((time.monotonic() - began, total))
        epochs.append(round((total - before) / 1e6 / (time.monotonic() - (began if before == 0 else start)), 1))
    seconds = marks[-1][0] if a.epochs == 1 else time.monotonic() - began
    first = [(t, n) for t, n in marks if t >= 1 and n <= total / a.epochs]
    steady = (first[-1][1] - first[0][1]) / 1e6 / (first[-1][0] - first[0][0]) if len(first) > 1 and first[-1][0] > first[0][0] else None
    print("RESULT", json.dumps({"mb": round(total / 1e6, 1), "seconds": round(seconds, 3), "mb_s": epochs[0], "first_s": round(opened, 3),
                                "after_1s_mb_s": steady and round(steady, 1), "epochs_mb_s": epochs,
                                "client_cpu_s": round(cpu_seconds() - cpu, 2), "maxrss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}))


main()
