"""Which functions the SQL of strangers may call: those that only compute, by the engine's word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pilotlight.store.store import Store

# What reads files, other tables, other machines or the engine's own state, or wastes time.
_FORBIDDEN = re.compile(
    r"^(?:file|s3|url|hdfs|remote|remotesecure|cluster|clusterallreplicas|mysql|postgresql|mongodb|"
    r"redis|sqlite|odbc|jdbc|executable|dictionary|dict.*|region.*|joinget.*|merge|input|"
    r"generate.*|sleep.*|getsetting.*|getmacro|getserver.*|getclient.*|getmergetree.*|getos.*|"
    r"getmaxtable.*|hostname|fullhostname|fqdn|uptime|current_?user|user|session_?user|auth.*user|"
    r"serveruuid|current_?query_?id|initial_?query.*|query_?id|currentprofiles|"
    r"currentroles|currenthandler|currentrequest.*|current_?schemas|enabled.*|default(?:roles|profiles)|"
    r"filesystem.*|catboost.*|evalml.*|naivebayesclassifier.*|ai.*|llm.*|address.*|symbol.*|demangle|"
    r"trace.*|logtrace|tid|loadmodel.*|hasthreadfuzzer|hascolumnintable|connection_?id|tcpport|"
    r"buildid|revision|displayname|shard_?num|shard_?count|throwif|in?disk.*|showcertificate|"
    r"zookeeper.*|transaction.*|pg.*|globalvariable|version|chdb|aggthrow.*|blockserializedsize|"
    r"identity_nondet|view|viewifpermitted|python.*|materializedcte|.*mergetree.*|loop|values|null|"
    r"formatrow.*|formatquery.*|structureto.*|__.*)$",
    re.IGNORECASE,
)
_COMPUTING = frozenset(
    {
        "Aggregate Functions", "Arithmetic", "Arrays", "Bit", "Bitmap", "Comparison", "Conditional",
        "Dates and Times", "Distance", "Encoding", "Financial", "Geo", "Geo Polygon", "Hash",
        "IP Address", "JSON", "Logical", "Map", "Mathematical", "Null", "NumericIndexedVector",
        "QBit", "Random Number", "Rounding", "String", "String Replacement", "String Search",
        "String Splitting", "Time Series", "Time Window", "Tuple", "Type Conversion", "URL", "UUID",
    }
)  # fmt: skip
# Of other kinds, or of the parser's own.
_ALSO = frozenset(
    {
        "bar", "bytesize", "casewithexpression", "countdigits", "exists", "finalizeaggregation",
        "formatreadabledecimalsize", "formatreadablequantity", "formatreadablesize",
        "formatreadabletimedelta", "grouping", "identity", "ignore", "initializeaggregation",
        "lambda", "materialize", "neighbor", "parsereadablesize", "parsetimedelta",
        "rownumberinallblocks", "rownumberinblock", "runningaccumulate", "runningdifference",
        "totypename", "transform", "untuple", "visiblewidth",
    }
)  # fmt: skip
WITHOUT_BRACKETS = frozenset(
    {
        "database", "schema", "currentdatabase", "current_database", "currenthandler",
        "currentrequesturl", "currentuser", "current_user", "session_user", "user",
    }
)  # fmt: skip
"""Those that a bare name calls, and that are not allowed."""
_FEW = 500


@dataclass(frozen=True)
class Functions:
    """`computing` is empty where the engine does not tell the kinds of its functions."""

    computing: frozenset[str]
    aggregates: frozenset[str]
    combinators: tuple[str, ...]

    def allows(self, name: str) -> bool:
        known = name.lower()
        if _FORBIDDEN.match(known):
            return False
        return not self.computing or known in _ALSO or self._computes(known)

    def _computes(self, name: str) -> bool:
        if name in self.computing or name in self.aggregates:
            return True
        # sumIf, quantileMerge, countIfOrNull: an aggregate and what is done with it.
        return any(
            name.endswith(ending) and self._aggregates(name[: -len(ending)])
            for ending in self.combinators
        )

    def _aggregates(self, name: str) -> bool:
        return name in self.aggregates or any(
            name.endswith(ending) and self._aggregates(name[: -len(ending)])
            for ending in self.combinators
        )


_asked: WeakKeyDictionary[Store, Functions] = WeakKeyDictionary()


def functions_of(store: Store) -> Functions:
    """Those of the engine that the store runs on."""
    known = _asked.get(store)
    if known is None:
        known = _asked[store] = _ask(store)
    return known


def _ask(store: Store) -> Functions:
    """An older engine tells no kinds."""
    found = store.select(
        "SELECT lower(f.name), if(f.alias_to = '', f.categories, t.categories), f.is_aggregate "
        "FROM system.functions AS f LEFT JOIN system.functions AS t ON t.name = f.alias_to "
        "WHERE f.origin = 'System'"
    )
    computing = frozenset(str(name) for name, kind, _ in found if kind in _COMPUTING)
    endings = store.select("SELECT lower(name) FROM system.aggregate_function_combinators")
    return Functions(
        computing if len(computing) >= _FEW else frozenset(),
        frozenset(str(name) for name, _, is_aggregate in found if is_aggregate),
        tuple(str(name) for (name,) in endings),
    )
