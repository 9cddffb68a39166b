#!/usr/bin/env python3
"""Batches of uint8 images by Ray actors against the same dataset in this process, and what the difference consists of.

    tests/loopback.sh PYTHON bench/bench_ray.py SHARDS [--workers 2] [--threads 1] [--batches 60]

SHARDS: TFRecords with image (JPEG) and label. PYTHON has ray; PYTHONPATH has penstock. The machine should be idle.
"""
import argparse
import os
import time

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import numpy as np
import ray

import penstock as ps
import penstock.ray


def rate(batches, count):
    rows, images = iter(batches), 0
    for _ in range(6):
        next(rows)
    began = time.perf_counter()
    for _ in range(count):
        images += len(np.asarray(next(rows)["image"]))
    return images / (time.perf_counter() - began)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("shards")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--batches", type=int, default=60)
    a = p.parse_args()
    data = ps.pipeline(f"tfrecord {a.shards} | shuffle | repeat 100 | example 'image:bytes label:int64' | decode | random_resized_crop 224 | flip | batch 64", seed=7)
    ray.init(num_cpus=max(2, a.workers * a.threads), include_dashboard=False, object_store_memory=1 << 30, _node_ip_address="127.0.0.1", logging_level="ERROR",
             log_to_driver=False)
    here, there = [], []
    with penstock.ray.Loader(data, workers=a.workers, threads=a.threads) as loader:
        for _ in range(3):                                          # in turns
            with data.with_options(workers=a.workers * a.threads) as local:
                here.append(rate(local, a.batches))
            there.append(rate(loader, a.batches))
    batch = {"image": np.zeros((64, 224, 224, 3), np.uint8), "label": np.zeros(64, np.int64)}
    send = ray.remote(lambda: batch)
    ray.get([send.remote() for _ in range(4)])
    began = time.perf_counter()
    for _ in range(40):
        ray.get(send.remote())
    transfer = (time.perf_counter() - began) / 40
    best, other = max(here), max(there)
    print("RESULT in-process %s images/s, Ray %s: %.0f %% of the best; a batch of %.1f MB: %.1f ms in-process, %.1f ms by Ray, %.1f ms of it through the object store"
          % (" ".join("%.0f" % x for x in here), " ".join("%.0f" % x for x in there), 100 * other / best, batch["image"].nbytes / 1e6, 64e3 / best,
             64e3 / other, 1e3 * transfer))
