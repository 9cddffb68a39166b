"""penstock.keras.Batches: a dataset as a Keras 3 PyDataset, for model.fit on any backend.

from penstock.keras import Batches
model.fit(Batches(train), epochs=10)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from penstock import Dataset


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Keras asks for batches by number: number 0 begins the next epoch, and any other but the next one is sought. The length
    must be known."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.dataset = dataset
        self._batches: Iterator[Any] = iter(())
        self._next = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        with self._lock:
            if index != self._next or index == 0:
                self._batches = iter(())  # the one before it is done with
                if index > 0:
                    self.dataset.load_state_dict({**self.dataset.state_dict(), "next": index})
                self._batches = iter(self.dataset)
            batch = next(self._batches)
            self._next = index + 1
        return tuple(np.asarray(value) for value in batch.values())
