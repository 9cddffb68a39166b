"""penstock.keras.Batches: a dataset as a Keras 3 PyDataset, for model.fit on any backend.

from penstock.keras import Batches
model.fit(Batches(train), validation_data=Batches(validation), epochs=10)
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from penstock import Dataset

PEEKED = 2  # batches that Keras looks at, and throws away, before it trains


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Every pass of Keras's is the dataset's next epoch, in the dataset's own order: Keras shuffles the numbers that it asks
    for, and any number means the next batch. An endless dataset (repeat) needs steps_per_epoch; otherwise the length must be known.
    Shuffle with Dataset.shuffle; threads are the dataset's.

    A pass begins where Keras reads num_batches, or asks for a number the second time. One that it leaves after a look at the
    first batches is begun again; any other ends its epoch.
    """

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.dataset = dataset
        self._batches: Iterator[Any] | None = None
        self._first: dict[str, int] = {}  # where the pass began
        self._given: set[int] = set()  # numbers that were asked for in this pass
        self._endless: bool | None = None  # None: not known yet
        self._anew, self._next = True, 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def num_batches(self) -> int | None:
        """The length, for Keras, which reads it before it begins a pass; None: endless, which is one pass. Use len()."""
        if self._is_endless():
            return None
        with self._lock:
            self._anew = True
        return len(self)

    def _is_endless(self) -> bool:
        if self._endless is None:
            try:
                self._endless = len(self.dataset) < 0
            except TypeError:
                operations = json.loads(getattr(self.dataset, "_engine")().describe(True))["operations"]
                self._endless = any(operation["name"] == "repeat" for operation in operations)
        return self._endless

    @property
    def workers(self) -> int:
        return 1

    @workers.setter
    def workers(self, value: int) -> None:
        if value != 1:
            raise ValueError(f"workers={value}; the dataset has its own threads: Dataset.with_options(workers=…)")

    @property
    def use_multiprocessing(self) -> bool:
        return False

    @use_multiprocessing.setter
    def use_multiprocessing(self, value: bool) -> None:
        if value:
            raise ValueError('use_multiprocessing: the dataset has its own threads; Dataset.map(…, workers="process") forks')

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        with self._lock:
            if self._anew or index in self._given or (self._is_endless() and index < self._next):
                self._begin()
            batch = next(self._batches, None) if self._batches is not None else None
            if batch is None:  # fewer than its length, as bad ones were skipped, or as it went on from a state: the next epoch
                self._given = set()
                self._begin()
                batch = next(self._batches or iter(()), None)
            if batch is None:
                raise ValueError("the dataset gives no batches")
            self._next = index + 1
            if not self._is_endless() or index <= PEEKED:
                self._given.add(index)
        return tuple(np.asarray(value) for value in batch)

    def _begin(self) -> None:
        self._batches = None  # the epoch before it is done with
        if 0 < len(self._given) <= PEEKED and (self._is_endless() or PEEKED < len(self)):
            self.dataset.load_state_dict(self._first)
        self._batches = iter(self.dataset)
        self._first = self.dataset.state_dict()
        self._given, self._anew, self._next = set(), False, 0
