"""penstock.dask: batches that Dask workers compute, in order.

import penstock.dask
from distributed import Client
with penstock.dask.Loader(dataset, Client("tcp://scheduler:8786")) as loader:
    for batch in loader:
        ...
"""

from __future__ import annotations

import pickle
import threading
from typing import Any

from distributed import Client
from distributed.client import Future

from penstock import Dataset
from penstock import _remote

__all__ = ["Loader"]

_open: dict[str, Any] = {}  # in the workers: datasets by their name
_lock = threading.Lock()


def _batch(name: str, pickled: bytes, epoch: int, k: int) -> dict[str, Any] | None:
    """Runs in a worker, which keeps the dataset for the next call."""
    with _lock:
        if name not in _open:
            _open[name] = pickle.loads(pickled)
        dataset = _open[name]
    return _remote.batch_at(dataset, k, epoch)


class _Tasks:
    def __init__(self, dataset: Dataset, client: Client) -> None:
        self.client = client
        self.pickled = pickle.dumps(dataset)
        self.name = f"penstock-{id(self):x}-{hash(self.pickled) & 0xFFFFFFFF:x}"

    def slots(self) -> int:
        return max(1, sum(self.client.nthreads().values()))

    def submit(self, epoch: int, k: int) -> Future:
        # the scheduler computes a batch again if its worker is lost; the number of times is not limited by Dask's default of 3
        return self.client.submit(_batch, self.name, self.pickled, epoch, k, pure=False, retries=10, key=f"{self.name}-{epoch}-{k}-{_count()}")

    def get(self, future: Future) -> dict[str, Any] | None:
        from distributed.scheduler import KilledWorker

        try:
            found: dict[str, Any] | None = future.result()
        except KilledWorker as error:
            raise _remote.Lost from error
        return found

    def cancel(self, future: Future) -> None:
        future.cancel()

    def close(self) -> None:
        """The cluster is the caller's."""


_counter = 0


def _count() -> int:
    global _counter
    _counter += 1
    return _counter


class Loader(_remote.Loader[Future]):
    """Batches of `dataset`, computed by the workers of a Dask cluster and delivered in order, bit-identical to iterating over the dataset here.

        client: the cluster; workers that join or leave during an epoch are used or missed at once
        ram: bytes of batches that are computed or wait to be taken
        length: batches per epoch, where the dataset cannot tell

    The dataset is pickled: its files must exist wherever workers run. A batch whose worker dies is computed again.
    """

    def __init__(self, dataset: Dataset, client: Client, *, ram: int = 1 << 30, length: int | None = None) -> None:
        super().__init__(dataset, _Tasks(dataset.with_options(workers=1, prefetch=1), client), ram, length)
