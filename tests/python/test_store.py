"""Object stores from Python: processes that fork while data are on their way, Ctrl-C while a server is silent, parts for hosts."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import penstock  # noqa: E402
import tap  # noqa: E402
from patience import HANG, wait_until  # noqa: E402
from store_server import Rounds, serve, service  # noqa: E402
from tool import scratch  # noqa: E402


def make_shards(folder, store, images=60):
    tool = os.environ["PENSTOCK"]
    subprocess.run([tool, "generate", f"{folder}/pictures", "--images", str(images), "--size", "160", "--classes", "3", "-q"], check=True)
    subprocess.run([tool, "pack", f"{folder}/pictures", f"{folder}/sh", "--format", "raw", "--shards", "3", "-q"], check=True)
    store.put_folder(f"{folder}/sh", "sh")


def keys(data):
    return [key for batch in data for key in batch["key"].tolist()]


def test_a_fork_while_data_are_on_their_way():
    with scratch() as folder, serve() as (store, env):
        make_shards(folder, store)
        os.environ.update(env)
        store.latency = 0.05
        text = "tfrecord s3://data/sh | shuffle | example | select key image | batch 4"
        expected = sorted(keys(penstock.pipeline(text.replace("s3://data/sh", f"{folder}/sh"))))
        assert len(set(expected)) == 60
        data = penstock.pipeline(text)
        batches = iter(data)
        first = next(batches)["key"].tolist()
        child = os.fork()  # blocks are on their way to the parent's threads, which the child has not
        if child == 0:
            signal.alarm(HANG)
            os._exit(0 if sorted(keys(penstock.pipeline(text))) == expected else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0, f"the child ended with {os.waitstatus_to_exitcode(status)}"
        assert sorted(first + keys(batches)) == expected


def test_ctrl_c_while_the_server_is_silent():
    with scratch() as folder, serve() as (store, env):
        make_shards(folder, store, images=12)
        program = ("import penstock\n"
                   "print('ready', flush=True)\n"
                   "for batch in penstock.pipeline('tfrecord s3://data/sh | batch 4'):\n    pass\n")
        store.faults, store.stall = {"silent": 1}, HANG
        process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(store.count, "the server is asked", process)
        asked = store.count()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANG)
        assert "KeyboardInterrupt" in said and store.count() <= asked + 2, (store.count(), said[-500:])  # it does not try on


READ_BESIDE_THE_SERVER = """
import os, subprocess, sys
sys.path[:0] = sys.argv[1:2]
from store_server import serve
with serve() as (store, env):
    os.environ.update(env)
    import penstock
    tool, folder = os.environ["PENSTOCK"], sys.argv[2]
    store.put_folder(f"{folder}/sh", "sh")
    text = f"folder {folder}/pictures | decode | resize 8 | normalize 0..1 | batch 4"
    subprocess.run([tool, "train", text, "--model", "flatten | dense 3", "--epochs", "1", "-q", "--out", "s3://data/run"], check=True)
    assert penstock.Model.load("s3://data/run").text.startswith("flatten")
    shard = next(key for key in sorted(store.buckets["data"]) if "-of-" in key and not key.endswith(".pidx"))
    assert len(penstock.TFRecordReader(f"s3://data/{shard}")[0]) > 0
    with penstock.TFRecordWriter(f"{folder}/long.tfrecord.gz", "gzip") as out:
        for i in range(3000):
            out.write(os.urandom(1000))  # more than opening fetches
    store.put("long.tfrecord.gz", open(f"{folder}/long.tfrecord.gz", "rb").read())
    assert sum(1 for _ in penstock.TFRecordReader("s3://data/long.tfrecord.gz")) == 3000
"""


def test_models_and_records_are_read_while_other_threads_run():
    """The server is a thread of the process: whoever reads without letting it run waits for ever."""
    with scratch() as folder, serve() as (store, _):
        make_shards(folder, store, images=12)
        here = os.path.dirname(os.path.abspath(__file__))
        subprocess.run([sys.executable, "-c", READ_BESIDE_THE_SERVER, os.path.join(here, "..", "cli"), folder], check=True, timeout=HANG)


def round_trips(store, env):
    """(until the pipeline is open, from there to its first batch)"""
    program = ("import penstock\n"
               "data = penstock.pipeline('tfrecord s3://data/sh | shuffle | batch 32', workers=2)\n"
               "data.plan()\n"
               "print('opened', flush=True)\n"
               "input()\n"
               "batch = next(iter(data))\n"
               "print('first', flush=True)\n"
               "input()\n")
    store.rounds = Rounds()
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        store.rounds.pid = process.pid
        assert process.stdout.readline() == "opened\n"
        opened = store.rounds.count
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "first\n"
        return opened, store.rounds.count - opened
    finally:
        store.rounds.end()
        process.communicate("\n", timeout=HANG)


def test_the_first_batch_takes_three_round_trips():
    """After opening, with an index: what it needs is asked for at once. A client that gets no processor asks later: it is given three chances."""
    with scratch() as folder, serve() as (store, env):
        make_shards(folder, store, images=480)  # larger than what opening fetches
        seen = []
        while len(seen) < 3 and not (seen and 1 <= seen[-1][0] <= 10 and 1 <= seen[-1][1] <= 3):
            seen.append(round_trips(store, env))
        assert 1 <= seen[-1][0] <= 10 and 1 <= seen[-1][1] <= 3, f"round trips of opening, of the first batch: {seen}"


def test_many_shards_are_opened_at_once():
    """Each costs a round trip or two; 64 of them wait together."""
    with scratch() as folder, serve() as (store, env):
        tool = os.environ["PENSTOCK"]
        subprocess.run([tool, "generate", f"{folder}/pictures", "--images", "128", "--size", "16", "-q"], check=True)
        subprocess.run([tool, "pack", f"{folder}/pictures", f"{folder}/sh", "--shards", "64", "-q"], check=True)
        store.put_folder(f"{folder}/sh", "sh")
        seen = []
        while len(seen) < 3 and not (seen and seen[-1] <= 8):
            seen.append(round_trips(store, env)[0])
        assert seen[-1] <= 8, f"round trips of opening: {seen}"


LOAD_WHAT_IS_LATEST = """
import penstock
while input() == "load":
    weights = penstock.Model.load("s3://data/run/latest").weights
    print({name: bytes(memoryview(value)).hex() for name, value in weights.items()}, flush=True)
"""


def test_pointers_are_read_anew():
    """`latest` and `best` change while a process runs; what they lead to does not."""
    with scratch() as folder, serve() as (store, env):
        env = {**os.environ, **env}
        tool, objects = os.environ["PENSTOCK"], store.buckets["data"]
        subprocess.run([tool, "generate", f"{folder}/pictures", "--images", "12", "--size", "32", "--classes", "3", "-q"], check=True)
        text = f"folder {folder}/pictures | decode | resize 8 | normalize 0..1 | batch 4"
        for seed in (1, 2):
            subprocess.run([tool, "train", text, "--model", "flatten | dense 3", "--epochs", "1", "--seed", str(seed), "-q", "--out", f"s3://data/run{seed}"],
                           check=True, env=env)
            step = objects[f"run{seed}/latest"][0].decode()
            for key in [key for key in objects if key.startswith(f"run{seed}/{step}/")]:
                store.put(f"run/step-{seed}/" + key.rsplit("/", 1)[1], objects[key][0])
        # The settings of stores are read once per process.
        process = subprocess.Popen([sys.executable, "-c", LOAD_WHAT_IS_LATEST], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def loaded(seed):
            store.put("run/latest", f"step-{seed}".encode())
            process.stdin.write("load\n")
            process.stdin.flush()
            return process.stdout.readline()

        try:
            first = loaded(1)
            assert first.startswith("{") and loaded(2) not in (first, ""), "the pointer was read once"
            assert loaded(1) == first
        finally:
            process.communicate("end\n", timeout=HANG)


READ_EACH = """
import penstock
while (name := input()) != "end":
    try:
        print(len(list(penstock.TFRecordReader(f"s3://data/{name}"))), flush=True)
    except Exception as error:
        print("failed:", error, flush=True)
"""


def test_keys_that_expired_are_renewed_later():
    """A service of keys that is away for so long that the keys expire: reading fails meanwhile, and goes on when it is back."""
    with scratch() as folder, serve() as (store, env), service(store, 2) as (server, url):
        with penstock.TFRecordWriter(f"{folder}/x") as out:
            out.write(b"record")
        for name in "abcd":
            store.put(name, open(f"{folder}/x", "rb").read())
        env = {name: value for name, value in {**os.environ, **env}.items() if "ACCESS_KEY" not in name and "METADATA" not in name}
        env.update(HOME=folder, AWS_PROFILE="", AWS_EC2_METADATA_SERVICE_ENDPOINT=url)
        process = subprocess.Popen([sys.executable, "-c", READ_EACH], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def read(name):
            process.stdin.write(name + "\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        try:
            assert read("a") == "1"
            server.fails = 10**6
            time.sleep(3)  # longer than the keys hold
            store.token = {"another"}  # and the store knows it
            said = [read("b"), read("c")]
            assert all("role does not answer" in line for line in said), said
            server.fails = 0
            assert read("d") == "1" and read("b") == "1"
        finally:
            process.communicate("end\n", timeout=HANG)


def test_the_cache_of_the_module():
    with scratch() as folder, serve() as (store, env):
        make_shards(folder, store)
        os.environ.update(env)
        penstock.configure_store(cache=f"{folder}/cache", cache_bytes=1 << 30, evict="lru", ca_file=f"{folder}/ca.pem")  # of which http:// needs nothing
        expected = keys(penstock.pipeline("tfrecord s3://data/sh | example | select key image | batch 4"))
        assert len(set(expected)) == 60 and any(name.endswith(".data") for name in os.listdir(f"{folder}/cache"))
        penstock.configure_store()
        try:
            penstock.configure_store(evict="fifo")
        except ValueError as error:
            assert "lru" in str(error)
        else:
            raise AssertionError("accepted")


def test_hosts():
    found = []
    for rank in range(4):
        data = penstock.range(400).shuffle().batch(8).distributed(rank, 4, "allow", hosts=2)
        found.append([value for batch in data for value in batch["value"].tolist()])
    assert sorted(sum(found, [])) == list(range(400))
    mixed = sum(value >= 200 for value in found[0] + found[1]) + sum(value < 200 for value in found[2] + found[3])
    assert mixed <= 8, f"{mixed} samples of the other host's part"


def test_hosts_of_the_launcher():
    from penstock._ranks import machines

    def found(rank, world, **variables):
        kept = dict(os.environ)
        os.environ.update(variables)
        try:
            return machines(rank, world)
        except ValueError as error:
            return str(error)
        finally:
            os.environ.clear()
            os.environ.update(kept)

    for local, size in (("LOCAL_RANK", "LOCAL_WORLD_SIZE"), ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("MPI_LOCALRANKID", "MPI_LOCALNRANKS")):
        assert [found(rank, 6, **{local: str(rank % 2), size: "2"}) for rank in range(6)] == [3] * 6
        assert "one machine after the other" in found(1, 4, **{local: "0", size: "2"}) and "as many ranks" in found(0, 4, **{local: "0", size: "3"})
    assert found(0, 1) == 1 and "pass the number of machines" in found(0, 2)
    os.environ.update(RANK="2", WORLD_SIZE="4", LOCAL_RANK="0", LOCAL_WORLD_SIZE="2")
    try:
        auto, two = (penstock.range(400).shuffle().batch(8).distributed(uneven="allow", hosts=hosts) for hosts in ("auto", 2))
        assert [batch["value"].tolist() for batch in auto] == [batch["value"].tolist() for batch in two]
    finally:
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            del os.environ[name]


tap.main(globals())
