#!/usr/bin/env python3
"""What a monitor costs: the same pipeline without one, with one, and with one that is read ten times per second, in turn.

    bench_monitor.py BUILD [--seconds S] [--rounds N] [PIPELINE]

Prints the median of the ratios of neighbouring turns, and their range.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

DEFAULT = "range 100000000 | shuffle | batch 256"


def rate(tool, text, seconds, folder=None, watched=False):
    env = {key: value for key, value in os.environ.items() if key != "PENSTOCK_MONITOR"}
    if folder:
        env["PENSTOCK_MONITOR"] = folder
    top = None
    if watched:
        top = subprocess.Popen([tool, "top", "--json", "--interval", "0.1", "--folder", folder], stdout=subprocess.DEVNULL)
    try:
        done = subprocess.run([tool, "bench", text, "--seconds", str(seconds), "--json"], env=env, check=True, capture_output=True)
    finally:
        if top:
            top.terminate()
            top.wait()
    return json.loads(done.stdout)["measured"]["samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("pipeline", nargs="?", default=DEFAULT)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    tool = os.path.join(args.build, "cli", "penstock")
    open_socket, attached = [], []
    with tempfile.TemporaryDirectory() as base:
        folder = os.path.join(base, "run")
        for _ in range(args.rounds):
            plain = rate(tool, args.pipeline, args.seconds)
            open_socket.append(rate(tool, args.pipeline, args.seconds, folder) / plain)
            again = rate(tool, args.pipeline, args.seconds)
            attached.append(rate(tool, args.pipeline, args.seconds, folder, True) / again)
    for name, ratios in (("monitor open", open_socket), ("monitor read ten times per second", attached)):
        print(f"{name}: {100 * (1 - statistics.median(ratios)):+.2f} % of throughput lost (median), {100 * (1 - max(ratios)):+.2f} to {100 * (1 - min(ratios)):+.2f} %")


if __name__ == "__main__":
    main()
