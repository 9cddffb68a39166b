"""`penstock index` and `penstock repair`: on whole, damaged, compressed and read-only shards."""
import gzip
import os
import signal
import subprocess

import tap
from patience import HANG, catches, cpu_seconds, has_open, wait_until, wait_until_asleep
from tool import PENSTOCK, environment, frame, penstock, report, scratch, tree, unframe, unprivileged

RECORDS = [b"record %d " % i + bytes(range(i % 50)) for i in range(100)]


def shard(path, records=RECORDS):
    with open(path, "wb") as f:
        f.write(b"".join(map(frame, records)))
    return path


def damage(path, record, at=20):
    """Flips a byte of one record: 0 to 7 its length, from 12 on its payload. Returns the offset of the record."""
    offset = sum(len(r) + 16 for r in RECORDS[:record])
    with open(path, "r+b") as f:
        f.seek(offset + at)
        byte = f.read(1)[0]
        f.seek(offset + at)
        f.write(bytes([byte ^ 0x10]))
    return offset


# ---- index ----

def test_index_is_written_then_up_to_date():
    with scratch() as folder:
        for name in "abc":
            shard(f"{folder}/{name}.tfrecord")
        done = report("index", folder)
        assert [(s["records"], s["place"], s["written"]) for s in done["shards"]] == [(100, "sidecar", True)] * 3
        assert sorted(os.listdir(folder)) == sorted(f"{n}.tfrecord{s}" for n in "abc" for s in ("", ".pidx"))
        assert not any(s["written"] for s in report("index", folder)["shards"])
        assert all(s["written"] for s in report("index", folder, "--rebuild")["shards"])
        text = penstock("index", folder).out
        assert f"{folder}/a.tfrecord: 100 records, " in text and "index is up to date, beside it" in text


def test_index_does_not_depend_on_workers():
    with scratch() as folder:
        os.mkdir(f"{folder}/a")
        os.mkdir(f"{folder}/b")
        for number in range(12):
            shard(f"{folder}/a/{number}.tfrecord", RECORDS[number:])
            shard(f"{folder}/b/{number}.tfrecord", RECORDS[number:])
        penstock("index", f"{folder}/a", "-q", "--workers", 1)
        penstock("index", f"{folder}/b", "-q", "--workers", 8)
        assert tree(f"{folder}/a") == tree(f"{folder}/b")


def test_check():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        penstock("index", "--check", path, code=None)
        assert not os.path.exists(f"{path}.pidx"), "a check writes nothing"
        penstock("index", path)
        assert "index is correct" in penstock("index", "--check", path).out
        shard(path, RECORDS[:-1])
        before = tree(folder)
        penstock("index", "--check", path, code=3)
        assert tree(folder) == before
        assert report("index", path)["shards"][0]["written"], "an index of other content is made anew"
        penstock("index", "--check", path)


def test_damaged_index_is_noticed_and_replaced():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        penstock("index", path)
        want = tree(folder)
        with open(f"{path}.pidx", "r+b") as f:
            f.seek(100)
            f.write(b"\xff\xff\xff")
        penstock("index", "--check", path, code=3)
        penstock("index", path)
        assert tree(folder) == want


def test_index_of_a_damaged_shard():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        damage(path, 17, at=3)
        result = penstock("index", path, code=3)
        assert "a.tfrecord: record 17 " in result.err, result


def test_compressed_shards_have_no_index():
    with scratch() as folder:
        with gzip.open(f"{folder}/a.tfrecord.gz", "wb") as f:
            f.write(b"".join(map(frame, RECORDS)))
        shard(f"{folder}/b.tfrecord")
        out = penstock("index", f"{folder}/a.tfrecord.gz", f"{folder}/b.tfrecord").out
        assert "a.tfrecord.gz: compressed, has no index" in out and "b.tfrecord: 100 records" in out


def test_index_of_a_read_only_folder_goes_to_the_cache():
    prefix = unprivileged()
    with scratch() as folder:
        os.mkdir(f"{folder}/ro")
        os.mkdir(f"{folder}/rw")
        os.chmod(f"{folder}/rw", 0o777)
        path = shard(f"{folder}/ro/a.tfrecord")
        os.chmod(f"{folder}/ro", 0o555)
        try:
            done = report("index", path, "--cache", f"{folder}/rw/cache", prefix=prefix)["shards"][0]
            assert done["place"] == "cache" and done["index"].startswith(f"{folder}/rw/cache/") and done["written"], done
            assert not report("index", path, "--cache", f"{folder}/rw/cache", prefix=prefix)["shards"][0]["written"]
            done = report("index", path, prefix=prefix, env={"XDG_CACHE_HOME": f"{folder}/rw/xdg"})["shards"][0]
            assert done["index"].startswith(f"{folder}/rw/xdg/penstock/"), done
            done = report("index", path, prefix=prefix, env={"HOME": f"{folder}/rw"})["shards"][0]
            assert done["index"].startswith(f"{folder}/rw/.cache/penstock/"), done
            result = penstock("index", path, prefix=prefix, env={"HOME": ""}, code=1)
            assert "Permission denied" in result.err and "no cache folder" in result.err and result.out == "", result
            result = penstock("index", path, "--cache", f"{folder}/ro/cache", prefix=prefix, code=1)
            assert result.err.count("Permission denied") == 2 and "neither" in result.err, result
        finally:
            os.chmod(f"{folder}/ro", 0o755)


def test_index_of_a_pipe_is_refused():
    with scratch() as folder:
        os.mkfifo(f"{folder}/pipe.tfrecord")
        result = penstock("index", f"{folder}/pipe.tfrecord", code=1)
        assert "pipe or device" in result.err and "compressed" not in result.out + result.err, result
        result = penstock("index", "/dev/zero", code=1)
        assert "pipe or device" in result.err, result


def test_gap_of_a_restored_shard_heals():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord", [bytes([i]) * 40000 for i in range(20)])
        whole = open(path, "rb").read()
        offset = 3 * 40016  # the fourth record's length; the fingerprint's samples lie elsewhere
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(b"\xff")
        penstock("index", path, code=3)
        result = penstock("cat", f"tfrecord {path}", "--head", 0, "--bad", "skip")
        assert "skipped 1 of 20 records: 1 length crc; the first: " in result.err and "record 3" in result.err, result
        assert result.out.count("record") == 19, result
        open(path, "r+b").write(whole)
        result = penstock("cat", f"tfrecord {path}", "--head", 0)
        assert result.out.count("record") == 20 and result.err == "", result
        assert "20 records" in penstock("index", path, "--check").out


def ends_when_told(arguments, path=None, stdin=None, computes=False):
    """Waits until the tool has `path` open and waits, or computes; tells it once to end, and returns its exit code."""
    process = subprocess.Popen([PENSTOCK, *arguments], env=environment(), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: catches(process.pid, signal.SIGTERM) and (not path or has_open(process.pid, path)), "it has begun", process)
        if computes:
            begin = cpu_seconds(process.pid)
            wait_until(lambda: cpu_seconds(process.pid) > begin + 0.3, "it computes", process)
        else:
            wait_until_asleep(process, "it waits for data")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG)
    finally:
        process.kill()
    return process.returncode


def test_one_signal_ends_what_waits_for_a_pipe():
    with scratch() as folder:
        fifo = f"{folder}/pipe.tfrecord"
        os.mkfifo(fifo)
        writer = os.open(fifo, os.O_RDWR)
        assert ends_when_told(["cat", f"tfrecord {fifo}"], fifo) == 143
        assert ends_when_told(["cat", f"tfrecord {fifo} | example"], fifo) == 143  # looks at records while it plans
        assert ends_when_told(["repair", fifo, f"{folder}/copy.tfrecord"], fifo) == 143
        os.close(writer)
        for arguments in (["pack", "-", f"{folder}/out", "--from", "tfrecord"], ["repair", "/dev/stdin", f"{folder}/copy.tfrecord"]):
            read, write = os.pipe()
            assert ends_when_told(arguments, stdin=read) == 143
            os.close(read)
            os.close(write)
        assert os.listdir(folder) == ["pipe.tfrecord"], os.listdir(folder)


def test_one_signal_ends_the_search_for_a_record():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        with open(path, "r+b") as file:
            file.seek(0, 2)
            file.write(b"\xff" * 12)
            file.truncate(40 << 30)  # zeros without end, as far as a search is concerned
        assert ends_when_told(["repair", path, f"{folder}/copy.tfrecord"], computes=True) == 143
        assert ends_when_told(["index", path], computes=True) == 143
        assert os.listdir(folder) == ["a.tfrecord"], os.listdir(folder)


def test_repair_takes_the_description_along():
    with scratch() as folder:
        os.mkdir(f"{folder}/in")
        for name in ("a", "b"):
            shard(f"{folder}/in/{name}.tfrecord")
        for name in ("features.json", "label.labels.txt", "labels.txt", "dataset_info.json", "pack.json"):
            open(f"{folder}/in/{name}", "w").write(name)
        penstock("repair", f"{folder}/in", f"{folder}/whole")
        described = ["a.tfrecord", "a.tfrecord.pidx", "b.tfrecord", "b.tfrecord.pidx"]
        assert sorted(os.listdir(f"{folder}/whole")) == sorted(
            described + ["dataset_info.json", "features.json", "label.labels.txt", "labels.txt"]), os.listdir(f"{folder}/whole")
        assert open(f"{folder}/whole/features.json").read() == "features.json"
        damage(f"{folder}/in/a.tfrecord", 3)
        result = penstock("repair", f"{folder}/in", f"{folder}/lost", code=3)
        assert sorted(os.listdir(f"{folder}/lost")) == sorted(described + ["features.json", "label.labels.txt", "labels.txt"])
        assert "dataset_info.json" in result.err, result


def test_nothing_to_index():
    with scratch() as folder:
        result = penstock("index", folder, code=1)
        assert result.err.startswith("penstock: error: ")
        penstock("index", f"{folder}/*.tfrecord", code=1)


# ---- repair ----

def records_of(path):
    with open(path, "rb") as f:
        return unframe(f.read())


def test_repair_of_a_whole_shard_loses_nothing():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        out = penstock("repair", path, f"{folder}/b.tfrecord").out
        assert "kept 100 records" in out and "nothing lost" in out
        assert tree(folder)[b"a.tfrecord"] == tree(folder)[b"b.tfrecord"]


def test_repair_keeps_all_but_the_damaged():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        offset = damage(path, 17, at=20)
        damage(path, 40, at=3)
        result = penstock("repair", path, f"{folder}/b.tfrecord", code=3)
        assert "kept 98 records" in result.out and "lost 2" in result.out, result
        assert f"record 17 at byte {offset:,}: data crc" in result.out and "record 40 at byte" in result.out, result
        assert records_of(f"{folder}/b.tfrecord") == [r for i, r in enumerate(RECORDS) if i not in (17, 40)]
        done = report("repair", path, f"{folder}/c.tfrecord", code=3)["shards"][0]
        assert done["kept"] == 98 and done["lost_records"] == 2 and len(done["damage"]) == 2
        assert done["damage"][0]["offset"] == offset and done["damage"][0]["record"] == 17


def test_repair_of_a_truncated_shard():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        os.truncate(path, os.path.getsize(path) - 10)
        penstock("repair", path, f"{folder}/b.tfrecord", code=3)
        assert records_of(f"{folder}/b.tfrecord") == RECORDS[:-1]


def test_repair_of_several_goes_to_a_folder():
    with scratch() as folder:
        os.mkdir(f"{folder}/in")
        for name in "abc":
            shard(f"{folder}/in/{name}.tfrecord")
        damage(f"{folder}/in/b.tfrecord", 5)
        done = report("repair", f"{folder}/in", f"{folder}/out", code=3)
        assert [(s["kept"], s["lost_records"]) for s in done["shards"]] == [(100, 0), (99, 1), (100, 0)]
        assert {"a.tfrecord", "b.tfrecord", "c.tfrecord"} <= set(os.listdir(f"{folder}/out"))
        penstock("index", "--check", f"{folder}/out")


def test_repair_never_replaces_unasked():
    with scratch() as folder:
        path = shard(f"{folder}/a.tfrecord")
        damage(path, 3)
        before = tree(folder)
        result = penstock("repair", path, path, "--force", code=2)
        assert "name another OUT" in result.err
        penstock("repair", path, folder, code=2)
        shard(f"{folder}/b.tfrecord", RECORDS[:3])
        penstock("repair", path, f"{folder}/b.tfrecord", code=1)
        assert records_of(f"{folder}/b.tfrecord") == RECORDS[:3] and tree(folder)[b"a.tfrecord"] == before[b"a.tfrecord"]
        penstock("repair", path, f"{folder}/b.tfrecord", "--force", code=3)
        assert len(records_of(f"{folder}/b.tfrecord")) == 99


def test_repair_refuses_two_shards_of_one_name():
    """Their copies would be one file; with --force one would silently replace the other, or a source."""
    with scratch() as folder:
        for name in "ab":
            os.mkdir(f"{folder}/{name}")
            shard(f"{folder}/{name}/x.tfrecord")
        before = tree(folder)
        for out in ("out", "a"):
            result = penstock("repair", "--force", f"{folder}/b/x.tfrecord", f"{folder}/a/x.tfrecord", f"{folder}/{out}", code=2)
            assert "same name" in result.err
        assert tree(folder) == before


def test_repair_keeps_the_compression():
    with scratch() as folder:
        with gzip.open(f"{folder}/a.tfrecord.gz", "wb") as f:
            f.write(b"".join(map(frame, RECORDS)))
        penstock("repair", f"{folder}/a.tfrecord.gz", f"{folder}/b.tfrecord.gz")
        with gzip.open(f"{folder}/b.tfrecord.gz") as f:
            assert unframe(f.read()) == RECORDS
        penstock("repair", f"{folder}/a.tfrecord.gz", f"{folder}/c.tfrecord", "--compress", "none")
        assert records_of(f"{folder}/c.tfrecord") == RECORDS


def test_repair_of_something_else():
    with scratch() as folder:
        with open(f"{folder}/a.tfrecord", "wb") as f:
            f.write(os.urandom(1) * 5000)
        penstock("repair", f"{folder}/a.tfrecord", f"{folder}/b.tfrecord", code=3)
        penstock("repair", f"{folder}/nowhere", f"{folder}/c.tfrecord", code=1)
        assert not os.path.exists(f"{folder}/c.tfrecord")


tap.main(globals())
