"""A tenant's own rows under the names of the tables, so that its query meets no others.

A filter that the engine applies to what it has read is too late: the engine asks cheap conditions
first, and a condition that fails on a row of somebody else tells by its error what that row holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# By these an engine asks a condition, or reckons what it needs, before the filter of a table.
ASKED_LAST = (
    "query_plan_filter_push_down",
    "query_plan_merge_filters",
    "query_plan_optimize_prewhere",
    "optimize_move_to_prewhere",
    "enable_join_runtime_filters",
    "query_plan_push_down_volume_reducing_functions",
    "query_plan_propagate_predicate_across_join",
)
_OWN_ROWS = re.compile(r"\w+ AS \(SELECT \* FROM \S+ PREWHERE tenant = '[^']*'\),? ?")


def of_tenant(database: str, sql: str, tables: Iterable[str], tenant: str) -> str:
    """The query over the tenant's rows alone. PREWHERE is done while a table is read, and nothing
    is moved before it. `sql` is as the engine writes it."""
    own = ", ".join(
        f"{name} AS (SELECT * FROM `{database}`.{name} PREWHERE tenant = '{tenant}')"
        for name in sorted(tables)
    )
    if not own:
        return sql
    for begin in ("WITH RECURSIVE ", "WITH "):
        if sql.startswith(begin):
            return f"{begin}{own}, {sql[len(begin) :]}"
    return f"WITH {own} {sql}"


def without_own_rows(said: str) -> str:
    """What the engine says of a query, as it was before `of_tenant`."""
    return _OWN_ROWS.sub("", said).replace("WITH SELECT ", "SELECT ")
