#!/usr/bin/env python3
"""The doctor's predictions beside measurements: pipelines x remedies.

    bench/doctor_pairs.py PENSTOCK [--json OUT] [--data FOLDER] [--state FILE] [--seconds S] [--quick] [--calm 0.1] [--only TEXT] [--rounds 3] [--most 5] [--least 30]

For each pipeline, `penstock doctor --verify` predicts every remedy from short trials of costs, then applies it to a sample and runs it in turns with the
present pipeline. A pair is one remedy of one pipeline; its error is predicted / measured - 1 on the same sample. Prints a table, the median and the
worst error. Exit 1 if there are fewer pairs than --least, the median error exceeds 10 % or the worst 25 %. Run it on a quiet machine.

The speed of a shared machine changes between a prediction and its measurement. So every pipeline is examined --rounds times, and a pair's figures are
the medians of its rounds. Where the rounds of a pair disagree by more than 25 points, its pipeline is examined again, up to --most times. Other programs
and other virtual machines spoil the comparison: a round during which they used more than --calm of the machine is measured again, up to three times.

It takes about a minute per pipeline and round. With --state, results are kept there and pipelines that have one are not measured again; with --seconds, it ends
after that time with exit code 75, and the next call continues. With --data, the data is kept, too.
"""
import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

AGAIN = 75  # exit code: call it once more
TRIES = 3
DISAGREE = 0.25  # between the errors of one pair: one round more


def prepare(tool, folder):
    """Makes data of several kinds where it is missing."""
    def run(*words):
        if not os.path.exists(os.path.join(folder, words[2 if words[0] == "pack" else 1])):
            subprocess.run([tool, *map(str, words), "-q"], check=True, cwd=folder, stdout=subprocess.DEVNULL)

    run("generate", "tiny", "--images", 3000, "--size", 24)
    run("generate", "small", "--images", 800, "--size", 96)
    run("generate", "photos", "--images", 120, "--size", 500)
    run("pack", "small", "small-shards", "--shards", 2)
    run("pack", "photos", "photo-shards", "--shards", 2)
    run("pack", "small", "small-gz", "--shards", 2, "--compress", "gzip")


def pipelines():
    """Each with the options of the doctor."""
    small, photos, packed = "tfrecord small-shards/*-of-00002", "folder photos", "tfrecord photo-shards/*-of-00002"
    gz = "tfrecord small-gz/*-of-00002*"
    usual = "flip | normalize imagenet | batch"
    return [
        ("small files", f"folder small | shuffle | decode | resize 64 | {usual} 32", []),
        ("small shards, one worker", f"{small} | shuffle | example | decode | resize 64 | {usual} 32", ["--workers", "1"]),
        ("photos", f"{photos} | shuffle | decode | resize 96 | {usual} 16", []),
        ("tiny files, one worker", f"folder tiny | shuffle | decode | resize 24 | {usual} 64", ["--workers", "1"]),
        ("photos in shards, crops", f"{packed} | shuffle | example | decode | random_resized_crop 160 | {usual} 16", []),
        ("small shards, batches of 1", f"{small} | shuffle | example | decode | resize 32 | {usual} 1", []),
        ("gzip shards", f"{gz} | shuffle | example | decode | resize 64 | {usual} 32", []),
        ("tiny files", f"folder tiny | shuffle | decode | resize 24 | {usual} 64", []),
        ("photos, crops", f"{photos} | shuffle | decode | random_resized_crop 96 | {usual} 16", []),
        ("small files, crops", f"folder small | shuffle | decode | random_resized_crop 64 | {usual} 32", []),
        ("small shards", f"{small} | shuffle | example | decode | resize 64 | {usual} 32", []),
        ("photos in shards", f"{packed} | shuffle | example | decode | resize 160 | {usual} 16", []),
        ("gzip shards, one worker", f"{gz} | shuffle | example | decode | resize 64 | {usual} 32", ["--workers", "1"]),
        ("labels only", f"{small} | shuffle | example 'label:int64 width:int64' | batch 4", []),
        ("numbers, batches of 2", "range 1000000 | shuffle | batch 2", []),
        ("a tree that decodes copies", f"concatenate ({small} | example | decode | resize 64) ({small} | example | decode | resize 64) | unique key | {usual} 32", []),
        ("a model", f"{small} | shuffle | example | decode | resize 32 | normalize imagenet | batch 32", ["--model", "resnet20"]),
    ]


def machine_seconds():
    """CPU time of all programs and of other virtual machines (stolen), and of our children."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _wait, _irq, _softirq, stolen = map(int, stat.readline().split()[1:9])
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (user + nice + system + stolen) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def examine(tool, folder, name, text, options):
    """The pairs of one pipeline."""
    begun, before = time.monotonic(), machine_seconds()
    words = [tool, "doctor", text, "--verify", "--json", "-q", *options]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder).stdout)
    seconds, after = time.monotonic() - begun, machine_seconds()
    others = (after[0] - before[0] - (after[1] - before[1])) / seconds / os.cpu_count()
    rows = []
    for remedy in found["remedies"]:
        measured = remedy["measured"]
        if measured:
            rows.append({"remedy": remedy["id"], "now": measured["now_samples_per_s"], "predicted": measured["predicted_samples_per_s"],
                         "measured": measured["samples_per_s"], "error": measured["error"]})
    return {"pipeline": name, "cause": found["verdict"]["cause"], "others": round(others, 3), "seconds": seconds, "pairs": rows}


def load(path):
    if path and os.path.exists(path):
        with open(path) as state:
            return json.load(state)
    return {}


def save(path, value):
    if path:
        with open(path + ".new", "w") as out:
            json.dump(value, out, indent=1)
        os.replace(path + ".new", path)


def middle(rounds, remedy, least):
    """The medians of one pair over all rounds that have it; None if fewer than `least` have it."""
    pairs = [pair for result in rounds for pair in result["pairs"] if pair["remedy"] == remedy]
    return len(pairs) >= least and {key: statistics.median(pair[key] for pair in pairs) for key in ("now", "predicted", "measured", "error")}


def wanted(rounds, given):
    """How many rounds a pipeline needs, as far as its rounds so far tell."""
    errors = {}
    for pair in (pair for result in rounds for pair in result["pairs"]):
        errors.setdefault(pair["remedy"], []).append(pair["error"])
    disagree = any(max(each) - min(each) > DISAGREE for each in errors.values())
    return given.most if disagree else given.rounds


def summarize(done, given):
    """Prints the table; returns whether the claim holds."""
    rows, least = [], min(given.rounds, 2)  # one round of several is not enough for a median
    for name, rounds in done.items():
        remedies = dict.fromkeys(pair["remedy"] for result in rounds for pair in result["pairs"])
        rows += [dict(pair, pipeline=name, remedy=remedy) for remedy in remedies if (pair := middle(rounds, remedy, least))]
    print("| pipeline | remedy | now | predicted | measured | error |\n|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {row['pipeline']} | `{row['remedy']}` | {row['now']:.0f} | {row['predicted']:.0f} | {row['measured']:.0f} | {100 * row['error']:+.0f} % |")
    errors = [abs(row["error"]) for row in rows] or [1.0]
    median, worst = statistics.median(errors), max(errors)
    print(f"\n{len(rows)} pairs, median error {100 * median:.1f} %, worst {100 * worst:.1f} %")
    save(given.json, {"pairs": rows, "median_error": median, "worst_error": worst})
    return len(rows) >= given.least and median <= 0.10 and worst <= 0.25


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("penstock")
    arguments.add_argument("--json")
    arguments.add_argument("--data")
    arguments.add_argument("--state")
    arguments.add_argument("--seconds", type=float, default=float("inf"))
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--prepare", action="store_true", help="only make the data")
    arguments.add_argument("--calm", type=float, default=0.1)
    arguments.add_argument("--only", default="")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--most", type=int, default=5)
    arguments.add_argument("--least", type=int, default=30)
    given = arguments.parse_args()
    tool, done, begun, longest = os.path.abspath(given.penstock), load(given.state), time.monotonic(), 0.0
    with contextlib.ExitStack() as stack:
        folder = given.data or stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-"))
        os.makedirs(folder, exist_ok=True)
        prepare(tool, folder)
        if given.prepare:
            return
        for turn in range(given.most):
            for name, text, options in pipelines():
                for attempt in range(TRIES):
                    rounds = done.setdefault(name, [])
                    if given.only not in name or len(rounds) > turn or turn >= wanted(rounds, given):
                        break
                    if time.monotonic() - begun + longest > given.seconds:
                        sys.exit(AGAIN)
                    result = examine(tool, folder, name, text, options + ["--quick"] * given.quick)
                    longest = max(longest, result["seconds"])
                    if result["others"] <= given.calm or attempt == TRIES - 1:
                        rounds.append(result)
                    save(given.state, done)
                    print(f"{name}: {len(result['pairs'])} pairs in {result['seconds']:.0f} s; others used {100 * result['others']:.0f} % of the machine",
                          file=sys.stderr, flush=True)
    sys.exit(not summarize(done, given))


if __name__ == "__main__":
    main()
