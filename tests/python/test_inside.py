"""Functions and generators that use the dataset which they belong to: an error at once, no wait without end; and all of it is
collected."""

import gc
import os
import time
import weakref
from dataclasses import dataclass

import penstock as ps
import tap
from data import child

SPEC = {"value": "int64"}
QUESTIONS = {
    "len": lambda ds, state: len(ds),
    "plan": lambda ds, state: ds.plan(),
    "element_spec": lambda ds, state: ds.element_spec,
    "load_state_dict": lambda ds, state: ds.load_state_dict(state),
    "iter": lambda ds, state: next(iter(ds)),
}
CHAINS = {
    "function": lambda f: ps.range(10).map(f, spec=SPEC).batch(2),
    "tried": lambda f: ps.range(10).map(f).batch(2),
    "tried behind another": lambda f: ps.range(10).map(f, spec=SPEC).map(lambda value: value).batch(2),
    "generator": lambda f: ps.from_generator(lambda: ({"value": f(i)} for i in range(10)), spec=SPEC).batch(2),
    "tried generator": lambda f: ps.from_generator(lambda: ({"value": f(i)} for i in range(10))).batch(2),
    "process": lambda f: ps.range(10).map(f, spec=SPEC, workers="process").batch(2),
}


def causes(error):
    while error is not None:
        yield error
        error = error.__cause__


def test_a_function_that_asks_its_dataset():
    for chain, make in CHAINS.items():
        for question, ask in QUESTIONS.items():
            state = {"version": 1, "fingerprint": 0, "seed": 0, "epoch": 0, "next": 0}
            ds = make(lambda value: ask(ds, state) and value)
            try:
                list(ds)
            except (ps.Error, RuntimeError) as error:
                assert any("of the same dataset" in str(cause) for cause in causes(error)), (chain, question, error)
            else:
                raise AssertionError((chain, question))
            ds.close()


def test_a_function_for_batches_that_asks_its_dataset():
    for question in ("iter", "element_spec"):
        for workers in ("thread", "process"):
            ds = ps.range(10).batch(2).map(lambda value: QUESTIONS[question](ds, None) and value, workers=workers)
            try:
                list(ds)
            except ps.Error as error:
                assert "of the same dataset" in str(error), error
            else:
                raise AssertionError((question, workers))
    ds = ps.range(10).batch(2).map(lambda value: [v + len(ds) for v in value.tolist()])  # needs no function's result
    assert [batch[0] for batch in ds][0] == [5, 6]


def test_functions_may_use_other_datasets():
    other = ps.range(3).map(lambda value: value + 1).batch(3)
    ds = ps.range(4).map(lambda value: value + sum(next(iter(other))[0].tolist()) + len(other)).batch(4)
    assert next(iter(ds))[0].tolist() == [7, 8, 9, 10]


def threads():
    return len(os.listdir("/proc/self/task"))


class Owner:
    def __init__(self, kind):
        self.ds = {
            "generator": lambda: ps.from_generator(self.rows, spec=SPEC).batch(2),
            "function": lambda: ps.range(10**6).map(self.value, spec=SPEC).batch(2),
            "batches": lambda: ps.range(10**6).batch(2).map(self.value),
        }[kind]()

    def value(self, value):
        return value

    def rows(self):
        for i in range(10**9):
            yield {"value": self.value(i)}


def test_owners_are_collected():
    for kind in ("generator", "function", "batches"):
        before = threads()
        for begun in (False, True):
            owner = Owner(kind)
            batches = iter(owner.ds)
            if begun:
                next(batches)
            gone = weakref.ref(owner)
            del owner, batches
            for _ in range(4000):
                gc.collect()
                if gone() is None and threads() <= before:
                    break
                time.sleep(0.05)
            assert gone() is None and threads() <= before, (kind, begun, threads(), before)


@dataclass
class Add:  # not hashable
    number: int

    def __call__(self, value):
        return [v + self.number for v in value.tolist()] if hasattr(value, "tolist") else value + self.number


def test_functions_that_cannot_be_hashed():
    for workers in ("thread", "process"):
        ds = ps.range(4).batch(4).map(Add(1), workers=workers)
        assert next(iter(ds))[0] == [1, 2, 3, 4] and "map Add(number=1)" in ds.plan()
        assert next(iter(ps.range(4).map(Add(1), workers=workers).batch(4)))[0].tolist() == [1, 2, 3, 4]


def test_a_fork_leaves_the_processes_alone():
    code = """
import os, sys, penstock as ps
ds = ps.range(100).map(lambda value: os.getpid(), spec={"value": "int64"}, workers="process").batch(1)
batches = iter(ds)
first = {next(batches)[0][0] for _ in range(20)}
pid = os.fork()
if pid == 0:
    sys.exit(0)  # with everything that runs at an exit
os.waitpid(pid, 0)
rest = {batch[0][0] for batch in batches}
for process in first | rest:
    os.kill(process, 0)
assert len(first | rest) <= len(os.sched_getaffinity(0)), (first, rest)
print("fine")
"""
    done = child(code)
    assert done.stdout.strip() == "fine" and done.returncode == 0, done.stderr


def test_a_daemon_thread_with_processes_ends_quietly():
    for chain in ("map(f, spec={'value': 'int64'}, workers='process').batch(4)", "batch(4).map(f, workers='process')"):
        code = f"""
import threading, time, penstock as ps
def f(value):
    time.sleep(0.01)
    return value
ds = ps.range(10**6).{chain}
begun = threading.Event()
def work():
    for batch in ds:
        begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait(240)
"""
        for _ in range(3):
            done = child(code)
            assert done.returncode == 0 and done.stderr == "", done.stderr


tap.main(globals())
