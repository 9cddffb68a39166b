#!/usr/bin/env python3
"""What the always-on counters cost: the same pipelines with the engine's counters and without them, in turns.

    ninja -C build bench/bench_counters bench/bench_counters_bare
    bench/counters.py BUILD [--rounds 101] [--seconds 0.1]

Prints the cost per pipeline: of the CPU time per sample, (with - without) / with, and of the rate, (without - with) / without. All cores are busy, so that
both say what throughput is lost. Neighbours on the machine only ever slow a round down, so the fastest tenth of the rounds of each program is compared;
the median over pairs of rounds and its quartiles show how quiet the machine was. Exit 1 if the cost by CPU time is 1 % or more.
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


def fast(times):
    """The mean of the fastest tenth."""
    return statistics.mean(sorted(times)[:max(1, len(times) // 10)])


def cost(with_counters, without):
    """Of times per sample: the cost by the fastest rounds, and how it is said."""
    low, median, high = statistics.quantiles([1 - b / a for a, b in zip(with_counters, without)], n=4)
    best = 1 - fast(without) / fast(with_counters)
    return best, f"{100 * best:6.2f} %   (pairs {100 * median:.2f}, quartiles {100 * low:.2f} to {100 * high:.2f} %)"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("--rounds", type=int, default=101)
    arguments.add_argument("--seconds", type=float, default=0.1)
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
            cpu, wall = ([], []), ([], [])
            for number in range(given.rounds):
                for which in (0, 1) if number % 2 else (1, 0):
                    rate, time = run(programs[which], text, given.seconds)
                    cpu[which].append(time)
                    wall[which].append(1 / rate)
            (found, by_cpu), (_, by_rate) = cost(*cpu), cost(*wall)
            worst = max(worst, found)
            print(f"{name:40} CPU time {by_cpu}; rate {by_rate}", flush=True)
    sys.exit(worst >= 0.01)


if __name__ == "__main__":
    main()
