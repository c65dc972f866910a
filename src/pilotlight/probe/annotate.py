"""Named ranges."""

from __future__ import annotations

from pilotlight._probe import Range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _F = TypeVar("_F", bound=Callable[..., Any])


class annotate(Range):
    """A named range: `with annotate("load"): ...` or `@annotate("load")`.

    Of a coroutine function the range lasts from the first step to the last.
    """

    __slots__ = ()

    def __call__(self, function: _F) -> _F:
        import functools
        import inspect

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                with self:
                    return await function(*args, **kwargs)

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return called  # type: ignore[return-value]
