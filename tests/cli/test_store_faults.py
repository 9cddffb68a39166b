"""Object stores that misbehave: at 1, 10 and 50 % of the requests the bytes are right or the error has a name, memory stays flat, requests are
counted; silent servers can be interrupted; answers that are lost; keys of roles that are renewed."""
import os
import signal
import subprocess
import threading
import time

import tap
from patience import HANG, wait_until
from store_server import most_requests, serve, service
from tool import PENSTOCK, environment, penstock, report, scratch

def test_bytes_are_right_or_the_error_has_a_name():
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/pictures", "--images", 80, "--size", 160, "--classes", 3, "-q")
        penstock("pack", f"{folder}/pictures", f"{folder}/raw", "--format", "raw", "--shards", 4, "-q")
        store.put_folder(f"{folder}/raw", "raw")
        text = "tfrecord {} | shuffle | example | select key image label | batch 16"
        expected = penstock("cat", "-n", 0, text.format(f"{folder}/raw")).out

        def measure():
            """The exit code, what was said, bytes of memory, requests."""
            before = store.count()
            process = subprocess.Popen([PENSTOCK, "cat", "-n", "0", text.format("s3://data/raw")], env=environment(**env), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT)
            out = process.stdout.read().decode()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, out, usage.ru_maxrss << 10, store.count() - before

        code, out, plain_memory, plain_requests = measure()
        assert code == 0 and out == expected
        store.stall = 10 * HANG  # whoever waits for the server hangs
        found = {}
        for kind in ("503", "500", "reset", "cut", "whole", "status", "shifted", "stall"):
            for share in (0.01, 0.1, 0.5) if kind != "stall" else (0.01, 0.1):
                store.faults, store.faulty = {kind: share}, ("GET",) if kind in ("whole", "status", "shifted", "stall") else ("GET", "HEAD")
                code, out, memory, requests = measure()
                where = f"{kind} at {share}: exit {code}, {memory >> 20} MB, {requests} requests instead of {plain_requests}: {out[:200]}"
                assert code == 0 and out == expected, where
                assert memory < plain_memory + (24 << 20) and requests <= most_requests(plain_requests, share), where
                found.setdefault(share, []).append(requests)
        print(f"# {plain_requests} requests became", ", ".join(f"{min(n)} to {max(n)} at {share:.0%}" for share, n in found.items()))
        store.faults, store.changes = {}, store.count("GET") + 4  # the list and some of the 4 shards and 4 indexes: more requests follow at any speed
        code, out, _, _ = measure()
        assert code == 3 and "changed while it was used" in out and "s3://data/raw/" in out, out[-500:]


def test_a_server_that_is_down_is_not_stormed():
    with serve() as (store, env):
        store.put("x.tfrecord", b"x" * 1000)
        store.faults = {"503": 1}
        said = penstock("bench", "tfrecord s3://data/x.tfrecord | batch 1", env=env, code=1).err
        assert "503" in said and "attempts" in said and "s3://data/x.tfrecord" in said, said
        assert store.count() <= 25, store.requests


def test_a_silent_server_can_be_interrupted():
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/pictures", "--images", 20, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/pictures", f"{folder}/sh", "--shards", 1, "-q")
        store.put_folder(f"{folder}/sh", "sh")
        store.faults, store.stall = {"silent": 1}, HANG
        for arguments in (["bench", "tfrecord s3://data/sh | batch 4"], ["inspect", "s3://data/sh"], ["pack", f"{folder}/pictures", "s3://data/new"],
                          ["index", "s3://data/sh"]):
            before = store.count()
            process = subprocess.Popen([PENSTOCK, *arguments], env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            wait_until(lambda: store.count() > before, "the server is asked", process)
            asked = store.count()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=HANG)
            assert process.returncode == 130, (arguments, process.returncode, said)
            assert store.count() <= asked + 2, (arguments, store.requests[before:])  # one that goes on trying asks ten times


def test_lost_answers_to_uploads():
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/in", "--images", 40, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/in", f"{folder}/sh", "--shards", 8, "-q")
        store.faults, store.faulty = {"lost": 0.5}, ("PUT", "POST")
        penstock("pack", f"{folder}/in", "s3://data/sh", "--shards", 8, "-q", env=env)
        assert {key[3:]: value[0] for key, value in store.buckets["data"].items()} == {
            name: open(f"{folder}/sh/{name}", "rb").read() for name in os.listdir(f"{folder}/sh")}
        penstock("generate", f"{folder}/big", "--images", 300, "--size", 200, "--classes", 2, "-q")
        store.faults, store.faulty = {"lost": 0.4}, ("POST",)  # the answers that say that the parts were joined
        penstock("pack", f"{folder}/big", "s3://data/big", "--format", "raw", "--shards", 1, "-q", env=env)
        penstock("pack", f"{folder}/big", f"{folder}/raw", "--format", "raw", "--shards", 1, "-q")
        for name in os.listdir(f"{folder}/raw"):
            other = "big" + name[3:] if name.startswith("raw") else name
            if name.endswith("-of-00001"):
                assert store.buckets["data"][f"big/{other}"][0] == open(f"{folder}/raw/{name}", "rb").read()


def test_keys_of_roles_are_fetched_and_renewed():
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/pictures", "--images", 20, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/pictures", f"{folder}/sh", "--shards", 2, "-q")
        store.put_folder(f"{folder}/sh", "sh")
        bare = {name: value for name, value in env.items() if "ACCESS_KEY" not in name and "METADATA" not in name}
        bare.update(HOME=folder, AWS_PROFILE="")
        with open(f"{folder}/token", "w") as f:
            f.write("secret-of-the-container\n")
        for seconds, least, most in ((3600, 1, 2), (200, 3, 1000)):  # keys that expire soon are renewed in front of each request
            with service(store, seconds) as (server, url):
                for role in ({"AWS_EC2_METADATA_SERVICE_ENDPOINT": url},
                             {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret-of-the-container"},
                             {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/container", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": f"{folder}/token"}):
                    server.given = 0
                    assert report("inspect", "s3://data/sh", env={**bare, **role})["records"] == 20
                    assert least <= server.given <= most, (role, server.given)
        with service(store, 200) as (server, url):  # a renewal that fails does not matter while the keys hold
            server.fails = 1000
            assert report("inspect", "s3://data/sh", env={**bare, "AWS_EC2_METADATA_SERVICE_ENDPOINT": url})["records"] == 20
            assert server.given == 1 and server.fails > 990, (server.given, server.fails)
        refused = penstock("inspect", "s3://data/sh", env={**bare, "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/x"}, code=1).err
        assert "role does not answer" in refused, refused


def test_what_must_be_local():
    with serve() as (store, env):
        store.public = True
        store.put("x.h5", b"\x89HDF\r\n\x1a\n" + b"0" * 1000)
        said = penstock("cat", "hdf5 s3://data/x.h5 | batch 1", env=env, code=None)
        assert said.code in (1, 2) and "local" in said.err, said
        said = penstock("bench", "range 10 | cache path=s3://data/cache | batch 2", env=env, code=None)
        assert said.code in (1, 2) and "local disk" in said.err, said
        web = env["AWS_ENDPOINT_URL"] + "/data/none.tfrecord?X-Amz-Signature=abcdef&more=1"
        said = penstock("cat", f"tfrecord '{web}' | batch 1", env=env, code=1).err
        assert "abcdef" not in said and "none.tfrecord?…" in said, said
        host = env["AWS_ENDPOINT_URL"].replace("http://", "http://me:password@")
        assert "password" not in penstock("inspect", f"{host}/data/none.tfrecord", env=env, code=1).err


def seen_by_top(pipeline, env, folder):
    """What `penstock top` says of a pipeline that runs."""
    process = subprocess.Popen([PENSTOCK, "bench", pipeline, "--seconds", "100000", "--quiet"], env=environment(**env, PENSTOCK_MONITOR=folder),
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        look = ["top", "--once", "--interval", "0.2", "--folder", folder]
        said = wait_until(lambda: "tfrecord" in (words := penstock(*look, code=None).out) and words, "top shows the pipeline", process)
        return [("top", said), ("top --json", penstock(*look, "--json").out)]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=HANG)


def test_signatures_of_addresses_appear_nowhere():
    """Neither in what is printed nor in what is written, whatever the signature has in it."""
    with scratch() as folder, serve() as (store, env):
        store.public = True
        penstock("generate", f"{folder}/pictures", "--images", 20, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/pictures", f"{folder}/sh", "--shards", 1, "-q")
        store.put_folder(f"{folder}/sh", "sh")
        store.buckets["data"] = {key: value for key, value in store.buckets["data"].items() if not key.endswith(".pidx")}
        plain = {name: value for name, value in env.items() if "ACCESS" not in name and name != "PENSTOCK_CACHE"}
        plain.update(HOME=folder, XDG_CACHE_HOME=f"{folder}/cache")
        base = env["AWS_ENDPOINT_URL"] + "/data/sh/sh-train.tfrecord-00000-of-00001"
        shown = []
        for signature in ("One", "Two"):
            url = f"{base}?X-Amz-Date=1,b|c&X-Amz-Signature=Geheim{signature}"
            pipeline = f"tfrecord '{url}' | example | decode | resize 16 | batch 4"
            for arguments in (["plan", pipeline], ["plan", "--json", pipeline], ["bench", "--json", pipeline], ["inspect", url], ["inspect", "--json", url],
                              ["index", url], ["index", "--json", url], ["bench", "--trace", f"{folder}/trace.json", pipeline],
                              ["plan", pipeline.replace("resize", "rezise")], ["plan", f"tfrecord '{url}' '{url}' | rezise 3"],
                              ["doctor", "--seconds", "2", "-q", "--html", f"{folder}/doctor.html", pipeline], ["doctor", "--seconds", "2", "-q", "--json", pipeline],
                              ["doctor", "--seconds", "2", "-q", "--html", f"{folder}/shards.html", url], ["doctor", "--seconds", "2", "-q", "--json", url],
                              ["plan", pipeline.replace("-of-00001", "-missing")], ["inspect", url.replace("-of-00001", "-missing")], ["pack", url, f"{folder}/x"]):
                said = penstock(*arguments, env=plain, code=None)
                shown.append((arguments[0], said.out + said.err))
            batches = pipeline.replace("decode", "decode | select image label")
            for arguments in (["train", batches, "--val", batches, "--model", "globalavgpool | dense 2", "--epochs", "1", "--out", f"{folder}/run{signature}"],
                              ["eval", f"{folder}/run{signature}", batches], ["predict", f"{folder}/run{signature}", url]):
                said = penstock(*arguments, env=plain, code=None)
                shown.append((arguments[0], said.out + said.err))
            assert "val" in shown[-3][1] and "accuracy" in shown[-2][1], shown[-3:]
            shown += seen_by_top(pipeline, plain, f"{folder}/top{signature}")
        for path, _, files in os.walk(f"{folder}"):
            for file in {*files} - {"state.json"}:  # a checkpoint has the command as it was written
                with open(os.path.join(path, file), "rb") as f:
                    shown.append((file, os.path.join(path, file) + f.read().decode("latin-1")))
        for what, text in shown:
            for secret in ("Geheim", "X-Amz"):
                assert secret not in text, f"{what}: {text[max(0, text.index(secret) - 100):][:200]}"
        indexes = [file for _, _, files in os.walk(f"{folder}/cache") for file in files if file.endswith(".pidx")]
        assert len(indexes) == 1 and "?" not in indexes[0], indexes
        kept = [file for _, _, files in os.walk(f"{folder}/cache") for file in files if file.endswith(".data")]
        assert len(kept) == 2, f"the shard and the names of its labels, once for all signatures: {kept}"


def test_a_request_that_lags_behind_gets_a_second():
    """Its bytes never stall, and would take hours; the others have shown how fast the store is."""
    with scratch() as folder, serve() as (store, env):
        with open(f"{folder}/big.txt", "w") as f:
            f.writelines(f"{i:09}" + "x" * 40_000 + "\n" for i in range(800))
        penstock("pack", f"{folder}/big.txt", f"{folder}/big", "--from", "text", "--shards", 1, "-q")
        store.put_folder(f"{folder}/big", "big")
        text = "tfrecord {} | batch 4"
        expected = penstock("cat", "-n", 0, text.format(f"{folder}/big")).out
        for cache in ("", f"{folder}/cache"):
            store.requests.clear()
            store.trickled, store.trickles = 0, lambda begin, end: begin >= 16 << 20 and end - begin > 1 << 20
            assert penstock("cat", "-n", 0, text.format("s3://data/big"), env={**env, "PENSTOCK_CACHE": cache}).out == expected
            spans = [[int(x) for x in request[2][len("bytes="):].split("-")] for request in store.requests if request[2]]
            assert store.trickled == 1, spans
            assert sum(end - begin + 1 for begin, end in spans) < 2 * 32_100_000, f"one more request: {spans}"


def test_an_object_of_unknown_size():
    with serve() as (store, env):
        store.public = True
        store.put("x.tfrecord", b"x" * 1000)
        store.faults, store.faulty = {"chunked": 1}, ("GET", "HEAD")
        web = env["AWS_ENDPOINT_URL"] + "/data/x.tfrecord"
        said = penstock("inspect", web, env=env, code=None)
        assert said.code != 0 and "how large the object is" in said.err and store.count() <= 2, (said, store.requests)


def test_the_first_error_wins():
    """A request that is slow gets a second one beside it; the error of the first is what is said, whatever becomes of the second."""
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/pictures", "--images", 20, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/pictures", f"{folder}/sh", "--shards", 1, "-q")
        store.put_folder(f"{folder}/sh", "sh")
        name, arrived, second = "sh/sh-train.tfrecord-00000-of-00001", [], threading.Event()

        def fault(method, request):
            if method != "GET" or not request[1].endswith(name):
                return None
            with store.lock:
                arrived.append(request)
                first = len(arrived) == 1
            if first:
                second.wait(HANG)  # it is silent until there is another request for the same bytes
                return "denied"
            second.set()
            time.sleep(2)  # by then the first has been answered
            return "gone"

        store.next_fault = fault
        said = penstock("cat", "-n", 0, f"tfrecord s3://data/{name} | batch 4", env=env, code=None)
        assert len(arrived) > 1 and said.code != 0 and "AccessDenied" in said.err, (arrived, said)


def test_a_slow_service_of_keys_delays_nobody_who_has_keys():
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/pictures", "--images", 20, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/pictures", f"{folder}/sh", "--shards", 8, "-q")
        store.put_folder(f"{folder}/sh", "sh")
        bare = {name: value for name, value in env.items() if "ACCESS_KEY" not in name and "METADATA" not in name}
        bare.update(HOME=folder, AWS_PROFILE="")
        with service(store, 200) as (server, url):  # they expire soon: they are renewed in front of each request
            server.slow = 1.5
            assert report("inspect", "s3://data/sh", env={**bare, "AWS_EC2_METADATA_SERVICE_ENDPOINT": url})["records"] == 20
            # Requests went on while keys were fetched: more of them than fetches, which take 4.5 s each.
            assert store.count() > 2 * server.given, (store.count(), server.given)


tap.main(globals())
