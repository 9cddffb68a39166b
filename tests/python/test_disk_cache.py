"""The cache on disk: killed at random moments, filled by two processes at once, on a full disk, changed pipelines, damage.

    CACHE_KILLS=100    how many processes are killed while they fill a cache (make test: fewer; make kill-cache: 100)
"""

import contextlib
import glob
import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time

import tap

import penstock as ps

KILLS = int(os.environ.get("CACHE_KILLS", "6"))
COUNT = 3000


def digest(text, **options):
    """A hash of everything that an epoch delivers."""
    h = hashlib.sha256()
    for batch in ps.pipeline(text, **options):
        for name in batch.keys():
            h.update(repr(batch[name].tolist()).encode())
    return h.hexdigest()


def chain(folder=None, more=""):
    cache = f"cache path='{folder}' | " if folder else ""
    return f"range {COUNT} | window 700 shift=1 drop_remainder=true | cast f64 value | {more}{cache}shuffle seed=2 | batch 16"


def parts(folder):
    return glob.glob(os.path.join(folder, "*", "*.part"))


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory() as folder:
        yield os.path.join(folder, "caches")


def child(folder):
    """A process that fills the cache and prints the digest."""
    code = f"import test_disk_cache as t; print(t.digest(t.chain({folder!r})))"
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([here, *sys.path])
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path})


def test_later_runs_read_it():
    with scratch() as folder:
        want = digest(chain())
        assert digest(chain(folder)) == want and parts(folder)
        before = sorted(parts(folder))
        pipeline = ps.pipeline(chain(folder))
        list(pipeline)
        assert pipeline.stats()["cache_hits"] > 0 and digest(chain(folder)) == want
        assert sorted(parts(folder)) == before, "nothing is stored twice"


def test_a_changed_pipeline_has_another_cache():
    with scratch() as folder:
        digest(chain(folder))
        assert digest(chain(folder, more="cast f32 value | ")) == digest(chain(more="cast f32 value | "))
        assert len(os.listdir(folder)) == 2


def test_killed_while_filling():
    want, r = digest(chain()), random.Random(3)
    begin = time.monotonic()
    with scratch() as folder:
        assert child(folder).communicate()[0].strip() == want
    longest = time.monotonic() - begin
    with scratch() as folder:
        for i in range(KILLS):
            process = child(folder)
            time.sleep(r.random() * longest)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if i % 10 == 0 or i == KILLS - 1:
                assert digest(chain(folder)) == want, f"after kill {i}"
            if i % 10 == 9:
                subprocess.run(["rm", "-rf", folder], check=True)
        assert digest(chain(folder)) == want
        assert not [name for name in glob.glob(folder + "/*/.*tmp*")], "temporary files are removed"


def test_two_processes_at_once():
    want = digest(chain())
    with scratch() as folder:
        for _ in range(2):
            both = [child(folder), child(folder)]
            assert [process.communicate()[0].strip() for process in both] == [want, want]
        assert digest(chain(folder)) == want


def test_a_full_disk():
    with scratch() as folder:
        want = digest(chain())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
        try:
            pipeline = ps.pipeline(chain(folder))
            list(pipeline)
            assert "cached" in pipeline.stats()["cache_note"], pipeline.stats()["cache_note"]
            assert digest(chain(folder)) == want
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, old)
        assert not parts(folder)
        assert digest(chain(folder)) == want and parts(folder), "the next run fills it"


def test_a_budget():
    with scratch() as folder:
        text = chain(folder).replace("cache path", "cache 9M path")
        assert digest(text) == digest(chain())
        assert 0 < sum(map(os.path.getsize, parts(folder))) <= 9 << 20
        assert digest(text) == digest(chain())


def test_damaged_parts_are_not_used():
    want, r = digest(chain()), random.Random(4)
    with scratch() as folder:
        digest(chain(folder))
        for round_ in range(6):
            for path in parts(folder):
                with open(path, "r+b") as file:
                    if round_ % 2:
                        file.truncate(r.randrange(os.path.getsize(path)))
                    else:
                        file.seek(r.randrange(os.path.getsize(path)))
                        file.write(os.urandom(64))
            assert digest(chain(folder)) == want


def test_a_stream():
    with scratch() as folder:
        text = "range 2000 | window 50 shift=1 | unique | cast f32 value | {}batch 8"
        cached = text.format(f"cache path='{folder}' | ")
        want = digest(text.format(""))
        assert [digest(cached) for _ in range(3)] == [want] * 3


if __name__ == "__main__":
    tap.main(globals())
