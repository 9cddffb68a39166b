#!/usr/bin/env python3
"""The doctor's predictions beside measurements: pipelines x remedies.

    bench/doctor_pairs.py PENSTOCK [--json OUT] [--quick] [--only TEXT] [--least 30]

For each pipeline, `penstock doctor --verify` predicts every remedy from short trials of costs, then applies it to a sample and runs it in turns with the
present pipeline. A pair is one remedy of one pipeline; its error is predicted / measured - 1 on the same sample. Prints a table, the median and the
worst error. Exit 1 if there are fewer pairs than --least, the median error exceeds 10 % or the worst 25 %. Run it on a quiet machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def prepare(tool, folder):
    """Data of several kinds; returns the pipelines, each with the options of the doctor."""
    def run(*words):
        subprocess.run([tool, *map(str, words), "-q"], check=True, cwd=folder, stdout=subprocess.DEVNULL)

    run("generate", "tiny", "--images", 3000, "--size", 24)
    run("generate", "small", "--images", 800, "--size", 96)
    run("generate", "photos", "--images", 120, "--size", 500)
    run("pack", "small", "small-shards", "--shards", 2)
    run("pack", "photos", "photo-shards", "--shards", 2)
    run("pack", "small", "small-gz", "--shards", 2, "--compress", "gzip")
    small, photos, packed = "tfrecord small-shards/*-of-00002", "folder photos", "tfrecord photo-shards/*-of-00002"
    gz = "tfrecord small-gz/*-of-00002*"
    usual = "flip | normalize imagenet | batch"
    return [
        ("tiny files", f"folder tiny | shuffle | decode | resize 24 | {usual} 64", []),
        ("tiny files, one worker", f"folder tiny | shuffle | decode | resize 24 | {usual} 64", ["--workers", "1"]),
        ("small files", f"folder small | shuffle | decode | resize 64 | {usual} 32", []),
        ("small files, crops", f"folder small | shuffle | decode | random_resized_crop 64 | {usual} 32", []),
        ("small shards", f"{small} | shuffle | example | decode | resize 64 | {usual} 32", []),
        ("small shards, one worker", f"{small} | shuffle | example | decode | resize 64 | {usual} 32", ["--workers", "1"]),
        ("small shards, batches of 1", f"{small} | shuffle | example | decode | resize 32 | {usual} 1", []),
        ("photos", f"{photos} | shuffle | decode | resize 96 | {usual} 16", []),
        ("photos, crops", f"{photos} | shuffle | decode | random_resized_crop 96 | {usual} 16", []),
        ("photos in shards", f"{packed} | shuffle | example | decode | resize 160 | {usual} 16", []),
        ("photos in shards, crops", f"{packed} | shuffle | example | decode | random_resized_crop 160 | {usual} 16", []),
        ("gzip shards", f"{gz} | shuffle | example | decode | resize 64 | {usual} 32", []),
        ("gzip shards, one worker", f"{gz} | shuffle | example | decode | resize 64 | {usual} 32", ["--workers", "1"]),
        ("labels only", f"{small} | shuffle | example 'label:int64 width:int64' | batch 4", []),
        ("numbers, batches of 2", "range 1000000 | shuffle | batch 2", []),
    ]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("penstock")
    arguments.add_argument("--json")
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--only", default="")
    arguments.add_argument("--least", type=int, default=30)
    given = arguments.parse_args()
    tool, rows = os.path.abspath(given.penstock), []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        print("| pipeline | remedy | now | predicted | measured | error |\n|---|---|---|---|---|---|")
        for name, text, options in prepare(tool, folder):
            if given.only not in name:
                continue
            words = [tool, "doctor", text, "--verify", "--json", "-q", *options, *(["--quick"] if given.quick else [])]
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True, cwd=folder).stdout)
            for remedy in found["remedies"]:
                measured = remedy["measured"]
                if measured:
                    rows.append({"pipeline": name, "remedy": remedy["id"], "now": measured["now_samples_per_s"],
                                 "predicted": measured["predicted_samples_per_s"], "measured": measured["samples_per_s"],
                                 "error": measured["error"], "others": found["limits"]["others_share"]})
                    row = rows[-1]
                    print(f"| {name} | {row['remedy']} | {row['now']:.0f} | {row['predicted']:.0f} | {row['measured']:.0f} "
                          f"| {100 * row['error']:+.0f} % |", flush=True)
    errors = [abs(row["error"]) for row in rows]
    median, worst = statistics.median(errors), max(errors)
    print(f"\n{len(rows)} pairs, median error {100 * median:.1f} %, worst {100 * worst:.1f} %")
    if given.json:
        with open(given.json, "w") as out:
            json.dump({"pairs": rows, "median_error": median, "worst_error": worst}, out, indent=1)
    sys.exit(len(rows) < given.least or median > 0.10 or worst > 0.25)


if __name__ == "__main__":
    main()
