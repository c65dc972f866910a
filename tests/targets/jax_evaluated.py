"""A training that evaluates before it begins, and again every twenty steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp


@jax.jit
def evaluated(x: jax.Array) -> jax.Array:
    return x.sum()


@jax.jit
def trained(x: jax.Array) -> jax.Array:
    return x + 1


def main() -> None:
    x = jnp.ones(8)
    for _ in range(2):
        evaluated(x)
    for _ in range(5):
        for _ in range(20):
            x = trained(x)
        evaluated(x)


if __name__ == "__main__":
    main()
