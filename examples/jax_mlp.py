"""Trains a small network with JAX; nothing in it knows of pilotlight.

pilotlight run -- python examples/jax_mlp.py --steps 200
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp


def loss(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    hidden = jnp.maximum(x @ weights[0], 0)
    return ((hidden @ weights[1] - y) ** 2).mean()


@jax.jit
def train_step(weights: list[jax.Array], x: jax.Array, y: jax.Array) -> list[jax.Array]:
    gradients = jax.grad(loss)(weights, x, y)
    return [w - 1e-3 * g for w, g in zip(weights, gradients, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    weights = [jax.random.normal(keys[0], (64, 128)) / 8, jax.random.normal(keys[1], (128, 1)) / 11]
    truth = jax.random.normal(keys[2], (64, 1))
    x = jax.random.normal(keys[3], (256, 64))
    y = jnp.tanh(x @ truth)
    for _ in range(args.steps):
        weights = train_step(weights, x, y)
    print(f"loss after {args.steps} steps: {float(loss(weights, x, y)):.3f}")


if __name__ == "__main__":
    main()
