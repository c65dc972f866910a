"""SQL of strangers: one SELECT over the documented tables, of one tenant, within bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pilotlight.errors import StoreError, UsageError
from pilotlight.store.functions import WITHOUT_BRACKETS, Functions, functions_of
from pilotlight.store.schema import TABLES
from pilotlight.store.store import Store

MOST_ROWS = 100_000
TIME_S = 15
MEMORY_BYTES = 1 << 30
_LONGEST = 20_000

PUBLIC = frozenset(table.name for table in TABLES.values() if table.is_public)
_TABLE_FUNCTIONS = frozenset({"numbers"})
_TENANT = re.compile(r"[A-Za-z0-9_-]{1,100}")
_IN = re.compile(r"(?:global)?(?:not)?(?:null)?in(?:ignoreset)?", re.IGNORECASE)
_NODE = re.compile(r"^( *)(\w+)(?: (.*?))?(?: \(alias ([^)]*)\))?(?: \(children \d+\))?$")
_WITH = re.compile(
    r"(?:\bwith\b|,)\s*(?:recursive\s+)?([A-Za-z_]\w*)\s+as\s*(?:materialized\s*)?\(",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Found:
    """`is_cut`: there were more rows than are handed out."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_cut: bool


def query(store: Store, tenant: str, sql: str, limit: int = MOST_ROWS) -> Found:
    """UsageError: it is not allowed. StoreError: the engine's reason."""
    text = _one_statement(sql)
    check(store, text)
    client = store.new_client()
    try:
        for name, value in _settings(tenant, min(limit, MOST_ROWS)).items():
            client.set_client_setting(name, value)
        try:
            found = client.query(text)
        except Exception as error:
            reason = " ".join(str(error).split()).split(" (version ")[0]
            raise StoreError(f"the query failed: {reason[:500]}") from None
    finally:
        client.close()
    rows = list(found.result_rows)
    return Found(tuple(found.column_names), rows[:limit], len(rows) > limit)


def check(store: Store, sql: str) -> None:
    """Asks the engine's own parser what the query reads and calls."""
    try:
        tree = store.syntax_tree(sql)
    except StoreError as error:
        raise UsageError(f"not a query: {error}") from None
    if not tree or not tree[0].startswith("SelectWithUnionQuery"):
        raise UsageError("only SELECT is allowed here")
    local = {name.lower() for name in _WITH.findall(sql)}
    functions = functions_of(store)
    above: list[_Node] = []
    for line in tree:
        match = _NODE.match(line)
        if match is None:
            continue
        node = _Node(len(match[1]), match[2], (match[3] or "").strip().split(" ")[0])
        while above and above[-1].depth >= node.depth:
            above.pop()
        if above:
            above[-1].children += 1
        if node.kind == "TableIdentifier":
            _check_table(store, node.value, local)
        else:
            _check_node(node, above, functions)
        above.append(node)


@dataclass
class _Node:
    depth: int
    kind: str
    value: str
    children: int = 0


def _check_table(store: Store, name: str, local: set[str]) -> None:
    if name in PUBLIC:
        return
    if name.lower() not in local:
        raise UsageError(f"no table {name!r:.60}; docs/store.md lists them")
    # What looks like WITH may be a comment or a string, and the name that of a hidden table.
    if store.has_table(name):
        raise UsageError(f"WITH {name!r:.60}: that is the name of a table")


def _check_node(node: _Node, above: list[_Node], functions: Functions) -> None:
    parent = above[-1] if above else _Node(-1, "", "")
    if node.kind == "Function":
        if parent.kind == "TableExpression":
            if node.value not in _TABLE_FUNCTIONS:
                raise UsageError(f"the table function {node.value!r:.60} is not allowed")
        elif not functions.allows(node.value):
            raise UsageError(f"the function {node.value!r:.60} is not allowed")
    elif node.kind == "Identifier" and node.value.lower() in WITHOUT_BRACKETS:
        raise UsageError(f"the function {node.value!r:.60} is not allowed")
    elif node.kind == "Identifier" and len(above) > 1 and parent.children == 2:
        # `x IN name` reads a table without naming it as one.
        if parent.kind == "ExpressionList" and _IN.fullmatch(above[-2].value):
            raise UsageError(f"IN {node.value!r:.60}: write IN (SELECT ...)")
    elif node.kind in ("Set", "SetQuery"):
        raise UsageError("SETTINGS are not allowed here")
    elif node.kind == "Literal" and parent.kind == "SelectWithUnionQuery":
        raise UsageError("INTO OUTFILE is not allowed")


def _settings(tenant: str, limit: int) -> dict[str, object]:
    """Read-only comes last: after it nothing can be set, and no clause of the query can either."""
    if not _TENANT.fullmatch(tenant):
        raise StoreError(f"tenant {tenant!r:.60}: letters, digits, - and _ only")
    condition = f"tenant = \\'{tenant}\\'"
    filters = ", ".join(f"'{table}': '{condition}'" for table in TABLES)
    return {
        "max_execution_time": TIME_S,
        "max_memory_usage": MEMORY_BYTES,
        "max_result_rows": limit + 1,
        "result_overflow_mode": "break",
        "max_threads": 2,
        "max_ast_depth": 200,
        "max_ast_elements": 5000,
        "max_subquery_depth": 20,
        "allow_ddl": 0,
        "allow_introspection_functions": 0,
        "additional_table_filters": f"{{{filters}}}",
        "readonly": 1,
    }


def _one_statement(sql: str) -> str:
    text = sql.strip().rstrip(";").strip()
    if not text:
        raise UsageError("an empty query")
    if len(text) > _LONGEST:
        raise UsageError(f"a query has at most {_LONGEST} characters")
    if ";" in re.sub(r"'(?:[^'\\]|\\.|'')*'", "", text):
        raise UsageError("one statement at a time")
    if re.search(r"\bformat\s+\w+\s*$", text, re.IGNORECASE):
        raise UsageError("leave FORMAT out; --json gives JSON")
    return text
