"""Stops in the middle of an epoch, goes on in a new dataset (another process, another day), and sees every sample once.

python resume.py
"""

from __future__ import annotations

import json

import penstock as ps


def make() -> ps.Dataset:
    return ps.range(1000).shuffle(seed=7).batch(32)


def main() -> None:
    seen: list[int] = []
    dataset = make()
    for step, batch in enumerate(dataset):
        seen += batch["value"].tolist()
        if step == 12:
            break
    checkpoint = json.dumps(dataset.state_dict())
    print(f"stopped after {len(seen)} samples: {checkpoint}")

    resumed = make()
    resumed.load_state_dict(json.loads(checkpoint))
    for batch in resumed:
        seen += batch["value"].tolist()
    assert sorted(seen) == list(range(1000))
    print(f"went on to {len(seen)} samples, each once")


if __name__ == "__main__":
    main()
