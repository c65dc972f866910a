from __future__ import annotations

import asyncio

import pytest

import pilotlight


def test_a_decorated_function_keeps_its_name_and_result() -> None:
    @pilotlight.annotate("double")
    def double(x: int) -> int:
        """Twice."""
        return 2 * x

    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice.")


def test_a_decorated_coroutine_is_awaited() -> None:
    @pilotlight.annotate("later")
    async def later() -> int:
        await asyncio.sleep(0)
        return 3

    assert asyncio.run(later()) == 3


def test_exceptions_pass_through_a_range() -> None:
    with pytest.raises(ZeroDivisionError), pilotlight.annotate("broken"):
        _ = 1 // 0


@pytest.mark.parametrize("arguments", [(), (3,), ("a", "b"), (None,)])
def test_a_range_needs_one_name(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="takes one str"):
        pilotlight.annotate(*arguments)  # type: ignore[arg-type]


def test_without_a_probe_every_call_does_nothing() -> None:
    with pilotlight.annotate("x") as entered:
        pilotlight.counter("loss", 1.0)
        pilotlight.step()
    assert entered.name == "x"


@pytest.mark.parametrize("arguments", [(), ("x",), (1, 2.0), ("x", "y")])
def test_a_counter_needs_a_name_and_a_number(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        pilotlight.counter(*arguments)  # type: ignore[arg-type]


def test_numbers_that_no_record_can_hold_end_no_job() -> None:
    pilotlight.counter("gradient", 2**2000)
    pilotlight.counter("gradient", -(2**2000))
    for number in (2**70, -(2**70), 2**63 - 1, -(2**63)):
        pilotlight.step(number)
