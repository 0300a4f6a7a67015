"""Observations for tests: a healthy pipeline, of which a test changes what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import address_in
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.core.kind import AnyKind
from airflow_cdc.core.observation import (
    ConnectorFacts,
    ControlFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    TaskState,
    TransportFacts,
)
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicState
from airflow_cdc.kinds import CONNECTORS, SINKS, SOURCES, TRANSPORTS, problems_for
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sources.mysql.facts import BinlogFile, MySqlFacts, MySqlReplicaFacts
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition
from airflow_cdc.transports.kafka.kind import KafkaSettings
from tests.diagnosing import stored

UUID = "75ac0c48-7f6b-11f0-9c3a-0242ac110002"
OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
TAKEN_AT = "2026-11-21T09:00:00.000+00:00"

PIPELINE = Pipeline(
    name="shop",
    source=MySqlSettings("mysql", "shop_mysql", ("shop.customers", "shop.orders")),
    connector=DebeziumSettings("debezium", "shop_connect", "shop"),
    transport=KafkaSettings("kafka", "shop_kafka"),
    sink=IcebergSettings("iceberg", "shop", "lake"),
)
SOURCE = MySqlFacts(
    server_uuid=UUID,
    server_id=1,
    version="9.7.4",
    gtid_mode="ON",
    gtid_executed=GtidSet.parse(f"{UUID}:1-100"),
    gtid_purged=GtidSet.parse(f"{UUID}:1-50"),
    binlog_files=tuple(BinlogFile(f"mysql-bin.{n:06}", 1000) for n in (8, 9, 10)),
    current=BinlogPosition("mysql-bin.000010", 1000),
    log_bin=True,
    binlog_format="ROW",
    row_image="FULL",
    uptime_s=3600,
)
REPLICA = MySqlReplicaFacts(
    conn_id="shop_replica",
    server_uuid=OTHER,
    address="replica:3306",
    gtid_mode="ON",
    gtid_executed=GtidSet.parse(f"{UUID}:1-100"),
    gtid_purged=GtidSet.parse(f"{UUID}:1-20"),
    log_bin=True,
    log_updates=True,
    binlog_format="ROW",
    row_image="FULL",
    sources=(UUID,),
)
GTID_OFFSET: dict[str, Any] = {"file": "mysql-bin.000009", "pos": 500, "gtids": f"{UUID}:1-80", "ts_sec": 1}


def connector_with(of: ConnectorFacts, pipeline: Pipeline = PIPELINE, /, **facts: Any) -> ConnectorFacts:
    """The connector with some facts replaced; an offset given as it is stored is read, and so is its configuration."""
    if isinstance(facts.get("offset"), Mapping):
        facts["offset"] = stored(facts["offset"], pipeline)
    made = replace(of, **facts)
    capture = ConnectorSettings.from_config(made.config)
    return replace(made, address=address_in(made.config), heartbeats=capture.heartbeat_ms > 0, capture=capture)


CONNECTOR = connector_with(
    ConnectorFacts(
        state="RUNNING",
        tasks=(TaskState(0, "RUNNING"),),
        config={"connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "shop"},
        offset=None,
        key={"server": "shop"},
        offsets_count=1,
    ),
    offset=GTID_OFFSET,
)
PROBLEMS = problems_for(PIPELINE)
_KINDS: tuple[AnyKind, ...] = (*SOURCES.values(), *CONNECTORS.values(), *TRANSPORTS.values(), *SINKS.values())
_ROWS = (row for kind in _KINDS if kind.rules for row in kind.rules.load().problems)
ALL_CODES = frozenset(row.code for row in (*PROBLEMS, *_ROWS))
TRANSPORT = TransportFacts({"shop.shop.orders": TopicState("shop.shop.orders", "id1", {0: (0, 10)})})
SINK = SinkFacts({name: SinkTableFacts(True, 7, Stamp(3), 10) for name in PIPELINE.source.tables})
CONTROL = ControlFacts(3)
HEALTHY = Observation(PIPELINE, TAKEN_AT, SOURCE, CONNECTOR, TRANSPORT, SINK, CONTROL)
WATERMARK = Watermark(
    MySqlPosition("mysql-bin.000009", 500, GtidSet.parse(f"{UUID}:1-80"), 1), UUID, datetime.fromisoformat(TAKEN_AT)
)


def seen(**parts: Any) -> Observation:
    """The healthy observation with whole parts replaced."""
    return replace(HEALTHY, **parts)


def with_source(**facts: Any) -> Observation:
    """The healthy observation with some facts of the server replaced."""
    return seen(source=replace(SOURCE, **facts))


def with_connector(**facts: Any) -> Observation:
    """The healthy observation with some facts of the connector replaced."""
    return seen(connector=connector_with(CONNECTOR, **facts))


def file_offset(file: str, pos: int = 500) -> dict[str, Any]:
    """The stored offset of a connector on a server without GTID."""
    return {"file": file, "pos": pos, "ts_sec": 1}


FAILED: dict[str, Any] = {"tasks": (TaskState(0, "FAILED", "io.debezium.DebeziumException: it broke"),)}
