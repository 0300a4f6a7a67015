"""Every decoder of Debezium's events does what airflow_cdc.testing asks of any."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.core.position import Position, Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.position import Lsn, PgPosition
from airflow_cdc.sources.postgres.types import column_of
from airflow_cdc.spark_apps.adapters import debezium
from airflow_cdc.spark_apps.adapters.mariadb import MariaDbLog
from airflow_cdc.spark_apps.adapters.mysql import MySqlLog
from airflow_cdc.spark_apps.adapters.postgres import PostgresLog
from airflow_cdc.spark_apps.ports import EventDecoder, SourceLog
from airflow_cdc.testing.events import EventBench, EventDecoderContract, Image, Record
from tests.apply_support import CONFIG, ITEMS, UUID

TS_MS = 1_800_000_000_000
FILE = "mysql-bin.000003"
_KINDS = {"id": "int8", "name": "text", "qty": "int4"}
_PG_COLUMNS = tuple(
    column_of(PgColumn(name, at, kind, kind, nullable=name != "id"))
    for at, (name, kind) in enumerate(_KINDS.items(), 1)
)
PG_ITEMS = Table("shop", "items", _PG_COLUMNS, ("id",))


@dataclass(frozen=True, slots=True)
class DebeziumBench:
    """Records as Debezium's JSON has them, without a schema envelope.

    `source`: the block of a table's change, by the number of its transaction and its row there; `beside`: fields of the
    event beside it. `holding`: the position of a view that holds the transactions up to a number.
    """

    decoder: EventDecoder
    log: SourceLog
    keyed: Table
    source: Callable[[Table, int, int], dict[str, Any]]
    holding: Callable[[int], Position]
    beside: Callable[[int], Mapping[str, Any]] = lambda _row: {}

    @property
    def keyless(self) -> Table:
        return replace(self.keyed, name="events", key=())

    def event(
        self,
        table: Table,
        op: str,
        before: Image | None,
        after: Image | None,
        *,
        at: int,
        row: int = 0,
        snapshot: str = "",
    ) -> Record:
        """See EventBench."""
        told = {"first": "first", "later": "true"}.get(snapshot, "false")
        block = {**self.source(table, at, row), "ts_ms": TS_MS + at * 1000, "snapshot": told}
        return self._key(table, after or before), _json(
            {"op": op, "before": before, "after": after, "source": block, **self.beside(row)}
        )

    def tombstone(self, table: Table, key: Image) -> Record:
        """See EventBench."""
        return self._key(table, key), None

    def placeless(self, table: Table, after: Image) -> Record:
        """See EventBench."""
        return self._key(table, after), _json({"op": "c", "before": None, "after": after})

    def watermark(self, at: int) -> Watermark:
        """See EventBench. Taken between two transactions."""
        return Watermark(self.holding(at), UUID, datetime.fromtimestamp(TS_MS / 1000 + at + 0.5, UTC))

    def _key(self, table: Table, image: Image | None) -> bytes | None:
        return _json({name: (image or {"id": 1})[name] for name in table.key}) if table.key else None


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def in_binlog(gtid: Callable[[int], str | None]) -> Callable[[Table, int, int], dict[str, Any]]:
    """The block of MySQL and MariaDB."""

    def block(table: Table, at: int, row: int) -> dict[str, Any]:
        place = {"file": FILE, "pos": 1000 * at, "row": row, "server_id": 1, "gtid": gtid(at)}
        return {"db": table.schema, "table": table.name, **place}

    return block


def in_wal(table: Table, at: int, row: int) -> dict[str, Any]:
    """The block of PostgreSQL. Rows of one COPY have one place in the log."""
    lsn = 24_676_000 + 1000 * at
    return {
        "schema": table.schema,
        "table": table.name,
        "txId": 700 + at,
        "lsn": lsn,
        "sequence": f'["{lsn - 900}","{lsn}"]',
    }


def settings(connector: str) -> ConnectorSettings:
    return ConnectorSettings.from_config({**CONFIG, "connector.class": f"io.debezium.connector.{connector}"})


MYSQL = settings("mysql.MySqlConnector")


class TestMySql(EventDecoderContract):
    """By GTID."""

    @pytest.fixture
    def events(self) -> EventBench:
        source = in_binlog(lambda at: f"{UUID}:{at}")
        return DebeziumBench(
            debezium.Events(MYSQL),
            MySqlLog(),
            ITEMS,
            source,
            lambda at: MySqlPosition(FILE, 1000 * at + 500, GtidSet.parse(f"{UUID}:1-{at}"), 1),
        )


class TestMySqlByFile(EventDecoderContract):
    """A server without GTIDs."""

    @pytest.fixture
    def events(self) -> EventBench:
        source = in_binlog(lambda _at: None)
        return DebeziumBench(
            debezium.Events(MYSQL),
            MySqlLog(),
            ITEMS,
            source,
            lambda at: MySqlPosition(FILE, 1000 * at + 500, None, 1),
        )


class TestMariaDb(EventDecoderContract):
    @pytest.fixture
    def events(self) -> EventBench:
        source = in_binlog(lambda at: f"0-1-{at}")
        return DebeziumBench(
            debezium.Events(settings("mariadb.MariaDbConnector")),
            MariaDbLog(),
            ITEMS,
            source,
            lambda at: MariaDbPosition(FILE, 1000 * at + 500, Domains.parse(f"0-1-{at}"), 1),
        )


class TestPostgres(EventDecoderContract):
    @pytest.fixture
    def events(self) -> EventBench:
        return DebeziumBench(
            debezium.Events(settings("postgresql.PostgresConnector")),
            PostgresLog(),
            PG_ITEMS,
            in_wal,
            # between them a transaction that is still open
            lambda at: PgPosition(Lsn(24_676_000 + 1000 * at), 1, "7", f"{701 + at}:{702 + at}:{701 + at}"),
            lambda row: {"transaction": {"id": "t", "total_order": row + 1, "data_collection_order": 1}},
        )
