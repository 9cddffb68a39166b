#!/usr/bin/env python3
"""Photos to predictions: `penstock predict` beside Pillow and ONNX Runtime, with the same model and weights, in turns.

    INFER/bin/python bench/predict_jpeg.py PHOTOS [--kind int8] [--size 96] [--threads 2] [--rounds 3]      (INFER: an environment with ONNX Runtime and Pillow)

The model is MobileNetV1 of half the width with random weights, exported as ONNX for the other side. Both sides print the most likely classes of
every photo, in float32 or, with --kind int8, in 8-bit integers. Pillow decodes and resizes on a pool of threads, as its decoder releases the interpreter's lock; batches of 64 go to ONNX Runtime.
The start of both programs is not counted: a second pass over the photos is timed against a first one. PENSTOCK_BUILD names the build folder.
"""
import argparse
import concurrent.futures
import glob
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("PENSTOCK_BUILD", os.path.join(HERE, "..", "build"))
PENSTOCK = os.path.join(BUILD, "cli", "penstock")
BLOCKS = [(32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (256, 1), (256, 1), (256, 1), (256, 1), (512, 2), (512, 1)]
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def model_text():
    norm = " bias=false | batchnorm | relu6"
    return "conv 16 3 stride=2 pad=same" + norm + "".join(
        f" | dwconv 3 stride={stride} pad=same{norm} | conv {width} 1{norm}" for width, stride in BLOCKS) + " | globalavgpool | dense 10"


def prepare(folder, photos, size, kind):
    """A model with random weights, and its ONNX file; returns the path of the first."""
    os.makedirs(f"{folder}/data/a"), os.makedirs(f"{folder}/data/b")
    for i, path in enumerate(photos[:20]):
        os.link(path, f"{folder}/data/{'ab'[i % 2]}/{i}.jpg") if os.stat(path).st_dev == os.stat(folder).st_dev else \
            os.symlink(os.path.abspath(path), f"{folder}/data/{'ab'[i % 2]}/{i}.jpg")
    pipeline = f"folder {folder}/data | decode | resize {size} | normalize imagenet | batch 10"
    subprocess.run([PENSTOCK, "train", pipeline, "--model", model_text(), "--steps", "1", "--out", f"{folder}/run", "-q"], check=True)
    if kind == "int8":
        subprocess.run([PENSTOCK, "compress", f"{folder}/run", "--quantize", "int8", "--val", pipeline, "--out", f"{folder}/int8", "-q"], check=True, capture_output=True)
    model = f"{folder}/int8/model" if kind == "int8" else f"{folder}/run"
    subprocess.run([PENSTOCK, "export", model, f"{folder}/model.onnx"], check=True, capture_output=True)
    return model


def ours(model, paths, threads):
    begin = time.perf_counter()
    done = subprocess.run([PENSTOCK, "predict", model, *paths, "--csv", "--top", "5", "--threads", str(threads)], check=True,
                          capture_output=True, text=True)
    return time.perf_counter() - begin, done.stdout


class Peer:
    def __init__(self, path, size, threads):
        import onnxruntime
        from PIL import Image
        self.image, self.size = Image, size
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def load(self, path):
        with self.image.open(path) as f:
            x = np.asarray(f.convert("RGB").resize((self.size, self.size), self.image.BILINEAR), np.float32)
        return ((x / 255 - MEAN) / STD).transpose(2, 0, 1)

    def run(self, paths):
        begin, lines = time.perf_counter(), []
        loading = self.pool.map(self.load, paths)
        for at in range(0, len(paths), 64):
            names = paths[at:at + 64]
            batch = np.stack([next(loading) for _ in names])
            logits = self.session.run(None, {"images": batch})[0]
            for name, row in zip(names, logits):
                lines += [f"{name},{k},{row[k]:.6g}" for k in np.argsort(-row)[:5]]
        return time.perf_counter() - begin, "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos")
    parser.add_argument("--kind", default="fp32", choices=["fp32", "int8"])
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=512)
    args = parser.parse_args()
    photos = sorted(glob.glob(f"{args.photos}/**/*.*", recursive=True))[:args.count]
    if not photos:
        sys.exit(f"no photos in {args.photos}")
    with tempfile.TemporaryDirectory() as folder:
        model = prepare(folder, photos, args.size, args.kind)
        peer = Peer(f"{folder}/model.onnx", args.size, args.threads)
        best = {"penstock": float("inf"), "start": float("inf"), "peer": float("inf")}
        for _ in range(args.rounds):
            best["start"] = min(best["start"], ours(model, photos[:1], args.threads)[0])
            best["penstock"] = min(best["penstock"], ours(model, photos, args.threads)[0])
            best["peer"] = min(best["peer"], peer.run(photos)[0])
        mine, other = len(photos) / (best["penstock"] - best["start"]), len(photos) / best["peer"]
        print(f"{len(photos)} photos at {args.size}, {args.kind}: penstock predict {mine:.0f} images/s (and {best['start']:.2f} s to start), "
              f"Pillow + ONNX Runtime {other:.0f} images/s: {mine / other:.2f} x")


if __name__ == "__main__":
    main()
