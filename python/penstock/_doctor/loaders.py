"""What kind of loader an iterable is, how it is set up, and the same loader with other settings.

A loader of a framework that is not imported cannot be one of its loaders, so nothing is imported here.
"""

import collections.abc
import sys

from .observe import cores
from .transfer import moved


class Variant:
    """The loader with one setting changed. `make()` returns a Loader; `workers` and `overlaps` are for the prediction."""

    def __init__(self, id, title, command, make, workers=None, overlaps=None, batch=None, effort="low", rate=None, bound=""):
        self.id, self.title, self.command, self.make = id, title, command, make
        self.workers, self.overlaps, self.batch, self.effort = workers, overlaps, batch, effort
        self.rate = rate  # what is predicted, if that does not follow from the other settings…
        self.bound = bound  # …and why it is only an upper bound; "": it is not


class Loader:
    """Any iterable. `passes()` begins an epoch."""

    kind = "iterable"
    overlaps = False  # prepares batches while the step runs
    workers = 0  # processes or threads of its own
    ready = 0  # batches that it keeps ready
    threads = False  # its Python functions run in other threads

    def __init__(self, loader):
        self.loader = loader
        self.once = isinstance(loader, collections.abc.Iterator)
        if self.once:
            self.kind = "iterator"

    def passes(self):
        return iter(self.loader)

    def length(self):
        try:
            return len(self.loader)
        except TypeError:
            return None

    def samples(self):
        return None

    def settings(self):
        return {"loader": type(self.loader).__qualname__, "kind": self.kind, "workers": self.workers, "batches_ready": self.ready}

    def in_process(self):
        """A loader whose Python functions run in this thread, for looking at stacks; None if there is none."""
        return self if not self.overlaps else None

    def close(self):
        """Frees what a loader that was made for a trial holds."""

    def findings(self):
        """Causes that the set-up itself shows: [(cause, stage, remedy ids)]."""
        return []

    def sweeps(self):
        """(name, [(value, make)]) for the effect of each setting on the loader's rate."""
        return []

    def variants(self):
        if self.overlaps:
            return []
        return [
            Variant(
                "prefetch", "Prepare batches in a background thread", "a thread that fills a queue.Queue(4) with the next batches",
                lambda: Ahead(self), overlaps=True,
            )
        ]


class Ahead(Loader):
    """Another loader, read by a thread that keeps batches ready."""

    kind, overlaps, workers, ready = "thread", True, 1, 4

    def __init__(self, inner):
        super().__init__(inner)
        self.once = inner.once

    def prepare(self, batch):
        """What the thread does with a batch."""
        return batch

    def passes(self):
        import queue
        import threading

        batches, end, stop = queue.Queue(self.ready), object(), threading.Event()

        def put(item):
            while not stop.is_set():
                try:
                    return batches.put(item, timeout=0.1)
                except queue.Full:
                    continue

        def fill():
            try:
                for batch in self.loader.passes():
                    put((self.prepare(batch), None))
                    if stop.is_set():
                        return
                put((end, None))
            except BaseException as error:  # raised where the batches are taken
                put((end, error))

        thread = threading.Thread(target=fill, daemon=True)
        thread.start()
        try:
            while True:
                batch, error = batches.get()
                if error is not None:
                    raise error
                if batch is end:
                    return
                yield batch
        finally:
            stop.set()
            thread.join()


class OnDevice(Ahead):
    """Another loader, whose batches a thread copies to a device."""

    def __init__(self, inner, device):
        super().__init__(inner)
        self.device = device

    def prepare(self, batch):
        return moved(batch, self.device)


# ---- PyTorch ----


class Torch(Loader):
    kind = "torch"

    def __init__(self, loader):
        super().__init__(loader)
        self.once = False
        self.workers = loader.num_workers
        self.overlaps = loader.num_workers > 0
        self.ready = loader.num_workers * (loader.prefetch_factor or 0)

    def samples(self):
        try:
            return len(self.loader.sampler) if self.loader.batch_sampler is not None else None
        except TypeError:
            return None

    def settings(self):
        loader = self.loader
        return {
            **super().settings(), "dataset": type(loader.dataset).__qualname__, "batch_size": loader.batch_size or 0,
            "prefetch_factor": loader.prefetch_factor or 0, "pin_memory": loader.pin_memory, "persistent_workers": loader.persistent_workers,
        }

    def rebuild(self, **changes):
        """The same loader with other settings."""
        old = self.loader
        data = sys.modules["torch.utils.data"]
        workers = changes.get("num_workers", old.num_workers)
        given = {
            "num_workers": workers, "collate_fn": old.collate_fn, "pin_memory": changes.get("pin_memory", old.pin_memory), "timeout": old.timeout if workers else 0,
            "worker_init_fn": old.worker_init_fn, "generator": old.generator,
        }
        if workers:
            given["prefetch_factor"] = changes.get("prefetch_factor", old.prefetch_factor or 2)
            given["multiprocessing_context"] = old.multiprocessing_context
            given["persistent_workers"] = True
        plain = type(old.batch_sampler) is data.BatchSampler
        if old.batch_sampler is None:
            given.update(batch_size=None)
            if not isinstance(old.dataset, data.IterableDataset):
                given["sampler"] = old.sampler
        elif isinstance(old.dataset, data.IterableDataset):
            given.update(batch_size=changes.get("batch_size", old.batch_size), drop_last=old.drop_last)
        elif plain:
            given.update(batch_size=changes.get("batch_size", old.batch_size), drop_last=old.drop_last, sampler=old.sampler)
        else:
            given.update(batch_sampler=old.batch_sampler)
        return Torch(data.DataLoader(old.dataset, **given))

    def in_process(self):
        return self.rebuild(num_workers=0)

    def findings(self):
        return []

    def _parts(self, workers):
        """What worker processes ask of a dataset that is read by __iter__: each of them reads all of it."""
        if not isinstance(self.loader.dataset, sys.modules["torch.utils.data"].IterableDataset):
            return ""
        return f", and let __iter__ give each its own part (torch.utils.data.get_worker_info): otherwise every sample comes {workers} times"

    def variants(self):
        more = max(1, cores())
        found = []
        if self.workers < more:
            found.append(
                Variant(
                    "more-workers", f"Use {more} worker processes{self._parts(more)}", f"DataLoader(…, num_workers={more}, persistent_workers=True)",
                    lambda: self.rebuild(num_workers=more), workers=more, overlaps=True,
                )
            )
        if self.workers == 0:
            found += super().variants()
        size = self.loader.batch_size
        if size and size <= 16:
            larger = max(32, 4 * size)
            found.append(
                Variant(
                    "larger-batch", f"Use batches of {larger}", f"DataLoader(…, batch_size={larger})", lambda: self.rebuild(batch_size=larger),
                    batch=larger, effort="medium",
                )
            )
        return found

    def sweeps(self):
        counts = sorted({0, 1, 2, cores()})
        found = [("num_workers", [(n, lambda n=n: self.rebuild(num_workers=n)) for n in counts])]
        size = self.loader.batch_size
        if size:
            sizes = sorted({max(1, size // 4), size, 4 * size})
            found.append(("batch_size", [(n, lambda n=n: self.rebuild(batch_size=n)) for n in sizes]))
        if self.workers:
            found.append(("prefetch_factor", [(n, lambda n=n: self.rebuild(prefetch_factor=n)) for n in (1, 2, 4)]))
        return found


# ---- tf.data ----


class TensorFlow(Loader):
    kind, threads = "tf.data", True

    def __init__(self, loader):
        super().__init__(loader)
        self.once = False
        self.chain = _chain(loader)
        names = [name for name, _ in self.chain]
        self.overlaps = bool(names) and names[0].startswith("Prefetch")
        self.ready = self._buffer() if self.overlaps else 0
        self.workers = 1 if any("Parallel" in name for name in names) else 0

    def _buffer(self):
        try:
            size = int(self.chain[0][1]._buffer_size)
            return size if size > 0 else cores()
        except (AttributeError, TypeError, ValueError):
            return 1

    def settings(self):
        return {**super().settings(), "chain": " | ".join(name for name, _ in reversed(self.chain))}

    def length(self):
        count = int(self.loader.cardinality())
        return count if count >= 0 else None

    def in_process(self):
        return self

    def findings(self):
        names = [name for name, _ in self.chain]  # the last operation first
        found = []
        functions = " ".join(_function_ops(node) for _, node in self.chain)
        if "PyFunc" in functions or "EagerPyFunc" in functions:
            found.append(("python-function", "map", ("native-op", "processes", "more-workers")))
        if any(name == "Map" for name in names):
            found.append(("single-worker", "map", ("more-workers",)))
        if not self.overlaps:
            found.append(("no-prefetch", "prefetch", ("prefetch",)))
        return found

    def variants(self):
        tf = sys.modules["tensorflow"]
        auto = tf.data.AUTOTUNE
        found = []
        if any(name == "Map" for name, _ in self.chain):
            found.append(
                Variant(
                    "more-workers", "Run map on all cores", "dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE)",
                    lambda: TensorFlow(_parallel(self.loader).prefetch(auto)), workers=cores(), overlaps=True,
                )
            )
        if not self.overlaps:
            found.append(
                Variant("prefetch", "Prepare batches ahead", "dataset.prefetch(tf.data.AUTOTUNE)", lambda: TensorFlow(self.loader.prefetch(auto)), overlaps=True)
            )
        return found


def _chain(dataset, most=64):
    """Returns [(operation, dataset)] from the last operation to the source."""
    found = []
    while dataset is not None and len(found) < most:
        name = type(dataset).__name__.lstrip("_").replace("Dataset", "").replace("V2", "").replace("V1", "").replace("Adapter", "")
        if name and name != "Options":
            found.append((name, dataset))
        inputs = dataset._inputs() if hasattr(dataset, "_inputs") else []
        dataset = inputs[0] if inputs else None
    return found


def _function_ops(dataset):
    """Returns the kinds of operations inside the function of a dataset, as one text."""
    wrapped = getattr(dataset, "_map_func", None)
    try:
        graph = wrapped.function.graph
        return " ".join(op.type for op in graph.get_operations())
    except AttributeError:
        return ""


def _parallel(dataset):
    """The same chain with every map on all cores. Operations that cannot be rebuilt keep their inputs as they are."""
    tf = sys.modules["tensorflow"]
    inputs = dataset._inputs() if hasattr(dataset, "_inputs") else []
    if not inputs:
        return dataset
    name = type(dataset).__name__.lstrip("_")
    below = _parallel(inputs[0])
    if name.startswith("MapDataset"):
        return below.map(dataset._map_func._func, num_parallel_calls=tf.data.AUTOTUNE)
    if below is inputs[0]:
        return dataset
    try:
        if name.startswith("Batch"):
            return below.batch(dataset._batch_size, drop_remainder=bool(tf.get_static_value(dataset._drop_remainder)))
        if name.startswith("ParallelBatch"):
            return below.batch(dataset._batch_size, num_parallel_calls=tf.data.AUTOTUNE)
        if name.startswith("Prefetch"):
            return below.prefetch(dataset._buffer_size)
        if name.startswith("Shuffle"):
            return below.shuffle(dataset._buffer_size)
        if name.startswith("Repeat"):
            return below.repeat(dataset._count)
        if name.startswith("Cache"):
            return below.cache()
        if name.startswith("Take"):
            return below.take(dataset._count)
        if name.startswith("ParallelMap"):
            return below.map(dataset._map_func._func, num_parallel_calls=tf.data.AUTOTUNE)
    except AttributeError:
        pass
    return dataset


# ---- Keras ----


class Keras(Loader):
    kind = "keras"

    def __init__(self, loader, threads=0):
        super().__init__(loader)
        self.once = False
        self.threads = threads
        self.workers, self.overlaps = threads, threads > 0
        self.ready = getattr(loader, "max_queue_size", 0) if threads else 0

    def passes(self):
        n = len(self.loader)
        if not self.threads:
            return (self.loader[i] for i in range(n))
        return self._threaded(n)

    def _threaded(self, n):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.threads) as pool:
            waiting = []
            for i in range(n):
                waiting.append(pool.submit(self.loader.__getitem__, i))
                if len(waiting) > 2 * self.threads:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()

    def settings(self):
        return {**super().settings(), "workers": getattr(self.loader, "workers", 1), "use_multiprocessing": getattr(self.loader, "use_multiprocessing", False)}

    def in_process(self):
        return Keras(self.loader)

    def sweeps(self):
        return [("workers", [(n, lambda n=n: Keras(self.loader, n)) for n in sorted({0, 1, cores()})])]

    def variants(self):
        n = cores()
        return [
            Variant(
                "more-workers", f"Use {n} worker threads", f"PyDataset(workers={n}, max_queue_size={2 * n})", lambda: Keras(self.loader, n), workers=n,
                overlaps=True,
            )
        ]


# ---- Penstock ----


class Penstock(Loader):
    kind, overlaps, threads = "penstock", True, True  # Python functions run in threads of the engine

    def __init__(self, loader):
        super().__init__(loader)
        self.once = False
        self.dataset = getattr(loader, "dataset", loader)
        from .._dataset import _functions

        self.python = any(True for _ in _functions(getattr(self.dataset, "_nodes", ()))) or bool(getattr(self.dataset, "_batch_maps", ()))

    def settings(self):
        stats = self.dataset.stats()
        self.workers, self.ready = stats.get("workers", 0), stats.get("prefetch", 0)
        return super().settings()

    def in_process(self):
        return self if self.python else None

    def stages(self):
        return [stage for stage in self.dataset.stats()["stages"] if stage["calls"]]

    def close(self):
        self.dataset.close()

    def variants(self):
        return []

    def sweeps(self):
        from .._dataset import Dataset

        if not isinstance(self.dataset, Dataset):
            return []
        with_options = self.dataset.with_options
        return [
            ("workers", [(n, lambda n=n: Penstock(with_options(workers=n))) for n in sorted({1, 2, cores()})]),
            ("prefetch", [(n, lambda n=n: Penstock(with_options(prefetch=n))) for n in (1, 2, 4)]),
        ]


def adapt(loader):
    """Returns the Loader for an iterable."""
    if isinstance(loader, Loader):
        return loader
    data = sys.modules.get("torch.utils.data")
    if data is not None and isinstance(loader, data.DataLoader):
        return Torch(loader)
    tf = sys.modules.get("tensorflow")
    if tf is not None and hasattr(tf, "data") and isinstance(loader, tf.data.Dataset):
        return TensorFlow(loader)
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(loader, getattr(keras.utils, "PyDataset", ())):
        return Penstock(loader) if type(loader).__module__ == "penstock.keras" else Keras(loader)
    from .._dataset import Dataset

    if isinstance(loader, Dataset) or (type(loader).__module__ or "").startswith("penstock."):
        return Penstock(loader)
    if not hasattr(loader, "__iter__") and hasattr(loader, "__getitem__") and hasattr(loader, "__len__"):
        return Keras(loader)
    if not hasattr(loader, "__iter__"):
        raise TypeError(f"{type(loader).__qualname__} is not an iterable of batches; pass a DataLoader, a Dataset, or a function's generator")
    if type(loader).__module__.startswith("grain"):
        found = Loader(loader)
        found.kind = "grain"
        return found
    return Loader(loader)
