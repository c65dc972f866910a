"""Steps of JAX by the rhythm of calls: after a preparation, and in a thread for each way to make a
function that is called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def double(x: Any) -> Any:
    return x * 2


@jax.jit(donate_argnums=0)
def with_options(x: jax.Array) -> jax.Array:
    return x * 2


def call(function: Callable[[Any], Any], x: Any, times: int) -> None:
    for _ in range(times):
        x = function(x)
    jax.block_until_ready(x)


@jax.jit
def prepared(x: jax.Array) -> jax.Array:
    return x + 1


@jax.jit
def update(x: jax.Array) -> jax.Array:
    return x / 2


def main() -> None:
    x = jnp.ones(8)
    call(prepared, x, 4)
    call(update, x, 70)
    ahead = jax.jit(double).lower(x).compile()
    ways = {
        "options": (with_options, jnp.ones(8), 11),
        "pmap": (jax.pmap(double), jnp.ones((1, 8)), 21),
        "ahead": (ahead, x, 31),
    }
    for name, way in ways.items():
        thread = threading.Thread(target=call, args=way, name=name)
        thread.start()
        thread.join()
    assert with_options.__name__ == "with_options"


if __name__ == "__main__":
    main()
