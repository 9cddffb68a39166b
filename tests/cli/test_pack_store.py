"""Many processes pack one dataset into an object store: the objects of one process, byte for byte, whoever was killed and whatever was lost."""
import os
import random
import signal
import subprocess
import threading
import time

import tap
from patience import HANG, wait_until
from store_server import serve
from tool import PENSTOCK, environment, penstock, report, scratch

OPTIONS = ("--shards", 7, "--split", "train=0.8,val=0.2", "--shuffle", 3, "--resize", 16, "--augment", 1)


def pictures(folder, count=60):
    penstock("generate", f"{folder}/pictures", "--images", count, "--size", 24, "--classes", 4, "-q")
    return f"{folder}/pictures"


def objects(store, prefix):
    return {key[len(prefix) + 1:]: value[0] for key, value in store.buckets["data"].items() if key.startswith(prefix + "/")}


def one_process(source, store, env, options=OPTIONS):
    penstock("pack", source, "s3://data/one/set", *options, env=env)
    return objects(store, "one/set")


def pack_parts(source, out, env, parts, options=OPTIONS):
    for k in parts:
        penstock("pack", source, out, "--part", k, *options, env=env)


def test_parts_join_to_the_objects_of_one_process():
    with scratch() as folder, serve() as (store, env):
        source = pictures(folder)
        expected = one_process(source, store, env)
        for parts in (1, 3, 8):
            out = f"{parts}/set"
            order = [f"{k}/{parts}" for k in range(1, parts + 1)]
            random.Random(parts).shuffle(order)
            pack_parts(source, f"s3://data/{out}", env, order)
            here = objects(store, out)
            assert {name for name in here if "tfrecord" in name} == {name for name in expected if "tfrecord" in name}, "shards are in their place"
            assert "pack.json" not in here and "dataset_info.json" not in here, "nothing says that it is complete"
            put = [request for request in store.requests if request[0] == "PUT" and request[1].startswith(out)]
            before = len(store.requests)
            done = report("pack", source, f"s3://data/{out}", "--join", *OPTIONS, env=env)
            assert done["records"] == 120 and not done["up_to_date"] and done["resumed_shards"] == 14, done
            assert objects(store, out) == expected, f"{parts} parts"
            assert not any(request[0] == "PUT" and "tfrecord" in request[1] for request in store.requests[before:]), "a shard was sent twice"
            assert len({request[1] for request in put if "tfrecord" in request[1]}) == sum("tfrecord" in request[1] for request in put)
            assert report("pack", source, f"s3://data/{out}", "--join", *OPTIONS, env=env)["up_to_date"]
            assert report("pack", source, f"s3://data/{out}", *OPTIONS, env=env)["up_to_date"], "the plain command finds its own output"
            assert report("pack", source, f"s3://data/{out}", "--part", f"1/{parts}", *OPTIONS, env=env)["up_to_date"]
            assert objects(store, out) == expected, "nothing was added"


def test_a_part_says_what_comes_next():
    with scratch() as folder:
        penstock("generate", f"{folder}/in", "--images", 12, "--size", 16, "--classes", 2, "-q")
        said = [penstock("pack", f"{folder}/in", f"{folder}/out", "--shards", 2, *how).out for how in (["--part", "1/2"], ["--part", "2/2"], ["--join"])]
        for k in (0, 1):
            assert f"out: part {k + 1}/2\n" in said[k] and f"--join instead of --part {k + 1}/2" in said[k] and "inspect" not in said[k], said
        assert "part" not in said[2] and "penstock inspect" in said[2], said


def test_killed_parts_and_joins_go_on():
    with scratch() as folder, serve() as (store, env):
        source, options = pictures(folder, 120), ("--shards", 12, "--resize", 64)
        expected, chance = one_process(source, store, env, options), random.Random(4)
        for command in [("--part", f"{k}/8") for k in range(1, 9)] + [("--join",)]:
            for _ in range(3):
                process = subprocess.Popen([PENSTOCK, "pack", source, "s3://data/many/set", *command, *map(str, options), "-q"], env=environment(**env))
                time.sleep(chance.uniform(0, 0.1))
                process.send_signal(signal.SIGKILL)
                process.wait()
            penstock("pack", source, "s3://data/many/set", *command, *options, env=env)
        assert objects(store, "many/set") == expected


def test_what_cannot_be_joined():
    with scratch() as folder, serve() as (store, env):
        source, out = pictures(folder), "s3://data/x/set"

        def refused(*arguments, code=1):
            return penstock("pack", source, out, *arguments, env=env, code=code).err

        assert "holds no part" in refused("--join", *OPTIONS)
        pack_parts(source, out, env, ("2/4", "4/4"))
        assert "2 of 4 parts are not complete (1, 3)" in refused("--join", *OPTIONS)
        other = ("--shards", 7, "--split", "train=0.8,val=0.2", "--shuffle", 4, "--resize", 16, "--augment", 1)
        said = refused("--part", "1/4", *other)
        assert "another command" in said and "seed" in said, said
        assert "another command" in refused(*other)
        pack_parts(source, out, env, ("1/4", "3/4"))
        name, data = next((name, data) for name, data in store.buckets["data"].items() if name.startswith("x/") and name.endswith("00005-of-00007"))
        del store.buckets["data"][name]
        assert "is missing or damaged" in refused("--join", *OPTIONS, code=3)
        pack_parts(source, out, env, [f"{k}/4" for k in range(1, 5)])
        assert store.buckets["data"][name] == data
        pack_parts(source, out, env, ("1/2",))
        assert "two divisions" in refused("--join", *OPTIONS)
        for part in (("--part", "1/4"), ("--join",)):
            assert "pack without force" in refused(*part, "--force", *OPTIONS).replace("--force", "force")
        # Another command that takes the place takes the notes of parts with it: they say nothing about its shards, which have the same names.
        penstock("pack", source, out, "--force", *other, env=env)
        assert not any("/part-" in key for key in store.buckets["data"])
        penstock("pack", source, out, "--force", *OPTIONS, env=env)
        assert objects(store, "x/set") == one_process(source, store, env)


def test_a_part_goes_on_after_one_process_and_the_reverse():
    with scratch() as folder, serve() as (store, env):
        source = pictures(folder)
        expected = one_process(source, store, env)
        pack_parts(source, "s3://data/a/set", env, ("1/2",))
        assert report("pack", source, "s3://data/a/set", *OPTIONS, env=env)["resumed_shards"] == 7
        assert {name: data for name, data in objects(store, "a/set").items() if "part-" not in name} == expected


def test_a_new_signature_is_the_same_source():
    """An address is signed anew for each run: what was packed from it is still packed."""
    with scratch() as folder, serve() as (store, env):
        source = pictures(folder, 3)
        names = sorted(os.path.join(at, name) for at, _, names in os.walk(source) for name in names)
        store.public = True
        store.put("lines.txt", b"one\ntwo\n")
        for i, name in enumerate(names):
            with open(name, "rb") as f:
                store.put(f"{i}.png", f.read())
        host = env["AWS_ENDPOINT_URL"]

        def pack(signature):
            query = f"?X-Amz-Signature=a/{signature}&X-Amz-Date={signature}"
            with open(f"{folder}/list.txt", "w") as f:
                f.writelines(f"{host}/data/{i}.png{query} {i}\n" for i in range(len(names)))
            os.utime(f"{folder}/list.txt", (1, 1))
            return [report("pack", f"{host}/data/lines.txt{query}", f"{folder}/lines", "--from", "text", env=env),
                    report("pack", f"{folder}/list.txt", f"{folder}/listed", "--from", "list", env=env)]

        assert [done["up_to_date"] for done in pack(1)] == [False, False]
        assert [done["up_to_date"] for done in pack(2)] == [True, True]


class Gate:
    """Holds requests back from the first shard on, until it is opened."""

    def __init__(self, store):
        self.store, self.opened = store, threading.Event()

    def reached(self):
        with self.store.lock:
            return any(method == "PUT" and "tfrecord" in key for method, key, _ in self.store.requests)

    def wait(self):
        if self.reached():
            self.opened.wait(HANG)


def test_shards_of_two_commands_do_not_mix():
    """A part wakes after its place was given to another command: it notices that, and the other command notices its shards."""
    other = (*OPTIONS[:5], 4, *OPTIONS[6:])
    with scratch() as folder, serve() as (store, env):
        source = pictures(folder)
        expected = one_process(source, store, env, other)
        store.requests.clear()
        store.rounds = gate = Gate(store)
        part = subprocess.Popen([PENSTOCK, "pack", source, "s3://data/m/set", "--part", "1/2", *map(str, OPTIONS)], text=True, stderr=subprocess.PIPE, env=environment(**env))
        wait_until(gate.reached, "the part sends a shard")
        del store.buckets["data"]["m/set/.penstock-pack"]
        for name, data in expected.items():
            store.put(f"m/set/{name}", data)
        gate.opened.set()
        _, err = part.communicate(timeout=HANG)
        assert part.returncode != 0 and "was taken by another command" in err, err
        assert objects(store, "m/set") != expected
        done = report("pack", source, "s3://data/m/set", *other, env=env)
        assert not done["up_to_date"] and done["resumed_shards"] < 14, done
        assert {name: data for name, data in objects(store, "m/set").items() if "part-" not in name} == expected


def start(arguments, env, rank, ranks):
    return subprocess.Popen([PENSTOCK, "pack", *map(str, arguments)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            env=environment(**env, PMI_RANK=str(rank), PMI_SIZE=str(ranks)))


def test_ranks_pack_into_a_store():
    """Started at once; they find each other through the store, and nothing stays there that one process would not have written."""
    with scratch() as folder, serve() as (store, env):
        source = pictures(folder)
        expected = one_process(source, store, env)
        ranks = [start([source, "s3://data/r/set", *OPTIONS], env, rank, 3) for rank in range(3)]
        said = [rank.communicate(timeout=HANG) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0, 0], said
        assert "packed 120 records" in said[0][0] and said[1][0] == said[2][0] == "", said
        assert objects(store, "r/set") == expected
        signs = [request for request in store.requests if request[0] == "PUT" and "/.rank-" in request[1]]
        assert signs and not any("/.rank-" in key for key in store.buckets["data"])


def test_a_rank_that_fails_or_is_silent_is_named():
    with scratch() as folder, serve() as (store, env):
        source = pictures(folder)
        quick = {**env, "PENSTOCK_RANK_TIMEOUT": "1"}
        _, err = start([source, "s3://data/s/set", *OPTIONS], quick, 0, 2).communicate(timeout=HANG)
        assert "rank 1 gives no sign of life" in err, err
        job = {**env, "PMIX_NAMESPACE": "1"}
        other = start([f"{folder}/missing", "s3://data/s/set", *OPTIONS], job, 1, 2)
        other.communicate(timeout=HANG)
        assert other.returncode != 0
        first = start([source, "s3://data/s/set", *OPTIONS], job, 0, 2)
        _, err = first.communicate(timeout=HANG)
        assert first.returncode != 0 and f"rank 1 (process {other.pid} on " in err and "has failed" in err, err


tap.main(globals())
