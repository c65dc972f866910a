"""SQL of strangers: one SELECT over the documented tables, of one tenant, within bounds."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pilotlight.errors import PilotlightError, StoreError, UsageError
from pilotlight.store.functions import WITHOUT_BRACKETS, Functions, functions_of
from pilotlight.store.own_rows import ASKED_LAST, of_tenant, without_own_rows
from pilotlight.store.schema import TABLES
from pilotlight.store.store import ShardDown, Store, refused

MOST_ROWS = 100_000
TIME_S = 15
MEMORY_BYTES = 1 << 30
ANSWER_BYTES = 64 << 20
_LONGEST = 20_000
_BLOCK_BYTES = 1 << 20
_TIMEOUT_EXCEEDED, _MEMORY_LIMIT_EXCEEDED = 159, 241

PUBLIC = frozenset(table.name for table in TABLES.values() if table.is_public)
_TABLE_FUNCTIONS = frozenset({"numbers"})
# Nodes that show all that is in them. APPLY is none: what it calls is not in the tree.
_KINDS = frozenset(
    {
        "ArrayJoin", "Asterisk", "ColumnsExceptTransformer", "ColumnsListMatcher",
        "ColumnsRegexpMatcher", "ColumnsReplaceTransformer", "ColumnsTransformerList",
        "ExpressionList", "Function", "Identifier", "InterpolateElement", "Literal",
        "OrderByElement", "QualifiedAsterisk", "QualifiedColumnsListMatcher",
        "QualifiedColumnsRegexpMatcher", "SampleRatio", "SelectIntersectExceptQuery", "SelectQuery",
        "SelectWithUnionQuery", "Subquery", "TableExpression", "TableIdentifier", "TableJoin",
        "TablesInSelectQuery", "TablesInSelectQueryElement", "WindowDefinition",
        "WindowListElement", "WithElement",
    }
)  # fmt: skip
_CALLED = {"ColumnsApplyTransformer": "APPLY", "Set": "SETTINGS", "SetQuery": "SETTINGS"}
# Strings and names as the engine itself writes them: no comments, one kind of quotes for each.
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|`((?:[^`\\]|\\.)*)`")
_TENANT = re.compile(r"[A-Za-z0-9_-]{1,100}")
_IN = re.compile(r"(?:global)?(?:not)?(?:null)?in(?:ignoreset)?", re.IGNORECASE)
_NODE = re.compile(r"^( *)(\w+)(?: (.*?))?(?: \(alias ([^)]*)\))?(?: \(children \d+\))?$")
_WITH = re.compile(
    r"(?:\bwith\b|,)\s*(?:recursive\s+)?([A-Za-z_]\w*)\s+as\s*(?:materialized\s*)?\(",
    re.IGNORECASE,
)
_LEFT_OUT = {
    "FINAL": "rows that a newer one replaces are not shown anyway",
    "PREWHERE": "write WHERE",
}
_LEFT_OUT_WORD = re.compile(rf"(?<! AS) ({'|'.join(_LEFT_OUT)})\b")


@dataclass(frozen=True)
class Found:
    """`is_cut`: there were more rows than are handed out. `is_partial`: a shard did not answer."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    is_cut: bool
    is_partial: bool = False


def query(store: Store, tenant: str, sql: str, limit: int = MOST_ROWS) -> Found:
    """UsageError: it is not allowed, or the engine cannot do it, and why."""
    text = _one_statement(store, sql)
    tables = check(store, text)
    limit = min(limit, MOST_ROWS)
    settings = _settings(tenant)
    if not store.is_distributed:
        text = of_tenant(store.place.database, text, tables, tenant)
        return _run(store, text, limit, {"limit": limit + 1, **settings})
    # No shard must leave out rows that others are added to: the answer alone is cut, in blocks.
    cut = {"max_result_rows": limit + 1, "result_overflow_mode": "break"}
    settings = {
        "distributed_product_mode": "global", "skip_unavailable_shards": 0, **cut,
        **_asked_last(store), **settings,
    }  # fmt: skip
    try:
        return _run(store, text, limit, settings)
    except ShardDown:
        settings["skip_unavailable_shards"] = 1
        found = _run(store, text, limit, settings)
        return replace(found, is_partial=True)


def _run(store: Store, text: str, limit: int, settings: Mapping[str, object]) -> Found:
    client = store.new_client()
    try:
        for name, value in settings.items():
            client.set_client_setting(name, value)
        answer = json.loads(_answer(client, text))
    except PilotlightError:
        raise
    except Exception as error:
        raise _failure(error) from None
    finally:
        client.close()
    rows = [tuple(row) for row in answer["data"]]
    columns = tuple(str(column["name"]) for column in answer["meta"])
    return Found(columns, rows[:limit], len(rows) > limit)


def _answer(client: Any, text: str) -> bytes:
    """As JSON by the engine. A server's answer has no other bound than how much of it is read."""
    found = bytearray()
    with client.raw_stream(text, fmt="JSONCompact") as stream:
        while block := stream.read(_BLOCK_BYTES):
            found += block
            if len(found) > ANSWER_BYTES:
                raise UsageError(
                    f"the answer has more than {ANSWER_BYTES >> 20} MB: "
                    "ask for fewer rows or columns"
                )
    return bytes(found)


def _failure(error: Exception) -> PilotlightError:
    """The fault of the one who asks, unless the store could not be asked."""
    code, reason = getattr(error, "code", None), refused(error)
    if code is None or isinstance(reason, ShardDown):
        return reason
    said = str(reason).replace("the store refused", "the query failed", 1)
    said = without_own_rows(said)
    if code in (_TIMEOUT_EXCEEDED, _MEMORY_LIMIT_EXCEEDED):
        said += f"; {TIME_S} s and {MEMORY_BYTES >> 30} GB is all it may: ask for less"
    return UsageError(said)


def _asked_last(store: Store) -> dict[str, object]:
    """Of shards a tenant's own rows cannot be named, or all of them would be sent here: instead
    nothing that it asks is moved before the condition that they are its own. What an engine does
    not know it does not do."""
    known = store.select(
        "SELECT name FROM system.settings WHERE name IN {names:Array(String)}",
        {"names": list(ASKED_LAST)},
    )
    return {str(name): 0 for (name,) in known}


def check(store: Store, sql: str) -> frozenset[str]:
    """Asks the engine's own parser what the query reads and calls; the tables that it reads."""
    with _understood():
        tree = store.syntax_tree(sql)
    if not tree or not tree[0].startswith("SelectWithUnionQuery"):
        raise UsageError("only SELECT is allowed here")
    local = {name.lower() for name in _WITH.findall(sql)}
    bare = _QUOTED.sub("''", sql)
    if left_out := _LEFT_OUT_WORD.search(bare):
        raise UsageError(f"leave {left_out[1]} out: {_LEFT_OUT[left_out[1]]}")
    if hidden := PUBLIC.intersection(name.lower() for name in _WITH.findall(bare)):
        raise UsageError(f"WITH {min(hidden)!r:.60}: that is the name of a table")
    functions = functions_of(store)
    read: set[str] = set()
    above: list[_Node] = []
    for line in tree:
        match = _NODE.match(line)
        if match is None or match[2] not in _KINDS:
            kind = match[2] if match else line.strip()
            raise UsageError(f"{_CALLED.get(kind, kind)!r:.40} is not allowed here")
        node = _Node(len(match[1]), match[2], (match[3] or "").strip().split(" ")[0])
        while above and above[-1].depth >= node.depth:
            above.pop()
        if above:
            above[-1].children += 1
        if node.kind == "TableIdentifier":
            _check_table(store, node.value, local)
            read.add(node.value)
        else:
            _check_node(node, above, functions)
        above.append(node)
    return PUBLIC & read


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
    elif node.kind == "Identifier" and parent.kind == "SelectWithUnionQuery":
        raise UsageError("leave FORMAT out; --json gives JSON")
    elif node.kind == "Identifier" and node.value.lower() in WITHOUT_BRACKETS:
        raise UsageError(f"the function {node.value!r:.60} is not allowed")
    elif node.kind == "Identifier" and len(above) > 1 and parent.children == 2:
        # `x IN name` reads a table without naming it as one.
        if parent.kind == "ExpressionList" and _IN.fullmatch(above[-2].value):
            raise UsageError(f"IN {node.value!r:.60}: write IN (SELECT ...)")
    elif node.kind == "Literal" and parent.kind == "SelectWithUnionQuery":
        raise UsageError("INTO OUTFILE is not allowed")


def _settings(tenant: str) -> dict[str, object]:
    """Read-only comes last: after it nothing can be set, and no clause of the query can either."""
    if not _TENANT.fullmatch(tenant):
        raise StoreError(f"tenant {tenant!r:.60}: letters, digits, - and _ only")
    condition = f"tenant = \\'{tenant}\\'"
    filters = ", ".join(f"'{table}': '{condition}'" for table in TABLES)
    return {
        # Rows that a newer one replaces are not to be seen.
        "final": 1,
        "output_format_json_quote_64bit_integers": 0,
        "max_execution_time": TIME_S,
        "max_memory_usage": MEMORY_BYTES,
        "max_result_bytes": ANSWER_BYTES,
        "max_threads": 2,
        "max_ast_depth": 200,
        "max_ast_elements": 5000,
        "max_subquery_depth": 20,
        "allow_ddl": 0,
        "allow_introspection_functions": 0,
        "additional_table_filters": f"{{{filters}}}",
        "readonly": 1,
    }


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """UsageError: what the engine's parser has against a query."""
    try:
        yield
    except StoreError as error:
        if getattr(error.__cause__, "code", None) is None:
            raise
        raise UsageError(f"not a query: {error}") from None


def _one_statement(store: Store, sql: str) -> str:
    """As the engine writes it itself, so that what is checked is what is run."""
    if not sql.strip():
        raise UsageError("an empty query")
    if len(sql) > _LONGEST:
        raise UsageError(f"a query has at most {_LONGEST} characters")
    with _understood():
        # As hex: a text that is not UTF-8 would come back as something else.
        found = store.select("SELECT hex(formatQuerySingleLine({sql:String}))", {"sql": sql})
    text = bytes.fromhex(str(found[0][0])).decode(errors="replace")
    # A name with a line break would write lines of its own into the tree that is checked.
    if any("\\" in name for name in _QUOTED.findall(text)):
        raise UsageError("names have no quotes, backslashes or line breaks here")
    return text
