"""penstock.keras.Batches: a dataset as a Keras 3 PyDataset, for model.fit on any backend. penstock.keras.Doctor: a callback that says
why fit() is slow.

from penstock.keras import Batches
model.fit(Batches(train), validation_data=Batches(validation), epochs=10)

from penstock.keras import Doctor
model.fit(train, callbacks=[Doctor(report="report.html", verbose=True)])
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from penstock import Dataset
from penstock._doctor.keras_callback import callback as _callback

Doctor: Any = _callback()

PEEKED = 2  # batches that Keras reads and discards before training


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """Every pass of Keras is the next epoch of the dataset, in the order of the dataset: Keras may shuffle the batch numbers that
    it requests, but every request returns the next batch. An endless dataset (repeat) needs steps_per_epoch; otherwise the
    length must be known. Shuffle with Dataset.shuffle. The dataset has its own threads.

    A pass begins when Keras reads num_batches, or requests a number for the second time. If Keras reads only the first batches
    of a pass, the pass starts again; any other pass ends its epoch.
    """

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.dataset = dataset
        self._batches: Iterator[Any] | None = None
        self._first: dict[str, int | str] = {}  # state at the beginning of the pass
        self._given: set[int] = set()  # numbers requested in this pass
        self._endless: bool | None = None  # None: not known yet
        self._anew, self._next = True, 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def num_batches(self) -> int | None:
        """The length, or None if endless. Keras reads it before each pass; other code should use len()."""
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
            if batch is None:  # shorter than its length, because batches were skipped or it was resumed: next epoch
                self._given = set()
                self._begin()
                batch = next(self._batches or iter(()), None)
            if batch is None:
                raise ValueError("the dataset has no batches")
            self._next = index + 1
            if not self._is_endless() or index <= PEEKED:
                self._given.add(index)
        if not self.dataset._has_batches:  # Keras takes batches only
            return tuple(np.asarray([value], object) if isinstance(value, bytes) else np.asarray(value)[None] for value in batch)
        return tuple(np.asarray(value) for value in batch)

    def _begin(self) -> None:
        self._batches = None  # the previous epoch is finished
        if 0 < len(self._given) <= PEEKED and (self._is_endless() or PEEKED < len(self)):
            self.dataset.load_state_dict(self._first)
        self._batches = iter(self.dataset)
        self._first = self.dataset.state_dict()
        self._given, self._anew, self._next = set(), False, 0
