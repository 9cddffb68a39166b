"""penstock.doctor with PyTorch: real DataLoaders, their set-ups planted with one fault each; a script that is watched."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np
import tap
import torch
from patience import HANG, examined
from PIL import Image

import penstock as ps
import penstock.torch
from penstock._doctor.loaders import adapt


def photos(folder, count, side):
    """Class folders of noise that compresses like photos."""
    random = np.random.default_rng(7)
    for i in range(count):
        where = os.path.join(folder, f"class{i % 2}")
        os.makedirs(where, exist_ok=True)
        small = random.integers(0, 255, (side // 8, side // 8, 3), np.uint8)
        Image.fromarray(small).resize((side, side)).save(os.path.join(where, f"{i:04}.jpg"), quality=90)


class Photos(torch.utils.data.Dataset):
    """One photo per item, opened, resized and scaled one by one, as in articles on slow training."""

    def __init__(self, folder, side=96):
        self.paths = sorted(os.path.join(base, name) for base, _, names in os.walk(folder) for name in names)
        self.side = side

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with Image.open(self.paths[i]) as image:
            pixels = np.asarray(image.resize((self.side, self.side)), np.float32) / 255
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), int("class1" in self.paths[i])


class Slow(torch.utils.data.Dataset):
    """A Python loop over the values of each sample."""

    def __len__(self):
        return 512

    def __getitem__(self, i):
        return torch.tensor([scale(v) for v in range(300)], dtype=torch.float32)


def scale(value):
    total = 0.0
    for k in range(20):
        total += value * k
    return total


class Augmented(torch.utils.data.Dataset):
    """Small images with heavy work on arrays."""

    def __len__(self):
        return 512

    def __getitem__(self, i):
        return torch.from_numpy(heavy(np.full((64, 64, 3), i % 255, np.float32)))


def heavy(image):
    for _ in range(6):
        image = np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(image, axes=(0, 1)), axes=(0, 1))).astype(np.float32) + 1)
    return image


class Quick(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        return torch.full((8,), float(i))


def a_step(milliseconds):
    """Stands for an accelerator: the CPU is free meanwhile."""
    return lambda batch: time.sleep(milliseconds / 1e3)


@examined
def test_one_worker_and_a_measured_gain(patience):
    with tempfile.TemporaryDirectory() as folder:
        photos(folder, 48, 512)
        loader = torch.utils.data.DataLoader(Photos(folder), batch_size=8, shuffle=True)
        answer = ps.doctor(loader, step=a_step(10), data=folder, seconds=5 * patience)
        verdict, values = answer.verdict, answer.to_dict()
        assert verdict["class"] == "input-bound" and verdict["cause"] in ("large-images", "single-worker"), verdict
        native = next(r for r in answer.remedies if r["id"] == "native-op")
        assert native["measured"]["gain"] > 1.3, native
        assert native["pipeline"] == f"folder {folder} | shuffle | decode | resize 96 | normalize 0..1 | layout nchw | batch 8"
        more = next(r for r in answer.remedies if r["id"] == "more-workers")
        assert more["measured"]["gain"] > 0 and more["predicted"], more  # on a busy machine more processes need not help
        assert values["schema"] == 1
        assert "times the samples per second (measured)" in verdict["sentence"], verdict["sentence"]
        assert "waits for data" in answer.html()


@examined
def test_a_slow_python_function(patience):
    loader = torch.utils.data.DataLoader(Slow(), batch_size=8)
    answer = ps.doctor(loader, step=a_step(2), seconds=2.5 * patience, verify=False)
    assert answer.verdict["cause"] == "python-function" and answer.verdict["bottleneck"] == "python", answer.verdict
    assert "scale" in answer.verdict["stage"] or "__getitem__" in answer.verdict["stage"], answer.verdict
    assert answer.remedies[0]["id"] in ("native-op", "processes", "more-workers"), answer.remedies[0]


@examined
def test_heavy_augmentation(patience):
    loader = torch.utils.data.DataLoader(Augmented(), batch_size=8)
    answer = ps.doctor(loader, step=a_step(1), seconds=2.5 * patience, verify=False)
    assert answer.verdict["cause"] == "heavy-augmentation", answer.verdict
    assert "heavy" in answer.verdict["stage"], answer.verdict
    assert any(r["id"] == "offline-augment" for r in answer.remedies)


@examined
def test_a_slow_step(patience):
    loader = torch.utils.data.DataLoader(Quick(), batch_size=64)
    answer = ps.doctor(loader, step=a_step(80), seconds=2 * patience)
    assert answer.verdict["class"] == "consumer-bound" and answer.verdict["cause"] == "consumer", answer.verdict


@examined
def test_without_a_step(patience):
    answer = ps.doctor(torch.utils.data.DataLoader(Quick(), batch_size=64), seconds=2 * patience)
    assert answer.verdict["class"] == "unknown" and answer.verdict["wait_share"] is None
    assert "alone delivers" in answer.verdict["sentence"]
    sweeps = {sweep["by"]: [point["value"] for point in sweep["points"]] for sweep in answer.to_dict()["sweeps"]}
    assert sweeps["num_workers"][:2] == [0, 1] and sweeps["batch_size"] == [16, 64, 256], sweeps


@examined
def test_sweeps_of_workers_and_prefetch(patience):
    answer = ps.doctor(torch.utils.data.DataLoader(Quick(), batch_size=64, num_workers=1), seconds=3 * patience)
    sweeps = {sweep["by"]: sweep for sweep in answer.to_dict()["sweeps"]}
    assert [point["value"] for point in sweeps["prefetch_factor"]["points"]] == [1, 2, 4], sweeps
    for sweep in sweeps.values():
        assert sweep["recommended"] in [point["value"] for point in sweep["points"]] and "within 5 %" in sweep["reason"], sweep
    assert sweeps["prefetch_factor"]["points"][2]["ram_bytes"] == 5 * 64 * 8 * 4, sweeps  # four ready, and the one that is used


def test_workers_of_an_iterable_dataset():
    """Each of them would read all of it."""

    class Lines(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(10))

    def titles(dataset):
        return [one.title for one in adapt(torch.utils.data.DataLoader(dataset)).variants() if one.id == "more-workers"]

    assert "get_worker_info" in titles(Lines())[0] and "get_worker_info" not in titles(Slow())[0], titles(Lines())


@examined
def test_tiny_batches(patience):
    answer = ps.doctor(torch.utils.data.DataLoader(Quick(), batch_size=1), step=lambda batch: None, seconds=2 * patience)
    assert answer.verdict["cause"] == "tiny-batch" and answer.remedies[0]["id"] == "larger-batch", (answer.verdict, answer.remedies[0])


class Pixels(torch.utils.data.Dataset):
    """Floats that were bytes."""

    def __len__(self):
        return 512

    def __getitem__(self, i):
        return (torch.arange(3 * 32 * 32) % 256).reshape(3, 32, 32).float() / 255


@examined
def test_copies_to_a_device(patience):
    plain = torch.Tensor.to

    def slow(tensor, *args, **given):
        if args and args[0] == "meta":  # stands for a device
            time.sleep(0.02)
        return plain(tensor, *args, **given)

    def step(batch):
        if batch.device.type == "cpu":
            batch.to("meta")
        time.sleep(0.01)

    torch.Tensor.to = slow
    try:
        answer = ps.doctor(torch.utils.data.DataLoader(Pixels(), batch_size=8), step=step, seconds=3 * patience)
        assert torch.Tensor.to is slow
    finally:
        torch.Tensor.to = plain
    values, remedies = answer.to_dict(), {remedy["id"]: remedy for remedy in answer.remedies}
    assert answer.verdict["cause"] == "transfer" and values["step"]["transfer_ms"] >= 20, (answer.verdict, values["step"])
    assert remedies["device-prefetch"]["measured"]["gain"] > 1.1 and remedies["pin-memory"]["predicted"]["gain"] > 1.3, remedies
    assert remedies["bytes-to-device"]["predicted"]["gain"] > 1.3, remedies


@examined
def test_the_wrapper(patience):
    batches = penstock.torch.Doctor(torch.utils.data.DataLoader(Slow(), batch_size=8))
    for i, batch in enumerate(batches):
        time.sleep(0.005)
        if i == 30:
            break
    answer = batches.answer(seconds=2 * patience)
    assert answer.verdict["class"] == "input-bound" and answer.verdict["cause"] == "python-function", answer.verdict


SCRIPT = """
    import atexit, sys, time
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Words(Dataset):
        def __len__(self):
            return 100000
        def __getitem__(self, i):
            total = 0
            for k in range(3000):
                total += k * i
            return torch.tensor([float(total % 7)] * 8)

    def main():
        model = torch.nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for batch in DataLoader(Words(), batch_size=16):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        assert sys.argv[1:] == ["--epochs", "3"], sys.argv
        try:
            main()
        finally:
            print("in good order")
"""


@examined
def test_a_script_is_watched(patience):
    """Twice: --verify runs it once more, with more workers."""
    with tempfile.TemporaryDirectory() as folder:
        script, out, page = (os.path.join(folder, name) for name in ("train.py", "answer.json", "page.html"))
        with open(script, "w", encoding="utf-8") as f:
            f.write(textwrap.dedent(SCRIPT))
        done = subprocess.run([sys.executable, "-m", "penstock.doctor", "--json", out, "--html", page, "--seconds", str(2.5 * patience), "--verify", script,
                               "--epochs", "3"],
                              capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 0, done.stderr
        assert "in good order" in done.stdout and "Training waits for data" in done.stdout, done.stdout
        with open(out, encoding="utf-8") as f:
            values = json.load(f)
        assert values["verdict"]["class"] == "input-bound" and values["verdict"]["cause"] == "python-function", values["verdict"]
        assert values["now"]["samples_per_s"] > 0 and values["subject"] == "train.py"
        assert os.path.getsize(page) > 3000
        more = next(remedy for remedy in values["remedies"] if remedy["id"] == "more-workers")
        assert more["measured"]["samples_per_s"] > 0 and more["measured"]["gain"], more


tap.main(globals())
