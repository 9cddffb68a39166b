"""`penstock index --entropy` and `penstock pack --entropy`: entropy indexes of JPEGs, made, kept, checked and used."""
import os
import resource
import signal
import struct
import subprocess

import tap
from patience import HANG, catches, cpu_seconds, wait_until
from tool import PENSTOCK, environment, frame, penstock, report, scratch, tree


def photos(folder, count=36, size=160):
    """Class folders of JPEGs that are large enough to need an index."""
    penstock("generate", f"{folder}/photos", "--images", count, "--classes", 3, "--size", size, "--format", "jpeg", "-q")
    return f"{folder}/photos"


def shards(folder, name="shards", **kept):
    penstock("pack", kept.get("source") or photos(folder), f"{folder}/{name}", "--name", "x", "--shards", 2, "-q", *kept.get("more", ()))
    return f"{folder}/{name}"


def sections(path):
    """Tag → (offset, length) of an index file."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:8] == b"PSTIDX1\n"
    header, count = struct.unpack_from("<2I", data, 12)
    lines = [data[header + 32 * i:header + 32 * (i + 1)] for i in range(count)]
    return {line[:4].decode(): struct.unpack_from("<2Q", line, 8) for line in lines}


def indexes(folder):
    return sorted(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".pidx"))


def test_made_then_up_to_date():
    with scratch() as folder:
        out = shards(folder)
        before = {name: digest for name, digest in tree(out).items() if not name.endswith(b".pidx")}
        done = report("index", "--entropy", out)["shards"]
        assert [s["entropy"]["written"] for s in done] == [True, True]
        assert sum(s["entropy"]["jpegs"] for s in done) == sum(s["entropy"]["indexed"] for s in done) == 36
        assert all(s["entropy"]["points"] > 2 * s["entropy"]["jpegs"] and s["entropy"]["bytes"] > 0 for s in done)
        assert before == {name: digest for name, digest in tree(out).items() if not name.endswith(b".pidx")}, "shards are untouched"
        assert "beside the shards; entropy indexes of JPEGs in 2\n" in penstock("inspect", out).out
        assert [s["entropy"] for s in report("inspect", out)["shards"]] == [True, True]
        for path in indexes(out):
            assert list(sections(path)) == ["RECS", "JPEG", "NOTE"], sections(path)
        after = tree(out)
        assert not any(s["entropy"]["written"] for s in report("index", "--entropy", out)["shards"])
        assert tree(out) == after
        text = penstock("index", "--entropy", out).out
        assert "; entropy index of 18 of 18 JPEGs: " in text and "of 36 of 36 JPEGs: " in text, text
        assert "entropy index written, of 18 of 18" in penstock("index", "--entropy", "--rebuild", out).out
        assert tree(out) == after
        penstock("index", "--check", out)
        penstock("index", "--rebuild", out)
        assert tree(out) == after, "making the index anew keeps what else is in it"


def test_same_bytes_by_pack_and_by_any_number_of_workers():
    with scratch() as folder:
        source = photos(folder)
        plain = shards(folder, "plain", source=source)
        for workers in (1, 2, 7):
            penstock("index", "--entropy", "--rebuild", "-q", plain, "--workers", workers)
            packed = shards(folder, f"packed-{workers}", source=source, more=("--entropy", "--workers", workers))
            assert tree(packed) == tree(plain), workers
        late = shards(folder, "late", source=source)
        assert all("JPEG" not in sections(path) for path in indexes(late))
        shards(folder, "late", source=source, more=("--entropy",))
        assert tree(late) == tree(plain), "the same command with --entropy adds it"
        assert report("pack", source, late, "--name", "x", "--shards", 2)["up_to_date"]
        changed = shards(folder, "small", source=source, more=("--entropy", "--resize", 128, "--quality", 70))
        assert sum(s["entropy"]["indexed"] for s in report("index", "--entropy", changed)["shards"]) == 36
        assert not any(s["entropy"]["written"] for s in report("index", "--entropy", changed)["shards"])
        penstock("pack", source, f"{folder}/zipped", "--entropy", "--compress", "gzip", "-q")
        assert indexes(f"{folder}/zipped") == []


def test_records_of_other_programs():
    """TFRecords that somebody else wrote: JPEGs as records, records without JPEGs, damaged ones."""
    with scratch() as folder:
        source = photos(folder, 6)
        jpegs = [open(f"{root}/{name}", "rb").read() for root, _, names in sorted(os.walk(source)) for name in sorted(names)
                 if name.endswith(".jpg")]
        penstock("generate", f"{folder}/small", "--images", 2, "--classes", 2, "--size", 16, "--format", "jpeg", "-q")
        tiny = [open(f"{root}/{name}", "rb").read() for root, _, names in os.walk(f"{folder}/small") for name in names
                if name.endswith(".jpg")][0]
        records = [jpegs[0], b"no example \xff\xff", jpegs[1], b"", tiny, jpegs[2][:-200], jpegs[3]]
        data = bytearray(b"".join(map(frame, records)))
        data[len(data) - 20] ^= 1
        with open(f"{folder}/a.tfrecord", "wb") as f:
            f.write(data)
        e = report("index", "--entropy", f"{folder}/a.tfrecord")["shards"][0]["entropy"]
        assert (e["jpegs"], e["indexed"], e["small"], e["damaged"], e["foreign"], e["bad_records"]) == (4, 2, 1, 1, 0, 1), e
        out = penstock("index", "--entropy", "--rebuild", f"{folder}/a.tfrecord").out
        assert "without: 1 too small to need it, 1 damaged; 1 damaged record not searched" in out, out
        with open(f"{folder}/text.tfrecord", "wb") as f:
            f.write(frame(b"text"))
        assert "; no JPEGs" in penstock("index", "--entropy", f"{folder}/text.tfrecord").out


def test_damage_is_found_and_repaired():
    with scratch() as folder:
        out = shards(folder)
        penstock("index", "--entropy", "-q", out)
        whole, path = tree(out), indexes(out)[0]
        offset, length = sections(path)["JPEG"]
        for at in (offset, offset + 70, offset + length - 1):
            with open(path, "r+b") as f:
                f.seek(at)
                byte = f.read(1)[0]
                f.seek(at)
                f.write(bytes([byte ^ 32]))
            penstock("index", "--check", out, code=3)
            penstock("index", "-q", out)
            done = report("index", "--entropy", out)["shards"]
            assert [s["entropy"]["written"] for s in done] == [True, False]
            assert tree(out) == whole
        penstock("index", "--check", "--entropy", out, code=2)


def test_pipelines_use_it():
    with scratch() as folder:
        source = photos(folder)
        out = shards(folder, source=source)
        text = f"tfrecord {out} | shuffle | example 'image:bytes label:int64' | decode | random_resized_crop 64 | batch 6"
        plan = penstock("plan", text).out
        assert "\nentropy   collected while decoding, up to " in plan and "`penstock index --entropy` stores it" in plan, plan
        plain = report("bench", "--epochs", 3, text)
        assert (plain["entropy_stored"], plain["entropy_made"], plain["entropy_stale"]) == (0, 36, 0), plain
        images = penstock("cat", "--json", "--head", 36, text).out
        penstock("index", "--entropy", "-q", out)
        assert "\nentropy   in the sidecars\n" in penstock("plan", text).out
        stored = report("bench", "--epochs", 3, text)
        assert (stored["entropy_stored"], stored["entropy_made"], stored["entropy_stale"]) == (36, 0, 0), stored
        assert "Entropy      indexes of 36 images were read from the sidecars\n" in penstock("bench", text).out
        assert images == penstock("cat", "--json", "--head", 36, text).out
        offset, length = sections(indexes(out)[0])["JPEG"]
        with open(indexes(out)[0], "r+b") as f:
            f.seek(offset + length - 20)
            f.write(bytes(20))
        spoilt = report("bench", "--epochs", 2, text)
        assert spoilt["entropy_stale"] == 1 and spoilt["entropy_stored"] == 35, spoilt
        assert images == penstock("cat", "--json", "--head", 36, text).out
        assert "entropy   collected while decoding, up to " in penstock("plan", f"folder {source} | decode | resize 32").out
        assert "entropy" not in penstock("plan", f"tfrecord {out} | batch 3").out


def test_interrupted_inside_a_shard():
    """The index stays as it was, and the answer comes at once."""
    with scratch() as folder:
        out = shards(folder, source=photos(folder, 12, 512))
        data = b"".join(open(f"{out}/{name}", "rb").read() for name in sorted(os.listdir(out))
                        if ".tfrecord-" in name and not name.endswith(".pidx"))
        path = f"{folder}/large.tfrecord"
        with open(path, "wb") as f:
            for _ in range(400):
                f.write(data)
        penstock("index", "-q", path)
        before = tree(folder)
        running = subprocess.Popen([PENSTOCK, "index", "--entropy", path], env=environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        wait_until(lambda: catches(running.pid, signal.SIGINT) and cpu_seconds(running.pid) > 0.2, "it computes", running)
        before_it = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = cpu_seconds(running.pid)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=HANG)
        assert running.returncode == 130, running.returncode
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before_it.ru_utime - before_it.ru_stime - used
        assert used < 2, f"it computed for {used} s after Ctrl-C"  # the whole shard takes several times as long
        assert tree(folder) == before


tap.main(globals())
