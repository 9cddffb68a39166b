"""What a Python function per sample costs, in the engine's threads and in other processes (workers="process").

    PYTHONPATH=build/python python3 bench/bench_process.py [--seconds 2] [--workers N]

Each line is a function on small arrays. "map" is the wall time per sample of the chain with the function minus that of the chain
without it, in µs: the work of the function included, all workers together. "pays" tells whether processes were quicker.
"""

import argparse
import time

import numpy

import penstock as ps


def trivial(x):
    return x


def image(x):
    return x[::-1]


def busy(microseconds):
    """Python code that holds the GIL for about so long."""
    begin = time.thread_time()
    for _ in range(20000):
        sum(range(100))
    rounds = max(1, round(microseconds * 1e-6 * 20000 / (time.thread_time() - begin)))

    def function(x):
        for _ in range(rounds):
            sum(range(100))
        return x

    return function


def rate(dataset, seconds):
    """Seconds per sample of an endless dataset, after a warm-up."""
    iterator = iter(dataset.repeat())
    for _ in range(20):
        next(iterator)
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        count += len(next(iterator)[0])
    return (time.perf_counter() - begin) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    numbers = ps.from_arrays({"x": numpy.arange(4096, dtype="float32").reshape(4096, 1)})
    images = ps.from_arrays({"x": numpy.zeros((4096, 32, 32, 3), "uint8")})
    limits = {"workers": options.workers} if options.workers else {}
    print(f"{'function':24} {'threads':>9} {'processes':>10}   µs per sample")
    for name, source, function in (
        ("x, 4 bytes", numbers, trivial),
        ("x[::-1], 3 KB", images, image),
        ("50 µs of Python", numbers, busy(50)),
        ("200 µs of Python", numbers, busy(200)),
        ("1000 µs of Python", numbers, busy(1000)),
    ):
        bare = rate(source.batch(64).with_options(**limits), options.seconds / 4)
        took = []
        for workers in ("thread", "process"):
            dataset = source.map(function, workers=workers).batch(64).with_options(**limits)
            took.append((rate(dataset, options.seconds) - bare) * 1e6)
        print(f"{name:24} {took[0]:9.1f} {took[1]:10.1f}   {'pays' if took[1] < took[0] else ''}", flush=True)


if __name__ == "__main__":
    main()
