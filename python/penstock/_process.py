"""Functions in other processes. Arrays go through memory that both sides map; only their shapes, and small values, are sent.

A process is forked for each thread that may call, so that a function need not be importable. It ends with the pool, or with us.
"""

import mmap
import multiprocessing
import os
import pickle
import queue
import threading
import traceback

from ._core import Tensor

START = 1 << 20  # bytes of shared memory of a process at first; it grows by the largest call
INLINE = 4096  # values up to so many bytes are sent as they are


def _view(value):
    """The bytes of an array, its type and shape; None: send it as it is."""
    if isinstance(value, (bytes, bytearray, str, int, float, list, tuple)):
        return None
    try:
        view = memoryview(value)
    except (TypeError, BufferError):
        return None
    if view.nbytes <= INLINE or not view.c_contiguous:
        return None
    return view


class _Memory:
    """A file that has no name, mapped by both sides, grown by whoever needs more."""

    def __init__(self):
        self.file = os.memfd_create("penstock", os.MFD_CLOEXEC)
        os.ftruncate(self.file, START)
        self.map = mmap.mmap(self.file, START)

    def reserve(self, size):
        if size > len(self.map):
            if os.fstat(self.file).st_size < size:
                os.ftruncate(self.file, size)
            self.map = mmap.mmap(self.file, size)  # the old map goes with its last view

    def put(self, values):
        """Copies arrays in; returns what to send."""
        parts, at = [], 0
        views = [_view(value) for value in values]
        self.reserve(sum(-(-view.nbytes // 64) * 64 for view in views if view is not None))
        for value, view in zip(values, views):
            if view is None:
                parts.append((None, value if not isinstance(value, Tensor) else _plain(value), None, None))
                continue
            self.map[at : at + view.nbytes] = view.cast("B") if view.ndim else view
            parts.append((at, view.format, view.shape, view.nbytes))
            at += -(-view.nbytes // 64) * 64
        return parts

    def get(self, parts):
        """Arrays as views of the memory, everything else as it came."""
        self.reserve(max([at + size for at, _, _, size in parts if at is not None], default=0))
        return [value if at is None else self._array(at, value, shape, size) for at, value, shape, size in parts]

    def _array(self, at, form, shape, size):
        import numpy

        return numpy.ndarray(shape, form, memoryview(self.map)[at : at + size])


def _plain(tensor):
    import numpy

    return numpy.array(tensor)


def _serve(pipe, memory, call):
    """The other process: one call after the other, until the pipe is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has it, and closes the pipe
    while True:
        try:
            parts = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            result = call(*memory.get(parts))
            pipe.send(("done", list(result), memory.put(list(result.values()))))
        except BaseException as error:
            text = traceback.format_exc()
            try:
                pickle.dumps(error)
            except Exception:
                error = RuntimeError(f"{type(error).__name__}: {error}")
            pipe.send(("failed", error, text))


class RemoteTraceback(Exception):
    """The traceback of a function that failed in another process, as text."""

    def __str__(self):
        return "\n" + self.args[0]


class Pool:
    def __init__(self, call):
        context = multiprocessing.get_context("fork")
        self.idle, self.workers, self.lock = queue.SimpleQueue(), [], threading.Lock()
        for _ in range(len(os.sched_getaffinity(0))):
            ours, theirs = context.Pipe()
            memory = _Memory()
            others = [pipe for _, pipe, _ in self.workers] + [ours]
            process = context.Process(target=_child, args=(others, theirs, memory, call), daemon=True)
            process.start()
            theirs.close()
            self.workers.append((process, ours, memory))
            self.idle.put(self.workers[-1])

    def __call__(self, *values):
        process, pipe, memory = worker = self.idle.get()
        try:
            pipe.send(memory.put(values))
            status, what, rest = pipe.recv()
            if status == "failed":
                what.__cause__ = RemoteTraceback(rest)
                raise what
            copies = [
                value.copy() if at is not None else value for value, (at, _, _, _) in zip(memory.get(rest), rest)
            ]  # the memory is used again
            return dict(zip(what, copies))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            process.join(1)
            raise RuntimeError(f"a process that runs the function ended by itself (exit code {process.exitcode})") from None
        finally:
            self.idle.put(worker)

    def close(self):
        workers, self.workers = self.workers, []
        for _, pipe, _ in workers:
            pipe.close()
        for process, _, _ in workers:
            process.join(2)
            if process.is_alive():
                process.kill()

    def __del__(self):
        self.close()


def _child(others, pipe, memory, call):
    for other in others:  # ends of pipes that are the parent's alone: an open copy would hide its end
        other.close()
    _serve(pipe, memory, call)
