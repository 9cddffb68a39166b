"""`penstock plan`: the plan in words and as JSON, mistakes with their place, and what a hostile name cannot do to a terminal."""
import os

import tap
from tool import example, frame, penstock, report, scratch


def images(folder, count=24):
    """Pictures in class folders and the same in shards; returns both paths."""
    penstock("generate", f"{folder}/photos", "--images", count, "--classes", 3, "--size", 40, "-q")
    penstock("pack", f"{folder}/photos", f"{folder}/shards", "--shards", 2, "-q")
    return f"{folder}/photos", f"{folder}/shards"


def mistake(*arguments, says, under=None, code=2):
    """The error must hold the words; `under` is the part of the text that the carets point at."""
    result = penstock("plan", *arguments, code=code)
    lines = result.err.splitlines()
    assert result.out == "" and lines[0].startswith("penstock: error: "), result
    for piece in [says] if isinstance(says, str) else says:
        assert piece in lines[0], f"{piece!r} not in {lines[0]!r}"
    if under:
        assert set(lines[2]) <= {" ", "^"} and "^" in lines[2], result
        begin, end = lines[2].index("^"), lines[2].rindex("^") + 1
        assert lines[1][begin:end] == under, f"carets under {lines[1][begin:end]!r}\n{result}"
    return result


def test_shuffle():
    """The plan says how good a shuffle is, and a bare number counts elements."""
    def order(text):
        return next(line for line in penstock("plan", text).out.splitlines() if line.startswith("order "))
    assert "exact" in order("range 10000 | shuffle 16 | batch 8")
    assert "windows of 16 = 0.16 % of the data: weak" in order("range 10000 | shuffle window=16 | batch 8")
    assert "windows of 2000 = 20 % of the data: good" in order("range 10000 | shuffle window=2000 | batch 8")
    assert "all of the data: exact" in order("range 100 | shuffle window=160 | batch 8")
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 6, "--classes", 3, "--size", 40, "-q")
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "--compress", "gzip", "-q")
        assert "a buffer of 1000 elements: exact for up to 1000, weak" in order(f"tfrecord {folder}/shards | shuffle 1000 | batch 2")
        assert "a buffer of 1 element: " in order(f"tfrecord {folder}/shards | shuffle 1 | batch 2")
        assert "a buffer of 64.0 MiB: exact if all" in order(f"tfrecord {folder}/shards | shuffle 64M | batch 2")


def test_a_feature_that_no_record_has():
    """A misspelt feature is found by the plan, with what may be meant."""
    with scratch() as folder:
        path = f"{folder}/a.tfrecord"
        with open(path, "wb") as f:
            f.write(b"".join(frame(example(image=[b"x"], label=[i])) for i in range(40)))
        mistake(f"tfrecord {path} | example 'image:bytes lable:int64'", under="example 'image:bytes lable:int64'",
                says=("none of the 32 records", "did you mean label?"))
        mistake(f"tfrecord {path} | example 'lable:int64[*]'", says="did you mean label?")
        mistake(f"tfrecord {path} | example 'box:float[4]'", says="they have image, label")
        for fine in ("box:float[*]", "box:float=1", "label:int64"):
            penstock("plan", f"tfrecord {path} | example '{fine}'")


def test_a_missing_shard():
    """A folder or a pattern that lacks a shard of its set is an error; a selection on purpose is not."""
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 12, "--classes", 3, "--size", 16, "-q")
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "--shards", 8, "--name", "x", "-q")
        names = sorted(name for name in os.listdir(f"{folder}/shards") if name.endswith("-of-00008"))
        stem = f"{folder}/shards/" + names[0].split("-0000")[0]
        assert len(names) == 8
        penstock("plan", f"tfrecord {folder}/shards")
        penstock("inspect", f"{folder}/shards")
        for gone in (5, 7, 0):
            os.remove(f"{stem}-0000{gone}-of-00008")
            for asked in (f"{folder}/shards", f"{folder}/shards/", f"{stem}-*", f"{folder}/shards/*-of-00008", f"{folder}/shards/x*"):
                assert "this shard is missing" in penstock("plan", f"tfrecord {asked}", code=1).err, asked
                assert "--allow-missing" in penstock("inspect", asked, code=1).err, asked
                penstock("plan", f"tfrecord {asked} missing=allow")
                penstock("inspect", asked, "--allow-missing")
            for asked in (f"{stem}-0000[1-4]-of-*", f"{stem}-00001-of-00008 {stem}-00003-of-00008", f"{stem}-0000[12]*"):
                penstock("plan", f"tfrecord {asked}")
                penstock("inspect", *asked.split())
        assert "name the files" in penstock("pack", f"{folder}/shards", f"{folder}/again", "-q", code=1).err
        penstock("pack", *(f"{stem}-0000{i}-of-00008" for i in (1, 2, 3)), f"{folder}/again", "-q")


def test_splits_are_not_classes():
    """`folder` does not take train/ and test/ for classes where pack takes them for splits."""
    with scratch() as folder:
        os.mkdir(f"{folder}/cifar")
        for split in ("train", "test"):
            penstock("generate", f"{folder}/cifar/{split}", "--images", 6, "--classes", 3, "--size", 16, "-q")
        mistake(f"folder {folder}/cifar", says=("are splits", f"folder {folder}/cifar/test"))
        assert "3 classes" in penstock("plan", f"folder {folder}/cifar/train").out
        penstock("plan", f"folder {folder}/cifar labels=none")
        penstock("generate", f"{folder}/flat", "--images", 6, "--classes", 2, "--size", 16, "-q")
        for old, new in zip(sorted(os.listdir(f"{folder}/flat")), ("test", "train")):
            os.rename(f"{folder}/flat/{old}", f"{folder}/flat/{new}")
        assert "2 classes (test, train)" in penstock("plan", f"folder {folder}/flat").out, "without classes inside they are classes"


def test_one_of_a_kind():
    with scratch() as folder:
        os.makedirs(f"{folder}/p/only")
        with open(f"{folder}/p/only/1.jpg", "wb") as f:
            f.write(b"not looked at by a plan")
        out = penstock("plan", f"folder {folder}/p | batch 4").out
        assert "1 element; 1 file, " in out and "in 1 class (" in out and "epoch     1 batch\n" in out, out


def test_words():
    out = penstock("plan", "range 10 | batch 3").out
    lines = out.splitlines()
    assert " range " in lines[0] and "value: int64" in lines[1] and lines[2].endswith("batch 3"), out
    for piece in ("delivers  value: int64 [?]", "epoch     4 batches", "\norder ", "\nbatch ", "\nmemory ", "\nworkers ", "\nprefetch "):
        assert piece in out, f"{piece!r} not in {out}"


def test_json():
    found = report("plan", "range 10 | shuffle | batch 3", "--workers", 3, "--prefetch", 2)
    assert found["command"] == "plan"
    plan = found["plan"]
    assert [op["name"] for op in plan["operations"]] == ["range", "shuffle", "batch"]
    assert plan["elements"] == 10 and plan["batches"] == 4 and plan["indexed"] is True
    assert plan["workers"] == 3 and plan["prefetch"] == 2
    assert plan["delivers"] == [{"name": "value", "dtype": "int64", "shape": [None]}]


def test_the_quality_of_images():
    """Chosen by what follows, shown with its reason, part of the fingerprint, and a unit even where nothing is fused."""
    with scratch() as folder:
        photos, shards = images(folder, 6)

        def plan(quality, operations, *options):
            text = f"tfrecord {shards} | example | decode{quality} | {operations} | batch 2"
            found = report("plan", text, *options)["plan"]
            decode = found["operations"][2]
            return decode["choice"], decode["choice_reason"], found["fingerprint"], [step["name"] for step in found["steps"]]

        choice, reason, fast, steps = plan("", "random_resized_crop 16 | flip")
        assert (choice, reason) == ("quality fast", "a random crop and a resize follow")
        assert plan("", "random_resized_crop 16 | flip", "--no-fuse")[2:] == (fast, ["example", "decode+random_resized_crop", "flip"])
        choice, reason, exact, steps = plan("", "resize 16 | flip")
        assert (choice, reason) == ("quality exact", "no random crop with a resize follows")
        assert plan("", "resize 16 | flip", "--no-fuse")[3] == ["example", "decode", "resize", "flip"]
        assert plan(" quality=fast", "resize 16 | flip", "--no-fuse")[3] == ["example", "decode+resize", "flip"]
        prints = {fast, exact} | {plan(f" quality={q}", ops)[2] for q in ("exact", "fast") for ops in ("resize 16 | flip", "flip")}
        assert len(prints) == 6, prints
        words = penstock("plan", f"tfrecord {shards} | example | decode | random_crop 9 | resize 16 | batch 2").out
        assert "      quality fast: a random crop and a resize follow\n" in words, words
        choice, reason = plan("", "random_crop 9 | resize 16 lanczos3")[:2]
        assert (choice, reason) == ("quality exact", "the method of the resize that follows is for pixels")


def test_an_image_pipeline():
    with scratch() as folder:
        photos, shards = images(folder)
        text = f"tfrecord {shards} | shuffle | example | decode | resize 32x24 | flip | normalize imagenet | batch 7"
        plan = report("plan", text)["plan"]
        shapes = {field["name"]: (field["dtype"], field["shape"]) for field in plan["delivers"]}
        assert shapes["image"] == ("float32", [None, 24, 32, 3]) and shapes["label"] == ("int64", [None]), shapes
        fused = [step for step in plan["steps"] if step["operations"] > 1]
        assert fused and fused[0]["name"].startswith("decode+"), plan["steps"]
        assert all(step["operations"] == 1 for step in report("plan", text, "--no-fuse")["plan"]["steps"])
        around = "decode | resize 16 | center_crop 12 | cache | flip | normalize imagenet | layout nchw"
        steps = report("plan", f"folder {folder}/photos | {around} | batch 4")["plan"]["steps"]
        assert [step["name"] for step in steps] == ["decode+resize+center_crop", "flip+normalize+layout"], steps
        long = "decode | random_resized_crop 16 | center_crop 12 | flip | normalize imagenet | layout nchw"
        steps = report("plan", f"folder {folder}/photos | {long} | batch 4")["plan"]["steps"]
        assert [step["name"] for step in steps] == ["decode+…+center_crop+flip+normalize+layout"], steps
        refused = penstock("plan", f"folder {folder}/photos | decode | flip | resize 16 | cache | batch 4", code=2).err
        assert "move cache before flip" in refused and refused.count("^") == 5, refused
        assert "float32 [?,24,32,3]" in penstock("plan", f"folder {photos} | decode | resize 32x24 | normalize 0..1 | batch 7").out


def test_operands_are_joined_and_files_read():
    ram = ("--ram", "1GiB")  # otherwise half of what is available at that moment, and told
    want = penstock("plan", *ram, "range 10 | batch 3").out
    assert penstock("plan", *ram, "range", "10", "|", "batch", "3").out == want
    with scratch() as folder:
        with open(f"{folder}/train.pst", "w") as f:
            f.write("# numbers\nrange 10   # ten of them\n| batch 3\n")
        assert penstock("plan", *ram, f"@{folder}/train.pst").out == want
        with open(f"{folder}/wrong.pst", "w") as f:
            f.write("range 10\n| bach 3\n")
        result = mistake(f"@{folder}/wrong.pst", says=["wrong.pst", "no operation bach"], under="bach")
        assert "batch" in result.err
        assert "none.pst" in penstock("plan", f"@{folder}/none.pst", code=1).err


def test_mistakes_are_shown_in_their_place():
    result = mistake("range 10 | shufle | batch 3", says=["no operation shufle", "did you mean shuffle?"], under="shufle")
    assert result.err.splitlines()[3] == "  try: penstock ops"
    mistake("range 10 | batch", says="batch", under="batch")
    mistake("range 10 | batch three", says="three", under="three")
    mistake("range 10 | batch 0", says="0", under="0")
    mistake("range 10 | shuffle sed=3", says="sed", under="sed")
    mistake("range 10 | batch 3 4 5 6", says="batch")
    mistake("range 10 | | batch 3", says="operation")
    mistake("range 10 | select nothing | batch 3", says="nothing", code=None)
    mistake("batch 3", says="begins with a source")
    mistake("range 10 | range 10", says="source", under="range 10")
    mistake("", says="no operation")
    mistake(" # nothing", says="no operation")
    error = report("plan", "range 10 | shufle", code=2)["error"]
    assert error["status"] == "PST_EINVAL" and error["offset"] == 11 and error["message"].endswith("^^^^^^"), error


def test_sources_that_are_not_there():
    with scratch() as folder:
        for source in ("tfrecord", "folder", "files", "npy"):
            result = mistake(f"{source} {folder}/none | batch 3", says=f"{folder}/none", code=1)
            assert "^" in result.err, result
        os.mkdir(f"{folder}/empty")
        mistake(f"tfrecord {folder}/empty | batch 3", says="empty", code=1)


def test_ranks():
    for uneven, batches in (("pad", 3), ("drop", 2), ("allow", 3)):
        plan = report("plan", "range 100 | batch 10", "--world", 4, "--rank", 1, "--uneven", uneven)["plan"]
        assert plan["batches"] == 10 and plan["rank_batches"] == batches, (uneven, plan)
    assert report("plan", "range 100 | batch 10", "--world", 4, "--rank", 3, "--uneven", "allow")["plan"]["rank_batches"] == 2
    for command in ("plan", "cat", "bench"):
        assert "--world 4 needs --rank, 0 to 3" in penstock(command, "range 3", "--world", 4, code=2).err
    assert report("plan", "range 100 | batch 10", "--world", 1)["plan"]["rank_batches"] == 10
    assert "rank 4 of 4" in penstock("plan", "range 3", "--world", 4, "--rank", 4, code=2).err


def test_hosts_keep_to_their_parts():
    """With 1, 2 and 4 ranks on as many or fewer hosts, every sample comes once, and a host's are of its part."""
    text, batches = "range 400 | shuffle | batch 8", 50

    def ids(world, rank, hosts):
        out = penstock("cat", "-n", 0, text, "--world", world, "--rank", rank, "--hosts", hosts, "--uneven", "allow").out
        return [int(word) for line in out.splitlines() for word in line.split()[-1:] if word.isdigit() and "int64" in line]

    for world, hosts in ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4)):
        found = [ids(world, rank, hosts) for rank in range(world)]
        assert sorted(sum(found, [])) == list(range(400)), (world, hosts, [len(part) for part in found])
        each = world // hosts
        for host in range(hosts if hosts > 1 else 0):
            begin, end = 8 * (batches * host // hosts), 8 * (batches * (host + 1) // hosts)
            mine = sum(found[host * each:(host + 1) * each], [])
            assert sum(not begin <= i < end for i in mine) <= 8 * (hosts - 1), (world, hosts, host)
            assert mine != sorted(mine)
    said = penstock("plan", text, "--world", 4, "--rank", 0, "--hosts", 4).out
    assert "4 parts, one per host" in said and "25 %" in said and "2 of 50 batches" in said and "does not mix the parts" in said, said
    assert "every host must have as many ranks" in penstock("plan", text, "--world", 4, "--rank", 0, "--hosts", 3, code=2).err
    assert "at most one shuffle" in penstock("plan", "range 100 | shuffle | take 50 | batch 5", "--world", 2, "--rank", 0, "--hosts", 2, code=None).err


def test_options_that_make_no_sense():
    for arguments, says in ((["--bad", "sometimes"], "--bad sometimes"), (["--uneven", "padd"], "did you mean pad?"),
                            (["--workers", "0"], "1 to 256"), (["--ram", "much"], "a size such as 64M"), (["--wrokers", "2"], "--workers?")):
        assert says in penstock("plan", "range 3", *arguments, code=2).err
    assert "penstock plan PIPELINE" in penstock("plan", code=2).err
    assert "budget" in penstock("plan", "range 1000000 | batch 1000000", "--ram", "1M", code=1).err


def test_hostile_names_are_printed_without_harm():
    with scratch() as folder:
        path = f"{folder}/a.tfrecord"
        with open(path, "wb") as f:
            f.write(frame(example(**{"a\033[31m\nworkers   9": [1]})))
        for arguments in (["plan"], ["cat"], ["plan", "--no-fuse"]):
            result = penstock(*arguments, f"tfrecord {path} | example", code=None)
            text = result.out + result.err
            assert "\033" not in text, result
        result = penstock("plan", "range 3 | \033[31m\n", code=2)
        assert "\033" not in result.err, result


def test_mistakes_in_expressions_are_shown_where_they_are():
    for text, said, caret in (("range 9 | filter \"inde < 3\" | batch 2", "there is no field inde", "inde"), ("range 9 | filter 'index >'", "ends where", "'")):
        lines = penstock("plan", text, code=2).err.splitlines()
        assert said in lines[0] and "\\n" not in lines[0] and lines[1].strip() == text, lines
        begin = lines[2].index("^") - 2
        assert text[begin : begin + lines[2].count("^")] == caret, lines
    mistake("range 9 | filter l", says="no field l", under="l")
    mistake("choose (range 3 | filter 'inde < 3') (range 3) (range 4) field=value | batch 2", says="no field inde", under="inde")
    with scratch() as folder:
        with open(f"{folder}/train.pst", "w") as f:
            f.write("range 9\n| filter 'inde < 3'\n| batch 2\n")
        mistake(f"@{folder}/train.pst", says=["train.pst: at byte 18: ", "no field inde"], under="inde", code=1)


tap.main(globals())
