"""A real S3 server: everything that takes a path takes s3://, with odd keys, long lists, temporary keys, and clear errors."""
import concurrent.futures
import hashlib
import json
import os
import subprocess
import time

import tap
from fault_proxy import most_requests, proxy
from s3_server import SECRET, expired, serve
from tool import scratch

MODEL = "conv 8 3 relu pad=same | maxpool 2 | globalavgpool | dense 3"
ODD = ["plain", "with space", "a=b", "a+b", "a&b", "per%20cent", "ünïcödé-日本", "(a)!*'~,;:@$", "q?x#y"]


def run(server, *arguments, env=None, code=0):
    """Runs the tool against the server; returns what was completed."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run([os.environ["PENSTOCK"], *map(str, arguments)], env={**kept, **server.env, **(env or {})}, capture_output=True, text=True,
                          timeout=600)
    assert code is None or done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def records(server, path, **options):
    quoted = f'"{path}"' if "'" in path else f"'{path}'"
    return run(server, "cat", "-n", 0, f"tfrecord {quoted} | example | select key label", **options).stdout


def make_pictures(server, folder, images=60, size=48):
    run(server, "generate", f"{folder}/pictures", "--images", images, "--size", size, "--classes", 3, "-q")
    return f"{folder}/pictures"


def read(path):
    with open(path, "rb") as f:
        return f.read()


def test_pack_sources_globs_inspect_and_index():
    with scratch() as folder:
        pictures = make_pictures(SERVER, folder)
        run(SERVER, "pack", pictures, f"{folder}/sh", "--shards", 3, "-q")
        run(SERVER, "pack", pictures, "s3://data/sh", "--shards", 3, "-q")
        local = {name: read(f"{folder}/sh/{name}") for name in os.listdir(f"{folder}/sh")}
        assert {key[3:]: SERVER.get(key) for key in SERVER.keys("sh/")} == local, "shards and sidecars"
        expected = records(SERVER, f"{folder}/sh")
        for path in ("s3://data/sh", "s3://data/sh/", "s3://data/sh/*.tfrecord-*", "s3://data/s*/*-of-00003", "s3://data/sh/*-0000[012]-of-*"):
            assert records(SERVER, path) == expected, path
        text = "tfrecord {} | shuffle | example | decode | random_crop 32 | select image label | batch 16"
        shuffled = [run(SERVER, "cat", "-n", 0, text.format(path)).stdout for path in ("s3://data/sh", f"{folder}/sh")]
        assert shuffled[0] == shuffled[1]
        assert json.loads(run(SERVER, "inspect", "--json", "s3://data/sh").stdout)["records"] == 60
        assert json.loads(run(SERVER, "pack", pictures, "s3://data/sh", "--shards", 3, "--json").stdout)["up_to_date"]
        sidecars = [key for key in SERVER.keys("sh/") if key.endswith(".pidx")]
        for key in sidecars:
            SERVER.s3.delete_object(Bucket="data", Key=key)
        assert records(SERVER, "s3://data/sh") == expected and len(SERVER.keys("sh/")) == len(local) - 3, "reading does not write"
        run(SERVER, "index", "s3://data/sh")
        assert {key: SERVER.get(key) for key in SERVER.keys("sh/") if key.endswith(".pidx")}.keys() == set(sidecars)
        run(SERVER, "pack", "s3://data/sh", f"{folder}/again", "--shards", 1, "-q")
        assert json.loads(run(SERVER, "inspect", "--json", f"{folder}/again").stdout)["records"] == 60


def test_parts_are_packed_and_joined():
    """Three parts at once, one of them killed and started again: the objects of one process."""
    with scratch() as folder:
        pictures = make_pictures(SERVER, folder)
        options = ("--shards", 5, "--resize", 32, "--shuffle", 3)
        run(SERVER, "pack", pictures, "s3://data/one/set", *options, "-q")
        expected = {key.removeprefix("one/"): SERVER.get(key) for key in SERVER.keys("one/set/")}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        parts = [subprocess.Popen([os.environ["PENSTOCK"], "pack", pictures, "s3://data/parts/set", "--part", f"{k}/3", *map(str, options), "-q"],
                                  env={**kept, **SERVER.env}) for k in (1, 2, 3)]
        time.sleep(0.05)
        parts[1].kill()
        assert [part.wait(timeout=600) for part in parts][::2] == [0, 0]
        if "parts/set/part-00002-of-00003/pack.json" not in SERVER.keys("parts/set/"):
            assert "1 of 3 parts are not complete (2)" in run(SERVER, "pack", pictures, "s3://data/parts/set", "--join", *options, code=1).stderr
        run(SERVER, "pack", pictures, "s3://data/parts/set", "--part", "2/3", *options, "-q")
        run(SERVER, "pack", pictures, "s3://data/parts/set", "--join", *options, "-q")
        assert {key.removeprefix("parts/"): SERVER.get(key) for key in SERVER.keys("parts/set/")} == expected


def test_checkpoints():
    with scratch() as folder:
        pictures = make_pictures(SERVER, folder)
        train = f"folder {pictures} | shuffle | decode | resize 16 | normalize imagenet | batch 10"
        options = ("--val", f"folder {pictures} | decode | resize 16 | normalize imagenet | batch 10", "--model", MODEL, "--lr", 0.01, "--threads", 1, "-q")
        run(SERVER, "train", train, *options, "--epochs", 3, "--out", f"{folder}/run")
        run(SERVER, "train", train, *options, "--epochs", 3, "--out", "s3://data/run")
        assert SERVER.get("run/latest").strip() == os.readlink(f"{folder}/run/latest").encode() == b"step_00000018"
        assert SERVER.get("run/best").strip() == os.readlink(f"{folder}/run/best").encode()
        digests = [hashlib.sha256(data).hexdigest() for data in (SERVER.get("run/step_00000018/weights.safetensors"),
                                                                 read(f"{folder}/run/latest/weights.safetensors"))]
        assert digests[0] == digests[1], "the same weights as in a folder"
        assert any("tfevents" in key for key in SERVER.keys("run/logs/")) and b"epoch,step" in SERVER.get("run/logs/epochs.csv")
        assert b"<html" in SERVER.get("run/report.html").lower()
        kept = {key.split("/")[1] for key in SERVER.keys("run/step_")}
        assert len(kept) <= 3, kept
        run(SERVER, "train", "--resume", "s3://data/run", "--epochs", 5, "-q")
        assert SERVER.get("run/latest") == b"step_00000030" and len({key.split("/")[1] for key in SERVER.keys("run/step_")}) <= 3
        evaluated = [run(SERVER, "eval", path, options[1], "--json").stdout for path in ("s3://data/run", "s3://data/run/best")]
        assert evaluated[0] == evaluated[1] and "loss" in evaluated[0]
        run(SERVER, "export", "s3://data/run", "s3://data/out/model.onnx")
        assert len(SERVER.get("out/model.onnx")) > 1000
        again = run(SERVER, "train", train, *options, "--epochs", 1, "--out", "s3://data/run", code=None)
        assert again.returncode != 0 and "s3://data/run" in again.stderr and "--resume" in again.stderr, again.stderr
        SERVER.s3.delete_object(Bucket="data", Key="run/step_00000030/state.json")  # as a run leaves it that dies while it saves
        run(SERVER, "train", "--resume", "s3://data/run", "--epochs", 6, "-q")
        assert SERVER.get("run/latest") == b"step_00000036"


def test_faults_before_a_real_server():
    """Through a proxy that fails for a share of the requests: the bytes are right, each failure costs one more request, a changed object is named."""
    with scratch() as folder, proxy(SERVER.url) as (store, url):
        pictures = make_pictures(SERVER, folder, images=40, size=96)
        options = ("--format", "raw", "--shards", 4, "-q")
        run(SERVER, "pack", pictures, f"{folder}/faulty", *options)
        run(SERVER, "pack", pictures, "s3://data/faulty", *options)
        env, store.stall = {"AWS_ENDPOINT_URL": url}, 600
        expected = records(SERVER, f"{folder}/faulty")
        assert records(SERVER, "s3://data/faulty", env=env) == expected
        plain, found = store.count(), {}
        for kind in ("503", "500", "reset", "cut", "whole", "status", "stall"):
            share = 0.1 if kind == "stall" else 0.5
            before, store.faults, store.faulty = store.count(), {kind: share}, ("GET", "HEAD")
            assert records(SERVER, "s3://data/faulty", env=env) == expected, kind
            found[kind] = store.count() - before
            assert found[kind] <= most_requests(plain, share), (kind, plain, found)
        print(f"# {plain} requests without a fault, and where half of them fail (stall: a tenth): {found}")
        store.faults, store.faulty = {"lost": 0.3, "503": 0.2}, ("PUT", "POST")
        run(SERVER, "pack", pictures, "s3://data/again/faulty", *options, env=env)
        assert {key.removeprefix("again/"): SERVER.get(key) for key in SERVER.keys("again/")} == {key: SERVER.get(key) for key in SERVER.keys("faulty/")}
        store.faults, store.faulty = {"etag": 1}, ("GET",)
        said = run(SERVER, "cat", "-n", 0, "tfrecord s3://data/faulty | example", env=env, code=3).stderr
        assert "changed while it was used" in said and "s3://data/faulty/" in said, said


def test_odd_keys():
    with scratch() as folder:
        run(SERVER, "pack", make_pictures(SERVER, folder), f"{folder}/sh", "--shards", 1, "-q")
        shard = read(f"{folder}/sh/sh-train.tfrecord-00000-of-00001")
        expected = records(SERVER, f"{folder}/sh")
        for key in ODD:
            SERVER.put(f"odd/{key}/x y.tfrecord", shard)
            assert records(SERVER, f"s3://data/odd/{key}/x y.tfrecord") == expected, key
            run(SERVER, "pack", f"{folder}/pictures", f"s3://data/out-odd/{key}", "--shards", 1, "-q")
            assert any(SERVER.get(k) == shard for k in SERVER.keys(f"out-odd/{key}/")), key


def test_five_thousand_keys():
    with scratch() as folder:
        pictures = make_pictures(SERVER, folder, images=3, size=16)
        image = next(read(f"{base}/{name}") for base, _, names in os.walk(pictures) for name in names)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda i: SERVER.put(f"many/{i % 7}/{i:05}.jpg", image), range(5000)))
        out = run(SERVER, "cat", "-n", 0, "folder s3://data/many | select label | batch 5000").stdout
        assert out.count("element") == 5000, out[:300]
        said = json.loads(run(SERVER, "plan", "--json", "folder s3://data/many | decode | batch 64").stdout)
        assert "5000" in json.dumps(said) or "5,000" in json.dumps(said)


def test_large_objects_in_parts():
    with scratch() as folder:
        pictures = make_pictures(SERVER, folder, images=400, size=200)
        run(SERVER, "pack", pictures, f"{folder}/raw", "--format", "raw", "--shards", 1, "-q")
        run(SERVER, "pack", pictures, "s3://data/raw", "--format", "raw", "--shards", 1, "-q")
        name, = (name for name in os.listdir(f"{folder}/raw") if name.endswith("-of-00001"))
        head = SERVER.s3.head_object(Bucket="data", Key=f"raw/{name}")
        assert head["ContentLength"] > 33 << 20 and "-" in head["ETag"], head["ETag"]
        assert SERVER.get(f"raw/{name}") == read(f"{folder}/raw/{name}")
        assert not SERVER.s3.list_multipart_uploads(Bucket="data").get("Uploads")


def test_temporary_keys_and_errors():
    with scratch() as folder:
        run(SERVER, "pack", make_pictures(SERVER, folder), "s3://data/keys", "--shards", 1, "-q")
        temporary = SERVER.temporary_keys()
        assert json.loads(run(SERVER, "inspect", "--json", "s3://data/keys", env=temporary).stdout)["records"] == 60
        run(SERVER, "pack", f"{folder}/pictures", "s3://data/keys-2", "--shards", 1, "-q", env=temporary)
        cases = [({"AWS_SESSION_TOKEN": expired(temporary["AWS_SESSION_TOKEN"]), **{k: temporary[k] for k in list(temporary)[:2]}}, "expired"),
                 ({"AWS_ACCESS_KEY_ID": "nobody"}, "access key is not known"), ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "secret key is wrong"),
                 ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "whether keys are set")]
        for env, words in cases:
            for arguments in (("inspect", "s3://data/keys"), ("bench", "tfrecord s3://data/keys | batch 4"), ("pack", f"{folder}/pictures", "s3://data/new")):
                said = run(SERVER, *arguments, env=env, code=1).stderr
                assert words in said and "s3://data" in said and SECRET not in said, said
                assert temporary["AWS_SESSION_TOKEN"] not in said and temporary["AWS_SECRET_ACCESS_KEY"] not in said
        for arguments in (("inspect", "s3://nothing-here/x"), ("pack", f"{folder}/pictures", "s3://nothing-here/x"),
                          ("bench", "tfrecord s3://nothing-here/*.tfrecord | batch 4")):
            said = run(SERVER, *arguments, code=1).stderr
            assert "NoSuchBucket" in said and "check the name of the bucket" in said, said
        assert "s3://data/no/*.x" in run(SERVER, "bench", "tfrecord s3://data/no/*.x | batch 4", code=1).stderr


def test_signed_addresses_and_the_cache():
    with scratch() as folder:
        run(SERVER, "pack", make_pictures(SERVER, folder), "s3://data/web", "--shards", 1, "-q")
        key, = (key for key in SERVER.keys("web/") if key.endswith("-of-00001"))
        url = SERVER.s3.generate_presigned_url("get_object", Params={"Bucket": "data", "Key": key}, ExpiresIn=600)
        assert records(SERVER, url) == records(SERVER, "s3://data/web")
        signature = url.split("Signature=")[1][:20]
        refused = run(SERVER, "cat", "-n", 0, f"tfrecord '{url.replace(signature, 'f' * 20)}' | example", code=None)
        assert refused.returncode == 1 and "403" in refused.stderr, refused
        assert "Signature=" not in refused.stderr and "Expires=" not in refused.stderr and f"{key}?…" in refused.stderr, refused.stderr
        env = {"PENSTOCK_CACHE": f"{folder}/cache"}
        assert records(SERVER, "s3://data/web", env=env) == records(SERVER, "s3://data/web", env=env)
        SERVER.put(key, SERVER.get(key)[:-1])
        changed = run(SERVER, "cat", "-n", 0, "tfrecord s3://data/web | example", env=env, code=None)
        assert changed.returncode == 3, "the cache never serves an old version of a changed object"


with serve() as SERVER:
    tap.main(globals())
