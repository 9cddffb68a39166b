#!/usr/bin/env python3
"""What a training run of any size asks of an object store, of each process and of the network, computed from the engine's own data structures.

    bench/scale.py [--ranks 1000] [--samples 1e9] [--shards 1e5] [--record 110e3] [--plot docs/scale.svg]

Requests are simulated: slices of the shuffled order are drawn, and neighbouring records are joined as the engine joins them
(a gap of up to 64 KiB is read through). Everything else is arithmetic; the constants are named below.
"""
import argparse
import os
import random
import re

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def constant(path, name):
    """A number that the engine defines."""
    with open(os.path.join(ROOT, "src", path)) as f:
        text = re.search(rf"#define {name}\s+([^/\n]+)", f.read())[1]
    return eval(re.sub(r"\(u?int\d+_t\)|\(size_t\)|(?<=\d)u\b", "", text))


ENTRY = 16                  # bytes of a record in an index: offset and length
VERIFIED = 1 / 8            # bytes per record: one bit, set once its checksum was right
SHARD_STATE = 400           # bytes per open shard: paths, sizes, table of numbers, about
GAP = constant("source/direct_reader.c", "GAP")                 # bytes between two records that are read through
PART = constant("io/remote/tuner.h", "TUNER_PART")  # bytes of a request when whole shards are read, unless latency or memory demand another size
SMALL = constant("io/remote/object_read.c", "SMALL")            # a smaller shard is fetched whole when it is opened
OPENERS = constant("source/shard_set.c", "REMOTE_OPENERS")      # shards that are opened at the same time
CONNECTIONS = constant("io/remote/object_parts.c", "MOST_THREADS")  # at most, for small requests
ROUND_TRIP = 0.03
LINK = 1.25e9               # bytes per second of one machine
RANKS_PER_HOST = 8
PER_MILLION, LIST_KEYS = 0.40, 1000   # dollars per million GETs; keys in a page of a list
STORE_RATE = 5500           # GETs per second that S3 promises for a prefix, before it divides it
DRAW_NS = 160               # a number of the permutation, computed and delivered: `penstock bench "range 20000000 | shuffle | batch 8192"`


def pages(shards):
    """Of the list of a folder: shards and sidecars."""
    return -(-2 * shards // LIST_KEYS)


def opening_requests(shards, shard_bytes):
    """Is it an object? What lies below it? Then the sidecar of each shard, which notes the ETag that the list tells; small shards are fetched themselves."""
    return 1 + pages(shards) + shards * (1 if shard_bytes > SMALL else 2)


def opening_seconds(shards, shard_bytes):
    """A page names the next one; shards are opened beside each other."""
    each = 1 if shard_bytes > SMALL else 2
    return (1 + pages(shards) + -(-shards // OPENERS) * each) * ROUND_TRIP


def hours(requests):
    seconds = requests / STORE_RATE
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def simulate(samples, shards, record, window, slice_records=4096, slices=20, seed=1):
    """Requests per record when slices of `slice_records` are drawn from windows of `window` records."""
    draw, requests, records = random.Random(seed), 0, 0
    for _ in range(slices):
        begin = draw.randrange(max(1, samples - window))
        chosen = sorted(draw.sample(range(window), min(slice_records, window)))
        last_end, last_shard = None, None
        per_shard = samples // shards
        for k in chosen:
            shard, at = divmod(begin + k, per_shard)
            offset = at * record
            if shard != last_shard or offset - last_end > GAP or last_end - part_begin >= PART:
                requests += 1
                part_begin = offset
            last_shard, last_end = shard, offset + record
        records += len(chosen)
    return requests / records


def describe(o):
    samples, shards, ranks = int(o.samples), int(o.shards), int(o.ranks)
    record, per_rank = int(o.record), int(o.samples) // int(o.ranks)
    data = samples * record
    index = samples * ENTRY
    memory = index + samples * VERIFIED + shards * SHARD_STATE
    requests, waiting = opening_requests(shards, data // shards), opening_seconds(shards, data // shards)
    everybody, hosts = ranks * requests, -(-ranks // RANKS_PER_HOST)
    download = index / LINK * RANKS_PER_HOST
    rows = [("data", f"{data / 1e12:.0f} TB", ""),
            ("records of a rank in an epoch", f"{per_rank:,}", ""),
            ("order: time for all numbers of a rank", f"{per_rank * DRAW_NS / 1e6:.0f} ms", "constant per record, no memory"),
            ("index of all shards", f"{index / 1e9:.0f} GB", "each process holds it; mapped sidecars are shared by the processes of a host"),
            ("memory of a rank besides batches", f"{memory / 1e9:.1f} GB", f"the index, one bit per record, the table of shards; {RANKS_PER_HOST * memory / 1e9:.0f} GB on a host"),
            ("start: requests of a rank", f"{requests:,}", f"{pages(shards):,} pages of a list, and the sidecar of each shard, which notes its ETag; without one, 16 samples of the shard, too"),
            ("start: waiting for answers", f"{waiting:.0f} s", f"{OPENERS} shards at a time, {ROUND_TRIP * 1e3:.0f} ms"),
            ("start: downloading indexes", f"{download:.0f} s", f"{RANKS_PER_HOST} ranks share a link of {LINK / 1e9:.2f} GB/s; once with a shared cache: {index / LINK:.0f} s"),
            ("start: requests of all ranks", f"{everybody:,}", f"${everybody / 1e6 * PER_MILLION:,.0f}; with one cache per host {hosts * requests:,}"),
            (f"start: the same at {STORE_RATE:,} requests/s", hours(everybody), f"with one cache per host {hours(hosts * requests)}")]
    for name, window in windows(samples, shards):
        share = simulate(samples, shards, record, window, slice_records=min(4096, window))
        requests = share * samples
        seconds = share * per_rank * ROUND_TRIP / CONNECTIONS
        rows.append((f"epoch, {name}: requests", f"{requests:.2g}",
                     f"${requests / 1e6 * PER_MILLION:,.0f}; {seconds / 60:.0f} min of latency per rank with {CONNECTIONS} connections; {hours(requests)} at {STORE_RATE:,} requests/s"))
    return rows


def windows(samples, shards):
    per_shard = samples // shards
    return [("exact shuffle of everything", samples), ("shuffle window of 100 shards", 100 * per_shard),
            ("shuffle window of 1 shard", per_shard), ("shuffle window of 1,000 records", min(1000, per_shard))]


def plot(path):
    """Waiting at the start against the number of shards, and requests of an epoch against the window of the shuffle."""
    def line(points, left, top, width, height, low, high):
        xs = [left + width * i / (len(points) - 1) for i in range(len(points))]
        import math
        scaled = [(math.log10(value) - low) / (high - low) for _, value in points]
        ys = [top + height * (1 - min(1, max(0, s))) for s in scaled]
        return " ".join(f"{x:.0f},{y:.0f}" for x, y in zip(xs, ys)), xs, ys

    samples, shards, record = 10**9, 10**5, 110_000
    starts = [(f"{n:,}", opening_seconds(n, samples * record // shards)) for n in (10, 100, 1000, 10_000, 100_000)]
    per_shard = samples // shards
    needs = [(f"{w:,}" if w < 10**6 else f"{w:.0e}".replace("e+0", "e"), simulate(samples, shards, record, w, slice_records=min(4096, w)) * samples)
             for w in (1000, 10_000, 100_000, 10**6, 10**7, 10**9)]
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 300" font-family="sans-serif" font-size="11">',
           '<rect width="760" height="300" fill="white"/>']
    for title, points, left, low, high, unit in (("seconds of waiting at the start, by shards", starts, 60, -2, 3.2, " s"),
                                                 ("requests of an epoch, by the window of the shuffle", needs, 440, 6, 9.3, "")):
        text, xs, ys = line(points, left, 50, 260, 190, low, high)
        out.append(f'<text x="{left - 10}" y="25" font-size="13" fill="#222">{title}</text>')
        out.append(f'<polyline points="{text}" fill="none" stroke="#1f6feb" stroke-width="2"/>')
        for (name, value), x, y in zip(points, xs, ys):
            out.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="#1f6feb"/>')
            out.append(f'<text x="{x:.0f}" y="{y - 8:.0f}" text-anchor="middle" fill="#222">{value:.3g}{unit}</text>')
            out.append(f'<text x="{x:.0f}" y="262" text-anchor="middle" fill="#666">{name}</text>')
    out.append("</svg>")
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("ranks", 1000), ("samples", 1e9), ("shards", 1e5), ("record", 110e3)):
        parser.add_argument("--" + name, type=float, default=default)
    parser.add_argument("--plot")
    o = parser.parse_args()
    for name, value, why in describe(o):
        print(f"| {name} | {value} | {why} |")
    if o.plot:
        plot(o.plot)


if __name__ == "__main__":
    main()
