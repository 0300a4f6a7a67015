"""Explaining a pasted log: every line of the field logs, and what must hold of the table of texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_cdc.kinds import all_texts
from tests.diagnosing import explain
from tests.paths import DATA
from tests.unit.builders import ALL_CODES

INCIDENTS: list[dict[str, Any]] = json.loads((DATA / "field-logs.json").read_text())
NOISE = "[2026-11-21 09:00:00,000] INFO [shop|task-0] WorkerSourceTask{id=shop-0} flushing 0 outstanding messages\n"


@pytest.mark.parametrize("incident", INCIDENTS, ids=[one["system"] for one in INCIDENTS])
def test_every_incident_is_named_between_lines_of_noise(incident: dict[str, Any]) -> None:
    text = NOISE * 50 + "\n".join(incident["log"]) + "\n" + NOISE * 50
    explanation = explain(text)
    assert explanation.code == incident["code"]
    assert explanation.line in text
    assert explanation.line
    assert NOISE.strip() not in explanation.line


@pytest.mark.parametrize(
    ("line", "code"),
    [line for one in INCIDENTS for line in [(text, one["code"]) for text in one["log"][-1:]]],
)
def test_the_last_line_alone_names_it_too(line: str, code: str) -> None:
    # which of file and server is the newer only the list of files tells
    assert explain(line).code == ("BINLOG_PURGED" if code == "POSITION_AHEAD" else code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("io.debezium.DebeziumException: The db history topic is missing.", "SCHEMA_HISTORY_MISSING"),
        ("The connector previously stopped while taking a snapshot", "SNAPSHOT_INTERRUPTED"),
        (
            "A slave with the same server_uuid/server_id as this slave has connected to the master",
            "DUPLICATE_SERVER_ID",
        ),
        ("A replica with the same server_uuid/server_id as this replica has connected", "DUPLICATE_SERVER_ID"),
        ("Client requested master to start replication from impossible position", "POSITION_PAST_END"),
        ("bogus data in log event; the first event 'mysql-bin.000003' at 7", "POSITION_MID_EVENT"),
        ("the master has purged binary logs containing GTIDs that the slave requires", "GTID_PURGED"),
        ("Slave has more GTIDs than the master has, using the master's SERVER_UUID", "GTID_NOT_CONTAINED"),
        ("java.sql.SQLException: Access denied for user 'debezium'@'10.0.0.9'", "CONNECTOR_FAILED"),
        ("Tolerance exceeded in error handler", "CONNECTOR_FAILED"),
        ("Error while deserializing binlog data of date: Invalid date 'FEBRUARY 31'", "CONNECTOR_FAILED"),
        ("Caused by: java.net.ConnectException: Connection refused", "CONNECTOR_FAILED_TRANSIENT"),
        (
            "com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure",
            "CONNECTOR_FAILED_TRANSIENT",
        ),
        ("connector requires binlog file 'a.000001', but MySQL only has b.000001, b.000002", "SOURCE_CHANGED"),
        (
            "org.apache.kafka.connect.errors.ConnectException: Source offset 'file' parameter is missing",
            "OFFSET_MISSING",
        ),
        (
            "java.sql.SQLException: Table definition has changed, please retry transaction",
            "CONNECTOR_FAILED_TRANSIENT",
        ),
        ("PSQLException: Database connection failed when starting copy", "CONNECTOR_FAILED_TRANSIENT"),
        (
            "Cannot complete request because of a conflicting operation (e.g. worker rebalance)",
            "CONNECTOR_FAILED_TRANSIENT",
        ),
        (
            (
                "Task threw an uncaught and unrecoverable exception. Task is being killed and will not recover until manually"
                " restarted. (org.apache.kafka.connect.runtime.WorkerSinkTask) [task-thread-jdbc-0]"
            ),
            "SINK_CONNECTOR_FAILED",
        ),
        # Debezium Server's last words, whatever its error is
        (
            (
                "ERROR [io.deb.ser.ConnectorLifecycle] (pool-7-thread-1) Connector completed: success = 'false', message ="
                " 'Stopping connector after error', error = 'java.lang.IllegalStateException: no room'"
            ),
            "CONNECTOR_FAILED",
        ),
        # Airbyte, of MySQL
        (
            "ConfigErrorException: Saved offset no longer present on the server. Please reset the connection",
            "BINLOG_PURGED",
        ),
        ("ERROR Binlog mysql-bin.000123 is not available. This is a critical error", "BINLOG_PURGED"),
        ("", "UNKNOWN"),
        (NOISE, "UNKNOWN"),
    ],
)
def test_what_is_said_names_the_problem(text: str, code: str) -> None:
    assert explain(text).code == code


@pytest.mark.parametrize(
    "cause",
    [
        "java.sql.BatchUpdateException: Data truncation: Data too long for column 'name' at row 1",
        "java.sql.SQLException: Access denied for user 'sink'@'10.0.0.9'",
        "com.mysql.cj.jdbc.exceptions.CommunicationsException: Communications link failure",
    ],
)
def test_a_sink_whose_task_ended_is_not_taken_for_the_source(cause: str) -> None:
    text = f"""[2024-05-01 10:00:00,000] ERROR WorkerSinkTask{{id=jdbc-0}} Task threw an uncaught and unrecoverable exception. Task is being killed
org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception.
\tat org.apache.kafka.connect.runtime.WorkerSinkTask.deliverMessages(WorkerSinkTask.java:624)
Caused by: {cause}
"""
    assert explain(text).code == "SINK_CONNECTOR_FAILED"


@pytest.mark.parametrize(
    "text",
    [
        "Failed to deserialize data of EventHeaderV4{timestamp=1, eventType=TABLE_MAP, serverId=101, headerLength=19}",
        "java.io.EOFException: Failed to read remaining 1 of 2 bytes from position 3. Block length: 0. Initial block length: 1.",
    ],
)
def test_years_that_the_server_does_not_count_are_told_from_a_cut_connection(text: str) -> None:
    explained = explain(text)
    assert (explained.code, "YEAR" in explained.meaning) == ("CONNECTOR_FAILED", True)
    assert explain("java.io.EOFException: Failed to read remaining 1 of 2 bytes").code == "CONNECTOR_FAILED_TRANSIENT"


def test_a_table_whose_columns_the_connector_misread_is_told_with_a_way_out() -> None:
    explained = explain("Error processing row in t, internal schema size 17, but row size 16 , restart connector")
    assert (explained.code, "full_snapshot" in explained.meaning) == ("CONNECTOR_FAILED", True)


def test_two_columns_that_would_get_one_name_are_told_with_a_way_out() -> None:
    explained = explain(
        "org.apache.kafka.connect.errors.SchemaBuilderException: Cannot create field because of field name duplication a_b"
    )
    assert (explained.code, "column.exclude.list" in explained.meaning) == ("CONNECTOR_FAILED", True)


@pytest.mark.parametrize(
    ("gtids", "code"), [("75ac0c48-7f6b-11f0-9c3a-0242ac110002:1-26", "GTID_PURGED"), ("null", "BINLOG_PURGED")]
)
def test_a_long_context_between_the_words_does_not_hide_them(gtids: str, code: str) -> None:
    context = "BinlogOffsetContext{" + "sourceInfo=" * 200 + f"restartGtidSet='{gtids}'}}"
    said = f"trying to read change stream starting at {context}, but this is no longer available on the server."
    assert explain(f"The connector is {said}").code == code


def test_a_line_is_shown_without_its_secrets() -> None:
    explanation = explain("Access denied, jdbc:mysql://cdc:hunter2@db/?password=hunter2&useSSL=true")
    assert explanation.code == "CONNECTOR_FAILED"
    assert "hunter2" not in explanation.line


def test_every_row_names_a_problem_of_the_table() -> None:
    assert {text.code for text in all_texts()} <= ALL_CODES
