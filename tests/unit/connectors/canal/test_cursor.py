"""Canal's cursors: bytes taken from a real server, and everything that Canal itself passes over in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from airflow_cdc.connectors.canal.cursor import TYPE, CursorCodec
from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.testing import OffsetCodecContract

# of meta.dat, written by Canal 1.1.7 over MySQL 8.0.15
REAL = (
    '{"identity":{"slaveId":-1,"sourceAddress":{"address":"localhost","port":34353}},"postion":{"gtid":"",'
    '"included":false,"journalName":"mysql-bin.000001","position":801,"serverId":101,"timestamp":1795486014000}}'
)
SET = "b4f026c0-e7ab-11f1-b17d-02fc00000001"


def real() -> dict[str, Any]:
    value: dict[str, Any] = json.loads(REAL)
    return value


def at(**place: Any) -> dict[str, Any]:
    """The real cursor with another place."""
    value = real()
    value["postion"] |= place
    return value


class _Stored(OffsetCodecContract):
    @pytest.fixture
    def source(self) -> str:
        return "mysql"

    @pytest.fixture
    def malformed(self) -> list[dict[str, Any]]:
        return [
            {},
            at(included=True),
            at(journalName="no number"),
            at(position=-1),
            at(gtid="x"),
            {key: value for key, value in real().items() if key != "identity"},
            {**real(), "@type": "java.lang.String"},
        ]


class TestByFile(_Stored):
    @pytest.fixture
    def codec(self) -> OffsetCodec:
        return CursorCodec()

    @pytest.fixture
    def stored(self) -> list[dict[str, Any]]:
        later = at(journalName="mysql-bin.000002", position=4, serverId=0, timestamp=0)
        return [real(), at(position=900), {"@type": TYPE, **later}]


class TestByGtid(_Stored):
    @pytest.fixture
    def codec(self) -> OffsetCodec:
        return CursorCodec(by_gtid=True)

    @pytest.fixture
    def stored(self) -> list[dict[str, Any]]:
        return [at(gtid=f"{SET}:1-3"), at(gtid=f"{SET}:1-9", position=4)]


def test_a_real_cursor_keeps_its_bytes_and_means_the_begin_of_the_commit() -> None:
    offset = CursorCodec().read(real(), {"server": "shop"})
    assert json.dumps(offset.raw, separators=(",", ":")) == REAL
    assert (offset.place, offset.written) == ("mysql-bin.000001:801", 1795486014)
    assert offset.position == MySqlPosition("mysql-bin.000001", 801)
    assert isinstance(offset.position, MySqlPosition)
    assert (offset.position.server_id, offset.position.by_file) == (101, True)


def test_without_gtidon_a_set_in_the_cursor_does_not_count() -> None:
    position = CursorCodec().read(at(gtid=f"{SET}:1-3"), {}).position
    assert isinstance(position, MySqlPosition)
    assert position.gtids is None


def test_a_position_by_file_compares_with_a_server_that_has_sets() -> None:
    stored = CursorCodec().read(real(), {}).position
    assert stored is not None
    end = MySqlPosition("mysql-bin.000001", 832, GtidSet.parse(f"{SET}:1-3"), 101)
    assert (stored.covers(end), end.covers(stored)) == (False, True)
    assert MySqlPosition.from_json(stored.to_json()).by_file


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"identity": real()["identity"], "position": real()["postion"]}, "Canal spells it 'postion'"),
        (at(included=True), "delivers nothing"),
        (at(offset=1), "unknown key 'postion.offset'"),
        ({**real(), "identity": {"slaveId": -1}}, "address is missing: Canal fails without it"),
        ({**real(), "identity": {"sourceAddress": {"address": "localhost", "port": 0}}}, "is no port"),
    ],
)
def test_what_canal_would_not_say_is_a_fault(value: Mapping[str, Any], fault: str) -> None:
    assert any(fault in text for text in CursorCodec().faults(value))


def test_a_cursor_in_zookeeper_has_a_type_and_one_in_a_file_has_none() -> None:
    typed = {"@type": TYPE, **real()}
    assert CursorCodec(typed=True).faults(typed) == CursorCodec(typed=False).faults(real()) == ()
    assert any("reads no cursor without it" in fault for fault in CursorCodec(typed=True).faults(real()))
    assert any("does not stand in meta.dat" in fault for fault in CursorCodec(typed=False).faults(typed))


def test_an_address_that_canal_does_not_read_is_a_fault_and_an_unknown_one_is_not() -> None:
    elsewhere = CursorCodec(recognises=lambda host, port: (host, port) == ("db", 3306))
    assert elsewhere.stranger(real()) == "localhost:34353"
    assert any("it would ignore the position" in fault for fault in elsewhere.faults(real()))
    assert CursorCodec(recognises=lambda *_: None).faults(real()) == ()
    assert elsewhere.stranger({}) == ""


def test_a_cursor_of_our_own_making_is_one_that_canal_reads() -> None:
    codec = CursorCodec(typed=True, address=("db", 3306), by_gtid=True)
    made = codec.at(MySqlPosition("mysql-bin.000004", 198, GtidSet.parse(f"{SET}:1-9"), 101), 17)
    assert codec.faults(made) == ()
    assert made["postion"] == {
        "gtid": f"{SET}:1-9",
        "included": False,
        "journalName": "mysql-bin.000004",
        "position": 198,
        "serverId": 101,
        "timestamp": 17000,
    }
    with pytest.raises(PositionError, match="address"):
        CursorCodec().at(MySqlPosition("mysql-bin.000004", 198), None)
