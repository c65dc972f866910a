"""How long a step of a running job takes now, and what that is compared with: one definition for
every page, so that the fleet and the job say the same."""

from __future__ import annotations

from dataclasses import dataclass

from pilotlight.store.queries import Reader
from pilotlight.store.queries.reader import HOUR_NS, ONE_THREAD, PERIODS_NS

DAY_NS = 24 * HOUR_NS
MINUTE_NS = 60_000_000_000
WINDOW_NS = PERIODS_NS["5m"]
NOTICED_RATIO = 0.02

# By hours as far as nobody sees the difference, by 5 min where a young job would.
_WINDOWS = """
SELECT job, s.time_ns AS t, s.total_ns AS total, s.count AS steps FROM job_steps_{period} AS s
WHERE tenant = {{tenant:String}} AND s.time_ns >= {{{since}:Int64}}
  AND s.time_ns < {{{until}:Int64}}
"""
_PACES = """
SELECT job, sumIf(total, t >= {recent_ns:Int64}), sumIf(steps, t >= {recent_ns:Int64}),
  sumIf(total, t >= {day_ns:Int64} AND t < {recent_ns:Int64}),
  sumIf(steps, t >= {day_ns:Int64} AND t < {recent_ns:Int64}),
  minIf(t, t >= {day_ns:Int64} AND t < {recent_ns:Int64}),
  sumIf(total, t < {day_ns:Int64}), sumIf(steps, t < {day_ns:Int64})
"""


@dataclass(frozen=True)
class Pace:
    """The mean step of the last ten minutes (the window of five that is under way, and the one
    before it), and what it is compared with: that of yesterday, the day before the last 24 hours,
    or of what there is before those minutes. `earlier` names it."""

    recent_ns: float | None = None
    earlier_ns: float | None = None
    earlier: str = ""

    @property
    def change_ratio(self) -> float | None:
        if not self.recent_ns or not self.earlier_ns:
            return None
        return self.recent_ns / self.earlier_ns - 1

    @property
    def words(self) -> str:
        """ ", 18 % slower than yesterday"; nothing where nobody would notice."""
        if self.change_ratio is None or abs(self.change_ratio) < NOTICED_RATIO:
            return ""
        word = "slower" if self.change_ratio > 0 else "faster"
        than = self.earlier if self.earlier == YESTERDAY else f"in {self.earlier}"
        return f", {100 * abs(self.change_ratio):.0f} % {word} than {than}"


YESTERDAY = "yesterday"


def paces(reader: Reader) -> dict[str, Pace]:
    """Of all jobs that made a step within two days."""
    return _paces(reader, "", {})


def pace_of(reader: Reader, job: str) -> Pace:
    return _paces(reader, " AND job = {job:String}", {"job": job}).get(job, Pace())


def _paces(reader: Reader, only: str, named: dict[str, str]) -> dict[str, Pace]:
    recent_ns = reader.now_ns // WINDOW_NS * WINDOW_NS - WINDOW_NS
    hour_ns = recent_ns // HOUR_NS * HOUR_NS - HOUR_NS
    day_ns = recent_ns // HOUR_NS * HOUR_NS - DAY_NS
    windows = (
        _WINDOWS.format(period=period, since=since, until=until) + only
        for period, since, until in (("1h", "from_ns", "hour_ns"), ("5m", "hour_ns", "to_ns"))
    )
    found = reader.select(
        f"{_PACES} FROM ({' UNION ALL '.join(windows)}) GROUP BY job {ONE_THREAD}",
        recent_ns=recent_ns,
        hour_ns=hour_ns,
        day_ns=day_ns,
        from_ns=day_ns - DAY_NS,
        to_ns=1 << 62,
        **named,
    )
    return {job: _pace(recent_ns, *(int(number) for number in sums)) for job, *sums in found}


def _pace(
    recent_ns: int,
    total_ns: int,
    count: int,
    before_ns: int,
    before_count: int,
    first_ns: int,
    yesterday_ns: int,
    yesterday_count: int,
) -> Pace:
    now = total_ns / count if count else None
    if yesterday_count:
        return Pace(now, yesterday_ns / yesterday_count, YESTERDAY)
    if before_count:
        return Pace(now, before_ns / before_count, f"the {_rough(recent_ns - first_ns)} before")
    return Pace(now)


def _rough(length_ns: int) -> str:
    if length_ns < 2 * HOUR_NS:
        return f"{round(length_ns / MINUTE_NS)} min"
    return f"{round(length_ns / HOUR_NS)} h"
