"""Each setting and each field of a cursor by which Canal leaves something out or stays silent, as Canal's documentation names them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.connectors.canal.capture import (
    AUTO_RESET,
    DETECTING,
    DETECTING_SQL,
    START_FILE,
    CanalCapture,
    interval_ms,
    kept_elsewhere,
)
from airflow_cdc.connectors.canal.connector import CanalFacts
from airflow_cdc.connectors.canal.cursor import TYPE, Cursor, CursorCodec
from airflow_cdc.connectors.canal.events.mysql import CanalValues
from airflow_cdc.connectors.canal.log import state_of
from airflow_cdc.connectors.canal.statements import read_statements
from airflow_cdc.connectors.canal.stores.cursors import CursorStore
from airflow_cdc.connectors.canal.stores.file import FileCursors
from airflow_cdc.connectors.canal.stores.zookeeper import EXTRA
from airflow_cdc.core.errors import TransportError
from tests.paths import ROOT
from tests.unit.connectors.canal.settings import FOLLOWED
from tests.unit.connectors.canal.test_cursor import SET, at, real
from tests.unit.connectors.canal.test_log import FAILED, FOUND, REFUSED, THREAD
from tests.unit.connectors.canal.test_problems import KAFKA, facts, held
from tests.unit.tables import column

# ---- settings, by Canal's wiki (AdminGuide) and its canal.properties and instance.properties -----------------------------

LEAVES_OUT = (
    ("canal.instance.filter.rows", "true"),
    ("canal.instance.filter.dml.insert", "true"),
    ("canal.instance.filter.dml.update", "true"),
    ("canal.instance.filter.dml.delete", "true"),
    ("canal.instance.filter.table.error", "true"),
    ("canal.instance.filter.query.ddl", "true"),
    ("canal.instance.filter.field", "shop.t:id/name"),
    ("canal.instance.filter.black.field", "shop.t:note"),
    ("canal.instance.gtidon", "false"),
    ("canal.instance.tsdb.enable", "true"),
    ("canal.mq.partitionHash", ".*:id"),
    ("canal.instance.connectionCharset", "GBK"),
)
UTF_8 = ("UTF-8", "utf8", " Utf8mb4 ")


@pytest.mark.parametrize(("key", "value"), LEAVES_OUT)
def test_a_setting_that_leaves_something_out_is_named_with_what_to_do(key: str, value: str) -> None:
    refused = CanalCapture.from_config({**FOLLOWED, key: value}).rows_refused
    assert refused is not None
    assert key in refused.what
    assert f"Remove {key}" in refused.todo or f"Set {key}=" in refused.todo
    assert "then restart Canal" in refused.todo


@pytest.mark.parametrize("charset", UTF_8)
def test_texts_that_arrive_as_utf_8_are_taken(charset: str) -> None:
    assert CanalCapture.from_config({**FOLLOWED, "canal.instance.connectionCharset": charset}).rows_refused is None


@pytest.mark.parametrize(("key", "value"), [one for one in LEAVES_OUT if one[1] == "true" and "tsdb" not in one[0]])
def test_what_is_not_true_leaves_nothing_out(key: str, value: str) -> None:
    assert CanalCapture.from_config({**FOLLOWED, key: "false"}).rows_refused is None
    assert CanalCapture.from_config({**FOLLOWED, key: f" {value.upper()} "}).rows_refused is not None


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"canal.serverMode": "tcp"}, "canal.serverMode is tcp"),
        ({"canal.serverMode": "rocketMQ"}, "canal.serverMode is rocketMQ"),
        ({"canal.mq.dynamicTopic": "shop"}, "canal.mq.dynamicTopic is shop"),
        ({"canal.mq.topic": ""}, "canal.mq.topic is not set"),
        ({"canal.serverMode": "RabbitMQ"}, "rabbitmq.queue is not set"),
    ],
)
def test_without_one_topic_no_rows_are_taken(more: dict[str, str], named: str) -> None:
    capture = CanalCapture.from_config({**FOLLOWED, **more})
    assert named in str(capture.rows_refused)
    assert capture.topic == ""
    for mode, topic in (("kafka", "shop"), ("Kafka", "shop"), ("rabbitMQ", "q")):
        own = {"canal.serverMode": mode, "rabbitmq.queue": "q"}
        assert CanalCapture.from_config({**FOLLOWED, **own}).topic == topic


@pytest.mark.parametrize(
    ("spring", "place"),
    [
        ("classpath:spring/memory-instance.xml", "memory alone"),
        ("classpath:spring/group-instance.xml", "memory alone"),
        ("classpath:spring/file-instance.xml", "file"),
        ("classpath:spring/default-instance.xml", "zookeeper"),
        ("classpath:spring/mine.xml", ""),
        ("", ""),
    ],
)
def test_each_spring_file_of_canal_keeps_its_cursor_somewhere(spring: str, place: str) -> None:
    config = {**FOLLOWED, "canal.instance.global.spring.xml": spring}
    for cursor in ("file", "zookeeper"):
        said = kept_elsewhere(config, cursor)
        assert (said == "") == (place in {"", cursor})
        assert place in said or place == cursor
    own = {**config, "canal.instance.shop.spring.xml": "spring/file-instance.xml"}
    assert kept_elsewhere(own, "file") == ""


@pytest.mark.parametrize("sql", ["select 1", "SHOW status", "explain select 1", "desc t", ""])
def test_a_statement_that_only_reads_moves_no_cursor(sql: str) -> None:
    """As Canal tells them: MysqlConnection's detecting SQL is a query where it begins with one of these words."""
    assert interval_ms({**FOLLOWED, DETECTING: "true", DETECTING_SQL: sql}) == 0
    assert interval_ms({**FOLLOWED, DETECTING: "true", DETECTING_SQL: f"replace into t values (1) -- {sql}"}) == 3000


def test_a_capture_of_canal_says_what_it_does_not_do() -> None:
    """No DDL is told beside the rows, years stay as they are, NULL stays NULL, and a TRUNCATE is an event."""
    capture = CanalCapture.from_config(FOLLOWED)
    assert (capture.reports_ddl, capture.years_adjusted, capture.null_becomes_default) == (False, False, False)
    assert (capture.truncates_seen, capture.heartbeat_ms, capture.healing) == (True, 0, ())
    assert (capture.history_topic, capture.heartbeat_topic, capture.ddl_topic) == (None, "", "shop")
    assert (capture.offset_faults({}), capture.mixed(["shop.t"]), capture.quickened) == ((), {}, {})
    assert capture.topics_about(["shop.t", "shop.u"]) == ["shop"]


# ---- cursors ---------------------------------------------------------------------------------------------------------


def taken_at(**address: Any) -> dict[str, Any]:
    value = real()
    value["identity"]["sourceAddress"] |= address
    return value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (taken_at(address=""), "address is missing"),
        (taken_at(address="  "), "address is missing"),
        (taken_at(address=7), "address is missing"),
        (taken_at(port=0), "is no port"),
        (taken_at(port=65_536), "is no port"),
        (taken_at(port=True), "is no port"),
        (taken_at(port="3306"), "is no port"),
        (at(journalName=""), "postion.journalName"),
        (at(journalName=7), "7 is not text"),
        (at(position=-1), "postion.position must be"),
        (at(position="4"), "postion.position must be"),
        (at(position=True), "postion.position must be"),
        (at(included=True), "postion.included must be false"),
        (at(included=None), "postion.included must be false"),
        (at(serverId=-1), "postion.serverId must be"),
        (at(serverId="1"), "postion.serverId must be"),
        (at(timestamp=-1), "postion.timestamp must be"),
        (at(gtid="no set"), "postion.gtid"),
        (at(gtid=7), "postion.gtid"),
        (at(gtid=0), "postion.gtid"),
        ({**real(), "@type": "java.lang.String"}, '"@type" is'),
        ({**real(), "more": 1}, "unknown key 'more'"),
        ({**real(), "identity": real()["identity"] | {"more": 1}}, "unknown key 'identity.more'"),
        (taken_at(more=1), "unknown key 'identity.sourceAddress.more'"),
        (at(more=1), "unknown key 'postion.more'"),
    ],
)
def test_each_field_of_a_cursor_that_canal_would_read_otherwise_is_named(value: Mapping[str, Any], fault: str) -> None:
    (said,) = CursorCodec().faults(value)
    assert fault in said


@pytest.mark.parametrize(
    "value",
    [
        *(taken_at(port=port) for port in (1, 65_535)),
        *(at(position=0), at(serverId=0), at(serverId=None), at(timestamp=None), at(gtid=None), at(gtid="")),
        *(at(gtid=f"{SET}:1-4"), {**real(), "@type": TYPE}),
    ],
)
def test_what_canal_reads_is_no_fault(value: dict[str, Any]) -> None:
    assert CursorCodec().faults(value) == ()


def test_a_cursor_of_our_making_is_of_canals_own_client_and_starts_at_the_position() -> None:
    """SlaveId is -1 in every cursor that Canal wrote; a set is written only where Canal follows sets."""
    stored = CursorCodec(by_gtid=True).read(at(gtid=f"{SET}:1-4"), {"server": "shop"})
    assert stored.position is not None
    by_set = CursorCodec(by_gtid=True, typed=True, address=("db", 3306)).at(stored.position, 1_790_000_000)
    assert by_set == {
        "@type": TYPE,
        "identity": {"slaveId": -1, "sourceAddress": {"address": "db", "port": 3306}},
        "postion": {
            "gtid": f"{SET}:1-4",
            "included": False,
            "journalName": "mysql-bin.000001",
            "position": 801,
            "serverId": 101,
            "timestamp": 1_790_000_000_000,
        },
    }
    by_file: Any = CursorCodec(address=("db", 3306)).at(stored.position, None)
    assert "@type" not in by_file
    assert (by_file["postion"]["gtid"], by_file["postion"]["timestamp"]) == ("", 0)


def test_a_cursor_is_read_with_its_address_and_time() -> None:
    cursor = Cursor.from_value(real())
    assert (cursor.address, cursor.server_id, cursor.timestamp) == ("localhost:34353", 101, 1_795_486_014_000)
    assert (cursor.gtids, str(cursor.place)) == (None, "mysql-bin.000001:801")
    unsaid = Cursor.from_value(at(serverId=0, timestamp=0))
    assert (unsaid.server_id, unsaid.timestamp) == (None, None)
    stored = CursorCodec().read(real(), {"server": "shop"})
    assert (stored.written, stored.place) == (1_795_486_014, "mysql-bin.000001:801")
    assert CursorCodec().read(at(timestamp=None), {}).written is None


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, real(), "there was no cursor before"),
        (at(gtid=f"{SET}:1-4"), at(gtid=f"{SET}:1-9"), f"skips {SET}:5-9"),
        (at(gtid=f"{SET}:1-9"), at(gtid=f"{SET}:1-4"), f"repeats {SET}:5-9"),
        (at(gtid=f"{SET}:1-4"), at(gtid=f"{SET}:1-4"), "the same transactions"),
    ],
)
def test_a_move_says_what_it_skips_and_repeats(before: dict[str, Any] | None, after: dict[str, Any], said: str) -> None:
    assert CursorCodec(by_gtid=True).moved(before, after) == said


def test_another_cursor_than_the_first_is_written_although_the_first_was_seen(tmp_path: Path) -> None:
    """Only what was there before is put back to the byte: a second move is a move."""
    store = CursorStore(FileCursors(tmp_path / "meta.dat", "shop"), lambda: None)
    store.write(real())
    store.write(at(position=900))
    assert store.read() == at(position=900)
    store.write(None)
    assert store.read() is None


# ---- the log, and statements -----------------------------------------------------------------------------------------


def test_an_error_is_told_with_the_lines_below_it_and_none_of_the_next_entry() -> None:
    told = state_of([FOUND, *FAILED]).failure
    assert told.splitlines()[0].endswith(REFUSED)
    assert "DirectLogFetcher.java:102" in told
    assert "LogAlarmHandler" not in told
    assert "disConnect" not in told


def test_a_long_trace_is_cut() -> None:
    trace = [f"\tat com.example.A.b(A.java:{n})" for n in range(100)]
    told = state_of([f"2026-11-24 02:07:00.098 {THREAD} ERROR c.X - no", REFUSED, *trace]).failure
    assert "A.java:37)" in told
    assert "A.java:39)" not in told


@dataclass
class Record:
    value: bytes | None
    offset: int = 7


def _statement(**more: Any) -> Record:
    value = {"database": "shop", "table": "t", "isDdl": True, "type": "ALTER", "sql": "ALTER TABLE t ADD c INT", **more}
    return Record(json.dumps(value, separators=(",", ":")).encode())


@pytest.mark.parametrize(
    ("gtid", "placed"),
    [
        (f"{SET}:1-9", True),
        (f"{SET}:9", True),
        (f"{SET}:1-9,7a11fa47-71ca-11e1-9e33-c80aa9429562:1-3", False),
        (f"{SET}:x", False),
        ("", False),
    ],
)
def test_a_statement_is_placed_by_the_last_transaction_of_one_server(gtid: str, *, placed: bool) -> None:
    (ddl,) = read_statements([_statement(gtid=gtid)], "shop")
    assert (ddl.tables, ddl.statement) == (frozenset({"shop.t"}), "ALTER TABLE t ADD c INT")
    assert (ddl.origin is not None) == placed


def test_a_truncate_is_an_event_and_rows_are_no_statements() -> None:
    assert read_statements([_statement(type="TRUNCATE"), Record(None), Record(b'{"isDdl":false}')], "shop") == []
    with pytest.raises(TransportError, match="offset 7 is no statement"):
        read_statements([Record(b'{"isDdl":true}')], "shop")


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "more", "text", "read"),
    [
        # the log leaves out the zeros at the end of a BINARY
        ("binary(4)", {"char_length": 4, "byte_length": 4}, "\xff", b"\xff\0\0\0"),
        ("binary(4)", {"char_length": 4}, "\xff", b"\xff\0\0\0"),
        ("binary", {}, "\xff", b"\xff"),
        ("varbinary(4)", {"byte_length": 4}, "\xff", b"\xff"),
        ("blob", {}, "\xff\0", b"\xff\0"),
    ],
)
def test_bytes_are_whole(kind: str, more: dict[str, Any], text: str, read: bytes) -> None:
    assert CanalValues().value(column("c", kind, **more)).read(text) == read


def test_the_extra_that_installs_zookeepers_client_is_one_of_the_package() -> None:
    assert f"\n{EXTRA} = [" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


# ---- what a diagnosis shows ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "connector", "source", "shown"),
    [
        (88, facts({**KAFKA, AUTO_RESET: "true"}), {}, {AUTO_RESET}),
        (41, facts(other_keys=({"client": "1002", "cursor": "b.000001:4"},)), {}, {"client 1002 is at"}),
        (46, facts(stranger="db2:3306", address="db:3306"), {}, {"cursor taken at", "Canal reads"}),
        (97, facts(), {"server_id": 7}, {"serverId in the cursor", "server_id"}),
        (98, facts(), {"version": "9.7.4"}, {"version", START_FILE}),
    ],
    ids=["resets itself", "a second client", "taken elsewhere", "would jump", "cannot begin"],
)
def test_each_row_shows_the_cursor_beside_what_it_says(
    rank: int, connector: CanalFacts, source: dict[str, Any], shown: set[str]
) -> None:
    told = held(rank, connector, **source) or {}
    assert shown <= set(told)
    assert "mysql-bin.000001" in told["stored offset"]
