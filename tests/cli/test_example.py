"""examples/train.c: compiled as a user's program, it learns the images of packed shards."""
import os
import re
import subprocess

import tap
from tool import environment, penstock, scratch

EXAMPLE = os.environ["TRAIN_EXAMPLE"]


def test_trains_from_shards():
    with scratch() as folder:
        penstock("generate", f"{folder}/photos", "--images", 240, "--classes", 4, "--size", 40, "-q")
        penstock("pack", f"{folder}/photos", f"{folder}/shards", "-q")
        done = subprocess.run([EXAMPLE, f"{folder}/shards"], env=environment(), text=True, capture_output=True, timeout=100)
        assert done.returncode == 0, done
        losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", done.stdout)]
        right = float(re.search(r"([0-9.]+) % of 240 images", done.stdout)[1])
        assert len(losses) == 6 and losses[-1] < 0.8 * losses[0] and right > 50, done.stdout


def test_mistakes_are_said():
    with scratch() as folder:
        done = subprocess.run([EXAMPLE, f"{folder}/nothing"], env=environment(), text=True, capture_output=True, timeout=100)
        assert done.returncode == 1 and "nothing" in done.stderr, done


tap.main(globals())
