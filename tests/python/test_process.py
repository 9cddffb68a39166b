"""What a process may do at any moment: threads, forks, Ctrl-C, exit. Nothing may hang, crash or leak."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import penstock as ps
import tap
from data import child, raises
from patience import HANG, has_open, memory_settles, wait_until


TRUNCATED = """
import os, sys
import penstock as ps
path = sys.argv[1]
with ps.TFRecordWriter(path) as writer:
    for i in range(2000):
        writer.write(bytes([i % 251]) * 4000)
seen = 0
try:
    for batch in ps.tfrecord(path).repeat().batch(16).prefetch(2):
        assert all(len(set(record)) == 1 and record[0] == (seen + i) % 2000 % 251 for i, record in enumerate(batch["record"].tolist()))
        seen += batch.size
        if seen == 2400:
            os.truncate(path, 20000)
except ps.Error as error:
    print(error)
"""


def test_a_shard_that_is_truncated_is_an_error():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cut.tfrecord")
        done = child(TRUNCATED, path)
        assert done.returncode == 0 and "cut.tfrecord" in done.stdout and "became shorter" in done.stdout, done


def test_threads_share_an_iterator():
    batches, seen, lock = iter(ps.range(3000).batch(3)), [], threading.Lock()

    def work():
        for batch in batches:
            with lock:
                seen.extend(batch[0].tolist())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert sorted(seen) == list(range(3000))


def test_threads_with_a_dataset_each():
    failures = []

    def work(seed):
        try:
            ds = ps.range(300).shuffle(seed=seed).map(lambda value: value + 1).batch(7)
            assert sorted(v for batch in ds for v in batch[0].tolist()) == list(range(1, 301))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    assert not failures and not any(thread.is_alive() for thread in threads), failures


def test_close_from_another_thread():
    release = threading.Event()
    ds = ps.range(10).map(lambda value: release.wait(HANG) and value, spec={"value": "int64"}).batch(2)
    threading.Timer(0.2, lambda: (release.set(), ds.close())).start()
    try:
        for _ in ds:
            pass
    except ps.Error as error:
        assert error.status == "PST_ECANCELLED"


def fork(function):
    """Runs it in a fork; its exit code. A fork that hangs is killed and fails."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the fork hangs")


def test_fork_in_mid_iteration():
    ds = ps.range(1000).shuffle(seed=3).batch(10)
    batches = iter(ds)
    held = next(batches)
    values = held[0].tolist()

    def in_fork():
        with raises(ps.Error, "forked from"):
            next(batches)
        with raises(ps.Error, "forked from"):
            ds._pipeline.stats()
        assert held[0].tolist() == values
        assert [batch[0].tolist() for batch in ds][0] == values  # a fresh pool, from the beginning

    for _ in range(20):
        assert fork(in_fork) == 0
    rest = [next(batches)[0].tolist() for _ in range(10)]
    again = iter(ps.range(1000).shuffle(seed=3).batch(10))
    assert [next(again)[0].tolist() for _ in range(11)] == [values] + rest


def test_fork_that_ends_the_ordinary_way():
    done = child("""
import os, sys
import penstock as ps
ds = ps.range(100000).map(lambda value: value).batch(10)
batches = iter(ds)
held = next(batches)
pid = os.fork()
if pid:
    status = os.waitpid(pid, 0)[1]
    next(batches)
    sys.exit(os.waitstatus_to_exitcode(status))
""")
    assert (done.returncode, done.stderr) == (0, ""), done


def test_spawn():
    code = """
import multiprocessing
import penstock as ps

def work(ds, queue):
    queue.put([batch[0].tolist() for batch in ds])

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ds = ps.range(10).shuffle(seed=1).batch(5)
    expected, queue = [batch[0].tolist() for batch in ds], context.Queue()
    process = context.Process(target=work, args=(ds, queue))
    process.start()
    assert queue.get(timeout=250) == expected
    process.join()
"""
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(code)
        script.flush()
        done = subprocess.run([sys.executable, script.name], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr


EXITS = {
    "falls off the end": "",
    "sys.exit in the loop": "sys.exit(0)",
    "an exception": "raise SystemExit(0)",
    "an iterator in a global": "keep = batches",
    "a cycle": "keep = [batches]; keep.append(keep)",
    "a daemon thread inside": "threading.Thread(target=lambda: list(batches), daemon=True).start(); time.sleep(0.05)",
}


def test_exit_in_mid_iteration():
    for name, end in EXITS.items():
        for chain in (
            "range(10**9).shuffle().batch(64)",
            "range(10**9).map(lambda value: value + 1).batch(8)",
            "range(10**6).batch(8).map(lambda value: value)",
        ):
            if "thread" in name and "batch(8).map" in chain:
                continue  # a thread of Python's own that is stopped in Python's own pool complains
            done = child(
                f"import sys, threading, time\nimport penstock as ps\nbatches = iter(ps.{chain})\nheld = next(batches)\n{end}\n"
            )
            assert (done.returncode, done.stderr) == (0, ""), (name, chain, done)


WAIT = """
import signal, sys, time
import penstock as ps
def slow(value):
    time.sleep(0.01 if value < 5 else {seconds})
    return value
ds = ps.range(100).map(slow, spec={{"value": "int64"}}).batch(1)
try:
    print("ready", flush=True)
    for batch in ds:
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
    {after}
"""


def interrupt(code, after, until=None):
    """Ctrl-C this long after the program says that it is ready, and when until(its process id) is true. Returns exit code, output and errors."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        if until:
            wait_until(lambda: until(process.pid), "it waits", process)
        time.sleep(after)  # any moment will do
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANG)
    except BaseException:
        process.kill()
        raise
    return process.returncode, out, err


def test_ctrl_c_while_waiting():
    for after in (0.0, 0.02, 0.1, 0.4):
        code, out, err = interrupt(WAIT.format(seconds=0.3, after="sys.exit(0)"), after)
        assert (code, out) == (0, "interrupted\n"), (after, code, out, err)


def test_ctrl_c_then_on():
    code, out, err = interrupt(WAIT.format(seconds=0.2, after="print(len(list(ps.range(100).batch(10)))); sys.exit(0)"), 0.3)
    assert (code, out) == (0, "interrupted\n10\n"), (code, out, err)


def test_ctrl_c_while_planning():
    planning = """
import os, sys
import penstock as ps
os.mkfifo(sys.argv[1])
try:
    print("ready", flush=True)
    ps.tfrecord(sys.argv[1]).example().batch(3).plan()  # nobody writes into the pipe
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pipe")
        code = planning.replace("sys.argv[1]", repr(path))
        status, out, err = interrupt(code, 0.3, lambda pid: has_open(pid, path))
    assert (status, out) == (0, "interrupted\n"), (status, out, err)


def test_circles_are_collected():
    class Trainer:
        def __init__(self):
            self.dataset = ps.range(1000).map(self.step, spec={"value": "int64"}).batch(10)
            self.batches = iter(self.dataset)
            next(self.batches)

        def step(self, value):
            return value

    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    for _ in range(5):
        Trainer()
    gc.collect()
    # what takes an engine apart may take a moment itself
    wait_until(lambda: len(os.listdir("/proc/self/task")) <= before, "the workers of a dataset that is collected end")


def test_a_thousand_times():
    """Made, begun and left, in every state; no thread and no memory stays."""

    def round(i):
        ds = ps.range(200).shuffle(seed=i).map(lambda value: value if value != 190 - i % 2 else 1 // 0).batch(5)
        try:
            batches = iter(ds)
            for _ in range(i % 4):
                next(batches)
        except ps.Error as error:
            assert isinstance(error.__cause__, ZeroDivisionError)
        if i % 5 == 0:
            ds.cancel()
        if i % 7 == 0:
            ds.close()
        if i % 50 == 0:
            try:
                list(ds)
            except ps.Error:
                pass

    for i in range(200):
        round(i)
    threads = len(os.listdir("/proc/self/task"))

    def rounds():
        for i in range(1000):
            round(i)
        wait_until(lambda: len(os.listdir("/proc/self/task")) <= threads + 2, "all threads but a few end")

    memory_settles(rounds, 6 << 20)


if __name__ == "__main__":
    tap.main(globals())
