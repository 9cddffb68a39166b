#!/usr/bin/env python3
"""Trains the same recipes by `penstock train` and by PyTorch and compares the accuracy on held-out images.

    penstock pack cifar/train shards/train; penstock pack cifar/test shards/test
    bench/accuracy.py --shards shards --recipes plain mixed --seeds 1 2 3 --out results.jsonl
    TORCH/bin/python bench/accuracy.py --shards shards --recipes torch --seeds 1 2 3 --out results.jsonl
    bench/accuracy.py --table results.jsonl

Recipes, all with model S3 (preset `cnn`), Adam, a rate that falls from 0.001 along half a cosine, batches of 64 and 5 epochs: `plain`;
`torch`, the same in PyTorch, which gets its batches from this module, in the same order; `mixed`, with float16; `fast` and `exact`, with crops
at random and JPEGs decoded in these qualities. Results are added to the file, so that a long series can be run in parts. PENSTOCK_BUILD names
the build folder.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PENSTOCK_BUILD", os.path.join(HERE, "..", "build"))
NORMALIZE = "normalize mean=0.491,0.482,0.447 std=0.247,0.243,0.262"
WHOLE, CROP = "center_crop 32", "random_resized_crop 32 scale=0.5,1 | flip"
EPOCHS, BATCH = 5, 64


def texts(shards, recipe):
    """The pipelines for training and for validation."""
    decode, crop = "decode quality=exact", WHOLE
    if recipe in ("fast", "exact"):
        decode, crop = f"decode quality={recipe}", CROP
    return (f"tfrecord {shards}/train | shuffle | example | {decode} | {crop} | {NORMALIZE} | batch {BATCH}",
            f"tfrecord {shards}/test | example | decode quality=exact | {WHOLE} | {NORMALIZE} | batch {BATCH}")


def penstock(shards, recipe, seed, threads):
    train, val = texts(shards, recipe)
    command = [os.path.join(BUILD, "cli", "penstock"), "train", train, "--val", val, "--model", "cnn", "--optimizer", "adam", "--lr", "0.001", "--schedule", "cosine",
               "--epochs", str(EPOCHS), "--seed", str(seed), "--threads", str(threads), "--json"]
    if recipe == "mixed":
        command += ["--mixed", "float16"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [e["val_accuracy"] for e in map(json.loads, lines) if "val_accuracy" in e]


def torch_model():
    import torch
    from torch import nn

    layers, channels = [], 3
    for n, pool in ((32, False), (32, True), (64, False), (64, True), (128, True)):
        layers += [nn.Conv2d(channels, n, 3, padding=1), nn.ReLU()] + ([nn.MaxPool2d(2)] if pool else [])
        channels = n
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 10)).to(memory_format=torch.channels_last)
    for m in model:
        if isinstance(m, (nn.Conv2d, nn.Linear)):
            nn.init.xavier_uniform_(m.weight)
            nn.init.zeros_(m.bias)
    return model


def batches(dataset):
    import numpy as np
    import torch

    for b in dataset:
        image = torch.from_numpy(np.array(b["image"])).permute(0, 3, 1, 2)
        yield image, torch.from_numpy(np.array(b["label"]).astype("int64"))


def torch_run(shards, recipe, seed, threads):
    sys.path.insert(0, os.path.join(BUILD, "python"))
    import penstock as ps
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    train, val = (ps.pipeline(t, seed=seed) for t in texts(shards, recipe))
    model, accuracy = torch_model(), []
    optimizer, loss = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7), torch.nn.CrossEntropyLoss()
    steps = EPOCHS * len(train)
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (1 + math.cos(math.pi * step / steps)) / 2)
    for _ in range(EPOCHS):
        for x, y in batches(train):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
            rate.step()
        right = count = 0
        with torch.no_grad():
            for x, y in batches(val):
                right += int((model(x).argmax(1) == y).sum())
                count += len(y)
        accuracy.append(right / count)
        print(f"  epoch {len(accuracy)}: {accuracy[-1]:.4f}", file=sys.stderr, flush=True)
    return accuracy


def table(path):
    last = {}
    for line in open(path):
        r = json.loads(line)
        last.setdefault(r["recipe"], {})[r["seed"]] = r["accuracy"][-1]
    print("| recipe | seeds | accuracy | mean | spread |\n|---|---|---|---|---|")
    for recipe, by_seed in last.items():
        values = [100 * v for v in by_seed.values()]
        print(f"| {recipe} | {len(values)} | {', '.join(f'{v:.2f} %' for v in values)} | {statistics.mean(values):.2f} % |"
              f" {statistics.stdev(values) if len(values) > 1 else 0:.2f} % |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", help="folder with the packed shards train/ and test/")
    parser.add_argument("--recipes", nargs="+", default=["plain"], choices=["plain", "torch", "mixed", "fast", "exact"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", default="accuracy.jsonl", help="file that results are added to")
    parser.add_argument("--table", help="print the table of such a file, and nothing else")
    arguments = parser.parse_args()
    if arguments.table:
        return table(arguments.table)
    if not arguments.shards:
        parser.error("--shards is needed")
    for seed in arguments.seeds:
        for recipe in arguments.recipes:
            begin = time.monotonic()
            accuracy = (torch_run if recipe == "torch" else penstock)(arguments.shards, recipe, seed, arguments.threads)
            result = {"recipe": recipe, "seed": seed, "accuracy": accuracy, "seconds": round(time.monotonic() - begin, 1)}
            print(json.dumps(result), flush=True)
            with open(arguments.out, "a") as f:
                f.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
