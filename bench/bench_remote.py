#!/usr/bin/env python3
"""Reading from a real S3 server beside the readers and loaders of others, in one run.

    bench_remote.py setup   --peers PEERS --venvs VENVS --data DATA --server DIR
    bench_remote.py measure --peers PEERS --venvs VENVS --data DATA --server DIR [--rounds 2] [--parts cold,raw,capped,trips,cache] [--only WORD...]
    bench_remote.py stop    --peers PEERS --server DIR

PEERS has s3_server.py, fault_proxy.py, read_peer.py and curl_multi.c; VENVS their environments. DATA has tfrecord/, tar/, mds/ and litdata/ with the same
JPEGs, each shard of tfrecord/ with its index, and raw/ with shards of raw images, all named 000.tfrecord and so on (setup makes raw/ from DATA/files, if
it is missing). setup uploads everything, and `penstock index` adds the ETags of the shards to their indexes; the server stays until `stop`. PENSTOCK_BUILD is the build folder. The machine should be idle.

cold    JPEG shards, nothing in a cache: ours, loaders, plain readers, and the limit (parallel ranges that nobody looks at); rounds in turns
raw     the same with raw images, by those that read TFRecords
capped  30 ms latency, 100 MB/s: MB/s after the first second, in order and shuffled
trips   200 ms latency: how many round trips opening takes, and then the first batch
cache   second epoch and second process from the cache, beside local files
"""
import argparse
import contextlib
import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("PENSTOCK_BUILD", os.path.join(HERE, "..", "build")))
# name, kind, environment, arguments of read_peer.py, whether it reads TFRecords
PEERS = [("s3torchconnector, 2 workers", "loader", "torch", "s3torch", True),
         ("webdataset http, 2 workers", "loader", "torch", "webdataset how=http", False),
         ("mosaicml-streaming, 2 workers", "loader", "torch", "mosaic", False),
         ("litdata, 2 workers", "loader", "torch", "litdata", False),
         ("tf.data + tensorflow-io s3", "loader", "tf216", "tfdata", True),
         ("boto3, 8 threads", "reader", "client", "boto", True),
         ("aws-c-s3 (awscrt)", "reader", "client", "crt", True),
         ("rclone copy, then read", "reader", "client", "rclone", True),
         ("curl -Z, 8 ranges of 8 MB", "limit", "client", "curl", True)]


def environment(a):
    env = {**os.environ, "PENSTOCK_BUILD": BUILD, "PENSTOCK_CACHE": ""}
    for line in open(os.path.join(a.server, "env")):
        name, _, value = line[len("export "):].strip().partition("=")
        env[name] = value
    return {**env, "RCLONE": os.path.join(a.venvs, "client", "bin", "rclone")}


def result(command, env, seconds=150):
    """The RESULT line of a program; None: it failed, and said why."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        print("# no answer within %d s: %s" % (seconds, " ".join(command)), flush=True)
        return None
    line = next((text[7:] for text in done.stdout.splitlines() if text.startswith("RESULT ")), None)
    if not line:
        print("# failed: %s: %s" % (" ".join(command[:4]), ((done.stderr or done.stdout).strip().splitlines() or [""])[-1]), flush=True)
    return json.loads(line) if line else None


@contextlib.contextmanager
def proxy(a, env, *options):
    """The same environment, through a proxy that is slow."""
    with tempfile.TemporaryDirectory() as folder:
        ready = os.path.join(folder, "ready")
        process = subprocess.Popen([sys.executable, os.path.join(a.peers, "fault_proxy.py"), "--listen", "0", "--upstream", env["S3_URL"].rsplit(":")[-1],
                                    "--ready", ready, *options])
        while not (os.path.exists(ready) and open(ready).read()):
            time.sleep(0.05)
        url = "http://127.0.0.1:" + open(ready).read().strip()
        try:
            yield {**env, "S3_URL": url, "AWS_ENDPOINT_URL": url, "AWS_ENDPOINT_URL_S3": url, "S3_ENDPOINT_URL": url}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def ours(env, path, *options):
    return result([sys.executable, os.path.join(HERE, "bench_store.py"), path, *options], env)


def peer(a, env, what, bucket, megabytes):
    _, _, venv, arguments, _ = what
    words = arguments.split()
    with tempfile.TemporaryDirectory() as cache:
        found = result([os.path.join(a.venvs, venv, "bin", "python"), os.path.join(a.peers, "read_peer.py"), words[0], bucket, cache, *words[1:]], env)
    if found and words[0] == "curl":  # it does not know how much it has read
        found["mb_s"] = megabytes / found["seconds"]
    return found


def ranges(a, env, bucket):
    """libcurl's multi interface in C: parallel ranges in order."""
    program = os.path.join(a.server, "curl_multi")
    if not os.path.exists(program):
        subprocess.run(["cc", "-O2", os.path.join(a.peers, "curl_multi.c"), "-lcurl", "-o", program], check=True)
    return result([program, "8", "8388608", "524288", "16"] + ["%s/%s/tfrecord/%03d.tfrecord" % (env["S3_URL"], bucket, n) for n in range(8)], env)


# ---- Setting up ----

def setup(a):
    program = [os.path.join(a.venvs, "client", "bin", "python"), os.path.join(a.peers, "s3_server.py")]
    raw = os.path.join(a.data, "raw")
    if not glob.glob(os.path.join(raw, "*.tfrecord")):
        with tempfile.TemporaryDirectory(dir=a.data) as folder:
            subprocess.run([os.path.join(BUILD, "cli", "penstock"), "pack", os.path.join(a.data, "files"), os.path.join(folder, "x"), "--format", "raw", "--rgb",
                            "--resize", "192x192", "--shards", "8", "-q"], check=True)
            os.makedirs(raw, exist_ok=True)
            for n, path in enumerate(sorted(glob.glob(os.path.join(folder, "x", "*-of-00008")))):
                os.rename(path, os.path.join(raw, "%03d.tfrecord" % n))
                os.rename(path + ".pidx", os.path.join(raw, "%03d.tfrecord.pidx" % n))
    os.makedirs(a.server, exist_ok=True)
    subprocess.run([*program, "start", a.server, "--weed", os.path.join(a.venvs, "client", "bin", "weed")], check=True, stdout=subprocess.DEVNULL)
    for bucket in ("data", "raw"):
        subprocess.run([*program, "bucket", a.server, bucket, "--public"], check=True)
    for bucket, prefix, folder in [("data", name + "/", name) for name in ("tfrecord", "tar", "mds", "litdata")] + [("raw", "tfrecord/", "raw")]:
        files = sorted(glob.glob(os.path.join(a.data, folder, "*")))
        subprocess.run([*program, "upload", a.server, bucket, prefix, *files], check=True)
    for bucket in ("data", "raw"):
        subprocess.run([os.path.join(BUILD, "cli", "penstock"), "index", "-q", f"s3://{bucket}/tfrecord"], env=environment(a), check=True)
    print("ready: %s" % a.server)


def stop(a):
    subprocess.run([sys.executable, os.path.join(a.peers, "s3_server.py"), "stop", a.server], check=True)


# ---- Measuring ----

def shards(a, bucket):
    return sorted(glob.glob(os.path.join(a.data, "raw" if bucket == "raw" else "tfrecord", "*.tfrecord")))


def cold(a, env, bucket="data"):
    megabytes = sum(map(os.path.getsize, shards(a, bucket))) / 1e6
    runs = [("penstock, module", "ours", lambda: ours(env, f"s3://{bucket}/tfrecord")),
            ("penstock, tool", "ours", lambda: ours(env, f"s3://{bucket}/tfrecord", "--tool")),
            ("libcurl multi (C)", "limit", lambda: ranges(a, env, bucket))]
    for what in PEERS:
        if bucket == "data" or what[4]:
            runs.append((what[0], what[1], lambda what=what: peer(a, env, what, bucket, megabytes)))
    runs = [run for run in runs if not a.only or run[1] != "loader" and run[1] != "reader" or any(word in run[0] for word in a.only)]
    found = {name: [] for name, _, _ in runs}
    for _ in range(a.rounds):
        for name, _, run in runs:
            one = run()
            if one:
                found[name].append(one["mb_s"])
    best = {}
    for name, kind, _ in runs:
        speeds = found[name]
        print("%-6s %-6s %-30s %s" % ("raw" if bucket == "raw" else "cold", kind, name, " ".join("%6.0f" % x for x in speeds) + " MB/s" if speeds else "failed"), flush=True)
        if speeds:
            best[kind] = max(best.get(kind, (0, ""))[0:2], (statistics.median(speeds), name))
    mine = best.get("ours")
    for kind, goal in (("loader", ">= 2"), ("reader", ""), ("limit", ">= 0.90")):
        if mine and kind in best:
            print("%-6s RATIO medians: %s %.0f / best %s (%s) %.0f = %.2f %s" %
                  ("raw" if bucket == "raw" else "cold", mine[1], mine[0], kind, best[kind][1], best[kind][0], mine[0] / best[kind][0], goal and f"(goal {goal})"), flush=True)


def raw(a, env):
    cold(a, env, "raw")


def capped(a, env):
    with proxy(a, env, "--latency-ms", "30", "--rate-mb", "100") as slow:
        for title, options in (("in order", []), ("shuffled", ["--pipeline", "| shuffle"])):
            for _ in range(a.rounds):
                one = ours(slow, "s3://data/tfrecord", *options)
                if one:
                    print("capped 30 ms, 100 MB/s, %-8s: %.1f MB/s after the first second: %.1f %% of the cap (goal >= 95); all %.1f MB/s, first batch after %.2f s" %
                          (title, one["after_1s_mb_s"], one["after_1s_mb_s"], one["mb_s"], one["first_s"]), flush=True)


def trips(a, env):
    with proxy(a, env, "--latency-ms", "200") as slow:
        for _ in range(a.rounds):
            one = ours(slow, "s3://data/tfrecord", "--pipeline", "| shuffle", "--batches", "1")
            if one:
                print("trips  200 ms a round trip: opening %.2f s (%.1f round trips), then the first batch %.2f s (%.1f; goal <= 3)" %
                      (one["open_s"], one["open_s"] / 0.2, one["first_s"] - one["open_s"], (one["first_s"] - one["open_s"]) / 0.2), flush=True)


def cache(a, env):
    folder = tempfile.mkdtemp(dir=a.server)
    try:
        kept = {**env, "PENSTOCK_CACHE": folder}
        for _ in range(a.rounds):
            shutil.rmtree(folder)
            first = ours(kept, "s3://data/tfrecord", "--epochs", "3")
            later = ours(kept, "s3://data/tfrecord", "--epochs", "3")
            local = ours(env, os.path.join(a.data, "tfrecord"), "--epochs", "3")
            if first and later and local:
                print("cache  MB/s of epochs: from the store %s; new process, from its cache %s; local files %s; second epoch / local %.2f, new process / local %.2f" %
                      (first["epochs_mb_s"], later["epochs_mb_s"], local["epochs_mb_s"], first["epochs_mb_s"][1] / local["epochs_mb_s"][1],
                       later["epochs_mb_s"][1] / local["epochs_mb_s"][1]), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=["setup", "measure", "stop"])
    for name in ("peers", "venvs", "data", "server"):
        p.add_argument("--" + name, default="")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--parts", default="cold,raw,capped,trips,cache")
    p.add_argument("--only", nargs="*", default=[])
    arguments = p.parse_args()
    if arguments.command != "measure":
        globals()[arguments.command](arguments)
    else:
        for part in arguments.parts.split(","):
            globals()[part](arguments, environment(arguments))
