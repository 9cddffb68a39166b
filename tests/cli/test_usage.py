"""The command line: what is accepted, what is refused, and what is said about it."""
import os
import pty
import select
import subprocess

import tap
from tool import PENSTOCK, environment, penstock, report, scratch


def refused(*arguments, says):
    result = penstock(*arguments, code=2)
    assert result.out == ""
    first, *rest = result.err.splitlines()
    assert first.startswith("penstock: error: "), result
    for piece in [says] if isinstance(says, str) else says:
        assert piece in first, f"{piece!r} not in {first!r}"
    assert rest and rest[0].startswith("  try: "), result
    return result


def test_a_path_in_place_of_a_pipeline():
    """A missing path is named as one; a path that exists needs a source before it."""
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--size=16", "-n", 4, "-q")
        for command, *options in (["cat"], ["plan"], ["bench"], ["doctor"], ["train", "--model", "dense 2"]):
            for path in ("nothing/", "nothing/x.bin", "nothing.tfrecord", "nothing.csv.gz", f"{folder}/none"):
                for rest in ("", " | batch 2"):
                    result = penstock(command, path + rest, *options, code=1)
                    assert result.err.startswith(f"penstock: error: {path}: no such file or folder"), (command, result)
            assert "no operation nothing" in penstock(command, "nothing | batch 2", *options, code=2).err
        for command in ("cat", "plan", "bench"):
            for path in (f"{folder}/photos", f"{folder}/photos/", f"{folder}/*.tfrecord", "s3://bucket/key"):
                assert "`folder PATH` or `tfrecord PATH`" in penstock(command, path, code=2).err, command
        assert "no operation nothing" in penstock("plan", "nothing 'a/b'", code=2).err


def test_one_rule_for_exit_codes():
    """2: what was written is wrong. 1: a file is not there. The same for every command."""
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--size=16", "-n", 4, "-q")
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "-q")
        shards, none = f"{folder}/shards", f"{folder}/none"
        for arguments in (["pack", none, f"{folder}/out"], ["inspect", none], ["index", none], ["repair", none, f"{folder}/out"],
                          *([command, f"tfrecord {none} | batch 2"] for command in ("plan", "bench", "cat"))):
            penstock(*arguments, code=1)
        for command in ("plan", "bench", "cat"):
            for text in ("nonsense", f"tfrecord {shards} | shuffle many", f"tfrecord {shards} | select nope",
                         f"tfrecord {shards} | example 'lable:int64'", f"tfrecord {shards} | normalize field=record",
                         f"tfrecord {shards} | example | cast f32 image"):
                penstock(command, text, code=2)
        for arguments in (["inspect", shards, "--label", "nope"], ["inspect", shards, "--image", "label"],
                          ["inspect", shards, "--nope"], ["cat", f"tfrecord {shards}", "--sheet", f"{folder}/s.png", "--image", "nope"],
                          ["pack", f"{folder}/photos", f"{folder}/out", "--features", "nope=x"],
                          ["pack", f"{folder}/photos", f"{folder}/out", "--format", "nope"], ["index", shards, "--nope"],
                          ["repair", shards], ["generate", f"{folder}/g", "--size", "x"], ["ops", "nope"], ["help", "nope"],
                          ["completion", "nope"], ["nope"]):
            penstock(*arguments, code=2)


def test_data_that_are_not_as_declared():
    """3, whichever command finds it: a text among integers, a row without a label, a label beyond int64."""
    with scratch() as folder:
        for name, text in (("b4.csv", "label,x\n1,2\n2,oops\n"), ("short.csv", "a.jpg,1\nb.jpg\n"), ("large.csv", "a.jpg,1\nb.jpg,99999999999999999999\n")):
            with open(f"{folder}/{name}", "w") as f:
                f.write(text)
        for arguments in (["cat", f"csv {folder}/b4.csv columns='label:int64 x:int64'"],
                          ["pack", f"{folder}/b4.csv", f"{folder}/out", "--columns", "label:int,x:int"],
                          ["cat", f"files {folder}/short.csv"], ["pack", "--from", "list", f"{folder}/short.csv", f"{folder}/out"],
                          ["cat", f"files {folder}/large.csv"], ["pack", "--from", "list", f"{folder}/large.csv", f"{folder}/out"]):
            penstock(*arguments, code=3)
        penstock("cat", f"csv {folder}/b4.csv columns=nope", code=2)


def test_paths_where_there_is_nothing():
    with scratch() as folder:
        for arguments in (["pack", "nosuch", f"{folder}/out"], ["export", "nosuch", f"{folder}/a.onnx"], ["predict", "nosuch", folder]):
            assert penstock(*arguments, code=1).err == "penstock: error: nosuch: no such file or folder; check the spelling\n"
        os.mkdir(f"{folder}/e")
        result = subprocess.run([PENSTOCK, "plan", "e"], cwd=folder, env=environment(), text=True, capture_output=True)
        assert result.returncode == 2 and "e: a pipeline begins with the name of a source" in result.stderr, result


def test_one_is_singular():
    assert "number 5 of 1 shard; they" in penstock("plan", "range 9 | shard 1 5", code=2).err
    assert "shard: shard" not in penstock("plan", "range 9 | shard 1 5", code=2).err
    assert "Step of 1 sample:" in penstock("model", "dense 2", "--input", "4", "--batch", 1).out


def test_unknown_command_suggests():
    assert "try: penstock pack" in refused("pakc", says="unknown command pakc").err
    assert "try: penstock inspect" in refused("inspct", says="unknown command inspct").err
    assert "try: penstock help\n" in refused("frobnicate", says="unknown command frobnicate").err
    refused("help", "pakc", says="unknown command pakc")
    refused("man", "pakc", says="unknown command pakc")


def test_unknown_option_suggests():
    refused("pack", "--shrads", "3", "a", "b", says=["unknown option --shrads", "did you mean --shards?"])
    refused("pack", "--resiez=3", "a", "b", says="did you mean --resize?")
    result = refused("pack", "--frobnicate", "a", "b", says="unknown option --frobnicate")
    assert "did you mean" not in result.err
    refused("pack", "-x", "a", "b", says="unknown option -x")


def test_names_are_not_abbreviated():
    refused("pack", "--shard", "3", "a", "b", says="did you mean --shards?")
    refused("pack", "--qual", "3", "a", "b", says="did you mean --quality?")


def test_wrong_values_tell_what_is_right():
    refused("pack", "--quality", "101", "a", "b", says=["--quality 101", "whole number, 1 to 100"])
    refused("pack", "--quality", "ninety", "a", "b", says="whole number, 1 to 100")
    refused("pack", "--quality", "9O", "a", "b", says="--quality 9O")
    refused("pack", "--shuffle", "-1", "a", "b", says="not negative")
    refused("pack", "--shuffle", "18446744073709551616", "a", "b", says="--shuffle 18446744073709551616")
    refused("pack", "--shard-size", "64X", "a", "b", says="a size such as 64M")
    refused("pack", "--shard-size", "nan", "a", "b", says="a size such as 64M")
    refused("pack", "--format", "jpg", "a", "b", says=["one of keep, jpeg, png, webp, raw, yuv420", "did you mean jpeg?"])
    refused("pack", "--delimiter", "::", "a", "b", says="one character, or tab")
    refused("pack", "--bad", "sometimes", "a", "b", says="--bad sometimes")
    refused("completion", "tcsh", says="one of bash, zsh, fish")


def test_options_that_exclude_each_other():
    refused("pack", "--gray", "--rgb", "a", "b", says="--gray and --rgb")
    refused("pack", "--shards", "3", "--shard-size", "1M", "a", "b", says="--shards and --shard-size")
    refused("index", "--check", "--rebuild", "a", says="--check and --rebuild")


def test_missing_values_and_operands():
    refused("pack", "a", "b", "--shards", says="--shards needs a value")
    refused("pack", "a", "b", "--name", "--json", says=["--name needs a value", "--name=--json"])
    refused("pack", "--json=yes", "a", "b", says="--json takes no value")
    refused("pack", "a", says="penstock pack SOURCE... OUT")
    refused("generate", says="penstock generate OUT")
    refused("generate", "a", "b", says="one operand too many: b")


def test_every_spelling_of_an_option():
    with scratch() as folder:
        for number, spelling in enumerate((["--images", "3"], ["--images=3"], ["-n", "3"], ["-n3"])):
            out = f"{folder}/{number}"
            assert report("generate", out, "--size=16", *spelling)["images"] == 3
            assert report("generate", *spelling, "--size", 16, "--force", "--", out)["images"] == 3


def test_the_last_of_several_wins_and_flags_are_taken_back():
    with scratch() as folder:
        assert report("generate", f"{folder}/a", "--size=16", "-n", 9, "-n", 4)["images"] == 4
        penstock("generate", f"{folder}/a", "--size=16", "-n", 4, "--force", "--no-force", code=1)
        assert penstock("generate", f"{folder}/b", "--size=16", "-n", 4, "-qf").out == ""
        assert penstock("generate", f"{folder}/b", "--size=16", "-n", 4, "-qf", "--no-quiet").out != ""


def test_operands_with_dashes():
    with scratch() as folder:
        penstock("generate", "-q", "--size=16", "-n4", "--", "-dash", cwd=folder)
        assert sorted(os.listdir(f"{folder}/-dash"))
        refused("generate", "-dash", says="unknown option -d")


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w") as full:
        for arguments in (["help"], ["help", "pack"], ["man"], ["completion", "zsh"], ["version"]):
            result = penstock(*arguments, code=1, stdout=full)
            assert "penstock: error: writing to standard output: No space left" in result.err, result


def test_closed_output_is_a_failure_and_stays_closed():
    with scratch() as folder:
        script = f'exec "$0" generate {folder}/a --size=16 -n 4 >&-'
        done = subprocess.run(["sh", "-c", script, PENSTOCK], env=environment(), capture_output=True, text=True)
        assert done.returncode == 1 and "standard output" in done.stderr, done
        for base, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(base, name), "rb") as f:
                    assert b"drew" not in f.read(), "what was printed went into a file"


def test_a_reader_that_stops_is_no_news():
    done = subprocess.run(["sh", "-c", '"$0" help pack | true', PENSTOCK], env=environment(), capture_output=True, text=True)
    assert done.stderr == "", done


def on_terminal(*arguments, columns, **extra):
    """Runs with standard error on a terminal; returns what was painted there."""
    master, slave = pty.openpty()
    child = subprocess.Popen([PENSTOCK, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
                             env=environment(COLUMNS=str(columns), **extra))
    os.close(slave)
    painted = b""
    while child.poll() is None or select.select([master], [], [], 0)[0]:
        if select.select([master], [], [], 0.1)[0]:
            try:
                painted += os.read(master, 65536)
            except OSError:
                break
    os.close(master)
    assert child.wait() == 0
    return painted.decode()


def test_progress_bar_fits_the_terminal():
    with scratch() as folder:
        for columns in (30, 50, 80, 200):
            painted = on_terminal("generate", f"{folder}/{columns}", "--size=64", "-n", "150", columns=columns, TERM="xterm")
            assert painted.endswith("\r\033[K"), "the bar is taken off the screen"
            for line in painted.replace("\033[2m", "").replace("\033[0m", "").split("\r"):
                assert len(line.replace("\033[K", "")) < columns, (columns, line)
            if columns >= 80:
                for piece in ("drawing", "━", "%", "/150 images"):
                    assert piece in painted, (piece, painted)


def test_progress_honours_the_terminal():
    with scratch() as folder:
        plain = on_terminal("generate", f"{folder}/a", "--size=16", "-n", "40", columns=80, TERM="xterm", NO_COLOR="1")
        assert "\033[2m" not in plain and "drawing" in plain
        ascii_only = on_terminal("generate", f"{folder}/b", "--size=16", "-n", "40", columns=80, TERM="xterm", LC_ALL="C")
        assert "#" in ascii_only and "━" not in ascii_only
        dumb = on_terminal("generate", f"{folder}/c", "--size=16", "-n", "40", columns=80, TERM="dumb")
        assert "\033" not in dumb and dumb.startswith("drawing: 40/40 images")
        assert on_terminal("generate", f"{folder}/d", "--size=16", "-n", "40", "--quiet", columns=80, TERM="xterm") == ""


def test_progress_without_a_terminal_is_lines():
    with scratch() as folder:
        result = penstock("generate", f"{folder}/a", "--size=16", "-n", 40)
        assert result.err.startswith("drawing: 40/40 images, ") and result.err.count("\n") == 1, result
        assert penstock("generate", f"{folder}/b", "--size=16", "-n", 40, "--json").err == ""


tap.main(globals())
