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
_SYNCED = "fsync_after_insert = 1, fsync_part_directory = 1"
# A segment of which half was inserted may wait in the spool of a collector that is off: without
# the second number a server forgets the half of it after an hour, and it would count twice.
_WEEK_S = 7 * 86_400
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DAYS = re.compile(r"\bTTL\b.*\btoIntervalDay\((\d+)\)")


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


def days_of(created: str) -> int:
    """How long rows stay, by the text with which the engine would create the table; 0: for ever."""
    found = _DAYS.search(created)
    return int(found[1]) if found else 0


def settings_of(table: StoredTable, cluster: str) -> str:
    """Those that may be changed later. A day that is a partition of its own leaves as a whole:
    nothing is written anew for it."""
    kind = "replicated" if cluster else "non_replicated"
    text = f"{kind}_deduplication_window = {_REMEMBERED_INSERTS}, {_SYNCED}"
    if cluster:
        text += f", replicated_deduplication_window_seconds = {_WEEK_S}"
    if table.partition == "toYYYYMMDD":
        text += ", ttl_only_drop_parts = 1"
    return text


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
    text += f" SETTINGS index_granularity = {table.granule}"
    yield f"{text}, {settings_of(table, cluster)}"
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
