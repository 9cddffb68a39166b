#!/usr/bin/env python3
"""What joins and filters cost, on a quiet machine: bench_joins.py [--build BUILD] [--photos FOLDER] [--rounds N] [--records N] [--only mix|filter]

mix      images/s of two JPEG sources mixed 60/40 against one source with the same images (goal: at least 98 %)
filter   records/s of a filter that keeps 10 % of small records, from the second epoch on, against the same records packed alone
         (goal: at least 90 %)

Both sides run in turns in one process; the numbers are the best of all rounds of each, and the median of the ratios of
neighbouring rounds. --photos names class folders with JPEGs (default: images that `penstock generate` draws).
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="the build folder")
    parser.add_argument("--photos", help="class folders with JPEGs")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each side")
    parser.add_argument("--records", type=int, default=1000000, help="small records of the filter")
    parser.add_argument("--only", choices=("mix", "filter"), help="one of the two")
    return parser.parse_args()


def rate(loop, seconds):
    """Elements per second over about so long, from an endless iterator."""
    begin, count = time.perf_counter(), 0
    while True:
        count += next(loop).size
        spent = time.perf_counter() - begin
        if spent >= seconds:
            return count / spent


def compare(name, ours, base, rounds, goal, seconds=1.5):
    loops = [iter(ours), iter(base)]
    for loop in loops:  # files into the page cache, entropy indexes, the first epoch
        rate(loop, seconds)
    rates = [[], []]
    for i in range(rounds):
        for side in ((0, 1) if i % 2 else (1, 0)):
            rates[side].append(rate(loops[side], seconds))
    ratio = statistics.median(a / b for a, b in zip(*rates))
    best = [max(r) for r in rates]
    print(f"{name:<8} {best[0]:12.0f}/s against {best[1]:12.0f}/s; median ratio {100 * ratio:.1f} %, best ratio "
          f"{100 * best[0] / best[1]:.1f} % (goal {goal} %)", flush=True)


def mix(ps, tool, photos, folder, rounds):
    shards = os.path.join(folder, "mix")
    subprocess.run([tool, "pack", photos, shards, "--shards", "10", "--entropy", "-q"], check=True)
    files = sorted(os.path.join(shards, f) for f in os.listdir(shards) if ".tfrecord" in f and not f.endswith(".pidx"))
    first, second = (" ".join(f"'{f}'" for f in part) for part in (files[:6], files[6:]))
    tail = " | example | decode | random_resized_crop 224 | flip | normalize imagenet | batch 64"
    both = f"sample (tfrecord {first} | shuffle | repeat) (tfrecord {second} | shuffle | repeat) weights=0.6,0.4{tail}"
    one = f"tfrecord {first} {second} | shuffle | repeat{tail}"
    compare("mix", ps.pipeline(both), ps.pipeline(one), rounds, 98)


def filtered(ps, folder, records, rounds):
    whole, alone = (os.path.join(folder, name) for name in ("whole.tfrecord", "alone.tfrecord"))
    texts = [ps.Example({"x": [float(i % 97)] * 32, "label": [i % 10]}).serialize() for i in range(970)]
    with ps.TFRecordWriter(whole) as all_records, ps.TFRecordWriter(alone) as kept:
        for i in range(records):
            record = texts[i % 970]
            all_records.write(record)
            if i % 10 == 3:
                kept.write(record)
    tail = " | shuffle | repeat | batch 256"
    example = " | example 'x:float[32] label:int64'"
    compare("filter", ps.pipeline(f"tfrecord '{whole}'{example} | filter 'label == 3'{tail}"),
            ps.pipeline(f"tfrecord '{alone}'{example}{tail}"), rounds, 90)


def main():
    given = arguments()
    sys.path.insert(0, os.path.join(given.build, "python"))
    import penstock as ps

    tool = os.path.join(given.build, "cli", "penstock")
    with tempfile.TemporaryDirectory() as folder:
        if given.only != "mix":
            filtered(ps, folder, given.records, given.rounds)
        if given.only == "filter":
            return
        photos = given.photos or os.path.join(folder, "photos")
        if not given.photos:
            subprocess.run([tool, "generate", photos, "--images", "1000", "--size", "330", "--format", "jpeg", "-q"], check=True)
        mix(ps, tool, photos, folder, given.rounds)


if __name__ == "__main__":
    main()
