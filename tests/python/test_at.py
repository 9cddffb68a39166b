"""Dataset.at: batch k of an epoch by itself."""

import pickle
import subprocess
import sys
import threading

import penstock as ps
import tap
from data import raises


def values(batch):
    return batch[0].tolist()


def test_it_is_the_batch_that_iterating_delivers():
    ds = ps.range(103).shuffle(seed=7).batch(10)
    epochs = [[values(batch) for batch in ds] for _ in range(3)]
    for epoch in (2, 0, 1):
        for k in reversed(range(11)):
            assert values(ds.at(k, epoch=epoch)) == epochs[epoch][k]
    assert values(ds.at(-1)) == epochs[0][10] and values(ds.at(-11, 2)) == epochs[2][0]
    assert [values(batch) for batch in ds] == [values(ds.at(k, 3)) for k in range(11)], "the iteration goes on"


def test_joins_segments_and_single_elements():
    ds = ps.sample([ps.range(40).shuffle(), ps.range(100, 160)], weights=[2, 3]).window(3, shift=2).shuffle(seed=1).batch(4)
    for epoch in range(2):
        assert [values(batch) for batch in ds] == [values(ds.at(k, epoch)) for k in range(len(ds))]
    single = ps.range(5).shuffle(seed=3)
    assert [element["value"].item() for element in single] == [single.at(k)["value"].item() for k in range(5)]
    endless = ps.range(5).repeat().batch(2)
    assert values(endless.at(1_000_000)) == [0, 1]


INTERRUPTED = """
import os, signal, threading, time
import penstock as ps

def slow(value):
    if value == 7:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(240)
    return value

for options in ({}, {"bad": "skip"}):
    ds = ps.range(20).map(slow, **WHERE).batch(5).with_options(**options)
    try:
        print("computed", ds.at(1))
    except KeyboardInterrupt as interrupt:
        print("interrupted", interrupt.__traceback__ is not None, ds.stats()["skipped"])
    print([b["value"].tolist() for b in [ds.at(0)]])
"""


def test_ctrl_c_in_a_function():
    """Ctrl-C while a function runs is a KeyboardInterrupt, not an error or a skipped sample."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED.replace("WHERE", "{}")], capture_output=True, text=True, timeout=200)
    assert done.stdout == "interrupted True 0\n[[0, 1, 2, 3, 4]]\n" * 2, (done.stdout, done.stderr)


def test_ranks():
    whole = ps.range(50).shuffle(seed=2).batch(5)
    for rank in range(4):
        ds = whole.distributed(rank, 4, uneven="allow")
        assert [values(ds.at(k)) for k in range(len(ds))] == [values(whole.at(k)) for k in range(rank, 10, 4)]


def test_other_processes_and_threads():
    ds = ps.range(1000).shuffle(seed=7).map(lambda value: value * 2).batch(10)
    want = [values(batch) for batch in ds]
    got = [None] * 100

    def read(first):
        for k in range(first, 100, 4):
            got[k] = values(ds.at(k))

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == want
    again = pickle.loads(pickle.dumps(ps.range(1000).shuffle(seed=7).batch(10)))
    assert values(again.at(50)) == [value // 2 for value in want[50]]


def test_functions_on_batches():
    ds = ps.range(20).shuffle(seed=1).batch(4).map(lambda value, seed: {"value": [3 * v for v in value.tolist()], "seed": [seed]})
    for epoch in range(2):
        for k, batch in enumerate(ds):
            found = ds.at(k, epoch)
            assert list(found["value"]) == list(batch["value"]) and list(found["seed"]) == list(batch["seed"]), (found, batch)

    def fail(value):
        raise KeyError("no")

    with raises(ps.Error, "batch 2 of epoch 5"):
        ps.range(20).batch(4).map(fail).at(2, 5)

    def skip(value):
        raise ps.Skip

    assert ps.range(20).batch(4).map(skip).at(2) is None


def test_errors():
    ds = ps.range(20).batch(4)
    with raises(IndexError, "batch 5 of an epoch of 5 batches"):
        ds.at(5)
    with raises(IndexError, "batch -6"):
        ds.at(-6)
    with raises(TypeError, ""):
        ds.at(1.5)
    with raises(ValueError, "epoch=-1"):
        ds.at(0, -1)
    with raises(ps.Error, "the source is a stream"):
        ps.range(20).unique().batch(4).at(0)
    with raises(ps.Error, "the source is a stream"):
        ps.from_generator(lambda: range(3), {"x": ("int64", ())}).batch(2).at(0)
    ds.close()
    assert values(ds.at(4)) == [16, 17, 18, 19]


def test_closing_while_threads_read():
    for _ in range(20):
        ds = ps.range(100000).window(100, shift=1).batch(512)
        ended = []

        def read():
            try:
                for k in range(1000):
                    ds.at(k % 100)
            except ps.Error as error:
                ended.append(error.status)

        threads = [threading.Thread(target=read) for _ in range(2)]
        ds.at(0)
        for thread in threads:
            thread.start()
        engine = ds._pipeline
        engine.cancel()
        engine.close(10.0)
        for thread in threads:
            thread.join()
        assert set(ended) <= {"PST_ECANCELLED", "PST_EINVAL"} and len(ended) == 2, ended


if __name__ == "__main__":
    tap.main(globals())
