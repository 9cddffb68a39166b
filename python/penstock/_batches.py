"""Functions for batches: they run after the engine, on several batches at a time; results are in order.

They run on their own threads. Closing and the interpreter's exit wait a few seconds for a running function; with threads of
concurrent.futures, the exit would wait forever.
"""

import atexit
import os
import queue
import threading
import time
import warnings
import weakref
import zlib
from collections import deque
from concurrent.futures import CancelledError, Future, InvalidStateError

from ._core import Error, Skip
from ._dataset import _inside
from ._functions import Call, given, name_of, spec_of
from ._unpack import unpacked

CLOSE_SECONDS = 5.0  # as in python/src/shutdown.h
AFTER_STOP = 1.0  # additional seconds after processes were stopped

_stages = weakref.WeakSet()
_exiting = False


def is_bytes(value):
    """Whether a field of a batch holds bytes, as a Tensor, an array of objects or a list."""
    kind = getattr(value, "dtype", None)
    return kind in ("bytes", "object") if kind is not None else isinstance(value, list) and isinstance(value[:1] and value[0], bytes)


class MappedBatch(dict):
    """A batch that a function returned: like penstock.Batch, by name or unpacked in order."""

    def __iter__(self):
        return iter([self[name] for name in unpacked({name: is_bytes(value) for name, value in self.items()})])

    def __getitem__(self, key):
        return list(self.values())[key] if hasattr(key, "__index__") else super().__getitem__(key)

    @property
    def size(self):
        return len(next(iter(self.values())))


# ---- Threads ----


def _work(tasks):
    while True:
        task = tasks.get()
        if task is None:
            return
        future, function, arguments = task
        if future.set_running_or_notify_cancel():
            try:
                _settle(future.set_result, function(*arguments))
            except BaseException as error:
                _settle(future.set_exception, error)
        del task, future, function, arguments  # keeps no references while it waits


def _settle(set_outcome, outcome):
    try:
        set_outcome(outcome)
    except InvalidStateError:  # it was closed meanwhile
        pass


class _Threads:
    """Threads that reference only the queue, so that they end with this object, even after Ctrl-C during their start."""

    def __init__(self, count):
        self.tasks = queue.SimpleQueue()
        self.threads = [
            threading.Thread(target=_work, args=(self.tasks,), name=f"penstock-map-{i}", daemon=True) for i in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def __del__(self):
        self.dismiss()

    def submit(self, function, *arguments):
        future = Future()
        self.tasks.put((future, function, arguments))
        return future

    def alive(self):
        return any(thread.is_alive() for thread in self.threads)

    def dismiss(self):
        """Tells the threads to end after their current call."""
        for _ in getattr(self, "threads", ()):
            self.tasks.put(None)

    def wait(self, until):
        others = [thread for thread in self.threads if thread is not threading.current_thread()]
        for thread in others:
            thread.join(max(0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in others)


# ---- Places ----


def _where(places):
    """Describes the places of elements: a range if they are consecutive, otherwise the first ones."""
    paths, records = [path for path, _, _ in places], [record for _, record, _ in places]
    first = records[0]
    if len(places) > 1 and first is not None and len(set(paths)) == 1 and records == list(range(first, first + len(places))):
        return f"{paths[0] + ' ' if paths[0] else ''}records {first} to {records[-1]}"
    words = [
        " ".join(filter(None, (path, None if record is None else f"record {record}"))) for path, record in zip(paths, records)
    ]
    return ", ".join(words[:3]) + (f" and {len(words) - 3} more" if len(words) > 3 else "")


def _seed(cursor, rank):
    """64 bits for a batch: the same for the same seed, epoch and number; a cursor counts the batches of all ranks."""
    _, seed, epoch, first, _ = cursor
    text = repr((seed, epoch, first + rank)).encode()
    return zlib.crc32(text) << 32 | zlib.crc32(text[::-1])


# ---- A single batch ----


def apply(dataset, pipeline, batch, epoch, k):
    """Applies the functions to batch `k` of an epoch, on this thread. None: one of them left the batch out."""
    world, rank = int(dataset._options.get("world") or 1), int(dataset._options.get("rank") or 0)
    seed = _seed((0, int(dataset._options.get("seed") or 0), epoch, k * world, None), rank)
    fields = dict(batch.items())
    for function, _ in dataset._batch_maps:
        call = Call(function, list(fields))
        outer, _inside.function = _inside.function, function
        try:
            result = call(*(fields[name] for name in call.fields), *([seed] if call.seeded else []))
        except Skip:
            return None
        except Exception as cause:
            raise _error(pipeline, batch, f"batch {k} of epoch {epoch}", name_of(function), cause, k) from cause
        finally:
            _inside.function = outer
        fields = result if call.whole else {**fields, **result}
    return MappedBatch((name, given(value)) for name, value in fields.items())


def _error(pipeline, batch, which, function, cause, number):
    try:
        places = pipeline.locate(batch)
    except Error:  # closed meanwhile
        places = None
    where = f" ({_where(places)})" if places else ""
    error = Error(f"map: {which}{where}: {function}: {type(cause).__name__}: {cause}")
    error.status, error.op, error.batch, error.places = "PST_EINVAL", "map", number, places
    if places:
        error.path, error.record, error.offset = places[0]
    return error


# ---- The stage ----


class Loop:
    """The only reference of a loop to its stage: deleting it ends the epoch, also while functions are running."""

    def __init__(self, stage):
        self.stage = stage

    def __iter__(self):
        return self

    def __next__(self):
        return self.stage.next()

    def __del__(self):
        if hasattr(self, "stage"):
            self.stage.leave()


class BatchStage:
    """Batches after the functions: some batches ahead, in order, on threads."""

    def __init__(self, dataset, pipeline, batches):
        self.dataset, self.pipeline, self.batches = dataset, pipeline, batches
        self.calls = None  # bound to fields by the first batch
        self.spent = {i: [0.0, 0] for i in range(len(dataset._batch_maps))}  # functions need not be hashable
        self.inside = {}  # thread: the function that it runs
        self.pools, self.waiting, self.number = [], deque(), 0
        self.closed = self.ended = False
        self.turn, self.process = threading.Lock(), os.getpid()
        self.cursor, self.rank = pipeline.tell(), int(dataset._options.get("rank") or 0)
        count = dataset._options.get("workers") or len(os.sched_getaffinity(0))
        self.ahead, self.threads = count + 1, _Threads(count)
        _stages.add(self)

    def _bind(self, fields, seed):
        """Binds the functions, one after the other: the result of one is what the next one gets."""
        calls = []
        for i, (function, workers) in enumerate(self.dataset._batch_maps):
            self.inside[threading.get_ident()] = name_of(function)
            call = Call(function, list(fields))
            if workers == "process":
                from ._process import Pool

                self.pools.append(Pool(call, function))
                call = _Pooled(call, self.pools[-1])
            calls.append((i, call))
            fields = self._call(i, call, fields, seed)
        self.calls = calls
        return fields

    def _call(self, i, call, fields, seed):
        begin = time.perf_counter()
        function = self.dataset._batch_maps[i][0]
        self.inside[threading.get_ident()] = name_of(function)
        _inside.function = function
        try:
            result = call(*(fields[name] for name in call.fields), *([seed] if call.seeded else []))
        finally:
            _inside.function = None
        spent = self.spent[i]
        spent[0], spent[1] = spent[0] + time.perf_counter() - begin, spent[1] + 1
        return result if call.whole else {**fields, **result}

    def _run(self, batch, number, seed):
        fields, me = dict(batch.items()), threading.get_ident()
        try:
            if self.calls is None:
                fields = self._bind(fields, seed)
            else:
                for i, call in self.calls:
                    fields = self._call(i, call, fields, seed)
            return MappedBatch((name, given(value)) for name, value in fields.items())
        except Skip:
            return None
        except Exception as cause:
            raise _error(
                self.pipeline, batch, f"batch {number} of this iteration", self.inside.get(me), cause, number
            ) from cause
        finally:
            self.inside.pop(me, None)

    def next(self):
        if self.process != os.getpid():
            raise _failure("PST_EINVAL", "the iterator belongs to the process that this one was forked from; iterate anew")
        with self.turn:
            batch = None
            while batch is None:  # a function skipped the batch
                batch = self._next()
            return batch

    def _next(self):
        while self.batches is not None and not self.closed and len(self.waiting) < self.ahead:
            batch = next(self.batches, None)
            if batch is None:
                self.batches = None
                break
            seed, self.cursor = _seed(self.cursor, self.rank), self.pipeline.tell()
            future = self.threads.submit(self._run, batch, self.number, seed)
            self.waiting.append((future, self.cursor))
            self.number += 1
            if self.closed:  # closed by another thread meanwhile
                future.cancel()
            elif self.calls is None:
                self._wait(future)  # only the first one binds
        if self.closed and not self.ended:
            _park_at_exit()
            raise _closed()
        if not self.waiting:
            if not self.ended:
                self.ended = True
                self._dismiss()
                self._stand(None)
            raise StopIteration
        future, cursor = self.waiting[0]
        try:
            failure = self._wait(future)
        finally:
            if future.done():  # otherwise Ctrl-C interrupted the wait, and the batch is still pending
                self.waiting.popleft()
        if failure:
            _park_at_exit()
            try:
                raise failure
            finally:
                del failure, future  # its traceback has this frame: a circle would keep the loop
        self._stand(cursor)
        return future.result()

    def _stand(self, cursor):
        """Stores the position of the consumer; an iterator beside another one does not change it."""
        if self.dataset._pipeline is self.pipeline:
            self.dataset._cursor = cursor

    @staticmethod
    def _wait(future):
        """Returns the exception of the function, or None."""
        try:
            return future.exception()
        except CancelledError:
            return _closed()

    def _dismiss(self):
        self.closed = True
        self.threads.dismiss()
        for pool in self.pools:
            pool.close()

    def leave(self):
        """Ends the epoch early: waiting batches are not started, and the pipeline is free for the next epoch."""
        if self.process != os.getpid():
            return
        self.closed, self.batches = True, None
        self.threads.dismiss()
        while self.waiting:
            self.waiting.popleft()[0].cancel()

    def close(self, seconds=CLOSE_SECONDS):
        """Waits up to `seconds` for running functions; after that, their threads continue by themselves."""
        if self.process != os.getpid():
            return
        until, self.closed = time.monotonic() + seconds, True
        for future, _ in list(self.waiting):
            future.cancel()
        self.threads.dismiss()
        done = self.threads.wait(until)
        for pool in self.pools:
            pool.close(0)
        if not done and self.pools:
            done = self.threads.wait(time.monotonic() + AFTER_STOP)
        for future, _ in list(self.waiting):
            _settle(future.set_exception, _closed())
        if not done:
            names = ", ".join(sorted(set(self.inside.values()))) or "a function"
            warnings.warn(
                f"penstock: {names} has not returned {seconds:g} s after the dataset was closed; its thread, and the memory "
                "that it uses, stay until it does",
                RuntimeWarning,
                stacklevel=2,
            )

    def __del__(self):
        if getattr(self, "process", None) == os.getpid():
            for pool in self.pools:
                pool.close()


def _failure(status, text):
    error = Error(text)
    error.status = status
    return error


def _closed():
    return _failure("PST_ECANCELLED", "the dataset was closed")


class _Pooled:
    """A call that runs in a pool of processes."""

    def __init__(self, call, pool):
        self.fields, self.whole, self.seeded, self.pool = call.fields, call.whole, call.seeded, pool

    def __call__(self, *values):
        return self.pool(*values)


def spec_of_batch(dataset):
    """Infers the spec after the batch functions from the first batch; the first dimension is None."""
    from ._dataset import Dataset

    probe = Dataset(dataset._nodes, {**dataset._options, "prefetch": 1}, dataset._batch_maps)
    with probe:
        for batch in probe:
            result = {}
            for name, value in batch.items():
                dtype, shape = spec_of(name, value)
                result[name] = ((None, *shape[1:]) if shape else (), dtype)
            return result
    raise ValueError("the dataset is empty, so the result of the function cannot be inferred")


def _park_at_exit():
    """Stops a daemon thread at exit, as Python itself does; an exception in it would only be printed."""
    while _exiting and threading.current_thread().daemon:
        time.sleep(60)


@atexit.register
def _close_all():
    """Closes all stages at exit: a function that is stopped inside a library could crash the process."""
    global _exiting
    _exiting = True
    until = time.monotonic() + CLOSE_SECONDS
    for stage in list(_stages):
        if stage.process == os.getpid() and stage.threads.alive():  # also of loops that were left early
            stage.pipeline.cancel()
            stage.close(max(0, until - time.monotonic()))
