#!/usr/bin/env python3
"""What the always-on counters cost: the same pipelines with the engine's counters and without them, in turns.

    ninja -C build bench/bench_counters bench/bench_counters_bare
    bench/counters.py BUILD [--rounds 15] [--seconds 0.5]

Prints the cost per pipeline: the median over the rounds of (rate without - rate with) / rate without, and its quartiles. Exit 1 if a median is
1 % or more.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile


def rate(program, text, seconds):
    return float(subprocess.run([program, text, str(seconds)], check=True, capture_output=True, text=True).stdout)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--seconds", type=float, default=0.5)
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
            costs = []
            for number in range(given.rounds):
                order = (0, 1) if number % 2 else (1, 0)
                rates = {}
                for which in order:
                    rates[which] = rate(programs[which], text, given.seconds)
                costs.append((rates[1] - rates[0]) / rates[1])
            low, median, high = statistics.quantiles(costs, n=4)
            worst = max(worst, median)
            print(f"{name:45} {100 * median:6.2f} %   quartiles {100 * low:.2f} to {100 * high:.2f} %", flush=True)
    sys.exit(worst >= 0.01)


if __name__ == "__main__":
    main()
