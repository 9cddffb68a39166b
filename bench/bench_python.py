#!/usr/bin/env python3
"""What Python costs: the same pipelines by the tool and by the module, in turns.

    bench_python.py DATA [CASE…] [--seconds S] [--rounds N]        (DATA as the peer benchmark has it; PENSTOCK_BUILD as for the
    peer)

A Python turn takes every batch and makes NumPy arrays of two fields. A loop in Python still has its batch when it asks for the
next one; so has the tool here (--hold 1), as large batches then leave the processor's caches sooner. "Python" is the time of the consuming thread in Python and
the engine together, in µs a batch: what is left of a batch's time is waiting.
"""

import argparse
import json
import statistics
import subprocess
import time

from peer_penstock import TOOL, np, penstock, text_of

BATCH = {"small": 256}


def by_tool(text, seconds):
    done = subprocess.run(
        [TOOL, "bench", text, "--json", "--seconds", str(seconds), "--warmup", "50", "--hold", "1"], check=True, capture_output=True
    )
    return json.loads(done.stdout)["measured"]["samples_per_second"]


def by_module(text, field, seconds):
    with penstock.pipeline(text) as dataset:
        batches = iter(dataset)
        for _ in range(50):
            next(batches)
        count, samples, cpu, begin = 0, 0, time.thread_time(), time.perf_counter()
        while time.perf_counter() - begin < seconds:
            for _ in range(10):
                batch = next(batches)
                np.asarray(batch[field]), np.asarray(batch["label"])
                samples += batch.size
            count += 10
        return samples / (time.perf_counter() - begin), (time.thread_time() - cpu) / count * 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("cases", nargs="*", default=["train_jpeg", "raw", "small"])
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(
        "| case | tool, samples/s: best | median | module: best | median | of the tool, best | median | Python, µs of a batch's |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for case in args.cases:
        batch = BATCH.get(case, 64)
        text, field = text_of(case, args.data, batch), "x" if case == "small" else "image"
        tool, module, spent = [], [], []
        for _ in range(args.rounds):
            tool.append(by_tool(text, args.seconds))
            rate, cost = by_module(text, field, args.seconds)
            module.append(rate)
            spent.append(cost)
        print(
            f"| {case} | {max(tool):,.0f} | {statistics.median(tool):,.0f} | {max(module):,.0f} | {statistics.median(module):,.0f} "
            f"| {max(module) / max(tool):.1%} | {statistics.median(m / t for m, t in zip(module, tool)):.1%} "
            f"| {min(spent):.1f} of {batch / max(module) * 1e6:,.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
