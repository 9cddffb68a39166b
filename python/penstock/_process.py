"""Functions in other processes. Arrays go through memory that both sides map; only their shapes, and small values, are sent.

A process is forked for each thread that may call, so that a function need not be importable. It ends with the pool, or with us:
what it waits at is shut, and a process that is in a function then is killed.
"""

import mmap
import multiprocessing
import multiprocessing.util
import os
import pickle
import queue
import socket
import threading
import time
import traceback

from ._core import Tensor
from ._functions import numpy

CLOSE_SECONDS = 2.0  # until a process that does not end by itself is killed
PARENT_SECONDS = 5.0  # between two looks whether we are still there
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
    if not view.c_contiguous or (view.nbytes <= INLINE and numpy is not None):
        return None
    return view


class _Memory:
    """A file that has no name, mapped by both sides, grown by whoever needs more."""

    def __init__(self):
        self.file = os.memfd_create("penstock", os.MFD_CLOEXEC)
        os.ftruncate(self.file, START)
        self.map = mmap.mmap(self.file, START)

    def __del__(self):
        os.close(self.file)

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

    def take(self, parts):
        """As get, with arrays that are copies: the memory is used again, by the results at first, and then by the next call."""
        return [_copy(value) if at is not None else value for value, (at, _, _, _) in zip(self.get(parts), parts)]

    def _array(self, at, form, shape, size):
        view = memoryview(self.map)[at : at + size]
        return view.cast(form, shape) if numpy is None else numpy.ndarray(shape, form, view)


def _plain(tensor):
    return tensor.tolist() if numpy is None else numpy.array(tensor)


def _copy(array):
    return memoryview(bytearray(array)).cast(array.format, array.shape) if numpy is None else array.copy()


def _serve(pipe, memory, call, parent, others):
    """The other process: one call after the other, until the pipe is shut, or the parent is gone: processes that were forked
    later may hold its end of the pipe."""
    import signal

    for other in others:  # ends of pipes that are the parent's
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has it, and shuts the pipe
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # threads of the engine block signals
    while True:
        try:
            while not pipe.poll(PARENT_SECONDS):
                if os.getppid() != parent:
                    os._exit(0)
            parts = pipe.recv()
        except (EOFError, ConnectionResetError):
            os._exit(0)
        try:
            result = call(*memory.take(parts))
            pipe.send(("done", list(result), memory.put(list(result.values()))))
        except BaseException as error:
            text = traceback.format_exc()
            try:  # one whose constructor wants other arguments pickles, and fails when it is read
                pickle.loads(pickle.dumps(error))
            except Exception:
                error = RuntimeError(f"{type(error).__name__}: {error}")
            pipe.send(("failed", error, text))


class RemoteTraceback(Exception):
    """The traceback of a function that failed in another process, as text."""

    def __str__(self):
        return "\n" + self.args[0]


def _ended(code):
    """What to tell of a process that ended in a function."""
    text = f"the process that ran the function ended by itself (exit code {code})"
    return text + ": it was killed; where memory ran out, with_options(workers=…) runs fewer at once" if code == -9 else text


class Pool:
    def __init__(self, call):
        self.call, self.idle, self.workers = call, queue.SimpleQueue(), []
        self.closed, self.owner, self.lock = False, os.getpid(), threading.Lock()
        for _ in range(len(os.sched_getaffinity(0))):
            self.idle.put(self._start())

    def _start(self):
        context, memory = multiprocessing.get_context("fork"), _Memory()
        ours, theirs = context.Pipe()
        others = [pipe for _, pipe in self.workers] + [ours]
        process = context.Process(target=_serve, args=(theirs, memory, self.call, os.getpid(), others), daemon=True)
        process.start()
        theirs.close()
        self.workers.append((process, ours))
        return process, ours, memory

    def _instead(self, worker):
        """Another process for one that ended; the same where none can be had, so that a later call tries again."""
        process, pipe, _ = worker
        with self.lock:
            if self.closed or multiprocessing.util.is_exiting():  # at exit, multiprocessing ends them itself
                return worker
            try:
                other = self._start()
            except OSError:
                return worker
            if (process, pipe) in self.workers:
                self.workers.remove((process, pipe))
            pipe.close()
            return other

    def __call__(self, *values):
        process, pipe, memory = worker = self.idle.get()
        try:
            pipe.send(memory.put(values))
            status, what, rest = pipe.recv()
            result = None if status == "failed" else dict(zip(what, memory.take(rest)))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            if self.closed:
                raise RuntimeError("the processes were ended") from None
            process.join(1)
            worker = self._instead(worker)
            raise RuntimeError(_ended(process.exitcode)) from None
        finally:
            self.idle.put(worker)
        if result is None:  # the function may raise anything, also what the end of a process looks like
            what.__cause__ = RemoteTraceback(rest)
            raise what
        return result

    def close(self, seconds=CLOSE_SECONDS):
        """Ends the processes; those that are in a function are killed after so many seconds. Calls that wait come back."""
        if self.owner != os.getpid():  # in a fork they are not ours
            return
        with self.lock:
            workers, self.workers, self.closed = self.workers, [], True
        for _, pipe in workers:  # closing would not wake a thread that reads, and the number might be used again
            with socket.socket(fileno=os.dup(pipe.fileno())) as end:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:  # the process is gone
                    pass
        until = time.monotonic() + seconds
        for process, _ in workers:
            process.join(max(0, until - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()

    def __del__(self):
        if hasattr(self, "owner"):
            self.close()
