#!/usr/bin/env python3
"""Compresses trained models in several ways and compares each with the original on the same test images.

    bench/compress.py --runs runs/R-seed1 runs/R-seed2 runs/R-seed3 --out results --epochs 3
    bench/compress.py --table results

Variants: `ptq` (int8 after training), `qat` (int8, trained for it), `sparse50`, `sparse75` (magnitude pruning), `half` (channels, half of the
operations), `student` (7/16 of the channels, at most a quarter of the parameters, trained from the start for --student-epochs), `distilled` (the same student,
taught by the original) and `control` (trained as long as the others, unchanged: what training alone brings). The pipelines are those that each run
recorded. Every variant has a folder in OUT and a line in OUT/results.jsonl: a series that was interrupted continues with the same command. Models are
those of the last epoch: none is selected by the test images. Differences are paired, `distilled` with `student` and the others with the original: the
95 % interval is that of the mean difference of right and wrong answers, image by image. --table adds the mean over the runs (names that differ in
their last number); its interval is that of the mean over all images and runs. PENSTOCK_BUILD names the build folder.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PENSTOCK = os.path.join(os.environ.get("PENSTOCK_BUILD", os.path.join(HERE, "..", "build")), "cli", "penstock")
VARIANTS = {
    "ptq": ["--quantize", "int8"],
    "qat": ["--quantize", "int8", "--qat"],
    "sparse50": ["--prune", "0.5"],
    "sparse75": ["--prune", "0.75"],
    "half": ["--prune", "0.5", "--structured"],
    "student": None,
    "distilled": None,
    "control": None,
}
STUDENT = ["--optimizer", "nesterov", "--lr", 0.2, "--weight-decay", 0.005, "--schedule", "one-cycle"]


def run(*arguments):
    return subprocess.run([PENSTOCK, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def record(path):
    for folder in (f"{path}/best", f"{path}/latest", path):
        if os.path.exists(f"{folder}/state.json"):
            return json.load(open(f"{folder}/state.json"))
    sys.exit(f"{path} has no checkpoint")


def answers(model, pipeline):
    """The class of each test image, by its place."""
    lines = run("predict", model, pipeline, "--top", 1, "--csv").splitlines()
    return {line.split(",")[0]: int(line.rsplit(",", 2)[1]) for line in lines}


def labels(pipeline):
    """The true classes in the order of the pipeline."""
    text = run("cat", pipeline.split("| decode")[0] + "| select label", "--head", 0, "--json")
    return [int(json.loads(line)["fields"]["label"]) for line in text.splitlines()]


def paired(before, after):
    """Mean difference of two lists of right (1) and wrong (0), and the half width of its 95 % interval."""
    d = [b - a for a, b in zip(before, after)]
    mean = sum(d) / len(d)
    variance = sum((x - mean) ** 2 for x in d) / (len(d) - 1)
    return mean, 1.96 * math.sqrt(variance / len(d))


def narrow(model):
    """The model's text with about 7/16 of the channels in each convolution, in multiples of 8."""
    return re.sub(r"\bconv (\d+)", lambda found: f"conv {max(8, (int(found[1]) * 7 // 16 + 3) // 8 * 8)}", model)


def train(facts, out, options, *arguments):
    if os.path.exists(f"{out}/latest"):
        run("train", "--resume", out, *options.cores, "-q")
    else:
        run("train", facts["pipeline"], "--seed", facts["seed"], *arguments, *options.cores, "--out", out, "-q")


def last(path):
    """The checkpoint of a run's last epoch; other models as they are."""
    return f"{path}/latest" if os.path.exists(f"{path}/latest") else path


def parameters(model, shape):
    return sum(layer["parameters"] for layer in json.loads(run("model", model, "--input", "x".join(map(str, shape)), "--json"))["layers"])


def measure(path, name, options):
    out = os.path.join(options.out, f"{os.path.basename(os.path.normpath(path))}-")
    facts, row, model, original = record(path), {}, out + name, last(path)
    if name == "control":
        train(facts, model, options, "--model", facts["model"], "--weights", original, "--epochs", options.epochs, "--lr", options.lr, "--schedule", "cosine")
    elif name in ("student", "distilled"):
        teacher = ["--teacher", original] if name == "distilled" else []
        original = last(out + "student") if teacher else original
        train(facts, model, options, "--model", narrow(facts["model"]), "--epochs", options.student_epochs, *STUDENT, *teacher)
        row = {"parameters": [parameters(text, facts["input"]) for text in (facts["model"], narrow(facts["model"]))]}
        assert 4 * row["parameters"][1] <= row["parameters"][0]
    else:
        row = json.loads(run("compress", original, *VARIANTS[name], "--epochs", options.epochs, "--lr", options.lr, *options.cores, "--out", model, "--json"))
        model = row["out"]
        row = {"original": row["variants"][0], "result": row["variants"][row["chosen"]]}
    truth = labels(facts["validation"])
    right = []
    for m in (original, last(model)):
        got = list(answers(m, facts["validation"]).values())
        assert len(got) == len(truth)
        right.append([int(a == b) for a, b in zip(got, truth)])
    mean, half = paired(*right)
    return {"run": path, "variant": name, "images": len(truth), "before": sum(right[0]) / len(truth), "after": sum(right[1]) / len(truth), "difference": mean,
            "interval": half, **row}


def table(results):
    rows, groups = [json.loads(line) for line in open(results)], {}
    for r in rows:
        r["run"] = os.path.basename(os.path.normpath(r["run"]))
        groups.setdefault((re.sub(r"\d+$", "*", r["run"]), r["variant"]), []).append(r)
    for (run_name, variant), group in groups.items():
        if len(group) > 1:  # the images of each run count alike
            mean = {key: sum(r[key] for r in group) / len(group) for key in ("before", "after", "difference")}
            interval = math.sqrt(sum(r["interval"] ** 2 for r in group)) / len(group)
            rows.append({"run": run_name, "variant": variant, "images": sum(r["images"] for r in group), "interval": interval, **mean})
    for r in sorted(rows, key=lambda r: (list(VARIANTS).index(r["variant"]), r["run"])):
        print(f"{r['run']:12s} {r['variant']:9s} {100 * r['before']:6.2f} % -> {100 * r['after']:6.2f} %   "
              f"{100 * r['difference']:+.2f} ± {100 * r['interval']:.2f} points, {r['images']} images")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", default=[])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--out")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--student-epochs", type=int, default=10)
    parser.add_argument("--threads", type=int, help="threads of training and as many of the pipeline, instead of one per core; the weights are the same")
    parser.add_argument("--table", metavar="OUT")
    options = parser.parse_args()
    options.cores = ["--threads", options.threads, "--workers", options.threads] if options.threads else []
    if options.table:
        return table(f"{options.table}/results.jsonl")
    os.makedirs(options.out, exist_ok=True)
    results = f"{options.out}/results.jsonl"
    done = {(r["run"], r["variant"]) for r in map(json.loads, open(results))} if os.path.exists(results) else set()
    for path in options.runs:
        for name in options.variants:
            if (path, name) in done:
                continue
            row = measure(path, name, options)
            with open(results, "a") as f:
                f.write(json.dumps(row) + "\n")
    table(results)


if __name__ == "__main__":
    main()
