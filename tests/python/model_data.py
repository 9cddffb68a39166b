"""Data that tests of models share."""

import array
import random


def points(count, seed=1):
    """Points of the plane in three classes: (values, labels)."""
    draw = random.Random(seed)
    values, labels = array.array("f"), array.array("q")
    for _ in range(count):
        label = draw.randrange(3)
        values.extend((draw.gauss((-2, 0, 2)[label], 0.5), draw.gauss((1, -2, 1)[label], 0.5)))
        labels.append(label)
    return memoryview(values).cast("B").cast("f", (count, 2)), labels


def flat(tensor):
    return memoryview(tensor).cast("B").tobytes()
