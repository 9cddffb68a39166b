"""Pruning and training for int8 from outside: schedules by their formulas, zeros that stay, runs that continue after kill -9."""
import glob
import gzip
import json
import os
import signal
import struct
import subprocess
import time

import tap
from tool import PENSTOCK, environment, penstock, scratch

MODEL = "conv 8 3 relu pad=same | maxpool 2 | conv 16 3 pad=same bias=false | batchnorm | relu | globalavgpool | dense 3"


def data(folder):
    penstock("generate", f"{folder}/photos", "--images", 60, "--classes", 3, "--size", 24, "-q")
    source = f"folder {folder}/photos"
    return f"{source} | shuffle | decode | resize 16 | flip | normalize imagenet | batch 8", f"{source} | decode | resize 16 | normalize imagenet | batch 8"


def arrays(path):
    """The arrays of a safetensors file, as (type, shape, bytes)."""
    raw = open(path, "rb").read()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + length])
    return {name: (t["dtype"], t["shape"], raw[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]]) for name, t in header.items()}


def zeros(checkpoint, name):
    """The share of values of a stored array that are zero: its bitmap says which."""
    found = arrays(f"{checkpoint}/weights.safetensors")
    count = 1
    for n in struct.unpack(f"<{found[name + '@shape'][1][0]}Q", found[name + "@shape"][2]):
        count *= n
    kept = sum(bin(b).count("1") for b in found[name + "@bitmap"][2])
    assert kept == found[name + "@values"][1][0]
    return 1 - kept / count


def polynomial(initial, final, begin, end, power, step):
    """PolynomialDecay of the toolkit: initial + (final - initial) (1 - (1 - p)^power), with p from 0 at begin to 1 at end."""
    p = min(1.0, max(0.0, (step - begin) / (end - begin)))
    return (initial - final) * (1 - p) ** power + final


def test_the_share_follows_the_schedule():
    with scratch() as folder:
        train, _ = data(folder)
        lines = penstock("train", train, "--model", MODEL, "--steps", 32, "--epochs", 0, "--steps-per-epoch", 4, "--prune", "0.8", "--prune-initial", "0.1",
                         "--prune-begin", 4, "--prune-end", 24, "--prune-every", 4, "--prune-exclude", "dense_*", "--json").out.splitlines()
        shares = {r["step"]: r.get("sparsity", 0) for r in map(json.loads, lines) if "epoch" in r and "step" in r}
        sizes = (3 * 3 * 3 * 8, 3 * 3 * 8 * 16)
        for step, share in shares.items():
            want = polynomial(0.1, 0.8, 4, 24, 3, step) if step >= 4 else 0
            exact = sum(n - round(n * (1 - want)) for n in sizes) / sum(sizes)
            assert abs(share - exact) < 1e-9, (step, share, exact)
        assert len(shares) > 6 and shares[max(shares)] > 0.79, shares


def test_checkpoints_hold_no_zeros():
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 2, "--prune", "0.75", "--prune-schedule", "constant", "--out", f"{folder}/a", "-q")
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 2, "--out", f"{folder}/b", "-q")
        assert abs(zeros(f"{folder}/a/latest", "conv_2/kernel") - 0.75) < 1e-9
        for name in ("weights", "optimizer"):
            small, large = (os.path.getsize(f"{folder}/{run}/latest/{name}.safetensors") for run in "ab")
            assert small < 0.75 * large, (name, small, large)
        penstock("eval", f"{folder}/a", val)
        tuned = penstock("train", train, "--model", MODEL, "--weights", f"{folder}/a", "--prune", "keep", "--epochs", 1, "--out", f"{folder}/c", "--json")
        assert json.loads(tuned.out.splitlines()[0])["sparsity"] > 0.74
        assert abs(zeros(f"{folder}/c/latest", "conv_2/kernel") - 0.75) < 1e-9


def test_fewer_channels():
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 2, "--out", f"{folder}/first", "-q")
        penstock("train", train, "--val", val, "--weights", f"{folder}/first", "--prune-structured", "0.4", "--epochs", 1, "--out", f"{folder}/small", "-q")
        large, small = (arrays(f"{folder}/{run}/latest/weights.safetensors") for run in ("first", "small"))
        assert large.keys() == small.keys()
        assert sum(len(a[2]) for a in small.values()) < 0.75 * sum(len(a[2]) for a in large.values())
        assert small["conv_1/kernel"][1][3] == small["conv_2/kernel"][1][2] and small["conv_2/kernel"][1][3] == small["dense_1/kernel"][1][0]
        penstock("train", "--resume", f"{folder}/small", "--epochs", 2, "-q")
        penstock("eval", f"{folder}/small", val)


def files_of(folder):
    """The weights of the runs on the way and the model; measured times do not decide them."""
    found = {}
    for base, _, names in sorted(os.walk(folder)):
        found.update({os.path.relpath(os.path.join(base, n), folder): open(os.path.join(base, n), "rb").read() for n in names if n == "weights.safetensors"})
    return found


def test_compress_in_steps():
    """Channels, zeros and integers; the table, the page, and a model that other commands open."""
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 4, "--lr", "0.01", "--out", f"{folder}/first", "-q")
        out = json.loads(penstock("compress", f"{folder}/first", "--flops", "0.7", "--prune", "0.5", "--quantize", "int8", "--epochs", 1, "--out", f"{folder}/small",
                                  "--html", f"{folder}/page.html", "--json").out)
        rows = out["variants"]
        assert [r["name"].split(",")[0] for r in rows] == ["original", "channels", "zeros", "int8"], rows
        assert all(r["accepted"] for r in rows) and out["chosen"] == 3 and out["done"]
        assert rows[1]["flops"] <= 0.7 * rows[0]["flops"] and rows[1]["parameters"] < rows[0]["parameters"]
        assert rows[2]["nonzero"] < 0.65 * rows[2]["parameters"] and rows[3]["file_bytes"] < rows[2]["file_bytes"]
        assert all(r["latency1_s"] > 0 and r["latency64_s"] > 0 and r["memory_bytes"] > 0 for r in rows)
        page = open(f"{folder}/page.html").read()
        assert "Accuracy against speed" in page and "int8" in page
        evaluated = json.loads(penstock("eval", out["out"], val, "--json").out)
        assert abs(evaluated["accuracy"] - rows[3]["accuracy"]) < 1e-9, (evaluated["accuracy"], rows[3])
        again = json.loads(penstock("compress", f"{folder}/first", "--flops", "0.7", "--prune", "0.5", "--quantize", "int8", "--epochs", 1, "--out", f"{folder}/small",
                                    "--json").out)
        assert [r["accuracy"] for r in again["variants"]] == [r["accuracy"] for r in rows]


def test_compress_backs_off():
    """A step that loses too much is repeated with less, and nothing is written unless one is kept; a mistake is named."""
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 6, "--lr", "0.01", "--out", f"{folder}/first", "-q")
        table = penstock("compress", f"{folder}/first", "--prune", "0.97", "--target-accuracy", "-0%", "--epochs", 1, "--lr", "1e-9", "--out", f"{folder}/none", code=None)
        assert "zeros, 97 %" in table.out and "not kept" in table.out and "zeros, 73 %" in table.out, table
        assert os.path.exists(f"{folder}/none/model") == (table.code == 0) and ("nothing was written" in table.out) == (table.code == 1), table
        for options, says in ((["--prune", "2"], "between 0 and 1"), ([], "nothing to do"), (["--prune", "0.5", "--target-accuracy", "3%"], "-0.5%")):
            assert says in penstock("compress", f"{folder}/first", *options, code=2).err


def straight_and_killed(folder, *options):
    """The files that a compression leaves which runs through, in folder/straight, and one that is killed three times, in folder/killed."""
    train, val = data(folder)
    penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 2, "--out", f"{folder}/first", "-q")
    command = ["compress", f"{folder}/first", *options, "--epochs", 2, "--save-every", 2, "-q", "--out"]
    begin = time.monotonic()
    penstock(*command, f"{folder}/straight")
    took = time.monotonic() - begin
    for delay in (0.3 * took, 0.5 * took, 0.7 * took, None):
        with subprocess.Popen([PENSTOCK, *map(str, command), f"{folder}/killed"], env=environment(), stderr=subprocess.DEVNULL) as process:
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
    assert process.returncode == 0
    return files_of(f"{folder}/straight"), files_of(f"{folder}/killed")


def test_search_continues():
    """A search that is killed repeats no measurement, and ends with the weights of one that was left alone."""
    with scratch() as folder:
        want, found = straight_and_killed(folder, "--prune", "0.7", "--search")
        assert want and {k: v for k, v in found.items() if k in want} == want, (want.keys(), found.keys())
        measured = json.load(open(f"{folder}/killed/search.json"))
        assert {len(v) for v in measured["layers"].values()} == {4}, measured


def test_channels_and_integers_continue():
    """Fewer channels and training for int8, killed on the way, end with the weights of a command that was left alone."""
    with scratch() as folder:
        want, found = straight_and_killed(folder, "--flops", "0.7", "--quantize", "int8", "--qat")
        assert len(want) >= 3 and {k: v for k, v in found.items() if k in want} == want, (want.keys(), found.keys())


def test_bits_per_layer():
    """A width for each layer: the mean is reached, stored and kept; killed, the search repeats no measurement and finds the same bits."""
    with scratch() as folder:
        train, val = data(folder)
        model = "conv 8 3 relu pad=same | maxpool 2 | dwconv 3 pad=same bias=false | batchnorm | relu | conv 16 3 pad=same bias=false | batchnorm | relu | globalavgpool | dense 3"
        penstock("train", train, "--val", val, "--model", model, "--epochs", 3, "--lr", "0.01", "--out", f"{folder}/first", "-q")
        command = ["compress", f"{folder}/first", "--quantize", "weights-mixed", "--bits", 6, "--out"]
        out = json.loads(penstock(*command, f"{folder}/straight", "--json", "--html", f"{folder}/page.html").out)
        first, last = out["variants"]
        bits = {layer["name"]: layer["bits"] for layer in out["layers"]}
        mean = sum(layer["bits"] * layer["weights"] for layer in out["layers"]) / sum(layer["weights"] for layer in out["layers"])
        assert len(bits) == 4 and set(bits.values()) <= {4, 8, 16, 32} and 4 <= mean <= 6, out["layers"]
        assert last["name"] == f"{mean:.2f} bits, found per layer" and last["file_bytes"] < 0.4 * first["file_bytes"], out["variants"]
        types = {name: kind for name, (kind, _, _) in arrays(f"{folder}/straight/model/weights.safetensors").items()}
        for name, n in bits.items():
            assert types[f"{name}/kernel"] in {4: ("U8",), 8: ("I8",), 16: ("F16", "BF16"), 32: ("F32",)}[n], (name, n, types)
        assert abs(json.loads(penstock("eval", out["out"], val, "--json").out)["accuracy"] - last["accuracy"]) < 1e-9
        assert "Layers of the result" in open(f"{folder}/page.html").read()
        table = penstock(*command, f"{folder}/straight").out
        assert "bits\n" in table and all(name in table for name in bits), table

        measured = json.load(open(f"{folder}/straight/search-bits.json"))
        assert {len(v) for v in measured["layers"].values()} == {3} and all(x is not None for v in measured["layers"].values() for x in v), measured
        # Half of the measurements are there, and say something else than the truth: the search must take them as they are.
        os.makedirs(f"{folder}/half")
        told = dict(measured, layers={name: [None, 9.0, 9.0] if "dense_1" in name else v for name, v in measured["layers"].items()})
        json.dump(told, open(f"{folder}/half/search-bits.json", "w"))
        again = json.loads(penstock(*command, f"{folder}/half", "--json").out)
        found = json.load(open(f"{folder}/half/search-bits.json"))["layers"]["dense_1/kernel"]
        assert found[1:] == [9.0, 9.0] and found[0] == measured["layers"]["dense_1/kernel"][0], found
        assert next(layer["bits"] for layer in again["layers"] if layer["name"] == "dense_1") >= 16, again["layers"]
        # Little time: every layer is measured with 8 bits, and none gets a width that was not measured.
        out = json.loads(penstock(*command, f"{folder}/short", "--search-seconds", "0.01", "--json").out)
        found = json.load(open(f"{folder}/short/search-bits.json"))["layers"]
        for layer in out["layers"]:
            widths = {bits for bits, loss in zip((16, 8, 4), found[layer["name"] + "/kernel"]) if loss is not None}
            assert 8 in widths and layer["bits"] in widths | {32}, (layer, found)
        # The time is over before 4 bits are measured, and the name says so.
        told = dict(measured, seconds=1e6, layers={name: [v[0], v[1], None] for name, v in measured["layers"].items()})
        json.dump(told, open(f"{folder}/half/search-bits.json", "w"))
        late = json.loads(penstock(*command, f"{folder}/half", "--json").out)["variants"][-1]["name"]
        assert late == "8.00 bits, found per layer in the time given", late
        # Other validation data: what was measured does not count.
        penstock(*command, f"{folder}/half", "--val", f"{val} | take 3", "-q")
        other = json.load(open(f"{folder}/half/search-bits.json"))
        assert other["loss"] != measured["loss"] and other["seconds"] < 1e6 and other["fingerprint"] != measured["fingerprint"], other


def test_bits_and_zeros():
    """The fewest bits, and bits after zeros, each found per layer."""
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 4, "--lr", "0.01", "--out", f"{folder}/first", "-q")
        out = json.loads(penstock("compress", f"{folder}/first", "--quantize", "weights-mixed", "--bits", 4, "--out", f"{folder}/free", "--json").out)
        assert {layer["bits"] for layer in out["layers"]} == {4} and out["variants"][1]["name"].startswith("4.00 bits"), out
        both = json.loads(penstock("compress", f"{folder}/first", "--quantize", "weights-mixed", "--bits", 5, "--prune", "0.5", "--search", "--epochs", 1, "--out",
                                   f"{folder}/both", "--json").out)
        assert [v["name"].split(",")[1] for v in both["variants"][1:]] == [" 50 %", " found per layer"], both["variants"]
        assert any(layer["nonzero"] < 0.6 * layer["weights"] for layer in both["layers"]), both["layers"]
        assert os.path.exists(f"{folder}/both/search.json") and os.path.exists(f"{folder}/both/search-bits.json")
        assert "4" in penstock("compress", f"{folder}/first", "--quantize", "weights-mixed", "--bits", 3, code=2).err


def test_endless_data():
    """Data that never ends needs the length of an epoch: said before anything is trained."""
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 1, "--out", f"{folder}/first", "-q")
        endless = train.replace("| shuffle", "| shuffle | repeat")
        command = ["compress", f"{folder}/first", "--data", endless, "--val", val, "--prune", "0.5", "--epochs", 1, "--out", f"{folder}/small"]
        result = penstock(*command, code=2)
        assert "never ends" in result.err and "--steps-per-epoch" in result.err and not os.path.exists(f"{folder}/small"), result
        penstock(*command, "--steps-per-epoch", 3)
        penstock("compress", f"{folder}/first", "--data", endless, "--val", val, "--quantize", "int8", "--out", f"{folder}/int8")
        result = penstock("compress", f"{folder}/first", "--val", val.replace("| decode", "| repeat | decode"), "--quantize", "int8", code=2)
        assert "data to evaluate never ends" in result.err, result


def test_another_network_does_not_continue():
    """A step of another network, or with other options, is trained anew in the same folder; the same one continues."""
    with scratch() as folder:
        train, val = data(folder)
        for name, seed in (("a", 1), ("b", 2)):
            penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 2, "--seed", seed, "--out", f"{folder}/{name}", "-q")

        def small(name, out, *options):
            penstock("compress", f"{folder}/{name}", "--prune", "0.5", "--epochs", 1, "--out", f"{folder}/{out}", "-q", *options)
            return open(f"{folder}/{out}/model/weights.safetensors", "rb").read()

        small("a", "shared")
        fresh = small("b", "alone")
        assert small("b", "shared") == fresh, "it continued with the weights of another network"
        assert small("b", "shared", "--lr", "0.01") != fresh, "it ignored the learning rate"


def test_budget_of_a_search():
    """The seconds of a search count on when it continues."""
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 1, "--out", f"{folder}/first", "-q")
        command = ["compress", f"{folder}/first", "--prune", "0.4", "--search", "--epochs", 1, "-q", "--out", f"{folder}/small"]
        penstock(*command, "--search-seconds", "0.01")
        found = json.load(open(f"{folder}/small/search.json"))
        measured = [len(v) for v in found["layers"].values()]
        assert found["seconds"] >= 0.01 and max(measured) >= 1 and sum(measured) < 4 * len(measured), found  # not the four of a whole search
        penstock(*command, "--search-seconds", "0.01")
        assert json.load(open(f"{folder}/small/search.json")) == found
        found["layers"] = {name: values[:1] if name == "conv_1/kernel" else [] for name, values in found["layers"].items()}  # as of slow data
        found["layers"]["conv_1/kernel"], found["seconds"] = [0.5], 5
        json.dump(found, open(f"{folder}/small/search.json", "w"))
        out = json.loads(penstock(*[x for x in command if x != "-q"], "--search-seconds", "0.01", "--json").out)
        assert json.load(open(f"{folder}/small/search.json")) == found, "the time counts for the first measurements, too"
        zeros_of = {layer["name"]: 1 - layer["nonzero"] / layer["weights"] for layer in out["layers"]}
        assert "in the time given" in out["variants"][1]["name"] and abs(zeros_of["conv_2"] - 0.4) < 0.01 and abs(zeros_of["dense_1"] - 0.4) < 0.03, out


def test_unknown_length():
    """Zeros that grow with the run need its length: train asks for it, compress counts."""
    with scratch() as folder:
        train, val = data(folder)
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "--shards", 1, "-q")
        shard, = (n for n in glob.glob(f"{folder}/shards/*.tfrecord*") if not n.endswith("idx"))
        with open(shard, "rb") as plain, gzip.open(f"{folder}/stream.tfrecord.gz", "wb") as packed:
            packed.write(plain.read())
        stream = train.replace(f"folder {folder}/photos | shuffle", f"tfrecord {folder}/stream.tfrecord.gz | example")
        common = ["train", stream, "--model", MODEL, "--epochs", 2, "-q", "--out", f"{folder}/run"]
        result = penstock(*common, "--prune", "0.5", code=2)
        assert "--prune-end" in result.err and "--steps-per-epoch" in result.err, result
        penstock(*common)
        out = json.loads(penstock("compress", f"{folder}/run", "--data", stream, "--val", val, "--prune", "0.5", "--epochs", 2, "--out", f"{folder}/small", "--json").out)
        assert out["variants"][1]["nonzero"] < 0.6 * out["variants"][1]["parameters"], out["variants"]


def test_mistakes():
    with scratch() as folder:
        train, _ = data(folder)
        for options, says in ((["--prune", "1.5"], "between 0 and 1"), (["--prune", "4:2"], "4 of 2"), (["--prune", "0.5", "--prune-exclude", "nope"], "nope"),
                              (["--prune", "0.5", "--prune-layer", "conv_1"], "conv_1=0.3"), (["--qat"], "--weights")):
            result = penstock("train", train, "--model", MODEL, "--epochs", 1, *options, code=None)
            assert result.code in (1, 2) and says in result.err, result
        for options in (["--temperature", "4"], ["--alpha", "0.3"], ["--feature-weight", "2"]):
            assert "--teacher" in penstock("train", train, "--model", MODEL, "--epochs", 1, *options, code=2).err
        for options in (["--structured", "--quantize", "int8"], ["--prune", "0.5", "--structured", "--flops", "0.3"]):
            assert "--structured needs" in penstock("compress", "run", *options, code=2).err


def trained(folder, *options):
    train, val = data(folder)
    penstock("train", train, "--val", val, "--model", MODEL, "--epochs", 2, "--lr", "0.01", "--out", f"{folder}/first", "-q", *options)
    return train, val


def test_options_without_effect():
    """Nothing that is asked for is ignored, and what is wrong is said before anything is measured."""
    with scratch() as folder:
        trained(folder)
        for options, says in ((["--quantize", "int8", "--search"], "--search"), (["--prune", "0.5", "--structured", "--search"], "--search"),
                              (["--prune", "2:4", "--search"], "--search"), (["--quantize", "int8", "--exclude", "conv_1"], "--exclude"),
                              (["--prune", "0.5", "--exclude", "nope"], "nope"), (["--flops", "0.5", "--exclude", "nope"], "nope"),
                              (["--prune", "0.5", "--calibration", "minmax"], "--quantize int8"), (["--quantize", "weights-int8", "--weight-bits", "8"], "--quantize int8"),
                              (["--quantize", "int8", "--percentile", "0.99"], "--calibration percentile"),
                              (["--quantize", "int8", "--calibration", "percentile", "--percentile", "0.2"], "0.5 to 1")):
            result = penstock("compress", f"{folder}/first", *options, "--out", f"{folder}/none", code=2)
            assert says in result.err and not result.out and not os.path.exists(f"{folder}/none"), result
        for target in ("-0.5", "0.1", "-7"):
            assert f"write {target}%" in penstock("compress", f"{folder}/first", "--quantize", "int8", "--target-accuracy", target, code=2).err
        text = penstock("compress", f"{folder}/first", "--quantize", "weights-int8", "--target-accuracy", "-0.05").out
        assert "nothing was written" in text and "--out" in text and "nowhere" not in text, text
        assert json.loads(penstock("compress", f"{folder}/first", "--quantize", "weights-int8", "--json").out)["out"] is None


def test_channels_that_stay():
    """Excluded layers keep their channels; a share that cannot be reached is an error, or with a bound a reason for a milder one."""
    with scratch() as folder:
        train, _ = trained(folder)
        common = ["compress", f"{folder}/first", "--structured", "--epochs", 1, "--json"]
        penstock(*common, "--prune", "0.3", "--exclude", "conv_2", "--out", f"{folder}/kept")
        kept = arrays(f"{folder}/kept/model/weights.safetensors")
        assert kept["conv_2/kernel"][1][3] == 16 and kept["conv_1/kernel"][1][3] < 8, kept
        assert "quarter" in penstock(*common, "--prune", "0.99", "--out", f"{folder}/none", code=None).err
        bounded = json.loads(penstock(*common, "--prune", "0.99", "--target-accuracy", "-99%", "--out", f"{folder}/mild").out)
        assert bounded["chosen"] == 1 and bounded["variants"][1]["flops"] < bounded["variants"][0]["flops"], bounded
        assert "quarter" in penstock(*common, "--prune", "0.3", "--exclude", "conv_*", "--target-accuracy", "-99%", "--out", f"{folder}/no", code=None).err
        penstock("train", "--weights", f"{folder}/first", train, "--prune-structured", "0.3", "--prune-exclude", "conv_2", "--epochs", 1, "--out",
                 f"{folder}/tuned", "-q")
        assert arrays(f"{folder}/tuned/latest/weights.safetensors")["conv_2/kernel"][1][3] == 16


def test_zeros_are_left_out():
    """The model that is written has no zeros in it, and the table counts its bytes; exported weights are whole."""
    with scratch() as folder:
        train, val = data(folder)
        wide = MODEL.replace("conv 16", "conv 64").replace("conv 8", "conv 32")
        penstock("train", train, "--val", val, "--model", wide, "--epochs", 1, "--out", f"{folder}/first", "-q")
        out = json.loads(penstock("compress", f"{folder}/first", "--prune", "0.8", "--epochs", 1, "--out", f"{folder}/small", "--json").out)
        before, after = out["variants"]
        size = os.path.getsize(f"{folder}/small/model/weights.safetensors")
        assert after["file_bytes"] < 0.3 * before["file_bytes"] and after["file_bytes"] <= size < after["file_bytes"] + 4096, (out, size)
        assert zeros(f"{folder}/small/model", "conv_2/kernel") > 0.79
        penstock("eval", f"{folder}/small", val)
        penstock("export", f"{folder}/small", f"{folder}/w.safetensors")
        assert not any("@" in name for name in arrays(f"{folder}/w.safetensors")), "other programs read these"


def test_runs_for_int8():
    """A run that was trained for int8 is compressed with --qat, too; where it loses too much it is not kept."""
    with scratch() as folder:
        train, val = trained(folder)
        penstock("train", train, "--val", val, "--weights", f"{folder}/first", "--qat", "--epochs", 1, "--out", f"{folder}/qat", "-q")
        common = ["compress", f"{folder}/qat", "--quantize", "int8", "--qat", "--epochs", 1, "--json"]
        out = json.loads(penstock(*common, "--out", f"{folder}/small").out)
        assert out["chosen"] == 1 and out["variants"][1]["name"] == "int8, trained for it", out
        result = penstock(*common, "--target-accuracy", "-0%", "--lr", "100", "--out", f"{folder}/none", code=None)
        assert result.code in (0, 1) and json.loads(result.out)["done"], result


def test_calibration():
    """How ranges are chosen, from how many samples and for how many bits: each choice changes the integers."""
    with scratch() as folder:
        trained(folder)
        models = set()
        choices = ([], ["--calibration", "minmax"], ["--calibration", "entropy"], ["--calibration", "percentile", "--percentile", "0.95"],
                   ["--calibration-samples", 8], ["--weight-bits", 8])
        for i, options in enumerate(choices):
            penstock("compress", f"{folder}/first", "--quantize", "int8", *options, "--out", f"{folder}/{i}", "-q")
            models.add(open(f"{folder}/{i}/model/weights.safetensors", "rb").read())
        assert len(models) == len(choices), len(models)
        penstock("compress", f"{folder}/first", "--quantize", "int8", "--calibration", "mse", "--out", f"{folder}/mse", "-q")
        assert open(f"{folder}/mse/model/weights.safetensors", "rb").read() == open(f"{folder}/0/model/weights.safetensors", "rb").read()


def state(run):
    files = [open(f"{run}/latest/{name}.safetensors", "rb").read() for name in ("weights", "optimizer")]
    record = json.load(open(f"{run}/latest/state.json"))
    return files + [record["step"], record["run"], record["model"]]


def killed(arguments, run, delays):
    """Runs the command, killing it after each delay, until it ends by itself."""
    for delay in [*delays, None]:
        there = os.path.isdir(run) and any(n.startswith("step_") for n in os.listdir(run))
        command = [PENSTOCK, "train", "--resume", run] if there else [PENSTOCK, "train", *map(str, arguments), "--out", run]
        with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        if process.returncode == 0:
            return
    raise AssertionError(f"exit {process.returncode}")


def test_pruned_runs_for_int8_continue():
    """Each alone, and both together with a teacher: killed again and again, a run ends with the bits of one that was left alone."""
    with scratch() as folder:
        train, val = data(folder)
        penstock("train", train, "--model", MODEL, "--epochs", 2, "--out", f"{folder}/first", "-q")
        prune = ["--prune", "0.6", "--prune-every", 5]
        distil = ["--teacher", f"{folder}/first", "--alpha", "0.5"]
        for number, extra in enumerate((prune, ["--qat"], ["--qat", *prune, *distil])):
            options = [train, "--val", val, "--weights", f"{folder}/first", "--steps", 40, "--epochs", 0, "--save-every", 3, "-q", *extra]
            begin = time.monotonic()
            penstock("train", *options, "--out", f"{folder}/straight{number}")
            took = time.monotonic() - begin
            killed(options, f"{folder}/killed{number}", [0.4 * took, 0.5 * took, 0.6 * took])
            assert state(f"{folder}/killed{number}") == state(f"{folder}/straight{number}"), extra
        names = arrays(f"{folder}/straight2/latest/weights.safetensors")
        assert "round_0/low" in names and "conv_2/kernel@bitmap" in names and not any("batchnorm" in n for n in names), names.keys()


tap.main(globals())
