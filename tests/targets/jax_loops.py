"""Steps of JAX by rhythm and by annotation; checks that jitted functions are what they were."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp


@jax.jit
def train_step(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) * inner(x)


@jax.jit
def inner(x: jax.Array) -> jax.Array:
    return x + 1


@functools.partial(jax.jit, static_argnums=1)
def scaled(x: jax.Array, factor: int) -> jax.Array:
    return x * factor


class Model:
    @functools.partial(jax.jit, static_argnums=0)
    def forward(self, x: jax.Array) -> jax.Array:
        return x * 2


def main() -> None:
    x = jax.device_put(jnp.ones(8))
    for _ in range(20):
        x = train_step(x)
    jax.block_until_ready(x)
    with jax.profiler.TraceAnnotation("mine"):
        train_step(jnp.ones(16))
    for number in (1000, 1001, 1002):
        with jax.profiler.StepTraceAnnotation("train", step_num=number):
            train_step(x)

    assert train_step.__name__ == "train_step"
    assert train_step.lower(x).compile() is not None
    assert isinstance(train_step, jax.stages.Wrapped)
    assert float(scaled(jnp.ones(1), 3)[0]) == 3
    assert float(Model().forward(jnp.ones(1))[0]) == 2
    assert jax.grad(lambda v: train_step(v).sum())(x).shape == x.shape
    assert jax.vmap(inner)(jnp.ones((2, 3))).shape == (2, 3)
    assert jax.jit(train_step)(x).shape == x.shape
    assert hash(train_step) == hash(train_step) and train_step == train_step
    assert jax.make_jaxpr(train_step)(x) is not None
    jax.export.export(train_step)(x)


if __name__ == "__main__":
    main()
