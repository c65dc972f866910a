"""From the schema of an earlier pilotlight to this one's, with all rows.

A migration that is interrupted begins again: nothing of the old tables is dropped before all rows
are in the new ones, and the version is written last. Meanwhile nobody may write to the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pilotlight.store.ddl import create_table, local_name, settings_of
from pilotlight.store.rollups import ROLLUPS
from pilotlight.store.schema import PARTS, TABLES

Run = Callable[[str], None]
Exists = Callable[[str], bool]


@dataclass(frozen=True)
class Migration:
    """What to do with a store of the version before: tables to lay out anew, rollups to fill,
    tables that get the settings of now."""

    version: int
    rebuilt: tuple[str, ...] = ()
    filled: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()


MIGRATIONS = (
    Migration(
        version=2,
        rebuilt=("steps", "counters", "counters_5m"),
        filled=(
            "job_steps_1h", "job_steps_1d", "job_totals", "step_histogram_1d", "steps_x4",
            "steps_x16", "steps_x64", "steps_x256", "steps_x1024", "steps_x4096", "counters_latest",
        ),
    ),
    Migration(version=3, filled=("longest_steps",)),
    Migration(version=4, rebuilt=("names",), settled=tuple(TABLES)),
)  # fmt: skip

_SETTINGS = " SETTINGS max_partitions_per_insert_block = 0, max_insert_threads = 1"
# Single steps are kept for days, their sums for a year: the sums are the better source.
_JOB_TOTALS = f"""
SELECT s.tenant AS tenant, s.job AS job, s.attempt AS attempt, sum(s.count) AS count,
  sum(s.total_ns) AS total_ns, min(s.min_ns) AS min_ns, max(s.max_ns) AS max_ns,
  {", ".join(f"sum(s.{part}) AS {part}" for part in PARTS)},
  any(e.first_step) AS first_step, any(e.last_step) AS last_step,
  min(s.time_ns) AS first_ns, max(s.time_ns) + 300000000000 AS last_ns
FROM job_steps_5m AS s LEFT JOIN (
  SELECT tenant, job, attempt, min(step) AS first_step, max(step) AS last_step
  FROM {{source}} GROUP BY tenant, job, attempt
) AS e ON e.tenant = s.tenant AND e.job = s.job AND e.attempt = s.attempt
GROUP BY s.tenant, s.job, s.attempt
"""


def migrate(
    version: int,
    cluster: str,
    keep_days: Mapping[str, int],
    run: Run,
    exists: Exists,
    progress: Callable[[str], None],
) -> None:
    """`run` takes a statement; `exists` says whether there is a table of that name."""
    needed = [one for one in MIGRATIONS if one.version > version]
    if not needed:
        return
    for statement in without_rollups(cluster):
        run(statement)
    for migration in needed:
        for name in migration.rebuilt:
            progress(f"laying out {name} anew")
            _rebuild(name, migration.version, cluster, keep_days.get(name), run, exists)
        for name in migration.filled:
            progress(f"filling {name}")
            for statement in create_table(TABLES[name], cluster, keep_days.get(name)):
                run(statement)
            fill(name, cluster, run)
        for name in migration.rebuilt:
            run(f"DROP TABLE IF EXISTS {_old(name, migration.version, cluster)}{_on(cluster)}")
        for name in migration.settled:
            local = local_name(name, cluster)
            if exists(local):
                run(
                    f"ALTER TABLE {local}{_on(cluster)} MODIFY SETTING "
                    f"{settings_of(TABLES[name], cluster)}"
                )


def without_rollups(cluster: str) -> Iterator[str]:
    """So that rows which are only moved are not added up a second time."""
    for rollup in ROLLUPS:
        yield f"DROP VIEW IF EXISTS {rollup.name}{_on(cluster)}"


def filled_since(version: int) -> tuple[str, ...]:
    """The rollups that a store or a backup of this version does not have."""
    return tuple(name for one in MIGRATIONS if one.version > version for name in one.filled)


def fill(name: str, cluster: str, run: Run) -> None:
    """A rollup from what is in its source now. On a cluster through the distributed tables: a row
    may land on another shard than the one that has its source, which readers cannot tell."""
    (rollup,) = (one for one in ROLLUPS if one.target == name)
    columns = ", ".join(TABLES[name].column_names)
    select = _JOB_TOTALS if name == "job_totals" else rollup.select
    run(f"TRUNCATE TABLE {local_name(name, cluster)}{_on(cluster)}")
    select = select.replace("{source}", rollup.source)
    run(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM ({select}){_SETTINGS}")


def _rebuild(
    name: str, version: int, cluster: str, keep_days: int | None, run: Run, exists: Exists
) -> None:
    local, old = local_name(name, cluster), _old(name, version, cluster)
    if not exists(old):
        run(f"RENAME TABLE {local} TO {old}{_on(cluster)}")
    for statement in create_table(TABLES[name], cluster, keep_days):
        run(statement)
    columns = ", ".join(f"`{column}`" for column in TABLES[name].column_names)
    run(f"TRUNCATE TABLE {local}{_on(cluster)}")
    source = f"cluster('{cluster}', currentDatabase(), {old})" if cluster else old
    run(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {source}{_SETTINGS}")


def _old(name: str, version: int, cluster: str) -> str:
    return f"{local_name(name, cluster)}_before_{version}"


def _on(cluster: str) -> str:
    return f" ON CLUSTER {cluster}" if cluster else ""
