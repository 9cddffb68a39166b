"""Functions and generators that do not return: nobody waits for them for ever. close() waits as long as it is told, the end of
a `with` block, the garbage collector and the interpreter's exit a few seconds; then the function is left to its thread, with all
that it uses, and a warning names it."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref

import penstock as ps
import tap
from data import child, scratch

LONG = 240  # seconds: whoever waits so long waits for ever


class Stuck:
    """A function, or a generator, that waits at its third element until it is let go."""

    def __init__(self):
        self.entered, self.go, self.left = threading.Event(), threading.Event(), threading.Event()

    def wait(self):
        self.entered.set()
        self.go.wait(LONG)
        self.left.set()

    def function(self, value):
        if value == 2:
            self.wait()
        return value

    def batches(self, value):
        if value[0] == 2:
            self.wait()
        return value

    def generator(self):
        for i in range(10):
            yield {"value": self.function(i)}

    def untidy(self):
        try:
            yield from ({"value": i} for i in range(10**9))
        finally:
            self.wait()


SPEC = {"value": "int64"}
CHAINS = {
    "function": lambda stuck: ps.range(10).map(stuck.function, spec=SPEC).batch(1),
    "batches": lambda stuck: ps.range(10).batch(1).map(stuck.batches),
    "generator": lambda stuck: ps.from_generator(stuck.generator, spec=SPEC).batch(1),
    "untidy": lambda stuck: ps.from_generator(stuck.untidy, spec=SPEC).batch(1),
}


def begin(name):
    """A dataset whose function waits."""
    stuck = Stuck()
    ds = CHAINS[name](stuck)
    batches = iter(ds)
    held = next(batches)
    assert held["value"].tolist() == [0]
    if name != "untidy":
        assert stuck.entered.wait(LONG)
    return stuck, ds, batches, held


def settled(stuck, threads):
    """Let go, it ends, and so do the threads."""
    stuck.go.set()
    assert stuck.left.wait(LONG)
    for _ in range(LONG * 20):
        if len(os.listdir("/proc/self/task")) <= threads:
            return True
        time.sleep(0.05)
    return False


def test_close_waits_as_long_as_it_is_told():
    for name in CHAINS:
        gc.collect()
        threads = len(os.listdir("/proc/self/task"))
        stuck, ds, batches, held = begin(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.monotonic()
            ds.close(0.2)
            assert 0.15 < time.monotonic() - start < LONG / 2  # the function waits for LONG seconds
        assert [warning.category for warning in caught] == [RuntimeWarning], (name, caught)
        assert name in str(caught[0].message) and "has not returned" in str(caught[0].message), caught[0].message
        assert not stuck.left.is_set() and held["value"].tolist() == [0]
        assert [batch["value"].tolist() for batch in ps.range(3).batch(3)] == [[0, 1, 2]]  # everything else works
        try:
            next(batches)
            raise AssertionError("a batch of what is closed")
        except ps.Error as error:
            assert error.status == "PST_ECANCELLED", error
        del ds, batches
        assert settled(stuck, threads), f"{name}: threads stay"


def test_close_waits_for_those_who_come_back():
    for name in CHAINS:
        gc.collect()
        threads = len(os.listdir("/proc/self/task"))
        stuck, ds, batches, held = begin(name)
        threading.Timer(0.3, stuck.go.set).start()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ds.close(LONG)
        assert stuck.left.is_set(), name
        del ds, batches
        assert settled(stuck, threads), name


def test_what_it_uses_stays():
    """Its arrays are not given back while it is inside."""
    kept = bytearray(range(10))
    stuck = Stuck()
    ds = ps.from_arrays({"value": kept}).map(stuck.function, spec={"value": "uint8"}).batch(1)
    next(iter(ds))
    assert stuck.entered.wait(LONG)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds.close(0)
    del ds
    gc.collect()
    try:
        kept.append(1)
        raise AssertionError("the engine has let go of an array that a function is called with")
    except BufferError:
        pass
    stuck.go.set()
    for _ in range(LONG * 20):
        try:
            kept.append(1)
            return
        except BufferError:
            time.sleep(0.05)
    raise AssertionError("the array is never given back")


def test_garbage_and_with_blocks():
    """Their time is that of close() without an argument."""
    for name in ("function", "generator"):
        stuck, ds, batches, held = begin(name)
        there = weakref.ref(ds)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.monotonic()
            if name == "function":
                with ds:
                    pass
            del ds, batches
            gc.collect()
            assert time.monotonic() - start < LONG / 2
        assert there() is None and not stuck.left.is_set() and len(caught) == 1 and name in str(caught[0].message)
        stuck.go.set()
        assert stuck.left.wait(LONG)


def test_others_are_told():
    """Threads that wait for a batch that does not come."""
    for name in ("function", "batches", "generator"):
        stuck, ds, batches, held = begin(name)
        told = []

        def consume():
            try:
                told.append(list(batches))
            except ps.Error as error:
                told.append(error.status)

        thread = threading.Thread(target=consume)
        thread.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ds.close(0.1)
        thread.join(LONG)
        assert told == ["PST_ECANCELLED"], (name, told)
        stuck.go.set()


def test_while_it_is_tried():
    """The plan calls a function for the first element; whoever plans can be told to stop."""
    stuck, told = Stuck(), []
    ds = ps.range(2, 10).map(stuck.function).batch(1)

    def plan():
        try:
            ds.plan()
        except ps.Error as error:
            told.append(error.status)

    thread = threading.Thread(target=plan)
    thread.start()
    assert stuck.entered.wait(LONG)
    ds.close(0.1)
    thread.join(LONG)
    assert told == ["PST_ECANCELLED"], told
    stuck.go.set()


def test_processes_are_ended():
    def forever(value):
        if value == 2:
            time.sleep(LONG)
        return {"value": value, "pid": os.getpid()}

    for per in ("sample", "batch"):
        if per == "sample":
            ds = ps.range(10).map(forever, workers="process", spec={**SPEC, "pid": "int64"}).batch(1)
        else:
            ds = ps.range(10).batch(1).map(lambda value: {"pid": forever(value[0])["pid"]}, workers="process")
        batch = next(iter(ds))
        pid = batch["pid"].tolist()[0] if per == "sample" else batch["pid"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            start = time.monotonic()
            ds.close(0.2)
            assert time.monotonic() - start < LONG / 2
        try:
            os.kill(pid, 0)
            raise AssertionError("a process stays")
        except ProcessLookupError:
            pass


def test_processes_end_with_us():
    """Also where two pools hold each other's ends, and nobody could say goodbye."""
    code = """
import os, signal
import penstock as ps
def pid(value): return {"pid": os.getpid()}
one = ps.range(10**6).map(pid, workers="process").batch(1)
two = ps.range(10**6).map(pid, workers="process").batch(1)
print(next(iter(one))["pid"].tolist()[0], next(iter(two))["pid"].tolist()[0], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG)
    pids = list(map(int, done.stdout.split()))
    assert done.returncode == -signal.SIGKILL and len(pids) == 2, done
    for _ in range(LONG * 10):
        if not any(running(pid) for pid in pids):
            return
        time.sleep(0.1)
    raise AssertionError("processes of a pool outlive the program")


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


EXIT = """
import sys, threading, time
import penstock as ps
event, entered = threading.Event(), threading.Event()
def stuck(value):
    if value {at} 2:
        entered.set()
        {wait}
    return value
def generator():
    for i in range(10):
        yield {{"value": stuck(i)}}
def untidy():
    try:
        yield from ({{"value": i}} for i in range(10**9))
    finally:
        event.wait()
batches = iter(ps.{chain})
held = next(batches)
{end}
"""
WAITS = {"an event": "event.wait()", "a sleep": f"time.sleep({10 * LONG})"}
EXITS = {
    "a function": ("range(10).map(stuck, spec={'value': 'int64'}).batch(1)", "entered.wait()", "stuck has not returned"),
    "a function for batches": (
        "range(10).batch(1).map(lambda value: {'value': stuck(value[0])})",
        "entered.wait()",
        "has not returned",
    ),
    "a generator": ("from_generator(generator, spec={'value': 'int64'}).batch(1)", "entered.wait()", "generator has not"),
    "an untidy generator": ("from_generator(untidy, spec={'value': 'int64'}).batch(1)", "", "untidy has not returned"),
    "a function of a thread that waits": (
        "range(10).map(stuck, spec={'value': 'int64'}).batch(1)",
        "threading.Thread(target=lambda: list(batches), daemon=True).start(); entered.wait()",
        "stuck has not returned",
    ),
}


def test_exit():
    running = []
    for name, (chain, end, words) in EXITS.items():
        for how, wait in WAITS.items():
            if name == "an untidy generator" and how != "an event":
                continue
            code = EXIT.format(at="==", wait=wait, chain=chain, end=end)
            process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            running.append((f"{name}, {how}", process, words))
    failed = []
    for name, process, words in running:
        try:
            _, err = process.communicate(timeout=LONG)
            if process.returncode != 0 or "RuntimeWarning" not in err or words not in err:
                failed.append((name, process.returncode, err))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            failed.append((name, "hangs"))
    assert not failed, failed


def test_exit_of_processes():
    done = child(f"""
import time
import penstock as ps
def stuck(value):
    if value == 2: time.sleep({10 * LONG})
    return value
batches = iter(ps.range(10).map(stuck, workers="process", spec={{"value": "int64"}}).batch(1))
next(batches)
""")
    assert (done.returncode, done.stderr) == (0, ""), done


def test_ctrl_c_while_a_loop_begins_anew():
    """The second loop has to stop the first one's workers, and those do not come back."""
    code = f"""
import threading, penstock as ps
entered = threading.Event()
def stuck(value):
    if value == 2:
        entered.set()
        threading.Event().wait({LONG})
    return value
ds = ps.range(10).map(stuck, spec={{"value": "int64"}}).batch(1)
next(iter(ds))
entered.wait()
try:
    print("ready", flush=True)
    next(iter(ds))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    ds.close(0)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONG / 2)
    except BaseException:
        process.kill()
        raise
    assert (process.returncode, out) == (0, "interrupted\n") and "stuck has not returned" in err, (process.returncode, out, err)


LATE = {
    "a handler that was registered before": """
import atexit
atexit.register(lambda: late(batches))
import penstock as ps
batches = iter(ps.range(10).batch(1))
next(batches)
""",
    "a finalizer": """
import penstock as ps
class Last:
    def __del__(self):
        late(self.batches)
last = Last()
last.batches = iter(ps.range(10).batch(1))
next(last.batches)
last.itself = last
""",
    "the end of a generator": """
import penstock as ps
def outer():
    try:
        yield from batches
    finally:
        late(batches)
batches = iter(ps.range(10).batch(1))
held = outer()
next(held)
""",
}


def test_whoever_asks_after_the_exit_is_told():
    """The thread that ends the interpreter is never held: the process would not end."""
    late = """
def late(batches):
    try:
        next(batches)
    except Exception as error:
        print(type(error).__name__, error, flush=True)
"""
    for name, code in LATE.items():
        done = child(late + code, timeout=LONG)
        assert done.returncode == 0 and "Error" in done.stdout and "the interpreter exits" in done.stdout, (name, done)


def test_ctrl_c_behind_batches_that_are_passed_over():
    """Nothing is left of the first batches; the next one waits for a function."""
    code = f"""
import os, sys, threading, penstock as ps
entered = threading.Event()
def stuck(image):
    entered.set()
    threading.Event().wait({LONG})
    return image
image = ps._core.encode_png(bytes(300), 10, 10, 3)
for i in range(40):
    with open(os.path.join(sys.argv[1], f"{{i:03}}.png"), "wb") as f:
        f.write(image[:-20] if i < 10 else image)
paths = [os.path.join(sys.argv[1], f"{{i:03}}.png") for i in range(40)]
ds = ps.from_files(paths).decode().resize(8).map(stuck, spec={{"image": ("uint8", (8, 8, 3))}}).batch(5)
ds = ds.with_options(bad="skip")
threading.Thread(target=lambda: entered.wait() and print("ready", flush=True)).start()
try:
    next(iter(ds))
except KeyboardInterrupt:
    print("interrupted", ds.stats()["skipped"], flush=True)
    os._exit(0)
"""
    with scratch() as folder:
        process = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=LONG / 2)
        except BaseException:
            process.kill()
            raise
    assert (process.returncode, out) == (0, "interrupted 10\n"), (process.returncode, out)


def test_close_while_another_begins_anew():
    """The other thread waits for the generator that it gave up."""
    gc.collect()
    threads = len(os.listdir("/proc/self/task"))
    stuck, ds, batches, _ = begin("untidy")
    del batches
    errors = []

    def again():
        try:
            next(iter(ds))
        except ps.Error as error:
            errors.append(error.status)

    other = threading.Thread(target=again)
    other.start()
    assert stuck.entered.wait(LONG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.monotonic()
        ds.close(0.2)
        assert 0.15 < time.monotonic() - start < LONG / 2
    assert ["untidy has not returned" in str(warning.message) for warning in caught] == [True], caught
    assert not stuck.left.is_set() and not errors
    stuck.go.set()
    other.join()
    assert errors == ["PST_ECANCELLED"], errors
    del ds, other, again
    assert settled(stuck, threads)


def test_exit_while_others_begin_anew():
    """All pipelines together have the seconds of one: five, not five for each of many."""
    code = f"""
import atexit, threading, time
def ended():
    print(time.monotonic() - start < 100, flush=True)
atexit.register(ended)
import penstock as ps
entered = threading.Semaphore(0)
def untidy():
    try:
        yield from range(10**9)
    finally:
        entered.release()
        threading.Event().wait({10 * LONG})
def begin():
    ds = ps.from_generator(untidy, spec={{"value": "int64"}}).batch(1)
    next(iter(ds))
    next(iter(ds))
for _ in range(40):
    threading.Thread(target=begin, daemon=True).start()
for _ in range(40):
    entered.acquire()
start = time.monotonic()
"""
    done = child(code)
    assert (done.returncode, done.stdout) == (0, "True\n") and "untidy has not returned" in done.stderr, done


def test_ctrl_c_while_it_is_planned():
    """Whoever asks again goes on waiting for the plan; it is not made twice. What is not asked again may be dropped."""
    done = child(f"""
import os, signal, threading
import penstock as ps
calls, entered, go = [], threading.Event(), threading.Event()
def slow(value):
    if not calls:
        calls.append(value)
        entered.set()
        go.wait({LONG})
    return value
def interrupt():
    entered.wait()
    os.kill(os.getpid(), signal.SIGINT)
for end in ("asked again", "closed", "dropped"):
    calls.clear(), entered.clear(), go.clear()
    ds = ps.range(4).map(slow).batch(2)
    threading.Thread(target=interrupt).start()
    try:
        ds.plan()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    if end == "asked again":
        try:
            ds._pipeline.add("shuffle", "")
        except ps.Error as error:
            print("being planned" in str(error))
        threading.Timer(0.2, go.set).start()
        print([batch["value"].tolist() for batch in ds], len(ds))
    elif end == "closed":
        ds.close(0)
        go.set()
        print([batch["value"].tolist() for batch in ds], len(ds))
    del ds
go.set()
""")
    values = "[[0, 1], [2, 3]] 2\n"
    expected = "interrupted\nTrue\n" + values + "interrupted\n" + values + "interrupted\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, ""), done


def test_ctrl_c_while_a_dropped_pipeline_is_freed():
    """Nobody hears what is raised there: the program is interrupted when it goes on."""
    done = child(f"""
import os, signal, threading
import penstock as ps
entered = threading.Event()
def stuck(value):
    if value == 2:
        entered.set()
        threading.Event().wait({10 * LONG})
    return value
batches = iter(ps.range(10).map(stuck, spec={{"value": "int64"}}).batch(1))
next(batches)
entered.wait()
try:
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    del batches
    threading.Event().wait({LONG})  # Python looks for signals where a function of its own begins
except KeyboardInterrupt:
    print("interrupted", flush=True)
""")
    assert (done.returncode, done.stdout) == (0, "interrupted\n") and "KeyboardInterrupt" not in done.stderr, done


def test_exit_waits_for_functions_of_a_loop_that_was_left():
    """A library that one of them is in might not survive the end of its thread."""
    done = child("""
import os, threading, time
import penstock as ps
first, more = threading.Event(), threading.Event()
def slow(value):
    if first.is_set():
        os.write(1, b"begin ")
        more.set()
        time.sleep(0.5)
        os.write(1, b"end ")
    first.set()
    return value
for batch in ps.range(40).batch(4).map(slow).with_options(workers=2):
    more.wait()
    break
""")
    words = done.stdout.split()
    assert done.returncode == 0 and words.count("begin") == words.count("end") > 0, done


if __name__ == "__main__":
    tap.main(globals())
