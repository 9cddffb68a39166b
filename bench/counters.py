#!/usr/bin/env python3
"""What the always-on counters cost: the same pipelines with the engine's counters and without them, at the same time on one core.

    ninja -C build bench/bench_counters bench/bench_counters_bare
    bench/counters.py BUILD [--rounds 40] [--seconds 0.6]

Both programs share the core in turns of milliseconds, so that what neighbours on the machine do hits both alike. Prints the cost per pipeline, of the CPU
time per sample: (with - without) / with, the median of the rounds, their mean and its standard error. Exit 1 if a median is 1 % or more.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile


def run(commands, core):
    """CPU microseconds per sample of each command, which run at the same time on this core."""
    running = [subprocess.Popen(["taskset", "-c", str(core), *map(str, command)], stdout=subprocess.PIPE, text=True) for command in commands]
    return [float(process.communicate()[0].split()[1]) for process in running]


def compare(name, dear, cheap, rounds, around=None):
    """What the first command costs more than the second, in percent of the first: the median over the rounds, which is also printed. `around(core)`: a
    context for each round, which gets another core than the commands."""
    costs, cores = [], sorted(os.sched_getaffinity(0))
    for number in range(rounds):
        core, swapped = cores[number // 2 % len(cores)], number % 2
        commands = [cheap, dear] if swapped else [dear, cheap]
        if around:
            with around(next((other for other in cores if other != core), core)):
                found = run(commands, core)
        else:
            found = run(commands, core)
        first, second = found[::-1] if swapped else found
        costs.append(100 * (1 - second / first))
    median, error = statistics.median(costs), statistics.stdev(costs) / len(costs) ** 0.5
    print(f"{name:60} {median:6.2f} %   (mean {statistics.mean(costs):.2f}, standard error {error:.2f})", flush=True)
    return median


def pipelines(tool, folder):
    """Texts and numbers of batches ahead by name; their data lies in the folder."""
    subprocess.run([tool, "generate", f"{folder}/images", "--images", "400", "--size", "96", "-q"], check=True)
    subprocess.run([tool, "pack", f"{folder}/images", f"{folder}/shards", "--shards", "2", "-q"], check=True)
    shards = f"tfrecord {folder}/shards/*-of-00002"
    return {
        "numbers, batches of 512": ("range 1000000 | shuffle | batch 512", 256),
        "Examples without images, batches of 64": (f"{shards} | shuffle | example 'label:int64 width:int64' | batch 64", 256),
        "images decoded and cropped": (f"{shards} | shuffle | example | decode | random_resized_crop 64 | flip | normalize imagenet | batch 64", 8),
    }


def arguments(doc):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--only", default="", help="only pipelines whose name has this")
    return parser.parse_args()


def main():
    given = arguments(__doc__)
    counting, bare = (os.path.join(given.build, "bench", name) for name in ("bench_counters", "bench_counters_bare"))
    worst = 0
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for name, (text, ahead) in pipelines(os.path.join(given.build, "cli", "penstock"), folder).items():
            if given.only in name:
                rest = [text, given.seconds, 1, ahead]
                worst = max(worst, compare(name, [counting, *rest], [bare, *rest], given.rounds))
    sys.exit(worst >= 1)


if __name__ == "__main__":
    main()
