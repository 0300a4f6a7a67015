"""The excerpt of a connector's stack trace: short, with its causes, without secrets."""

from __future__ import annotations

import pytest

from airflow_cdc.core.text import trace_excerpt

TRACE = """org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer
\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:67)
Caused by: io.debezium.DebeziumException: Client requested master to start replication from purged GTIDs
\tat io.debezium.connector.binlog.BinlogStreamingChangeEventSource.wrap(X.java:1)
Caused by: java.sql.SQLException: Access denied, jdbc:mysql://cdc:hunter2@db:3306/?user=cdc&password=hunter2&useSSL=true
"""


def test_excerpt_keeps_what_failed_and_its_causes() -> None:
    excerpt = trace_excerpt(TRACE)
    assert excerpt.startswith("org.apache.kafka.connect.errors.ConnectException")
    assert "purged GTIDs" in excerpt
    assert "ErrorHandler.java" not in excerpt


@pytest.mark.parametrize(
    "text",
    [
        TRACE,
        "x: database.password = hunter2",
        'x: {password: "hunter2 x"}',
        "x: secret=hunter2",
        'x: {"password": "hunter2"}',
        "x: Passwd:hunter2",
    ],
)
def test_excerpt_holds_no_secret(text: str) -> None:
    assert "hunter2" not in trace_excerpt(text)


def test_excerpt_is_short() -> None:
    assert len(trace_excerpt("x" * 5000, limit=100)) == 100
    assert trace_excerpt("") == ""
