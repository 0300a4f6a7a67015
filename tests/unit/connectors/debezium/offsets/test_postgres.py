"""What Debezium's PostgreSQL connector stores: read, checked, and written so that nothing is lost or doubled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.offsets.postgres import PgOffset, PostgresCodec, moved, validate, value_at
from airflow_cdc.core.errors import OffsetRejectedError, PositionError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.sources.postgres.position import Lsn, PgPosition

# as they stood in Kafka Connect (Debezium 3.6.1 on PostgreSQL 18)
AFTER_SNAPSHOT = {
    "last_snapshot_record": True, "lsn": 24676480, "txId": 756, "ts_usec": 1795424145811282, "snapshot": "INITIAL",
    "snapshot_completed": True,
}  # fmt: skip
FIRST = {"lsn_proc": 25172400, "messageType": "INSERT", "lsn": 25172400, "txId": 816, "ts_usec": 1795424148864445}
STREAMING = {
    "lsn_proc": 24676816, "messageType": "DELETE", "lsn_commit": 24676810, "lsn": 24676816, "txId": 759,
    "ts_usec": 1795424148864445,
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "confirmed", "checked"),
    [(AFTER_SNAPSHOT, 24676480, False), (FIRST, 25172400, True), (STREAMING, 24676810, True)],
)
def test_values_as_they_stand(value: dict[str, Any], confirmed: int, checked: bool) -> None:
    offset = PgOffset.from_value(value)
    assert offset.position == PgPosition(Lsn(value["lsn"]))
    assert offset.confirmed == Lsn(confirmed)
    assert offset.checked is checked
    assert not offset.in_snapshot
    assert PgOffset.from_value({**value, "snapshot": "INITIAL", "snapshot_completed": False}).in_snapshot


def test_what_is_written_keeps_the_check_on_and_carries_nothing_over() -> None:
    value = value_at(Lsn(25172400))
    assert value == {"lsn": 25172400, "lsn_proc": 25172400, "lsn_commit": 25172400}
    assert validate(value) == ()
    assert PgOffset.from_value(value).checked


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({}, "lsn is missing"),
        ({"txId": 1}, "lsn is missing"),  # RUNNING, and old rows come again
        ({"lsn": "0/1788A40"}, "lsn must be a number"),  # ClassCastException
        ({"lsn": "25172400"}, "lsn must be a number"),
        ({"lsn": 25172400, "lsn_proc": "25172400"}, "lsn_proc must be a number"),
        ({"lsn": -1}, "lsn must be a number"),
        ({"lsn": 1.5}, "lsn must be a number"),
        ({"lsn": True}, "lsn must be a number"),
        ({"lsn": 0, "lsn_proc": 0, "lsn_commit": 0}, "lsn is 0"),
        ({"lsn": 1, "messageType": "FOO"}, "messageType 'FOO' is not one"),
    ],
)
def test_a_value_that_would_kill_the_task_cannot_be_read(value: dict[str, Any], fault: str) -> None:
    with pytest.raises(OffsetRejectedError, match=fault):
        PgOffset.from_value(value)
    assert any(fault in said for said in validate(value))


def test_a_value_without_the_check_is_read_and_not_written() -> None:
    assert PgOffset.from_value({"lsn": 5}).lsn == Lsn(5)
    assert validate({"lsn": 5}) == (
        "lsn_proc is missing: the connector would not check that the server still has the place",
    )
    assert validate(AFTER_SNAPSHOT) == ()
    assert "did you mean 'lsn_proc'" in validate({**value_at(Lsn(5)), "lsn_prok": 1})[0]


def test_keys_of_a_newer_connector_are_kept() -> None:
    assert ("hello", 1) in PgOffset.from_value({**STREAMING, "hello": 1}).extra


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, 5, "no offset before"),
        (5, 5, "same position"),
        (5, 9, "skips what lies between 0/5 and 0/9 (4 bytes"),
        (9, 5, "repeats what lies between 0/9 and 0/5"),
    ],
)
def test_what_a_move_skips_and_repeats(before: int | None, after: int, said: str) -> None:
    assert said in moved(None if before is None else value_at(Lsn(before)), value_at(Lsn(after)))


W = Watermark(PgPosition(Lsn(100), 1, "7"), "7/1", datetime(2026, 11, 23, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        (value_at(Lsn(99)), False),
        (value_at(Lsn(100)), True),
        ({**AFTER_SNAPSHOT, "snapshot_completed": False, "lsn": 200}, False),
        ({"lsn": "0/64"}, None),
    ],
)
def test_whether_it_has_read_a_watermark(value: dict[str, Any], answer: bool | None) -> None:
    assert PostgresCodec().read(value, {}).has_read(W) is answer


def test_the_codec() -> None:
    codec = PostgresCodec()
    assert codec.at(W.position, None) == value_at(Lsn(100))
    assert codec.at(W.position, 7) == {**value_at(Lsn(100)), "ts_usec": 7_000_000}  # Debezium 1.9 asks for it
    assert codec.faults(codec.at(W.position, None)) == ()
    read = codec.read(STREAMING, {"server": "shop"})
    assert (read.place, read.written, read.fault) == ("0/17889D0", 1795424148, "")
    later = codec.read({**STREAMING, "ts_usec": 1}, {})
    assert later.progress == read.progress
    assert codec.read({**STREAMING, "lsn": 24676817}, {}).progress != read.progress
    with pytest.raises(PositionError, match="not of PostgreSQL"):
        codec.at(MySqlPosition("a.000001", 4), None)
