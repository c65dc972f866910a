"""Numbers for people: three significant digits and a unit. Names for people: nothing but text."""

from __future__ import annotations

import math
import signal
import unicodedata

NOT_MEASURED = "not measured"

_MINUTE_S = 60
_HOUR_S = 3600


def duration(ns: float) -> str:
    if ns < 0:
        return f"-{duration(-ns)}"
    if round(ns) < 1e3:
        return f"{ns:.0f} ns"
    for limit, unit_ns, unit in ((1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if ns < limit * (1 - 5e-4):
            return f"{three_digits(ns / unit_ns)} {unit}"
    seconds = ns / 1e9
    if seconds < 2 * _MINUTE_S:
        return f"{three_digits(seconds)} s"
    if seconds < 2 * _HOUR_S:
        return "{} min {} s".format(*divmod(round(seconds), _MINUTE_S))
    return "{} h {} min".format(*divmod(round(seconds / _MINUTE_S), _MINUTE_S))


def share(ratio: float) -> str:
    return f"{three_digits(100 * ratio)} %"


def size(number_bytes: float) -> str:
    for unit_bytes, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number_bytes >= unit_bytes:
            return f"{three_digits(number_bytes / unit_bytes)} {unit}"
    return f"{number_bytes:.0f} B"


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def frequency(hertz: float) -> str:
    return f"{three_digits(hertz)} Hz"


def value(number: float) -> str:
    """A number without a unit."""
    if number and not 1e-4 <= abs(number) < 1e9:
        return f"{number:.2e}"
    return f"{number:,.0f}" if abs(number) >= 1000 else three_digits(number)


def three_digits(number: float) -> str:
    """1234 as 1,234; 41.23 as 41.2; 0 as 0."""
    if not number:
        return "0"
    if abs(number) >= 999.5:
        return f"{number:,.0f}"
    digits = 2 - math.floor(math.log10(abs(number)))
    rounded = round(number, digits)
    if rounded and math.floor(math.log10(abs(rounded))) > 2 - digits:
        digits -= 1
    return f"{rounded:.{min(max(digits, 0), 6)}f}"


def printable(text: str) -> str:
    """The text with all that could steer a terminal or turn its direction spelled out."""
    return "".join(
        letter if unicodedata.category(letter)[0] != "C" else f"\\u{ord(letter):04x}"
        for letter in text
    )
