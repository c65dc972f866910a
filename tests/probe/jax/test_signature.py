from __future__ import annotations

import pytest

from pilotlight.probe.jax.signature import SAME, difference, nearest, signature_of

jax = pytest.importorskip("jax")
jnp = jax.numpy


def reason(before: object, now: object, **named: object) -> str:
    def of(*arguments: object, **others: object) -> dict[str, tuple[str, str, str]]:
        return signature_of(jax.tree_util, arguments, others)

    return difference(of(before), of(now, **named))


def test_another_shape_or_type_is_named_with_its_place() -> None:
    before, now = {"w": jnp.ones(8), "b": 1.0}, {"w": jnp.ones((2, 4), "int32"), "b": 1.0}
    assert reason(before, now) == "argument [0]['w'] is int32[2,4], was float32[8]"


def test_several_differences_are_counted() -> None:
    before, now = [jnp.ones(1), jnp.ones(1)], [jnp.ones(2), jnp.ones(2)]
    assert reason(before, now) == "argument [0][0] is float32[2], was float32[1], and 1 more"


def test_another_value_counts_where_all_types_are_alike() -> None:
    assert reason(("relu", 3), ("tanh", 3)) == "argument [0][0] is 'tanh', was 'relu'"


def test_arguments_that_come_or_go_are_named() -> None:
    assert reason(1, 1, mask=2) == "other arguments: new argument ['mask']"
    assert reason((1, 2), (1,)) == "other arguments: no argument [0][1]"


def test_what_does_not_lie_in_the_arguments_is_said_so() -> None:
    assert reason(jnp.ones(3), jnp.ones(3)) == SAME


def test_of_several_programs_the_one_that_differs_least_is_compared_with() -> None:
    def of(rows: int, layers: int) -> dict[str, tuple[str, str, str]]:
        return signature_of(jax.tree_util, (jnp.ones(rows), jnp.ones(rows)), {"layers": layers})

    # Whole batches, the last of an epoch, and then whole ones with another number of layers.
    before = nearest([of(32, 2), of(16, 2)], of(32, 3))
    assert before == of(32, 2)
    assert difference(before, of(32, 3)) == "argument ['layers'] is 3, was 2"
    assert nearest([], of(32, 2)) is None
