"""Batches that other processes compute, in order: what penstock.ray and penstock.dask have in common.

Batch k of an epoch is a pure function of the dataset, the epoch and k. So a worker holds nothing that another one could not compute again: a
batch that is lost with its worker is asked of another, and is bit-identical.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from penstock import Dataset, Error

F = TypeVar("F")  # a batch that is being computed
MOST_LOSSES = 10  # of one batch, without any result in between
SIZES = {"uint8": 1, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4, "int64": 8, "float64": 8}


class Lost(Exception):
    """A batch was lost with its worker. `final`: another worker would be lost as well, as it cannot start."""

    def __init__(self, final: bool = False) -> None:
        super().__init__()
        self.final = final


class Backend(Protocol[F]):
    """Who computes batches."""

    def slots(self) -> int:
        """Batches that all workers together compute at the same time."""

    def submit(self, epoch: int, k: int) -> F:
        """Starts the computation of a batch by any worker."""

    def get(self, future: F) -> dict[str, Any] | None:
        """Waits for a batch; None: a function left it out. Raises Lost from the cause if its worker is gone."""

    def cancel(self, future: F) -> None:
        """The batch is not needed."""

    def close(self) -> None:
        """Ends the workers that this backend has started."""


def batch_at(dataset: Dataset, k: int, epoch: int) -> dict[str, Any] | None:
    """Batch k of an epoch as arrays; None: a function left it out."""
    batch = dataset.at(k, epoch)
    return None if batch is None else arrays(batch)


def arrays(batch: Any) -> dict[str, Any]:
    """The fields of a batch as NumPy arrays; bytes are lists, ragged fields pairs of values and row splits."""
    import numpy

    found: dict[str, Any] = {}
    for name, value in batch.items():
        if getattr(value, "dtype", None) == "bytes":
            found[name] = value.tolist()
        elif getattr(value, "row_splits", None) is not None:
            found[name] = (numpy.asarray(value.values), numpy.asarray(value.row_splits))
        else:
            found[name] = numpy.asarray(value)
    return found


def size_of(batch: dict[str, Any]) -> int:
    """Bytes of the arrays of a batch."""
    total = 0
    for value in batch.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            total += int(getattr(part, "nbytes", 0)) or len(part)
    return total


def expected_size(dataset: Dataset) -> int:
    """Bytes of a batch by its declaration; 0: it varies."""
    total = 0
    for spec in dataset.element_spec.values():
        shape = [n for n in spec.shape]
        if spec.dtype not in SIZES or any(n is None for n in shape):
            return 0
        total += SIZES[spec.dtype] * math.prod(shape)
    return total


class Loader(Generic[F]):
    """Iterating over it yields the batches of an epoch, in order, as dicts of NumPy arrays; every iter() begins the next epoch.

    Batches that are computed or wait to be taken have at most `ram` bytes together, but there is always one.
    """

    def __init__(self, dataset: Dataset, backend: Backend[F], ram: int, length: int | None) -> None:
        self._dataset, self._backend, self._ram = dataset, backend, ram
        self._length = len(dataset) if length is None else length
        self._size = expected_size(dataset)
        self._epoch = self._next = 0
        self._window: deque[tuple[int, F]] = deque()
        self._asked = 0
        self.repeated = 0  # batches that were computed again because their worker was lost

    def __len__(self) -> int:
        return self._length

    def _ahead(self) -> int:
        """Batches that may be under way."""
        most = self._ram // self._size if self._size else self._backend.slots()
        return max(1, min(most, 2 * self._backend.slots()))

    def _fill(self) -> None:
        while self._asked < self._length and len(self._window) < self._ahead():
            self._window.append((self._asked, self._backend.submit(self._epoch, self._asked)))
            self._asked += 1

    def _take(self) -> dict[str, Any] | None:
        k, future = self._window[0]
        losses = 0
        while True:
            try:
                batch = self._backend.get(future)
                break
            except Lost as lost:
                losses += 1
                if lost.final or losses >= MOST_LOSSES:
                    times = "" if losses == 1 else f" {losses} times"
                    raise Error(f"batch {k} of epoch {self._epoch} was lost{times} with its worker: {lost.__cause__}") from lost.__cause__
                self.repeated += 1
                future = self._backend.submit(self._epoch, k)
                self._window[0] = (k, future)
        self._window.popleft()
        if batch is not None:
            self._size = max(self._size, size_of(batch))
        return batch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self._drop()
        self._asked = self._next
        try:
            while True:
                self._fill()
                if not self._window:
                    break
                batch = self._take()
                self._next += 1
                self._fill()  # the workers go on while the caller uses the batch
                if batch is not None:
                    yield batch
            self._epoch, self._next = self._epoch + 1, 0
        finally:
            self._drop()

    def _drop(self) -> None:
        while self._window:
            self._backend.cancel(self._window.popleft()[1])

    def state_dict(self) -> dict[str, Any]:
        """The place: after load_state_dict on an equal loader, the next iter() continues here."""
        return {"epoch": self._epoch, "next": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._drop()
        self._epoch, self._next = int(state["epoch"]), int(state["next"])

    def close(self) -> None:
        """Ends the workers."""
        self._drop()
        self._backend.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()
