"""A training loop in JAX: logistic regression on batches that share their memory with JAX.

python jax_loop.py
"""

from __future__ import annotations

import array
import random

import jax
import jax.numpy as jnp

import penstock as ps
import penstock.jax

WIDTH, ROWS = 16, 4096


def data() -> ps.Dataset:
    dice = random.Random(1)
    x = array.array("f", [dice.gauss(0, 1) for _ in range(ROWS * WIDTH)])
    y = array.array("f", [float(sum(x[i * WIDTH : (i + 1) * WIDTH : 2]) > 0) for i in range(ROWS)])
    return ps.from_arrays((memoryview(x).cast("B").cast("f", (ROWS, WIDTH)), y)).shuffle(seed=1).batch(64)


def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    scores = x @ weights
    return jnp.mean(jnp.logaddexp(0, scores) - y * scores)


@jax.jit
def step(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    slope: jax.Array = jax.grad(loss)(weights, x, y)
    return weights - 0.5 * slope


def main() -> None:
    dataset, weights = data(), jnp.zeros(WIDTH)
    for epoch in range(3):
        for x, y in penstock.jax.iterator(dataset):
            weights = step(weights, x, y)
        right = sum(int(((x @ weights > 0) == (y > 0.5)).sum()) for x, y in penstock.jax.iterator(dataset))
        print(f"epoch {epoch}: {right / ROWS:.1%} right")
    assert right / ROWS > 0.9, "it did not learn"


if __name__ == "__main__":
    main()
