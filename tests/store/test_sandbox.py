"""SQL of strangers on the real engine."""

from __future__ import annotations

import time

import pytest

from pilotlight.errors import StoreError, UsageError
from pilotlight.store.sandbox import query
from pilotlight.store.store import Store

ALLOWED = (
    "SELECT count() FROM steps",
    "WITH slow AS (SELECT rank, max(duration_ns) AS d FROM steps GROUP BY rank) SELECT * FROM slow",
    "SELECT s.rank FROM steps AS s JOIN ranks AS r ON r.rank = s.rank LIMIT 1",
    "SELECT rank FROM steps WHERE rank IN (SELECT rank FROM ranks) LIMIT 1;",
    "SELECT * FROM numbers(3)",
    "SELECT quantileTimingIf(0.5)(duration_ns, rank > 0), countDistinct(rank) FROM steps",
    "SELECT CASE rank WHEN 0 THEN 'a' ELSE 'b' END, rank BETWEEN 0 AND 9 FROM steps LIMIT 1",
    "SELECT arrayMap(x -> x + 1, [1]), toIntervalDay(1), substr('ab', 1), tuple(1, 2).1",
    "SELECT row_number() OVER (PARTITION BY rank ORDER BY step) FROM steps LIMIT 1",
    "SELECT formatReadableTimeDelta(1), toStartOfHour(now()) - INTERVAL 1 DAY, '1'::UInt8",
    "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 3) "
    "SELECT i, count() FROM n, steps GROUP BY i",
    "SELECT steps.rank FROM steps LIMIT 1 UNION ALL SELECT max(rank) FROM steps",
    "SELECT job, 'jobs FINAL' AS FINAL, 1 AS PREWHERE FROM jobs",
    "SELECT (SELECT max(r.rank) FROM ranks AS r WHERE r.rank = s.rank) FROM steps AS s LIMIT 1",
)
# One word of it fails on rows of others: of `other` all ranks are 0, of `default` they are not.
PRYING = tuple(
    sql.replace("PRY", "intDiv(1, s.rank = 0)")
    for sql in (
        "SELECT count() FROM steps AS s WHERE PRY = 1",
        "SELECT count() FROM ranks AS s WHERE PRY = 1",
        "SELECT count() FROM steps AS s WHERE tenant = 'other' OR PRY = 1",
        "SELECT count() FROM (SELECT PRY AS x FROM steps AS s) WHERE x = 1",
        "SELECT count() FROM (SELECT rank FROM steps GROUP BY rank) AS s WHERE PRY = 1",
        "SELECT rank FROM steps AS s GROUP BY rank HAVING PRY = 1",
        "SELECT count() FROM steps AS s JOIN (SELECT 1 AS one) AS b ON b.one = PRY",
        "SELECT count() FROM ranks AS a JOIN steps AS s ON a.job = s.job AND PRY = 1",
        "SELECT count() FROM steps AS s ARRAY JOIN [1, 2] AS k WHERE PRY = k",
        "SELECT (SELECT count() FROM steps AS s WHERE PRY = 1)",
        "SELECT 1 UNION ALL SELECT count() FROM steps AS s WHERE PRY = 1",
        "WITH t AS (SELECT * FROM steps AS s WHERE PRY = 1) SELECT count() FROM t",
        "SELECT count() FROM jobs WHERE job IN (SELECT job FROM steps AS s WHERE PRY = 1)",
        "SELECT step FROM steps AS s WHERE PRY = 1 ORDER BY step LIMIT 1 BY rank",
    )
)
FORBIDDEN = (
    "DROP TABLE steps",
    "INSERT INTO steps SELECT * FROM steps",
    "ALTER TABLE steps DELETE WHERE 1",
    "SELECT 1; DROP TABLE steps",
    "SELECT * FROM system.tables",
    "SELECT (SELECT count() FROM `system`.`parts`)",
    "SELECT 1 FROM steps WHERE rank IN system.one",
    "SELECT 1 FROM steps WHERE rank IN (system.one)",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM default.steps",
    "SELECT * FROM audit",
    "WITH audit AS (SELECT 1) SELECT * FROM audit",
    "SELECT ', audit as (' FROM audit",
    "/* , audit as ( */ SELECT * FROM audit",
    "SELECT * FROM schema_version",
    "SELECT file('/etc/passwd')",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1/', 'LineAsString')",
    "SELECT * FROM merge('default', '.*')",
    "SELECT * FROM remote('127.0.0.1', 'system.one')",
    "SELECT * FROM executable('x', 'TSV', 'a String')",
    "SELECT dictGet('a', 'b', 1)",
    "SELECT sleep(3)",
    "SELECT hostName()",
    "SELECT fullHostName()",
    "SELECT `fullHostName`()",
    "SELECT hasColumnInTable('127.0.0.1', 'default', '', 'system', 'one', 'dummy')",
    "SELECT session_user",
    "SELECT getMergeTreeSetting('index_granularity')",
    "SELECT showCertificate()",
    "SELECT current_query_id()",
    "SELECT arrayMap(x -> file('/etc/passwd'), [1])",
    "SELECT count() FROM steps WHERE logTrace('a')",
    "SELECT sumIf(1, sleepEachRow(1)) FROM steps",
    "SELECT aggThrowIf(1, 1) FROM steps",
    "SELECT * FROM (SELECT * FROM viewExplain('EXPLAIN AST', '', (SELECT 1)))",
    "SELECT * FROM numbers((SELECT count() FROM system.tables))",
    "SELECT * FROM steps, file('/etc/passwd', LineAsString)",
    "SELECT 1 UNION ALL (SELECT count() FROM system.one)",
    "SELECT 1 FROM steps PREWHERE rank GLOBAL IN (SELECT 1 FROM system.one)",
    "SELECT count() FROM steps PREWHERE rank = 0",
    "SELECT count() FROM jobs FINAL",
    "WITH steps AS (SELECT 1) SELECT * FROM steps",
    "SELECT * FROM (WITH steps AS (SELECT * FROM steps) SELECT * FROM steps)",
    "SELECT 1 INTO/**/OUTFILE '/tmp/never'",
    "SELECT 1 format/**/JSON",
    "WITH (SELECT count() FROM audit) AS n SELECT n",
    "SELECT 1 FROM steps WHERE globalNotNullIn(rank, audit)",
    "SELECT 1 FROM steps WHERE inIgnoreSet(rank, audit)",
    "SELECT * APPLY(x -> hostName()) FROM numbers(1)",
    "SELECT * APPLY(x -> (SELECT count() FROM audit)) FROM numbers(1)",
    "SELECT COLUMNS(number) APPLY(x -> (SELECT any(name) FROM system.tables)) FROM numbers(1)",
    'SELECT ((1, 3) AS "x\\n      Literal y") IN schema_version',
    "SELECT ((1, 3) AS `x\n      Literal y`) IN schema_version",
    "SELECT {x:String}",
    "SELECT sum(number) OVER (ROWS (SELECT count() FROM audit) PRECEDING) FROM numbers(3)",
    "SELECT joinGet('steps', 'rank', 1)",
    "SELECT * FROM steps SETTINGS additional_table_filters = {}",
    "SELECT * FROM (SELECT 1 SETTINGS max_memory_usage = 0)",
    "SET readonly = 0",
    "SYSTEM SHUTDOWN",
    "KILL QUERY WHERE 1",
    "ATTACH TABLE x FROM '/etc'",
    "CREATE TEMPORARY TABLE x (a UInt8)",
    "USE system",
    "DESCRIBE TABLE audit",
    "FROM audit SELECT *",
    "SELECT getSetting('max_threads')",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT 1 INTO OUTFILE '/tmp/never'",
    "SELECT 1 FORMAT JSON",
    "EXPLAIN SELECT 1",
    "SHOW TABLES",
    "",
)


@pytest.mark.parametrize("sql", ALLOWED)
def test_questions_about_the_documented_tables_are_answered(filled: Store, sql: str) -> None:
    assert query(filled, "default", sql).rows


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_everything_else_is_refused(filled: Store, sql: str) -> None:
    with pytest.raises(UsageError):
        query(filled, "default", sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT tenant FROM steps",
        "SELECT DISTINCT tenant FROM steps WHERE tenant = 'default' OR 1",
        "SELECT DISTINCT s.tenant FROM steps AS s",
        "SELECT DISTINCT tenant FROM (SELECT * FROM steps UNION ALL SELECT * FROM `steps`)",
        "WITH x AS (SELECT tenant FROM steps) SELECT DISTINCT tenant FROM x",
    ],
)
def test_a_tenant_reads_its_own_rows_alone(filled: Store, sql: str) -> None:
    assert query(filled, "other", sql).rows == [("other",)]


@pytest.mark.parametrize("sql", PRYING)
def test_nothing_that_a_tenant_asks_is_reckoned_of_rows_of_others(filled: Store, sql: str) -> None:
    for table in ("steps", "ranks"):
        # Else rows of tenants do not lie in one block, and the engine does not read the others'.
        filled.command(f"OPTIMIZE TABLE {table} FINAL")
    assert query(filled, "other", sql).rows
    with pytest.raises(UsageError, match="Division by zero"):
        query(filled, "default", sql)


def test_what_a_query_fails_of_is_told_in_its_own_words(filled: Store) -> None:
    with pytest.raises(UsageError, match="unknown") as raised:
        query(filled, "other", "SELECT unknown FROM steps")
    assert "PREWHERE" not in str(raised.value) and "SELECT unknown FROM steps" in str(raised.value)


def test_a_tenant_whose_name_is_sql_gets_nothing(filled: Store) -> None:
    with pytest.raises(StoreError, match="letters, digits"):
        query(filled, "x' OR 1=1 OR tenant='", "SELECT count() FROM steps")


def test_rows_and_memory_are_bounded(filled: Store) -> None:
    found = query(filled, "default", "SELECT number FROM numbers(1000000)", 10)
    assert len(found.rows) == 10 and found.is_cut
    with pytest.raises(UsageError, match=r"memory.*ask for less"):
        query(filled, "default", "SELECT groupArray(number) FROM numbers(300000000)")


def test_an_answer_is_bounded_in_bytes_too(filled: Store) -> None:
    with pytest.raises(UsageError, match="more than 64 MB"):
        query(filled, "default", "SELECT repeat('x', 1000000) FROM numbers(100)")


def test_the_engine_says_what_is_wrong_with_a_question(filled: Store) -> None:
    with pytest.raises(UsageError, match=r"the query failed: .*durations_ns"):
        query(filled, "default", "SELECT durations_ns FROM steps")


def test_values_that_json_has_no_word_for_are_answered(filled: Store) -> None:
    sql = (
        "SELECT 18446744073709551615, '\\xff', toUUID('00000000-0000-0000-0000-000000000000'), nan"
    )
    ((largest, broken, uuid, nan),) = query(filled, "default", sql).rows
    assert largest == 2**64 - 1 and isinstance(broken, str)
    assert uuid == "00000000-0000-0000-0000-000000000000" and nan is None


def test_rows_that_a_newer_one_replaces_are_not_seen(filled: Store) -> None:
    for number in (1, 2):
        filled.insert_rows(
            "doctor",
            [
                {
                    "tenant": "default", "agent": "a", "node": "n", "what": "ptrace",
                    "state": str(number), "detail": "", "fix": "", "seen_ns": time.time_ns(),
                }
            ],
        )  # fmt: skip
    assert query(filled, "default", "SELECT state FROM doctor WHERE agent = 'a'").rows == [("2",)]


def test_a_question_leaves_the_store_writable(filled: Store) -> None:
    query(filled, "default", "SELECT 1")
    filled.command(
        "INSERT INTO audit (tenant, time_ns, who, action, what) VALUES ('t',1,'w','a','x')"
    )
