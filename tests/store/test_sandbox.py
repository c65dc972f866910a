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
