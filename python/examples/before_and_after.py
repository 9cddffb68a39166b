"""How much of its time does training wait for data, before and after? Takes an existing loader and one of ours, and runs both.

    python before_and_after.py           (a DataLoader, or a tf.data.Dataset, whichever is installed, on a drawn set)

`measure` works with any iterable of batches: import it, and hand it your own loader and your own step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import toy

import penstock as ps


def measure(name: str, batches: Iterable[Any], step: Callable[[Any], object], epochs: int = 2) -> tuple[float, float]:
    """(Batches a second, share of the time that the loop waits for data.)"""
    waited = worked = 0.0
    count = 0
    for _ in range(epochs):
        last = time.perf_counter()
        for batch in batches:
            ready = time.perf_counter()
            step(batch)
            done = time.perf_counter()
            waited, worked, last, count = waited + ready - last, worked + done - ready, done, count + 1
    share = waited / (waited + worked)
    verdict = "not input-bound" if share < 0.05 else "moderately input-bound" if share < 0.2 else "highly input-bound"
    print(f"{name}: {count / (waited + worked):.1f} batches/s, waits {share:.0%} of the time: {verdict}")
    return count / (waited + worked), share


def a_data_loader(photos: str) -> Iterable[Any]:
    """The usual PyTorch loader: a file a sample, decoded and resized by Pillow."""
    import numpy
    import torch
    from PIL import Image

    paths = sorted(os.path.join(base, name) for base, _, names in os.walk(photos) for name in names)

    class Files(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index: int) -> Any:
            image = Image.open(paths[index]).convert("RGB").resize((32, 32), Image.Resampling.BILINEAR)
            return torch.from_numpy(numpy.array(image)).float() / 127.5 - 1

    return torch.utils.data.DataLoader(Files(), batch_size=20, shuffle=True)


def a_tf_dataset(photos: str) -> Iterable[Any]:
    import tensorflow as tf

    paths = sorted(os.path.join(base, name) for base, _, names in os.walk(photos) for name in names)

    def load(path: Any) -> Any:
        return tf.image.resize(tf.io.decode_png(tf.io.read_file(path), channels=3), [32, 32]) / 127.5 - 1

    dataset: Iterable[Any] = tf.data.Dataset.from_tensor_slices(paths).shuffle(1000).map(load).batch(20)
    return dataset


def ours(photos: str) -> ps.Dataset:
    return ps.folder(photos).shuffle().decode().resize(32).normalize("-1..1").select("image").batch(20)


def step(batch: Any) -> None:
    time.sleep(0.002)  # an accelerator at work: the CPU is free for loading


def main() -> None:
    photos = toy.photos()
    try:
        before = a_data_loader(photos)
    except ImportError:
        before = a_tf_dataset(photos)
    rate, _ = measure("before", before, step)
    faster, share = measure("after", ours(photos), step)
    print(f"{faster / rate:.1f} times the batches a second")
    assert faster > rate


if __name__ == "__main__":
    main()
