#!/usr/bin/env python3
"""What a monitor costs: the same pipeline without one, with one, and with one that is read ten times per second, in turn.

    bench_monitor.py BUILD [--seconds S] [--rounds N] [PIPELINE]

Prints what is lost, by CPU time per sample, that of the reader included, and by the rate: between the fastest tenths of the turns, as neighbours on the
machine only ever slow a turn down; and the median over neighbouring turns with quartiles, which shows how quiet the machine was.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile

DEFAULT = "range 100000000 | shuffle | batch 256"


def run(tool, text, seconds, folder=None, watched=False):
    """Samples per second, and microseconds of CPU time per sample: of the pipeline, and of who reads the monitor."""
    env = {key: value for key, value in os.environ.items() if key != "PENSTOCK_MONITOR"}
    if folder:
        env["PENSTOCK_MONITOR"] = folder
    top = subprocess.Popen([tool, "top", "--json", "--interval", "0.1", "--folder", folder], stdout=subprocess.DEVNULL) if watched else None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = json.loads(subprocess.run([tool, "bench", text, "--seconds", str(seconds), "--json"], env=env, check=True, capture_output=True).stdout)
    finally:
        if top:
            top.terminate()
            top.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    measured = done["measured"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return measured["samples_per_second"], 1e6 * cpu / measured["samples"]


def fast(times):
    """The mean of the fastest tenth."""
    return statistics.mean(sorted(times)[:max(1, len(times) // 10)])


def words(watched, plain):
    """Of times per sample."""
    low, median, high = statistics.quantiles([1 - b / a for a, b in zip(watched, plain)], n=4)
    return f"{100 * (1 - fast(plain) / fast(watched)):+.2f} % (pairs {100 * median:+.2f}, quartiles {100 * low:+.2f} to {100 * high:+.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("pipeline", nargs="?", default=DEFAULT)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=41)
    args = parser.parse_args()
    tool = os.path.join(args.build, "cli", "penstock")
    costs = {"monitor open": ([], [], [], []), "monitor read ten times per second": ([], [], [], [])}
    with tempfile.TemporaryDirectory() as base:
        folder = os.path.join(base, "run")
        for number in range(args.rounds):
            for (cpu, cpu_plain, wall, wall_plain), watched in zip(costs.values(), (False, True)):
                plain = run(tool, args.pipeline, args.seconds) if number % 2 else None
                found = run(tool, args.pipeline, args.seconds, folder, watched)
                plain = plain or run(tool, args.pipeline, args.seconds)
                cpu.append(found[1])
                cpu_plain.append(plain[1])
                wall.append(1 / found[0])
                wall_plain.append(1 / plain[0])
    for name, (cpu, cpu_plain, wall, wall_plain) in costs.items():
        print(f"{name}: throughput lost by CPU time {words(cpu, cpu_plain)}; by rate {words(wall, wall_plain)}")


if __name__ == "__main__":
    main()
