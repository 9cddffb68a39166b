"""The source `tar` beside the real webdataset package: shards that it writes, read by both; random shards of the tarfile module
in every format, read by both, element by element. A failure prints its seed."""

import contextlib
import gzip
import io
import os
import random
import shutil
import tarfile
import tempfile

import tap
import webdataset as wds

import penstock as ps

PROGRAMS = int(os.environ.get("PENSTOCK_PROGRAMS", "300"))
SEED = 77


@contextlib.contextmanager
def scratch():
    folder = tempfile.mkdtemp(prefix="penstock-wds-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def elements(dataset, batch=7):
    found = []
    for b in dataset.batch(batch):
        columns = {name: b[name].tolist() for name in b.keys()}
        found += [dict(zip(columns, values)) for values in zip(*columns.values())]
    return found


def theirs(paths):
    """What webdataset reads, without what it adds about the file."""
    pipeline = wds.WebDataset(paths, shardshuffle=False, nodesplitter=None, empty_check=False)
    return [{k: v for k, v in sample.items() if k not in ("__url__", "__local_path__")} for sample in pipeline]


def test_shards_that_it_writes():
    with scratch() as folder:
        with wds.ShardWriter(f"{folder}/x-%03d.tar", maxcount=9, verbose=0) as sink:
            for i in range(40):
                sink.write({"__key__": f"dir/sample{i:04d}", "txt": f"caption {i}", "cls": i % 7, "json": {"n": i}, "bin": bytes([i]) * i})
        paths = [f"{folder}/x-{i:03d}.tar" for i in range(5)]
        want = theirs(paths)
        assert len(want) == 40
        found = elements(ps.tar(folder + "/x-{000..004}.tar", fields="txt cls json bin"))
        assert [{"__key__": e["key"].decode(), **{k: e[k] for k in ("txt", "cls", "json", "bin")}} for e in found] == want
        assert [e["label"] for e in elements(ps.tar(*paths))] == [i % 7 for i in range(40)]
        shuffled = elements(ps.tar(*paths).shuffle(seed=1))
        assert sorted(e["key"] for e in shuffled) == sorted(e["key"] for e in found) and shuffled != found


EXTENSIONS = ["jpg", "PNG", "cls", "txt", "json", "seg.png", "left.npy", "bin"]


def make(seed, folder):
    """Random shards: samples with any of the extensions, folders, links, nameless members, long names, all formats of tarfile."""
    r = random.Random(seed)
    packed = r.random() < 0.3
    form = r.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    paths, used = [], sorted(r.sample(EXTENSIONS, r.randint(1, 5)))
    for shard in range(r.randint(1, 3)):
        path = f"{folder}/{seed}-{shard}.tar" + (".gz" if packed else "")
        paths.append(path)
        with (gzip.open if packed else open)(path, "wb") as f, tarfile.open(fileobj=f, mode="w", format=form) as tar:
            def add(name, data, kind=tarfile.REGTYPE):
                info = tarfile.TarInfo(name)
                info.type, info.size = kind, len(data)
                info.linkname = "x" if kind == tarfile.SYMTYPE else ""
                tar.addfile(info, io.BytesIO(data))

            for i in range(r.randint(0, 12)):
                long = "long" * 40 if form != tarfile.USTAR_FORMAT and r.random() < 0.1 else ""
                key = r.choice(["", "a/", "b.c/d/", "./"]) + long + f"s{i % 9}-é" + ("" if r.random() < 0.9 else "_x")
                if r.random() < 0.1:
                    add("folder", b"", tarfile.DIRTYPE)
                if r.random() < 0.1:
                    add(r.choice(["README", ".hidden", "__meta__.txt", "link.jpg"]), b"", tarfile.SYMTYPE if r.random() < 0.5 else tarfile.REGTYPE)
                for extension in used:
                    if r.random() < 0.9:
                        add(f"{key}.{extension}", bytes(r.randrange(256) for _ in range(r.choice([0, 1, 511, 512, 513, 2000]))))
    return paths, used


def check(seed):
    with scratch() as folder:
        paths, used = make(seed, folder)
        want = theirs(paths)
        if not want:
            return
        fields = " ".join(f"f{i}={extension}?" for i, extension in enumerate(used))
        found = []
        for e in elements(ps.tar(*paths, fields=fields)):
            sample = {"__key__": e["key"].decode()}
            sample.update({extension.lower(): e[f"f{i}"] for i, extension in enumerate(used) if e[f"f{i}"]})
            found.append(sample)
        # A member of no bytes cannot be told from a missing one here.
        want = [{k: v for k, v in sample.items() if k == "__key__" or (v and k in {u.lower() for u in used})} for sample in want]
        known = [sample for sample in want]
        assert found == known, f"{found}\n{known}"


def test_random_shards():
    print(f"# {PROGRAMS} sets of shards, seeds {SEED} to {SEED + PROGRAMS - 1}")
    for seed in range(SEED, SEED + PROGRAMS):
        try:
            check(seed)
        except Exception as why:
            print(f"# seed {seed}: {str(why)[:2000]}")
            raise


def test_a_repeated_member_is_refused_by_both():
    with scratch() as folder:
        with tarfile.open(f"{folder}/x.tar", "w") as tar:
            for name in ("a.txt", "a.txt"):
                info = tarfile.TarInfo(name)
                info.size = 1
                tar.addfile(info, io.BytesIO(b"x"))
        try:
            theirs([f"{folder}/x.tar"])
            raise AssertionError("webdataset accepts it")
        except ValueError:
            pass
        try:
            elements(ps.tar(f"{folder}/x.tar"))
            raise AssertionError("accepted")
        except ps.Error as why:
            assert "two members" in str(why), why


if __name__ == "__main__":
    tap.main(globals())
