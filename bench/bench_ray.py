#!/usr/bin/env python3
"""Batches by Ray actors against the same dataset in this process, what the difference consists of, and tf.data service beside it.

    tests/loopback.sh PYTHON bench/bench_ray.py SHARDS [--workers 1,2,3] [--threads 1] [--batches 60] [--rounds 3] [--tf PYTHON --service SCRIPT --data DATA]

SHARDS: TFRecords with image (JPEG) and label. PYTHON has ray; PYTHONPATH has penstock. In-process runs have as many threads as the actors together,
but no more than there are cores. With --tf, SCRIPT (tfdata_service.py of the peers) runs on DATA, whose tfrecord/ has the same shards, by this Python: its
batches are float32, so ours are measured as such, too. The machine should be idle.
"""
import argparse
import os
import re
import subprocess
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import numpy as np
import ray

import penstock as ps
import penstock.ray

TEXT = "tfrecord %s | shuffle | repeat 100 | example 'image:bytes label:int64' | decode | random_resized_crop 224 | flip%s | batch 64"


def rate(batches, count):
    rows, images = iter(batches), 0
    for _ in range(6):
        next(rows)
    began = time.perf_counter()
    for _ in range(count):
        images += len(np.asarray(next(rows)["image"]))
    return images / (time.perf_counter() - began)


@ray.remote(num_cpus=0)
class Sender:
    def __init__(self, dtype):
        self.batch = {"image": np.ones((64, 224, 224, 3), dtype), "label": np.zeros(64, np.int64)}

    def send(self):
        return self.batch


def transfer_ms(dtype):
    """The same batch again and again: what the object store costs."""
    sender = Sender.remote(np.dtype(dtype).name)
    megabytes = [ray.get(sender.send.remote())["image"].nbytes / 1e6 for _ in range(4)][0]
    began = time.perf_counter()
    for _ in range(40):
        ray.get(sender.send.remote())
    return 1e3 * (time.perf_counter() - began) / 40, megabytes


def measure(a, name, operations, dtype):
    """{workers: images/s}, of the best round."""
    data = ps.pipeline(TEXT % (a.shards, operations), seed=7)
    transfer, megabytes = transfer_ms(dtype)
    found = {}
    for workers in a.workers:
        here, there = [], []
        for _ in range(a.rounds):                                   # in turns, and neither computes ahead while the other one is measured
            with data.with_options(workers=min(workers * a.threads, os.cpu_count())) as local:
                here.append(rate(local, a.batches))
            with penstock.ray.Loader(data, workers=workers, threads=a.threads) as loader:
                there.append(rate(loader, a.batches))
        best, found[workers] = max(here), max(there)
        print("RESULT %s, %d actors x %d threads: in-process %s images/s, Ray %s: %.0f %% of the best%s; a batch of %.1f MB: %.1f ms in-process, %.1f ms by Ray, "
              "%.1f ms of it through the object store (%.2f ms/MB)" %
              (name, workers, a.threads, " ".join("%.0f" % x for x in here), " ".join("%.0f" % x for x in there), 100 * found[workers] / best,
               " (goal >= 75)" if dtype == np.uint8 else "", megabytes, 64e3 / best, 64e3 / found[workers], transfer, transfer / megabytes), flush=True)
    return found


def service(a):
    """images/s of tf.data service, outside of the consumer's process, without and with its compression."""
    done = subprocess.run([a.tf, a.service, a.data, "--outside", "--batches", str(a.batches)], capture_output=True, text=True, timeout=280)
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            print(line, flush=True)
            found[line.split(":")[0]] = float(re.search(r"([0-9.]+) images/s", line)[1])
    if not found:
        raise SystemExit(done.stdout + done.stderr)
    return max(value for name, value in found.items() if "service" in name)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shards")
    p.add_argument("--workers", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 3])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batches", type=int, default=60)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tf")
    p.add_argument("--service")
    p.add_argument("--data")
    a = p.parse_args()
    ray.init(num_cpus=max(2, max(a.workers) * a.threads), include_dashboard=False, object_store_memory=1 << 30, _node_ip_address="127.0.0.1",
             logging_level="ERROR", log_to_driver=False)
    measure(a, "uint8", "", np.uint8)
    if a.tf:
        best = max(measure(a, "float32", " | normalize imagenet", np.float32).values())
        ray.shutdown()
        theirs = service(a)
        print("RESULT Ray, float32 %.0f images/s / tf.data service %.0f = %.2f (goal >= 2)" % (best, theirs, best / theirs))
