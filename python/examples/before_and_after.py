"""How much of its time does training wait for data, before and after?

    python before_and_after.py                                      (a DataLoader or a tf.data.Dataset, on a drawn set)
    python before_and_after.py photos                               (on class folders of your own)
    python before_and_after.py --before train:loader --step train:step --after "folder photos | shuffle | decode | …"

`--before` and `--after` name an object of a module in this folder, MODULE:NAME: a DataLoader, a tf.data.Dataset, any iterable of
batches, or a function that returns one. `--after` also takes the text of a pipeline. `--step MODULE:NAME` is a function of a
batch; without it, a step is a pause of `--step-ms`, as of an accelerator at work.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import toy

import penstock as ps

SIDE, BATCH = 32, 20


def measure(name: str, batches: Iterable[Any], step: Callable[[Any], object], epochs: int = 3) -> float:
    """Batches a second, after an epoch that does not count; prints them, and how much of the time the loop waits for data."""
    waited = worked = 0.0
    count = 0
    for epoch in range(epochs + 1):
        last = time.perf_counter()
        for batch in batches:
            ready = time.perf_counter()
            step(batch)
            done = time.perf_counter()
            if epoch > 0:
                waited, worked, count = waited + ready - last, worked + done - ready, count + 1
            last = done
    if not count:
        sys.exit(f"{name}: there are no batches, or only in the first epoch: hand over what can be iterated over again")
    share = waited / (waited + worked)
    verdict = "consumer-bound" if share < 0.05 else "balanced" if share <= 0.2 else "input-bound"
    rate = count / (waited + worked)
    print(f"{name:<7} {rate:7.1f} batches/s, waits for data {share:4.0%} of the time: {verdict}")
    return rate


# ---- What people have ----


def files(photos: str) -> list[str]:
    return sorted(os.path.join(base, name) for base, _, names in os.walk(photos) for name in names)


def a_data_loader(photos: str) -> Iterable[Any]:
    """The usual PyTorch loader: a file a sample, decoded and resized by Pillow."""
    import numpy
    import torch
    from PIL import Image

    paths = files(photos)

    class Files(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index: int) -> Any:
            image = Image.open(paths[index]).convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
            return torch.from_numpy(numpy.array(image)).float() / 127.5 - 1

    return torch.utils.data.DataLoader(Files(), batch_size=BATCH, shuffle=True)


def a_tf_dataset(photos: str) -> Iterable[Any]:
    """The usual tf.data pipeline."""
    import tensorflow as tf

    def load(path: Any) -> Any:
        image = tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
        return tf.image.resize(image, [SIDE, SIDE]) / 127.5 - 1

    dataset: Iterable[Any] = tf.data.Dataset.from_tensor_slices(files(photos)).shuffle(1000).map(load).batch(BATCH)
    return dataset


def usual(photos: str) -> Iterable[Any]:
    for make in (a_data_loader, a_tf_dataset):
        try:
            return make(photos)
        except ImportError:
            pass
    sys.exit("there is neither PyTorch (with Pillow) nor TensorFlow to compare with; name a loader: --before MODULE:NAME")


# ---- What we have ----


def ours(photos: str) -> ps.Dataset:
    return ps.folder(photos).shuffle().decode().resize(SIDE).normalize("-1..1").select("image").batch(BATCH)


# ---- The command ----


def named(place: str) -> Any:
    """What MODULE:NAME says."""
    module, _, name = place.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        sys.exit(f"{place}: {error}")


def loader(place: str) -> Iterable[Any]:
    if "|" in place:
        return ps.pipeline(place)
    found = named(place)
    result: Iterable[Any] = found() if callable(found) and not hasattr(found, "__iter__") else found
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", nargs="?", help="class folders; default: a drawn set")
    parser.add_argument("--before", metavar="MODULE:NAME", help="the loader that there is")
    parser.add_argument("--after", metavar="MODULE:NAME or TEXT", help="the one to compare it with")
    parser.add_argument("--step", metavar="MODULE:NAME", help="a training step: a function of a batch")
    parser.add_argument("--step-ms", type=float, default=2, help="a pause instead of a step (default 2)")
    options = parser.parse_args()
    photos = options.photos or ("" if options.before and options.after else toy.photos())
    step = named(options.step) if options.step else lambda batch: time.sleep(options.step_ms / 1000)
    before = measure("before", loader(options.before) if options.before else usual(photos), step)
    after = measure("after", loader(options.after) if options.after else ours(photos), step)
    print(f"{after / before:.1f} times the batches a second")


if __name__ == "__main__":
    main()
