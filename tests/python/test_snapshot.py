"""snapshot: made once, found by later runs, completed after kills, made by one of several processes, never read by a changed
pipeline; what comes after it has an index."""

import gzip
import os
import random
import resource
import signal
import subprocess
import sys
import time

import tap

import penstock as ps
from test_disk_cache import digest, parts, scratch

KILLS = int(os.environ.get("CACHE_KILLS", "5"))


def chain(folder=None, more="", rest="shuffle seed=2 | batch 16", shards="1M"):
    snapshot = f"snapshot '{folder}' bytes={shards} | " if folder else ""
    return f"range 3000 | window 700 shift=1 drop_remainder=true | cast f64 value | {more}{snapshot}{rest}"


def child(folder, **arguments):
    """A process that makes or reads the snapshot and prints the digest."""
    code = f"import test_snapshot as t; print(t.digest(t.chain({folder!r}, **{arguments!r})))"
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, *sys.path])
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path})


def refused(text, *words):
    try:
        ps.pipeline(text).plan()
    except (ps.Error, ValueError) as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError(f"not refused: {text}")


def test_later_runs_read_it():
    with scratch() as folder:
        want = digest(chain())
        assert digest(chain(folder)) == want and len(parts(folder)) > 10
        before = {path: os.stat(path).st_mtime_ns for path in parts(folder)}
        plan = ps.pipeline(chain(folder)).plan()
        assert "snapshot of 2301 elements in " in plan and "found; by their number" in plan, plan
        assert digest(chain(folder)) == want
        assert {path: os.stat(path).st_mtime_ns for path in parts(folder)} == before, "nothing is stored twice"


def test_a_changed_pipeline_makes_another():
    with scratch() as folder:
        digest(chain(folder))
        assert digest(chain(folder, more="cast f32 value | ")) == digest(chain(more="cast f32 value | "))
        assert len(os.listdir(folder)) == 2
        assert digest(chain(folder), seed=5) == digest(chain(), seed=5) and len(os.listdir(folder)) == 3


def test_random_operations_are_not_repeated():
    with scratch() as folder:
        ds = ps.pipeline(f"range 50 | shuffle | snapshot '{folder}' | batch 50")
        first, second = (batch["value"].tolist() for _ in range(2) for batch in ds)
        assert first == second != sorted(first)
        assert sorted(first) == list(range(50))


def test_a_stream_gets_an_index():
    with scratch() as folder:
        os.mkdir(folder)
        lines = [f"line {i}" for i in range(500)]
        with gzip.open(f"{folder}/text.gz", "wt") as f:
            f.write("\n".join(lines) + "\n")
        ds = ps.lines(f"{folder}/text.gz").snapshot(f"{folder}/snapshot").shuffle(seed=3).batch(7)
        assert len(ds) == 72
        epoch = [bytes(value).decode() for batch in ds for value in batch[0].tolist()]
        assert sorted(epoch) == sorted(lines) and epoch != lines
        assert [bytes(value).decode() for value in ds.at(40)[0].tolist()] == epoch[280:287]
        stream = ps.lines(f"{folder}/text.gz").batch(7)
        try:
            stream.at(0)
        except ps.Error as error:
            assert error.status == "PST_EUNSUPPORTED" and "a stream" in str(error) and "snapshot" in str(error), error
        else:
            raise AssertionError("a stream has no batch by number")


def test_functions_and_generators():
    with scratch() as folder:
        calls = []

        def numbers():
            calls.append("generator")
            yield from ({"x": i} for i in range(20))

        ds = ps.from_generator(numbers, spec={"x": ("int64", ())}).snapshot(folder).shuffle().batch(4)
        for _ in range(3):
            assert sorted(sum((batch["x"].tolist() for batch in ds), [])) == list(range(20))
        assert calls == ["generator"], calls


def test_killed_while_making():
    want, r = digest(chain()), random.Random(3)
    begin = time.monotonic()
    with scratch() as folder:
        assert child(folder).communicate()[0].strip() == want
    longest = time.monotonic() - begin
    for _ in range(KILLS):
        with scratch() as folder:
            process = child(folder)
            time.sleep(r.random() * longest)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            before = {path: os.stat(path).st_mtime_ns for path in parts(folder)}
            assert digest(chain(folder)) == want
            assert before.items() <= {path: os.stat(path).st_mtime_ns for path in parts(folder)}.items(), "whole shards are kept"


def test_one_of_several_processes_makes_it():
    want = digest(chain())
    with scratch() as folder:
        both = [child(folder) for _ in range(3)]
        assert [process.communicate()[0].strip() for process in both] == [want] * 3
        stored = sum(map(os.path.getsize, parts(folder)))
        assert stored < 1.1 * 2301 * 700 * 8, f"{stored} bytes: it was made more than once"


def test_a_full_disk_is_an_error():
    with scratch() as folder:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, hard))
        try:
            refused(chain(folder), folder, "File too large")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, old)
        assert not parts(folder)
        assert digest(chain(folder)) == digest(chain())


def test_damage_is_found():
    with scratch() as folder:
        digest(chain(folder))
        for path in parts(folder)[:3]:
            with open(path, "r+b") as file:
                file.seek(os.path.getsize(path) // 2)
                file.write(os.urandom(64))
        try:
            digest(chain(folder))
        except ps.Error as error:
            assert error.status == "PST_ECORRUPT" and "snapshot is damaged; remove the folder" in str(error), error
        else:
            raise AssertionError("a damaged snapshot was read")
    with scratch() as folder:
        digest(chain(folder))
        for path in parts(folder)[:3]:
            os.truncate(path, 1000)
        assert digest(chain(folder)) == digest(chain()), "shards that are lost are made again"


def test_refused_before_it_is_made():
    with scratch() as folder:
        refused(chain(folder, rest="resize 4 | batch 2"), "resize")
        refused(chain(folder, rest="cast f32 nothing | batch 2"), "nothing")
        assert not parts(folder), "types are checked before"
        refused(chain(folder, more="batch 3 | "), "put snapshot before batch")
        refused(chain(folder, more="repeat | "), "never end; put snapshot before repeat")
        refused(chain("s3://bucket/snapshots"), "a snapshot needs a folder on a local disk")
        refused("range 10 | cache path=s3://bucket/caches | batch 2", "a cache needs a folder on a local disk")
        refused("range 10 | snapshot | batch 2", "path")
        refused("range 10 | snapshot '' | batch 2", "path is empty")


def test_ctrl_c_leaves_it_unfinished():
    with scratch() as folder:
        process = child(folder, more='expr "value + 1" a | expr "a * 2" b | expr "b + a" c | ')
        while not parts(folder) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode != 0 or parts(folder)


if __name__ == "__main__":
    tap.main(globals())
