#!/usr/bin/env python3
"""What a monitor costs: the same pipeline without one, with one, and with one that is read ten times per second, in turn.

    bench_monitor.py BUILD [--seconds S] [--rounds N] [PIPELINE]

Prints what is lost, as the median over neighbouring turns with quartiles: by CPU time per sample, that of the reader included, and by the rate, which
varies far more from turn to turn.
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


def words(costs):
    low, median, high = statistics.quantiles(costs, n=4)
    return f"{100 * median:+.2f} % (quartiles {100 * low:+.2f} to {100 * high:+.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("pipeline", nargs="?", default=DEFAULT)
    parser.add_argument("--seconds", type=float, default=0.6)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    tool = os.path.join(args.build, "cli", "penstock")
    costs = {"monitor open": ([], []), "monitor read ten times per second": ([], [])}
    with tempfile.TemporaryDirectory() as base:
        folder = os.path.join(base, "run")
        for number in range(args.rounds):
            for (by_time, by_rate), watched in zip(costs.values(), (False, True)):
                plain = run(tool, args.pipeline, args.seconds) if number % 2 else None
                rate, cpu = run(tool, args.pipeline, args.seconds, folder, watched)
                plain = plain or run(tool, args.pipeline, args.seconds)
                by_time.append(1 - plain[1] / cpu)
                by_rate.append(1 - rate / plain[0])
    for name, (by_time, by_rate) in costs.items():
        print(f"{name}: throughput lost by CPU time {words(by_time)}; by rate {words(by_rate)}")


if __name__ == "__main__":
    main()
