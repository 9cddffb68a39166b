"""`penstock pack --part` and `--join`: many processes write what one would have written, byte for byte."""
import os
import random
import signal
import subprocess
import time

import tap
from patience import HANG
from tool import PENSTOCK, environment, penstock, report, scratch, shards, tree

OPTIONS = ("--shards", 7, "--split", "train=0.8,val=0.2", "--shuffle", 3, "--resize", 16, "--augment", 1)


def pictures(folder, count=60):
    path = f"{folder}/pictures"
    penstock("generate", path, "--images", count, "--size", 24, "--classes", 4, "-q")
    return path


def pack_parts(source, out, parts, order=None, options=OPTIONS):
    for k in order or range(1, parts + 1):
        penstock("pack", source, out, "--part", f"{k}/{parts}", *options)


def test_parts_join_to_the_bytes_of_one_process():
    with scratch() as folder:
        source = pictures(folder)
        penstock("pack", source, f"{folder}/one/data", *OPTIONS)
        expected = tree(f"{folder}/one/data")
        for parts in (1, 3, 8, 40):
            out = f"{folder}/{parts}/data"
            pack_parts(source, out, parts, random.Random(parts).sample(range(1, parts + 1), parts))
            done = report("pack", source, out, "--join", *OPTIONS)
            assert done["records"] == 120 and not done["up_to_date"]
            assert tree(out) == expected, f"{parts} parts"
            assert report("pack", source, out, "--join", *OPTIONS)["up_to_date"]
            assert report("pack", source, out, *OPTIONS)["up_to_date"], "the plain command finds its own output"
            assert report("pack", source, out, "--part", f"1/{parts}", *OPTIONS)["up_to_date"]
            assert tree(out) == expected, "nothing was added"


def test_compressed_shards_and_an_index_of_jpegs():
    with scratch() as folder:
        source = pictures(folder)
        for extra in (("--compress", "zstd"), ("--entropy",)):
            name = extra[0].strip("-")
            options = ("--shards", 3, *extra)
            penstock("pack", source, f"{folder}/{name}-one/data", *options)
            pack_parts(source, f"{folder}/{name}/data", 2, options=options)
            penstock("pack", source, f"{folder}/{name}/data", "--join", *options)
            assert tree(f"{folder}/{name}/data") == tree(f"{folder}/{name}-one/data")


def test_killed_parts_and_joins_go_on():
    for parts, kills in ((3, 4), (8, 2)):
        check_killed(parts, kills)


def check_killed(parts, kills):
    with scratch() as folder:
        source = pictures(folder, 200)
        options = ("--shards", 12, "--resize", 64)
        penstock("pack", source, f"{folder}/one/data", *options)
        out, chance = f"{folder}/many/data", random.Random(11)
        for command in [("--part", f"{k}/{parts}") for k in range(1, parts + 1)] + [("--join",)]:
            for _ in range(kills):
                process = subprocess.Popen([PENSTOCK, "pack", source, out, *command, *map(str, options), "-q"], env=environment())
                time.sleep(chance.uniform(0, 0.06))
                process.send_signal(signal.SIGKILL)
                process.wait()
            penstock("pack", source, out, *command, *options)
        assert tree(out) == tree(f"{folder}/one/data")


def test_what_cannot_be_joined():
    with scratch() as folder:
        source, out = pictures(folder), f"{folder}/data"
        refused = penstock("pack", source, out, "--join", *OPTIONS, code=1)
        assert "holds no part" in refused.err
        assert not os.path.exists(out), "nothing stays behind"
        pack_parts(source, out, 4, (2, 4))
        refused = penstock("pack", source, out, "--join", *OPTIONS, code=1)
        assert "2 of 4 parts are not complete (1, 3)" in refused.err, refused.err
        pack_parts(source, out, 4, (1,))
        penstock("pack", source, out, "--part", "3/4", "--shards", 7, "--split", "train=0.8,val=0.2", "--shuffle", 4, "--resize", 16,
                 "--augment", 1)
        refused = penstock("pack", source, out, "--join", *OPTIONS, code=1)
        assert "part-00003-of-00004" in refused.err and "another command (seed differs)" in refused.err, refused.err
        pack_parts(source, out, 4, (3,), (*OPTIONS, "--force"))
        missing = shards(f"{out}/part-00003-of-00004")[0]
        os.remove(missing)
        refused = penstock("pack", source, out, "--join", *OPTIONS, code=3)
        assert "is missing or damaged" in refused.err and os.path.basename(missing) in refused.err
        pack_parts(source, out, 2, (1,))
        assert "two divisions" in penstock("pack", source, out, "--join", *OPTIONS, code=1).err


def test_a_part_notices_at_once_that_the_folder_is_taken():
    with scratch() as folder:
        source, out = pictures(folder), f"{folder}/data"
        penstock("pack", source, out, "--shards", 2)
        refused = penstock("pack", source, out, "--part", "1/2", "--shards", 3, code=1)
        assert "another command" in refused.err
        assert not any(name.startswith("part-") for name in os.listdir(out)), "nothing was packed"
        pack_parts(source, out, 2, options=("--shards", 3, "--force"))
        penstock("pack", source, out, "--join", "--shards", 3, "--force")
        penstock("pack", source, f"{folder}/one/data", "--shards", 3)
        assert tree(out) == tree(f"{folder}/one/data")


def test_the_limit_of_bad_items_is_that_of_all_parts():
    with scratch() as folder:
        source, out = pictures(folder, 40), f"{folder}/data"
        names = sorted(os.path.join(path, file) for path, _, files in os.walk(source) for file in files)
        for name in (names[0], names[-1]):
            with open(name, "wb") as f:
                f.write(b"not an image")
        options = ("--shards", 2, "--resize", 16, "--bad", "skip:1")
        pack_parts(source, out, 2, options=options)
        assert "more than the 1 allowed" in penstock("pack", source, out, "--join", *options, code=3).err
        options = (*options[:-1], "skip:2")
        assert len(report("pack", source, out, "--join", *options)["skipped"]) == 2


def test_processes_of_mpirun_take_parts_and_join():
    with scratch() as folder:
        source = pictures(folder)
        penstock("pack", source, f"{folder}/one/data", *OPTIONS)
        for rank_name, size_name in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
                                     ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
            out = f"{folder}/{rank_name}/data"
            ranks = [subprocess.Popen([PENSTOCK, "pack", source, out, *map(str, OPTIONS)], stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.PIPE, env=environment(**{rank_name: str(k), size_name: "3"}))
                     for k in range(3)]
            said = [rank.communicate(timeout=HANG) for rank in ranks]
            assert [rank.returncode for rank in ranks] == [0, 0, 0], said
            assert "packed 120 records" in said[0][0] and said[1][0] == said[2][0] == "", said
            assert tree(out) == tree(f"{folder}/one/data")


def start_rank(rank, ranks, *arguments, job="1"):
    return subprocess.Popen([PENSTOCK, "pack", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(PMI_RANK=str(rank), PMI_SIZE=str(ranks), PMIX_NAMESPACE=job))


def test_ranks_that_all_fail_leave_nothing():
    with scratch() as folder:
        ranks = [start_rank(k, 3, f"{folder}/typo", f"{folder}/new/data") for k in range(3)]
        said = [rank.communicate(timeout=HANG)[1] for rank in ranks]
        assert all(rank.returncode and "typo" in err for rank, err in zip(ranks, said)), said
        assert not os.path.exists(f"{folder}/new/data")


def test_a_failed_rank_is_noticed_while_others_pack():
    """Also one that had failed before the first rank began; the next job is not told of it."""
    with scratch() as folder:
        source, out = pictures(folder), f"{folder}/data"
        last = start_rank(2, 3, f"{folder}/typo", out)
        last.communicate(timeout=HANG)
        first = start_rank(0, 3, source, out, *OPTIONS)
        _, err = first.communicate(timeout=HANG)
        assert first.returncode and f"rank 2 (process {last.pid} on " in err and "has failed" in err, err
        ranks = [start_rank(k, 3, source, out, *OPTIONS, job="2") for k in range(3)]
        said = [rank.communicate(timeout=HANG) for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0, 0], said
        assert not [name for name in os.listdir(out) if name.startswith(".rank-")]


def test_wrong_parts_are_refused():
    for text in ("0/3", "4/3", "3", "a/b", "1/2/3", "1/999999"):
        assert f"--part {text}: expected" in penstock("pack", "photos", "out", "--part", text, code=2).err
    assert "exclude each other" in penstock("pack", "photos", "out", "--part", "1/2", "--join", code=2).err


tap.main(globals())
