"""A pipeline whose tables Debezium's JDBC sink fills: diagnosed, examined and compared, each wrong row by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.report import Verdict
from airflow_cdc.flows.doctor import doctor_pipeline
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.nightly import nightly
from airflow_cdc.spark_apps.repair import repair
from stack.process import wait_until
from tests.diagnosing import diagnose
from tests.integration.jdbc.faults import FAULTS, Fault
from tests.integration.jdbc.fed import SECONDS, Fed, run_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

# Nine numeric columns beside the year: Debezium's reader counts a year as numeric, MySQL 8.0.15 writes no sign for one, so
# with eight of them an event of the table ends a byte before its reader and the source's task fails
WIDE = (
    "CREATE TABLE wide (id bigint unsigned PRIMARY KEY, ti tinyint, ti1 tinyint(1), si smallint, big bigint unsigned,"
    " money decimal(12,2), wide decimal(38,10), f float, d double, c char(5), v varchar(40), note longtext, bin varbinary(8), b blob, day date,"
    " clock time(6), at datetime(6), seen timestamp(6) NULL, y year, e enum('x','ÿ'), s set('p','q'), doc json, flag bit(1))"
)
FULL = (
    "INSERT INTO wide VALUES (1,-128,1,-32768,18446744073709551614,-0.01,12345678901234567890123456.0123456789,0.1,-1.5e300,'ab',"
    "'ü|1',REPEAT('long',50),X'00ff',X'0102','2026-01-02','23:59:59.999999','2026-01-02 03:04:05.000006',"
    "'2026-10-25 00:30:00.5',2026,'ÿ','p,q','{\"a\": [1, 2.50, \"ü\"]}',b'1')"
)
ROWS = (
    FULL,
    "INSERT INTO wide (id) VALUES (18446744073709551615)",
    "INSERT INTO wide (id, v, doc) VALUES (3, '', 'null'), (4, 'four', '[]'), (5, '😀', '{}')",
)
WORDS = "CREATE TABLE words (lang varchar(20), n int, t text, clock time(6), PRIMARY KEY (lang, n))"


@pytest.fixture
def copied(fed: Fed) -> Fed:
    """Two tables that have arrived in the target."""
    fed.create(
        WIDE,
        WORDS,
        *ROWS,
        "INSERT INTO words (lang, n, t) VALUES ('de', 1, 'eins'), ('de', 2, 'zwei'), ('en', 1, 'one')",
    )
    fed.follow()
    fed.feed()
    fed.wait_target("SELECT count(*) FROM wide", [(5,)])
    fed.wait_target("SELECT count(*) FROM words", [(3,)])
    return fed


def compared(run: Run, spark: SparkSession) -> dict[str, Any]:
    """The tables' reports of a dry repair, by name."""
    register_functions(spark)
    dry = replace(run, options=RunOptions(dry_run=True))
    repair(dry, spark, {"reach_seconds": SECONDS})
    report = ReportStore(run.report_dir).report(run.pipeline.name, run.run_id)
    assert report is not None
    return {table.table.partition(".")[2]: table for table in report.tables}


def counts(table: Any) -> tuple[int, int, int]:
    return table.missing, table.ghosts, table.different


def test_every_supported_type_is_equal_in_source_and_copy(copied: Fed, spark: SparkSession, tmp_path: Path) -> None:
    tables = compared(run_of(copied, tmp_path, ("wide", "words")), spark)
    wide, words = tables["wide"], tables["words"]
    assert (wide.verdict, words.verdict) == (Verdict.MATCH, Verdict.MATCH), (wide.samples, words.samples)
    assert (wide.source_rows, wide.sink_rows, words.sink_rows) == (5, 5, 3)
    assert wide.columns_not_compared == ()


SPOILT = (
    ("wide", "DELETE FROM wide WHERE id = 3", (1, 0, 0)),
    ("wide", "INSERT INTO wide (id, v) VALUES (99, 'ghost')", (0, 1, 0)),
    ("words", "INSERT INTO words (lang, n) VALUES ('zz', 9)", (0, 1, 0)),
    ("words", "UPDATE words SET t = 'Zwei' WHERE n = 2", (0, 0, 1)),
)


def test_missing_rows_ghosts_and_other_rows_are_named(copied: Fed, spark: SparkSession, tmp_path: Path) -> None:
    copied.target(*(statement for _, statement, _ in SPOILT))
    tables = compared(run_of(copied, tmp_path, ("wide", "words")), spark)
    assert (counts(tables["wide"]), counts(tables["words"])) == ((1, 1, 0), (0, 1, 1))
    assert {table.verdict for table in tables.values()} == {Verdict.MISMATCH}
    assert {"missing: 3", "ghosts: 99"} <= set(tables["wide"].samples)
    assert {"ghosts: 2|zz|9", "different: 2|de|2"} <= set(tables["words"].samples)


COLUMNS = (
    ("ti", "100"),
    ("ti1", "0"),
    ("si", "7"),
    ("big", "1"),
    ("money", "0.01"),
    ("wide", "1.0000000001"),
    ("f", "0.2"),
    ("d", "1.5"),
    ("c", "'abc'"),
    ("v", "'u|1'"),
    ("note", "'short'"),
    ("bin", "'\\x00fe'"),
    ("b", "'\\x0103'"),
    ("day", "'2026-01-03'"),
    ("clock", "'23:59:59.999998'"),
    ("at", "'2026-01-02 03:04:05.000007'"),
    ("seen", "'2026-10-25 01:30:00.5+00'"),
    ("y", "2027"),
    ("e", "'x'"),
    ("s", "'p'"),
    ("doc", '\'{"a": [1, 2.51, "ü"]}\''),
    ("flag", "false"),
)


@pytest.mark.slow
def test_no_column_may_differ_unseen(copied: Fed, spark: SparkSession, tmp_path: Path) -> None:
    """One row per column, which differs from its source in that column alone."""
    names = [name for name, _ in COLUMNS]
    copied.execute(
        *(
            f"INSERT INTO wide (id, {', '.join(names)}) SELECT {1000 + n}, {', '.join(names)} FROM wide WHERE id = 1"
            for n in range(len(COLUMNS))
        )
    )
    copied.wait_target("SELECT count(*) FROM wide WHERE id BETWEEN 1000 AND 2000", [(len(COLUMNS),)])
    copied.target(
        *(f"UPDATE wide SET {name} = {value} WHERE id = {1000 + n}" for n, (name, value) in enumerate(COLUMNS))
    )
    wide = compared(run_of(copied, tmp_path, ("wide",)), spark)["wide"]
    assert counts(wide) == (0, 0, len(COLUMNS)), wide.samples


@pytest.mark.slow
def test_rows_that_change_meanwhile_are_not_called_wrong(copied: Fed, spark: SparkSession, tmp_path: Path) -> None:
    from tests.integration.recovering import meanwhile

    def write(stop: Any) -> None:
        connection = copied.servers.mysql.connect(database=copied.name, autocommit=True)
        with connection, connection.cursor() as cursor:
            n = 0
            while not stop.wait(0.05):
                n += 1
                cursor.execute("UPDATE words SET t = %s WHERE lang = 'de' AND n = %s", (f"t{n}", n % 3))
                cursor.execute("INSERT INTO words (lang, n, t) VALUES ('live', %s, 'x')", (n,))
                cursor.execute("DELETE FROM words WHERE lang = 'live' AND n = %s", (n - 5,))

    with meanwhile(write):
        words = compared(run_of(copied, tmp_path, ("words",)), spark)["words"]
    assert (counts(words), words.verdict is Verdict.MISMATCH) == ((0, 0, 0), False), words


@pytest.mark.slow
def test_a_column_that_the_copy_cannot_hold_is_named_and_not_called_equal(
    fed: Fed, spark: SparkSession, tmp_path: Path
) -> None:
    fed.create("CREATE TABLE t (id int PRIMARY KEY, d double, v varchar(9))", "INSERT INTO t VALUES (1, 0.1, 'a')")
    fed.target("CREATE TABLE t (id int PRIMARY KEY, d real)")
    fed.servers.postgres.execute(f"GRANT SELECT ON {fed.name}.t TO cdc")
    fed.follow()
    fed.feed({"schema.evolution": "none", "field.exclude.list": f"{fed.name}.{fed.name}.t:v"})
    fed.wait_target("SELECT id FROM t", [(1,)])
    run = run_of(fed, tmp_path, ("t",))
    table = compared(run, spark)["t"]
    assert table.verdict is Verdict.MATCH
    assert {(one.column, one.reason) for one in table.columns_not_compared} == {
        ("d", "double is real in the sink: numbers are rounded to 32 bits"),
        ("v", "the sink's table has no such column"),
    }
    warned = {check.found for check in doctor_pipeline(run) if check.name == "values" and check.state == "warn"}
    assert any("t.d is not compared" in text for text in warned), warned


@pytest.mark.slow
def test_a_night_compares_and_repairs_nothing(copied: Fed, spark: SparkSession, tmp_path: Path) -> None:
    register_functions(spark)
    copied.target("INSERT INTO words (lang, n) VALUES ('zz', 9)")
    found = nightly(run_of(copied, tmp_path, ("words",)), spark, {"reach_seconds": SECONDS})
    assert (found["verdict"], found["plans"], found["needs_approval"]) == ("MISMATCH", {}, False)


# ---- the sink connector ----------------------------------------------------------------------------


def named(run: Run) -> dict[str, Mapping[str, str]]:
    """Every problem that holds, with its evidence."""
    found = diagnose(observe(run, watch=0))
    return {found.code: found.evidence, **{other.code: other.evidence for other in found.others}}


def wait_named(run: Run, code: str) -> Mapping[str, str]:
    """Wait until a diagnosis names the problem; its evidence."""
    return wait_until(lambda: named(run).get(code), timeout=SECONDS, what=f"{run.pipeline.name} to be {code}")


def test_a_healthy_pipeline_is_healthy_and_examined(copied: Fed, tmp_path: Path) -> None:
    run = run_of(copied, tmp_path, ("wide", "words"))
    wait_named(run, "HEALTHY")
    checks = {check.name: check for check in doctor_pipeline(run)}
    assert {check.state for check in checks.values()} <= {"ok", "warn"}, checks
    assert checks["sink"].found == "2 of 2 tables exist"
    assert checks["corrections"].state == "ok"
    assert checks["consumer group"].found.startswith(f"connect-{copied.sink} has offsets of 2")


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_of_the_sink_connector_is_named(copied: Fed, tmp_path: Path, fault: Fault) -> None:
    run = run_of(copied, tmp_path, ("wide", "words"), **fault.policy)
    fault.make(copied)
    evidence = wait_named(run, fault.code)
    assert fault.says in " ".join([*evidence, *evidence.values()]), evidence


@pytest.mark.slow
def test_doctor_says_before_a_recovery_what_cannot_be_put_right(copied: Fed, tmp_path: Path) -> None:
    copied.feed({"delete.enabled": "false", "insert.mode": "insert"})
    checks = {check.name: check for check in doctor_pipeline(run_of(copied, tmp_path, ("wide", "words")))}
    settings = checks["sink connector's settings"]
    assert settings.state == "bad"
    assert {"delete.enabled", "insert.mode"} <= set(settings.found.split())
