"""How large requests for data are: as latency, bandwidth and memory demand. Counted at the server."""
import tap
from store_server import serve
from tool import penstock, scratch

MB = 1 << 20
LINE = MB - 17  # a record of 1 MiB with its frame
COUNT = 128


def sizes_of_requests(store, env, latency, rate, **options):
    """Reads a shard of 128 MiB and returns the bytes of each request for its data, in order."""
    store.latency, store.rate = latency, rate
    store.requests.clear()
    env = {**env, "PENSTOCK_STORE_MEMORY": str(512 * MB)}  # not what this machine has available
    said = penstock("bench", "tfrecord s3://data/big | batch 4", "--epochs", 1, "--json", env={**env, **options}).out
    store.latency = store.rate = 0
    assert f'"samples":{COUNT}' in said.replace(" ", "").replace("\n", ""), said
    spans = [r[2][len("bytes="):].split("-") for r in store.requests if r[2] and not r[1].endswith(".pidx")]
    assert sum(int(end) - int(begin) + 1 for begin, end in spans) >= COUNT * LINE
    return [int(end) - int(begin) + 1 for begin, end in spans]


def test_requests_fit_the_way_to_the_server():
    """A request waits for at most an eighth of its time: over a long way with much bandwidth there are fewer and larger ones. Otherwise, and with little memory,
    they stay as they are, or shrink."""
    with scratch() as folder, serve() as (store, env):
        with open(f"{folder}/big.txt", "w") as f:
            f.writelines("x" * (LINE - 1) + "\n" for _ in range(COUNT))
        penstock("pack", f"{folder}/big.txt", f"{folder}/big", "--shards", 1, "--from", "text", "-q")
        store.put_folder(f"{folder}/big", "big")
        near = sizes_of_requests(store, env, 0, 4e6)  # with a latency of 0.29 s, 8 MiB would still do
        assert max(near) == 8 * MB, sorted(near)
        far = sizes_of_requests(store, env, 0.6, 10e6, PENSTOCK_CONNECTIONS="4")  # with 3 MB/s, 8 MiB would not do
        assert max(far) in (16 * MB, 32 * MB) and sum(size > 8 * MB for size in far) >= 2, sorted(far)
        assert len([size for size in far if size > MB]) < len([size for size in near if size > MB]), (near, far)
        little = sizes_of_requests(store, env, 0, 0, PENSTOCK_STORE_MEMORY=str(16 * MB))
        assert max(little) <= 2 * MB, sorted(little)


tap.main(globals())
