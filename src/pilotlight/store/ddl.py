"""The text that creates the tables: on one machine, or on a cluster with shards and replicas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pilotlight.errors import UsageError
from pilotlight.store.rollups import ROLLUPS, Rollup
from pilotlight.store.schema import TABLES
from pilotlight.store.table import StoredTable

# Inserts carry the number of their spool segment; the engine takes each at most once.
_REMEMBERED_INSERTS = 10_000
_SINGLE_SETTINGS = (
    f"non_replicated_deduplication_window = {_REMEMBERED_INSERTS}, "
    "fsync_after_insert = 1, fsync_part_directory = 1"
)
_REPLICATED_SETTINGS = (
    f"replicated_deduplication_window = {_REMEMBERED_INSERTS}, "
    "fsync_after_insert = 1, fsync_part_directory = 1"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def statements(cluster: str, keep_days: Mapping[str, int]) -> Iterator[str]:
    """Creates what is missing. `cluster` is the name in remote_servers, "" for one machine."""
    if cluster and not _NAME.fullmatch(cluster):
        raise UsageError(f"cluster {cluster!r:.40}: a name has letters, digits and _ only")
    for table in TABLES.values():
        yield from create_table(table, cluster, keep_days.get(table.name))
    for rollup in ROLLUPS:
        yield _view(rollup, cluster)


def ttl(table: StoredTable, days: int) -> str:
    """The expression by which rows leave the table; "" if they stay."""
    if not days or not table.time:
        return ""
    return f"toDateTime(intDiv({table.time}, 1000000000)) + INTERVAL {days} DAY"


def local_name(table: str, cluster: str) -> str:
    """The table that has the rows of this machine."""
    return f"{table}_local" if cluster else table


def create_table(table: StoredTable, cluster: str, keep_days: int | None = None) -> Iterator[str]:
    """Two statements on a cluster; `keep_days` where it differs from the schema's."""
    columns = ", ".join(f"`{name}` {kind}" for name, kind in table.columns)
    on_cluster = f" ON CLUSTER {cluster}" if cluster else ""
    local = local_name(table.name, cluster)
    arguments = [table.version] if table.version else []
    engine = table.engine
    if cluster:
        engine = f"Replicated{engine}"
        # By the table's own number: a table that a migration renamed keeps its place.
        place = "'/clickhouse/tables/{uuid}/{shard}'"
        arguments = [place, "'{replica}'", *arguments]
    text = f"CREATE TABLE IF NOT EXISTS {local}{on_cluster} ({columns}) ENGINE = {engine}"
    text += f"({', '.join(arguments)})"
    if table.partition:
        text += f" PARTITION BY {table.partition}(toDateTime(intDiv({table.time}, 1000000000)))"
    order = (f"`{one}`" if one.isidentifier() else one for one in table.order)
    text += f" ORDER BY ({', '.join(order)})"
    leaves = ttl(table, table.keep_days if keep_days is None else keep_days)
    if leaves:
        text += f" TTL {leaves}"
    yield f"{text} SETTINGS {_REPLICATED_SETTINGS if cluster else _SINGLE_SETTINGS}"
    if cluster:
        # What belongs together lies together: a job's ranks are spread, a rank's rows are not.
        names = table.column_names
        shard = "cityHash64(tenant, job, rank)" if "rank" in names else "cityHash64(tenant)"
        if "rank" not in names and "job" in names:
            shard = "cityHash64(tenant, job)"
        yield (
            f"CREATE TABLE IF NOT EXISTS {table.name}{on_cluster} AS {local} "
            f"ENGINE = Distributed({cluster}, currentDatabase(), {local}, {shard})"
        )


def _view(rollup: Rollup, cluster: str) -> str:
    """On a cluster each shard adds up its own rows; readers add up the shards."""
    on_cluster = f" ON CLUSTER {cluster}" if cluster else ""
    source, target = local_name(rollup.source, cluster), local_name(rollup.target, cluster)
    select = rollup.select.replace("{source}", source)
    return (
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS {rollup.name}{on_cluster} TO {target} AS {select}"
    )
