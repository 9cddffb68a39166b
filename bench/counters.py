#!/usr/bin/env python3
"""What the always-on counters cost: the same pipelines with the engine's counters and without them, in turns.

    ninja -C build bench/bench_counters bench/bench_counters_bare
    bench/counters.py BUILD [--rounds 31] [--seconds 0.25]

Prints the cost per pipeline, as the median over the rounds with its quartiles: of the CPU time per sample, (with - without) / with, and of the rate,
(without - with) / without. All cores are busy, so that both say what throughput is lost; CPU time varies far less from round to round. Exit 1
if the median by CPU time is 1 % or more.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile


def run(program, text, seconds):
    """Samples per second and CPU microseconds per sample."""
    return tuple(map(float, subprocess.run([program, text, str(seconds)], check=True, capture_output=True, text=True).stdout.split()))


def words(costs):
    low, median, high = statistics.quantiles(costs, n=4)
    return f"{100 * median:6.2f} %   quartiles {100 * low:.2f} to {100 * high:.2f} %"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("--rounds", type=int, default=31)
    arguments.add_argument("--seconds", type=float, default=0.25)
    given = arguments.parse_args()
    tool = os.path.join(given.build, "cli", "penstock")
    programs = [os.path.join(given.build, "bench", name) for name in ("bench_counters", "bench_counters_bare")]
    worst = 0
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        subprocess.run([tool, "generate", f"{folder}/images", "--images", "400", "--size", "96", "-q"], check=True)
        subprocess.run([tool, "pack", f"{folder}/images", f"{folder}/shards", "--shards", "2", "-q"], check=True)
        shards = f"tfrecord {folder}/shards/*-of-00002"
        pipelines = {
            "numbers, batches of 512": "range 1000000 | shuffle | batch 512",
            "Examples without images, batches of 64": f"{shards} | shuffle | example 'label:int64 width:int64' | batch 64",
            "images decoded and cropped": f"{shards} | shuffle | example | decode | random_resized_crop 64 | flip | normalize imagenet | batch 64",
        }
        for name, text in pipelines.items():
            by_time, by_rate = [], []
            for number in range(given.rounds):
                found = {which: run(programs[which], text, given.seconds) for which in ((0, 1) if number % 2 else (1, 0))}
                by_time.append(1 - found[1][1] / found[0][1])
                by_rate.append(1 - found[0][0] / found[1][0])
            worst = max(worst, statistics.median(by_time))
            print(f"{name:45} CPU time {words(by_time)}; rate {words(by_rate)}", flush=True)
    sys.exit(worst >= 0.01)


if __name__ == "__main__":
    main()
