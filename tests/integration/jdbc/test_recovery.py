"""A position that was lost under a JDBC sink: its copies are put right through the topics, on real servers (INV 23, 47).

The copies are compared at the end by each database's own client, row by row, with no code of the product's.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.errors import TransportError, VerificationError
from airflow_cdc.flows import reset_offset
from airflow_cdc.flows.close import close, report
from airflow_cdc.flows.feeder import wait_filled
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.recovery import current
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.repair import repair
from airflow_cdc.spark_apps.snapshot.corrections import Correcting
from airflow_cdc.spark_apps.verify import verify
from tests.integration.jdbc import losing
from tests.integration.jdbc.fed import Fed, run_of
from tests.integration.jdbc.losing import TABLES, WORDS, feed, follow, plain, stream, wait_streamed
from tests.integration.recovering import meanwhile, resume, up_to_watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

# the copy's key is numeric(20,0)
ORDERS = "CREATE TABLE orders (id bigint unsigned PRIMARY KEY, v varchar(40), total decimal(12,2), at datetime(6), day date, doc json)"
ORDER = (
    "INSERT INTO orders SELECT {0}, CONCAT('ü|', {0}), {0} + 0.25, '2026-01-02 03:04:05.000006', '2026-01-02',"
    " JSON_OBJECT('n', {0})"
)


def rows(fed: Fed) -> tuple[list[Any], list[Any]]:
    """All rows of both tables, of source and copy, as text."""
    ours = [
        *fed.execute("SELECT 'o', id, v, total, CAST(at AS CHAR), CAST(day AS CHAR), doc->>'$.n' FROM orders"),
        *fed.execute("SELECT 'w', lang, n, t FROM words"),
    ]
    theirs = [
        *fed.target(
            "SELECT 'o', id, v, total, to_char(at, 'YYYY-MM-DD HH24:MI:SS.US'), day::text, doc->>'n' FROM orders"
        ),
        *fed.target("SELECT 'w', lang, n, t FROM words"),
    ]
    return sorted(map(plain, ours)), sorted(map(plain, theirs))


@pytest.fixture
def copied(fed: Fed) -> Fed:
    """Two tables and their copies."""
    follow(fed, ORDERS, WORDS, *(ORDER.format(n) for n in range(1, 61)))
    feed(fed)
    return fed


@pytest.fixture
def lost(copied: Fed) -> Fed:
    """Its position was purged, with rows inserted, changed and deleted in the gap."""
    return lose(copied)


def lose(fed: Fed) -> Fed:
    stream(fed)
    wait_streamed(fed)
    losing.lose(fed, *(ORDER.format(n) for n in range(101, 106)))
    return fed


def begun(run: Run, spark: SparkSession) -> Mapping[str, Any]:
    """The steps of cdc_recovery as far as its watermark; what was decided."""
    register_functions(spark)
    return up_to_watermark(run)


def ended(run: Run, spark: SparkSession) -> str:
    """The steps after the corrections; the verdict."""
    resume(run)
    compared = verify(run, spark)
    publish(run)
    close(run)
    report(run)
    return str(compared["verdict"])


def wait_equal(fed: Fed) -> None:
    losing.wait_equal(partial(rows, fed))


def writing(fed: Fed) -> AbstractContextManager[Any]:
    """Inserts, updates and deletes meanwhile."""

    def write(stop: Any) -> None:
        connection = fed.servers.mysql.connect(database=fed.name, autocommit=True)
        with connection, connection.cursor() as cursor:
            n = 1000
            while not stop.wait(0.1):
                n += 1
                cursor.execute(ORDER.format(n))
                cursor.execute("UPDATE orders SET v = %s WHERE id = %s", (f"live{n}", 30 + n % 9))
                cursor.execute("DELETE FROM orders WHERE id = %s", (n - 10,))

    return meanwhile(write)


@pytest.mark.parametrize("busy", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["busy", "quiet"])
def test_inv_47_copies_are_put_right_through_the_topics(
    lost: Fed, spark: SparkSession, tmp_path: Path, *, busy: bool
) -> None:
    run = run_of(lost, tmp_path, TABLES, approval="never", max_deletes="100%")
    with writing(lost) if busy else nullcontext():
        decision = begun(run, spark)
        sent = recover(run, spark)["corrections"]
        verdict = ended(run, spark)
    assert (decision["diagnosis"]["code"], verdict) == ("GTID_PURGED", "MATCH")
    assert (sent[f"{lost.name}.orders"]["deletes"], sent[f"{lost.name}.words"]["deletes"]) == (10, 3)
    if not busy:
        assert (sent[f"{lost.name}.orders"]["rows"], sent[f"{lost.name}.words"]["rows"]) == (10, 1)
    wait_equal(lost)


@pytest.mark.slow
def test_inv_47_killed_between_two_tables_it_compares_again_and_writes_only_what_still_differs(
    lost: Fed, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, each = run_of(lost, tmp_path, TABLES, approval="never", max_deletes="100%"), Correcting.table
    begun(run, spark)

    def killed(self: Correcting, table: Any) -> Any:
        if table.name == "words":
            raise KeyboardInterrupt
        return each(self, table)

    monkeypatch.setattr(Correcting, "table", killed)
    with pytest.raises(KeyboardInterrupt):
        recover(run, spark)
    with pytest.raises(VerificationError, match=f"{lost.name}.words"):
        reset_offset.reset_offset(run)
    monkeypatch.setattr(Correcting, "table", each)
    assert recover(run, spark)["corrections"] == {
        f"{lost.name}.orders": {"rows": 0, "deletes": 0},
        f"{lost.name}.words": {"rows": 1, "deletes": 3},
    }
    assert {one.deletes for one in current(run).corrections.values()} == {10, 3}
    assert ended(run, spark) == "MATCH"
    wait_equal(lost)


@pytest.mark.slow
def test_inv_23_a_row_of_a_copy_that_nothing_says_anything_of_is_refused_before_anything_is_sent(
    lost: Fed, spark: SparkSession, tmp_path: Path
) -> None:
    """Somebody else wrote it: the topic never had a record of it."""
    lost.target("INSERT INTO words VALUES ('zz', 9, 'by hand')")
    run = run_of(lost, tmp_path, TABLES, approval="never", max_deletes="100%")
    begun(run, spark)
    with pytest.raises(TransportError, match=r"2\|zz\|9"):
        recover(run, spark)
    assert f"{lost.name}.words" not in current(run).corrections


@pytest.mark.slow
def test_inv_23_ghosts_whose_records_a_topic_no_longer_has_are_deleted_by_their_keys(
    copied: Fed, spark: SparkSession, tmp_path: Path
) -> None:
    """The topics lost their beginning, as after retention.ms; nothing of the deleted orders is left in them."""
    forget(copied, tmp_path)
    run = run_of(lose(copied), tmp_path, TABLES, approval="never", max_deletes="100%")
    begun(run, spark)
    sent = recover(run, spark)["corrections"]
    assert sent == {
        f"{copied.name}.orders": {"rows": 10, "deletes": 10},
        f"{copied.name}.words": {"rows": 1, "deletes": 3},
    }
    assert ended(run, spark) == "MATCH"
    wait_equal(copied)


def forget(fed: Fed, folder: Path) -> None:
    """Remove all records of both topics, once the sink connector has consumed them."""
    from kafka import KafkaAdminClient, TopicPartition

    run = run_of(fed, folder, TABLES)
    ends = run.clients.transport.end_offsets([fed.topic(table) for table in TABLES])
    wait_filled(run, ends)
    with closing(KafkaAdminClient(bootstrap_servers=fed.servers.bootstrap)) as admin:
        admin.delete_records(
            {TopicPartition(topic, number): end for topic, parts in ends.items() for number, end in parts.items()}
        )


@pytest.mark.slow
def test_inv_23_a_delete_that_the_copy_did_not_get_is_sent_again(
    copied: Fed, spark: SparkSession, tmp_path: Path
) -> None:
    """The topic says that the row is deleted, and the copy has it."""
    copied.execute("DELETE FROM words WHERE n = 20")
    copied.wait_target("SELECT count(*) FROM words", [(19,)])
    lose(copied).target("INSERT INTO words VALUES ('de', 20, 'w20')")
    run = run_of(copied, tmp_path, TABLES, approval="never", max_deletes="100%")
    begun(run, spark)
    assert recover(run, spark)["corrections"][f"{copied.name}.words"] == {"rows": 1, "deletes": 4}
    assert ended(run, spark) == "MATCH"
    wait_equal(copied)


@pytest.mark.slow
def test_inv_47_a_repair_puts_copies_right_while_rows_change(copied: Fed, spark: SparkSession, tmp_path: Path) -> None:
    """Somebody changed the copies by hand; the connector rests for a moment, and the sink connector writes the rest."""
    stream(copied)
    wait_streamed(copied)
    copied.execute("DELETE FROM words WHERE n = 20")
    copied.wait_target("SELECT count(*) FROM words", [(19,)])
    copied.target(
        "INSERT INTO words VALUES ('de', 20, 'w20')",
        "DELETE FROM words WHERE n = 7",
        "UPDATE orders SET v = 'by hand' WHERE id = 5",
    )
    register_functions(spark)
    run = run_of(copied, tmp_path, TABLES, approval="never", max_deletes="100%")
    with writing(copied):
        assert repair(run, spark)["verdict"] == "MATCH"
    assert run.clients.connector.state(copied.name).running
    noted = run.clients.control.ledger_get(run.run_id)["corrections"]
    assert (noted[f"{copied.name}.words"]["rows"], noted[f"{copied.name}.words"]["deletes"]) == (1, 1)
    assert noted[f"{copied.name}.orders"]["rows"] == 1
    wait_equal(copied)
