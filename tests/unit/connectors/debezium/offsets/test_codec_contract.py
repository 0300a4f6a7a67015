"""Every built-in codec of offsets does what airflow_cdc.testing asks of any."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.kinds import CONNECTORS
from airflow_cdc.testing import OffsetCodecContract

UUID = "75ac0c48-7f6b-11f0-9c3a-0242ac110002"
Values = list[dict[str, Any]]


def _cursor(file: str, position: int) -> dict[str, Any]:
    """As Canal 1.1.7 writes it to meta.dat."""
    place = {
        "gtid": "",
        "included": False,
        "journalName": file,
        "position": position,
        "serverId": 1,
        "timestamp": 1763715600000,
    }
    return {"identity": {"slaveId": -1, "sourceAddress": {"address": "localhost", "port": 3306}}, "postion": place}


def _flink(file: str, pos: str, **more: str) -> dict[str, Any]:
    """As Flink CDC 3.5.0 writes it into the metadata of a checkpoint."""
    value = {"transaction_id": None, "ts_sec": "1763715600", "file": file, "pos": pos, "kind": "SPECIFIC"}
    return {**value, "row": "0", "event": "0", "server_id": "1", **more}


# a name of the case → connector, source, what the connector stored one after the other
CASES: dict[str, tuple[str, str, Values]] = {
    "debezium/mysql": (
        "debezium",
        "mysql",
        [
            {"file": "mysql-bin.000009", "pos": 900, "gtids": f"{UUID}:1-80", "ts_sec": 1763715600, "server_id": 1},
            {"file": "mysql-bin.000010", "pos": 4, "gtids": f"{UUID}:1-81", "ts_sec": 1763715601, "event": 2, "row": 1},
        ],
    ),
    "debezium/mysql by file": (
        "debezium",
        "mysql",
        [
            {"file": "mysql-bin.000009", "pos": 900, "ts_sec": 1763715600, "server_id": 1},
            {"file": "mysql-bin.999999", "pos": 4, "server_id": 1},
            {"file": "mysql-bin.1000000", "pos": 4, "snapshot": True, "snapshot_completed": True},
        ],
    ),
    "debezium/mariadb": (
        "debezium",
        "mariadb",
        [
            {"file": "maria-bin.000002", "pos": 400, "gtids": "0-103-7", "ts_sec": 1763715600, "server_id": 103},
            {"file": "maria-bin.000002", "pos": 900, "gtids": "0-103-9", "ts_sec": 1763715601, "server_id": 103},
        ],
    ),
    "canal/mysql": (
        "canal",
        "mysql",
        [_cursor("mysql-bin.000009", 900), _cursor("mysql-bin.000009", 931), _cursor("mysql-bin.1000000", 4)],
    ),
    "flink/mysql": (
        "flink",
        "mysql",
        [
            _flink("mysql-bin.000009", "900", gtids=f"{UUID}:1-80"),
            _flink("mysql-bin.000010", "4", gtids=f"{UUID}:1-81", row="1", event="2"),
        ],
    ),
    "flink/mysql by file": (
        "flink",
        "mysql",
        [_flink("mysql-bin.999999", "4"), _flink("mysql-bin.1000000", "4", ts_sec="0")],
    ),
    "debezium/postgres": (
        "debezium",
        "postgres",
        [
            {
                "lsn": 24676480,
                "txId": 756,
                "ts_usec": 1795424145811282,
                "snapshot": "INITIAL",
                "snapshot_completed": True,
            },
            {"lsn_proc": 24676816, "messageType": "DELETE", "lsn_commit": 24676810, "lsn": 24676816, "txId": 759},
            {"lsn": 25172400, "lsn_proc": 25172400, "lsn_commit": 25172400},
        ],
    ),
}
NO_LSN: Values = [{}, {"lsn": "0/1788A40"}, {"lsn": -1}, {"file": "mysql-bin.000009", "pos": 4}]
MALFORMED: Values = [
    {},
    {"file": "mysql-bin.000009"},
    {"file": "mysql-bin", "pos": 4},
    {"file": "mysql-bin.000009", "pos": "4"},
    {"file": "mysql-bin.000009", "pos": -4},
    {"file": "mysql-bin.000009", "pos": 4, "gtids": "nonsense"},
    {"lsn": 24023128, "txId": 555},
]


def test_every_built_in_pair_is_held_by_the_suite() -> None:
    pairs = {(connector, source) for connector in CONNECTORS.built_in for source in CONNECTORS[connector].reads}
    pairs -= {("debezium_engine", source) for source in CONNECTORS["debezium_engine"].reads}
    assert CONNECTORS["debezium_engine"].reads == CONNECTORS["debezium"].reads  # the codecs are Debezium's own
    assert pairs == {(connector, source) for connector, source, _ in CASES.values()}


class TestCodecs(OffsetCodecContract):
    @pytest.fixture(params=CASES)
    def case(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def codec(self, case: str) -> OffsetCodec:
        connector, source, _ = CASES[case]
        codec = CONNECTORS[connector].reads[source].codec
        assert codec is not None
        made: OffsetCodec = codec.load()()
        return made

    @pytest.fixture
    def source(self, case: str) -> str:
        return CASES[case][1]

    @pytest.fixture
    def stored(self, case: str) -> Values:
        return CASES[case][2]

    @pytest.fixture
    def malformed(self, case: str, source: str) -> Values:
        if CASES[case][0] == "flink":
            return [{name: str(value) for name, value in one.items()} for one in MALFORMED if one.get("pos") != "4"]
        return NO_LSN if source == "postgres" else MALFORMED
