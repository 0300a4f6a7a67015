"""The excerpt of a connector's stack trace: short, with its causes, without secrets. Names where only some characters may be."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from airflow_cdc.core import text
from airflow_cdc.core.text import number_in, shown, trace_excerpt
from airflow_cdc.names import file_part, uri_part
from tests.odd_names import ODD_TABLES

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
    "trace",
    [
        TRACE,
        "x: database.password = hunter2",
        'x: {password: "hunter2 x"}',
        "x: secret=hunter2",
        'x: {"password": "hunter2"}',
        "x: Passwd:hunter2",
    ],
)
def test_excerpt_holds_no_secret(trace: str) -> None:
    assert "hunter2" not in trace_excerpt(trace)


def test_excerpt_is_short() -> None:
    assert len(trace_excerpt("x" * 5000, limit=100)) == 100
    assert trace_excerpt("") == ""


@pytest.mark.parametrize(
    ("part", "allowed", "longest"), [(uri_part, r"[\w.~%+-]+", 1000), (file_part, r"[\w.~+-]+", 100)]
)
def test_any_name_fits_a_uri_and_a_file_name_and_stays_its_own(
    part: Callable[[str], str], allowed: str, longest: int
) -> None:
    """Two names that were written alike would share an asset, and one's rows would be shown as the other's."""
    names = [*(f"shop.{table}" for table in ODD_TABLES), "shop.~2F", "shop.订" + "单" * 63, "shop." + "😀" * 200]
    parts = [part(name) for name in names]
    assert len(set(parts)) == len(names)
    assert [one for one in parts if not re.fullmatch(allowed, one, re.ASCII) or len(one) > longest] == []
    assert part("shop.order_items-2") == "shop.order_items-2"


@pytest.mark.parametrize("at", range(380, 420))
def test_half_a_secret_is_not_shown_where_a_text_is_cut(at: int) -> None:
    """Texts are cut before they are searched: a login, and one of a text that is cut long before."""
    for length in (at, 16 * 400 - 20 + at - 380):
        assert "hunter" not in shown("x " * (length // 2) + "jdbc:mysql://cdc:hunter-hunter-hunter@db/ " + "y " * 9000)


def test_a_long_text_is_cut_before_it_is_searched_for_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = list[str]()

    def noted(one: str) -> str:
        searched.append(one)
        return one

    monkeypatch.setattr(text, "mask_text", noted)
    assert len(shown("word " * 100_000)) == 400
    assert len(searched[0]) <= 16 * 400


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("0042", 42),
        ("9" * 25, 10**25 - 1),
        ("9" * 26, None),
        ("9" * 5000, None),
        ("²", None),
        ("١", None),
        ("-1", None),
        ("", None),
    ],
)
def test_a_number_is_ascii_digits_and_not_too_many(text: str, number: int | None) -> None:
    assert number_in(text) == number
