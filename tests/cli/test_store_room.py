"""Remote data that are larger than every disk of the machine: the disks of private copies and of the cache are full, and all bytes are right."""
import os
import random
import sys

import tap
from store_server import serve
from tool import penstock, scratch

SMALL_DISK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "small_disk.py")
LEAST_MEMORY = 16 << 20


def on_small_disk(size, place, *arguments, env):
    done = penstock(*arguments, env=env, code=None, prefix=[sys.executable, SMALL_DISK, str(size), place])
    if done.code == 77:
        raise tap.Skip("no mounts here")
    assert done.code == 0, done
    return done.out


def large_shards(folder, store, megabytes, shards):
    """Shards of random lines of 80 kB."""
    chance = random.Random(1)
    with open(f"{folder}/big.txt", "w") as f:
        f.writelines(chance.randbytes(40_000).hex() + "\n" for _ in range(megabytes * 1_000_000 // 80_000))
    penstock("pack", f"{folder}/big.txt", f"{folder}/big", "--shards", shards, "--from", "text", "-q", "--force")
    store.buckets["data"].clear()
    store.put_folder(f"{folder}/big", "big")
    return f"{folder}/big"


def fetched_bytes(store):
    return sum(int(end) - int(begin) + 1 for begin, end in (r[2][len("bytes="):].split("-") for r in store.requests if r[2]))


def test_a_full_disk_of_private_copies():
    with scratch() as folder, serve() as (store, env):
        for shards in (2, 10):  # the latter are small enough to be mapped where there is room
            local = large_shards(folder, store, 61, shards)
            size = sum(os.path.getsize(f"{local}/{name}") for name in os.listdir(local))
            tight = {**env, "PENSTOCK_STORE_MEMORY": str(LEAST_MEMORY), "PENSTOCK_KEEP": os.path.basename(folder)}
            for text, most in (("tfrecord {} | repeat 2 | batch 4", 7), ("tfrecord {} | shuffle | batch 4", 7)):  # of the requests; some of them are ended early
                expected = penstock("cat", "-n", 0, text.format(local)).out
                for cache in ({}, {"PENSTOCK_CACHE": f"{folder}/cache", "PENSTOCK_CACHE_BYTES": str(10 << 20)}):
                    store.requests.clear()
                    said = on_small_disk(8 << 20, "/tmp", "cat", "-n", 0, text.format("s3://data/big"), env={**tight, **cache})
                    assert said == expected, (text, shards, cache)
                    assert fetched_bytes(store) <= most * size, (text, shards, cache, fetched_bytes(store) / size)


def test_mapped_shards_on_a_full_disk():
    """They lie in memory then."""
    with scratch() as folder, serve() as (store, env):
        local = large_shards(folder, store, 15, 2)
        text = "tfrecord {} io=map | batch 4"
        expected = penstock("cat", "-n", 0, text.format(local)).out
        env["PENSTOCK_KEEP"] = os.path.basename(folder)
        for cache in ({}, {"PENSTOCK_CACHE": f"{folder}/cache", "PENSTOCK_CACHE_BYTES": str(10 << 20)}):
            for size in (8 << 10, 4 << 20):
                assert on_small_disk(size, "/tmp", "cat", "-n", 0, text.format("s3://data/big"), env={**env, **cache}) == expected, (cache, size)


def test_a_full_disk_of_the_cache():
    with scratch() as folder, serve() as (store, env):
        local = large_shards(folder, store, 15, 3)
        cache = f"{folder}/cache"
        os.mkdir(cache)
        for text in ("tfrecord {} | batch 4", "tfrecord {} | shuffle | repeat 2 | batch 4"):
            expected = penstock("cat", "-n", 0, text.format(local)).out
            for size in (4 << 20, 64 << 10, 8 << 10):
                assert on_small_disk(size, cache, "cat", "-n", 0, text.format("s3://data/big"), env={**env, "PENSTOCK_CACHE": cache}) == expected, (text, size)


tap.main(globals())
