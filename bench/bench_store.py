#!/usr/bin/env python3
"""Reads shards from an object store, and prints one line of JSON: MB/s of the first epoch, seconds to the first batch, CPU seconds, memory.

    bench_store.py PATH [--epochs N] [--batches N] [--batch 64] [--pipeline "| shuffle"] [--digest] [--tool]

PATH: s3://bucket/shards. The variables AWS_* say where the store is. Records are not decoded. By the Python module, every record becomes a Python bytes
object; importing is not timed, listing, opening and the index are (open_s); the rate after the first second is told as well, and with --digest a digest of all
bytes, in order. --batches ends each epoch after so many. bench_remote.py runs it beside others. With --tool, `penstock bench` takes the batches, and its whole life is timed. PENSTOCK_BUILD is the build folder.
"""
import argparse
import hashlib
import itertools
import json
import os
import resource
import subprocess
import sys
import time

BUILD = os.environ.get("PENSTOCK_BUILD", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build"))


def cpu_seconds(used):
    return used.ru_utime + used.ru_stime


def by_tool(text, epochs):
    began = time.monotonic()
    process = subprocess.Popen([os.path.join(BUILD, "cli", "penstock"), "bench", "-q", "--json", "--epochs", str(epochs), text], stdout=subprocess.PIPE,
                               text=True)
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds, found = time.monotonic() - began, json.loads(out)
    return {"mb": round(found["bytes"] / 1e6, 1), "seconds": round(seconds, 3), "mb_s": round(found["bytes"] / 1e6 / seconds, 1),
            "first_s": round(found["first_batch_seconds"], 3), "client_cpu_s": round(cpu_seconds(used), 2), "maxrss_mb": used.ru_maxrss >> 10}


def by_module(text, epochs, most, wants_digest):
    sys.path.insert(0, os.path.join(BUILD, "python"))
    import penstock

    digest, marks, rates, total = hashlib.blake2b(digest_size=8), [], [], 0
    cpu, began = cpu_seconds(resource.getrusage(resource.RUSAGE_SELF)), time.monotonic()
    data = penstock.pipeline(text)
    data.plan()
    opened = time.monotonic() - began
    for epoch in range(epochs):
        start, before = began if epoch == 0 else time.monotonic(), total
        for batch in itertools.islice(data, most):
            records = batch["record"].tolist()
            total += sum(map(len, records))
            if wants_digest:
                for record in records:
                    digest.update(record)
            if epoch == 0:
                marks.append((time.monotonic() - began, total))
        rates.append(round((total - before) / 1e6 / (time.monotonic() - start), 1))
    late = [mark for mark in marks if mark[0] >= 1]
    steady = round((late[-1][1] - late[0][1]) / 1e6 / (late[-1][0] - late[0][0]), 1) if len(late) > 1 else None
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"mb": round(total / 1e6, 1), "seconds": round(time.monotonic() - began, 3), "mb_s": rates[0], "epochs_mb_s": rates,
            "open_s": round(opened, 3), "first_s": round(marks[0][0], 3), "after_1s_mb_s": steady, "client_cpu_s": round(cpu_seconds(used) - cpu, 2),
            "maxrss_mb": used.ru_maxrss >> 10, **({"digest": digest.hexdigest()} if wants_digest else {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pipeline", default="")
    parser.add_argument("--digest", action="store_true")
    parser.add_argument("--tool", action="store_true")
    a = parser.parse_args()
    text = f"tfrecord {a.path} {a.pipeline} | batch {a.batch}"
    print("RESULT", json.dumps(by_tool(text, a.epochs) if a.tool else by_module(text, a.epochs, a.batches, a.digest)))


main()
