"""Functions in other processes. Arrays are passed in shared memory; only their shapes and small values are sent. A message carries
many calls where the engine has many elements at hand: waking a process takes longer than a small function.

One process is forked per calling thread, so that a function does not have to be importable. It ends with the pool or with the parent:
its socket is shut down, and a process that is still running a function is killed. multiprocessing is not used, because it would end
the processes at the exit of any process that was forked from this one.
"""

import marshal
import mmap
import os
import pickle
import queue
import signal
import socket
import struct
import sys
import threading
import time
import traceback

from ._core import Tensor
from ._dataset import _inside
from ._functions import FORMATS, Failed, numpy, value_of

CLOSE_SECONDS = 2.0  # before a process that does not end is killed
PARENT_SECONDS = 5  # between two checks of each side whether the other is still running
START = 1 << 20  # initial bytes of shared memory per process; it grows with the largest call
MESSAGE = 32 << 10  # bytes of a message; a longer one goes through the shared memory

PLAIN = frozenset((int, float, bool, str, bytes, type(None)))  # only these types: marshal would convert others to bytes
_forking = threading.Lock()  # so that no process inherits the socket of another one


def _view(value):
    """Returns the bytes of an array, its type and shape; None: send the value itself."""
    if type(value) in PLAIN or isinstance(value, (bytes, bytearray, str, int, float, list, tuple)):
        return None
    try:
        view = memoryview(value)
    except (TypeError, BufferError):
        return None
    return view if view.c_contiguous and view.nbytes and view.format in FORMATS else None


class _Memory:
    """An unnamed file, mapped by both sides; either side can grow it."""

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
            self.map = mmap.mmap(self.file, size)  # the old map is freed with its last view

    def put(self, values):
        """Copies arrays in; returns (what to send, whether it is plain, where the memory is free)."""
        parts, at, plain = [], 0, True
        views = [_view(value) for value in values]
        self.reserve(sum(-(-view.nbytes // 64) * 64 for view in views if view is not None))
        for value, view in zip(values, views):
            if view is None:
                value = _plain(value) if isinstance(value, Tensor) else value
                plain = plain and type(value) in PLAIN
                parts.append((None, value, None, None))
                continue
            self.map[at : at + view.nbytes] = view.cast("B") if view.ndim else view
            parts.append((at, view.format, view.shape, view.nbytes))
            at += -(-view.nbytes // 64) * 64
        return parts, plain, at

    def take(self, parts):
        """Arrays as copies, as the memory is used again: by the results, and then by the next call; everything else as it
        came."""
        self.reserve(max([at + size for at, _, _, size in parts if at is not None], default=0))
        return [value if at is None else self._array(at, value, shape, size) for at, value, shape, size in parts]

    def _array(self, at, form, shape, size):
        view = memoryview(self.map)[at : at + size]
        if numpy is None:
            return memoryview(bytearray(view)).cast(form, shape)
        return numpy.ndarray(shape, form, view).copy()


def _plain(tensor):
    return tensor.tolist() if numpy is None else numpy.array(tensor)


class _Channel:
    """Messages with arrays, to and from the other side."""

    def __init__(self, end, memory):
        self.end, self.memory = end, memory
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", PARENT_SECONDS, 0))

    def __del__(self):
        self.end.close()

    def send(self, head, values):
        """`head` is of plain types and says what the values are."""
        parts, plain, at = self.memory.put(values)
        message = (head, parts)
        text = b"m" + marshal.dumps(message) if plain else b"p" + pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        if len(text) > MESSAGE:
            self.memory.reserve(at + len(text))
            self.memory.map[at : at + len(text)] = text
            text = b"l" + struct.pack("QQ", at, len(text))
        self.end.send(text)

    def receive(self, alive):
        """(head, values); EOFError where the other side is gone."""
        while True:
            try:
                text = self.end.recv(MESSAGE)
                break
            except BlockingIOError:  # some seconds passed
                if not alive():
                    raise EOFError from None
        if not text:
            raise EOFError
        if text[:1] == b"l":
            at, size = struct.unpack("QQ", text[1:])
            self.memory.reserve(at + size)
            text = self.memory.map[at : at + size]
        head, parts = (marshal if text[:1] == b"m" else pickle).loads(text[1:])
        return head, self.memory.take(parts)


def _serve(channel, call, function, parent):
    """The other process: one message after the other, until the socket is shut, or the parent is gone: processes that were forked
    later may hold its end of the socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent has it, and shuts the socket
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # threads of the engine block signals
    sys.stdin = open(os.devnull)
    _inside.served.append(function)
    while True:
        try:
            (count, each), values = channel.receive(lambda: os.getppid() == parent)
        except (EOFError, OSError):
            return
        heads, results = [], []
        for i in range(count):
            _call(call, values[i * each : (i + 1) * each], heads, results)
        try:
            channel.send(tuple(heads), results)
        except OSError:  # the parent is gone
            return
        except Exception:  # a value cannot be pickled
            channel.send(*_sendable(heads, results))


def _count(head):
    """The values of a call in a message."""
    return 2 if head is None else head if isinstance(head, int) else len(head)


def _sendable(heads, results):
    """The same with an exception in place of each call whose result cannot be pickled."""
    sent, values, at = [], [], 0
    for head in heads:
        part, at = results[at : at + _count(head)], at + _count(head)
        try:
            pickle.dumps([value for value in part if _view(value) is None and not isinstance(value, Tensor)])
        except Exception as error:
            head, part = None, [TypeError(f"what the function returned cannot be sent from its process: {error}"), traceback.format_exc()]
        sent.append(head)
        values += part
    return tuple(sent), values


def _call(call, values, heads, results):
    """Adds what a call returns: a dict (its head: the names), a tuple (the number of values), or an exception (None)."""
    try:
        result = call(*values)
        named = isinstance(result, dict)
        heads.append(tuple(result) if named else len(result))
        results.extend(result.values() if named else result)
    except BaseException as error:
        text = traceback.format_exc()
        try:  # one whose constructor wants other arguments pickles, and fails when it is read
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError(f"{type(error).__name__}: {error}")
        heads.append(None)
        results += [error, text]


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, ValueError, OSError):  # there is none, or it is closed
            pass


class _Process:
    """A process that serves calls; `exitcode` is None while it runs, and negative for a signal, as in subprocess."""

    def __init__(self, call, function, others):
        memory, parent, self.exitcode = _Memory(), os.getpid(), None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _flush()  # or both would write what is buffered
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ours.close()
                for other in others:
                    other.channel.end.close()
                _serve(_Channel(theirs, memory), call, function, parent)
            finally:
                _flush()
                os._exit(0)
        theirs.close()
        self.channel = _Channel(ours, memory)

    def alive(self):
        if self.exitcode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # the program waits for all children itself, or ignores SIGCHLD
                pid, status = self.pid, 0
                try:
                    os.kill(self.pid, 0)
                    return True
                except OSError:
                    pass
            if pid:
                self.exitcode = os.waitstatus_to_exitcode(status)
        return self.exitcode is None

    def join(self, seconds):
        until, pause = time.monotonic() + seconds, 0.0005
        while self.alive() and time.monotonic() < until:
            time.sleep(pause)
            pause = min(2 * pause, 0.02)

    def shut(self):
        """Wakes both sides; closing would not wake a thread that reads, and the number might be used again."""
        try:
            self.channel.end.shutdown(socket.SHUT_RDWR)
        except OSError:  # the process is gone
            pass

    def kill(self):
        if self.alive():
            os.kill(self.pid, signal.SIGKILL)
            self.join(CLOSE_SECONDS)


class RemoteTraceback(Exception):
    """The traceback of a function that failed in another process, as text."""

    def __str__(self):
        return "\n" + self.args[0]


def _ended(code):
    """Returns the message for a process that ended during a call."""
    text = f"the process that ran the function ended unexpectedly (exit code {code})"
    return text + ": it was killed; if memory ran out, use fewer processes: with_options(workers=…)" if code == -9 else text


class _Ended(Exception):
    """A process ended during a call."""


def _result(head, values):
    if head is None:  # the function may raise anything, also what the end of a process looks like
        error, text = values
        error.__cause__ = RemoteTraceback(text)
        return Failed(error)
    return tuple(values) if isinstance(head, int) else dict(zip(head, values))


class Pool:
    """Processes that run `call`, which calls `function`."""

    def __init__(self, call, function):
        self.call, self.function, self.idle, self.workers = call, function, queue.SimpleQueue(), []
        self.closed, self.owner, self.lock = False, os.getpid(), threading.Lock()
        for _ in range(len(os.sched_getaffinity(0))):
            self.idle.put(self._start())

    def _start(self):
        with _forking:
            process = _Process(self.call, self.function, self.workers)
        self.workers.append(process)
        return process

    def _instead(self, process):
        """Replaces a process that ended; if that fails, returns the old one, so that a later call tries again."""
        with self.lock:
            if self.closed:
                return process
            try:
                other = self._start()
            except OSError:
                return process
            if process in self.workers:
                self.workers.remove(process)
            process.channel.end.close()
            return other

    def __call__(self, *values):
        return value_of(self.call_all([values])[0])

    def call_all(self, calls):
        """The results of several calls with as many values each: in one process, in their order; Failed in place of those that
        failed."""
        try:
            heads, values = self._exchange(calls)
        except _Ended as ended:
            if len(calls) == 1 or self.closed:
                return [Failed(RuntimeError(str(ended)))] * len(calls)
            return [self.call_all([call])[0] for call in calls]  # only one of them ended the process
        results, at = [], 0
        for head in heads:
            results.append(_result(head, values[at : at + _count(head)]))
            at += _count(head)
        return results

    def _exchange(self, calls):
        process = self.idle.get()
        try:
            process.channel.send((len(calls), len(calls[0])), [value for values in calls for value in values])
            return process.channel.receive(process.alive)
        except (EOFError, OSError):
            if self.closed:
                raise _Ended("the processes were stopped") from None
            process.join(1)
            code = process.exitcode
            process = self._instead(process)
            raise _Ended(_ended(code)) from None
        except KeyboardInterrupt:  # the reply is still to come: it must not be taken for that of the next call
            process.kill()
            process = self._instead(process)
            raise
        finally:
            self.idle.put(process)

    def close(self, seconds=CLOSE_SECONDS):
        """Stops the processes; those that run a function are killed after `seconds`. Waiting calls return."""
        if self.owner != os.getpid():  # in a fork, they belong to the parent
            return
        with self.lock:
            workers, self.workers, self.closed = self.workers, [], True
        for process in workers:
            process.shut()
        until = time.monotonic() + seconds
        for process in workers:
            process.join(max(0, until - time.monotonic()))
            process.kill()

    def __del__(self):
        if hasattr(self, "owner"):
            self.close()
