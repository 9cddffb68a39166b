"""`penstock bench`: figures that agree with each other, limits, the verdict on waiting, the live view, Ctrl-C."""
import glob
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess

import tap
from patience import HANG, wait_until
from tool import PENSTOCK, environment, penstock, report, scratch, shards as shard_paths


def wait_for_samples(process, monitor, least=1):
    """Waits until the pipeline has delivered as many samples, as its monitor in this folder says."""
    def delivered():
        try:
            path, = glob.glob(f"{monitor}/*.sock")
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                return json.loads(b"".join(iter(lambda: s.recv(4096), b"")))["samples"] >= least
        except (ValueError, OSError):  # it is not there yet
            return False

    wait_until(delivered, f"{least} samples", process)


def run_and_truncate(folder, text, path, size):
    """A pipeline over many epochs whose file becomes short meanwhile."""
    process = subprocess.Popen([PENSTOCK, "bench", text, "--epochs", "100000000", "--workers", "2"], env=environment(PENSTOCK_MONITOR=f"{folder}/run"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    wait_for_samples(process, f"{folder}/run", 300)
    os.truncate(path, size)
    _, err = process.communicate(timeout=HANG)
    return process.returncode, err


def test_truncated_while_mapped():
    with scratch() as folder:
        penstock("generate", "images", "--images", 300, "--size", 64, cwd=folder)
        penstock("pack", "images", "data", "--shards", 1, cwd=folder)
        path, = shard_paths(os.path.join(folder, "data"))
        for io in ("auto", "map"):
            whole = open(path, "rb").read()
            code, err = run_and_truncate(folder, f"tfrecord {path} io={io} | shuffle | example | decode image | resize 32 | batch 16", path, 9000)
            assert code == 3 and os.path.basename(path) in err and "became shorter" in err, (code, err)
            open(path, "wb").write(whole)


NUMBERS = "range 1000 | batch 32"


def test_one_epoch():
    found = report("bench", NUMBERS)
    assert found["command"] == "bench" and found["pipeline"] == NUMBERS
    assert found["samples"] == 1000 and found["batches"] == 32 and found["epochs"] == 1 and found["bytes"] == 8000
    assert found["ended_by"] == "epochs" and 0 < found["first_batch_seconds"] < HANG and found["skipped"] == 0
    assert report("bench", "range 1000 | batch 32 drop_remainder=true")["samples"] == 31 * 32


def test_figures_agree():
    found = report("bench", "range 10000 | batch 50", "--epochs", 3, "--warmup", 20, "--workers", 2)
    measured = found["measured"]
    assert found["samples"] == 30000 and found["batches"] == 600 and found["epochs"] == 3
    assert measured["warmup_batches"] == 20 and measured["batches"] == 580 and measured["samples"] == 580 * 50
    assert 0 < measured["seconds"] < found["seconds"]
    assert abs(measured["samples_per_second"] * measured["seconds"] / measured["samples"] - 1) < 1e-6
    assert abs(measured["batches_per_second"] * 50 / measured["samples_per_second"] - 1) < 1e-6
    assert abs(sum(stage["share"] for stage in found["stages"]) - 1) < 1e-6
    assert [stage["name"] for stage in found["stages"]] == ["read", "batch"]
    for share in (found["workers_busy"], found["consumer"]["waited"], *(stage["share"] for stage in found["stages"])):
        assert 0 <= share <= 1
    assert found["workers"]["count"] == 2 and "asked" in found["workers"]["reason"] and found["prefetch"]["count"] >= 1
    assert found["memory"]["planned"] > 0 and found["memory"]["used"] > 0 and found["memory"]["peak_rss"] > 1 << 20
    assert found["consumer"]["verdict"] is None and found["consumer"]["ready_mean"] >= 0


def test_seconds_go_over_the_data_again():
    found = report("bench", NUMBERS, "--seconds", 0.5)
    assert found["ended_by"] == "seconds" and found["epochs"] > 1 and 0.5 <= found["seconds"] and found["samples"] > 1000
    found = report("bench", NUMBERS, "--seconds", HANG, "--epochs", 2)
    assert found["ended_by"] == "epochs" and found["epochs"] == 2
    found = report("bench", "range 10 | repeat | batch 3", "-s", 0.2)
    assert found["ended_by"] == "seconds" and found["epochs"] == 0


def test_words():
    out = penstock("bench", NUMBERS, "-v").out
    for heading in ("Rate", "Run", "Stages", "Workers", "Prefetch", "Consumer", "Memory"):
        assert re.search(rf"^{heading} ", out, re.M), f"no {heading} in {out}"
    assert "1,000 samples in 32 batches" in out and "1 whole epoch" in out and "this run is too short" in out
    assert re.search(r"^ +read +\d+%", out, re.M) and re.search(r"^ +batch +\d+%", out, re.M)
    assert "Skipped" not in out


def test_nothing_to_measure():
    assert penstock("bench", "range 0 | batch 3").out == "no batch was delivered: the pipeline is empty\n"
    found = report("bench", "range 0 | batch 3", "--seconds", 5)
    assert found["samples"] == 0 and found["first_batch_seconds"] is None
    found = report("bench", "range 3 | batch 3", "--warmup", 100)
    assert found["measured"]["samples"] == 3 and found["measured"]["warmup_batches"] == 0


def test_verdict():
    assert report("bench", NUMBERS, "--epochs", 2, "--hold", 3)["batches"] == report("bench", NUMBERS, "--epochs", 2)["batches"]
    for _ in range(5):  # other programs may take the processor meanwhile, but not each time
        patient = report("bench", NUMBERS, "--seconds", 0.8, "--simulate-step", 50)
        waited = patient["consumer"]["waited"]
        verdict = "consumer-bound" if waited < 0.05 else "balanced" if waited <= 0.2 else "input-bound"
        assert patient["consumer"]["verdict"] == verdict, patient
        assert patient["consumer"]["step_ms"] == 50 and 0 < patient["measured"]["batches_per_second"] <= 20, patient
        words = penstock("bench", NUMBERS, "-s", 0.8, "--simulate-step", 50).out
        if waited < 0.05 and "consumer-bound" in words:
            break
    assert waited < 0.05 and "consumer-bound" in words, (patient, words)
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 24, "--classes", 2, "--size", 1000, "-q")
        hungry = report("bench", f"folder {folder}/photos | decode | resize 300x300 bicubic | batch 8", "--epochs", 2, "--simulate-step", 0.1,
                        "--workers", 1)
        assert hungry["consumer"]["verdict"] == "input-bound" and hungry["consumer"]["waited"] > 0.2, hungry
        busiest = max(hungry["stages"], key=lambda stage: stage["share"])
        assert "decode" in busiest["name"] and busiest["share"] > 0.5 and busiest["us_per_sample"] > 100, hungry["stages"]


def test_damage_is_counted():
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 24, "--classes", 3, "--size", 32, "-q")
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "--shards", 2, "-q")
        with open(shard_paths(f"{folder}/shards")[0], "r+b") as f:
            f.seek(100)
            byte = f.read(1)
            f.seek(100)
            f.write(bytes([byte[0] ^ 1]))
        text = f"tfrecord {folder}/shards | example | batch 5"
        assert "crc" in penstock("bench", text, code=3).err
        found = report("bench", text, "--bad", "skip")
        assert found["samples"] == 23 and found["skipped"] == 1 and found["damage"] == {"data crc": 1}, found
        assert found["records"] == 24, found
        out = penstock("bench", text, "--bad", "skip", "-v").out
        assert "Skipped      1 of 24 records: 1 data crc\n" in out and "record 0: data crc" in out, out
        again = penstock("bench", text, "--bad", "skip", "--epochs", 3).out
        assert "Skipped      1 of 24 records: 1 data crc; 3 samples were left out in total\n" in again, again
        with open(f"{folder}/list.txt", "w") as f:
            f.write("missing.jpg\n")
        out = penstock("bench", f"files {folder}/list.txt", "--bad", "skip", "-v").out
        assert "Skipped      1 of 1 record: 1 missing\n" in out and "missing.jpg: missing" in out, out


def test_cache():
    found = report("bench", "range 100 | cache | shuffle | batch 10", "--epochs", 3)
    assert found["cache_hits"] >= 200, found["cache_hits"]


def test_interrupt_still_reports():
    for extra in ([], ["--simulate-step", str(10000 * HANG)]):  # whoever waits for such a step, or for the end of the run, hangs
        with scratch() as folder:
            child = subprocess.Popen([PENSTOCK, "bench", NUMBERS, "--seconds", str(10 * HANG), "--json", *extra], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=environment(PENSTOCK_MONITOR=f"{folder}/run"), text=True)
            wait_for_samples(child, f"{folder}/run")
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=HANG)
        assert child.returncode == 130, (child.returncode, err)
        assert '"ended_by": "interrupted"' in out and re.search(r'"samples": [1-9]', out), (out, err)


def on_terminal(*arguments, columns=80, **extra):
    """Runs with standard error on a terminal; returns what was painted there."""
    master, slave = pty.openpty()
    child = subprocess.Popen([PENSTOCK, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave,
                             env=environment(COLUMNS=str(columns), **{"TERM": "xterm", **extra}))
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


def screen(painted):
    """The lines that are left once every escape has been obeyed, and the widest line that ever was."""
    lines, row, widest = [""], 0, 0
    for piece in re.findall(r"\033\[[0-9;]*[A-Za-z]|\r|\n|[^\033\r\n]+", painted):
        if piece.endswith("A") and piece.startswith("\033["):
            row -= int(piece[2:-1])
            assert row >= 0, "above the first line"
        elif piece == "\033[J":
            lines = lines[:row] + [""]
        elif piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\r":
            lines[row] = ""
        elif not piece.startswith("\033"):
            lines[row] += piece
            widest = max(widest, len(lines[row]))
    return [line for line in lines if line], widest


def painted_in_time(pattern, seconds, **options):
    """What a run paints that is long enough for the pattern: a busy machine paints less often."""
    for _ in range(4):
        painted = on_terminal("bench", NUMBERS, "-s", str(seconds), **options)
        if re.search(pattern, painted):
            return painted
        seconds *= 3
    raise AssertionError(f"{pattern} is not in {painted}")


def test_live_view():
    for columns in (40, 150):
        painted = painted_in_time("[▁▂▃▄▅▆▇█]{4}" if columns == 150 else "%", 1.3, columns=columns)
        left, widest = screen(painted)
        assert left == [], "the view is taken off the screen"
        assert 10 < widest < columns, (columns, widest)
        for piece in ("samples/s", "ready ", "read ", "batch ", "%"):
            assert piece in painted, (columns, piece)
    plain = painted_in_time("#", 0.8, LC_ALL="C", NO_COLOR="1")
    assert "━" not in plain and "\033[2m" not in plain
    assert on_terminal("bench", NUMBERS, "-s", "0.5", "--quiet") == ""
    assert "\033" not in on_terminal("bench", NUMBERS, "-s", "0.5", TERM="dumb")


def test_lines_without_a_terminal():
    assert "" in (penstock("bench", NUMBERS, "-s", 0.3).err for _ in range(3)), "a short run has no line"
    assert re.fullmatch(r"(running: [\d,]+ samples, [\d,]+/s, [\d.]+ s elapsed\n)+", penstock("bench", NUMBERS, "-s", 5.3).err)
    assert penstock("bench", NUMBERS, "-s", 0.3, "--json").err == ""


def test_wrong_usage():
    for arguments, says in ((["--seconds", "0"], "--seconds 0"), (["--epochs", "none"], "--epochs none"),
                            (["--simulate-step", "-3"], "--simulate-step"), (["--hold", "65"], "--hold"), (["--epoch", "3"], "did you mean --epochs?")):
        assert says in penstock("bench", NUMBERS, *arguments, code=2).err
    result = penstock("bench", "range 10 | bach 3", code=2)
    assert "did you mean batch?" in result.err and "^^^^" in result.err
    assert report("bench", "range 10 | bach 3", code=2)["error"]["offset"] == 11


tap.main(globals())
