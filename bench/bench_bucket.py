#!/usr/bin/env python3
"""Batches of sequences of similar length: `bucket` beside tf.data's bucket_by_sequence_length, in one run, rounds interleaved.

    PYTHONPATH=build/python python bench/bench_bucket.py [--elements 200000] [--rounds 5]

Prints elements per second, the best and the median of the rounds, and the ratio. Goal: at least 20 times tf.data.
"""
import argparse
import os
import statistics
import tempfile
import time

import numpy as np
import tensorflow as tf

import penstock as ps

BOUNDARIES = [8, 16, 24, 32, 48]
SIZES = [128, 128, 64, 64, 32, 32]


def write(path, count):
    """Examples with 1 to 63 tokens and a label."""
    random = np.random.default_rng(1)
    with tf.io.TFRecordWriter(path) as writer:
        for length in random.integers(1, 64, count):
            feature = {"tokens": tf.train.Feature(int64_list=tf.train.Int64List(value=random.integers(0, 30000, length))),
                       "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(length) % 7]))}
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def ours(path):
    text = (f"tfrecord '{path}' | example schema=\"tokens:int64[*] label:int64\" | bucket tokens "
            f"boundaries={','.join(map(str, BOUNDARIES))} sizes={','.join(map(str, SIZES))}")
    return ps.pipeline(text)


def theirs(path):
    spec = {"tokens": tf.io.RaggedFeature(tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}
    dataset = tf.data.TFRecordDataset(path).map(lambda r: tf.io.parse_single_example(r, spec), tf.data.AUTOTUNE)
    dataset = dataset.bucket_by_sequence_length(lambda e: tf.shape(e["tokens"])[0], BOUNDARIES, SIZES)
    return dataset.prefetch(tf.data.AUTOTUNE)


def rate(make, count):
    begin, seen = time.perf_counter(), 0
    for batch in make():
        seen += batch["label"].shape[0]
    assert seen == count, (seen, count)
    return count / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=200000)
    parser.add_argument("--rounds", type=int, default=5)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text.tfrecord")
        write(path, a.elements)
        rates = {"penstock": [], "tf.data": []}
        for _ in range(a.rounds):
            rates["penstock"].append(rate(lambda: ours(path), a.elements))
            rates["tf.data"].append(rate(lambda: theirs(path), a.elements))
    for name, found in rates.items():
        print(f"{name:10} {max(found):12,.0f} elements/s best, {statistics.median(found):12,.0f} median of {a.rounds}")
    print(f"ratio      {max(rates['penstock']) / max(rates['tf.data']):.1f} of the best, "
          f"{statistics.median(rates['penstock']) / statistics.median(rates['tf.data']):.1f} of the medians")


if __name__ == "__main__":
    main()
