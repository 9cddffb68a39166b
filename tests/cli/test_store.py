"""Object stores: every command reads and writes s3:// and http:// paths; keys, lists, faults, the cache, errors."""
import fcntl
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import tap
from patience import HANG
from store_server import certificates, most_requests, serve
from tool import PENSTOCK, environment, penstock, report, scratch

ODD = ["plain.txt", "with space.txt", "a=b+c.txt", "ünïcödé/日本.txt", "per%20cent&amp;.txt", "(a)!*'~,;:@$.txt"]


def make_shards(folder, store, prefix="shards", images=60, shards=3, env=None):
    """Packs into a local folder and puts the files into the store; returns the local folder."""
    penstock("generate", f"{folder}/pictures", "--images", images, "--size", 48, "--classes", 4, "-q")
    penstock("pack", f"{folder}/pictures", f"{folder}/{prefix}", "--shards", shards, "-q")
    store.put_folder(f"{folder}/{prefix}", prefix)
    return f"{folder}/{prefix}"


def records(path, env, **options):
    return penstock("cat", "-n", 0, f"tfrecord {path} | example | select key label", env=env, **options).out


def test_pipelines_read_what_local_ones_read():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store)
        for path in ("s3://data/shards", "s3://data/shards/", "s3://data/shards/shards-train.tfrecord-*", "s3://data/sh*/*-of-00003"):
            assert records(path, env) == records(local, env), path
        shuffled = "tfrecord {} | shuffle | example | decode | random_crop 32 | select image label | batch 16"
        assert penstock("cat", "-n", 0, shuffled.format("s3://data/shards"), env=env).out == penstock("cat", "-n", 0, shuffled.format(local), env=env).out


def test_inspect_index_and_a_folder_of_images():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store)
        remote = report("inspect", "s3://data/shards", env=env)
        assert remote["records"] == 60
        for name in os.listdir(f"{folder}/pictures"):
            for file in os.listdir(f"{folder}/pictures/{name}"):
                with open(f"{folder}/pictures/{name}/{file}", "rb") as f:
                    store.put(f"pictures/{name}/{file}", f.read())
        text = "folder {} | select label | batch 60"
        assert penstock("cat", "-n", 0, text.format("s3://data/pictures"), env=env).out == penstock("cat", "-n", 0, text.format(f"{folder}/pictures"),
                                                                                           env=env).out
        for key in [key for key in store.buckets["data"] if key.endswith(".pidx")]:
            del store.buckets["data"][key]
        before = dict(store.buckets["data"])
        assert records("s3://data/shards", env) == records(local, env)
        assert store.buckets["data"] == before, "reading does not write to the bucket"
        penstock("index", "--rebuild", "s3://data/shards", env=env)
        assert sum(key.endswith(".pidx") for key in store.buckets["data"]) == 3


def test_repair_in_a_store():
    """Copies of a folder's shards and their description go into another folder, as here; a damaged shard is never replaced."""
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store)
        objects, name = store.buckets["data"], "shards-train.tfrecord-00001-of-00003"
        damaged = bytearray(objects[f"shards/{name}"][0])
        damaged[len(damaged) // 2] ^= 1
        store.put(f"shards/{name}", bytes(damaged))
        with open(f"{local}/{name}", "wb") as f:
            f.write(damaged)
        penstock("repair", local, f"{folder}/clean", code=3)
        penstock("repair", "s3://data/shards", "s3://data/clean", env=env, code=3)
        penstock("repair", f"s3://data/shards/{name}", "s3://data/one/", env=env, code=3)
        clean = {key.split("/")[1]: value[0] for key, value in objects.items() if key.startswith("clean/")}
        assert clean == {file: open(f"{folder}/clean/{file}", "rb").read() for file in os.listdir(f"{folder}/clean")}, clean.keys()
        assert objects[f"one/{name}"][0] == clean[name]
        for out in (f"s3://data/shards/{name}", "s3://data/shards/"):
            assert "would replace the damaged shard" in penstock("repair", f"s3://data/shards/{name}", out, "--force", env=env, code=2).err
        assert objects[f"shards/{name}"][0] == damaged
        penstock("repair", "s3://data/shards/shards-train.tfrecord-00000-of-00003", "s3://data/shards/again.tfrecord", env=env)


def test_pack_into_a_store():
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/in", "--images", 40, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/in", f"{folder}/sh", "--shards", 2)
        penstock("pack", f"{folder}/in", "s3://data/sh", "--shards", 2, env=env)
        assert store.connections < store.count("PUT") // 2, f"{store.connections} connections for {[r[0] for r in store.requests]}: they are not kept"
        objects = {key[3:]: value[0] for key, value in store.buckets["data"].items()}
        local = {name: open(f"{folder}/sh/{name}", "rb").read() for name in os.listdir(f"{folder}/sh")}
        assert objects == local
        assert report("pack", f"{folder}/in", "s3://data/sh", "--shards", 2, env=env)["up_to_date"]
        assert "another command" in penstock("pack", f"{folder}/in", "s3://data/sh", "--shards", 3, env=env, code=1).err
        penstock("pack", "s3://data/sh", f"{folder}/again", "--shards", 1, env=env)
        assert report("inspect", f"{folder}/again")["records"] == 40


def asked_of(store, key, env):
    """The ranges of a shard that are asked for when its folder is opened."""
    store.requests.clear()
    penstock("plan", f"tfrecord s3://data/{key.rsplit('/', 1)[0]} | batch 4", env=env)
    return [request[2] for request in store.requests if request[1] == key]


def test_large_objects_are_sent_in_parts():
    with scratch() as folder, serve() as (store, env):
        with open(f"{folder}/big.txt", "wb") as f:
            f.write(b"".join(b"%09d " % i + b"x" * 990 + b"\n" for i in range(70_000)))
        penstock("pack", f"{folder}/big.txt", "s3://data/big", "--shards", 1, "--from", "text", env=env)
        name = next(key for key in store.buckets["data"] if key.endswith("-of-00001"))
        assert store.buckets["data"][name][1].endswith('-5"'), "five parts"
        assert asked_of(store, name, env) == [], "the index has the ETag of the parts"
        assert report("inspect", "s3://data/big", env=env)["records"] == 70_000
        assert store.uploads == {}


def test_odd_keys_and_long_lists():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, shards=1)
        data = store.buckets["data"].pop("shards/shards-train.tfrecord-00000-of-00001")[0]
        expected = records(local, env)
        for key in ODD:
            store.put(f"odd/{key}/x.tfrecord", data)
            assert records(f"'s3://data/odd/{key}/x.tfrecord'" if "'" not in key else f'"s3://data/odd/{key}/x.tfrecord"', env) == expected, key
        store.page = 100
        penstock("generate", f"{folder}/image", "--images", 2, "--size", 16, "--classes", 2, "-q")
        image = next(open(f"{path}/{file}", "rb").read() for path, _, files in os.walk(f"{folder}/image") for file in files)
        for i in range(550):
            store.put(f"many/{i % 3}/{i:04}.jpg", image)
        found = penstock("cat", "-n", 0, "folder s3://data/many | select label | batch 1000", env=env).out
        assert found.count("element") == 550, found[:500]


def test_keys_and_buckets_that_are_wrong():
    with scratch() as folder, serve() as (store, env):
        make_shards(folder, store, shards=1)
        wrong = {"AWS_ACCESS_KEY_ID": ("nobody", "access key is not known"), "AWS_SECRET_ACCESS_KEY": ("nonsense", "secret key is wrong")}
        for name, (value, words) in wrong.items():
            refused = penstock("inspect", "s3://data/shards", env={**env, name: value}, code=1)
            assert words in refused.err and value not in refused.err and "test-secret" not in refused.err, refused
        assert "NoSuchBucket" in penstock("inspect", "s3://nothing/shards", env=env, code=1).err
        assert "no such file or folder" in penstock("inspect", "s3://data/none", env=env, code=1).err
        assert "expected s3://BUCKET/KEY" in penstock("inspect", "s3:///x", env=env, code=2).err
        store.token = "fresh"
        refused = penstock("inspect", "s3://data/shards", env={**env, "AWS_SESSION_TOKEN": "stale"}, code=1)
        assert "session token has expired" in refused.err and "stale" not in refused.err
        penstock("inspect", "s3://data/shards", env={**env, "AWS_SESSION_TOKEN": "fresh"})
        store.token = None
        bare = {name: value for name, value in env.items() if "ACCESS_KEY" not in name}
        home = f"{folder}/home"
        os.makedirs(f"{home}/.aws")
        with open(f"{home}/.aws/credentials", "w") as f:
            f.write("[default]\naws_access_key_id = x\n\n[mine]\naws_access_key_id = test-key\naws_secret_access_key=test-secret\n")
        penstock("inspect", "s3://data/shards", env={**bare, "HOME": home, "AWS_PROFILE": "mine"})
        assert "AccessDenied" in penstock("inspect", "s3://data/shards", env={**bare, "HOME": home}, code=1).err, "half of a pair of keys"
        with open(f"{home}/.aws/config", "w") as f:
            f.write("[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = mine\n[profile process]\ncredential_process = /bin/get\n")
        for profile, words in (("other", 'no profile "other"'), ("role", "role_arn, which is not supported"), ("process", "credential_process, which is not")):
            mine = {"HOME": home, "AWS_PROFILE": profile}
            assert words in penstock("inspect", "s3://data/shards", env={**bare, **mine}, code=None).err, profile
            penstock("inspect", "s3://data/shards", env={**env, **mine})  # keys in variables count first


def test_buckets_in_the_host_name():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, shards=1)
        env = {**env, "AWS_ENDPOINT_URL": env["AWS_ENDPOINT_URL"].replace("127.0.0.1", "localhost"), "PENSTOCK_VIRTUAL_HOST": "1"}
        assert records("s3://data/shards", env) == records(local, env)
        assert "NoSuchBucket" in penstock("inspect", "s3://shards/x", env=env, code=1).err


def test_errors_say_it_once():
    with scratch() as folder, serve() as (store, env):
        store.public = True
        web = env["AWS_ENDPOINT_URL"] + "/data"
        for arguments, words in ((("train", "--resume", "s3://data/run"), "s3://data/run/latest/state.json: no such object\n"),
                                 (("generate", "s3://data/x", "--images", 3), "penstock pack FOLDER s3://"),
                                 (("inspect", f"{web}/*"), "a web server does not list its files"),
                                 (("plan", f"tfrecord {web}/a/sh-* | batch 2"), "a web server does not list its files")):
            said = penstock(*arguments, env=env, code=None)
            assert said.code in (1, 2) and words in said.err and "No such file" not in said.err, said


def test_faults_are_survived():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, images=200, shards=6)
        expected, plain = records(local, env), None
        for kind in (None, "503", "500", "reset", "cut", "whole", "status", "shifted"):
            for share in ((0,) if kind is None else (0.1, 0.5)):
                store.faults = {kind: share} if kind else {}
                before = store.count()
                said = records("s3://data/shards", env, code=None)
                assert said == expected, f"{kind} at {share}: {said[:300]}"
                made = store.count() - before
                plain = plain or made
                assert made <= most_requests(plain, share), f"{kind} at {share}: {made} requests instead of {plain}"


def test_a_stalled_transfer_goes_on():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, shards=4)
        expected = records(local, env)
        store.faults, store.faulty, store.stall = {"stall": 0.2}, ("GET",), 10 * HANG  # whoever waits for the server hangs
        assert records("s3://data/shards", env) == expected


def test_a_changed_object_is_named():
    with scratch() as folder, serve() as (store, env):
        make_shards(folder, store, shards=1)
        store.faults, store.faulty = {"etag": 1}, ("GET",)
        refused = penstock("cat", "-n", 0, "tfrecord s3://data/shards/shards-train.tfrecord-00000-of-00001 | example | select key", env=env, code=None)
        assert refused.code == 3 and "changed while it was used" in refused.err and "shards-train" in refused.err, refused


def test_weak_etags_are_compared_here():
    """No condition can be made of one; another one is another object all the same."""
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store)
        objects = store.buckets["data"]
        store.buckets["data"] = {key: (data, "W/" + etag) for key, (data, etag) in objects.items()}
        expected = records(local, env)
        for cache in ("", f"{folder}/cache"):
            assert records("s3://data/shards", {**env, "PENSTOCK_CACHE": cache}) == expected
        store.changes = store.count("GET") + 3
        refused = penstock("cat", "-n", 0, "tfrecord s3://data/shards | example | select key", env=env, code=None)
        assert refused.code == 3 and "changed while it was used" in refused.err, refused


def test_lists_name_remote_files():
    """In lists here and in lists in a bucket; the keys of records have no signatures."""
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/pictures", "--images", 6, "--size", 32, "--classes", 2, "-q")
        found = sorted((os.path.relpath(f"{path}/{file}", f"{folder}/pictures"), f"{path}/{file}") for path, _, files in os.walk(f"{folder}/pictures")
                       for file in files if file.endswith(".jpg"))
        for name, path in found:
            with open(path, "rb") as f:
                store.put(f"pp/{name}", f.read())
        store.public = True
        web = env["AWS_ENDPOINT_URL"] + "/data/pp"
        lists = {"here": [f"s3://data/pp/{name}" for name, _ in found], "web": [f"{web}/{name}?X-Amz-Signature=Geheim" for name, _ in found],
                 "beside": [name for name, _ in found]}
        for which, names in lists.items():
            text = "".join(f"{name},{i % 2}\n" for i, name in enumerate(names))
            with open(f"{folder}/{which}.csv", "w") as f:
                f.write(text)
            store.put(f"pp/{which}.csv", text.encode())
            for path in (f"s3://data/pp/{which}.csv", *([f"{folder}/{which}.csv"] if which != "beside" else [])):
                assert penstock("cat", "-n", 0, f"files {path} | select label | batch 6", env=env).out.count("element") == 6, path
                out = f"{folder}/out-{which}-{path[:2] == 's3'}"
                penstock("pack", path, out, "--from", "list", "--shards", 1, env=env)
                keys = penstock("cat", "-n", 0, f"tfrecord {out} | example | select key", env=env).out
                assert keys.count("element") == 6 and "Geheim" not in keys, (path, keys)


def test_the_cache_is_used_checked_and_shared():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, shards=3)
        expected, env = records(local, env), {**env, "PENSTOCK_CACHE": f"{folder}/cache"}
        assert records("s3://data/shards", env) == expected
        store.requests.clear()
        assert records("s3://data/shards", env) == expected
        assert not [request for request in store.requests if request[2]], "nothing is fetched again"
        data = [f"{folder}/cache/{name}" for name in os.listdir(f"{folder}/cache") if name.endswith(".data")]
        for name in data:
            with open(name, "r+b") as f:
                f.seek(os.path.getsize(name) // 2)
                byte = f.read(1)
                f.seek(-1, 1)
                f.write(bytes([byte[0] ^ 255]))
        assert records("s3://data/shards", env) == expected, "damaged blocks are fetched again"
        subprocess.run(["rm", "-rf", f"{folder}/cache"], check=True)
        store.requests.clear()
        store.latency = 0.02
        processes = [subprocess.Popen([PENSTOCK, "cat", "-n", "0", "tfrecord s3://data/shards | example | select key label"],
                                      env=environment(**env), stdout=subprocess.PIPE, text=True) for _ in range(3)]
        assert [process.communicate(timeout=HANG)[0] for process in processes] == [expected] * 3
        fetched = [request for request in store.requests if request[0] == "GET" and request[2]]
        assert len(fetched) < 3 * len(set(fetched)), "what one process fetches, the others wait for"


def test_what_was_downloaded_is_listed_and_removed():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store)
        cache = f"{folder}/cache"
        env = {**env, "PENSTOCK_CACHE": cache}
        assert report("cache", "--remote", env=env)["copies"] == [], "before the folder is made"
        assert records("s3://data/shards", env) == records(local, env)
        sizes = {os.path.getsize(f"{local}/{name}") for name in os.listdir(local) if "-of-" in name and not name.endswith(".pidx")}
        shards = [copy for copy in report("cache", "--remote", env=env)["copies"] if copy["size"] in sizes]
        assert {copy["address"] for copy in shards} == {f"s3://data/shards/shards-train.tfrecord-0000{i}-of-00003" for i in range(3)}, shards
        assert f"{shards[0]['key']}  {shards[0]['address']}: " in penstock("cache", "--remote", env=env).out
        assert len(shards) == 3 and all(copy["bytes"] >= copy["size"] and 0 <= time.time() - copy["used"] < HANG for copy in shards), shards
        with open(f"{cache}/{shards[0]['key']}.map", "rb") as f:
            fcntl.lockf(f, fcntl.LOCK_SH, 16, 16)  # as a process has it that reads the copy
            kept = [copy for copy in report("cache", "--remote", "--clear", env=env)["copies"] if not copy["removed"]]
            assert [(copy["key"], copy["in_use"]) for copy in kept] == [(shards[0]["key"], True)], kept
        assert records("s3://data/shards", env) == records(local, env)
        assert "copies\n" in penstock("cache", "--remote", cache).out
        assert " removed\n" in penstock("cache", "--remote", "--clear", cache).out
        assert not [name for name in os.listdir(cache) if name != "room"]
        assert records("s3://data/shards", env) == records(local, env)
        assert "no cache folder is set" in penstock("cache", "--remote", env={**env, "PENSTOCK_CACHE": ""}, code=2).err
        assert "a folder is missing" in penstock("cache", code=2).err


def test_a_killed_process_leaves_a_sound_cache():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, images=120, shards=6)
        expected, env = records(local, env), {**env, "PENSTOCK_CACHE": f"{folder}/cache"}
        store.latency, chance = 0.01, random.Random(3)
        for _ in range(12):
            process = subprocess.Popen([PENSTOCK, "cat", "-n", "0", "tfrecord s3://data/shards | example | select key label"],
                                       env=environment(**env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 0.25))
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert records("s3://data/shards", env) == expected


def test_web_servers_are_read_and_not_listed():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, shards=1)
        store.public = True
        base = env["AWS_ENDPOINT_URL"] + "/data/shards"
        plain = {name: value for name, value in env.items() if not name.startswith("AWS_ACCESS") and not name.startswith("AWS_SECRET")}
        assert records(f"{base}/shards-train.tfrecord-00000-of-00001", plain) == records(local, env)
        assert penstock("inspect", base, env=plain, code=None).code != 0
        refused = penstock("pack", f"{folder}/pictures", base + "/out", env=plain, code=1)
        assert "a web server" in refused.err, refused


def test_servers_with_a_certificate_of_their_own():
    if not shutil.which("openssl"):
        raise tap.Skip("openssl is not installed")
    with scratch() as folder:
        authority, certificate = certificates(folder)
        with serve(certificate) as (store, env):
            local = make_shards(folder, store, shards=1)
            expected, home = records(local, env), f"{folder}/home"
            os.makedirs(f"{home}/.aws")
            env.update({"AWS_CA_BUNDLE": "", "CURL_CA_BUNDLE": "", "SSL_CERT_FILE": "", "HOME": folder})
            with open(f"{home}/.aws/config", "w") as f:
                f.write(f"[default]\nca_bundle = {authority}\n")
            for trust in ({"AWS_CA_BUNDLE": authority}, {"CURL_CA_BUNDLE": authority}, {"SSL_CERT_FILE": authority}, {"HOME": home}):
                assert records("s3://data/shards", {**env, **trust}) == expected, trust
            penstock("pack", f"{folder}/pictures", "s3://data/new", "--shards", 1, env={**env, "AWS_CA_BUNDLE": authority})
            store.public = True
            web = env["AWS_ENDPOINT_URL"] + "/data/shards/shards-train.tfrecord-00000-of-00001"
            assert records(web, {**env, "AWS_CA_BUNDLE": authority}) == expected
            for trust, path in (({}, "s3://data/shards"), ({}, web), ({"AWS_CA_BUNDLE": f"{folder}/none"}, "s3://data/shards"),
                                ({"AWS_CA_BUNDLE": authority, "AWS_ENDPOINT_URL": env["AWS_ENDPOINT_URL"].replace("127.0.0.1", "localhost")}, "s3://data/shards")):
                before, asked = store.connections, store.count()
                refused = penstock("inspect", path, env={**env, **trust}, code=1)
                assert "AWS_CA_BUNDLE" in refused.err and "attempts" not in refused.err, refused
                assert store.connections - before <= 2 and store.count() == asked, "it is not tried again"


def test_redirections_of_web_servers_are_followed():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, shards=1)
        store.public = True
        base, name = env["AWS_ENDPOINT_URL"] + "/data", "shards-train.tfrecord-00000-of-00001"
        store.put("old", b"x")
        store.moved["old"] = f"{base}/shards/{name}"
        plain = {name: value for name, value in env.items() if not name.startswith("AWS_ACCESS") and not name.startswith("AWS_SECRET")}
        store.buckets["data"]["old"] = store.buckets["data"][f"shards/{name}"]
        assert records(f"{base}/old", plain) == records(local, env)


def test_the_cache_keeps_to_its_size():
    with scratch() as folder, serve() as (store, env):
        local = make_shards(folder, store, shards=3)
        size = sum(os.path.getsize(f"{local}/{name}") for name in os.listdir(local))
        for room, kept in ((10 * size, True), (1000, False)):
            limited = {**env, "PENSTOCK_CACHE": f"{folder}/cache-{room}", "PENSTOCK_CACHE_BYTES": str(room)}
            for _ in range(3):
                store.requests.clear()
                assert records("s3://data/shards", limited) == records(local, env)
            again = [request for request in store.requests if request[2]]
            assert bool(again) != kept, f"{len(again)} requests with room for {room}"


def occupied(folder):
    """Bytes on the disk, as the system counts them; files may vanish meanwhile."""
    total = 0
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            total += os.stat(f"{folder}/{name}").st_blocks * 512
        except FileNotFoundError:
            pass
    return total


def large_shards(folder, store, prefix, count, seed=1, records=None):
    """Shards of random records of 80 kB, 8 each unless told; returns the local folder."""
    chance = random.Random(seed)
    with open(f"{folder}/{prefix}.txt", "w") as f:
        f.writelines(chance.randbytes(40_000).hex() + "\n" for _ in range(records or 8 * count))
    penstock("pack", f"{folder}/{prefix}.txt", f"{folder}/{prefix}", "--shards", count, "--from", "text", "-q")
    store.put_folder(f"{folder}/{prefix}", prefix)
    return f"{folder}/{prefix}"


def watched(commands, env, cache):
    """Runs commands at once; returns what they print, and the most bytes that the folder had meanwhile."""
    processes = [subprocess.Popen([PENSTOCK, *command], env=environment(**env), stdout=subprocess.PIPE, text=True) for command in commands]
    most, out = 0, []
    readers = [threading.Thread(target=lambda p=process: out.append(p.communicate(timeout=HANG)[0])) for process in processes]
    for reader in readers:
        reader.start()
    while any(reader.is_alive() for reader in readers):
        most = max(most, occupied(cache))
        time.sleep(0.003)
    return out, max(most, occupied(cache))


def test_the_budget_holds_and_counts_what_is_stored():
    """By blocks, for all processes together; what there is no room for is read all the same, and the budget is used."""
    with scratch() as folder, serve() as (store, env):
        local = large_shards(folder, store, "big", 12)
        size = sum(os.path.getsize(f"{local}/{name}") for name in os.listdir(local))
        text = "tfrecord {} | shuffle | batch 4"
        expected = penstock("cat", "-n", 0, text.format(local)).out
        budget, cache = size // 2, f"{folder}/cache"
        limited = {**env, "PENSTOCK_CACHE": cache, "PENSTOCK_CACHE_BYTES": str(budget)}
        command = ["cat", "-n", "0", text.format("s3://data/big")]
        out, most = watched([command] * 3, limited, cache)
        assert out == [expected] * 3
        assert budget // 2 < most <= budget, (most, budget, size)
        store.requests.clear()
        assert penstock(*command, env=limited).out == expected
        assert occupied(cache) <= budget


def test_a_machine_caches_its_part():
    """It opens all shards, and reads a part of them, and hardly anything of the others: what that part needs is room enough."""
    with scratch() as folder, serve() as (store, env):
        local = large_shards(folder, store, "big", 4, records=500)
        size, cache = sum(os.path.getsize(f"{local}/{name}") for name in os.listdir(local)), f"{folder}/cache"
        env = {**env, "PENSTOCK_CACHE": cache, "PENSTOCK_CACHE_BYTES": str(int(0.66 * size))}
        # 125 batches: each machine takes 63, so that one of them is of the other's part.
        half = ["cat", "-n", "0", "tfrecord s3://data/big | shuffle | batch 4", "--rank", "1", "--world", "2", "--hosts", "2"]
        first = penstock(*half, env=env).out
        store.requests.clear()
        assert penstock(*half, env=env).out == first
        again = [request for request in store.requests if request[2] and ".pidx" not in request[1]]
        assert not again, f"{len(again)} requests, though the half of the data fits: {again[:5]}"
        assert occupied(cache) < 0.66 * size


def fetched_bytes(store):
    return sum(int(end) - int(begin) + 1 for begin, end in (r[2][len("bytes="):].split("-") for r in store.requests if r[2]))


def test_little_memory_is_enough():
    """Without a cache, what was read is dropped when memory is short; what finds no memory goes to a file. All bytes are right, in every epoch."""
    with scratch() as folder, serve() as (store, env):
        local = large_shards(folder, store, "big", 4, records=500)
        size = sum(os.path.getsize(f"{local}/{name}") for name in os.listdir(local))
        for text in ("tfrecord {} | repeat 3 | batch 4", "tfrecord {} | shuffle | repeat 2 | batch 4"):
            expected = penstock("cat", "-n", 0, text.format(local)).out
            for memory, most in ((str(16 << 20), 3.6), (str(1 << 30), 1.6)):  # with requests that are made twice because they are slow
                store.requests.clear()
                assert penstock("cat", "-n", 0, text.format("s3://data/big"), env={**env, "PENSTOCK_STORE_MEMORY": memory}).out == expected, (text, memory)
                assert fetched_bytes(store) <= most * size, (text, memory, fetched_bytes(store) / size)


def test_old_copies_make_room():
    with scratch() as folder, serve() as (store, env):
        sets = [large_shards(folder, store, name, 6, seed) for seed, name in enumerate(("one", "two", "three"), 1)]
        size = max(sum(os.path.getsize(f"{local}/{name}") for name in os.listdir(local)) for local in sets)
        text, cache = "tfrecord {} | batch 4", f"{folder}/cache"
        expected = [penstock("cat", "-n", 0, text.format(local)).out for local in sets]
        commands = [["cat", "-n", "0", text.format(f"s3://data/{name}")] for name in ("one", "two", "three")]

        def fetched(number, environment_):
            store.requests.clear()
            out, most = watched([commands[number]], environment_, cache)
            assert out == [expected[number]] and most <= budget, (number, most, budget)
            return len([request for request in store.requests if request[2]])

        budget = int(2.3 * size)
        keep = {**env, "PENSTOCK_CACHE": cache, "PENSTOCK_CACHE_BYTES": str(budget)}
        evict = {**keep, "PENSTOCK_CACHE_EVICT": "lru"}
        assert fetched(0, keep) and fetched(1, keep) and fetched(2, keep)
        assert not fetched(0, keep) and not fetched(1, keep) and fetched(2, keep), "nothing is evicted unless it is asked for"
        assert not fetched(0, evict)  # used last
        assert fetched(2, evict) and not fetched(2, evict), "the third has room now"
        assert not fetched(0, evict) and fetched(1, evict), "the one that was not used for longest has made it"
        # Processes that read what others would evict, with room for little more than one: all bytes are right, and the budget holds.
        budget = int(1.3 * size)
        tight = {**evict, "PENSTOCK_CACHE_BYTES": str(budget)}
        for _ in range(3):
            subprocess.run(["rm", "-rf", cache], check=True)
            out, most = watched(commands * 2, tight, cache)
            assert sorted(out) == sorted(expected * 2) and most <= budget, (most, budget)
        # Killed at any time: the next process finds a sound cache, and counts what is there.
        chance = random.Random(7)
        store.latency = 0.005
        for i in range(10):
            process = subprocess.Popen([PENSTOCK, *commands[i % 3]], env=environment(**tight), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert occupied(cache) <= budget, (occupied(cache), budget)
        store.latency = 0
        for number in range(3):
            fetched(number, tight)


def scale():
    """bench/scale.py, as a module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "scale.py")
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location("scale", path))
    module.__spec__.loader.exec_module(module)
    return module


def test_opening_asks_once():
    """Whoever opens a folder asks for each thing once: whether it is one, what lies in it, the ends of shards, indexes."""
    with scratch() as folder, serve() as (store, env):
        penstock("generate", f"{folder}/pictures", "--images", 30, "--size", 32, "--classes", 2, "-q")
        penstock("pack", f"{folder}/pictures", f"{folder}/sh", "--shards", 3, "-q")
        store.put_folder(f"{folder}/sh", "a/sh")
        for path, most in (("s3://data/a/sh", 2), ("s3://data/a/sh/", 1), ("s3://data/a/*", 5)):
            store.requests.clear()
            penstock("plan", f"tfrecord {path} | shuffle | batch 4", env=env)
            asked = [request for request in store.requests if request[0] == "HEAD" or not request[1]]
            assert len(asked) <= most, (path, asked)
            twice = [request for request in set(store.requests) if request[1] and store.requests.count(request) > 1]
            assert not twice, (path, twice)
            if path.endswith("sh"):  # what bench/scale.py computes with
                assert len(store.requests) == scale().opening_requests(3, sum(len(value[0]) for value in store.buckets["data"].values()) // 3), store.requests


def write_lines(path, seed):
    """180 lines of more than 8 MiB; their lengths are the same for every seed."""
    lengths, chance = random.Random(3), random.Random(seed)
    with open(path, "w") as f:
        f.writelines(chance.randbytes(lengths.randrange(1000, 60_000)).hex() + "\n" for _ in range(180))


def test_an_index_with_the_etag_of_its_shard_stands_for_samples():
    """Opening a large shard asks for nothing of it if its index notes the ETag that it has; otherwise for samples. An index of other bytes is never used."""
    with scratch() as folder, serve() as (store, env):
        env = {**env, "XDG_CACHE_HOME": f"{folder}/cache"}
        for seed, name in enumerate(("first", "second")):
            write_lines(f"{folder}/{name}.txt", seed)
            penstock("pack", f"{folder}/{name}.txt", f"{folder}/{name}/big", "--shards", 1, "--from", "text", "-q")

        def lines(path):
            return penstock("cat", "-n", 0, f"tfrecord {path} | batch 4", env=env).out

        def samples():
            return len(asked_of(store, key, env))

        penstock("pack", f"{folder}/first.txt", "s3://data/big", "--shards", 1, "--from", "text", "-q", env=env)
        objects = store.buckets["data"]
        key = next(key for key in objects if key.endswith(".pidx"))[:-len(".pidx")]
        assert len(objects[key][0]) > 8 << 20
        first, second = lines(f"{folder}/first/big"), lines(f"{folder}/second/big")
        assert first != second and samples() == 0 and len(store.requests) == scale().opening_requests(1, 9 << 20), store.requests
        assert lines("s3://data/big") == first
        store.put_folder(f"{folder}/first/big", "big")
        assert samples() >= 16, "a copied index knows no ETag"
        assert lines("s3://data/big") == first
        penstock("index", "s3://data/big", env=env)
        assert samples() == 0 and lines("s3://data/big") == first, "now it does"
        kept = objects[f"{key}.pidx"]
        penstock("index", "s3://data/big", env=env)
        assert objects[f"{key}.pidx"] == kept and not any(request[0] == "PUT" for request in store.requests), "nothing to add"
        store.put_folder(f"{folder}/second/big", "big")
        objects[f"{key}.pidx"] = kept  # of an earlier shard with records of the same lengths
        assert samples() >= 16 and lines("s3://data/big") == second
        del objects[f"{key}.pidx"]
        assert lines("s3://data/big") == second and samples() == 0, "the index in the cache folder has the ETag"
        store.put_folder(f"{folder}/first/big", "big")
        del objects[f"{key}.pidx"]
        assert samples() >= 16 and lines("s3://data/big") == first


def test_no_server_is_an_error_soon():
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "PENSTOCK_CACHE": ""}
    refused = penstock("inspect", "s3://data/x", env=env, code=1)
    assert "attempts" in refused.err, refused


tap.main(globals())
