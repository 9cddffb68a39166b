"""What the tests of the Python module with frameworks share."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import penstock as ps

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
EXAMPLES = os.path.join(ROOT, "python", "examples")


@contextlib.contextmanager
def image_shards(count=60):
    """(Chain of decoded images and labels, the same as arrays): PNGs made from known pixels."""
    pixels = np.random.default_rng(7).integers(0, 256, (count, 20, 24, 3), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.tfrecord")
        with ps.TFRecordWriter(path) as writer:
            for i, image in enumerate(pixels):
                writer.write(ps.Example(image=ps._core.encode_png(np.ascontiguousarray(image), 24, 20, 3), label=i))
        chain = ps.tfrecord(path).shuffle(seed=3).example("image:bytes label:int64").decode().resize((20, 24))
        yield chain, pixels


def normalized(pixels):
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    return ((pixels / 255 - mean) / std).astype(np.float32)


def example(name, *arguments, cwd=None):
    """Runs one of python/examples with this interpreter."""
    command = [sys.executable, os.path.join(EXAMPLES, name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1000, cwd=cwd)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def before_and_after(mine):
    """Runs the example on what it draws, and on the loader of a module whose text is `mine`. No time is looked at."""
    line = r"\w+ +[\d.]+ batches/s, waits for data +\d+% of the time: (input-bound|balanced|consumer-bound)\n"
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "mine.py"), "w") as f:
            f.write(mine + "\nsizes = []\ndef step(batch): sizes.append(len(batch[0]))\n")
        for arguments in ((), ("--before", "mine:loader", "--after", "range 40 | batch 10", "--step", "mine:step")):
            printed = example("before_and_after.py", *arguments, cwd=folder)
            assert re.fullmatch(f"{line}{line}[\\d.]+ times the batches a second\n", printed), printed
