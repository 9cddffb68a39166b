#!/usr/bin/env python3
"""What the always-on counters cost: the same pipelines with the engine's counters and without them, at the same time on one core.

    ninja -C build bench/bench_counters bench/bench_counters_bare
    bench/counters.py BUILD [--rounds 16] [--seconds 1.5]

Both programs share the core in turns of milliseconds, so that what neighbours on the machine do hits both alike. Prints the cost per pipeline, of the CPU
time per sample: (with - without) / with, the median of the rounds, their mean and its standard error. Exit 1 if a median is 1 % or more.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile


def run(programs, text, seconds, core):
    """CPU microseconds per sample of each program."""
    running = [subprocess.Popen(["taskset", "-c", str(core), program, text, str(seconds), "1"], stdout=subprocess.PIPE, text=True) for program in programs]
    return [float(process.communicate()[0].split()[1]) for process in running]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("build")
    arguments.add_argument("--rounds", type=int, default=16)
    arguments.add_argument("--seconds", type=float, default=1.5)
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
        cores = sorted(os.sched_getaffinity(0))
        for name, text in pipelines.items():
            costs = []
            for number in range(given.rounds):
                order = programs if number % 2 else programs[::-1]
                cost = dict(zip(order, run(order, text, given.seconds, cores[number // 2 % len(cores)])))
                costs.append(100 * (1 - cost[programs[1]] / cost[programs[0]]))
            median, error = statistics.median(costs), statistics.stdev(costs) / len(costs) ** 0.5
            worst = max(worst, median)
            print(f"{name:40} {median:6.2f} %   (mean {statistics.mean(costs):.2f}, standard error {error:.2f})", flush=True)
    sys.exit(worst >= 1)


if __name__ == "__main__":
    main()
