"""Trains a small convolutional network in PyTorch from a penstock loader.

python torch_cnn.py [PHOTOS]         (class folders; default: a drawn set)
"""

from __future__ import annotations

import sys

import torch
import toy
from torch import nn

import penstock as ps
from penstock.torch import Loader


def main() -> None:
    torch.manual_seed(1)
    photos = sys.argv[1] if len(sys.argv) > 1 else toy.photos()
    dataset = (
        ps.folder(photos)
        .shuffle(seed=1)
        .decode()
        .random_resized_crop(32, scale=(0.5, 1))
        .flip()
        .normalize("-1..1")
        .layout("nchw")
        .select("image", "label")
        .batch(20)
    )
    loader = Loader(dataset)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(12, 24, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 2),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    accuracy = 0.0
    for epoch in range(6):
        right = total = 0
        for images, labels in loader:
            scores = model(images)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            right += int((scores.argmax(1) == labels).sum())
            total += len(labels)
        accuracy = right / total
        print(f"epoch {epoch}: {accuracy:.1%} right")
    assert accuracy > 0.8, "it did not learn"


if __name__ == "__main__":
    main()
