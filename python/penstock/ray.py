"""penstock.ray: batches that Ray actors compute, on this machine or on many; and a source for ray.data.

import penstock.ray
with penstock.ray.Loader(dataset, workers=4) as loader:
    for batch in loader:
        ...
ray.data.read_datasource(penstock.ray.Source(dataset, epoch=0))
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import ray
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata
from ray.exceptions import ObjectLostError, RayActorError, WorkerCrashedError

from penstock import Dataset
from penstock import _remote

__all__ = ["Loader", "Source"]


class _Worker:
    """An actor. Its threads compute batches at the same time."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def batch(self, epoch: int, k: int) -> dict[str, Any] | None:
        return _remote.batch_at(self.dataset, k, epoch)

    def process(self) -> int:
        import os

        return os.getpid()


class _Actors:
    """Actors that share the batches: each new one goes to the actor with the least to do."""

    def __init__(self, dataset: Dataset, workers: int, threads: int, options: dict[str, Any]) -> None:
        self.data = ray.put(dataset)
        self.threads = threads
        self.kind = ray.remote(_Worker).options(max_concurrency=threads, num_cpus=threads, **options)
        self.actors: list[Any] = []
        self.load: dict[Any, int] = {}  # by actor
        self.owner: dict[Any, Any] = {}  # by batch
        self.scale(workers)

    def scale(self, workers: int) -> None:
        while len(self.actors) < workers:
            actor = self.kind.remote(self.data)
            self.actors.append(actor)
            self.load[actor] = 0
        while len(self.actors) > workers:  # it finishes what it has
            actor = self.actors.pop()
            actor.__ray_terminate__.remote()

    def slots(self) -> int:
        return len(self.actors) * self.threads

    def submit(self, epoch: int, k: int) -> Any:
        actor = min(self.actors, key=lambda a: self.load[a])
        future = actor.batch.remote(epoch, k)
        self.load[actor] += 1
        self.owner[future] = actor
        return future

    def _release(self, future: Any) -> Any:
        actor = self.owner.pop(future, None)
        if actor is not None:
            self.load[actor] -= 1
            if self.load[actor] == 0 and actor not in self.actors:
                del self.load[actor]
        return actor

    def get(self, future: Any) -> dict[str, Any] | None:
        try:
            batch: dict[str, Any] | None = ray.get(future)
        except (RayActorError, WorkerCrashedError, ObjectLostError) as error:
            actor = self._release(future)
            if isinstance(error, RayActorError) and actor in self.actors:  # another takes its place
                workers = len(self.actors)
                self.actors.remove(actor)
                self.scale(workers)
            raise _remote.Lost(final=bool(getattr(error, "actor_init_failed", False))) from error
        self._release(future)
        return batch

    def cancel(self, future: Any) -> None:
        self._release(future)

    def close(self) -> None:
        for actor in self.actors:
            ray.kill(actor)
        self.actors = []


def _begin() -> None:
    """Joins the cluster that RAY_ADDRESS names or that runs here; otherwise starts one that only this machine reaches."""
    if ray.is_initialized():
        return
    try:
        ray.init(address="auto")
    except ConnectionError:  # there is none
        ray.init(address="local", _node_ip_address="127.0.0.1", include_dashboard=False)


class Loader(_remote.Loader[Any]):
    """Batches of `dataset`, computed by Ray actors and delivered in order, bit-identical to iterating over the dataset here.

        workers: number of actors; scale() changes it at any time
        threads: batches that each actor computes at the same time; Ray reserves as many CPUs
        ram: bytes of batches that are computed or wait to be taken; choose less than the object store has
        length: batches per epoch, where the dataset cannot tell
        options: further options of the actors, such as resources={"loader": 1}

    Without ray.init() before it, it joins the cluster that RAY_ADDRESS names or that runs on this machine; if there is none, it starts one that
    listens on 127.0.0.1 only.

    The arrays of a batch are read-only views of the object store. The dataset is pickled: its files must exist wherever actors run. An actor
    that dies is replaced, and its batches are computed again.
    """

    _backend: _Actors

    def __init__(
        self,
        dataset: Dataset,
        workers: int = 2,
        *,
        threads: int = 1,
        ram: int = 1 << 30,
        length: int | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        if workers < 1 or threads < 1:
            raise ValueError(f"workers={workers}, threads={threads}; expected 1 or more of each")
        _begin()
        super().__init__(dataset, _Actors(dataset.with_options(workers=1, prefetch=1), workers, threads, options or {}), ram, length)

    def scale(self, workers: int) -> None:
        """Adds or removes actors, also in the middle of an epoch."""
        if workers < 1:
            raise ValueError(f"workers={workers}; expected 1 or more")
        self._backend.scale(workers)

    def processes(self) -> list[int]:
        """The process numbers of the actors."""
        found: list[int] = ray.get([actor.process.remote() for actor in self._backend.actors])
        return found


def _read(dataset: Dataset, epoch: int, first: int, last: int) -> Iterable[Any]:
    from ray.data.block import BlockAccessor

    for k in range(first, last):
        batch = _remote.batch_at(dataset, k, epoch)
        if batch is not None:
            yield BlockAccessor.batch_to_block(batch)


class Source(Datasource):
    """One epoch of a dataset for ray.data: every batch is one block, and every task reads a run of neighbouring batches.

        data = ray.data.read_datasource(penstock.ray.Source(dataset, epoch=3), override_num_blocks=16)
        for batch in data.iter_batches(batch_size=None): ...

    ray.data keeps the order if DataContext.get_current().execution_options.preserve_order is set.
    """

    def __init__(self, dataset: Dataset, *, epoch: int = 0, length: int | None = None) -> None:
        super().__init__()
        self._dataset, self._epoch = dataset.with_options(workers=1, prefetch=1), epoch
        self._length = len(dataset) if length is None else length
        self._size = _remote.expected_size(dataset)
        shape = next(iter(dataset.element_spec.values())).shape
        self._rows = shape[0] if shape and shape[0] else 0

    def estimate_inmemory_data_size(self) -> int | None:
        return self._length * self._size or None

    def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list[ReadTask]:
        tasks, count = [], max(1, min(parallelism, self._length))
        for i in range(count):
            first, last = self._length * i // count, self._length * (i + 1) // count

            def read(first: int = first, last: int = last) -> Iterable[Any]:
                return _read(self._dataset, self._epoch, first, last)

            rows = (last - first) * self._rows or None
            tasks.append(ReadTask(read, BlockMetadata(num_rows=rows, size_bytes=(last - first) * self._size or None, input_files=None, exec_stats=None)))
        return tasks
