"""penstock.torch.Loader: a dataset as a PyTorch IterableDataset; its tensors share memory with the batches.

from penstock.torch import Loader
for images, labels in Loader(dataset):
    ...
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack

from penstock import Dataset, Tensor
from penstock._ranks import resolve


def tensor(value: Any) -> Any:
    """Converts a field to a torch.Tensor without a copy. Fields of bytes become lists, ragged fields nested (jagged) tensors."""
    if isinstance(value, Tensor):
        if value.dtype == "bytes":
            return value.tolist()
        if value.row_splits is not None:
            return torch.nested.nested_tensor_from_jagged(from_dlpack(value.values), from_dlpack(value.row_splits))
        return from_dlpack(value)
    if isinstance(value, bytes):  # of an element without batch
        return value
    return torch.as_tensor(value)


class Loader(torch.utils.data.IterableDataset[Any]):
    """Batches as tuples of torch tensors, without `key` (file names); as_dict=True: dicts of all fields. Iterate over it directly, or
    pass it to torch.utils.data.DataLoader with batch_size=None and num_workers=0: it has its own threads.

        pin_memory: copy into pinned memory; None: if CUDA is available
        device: move to this device, without waiting for the copy
        rank, world: the share of this process; None: from torch.distributed or the environment. Every epoch has a new order;
            set_epoch is not needed
        uneven: what to do if the batches do not divide evenly among the ranks: "pad", "drop" or "allow"
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        as_dict: bool = False,
        pin_memory: bool | None = None,
        device: Any = None,
        rank: int | None = None,
        world: int | None = None,
        uneven: str = "pad",
    ) -> None:
        rank, world = resolve(rank, world)
        self.dataset = dataset.distributed(rank, world, uneven) if world > 1 else dataset
        self.as_dict, self.device = as_dict, device
        self.pin_memory = torch.cuda.is_available() if pin_memory is None else pin_memory

    def _ready(self, value: Any) -> Any:
        value = tensor(value)
        if isinstance(value, torch.Tensor):
            if self.pin_memory:
                value = value.pin_memory()
            if self.device is not None:
                value = value.to(self.device, non_blocking=True)
        return value

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        if info is not None and info.num_workers > 1:
            raise RuntimeError(
                "the loader has its own threads, and every worker of a DataLoader would read everything: use "
                "DataLoader(loader, batch_size=None, num_workers=0), or the loader itself"
            )
        for batch in self.dataset:
            if self.as_dict:
                yield {name: self._ready(value) for name, value in batch.items()}
            else:
                yield tuple(self._ready(value) for value in batch)

    def __len__(self) -> int:
        return len(self.dataset)

    def state_dict(self) -> dict[str, int | str]:
        return self.dataset.state_dict()

    def load_state_dict(self, state: dict[str, int | str]) -> None:
        self.dataset.load_state_dict(state)


class Doctor:
    """Wraps a loader in a training loop, and says afterwards why it is slow.

        batches = Doctor(loader)
        for images, labels in batches:
            ...
        print(batches.answer())
    """

    def __init__(self, loader: Any) -> None:
        from penstock._doctor.gpu import Watch
        from penstock._doctor.transfer import Copies
        from penstock._doctor.watch import Meter

        self.loader = loader
        self._copies, self._devices = Copies(), Watch()
        self._meter = Meter(loader, "torch", self._copies)

    def __iter__(self) -> Iterator[Any]:
        import time

        from penstock._doctor.observe import size_of

        with self._copies, self._devices:
            batches = iter(self.loader)
            while True:
                asked, copied = time.perf_counter(), self._copies.seconds
                try:
                    batch = next(batches)
                except StopIteration:
                    self._meter.end()
                    return
                self._meter.got(asked, time.perf_counter(), size_of(batch), copied)
                yield batch

    def __len__(self) -> int:
        return len(self.loader)

    def answer(self, data: Any = None, **options: Any) -> Any:
        """Returns the answer for the steps so far; the loader is measured alone for a few seconds."""
        from penstock._doctor.main import answer_for

        return answer_for(self._meter.seen, self.loader, None, data, [], copies=self._copies, devices=self._devices, **options)
