"""The same again and again: forks, spawned processes, threads, exits in mid-iteration, exceptions in functions, Ctrl-C. Nothing may
hang, crash or leak: after many repetitions there are as many threads, descriptors and child processes as before, and hardly more
memory is allocated, in C and in Python.

PENSTOCK_REPEAT=1000, or `--repeat 1000`, says how many; by default a few, as a part of the tests."""

import array
import atexit
import ctypes
import gc
import multiprocessing.resource_tracker
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

import penstock as ps
import tap
from data import raises
from patience import resident

REPEAT = int(os.environ.get("PENSTOCK_REPEAT", 30))
WARM = 20  # repetitions before it is measured: memory pools fill, modules are imported
ALLOCATED = 512 << 10  # bytes that may be more at the end: caches of Python itself
BLOCKS = 3000  # objects of Python, likewise
RESIDENT = 12 << 20  # bytes; what the system's allocator keeps of what was freed, in an arena a thread, varies by this
LIMIT = 240  # seconds: a child that takes as long hangs


def children():
    """Processes that are ours, ended or not."""
    ours = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if int(stat.read().rsplit(")", 1)[1].split()[1]) == os.getpid():
                    ours.append(pid)
        except OSError:
            pass
    return len(ours)


class Mallinfo(ctypes.Structure):
    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(7)] + [("used", ctypes.c_size_t)]
    _fields_ += [("free", ctypes.c_size_t), ("keep", ctypes.c_size_t)]


def allocated():
    """Bytes that malloc has handed out; 0 where it does not tell."""
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if not mallinfo:
        return 0
    mallinfo.restype = Mallinfo
    return mallinfo().used


def state():
    gc.collect()
    memory = resident(), allocated(), sys.getallocatedblocks()
    return memory, len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), children()


def settle(limits):
    """Threads that were left to themselves end soon, and what they had is given back: the least memory of a few moments."""
    for _ in range(LIMIT * 20):
        memory, *counts = state()
        if all(now <= limit for now, limit in zip(counts, limits)):
            break
        time.sleep(0.05)
    for _ in range(5):
        time.sleep(0.02)
        memory = tuple(map(min, memory, state()[0]))
    return memory, *counts


def sanitizer_thread(threads):
    """1 where a sanitizer brings a thread of its own with the first one of ours."""
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    return state()[1] - threads if "libtsan" in os.environ.get("LD_PRELOAD", "") else 0


def who():
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as comm:
            names.append(comm.read().strip())
    return names, threading.enumerate()


def repeat(name, once, prepare=lambda: None):
    """Calls once(i) again and again, and compares what the process has before and after."""
    prepare()
    _, threads, _, processes = state()
    threads += sanitizer_thread(threads)
    for i in range(WARM):
        once(i)
    memory, *before = settle((threads, sys.maxsize, processes))
    begin = time.monotonic()
    for i in range(REPEAT):
        once(i)
    seconds = time.monotonic() - begin
    memory_after, *after = settle(before)
    counts = ", ".join(f"{what} {a} and {b}" for what, a, b in zip(("threads", "descriptors", "processes"), before, after))
    print(
        f"# {name}: {REPEAT} repetitions in {seconds:.1f} s; before and after: resident {memory[0] / 2**20:.1f} and "
        f"{memory_after[0] / 2**20:.1f} MiB, allocated {memory[1] >> 10} and {memory_after[1] >> 10} KiB, Python blocks {memory[2]} and "
        f"{memory_after[2]}, {counts}",
        flush=True,
    )
    growth = [after - before for before, after in zip(memory, memory_after)]
    assert all(more < limit for more, limit in zip(growth, (RESIDENT, ALLOCATED, BLOCKS))), f"{name}: {growth} more"
    assert all(now <= limit for now, limit in zip(after, before)) and after[0] <= threads, f"{name}: {counts}: {who()}"


def keep(value):
    return value


def count():
    yield from ({"value": i} for i in range(500))


CHAINS = (
    lambda: ps.range(500).shuffle(seed=3).batch(10),
    lambda: ps.range(500).map(keep).batch(10),
    lambda: ps.from_generator(count, spec={"value": "int64"}).map(keep, spec={"value": "int64"}).batch(10),
    lambda: ps.from_arrays({"value": array.array("q", range(500))}).repeat(3).batch(10).prefetch(4),
)
BATCHES = (lambda: ps.range(500).batch(10).map(keep),)


# ---- Forks ----


def waited(pid):
    """The exit code of a fork; one that hangs is killed."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def in_fork(ds, batches, held, values):
    assert held["value"].tolist() == values  # the parent's memory
    with raises(ps.Error, "forked from"):
        next(batches)
    fresh = iter(ds)  # workers of its own
    assert next(fresh)["value"].tolist() == values
    del fresh, batches, ds
    gc.collect()
    atexit._run_exitfuncs()


def test_fork():
    """In mid-iteration, while workers are at work; the parent goes on."""

    def once(i):
        ds = (CHAINS + BATCHES)[i % 5]()
        batches = iter(ds)
        held = next(batches)
        values = held["value"].tolist()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                in_fork(ds, batches, held, values)
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        following = next(batches)["value"].tolist()
        assert len(following) == 10 and following != values
        if i % 3 == 0:
            ds.close()
        assert waited(pid) == 0

    repeat("fork", once)


# ---- Spawned processes ----


def in_spawned(ds, position, pipe):
    ds.load_state_dict(position)
    pipe.send([batch["value"].tolist() for batch in ds][:3])


def test_spawn():
    """A copy of the dataset goes on where the parent stands."""
    context = multiprocessing.get_context("spawn")

    def once(i):
        ds = CHAINS[i % 4]()
        batches = iter(ds)
        next(batches)
        ours, theirs = context.Pipe()
        process = context.Process(target=in_spawned, args=(ds, ds.state_dict(), theirs))
        process.start()
        theirs.close()
        expected = [next(batches)["value"].tolist() for _ in range(3)]
        assert ours.poll(LIMIT), "the process hangs"
        assert ours.recv() == expected
        process.join(LIMIT)
        assert process.exitcode == 0
        process.close()
        ours.close()

    repeat("spawn", once, multiprocessing.resource_tracker.ensure_running)


# ---- Threads ----


def test_threads():
    """They share an iterator, have datasets of their own, leave early, and close under each other's feet."""

    def once(i):
        shared, seen, failures = CHAINS[i % 4](), [], []
        batches = iter(shared)

        def share():
            try:
                for batch in batches:
                    seen.extend(batch["value"].tolist())
            except ps.Error as error:
                if error.status != "PST_ECANCELLED":
                    failures.append(error)

        def own():
            try:
                with (CHAINS + BATCHES)[(i + 1) % 5]() as ds:
                    for number, _ in enumerate(ds):
                        if number == i % 7:
                            break
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=share) for _ in range(3)] + [threading.Thread(target=own) for _ in range(2)]
        for thread in threads:
            thread.start()
        if i % 4 == 0:
            shared.close()
        elif i % 4 == 1:
            shared.cancel()
        for thread in threads:
            thread.join(LIMIT)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        assert not failures, failures
        if i % 4 > 1:
            assert sorted(seen) == sorted(list(range(500)) * (3 if i % 4 == 3 else 1))

    repeat("threads", once)


# ---- Exits ----

EXIT_CHAINS = (
    "ps.range(10**9).shuffle().batch(64)",
    "ps.range(10**9).map(lambda value: value + 1).batch(8)",
    "ps.range(10**6).batch(8).map(lambda value: value)",
    "ps.from_generator(lambda: iter(range(10**9))).batch(8)",
)
EXITS = (
    "",
    "sys.exit(0)",
    "keep = [batches]; keep.append(keep)",
    "threading.Thread(target=lambda: list(batches), daemon=True).start()",
    "list(zip(range(9), batches))",
    "os.kill(os.getpid(), signal.SIGTERM)",
)


def test_exit():
    def once(i):
        chain, end = EXIT_CHAINS[i % len(EXIT_CHAINS)], EXITS[i // len(EXIT_CHAINS) % len(EXITS)]
        code = f"import os, signal, sys, threading\nimport penstock as ps\nbatches = iter({chain})\nheld = next(batches)\n{end}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
        expected = -signal.SIGTERM if "SIGTERM" in end else 0
        assert (done.returncode, done.stderr) == (expected, ""), (chain, end, done)

    repeat("exit in mid-iteration", once)


# ---- Exceptions ----


def fails(value):
    if value == 137:
        raise ZeroDivisionError("at 137")
    return value


def fails_in_batch(value):
    if value[0] == 130:
        raise ZeroDivisionError("at 137")
    return value


def failing():
    yield from ({"value": i} for i in range(137))
    raise ZeroDivisionError("at 137")


FAILING = (
    lambda: ps.range(500).map(fails).batch(10),
    lambda: ps.range(500).shuffle(seed=9).map(fails).batch(10).with_options(workers=2),
    lambda: ps.range(500).batch(10).map(fails_in_batch),
    lambda: ps.from_generator(failing, spec={"value": "int64"}).batch(10),
    lambda: ps.range(500).map(keep).map(fails, workers="process").batch(10),
)


def test_exceptions():
    """In functions of every kind; afterwards another loop over the same dataset fails alike."""

    def once(i):
        ds = FAILING[4 if i % 16 == 15 else i % 4]()
        for _ in range(2):
            try:
                for _ in ds:
                    pass
                raise AssertionError("no error")
            except ps.Error as error:
                assert isinstance(error.__cause__, ZeroDivisionError) and "at 137" in str(error), error
                assert error.record == (130 if i % 4 == 2 and i % 16 != 15 else 137), (i, error.record)
        if i % 3 == 0:
            ds.close()

    repeat("exceptions", once)


# ---- Ctrl-C ----


def slow(value):
    time.sleep(0.0002)
    return value


INTERRUPTED = (
    lambda: ps.range(10**6).shuffle().batch(4096),
    lambda: ps.range(10**6).map(slow).batch(5),
    lambda: ps.range(10**6).batch(5).map(slow),
    lambda: ps.from_generator(count).map(keep).repeat().batch(10),
    lambda: ps.range(10**6).map(slow, workers="process").batch(5),
)


class Interrupts:
    """Sends SIGINT to this process until it has arrived where it counts: one may come while an object is freed, and be ignored."""

    def __init__(self):
        self.armed, self.over = False, threading.Event()
        self.old = signal.signal(signal.SIGINT, self.arrived)
        self.due, self.hook, sys.unraisablehook = queue.SimpleQueue(), sys.unraisablehook, lambda _: None
        threading.Thread(target=self.send, daemon=True).start()

    def arrived(self, *_):
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def send(self):
        while True:
            delay = self.due.get()
            if delay is None:
                return
            time.sleep(delay)
            while not self.over.is_set():
                os.kill(os.getpid(), signal.SIGINT)
                self.over.wait(0.1)
            self.over.clear()

    def close(self):
        self.due.put(None)
        signal.signal(signal.SIGINT, self.old)
        sys.unraisablehook = self.hook


def test_ctrl_c():
    """At any moment: while it plans, waits, begins a new epoch, closes. Then the dataset, or another one, works."""
    chance, interrupts = random.Random(7), Interrupts()

    def loop(make, i):
        while True:  # until it is interrupted
            ds = make()
            for _ in range(2):
                interrupts.armed = True
                for number, _ in enumerate(ds):
                    interrupts.armed = True
                    if number == i % 5 + 3:
                        break
            ds.close(LIMIT)

    def once(i):
        interrupts.due.put(chance.random() * 0.02)
        try:
            interrupts.armed = True
            loop(INTERRUPTED[4 if i % 40 == 39 else i % 4], i)
        except KeyboardInterrupt:
            interrupts.armed = False
            interrupts.over.set()
        except ps.Error as error:
            raise AssertionError(f"{i}: {error}") from error
        ds = (CHAINS + BATCHES)[i % 5]()
        assert len(next(iter(ds))["value"]) == 10

    try:
        repeat("Ctrl-C", once)
    finally:
        interrupts.over.set()
        interrupts.close()


if __name__ == "__main__":
    if "--repeat" in sys.argv:
        at = sys.argv.index("--repeat")
        REPEAT = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
    tap.main(globals())
