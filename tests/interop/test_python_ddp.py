"""The Python module in training on several processes: torchrun starts this file again as each of two ranks, which train a small
CNN with DistributedDataParallel and write down what they saw."""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import tap
import torch
from python_data import ROOT

import penstock as ps
from penstock.torch import Loader

WORLD, SAMPLES, BATCH, EPOCHS = 2, 64, 4, 3


def images(count):
    """Images whose brightness is their class, with a number each."""
    number = np.arange(count)
    noise = np.random.default_rng(5).random((count, 3, 8, 8), np.float32) * 0.1
    return noise + (number % 2)[:, None, None, None].astype(np.float32), number % 2, number


def chain(count=SAMPLES):
    return ps.from_arrays(images(count), names=("image", "label", "number")).shuffle(seed=9).batch(BATCH)


# ---- A rank ----


def train(loader):
    """(Numbers by epoch, losses, weights) of DistributedDataParallel."""
    torch.manual_seed(int(os.environ["RANK"]))  # not alike: DistributedDataParallel has to make them so
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 2)
    )
    model = torch.nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    seen, losses = [], []
    for _ in range(EPOCHS):
        seen.append([])
        for image, label, number in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(image), label)
            loss.backward()
            optimizer.step()
            seen[-1].append(number.tolist())
            losses.append(float(loss))
    return seen, losses, [parameter.detach().flatten().tolist() for parameter in model.parameters()]


def counts(loader):
    return [number.tolist() for _, _, number in loader]


def refused():
    """What is said when the environment says another rank than torch.distributed."""
    right = os.environ["RANK"]
    try:
        os.environ["RANK"] = str(1 - int(right))
        Loader(chain())
        return ""
    except ValueError as error:
        return str(error)
    finally:
        os.environ["RANK"] = right


def resumed():
    """Numbers of an epoch that is left after three batches and taken up by another loader."""
    first, second, numbers = Loader(chain()), Loader(chain()), []
    for i, (_, _, number) in enumerate(first):
        numbers.append(number.tolist())
        if i == 2:
            break
    second.load_state_dict(first.state_dict())
    return numbers + counts(second)


def rank(folder):
    early = Loader(chain())  # the rank is the environment's
    torch.distributed.init_process_group("gloo")
    result = {"early": counts(early), "refused": refused(), "resumed": resumed()}
    result["seen"], result["losses"], result["weights"] = train(Loader(chain()))
    wrapped = torch.utils.data.DataLoader(Loader(chain()), batch_size=None, num_workers=0)
    result["wrapped"] = [number.tolist() for _, _, number in wrapped]
    for uneven in ("pad", "drop", "allow"):
        loader = Loader(chain(SAMPLES - BATCH), uneven=uneven)
        result[uneven] = counts(loader)
        assert len(loader) == len(result[uneven])
    torch.distributed.destroy_process_group()
    with open(os.path.join(folder, f"{os.environ['RANK']}.json"), "w") as f:
        json.dump(result, f)


# ---- The test ----


def run():
    """What each rank wrote down."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={WORLD}", __file__, folder]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=1000)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        ranks = []
        for i in range(WORLD):
            with open(os.path.join(folder, f"{i}.json")) as f:
                ranks.append(json.load(f))
        return ranks


def flat(batches):
    return [number for batch in batches for number in batch]


def whole_epoch(parts):
    """As many batches for each rank, and every sample once."""
    assert len({len(part) for part in parts}) == 1, [len(part) for part in parts]
    assert sorted(flat(parts[0]) + flat(parts[1])) == list(range(SAMPLES))


def test_two_ranks():
    a, b = run()
    for epoch in range(EPOCHS):
        whole_epoch((a["seen"][epoch], b["seen"][epoch]))
    assert a["seen"][0] != a["seen"][1]  # shuffled anew, without a set_epoch
    for key in ("early", "wrapped", "resumed"):
        whole_epoch((a[key], b[key]))
        assert a[key] == a["seen"][0], key
    assert a["weights"] == b["weights"] and a["losses"] != b["losses"]
    assert sum(a["losses"][-4:]) < sum(a["losses"][:4])
    for result in (a, b):
        assert "contradictory ranks" in result["refused"] and "torch.distributed" in result["refused"]
    assert [len(x["pad"]) for x in (a, b)] == [8, 8] and set(flat(a["pad"] + b["pad"])) == set(range(SAMPLES - BATCH))
    assert [len(x["drop"]) for x in (a, b)] == [7, 7] and len(set(flat(a["drop"] + b["drop"]))) == 14 * BATCH
    assert sorted(flat(a["allow"] + b["allow"])) == list(range(SAMPLES - BATCH)) and len(a["allow"]) - len(b["allow"]) == 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        rank(sys.argv[1])
    else:
        tap.main(globals())
