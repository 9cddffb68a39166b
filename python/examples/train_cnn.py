"""A small CNN trained by penstock itself: fit, save, load, predict, and the same steps in one's own loop. Needs no framework.

python train_cnn.py [PHOTOS]         (class folders; default: a drawn set)
"""

from __future__ import annotations

import os
import sys
import tempfile

import toy

import penstock as ps

TEXT = "conv 12 3 relu stride=2 | conv 24 3 relu stride=2 | maxpool 2 | flatten | dense 2"


def main() -> None:
    photos = sys.argv[1] if len(sys.argv) > 1 else toy.photos()
    train = ps.folder(photos).shuffle().decode().resize(32).normalize("-1..1").batch(20).with_options(seed=1)
    model = ps.Model(TEXT, input=(32, 32, 3), seed=1, learning_rate=3e-3)
    print(model.summary(batch=20))
    history = model.fit(train, epochs=6, callbacks=[print])
    assert history[-1]["accuracy"] > 0.9, "it did not learn"

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        model.save(path)
        loaded = ps.Model.load(path)
    print("evaluated:", loaded.evaluate(train))
    print("results:", loaded.predict(train, probabilities=True).shape)

    own = ps.Model(TEXT, input=(32, 32, 3), seed=1, optimizer="sgd", learning_rate=0.02, momentum=0.9)
    for epoch in range(6):
        losses = []
        for batch in train:
            losses.append(own.train_step(batch["image"], batch["label"], apply=False))
            own.apply()  # own.gradients() has them by name
        print(f"own loop, epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}")
    assert sum(losses) / len(losses) < 0.5, "it did not learn"


if __name__ == "__main__":
    main()
