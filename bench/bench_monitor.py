#!/usr/bin/env python3
"""What a monitor costs: the same pipelines with one and without, at the same time on one core, as counters.py compares.

    ninja -C build bench/bench_counters
    bench/bench_monitor.py BUILD [--rounds 40] [--seconds 0.6]

A monitor that is open, then one that `penstock top` reads ten times per second from another core. Prints the cost of the CPU time per sample of the process
that has the pipeline: (with - without) / with, the median of the rounds, their mean and its standard error; and the CPU time of the reader. Exit 1 if a
median is 2 % or more.
"""
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time

import counters


def reader(tool, monitors, used):
    """A context factory: `penstock top` reads the monitors meanwhile. `used` gets its share of a core."""

    @contextlib.contextmanager
    def around(core):
        begin = time.monotonic()
        command = ["taskset", "-c", str(core), tool, "top", "--json", "--interval", "0.1", "--folder", monitors]
        top = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            top.terminate()
            top.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = sum(getattr(after, name) - getattr(before, name) for name in ("ru_utime", "ru_stime"))
        used.append(seconds / (time.monotonic() - begin))

    return around


def main():
    given = counters.arguments(__doc__)
    tool, program = os.path.join(given.build, "cli", "penstock"), os.path.join(given.build, "bench", "bench_counters")
    worst, used = 0, []
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        monitors = os.path.join(folder, "run")
        os.mkdir(monitors, 0o700)
        for name, (text, ahead) in counters.pipelines(tool, folder).items():
            plain = [program, text, given.seconds, 1, ahead]
            if given.only not in name:
                continue
            for what, around in (("open", None), ("read", reader(tool, monitors, used))):
                worst = max(worst, counters.compare(f"{name}: {what}", [*plain, monitors], plain, given.rounds, around))
    if used:
        print(f"the reader takes {100 * sum(used) / len(used):.1f} % of a core")
    sys.exit(worst >= 2)


if __name__ == "__main__":
    main()
