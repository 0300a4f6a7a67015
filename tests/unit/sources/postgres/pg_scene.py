"""A healthy PostgreSQL pipeline as an observation, of which a test changes what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import address_in
from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec, value_at
from airflow_cdc.core.observation import ConnectorFacts, Observation, SinkFacts, SinkTableFacts, TaskState
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.sources.postgres.facts import Identity, PgFacts, Publication, ServerFacts, TableFacts
from airflow_cdc.sources.postgres.kind import PostgresSettings
from airflow_cdc.sources.postgres.position import Lsn
from airflow_cdc.sources.postgres.slot import Slot, WalStatus, forecast
from tests.unit.builders import PIPELINE, seen

TABLES = ("public.customers", "public.orders")
PG_PIPELINE = replace(PIPELINE, source=PostgresSettings("postgres", "shop_pg", TABLES, slot="shop", publication="shop"))
CONFIG = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "shop",
    "database.hostname": "10.0.0.7",
    "slot.name": "shop",
    "publication.name": "shop",
    "publication.autocreate.mode": "disabled",
    "table.include.list": ",".join(TABLES),
    "heartbeat.interval.ms": "10000",
}
STORED, END = 0x1788A40, 0x1790000
SERVER = ServerFacts(
    "7711398449993377731", 1, Lsn(END), "18.6", 180006, "shop", False, "2026-11-21T09:00:00+00:00", 3600.0, 1000.0
)
SLOT = Slot(
    "shop",
    "pgoutput",
    "shop",
    77,
    restart=Lsn(STORED - 0x100),
    confirmed=Lsn(STORED - 0x40),
    wal_status=WalStatus.RESERVED,
)
PUBLICATION = Publication(
    "shop", frozenset({"insert", "update", "delete", "truncate"}), tables=dict.fromkeys(TABLES, ())
)
TABLE = TableFacts(TABLES[0], Identity.DEFAULT, has_key=True)


def facts(slot: Slot | None = SLOT, **changes: Any) -> PgFacts:
    """The server's facts."""
    log = changes.get("log", SERVER)
    made: dict[str, Any] = {
        "version": log.version,
        "uptime_s": 3600,
        "address": "10.0.0.7:5432",
        "log": log,
        "settings": {"wal_level": "logical", "max_wal_senders": "10", "max_slot_wal_keep_size": "-1"},
        "wal_senders": 1,
        "slot_name": "shop",
        "slot": slot,
        "publication_name": "shop",
        "publication": PUBLICATION,
        "tables": {name: replace(TABLE, name=name) for name in TABLES},
        "forecast": None if slot is None else forecast(slot, log.lsn, log.wal_bytes_s, changes.pop("idle", 0)),
    }
    return PgFacts(**{**made, **changes})


def connector(offset: Mapping[str, Any] | None = None, *, state: str = "RUNNING", trace: str = "") -> ConnectorFacts:
    """The connector with a stored offset (default: in order); at rest it has no task."""
    value = value_at(Lsn(STORED)) if offset is None else dict(offset)
    tasks = (TaskState(0, "FAILED" if trace else "RUNNING", trace),) if state == "RUNNING" else ()
    key = {"server": "shop"}
    return ConnectorFacts(
        state=state,
        tasks=tasks,
        config=CONFIG,
        offset=PostgresCodec().read(value, key) if value else None,
        key=key if value else None,
        offsets_count=1 if value else 0,
        address=address_in(CONFIG),
        heartbeats=True,
        capture=ConnectorSettings.from_config(CONFIG),
    )


def observed(
    source: PgFacts | None = None, mirror: ConnectorFacts | None = None, *, read_from: str = ""
) -> Observation:
    """All parts at once. `read_from`: the server that the sink's tables were read from."""
    mark = {"server": read_from} if read_from else None
    sink = SinkFacts({name: SinkTableFacts(True, 7, Stamp(3, watermark=mark), 10) for name in TABLES})
    return seen(pipeline=PG_PIPELINE, source=source or facts(), connector=mirror or connector(), sink=sink)
