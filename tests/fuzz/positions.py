"""Positions, offsets and the files and topics that keep them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from airflow_cdc.connectors.canal.cursor import CursorCodec
from airflow_cdc.connectors.canal.stores import file as canal_file
from airflow_cdc.connectors.canal.stores.cursors import parsed as canal_cursor
from airflow_cdc.connectors.debezium.offsets.mariadb import MariaDbCodec
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec
from airflow_cdc.connectors.debezium_engine.java_map import JavaMap, NotAMapError
from airflow_cdc.connectors.debezium_engine.stores.offsets import value_of
from airflow_cdc.connectors.flink.checkpoint import offsets_in
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.connectors.flink.plan import Plan
from airflow_cdc.connectors.flink.start import StartFile
from airflow_cdc.connectors.kafka_connect.offsets_topic import fold_offsets
from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import ConnectorError, OffsetRejectedError, PositionError
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.offset import OffsetCodec
from airflow_cdc.core.position import Watermark
from airflow_cdc.decisions.table_id import is_rebuilt
from airflow_cdc.events.record import RawRecord
from airflow_cdc.kinds import read_position
from airflow_cdc.sources.mariadb import gtid as mariadb
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, place_of
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.visible import Visible
from tests.fuzz.mutate import blobs, json_bytes, json_texts, objects, texts
from tests.fuzz.parser import Parser, in_file
from tests.paths import ROOT

UUID = "75ac0c48-7f6b-11f0-9c3a-0242ac110002"
NOW = datetime(2026, 11, 28, tzinfo=UTC)
MYSQL = {
    "file": "mysql-bin.000004",
    "pos": 198,
    "gtids": f"{UUID}:1-29",
    "ts_sec": 1795244529,
    "server_id": 1,
    "event": 2,
    "row": 1,
}
MARIADB = {**MYSQL, "gtids": "0-1-100,1-2-50"}
POSTGRES = {
    "lsn_proc": 24676816, "messageType": "DELETE", "lsn_commit": 24676810, "lsn": 24676816, "txId": 759, "ts_usec": 1795424148864445,
    "snapshot": "INITIAL", "snapshot_completed": True,
}  # fmt: skip
FLINK = {
    "transaction_id": None, "ts_sec": "1795509319", "file": "mysql-bin.000001", "pos": "1196", "kind": "SPECIFIC",
    "gtids": f"{UUID}:1-4", "row": "1", "event": "2", "server_id": "101",
}  # fmt: skip
CURSOR = {
    "identity": {"slaveId": -1, "sourceAddress": {"address": "localhost", "port": 34353}},
    "postion": {
        "gtid": f"{UUID}:1-7", "included": False, "journalName": "mysql-bin.000001", "position": 801, "serverId": 101,
        "timestamp": 1795486014000,
    },
}  # fmt: skip
META = {
    "clientDatas": [{"clientIdentity": {"clientId": 1001, "destination": "d", "filter": ""}, "cursor": CURSOR}],
    "destination": "d",
}
KEY = json.dumps(["c", {"server": "p"}])
POSITIONS = (
    {"kind": "mysql", "file": "b.000003", "pos": 5, "gtids": f"{UUID}:1-50", "server_id": 1},
    {"kind": "mariadb", "file": "b.000003", "pos": 5, "domains": "0-1-100,1-2-50", "server_id": 1},
    {"kind": "postgres", "lsn": "0/1788A40", "system_id": "7", "timeline": 1},
)
WATERMARK = {"format": 2, "position": POSITIONS[0], "server": UUID, "taken_at": "2026-11-21T10:00:00+00:00"}
JAVA_MAP = JavaMap().having(KEY.encode(), json.dumps(MYSQL).encode()).having(b"k", b"v").to_bytes()
SAVEPOINT = (ROOT / "tests" / "data" / "flink-savepoint.bin").read_bytes()
TABLE = {
    "identifier": "`a`.`b`.`t`",
    "resolvedTable": {"options": {"connector": "mysql-cdc", "database-name": "b", "table-name": "t"}},
}
PLAN = {
    "flinkVersion": "1.20",
    "nodes": [
        {"id": 1, "type": "stream-exec-table-source-scan_2", "scanTableSource": {"table": TABLE, "abilities": [{"type": "ReadingMetadata"}]}},
        {"id": 2, "type": "stream-exec-calc_1"},
        {"id": 3, "type": "stream-exec-sink_1", "state": [{"index": 0, "name": "sink"}]},
    ],
    "edges": [{"source": 1, "target": 2, "shuffle": {}}, {"source": 2, "target": 3, "shuffle": {}}],
}  # fmt: skip
START = {
    "format": 1,
    "at": 5,
    "savepoint": "/s",
    "offset": FLINK,
    "job": "j",
    "replanned": True,
    "same": False,
    "reads": "b.t",
}


def _stored(codec: OffsetCodec, good: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    def read(raw: dict[str, Any]) -> object:
        codec.faults(raw)
        stored = codec.read(raw, {"server": "p"})
        return stored.held_by(Watermark.from_json(WATERMARK, read_position)), codec.moved(good, raw)

    return read


def _codec(name: str, codec: OffsetCodec, good: dict[str, Any]) -> Parser:
    return Parser(f"offset: {name}", _stored(codec, good), objects(good), (OffsetRejectedError,))


def _gtids(text: str) -> object:
    gtids = GtidSet.parse(text)
    return gtids.count, gtids - GtidSet.parse(f"{UUID}:1-7"), GtidSet.parse(str(gtids))


def _plan(path: Any) -> object:
    plan = Plan.read(str(path))
    return plan.sources, plan.between, plan.ids, plan.of("b.t"), plan.starting_at(FLINK, alone=True)


def _meta(path: Any) -> object:
    with patch.object(canal_file, "_WRITTEN_S", 0.0):  # Canal writes its file in moments, and nobody writes this one
        return canal_file.FileCursors(path, "d").read()


def _lease(value: dict[str, Any]) -> object:
    lease = read(Lease, value, more=True)
    return lease.looks_valid(NOW), lease.looks_expired(NOW), lease.looks_attended(NOW, 5.0)


PARSERS = (
    Parser("GTID set of MySQL", _gtids, texts(f"{UUID}:1-5:7", f"{UUID}:tag:1-9,\n{UUID}:1", ""), (PositionError,)),
    Parser("GTIDs of MariaDB", mariadb.MariaDbPosition.parse, texts("0-1-100,1-2-50", "0-1-1"), (PositionError,)),
    Parser("GTID state of MariaDB", mariadb.MariaDbState.parse, texts("0-1-100,0-2-50"), (PositionError,)),
    Parser("LSN", Lsn.parse, texts("0/1788A40", "FFFFFFFF/0"), (PositionError,)),
    Parser("file and position", BinlogPosition.parse, texts("mysql-bin.000004:198"), (PositionError,)),
    Parser("position as JSON", read_position, objects(*POSITIONS), (PositionError,)),
    Parser("watermark", lambda text: Watermark.from_json(text, read_position), json_texts(WATERMARK), (PositionError,)),
    _codec("Debezium, MySQL", MySqlCodec(), MYSQL),
    _codec("Debezium, MariaDB", MariaDbCodec(), MARIADB),
    _codec("Debezium, PostgreSQL", PostgresCodec(), POSTGRES),
    _codec("Flink CDC", FlinkCodec(), FLINK),
    _codec("Canal", CursorCodec(), CURSOR),
    _codec("Canal by GTID", CursorCodec(by_gtid=True, typed=True), {"@type": "x", **CURSOR}),
    Parser(
        "Connect's topic of offsets",
        lambda pair: fold_offsets([RawRecord(0, 1, *pair)]),
        json_bytes(["c", {"server": "p"}], MYSQL).map(lambda data: (data, KEY.encode()))
        | json_bytes(MYSQL).map(lambda data: (KEY.encode(), data)),
    ),
    Parser(
        "cursor of Canal in ZooKeeper", lambda data: canal_cursor(data, "here"), json_bytes(CURSOR), (ConnectorError,)
    ),
    Parser("meta.dat of Canal", in_file(_meta), json_bytes(META), (ConnectorError,)),
    Parser("offset of Debezium's engine", lambda text: value_of(text, "here"), json_texts(MYSQL), (ConnectorError,)),
    Parser("map of Java", JavaMap.from_bytes, blobs(JAVA_MAP), (NotAMapError,)),
    Parser(
        "metadata of a Flink checkpoint", lambda data: offsets_in(data, "here"), blobs(SAVEPOINT), (ConnectorError,)
    ),
    Parser("compiled plan of Flink", in_file(_plan), json_bytes(PLAN), (ConnectorError,)),
    Parser(
        "next start of a Flink job", in_file(lambda path: StartFile(path).read()), json_bytes(START), (ConnectorError,)
    ),
    Parser("lease", _lease, objects(plain(Lease("r", "2026-11-28T00:00:00+00:00", "d"))), (ValueError, TypeError)),
    Parser(
        "snapshot of PostgreSQL",
        lambda text: Visible.parse(text).open,
        texts("795:799:795,797", "3:3:"),
        (PositionError,),
    ),
    Parser(
        "version of a server",
        lambda text: ServerVersion.parse(text).capabilities,
        texts("8.0.36-28.1", "5.5.5-10.11.6-MariaDB-0+deb12u1"),
    ),
    Parser(
        "place of a statement", lambda text: place_of(text, 1, "b.000001", 4), texts(f"{UUID}:7", f"{UUID}:tag:9", "")
    ),
    Parser(
        "ids of a table", lambda text: is_rebuilt("ids:1,5-9", text), texts("ids:1,5-9", "ids:7", "0123456789abcdef")
    ),
)
