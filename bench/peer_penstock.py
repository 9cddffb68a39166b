"""Penstock in the peer benchmark: pipelines through the Python module, packing through the tool.

Variants of the JPEG cases: exact (the quality that `fast` is compared with); plain (DATA/tfrecord-plain: the same shards without
an entropy index, which `penstock index --entropy DATA/tfrecord` adds to the usual ones); reencoded (DATA/tfrecord-90: `penstock pack
DATA/files DATA/tfrecord-90 --format jpeg --quality 90 --entropy`, as FFCV's writer does). Variant nosync of `pack`: publishes without
fsync, as the peers write. PENSTOCK_BUILD names the build folder (default: the one of this clone).
"""
import json
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PENSTOCK_BUILD", os.path.join(HERE, "..", "build"))
TOOL = os.path.join(BUILD, "cli", "penstock")
sys.path.insert(0, os.path.join(BUILD, "python"))

import penstock  # noqa: E402

TEXTS = {
    "train_jpeg": "tfrecord '{data}/{shards}' | shuffle | repeat | example 'image:bytes label:int64' | decode quality={quality}"
                  " | random_resized_crop 224 | flip | normalize imagenet | batch {batch} drop_remainder=true",
    "eval_jpeg": "tfrecord '{data}/{shards}' | shuffle | repeat | example 'image:bytes label:int64' | decode quality={quality}"
                 " | resize short=256 | center_crop 224 | normalize imagenet | batch {batch} drop_remainder=true",
    "raw": "tfrecord '{data}/tfrecord-raw/*.tfrecord' | shuffle | repeat | example 'image:bytes label:int64'"
           " | decode format=raw shape=224x224x3 | batch {batch} drop_remainder=true",
    "small": "tfrecord '{data}/tfrecord-small/*.tfrecord' | shuffle | repeat | example 'x:float[32] label:int64'"
             " | batch {batch} drop_remainder=true",
    # Keras does not antialias either
    "directory": "folder '{data}/files' | shuffle | repeat | decode | resize 224 method=bilinear | cast f32"
                 " | batch {batch} drop_remainder=true",
}
SHARDS = {"plain": "tfrecord-plain/*.tfrecord", "reencoded": "tfrecord-90/*.tfrecord-*-of-?????"}


def version():
    return subprocess.run([TOOL, "version"], check=True, capture_output=True, text=True).stdout.strip()


def text_of(case, data, batch, variant=""):
    shards, quality = SHARDS.get(variant, "tfrecord/*.tfrecord"), "exact" if variant == "exact" else "auto"
    return TEXTS[case].format(data=data, batch=batch, shards=shards, quality=quality)


def run(case, data, batch, variant):
    dataset = penstock.pipeline(text_of(case, data, batch, variant))
    field = "x" if case == "small" else "image"
    for current in dataset:
        yield np.asarray(current[field]), np.asarray(current["label"])


def pack(files, out, variant):
    """5000 files of class folders into 8 shards, their bytes untouched, with key, label and size."""
    command = [TOOL, "pack", files, os.path.join(out, "packed"), "--shards", "8", "--json"]
    if variant == "nosync":
        command.append("--no-sync")
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["records"], report["source_bytes"]
