"""A PostgreSQL database that a real connector follows into the lake."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from airflow_cdc.connectors.debezium.offsets.postgres import PostgresCodec
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.kind import PostgresSettings
from stack.process import wait_until
from tests.integration.postgres.support import connector_config, endpoint
from tests.integration.recovering import SECONDS, FollowedDatabase, meanwhile

# the columns of the two tables that the fixture `followed` makes, and a row of the first
ORDERS = ("id", "v", "total", "at", "day", "seen", "ok", "note", "raw", "tags", "share")
EVENTS = ("n", "t")
MODES = {
    "decimal.handling.mode": "string",
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
}
ROW = (
    "{0}, 'v' || {0}, {0} + 0.25, TIMESTAMP '2026-01-02 03:04:05.000006' + {0} * INTERVAL '1 s', DATE '2026-01-01' + {0},"
    " TIMESTAMPTZ '2026-01-02 03:04:05.5+02', {0} % 2 = 0, CASE WHEN {0} <= 20 THEN repeat('long', 1000) ELSE 'short' END, '\\x00ff'::bytea,"
    " ARRAY['a', NULL, 'b|' || {0}], {0}::float8 / 3"
)


@dataclass(slots=True)
class Followed(FollowedDatabase):
    """Tables of the schema public, with a slot and a publication of the database's name."""

    def __post_init__(self) -> None:
        name, full = self.database, tuple(f"public.{table}" for table in self.tables)
        source = PostgresSource(replace(endpoint(self.server, name), slot=name, publication=name))
        settings = PostgresSettings("postgres", "p", full, slot=name, publication=name, database=name)
        self.set_up(source, settings, PostgresCodec())

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.server.execute(*statements, dbname=self.database)
        return rows

    def follow(self, settings: Mapping[str, str]) -> None:
        """Start the connector on the empty tables, and stamp their mirrors at the beginning of their topics."""
        self.connect(settings)
        self.mirror("public")

    def connect(self, settings: Mapping[str, str]) -> None:
        """Start the connector; nothing is mirrored."""
        name = self.database
        own = {
            "snapshot.mode": "no_data",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.replace.null.with.default": "false",
        }
        tables = [f"public.{table}" for table in self.tables]
        self.connector.create(name, {**connector_config(self.server, name, name, tables), **own, **settings})
        wait_until(lambda: self._active() or None, timeout=SECONDS, what="the connector to read its slot")

    def _active(self) -> bool:
        slot = self.source.facts().slot
        return slot is not None and slot.active

    def wait_read(self) -> None:
        """See FollowedDatabase."""
        position = self.source.position().position
        wait_until(
            lambda: self._past(position), timeout=SECONDS, what=f"the connector to commit an offset past {position}"
        )

    def _past(self, position: Any) -> bool | None:
        stored = self.connector.facts(self.database).offset
        return True if stored and stored.position and stored.position.covers(position) else None

    def source_rows(self, table: str, order: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See FollowedDatabase: by psycopg."""
        columns = ", ".join(f'"{name}"' for name in order)
        with self.server.connect(dbname=self.database) as connection:
            rows: Sequence[Sequence[Any]] = connection.execute(f"SELECT {columns} FROM public.{table}").fetchall()
        return rows

    def plain(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """See FollowedDatabase."""
        return tuple(_value(value) for value in row)


def _value(value: Any) -> Any:
    """Moments in UTC, lists as tuples, the rest as it is."""
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    if isinstance(value, list):
        return tuple(map(_value, value))
    return bytes(value) if isinstance(value, memoryview) else value


def writing(followed: Followed, *statements: str, pause: float = 0.02) -> AbstractContextManager[threading.Event]:
    """Run the statements again and again meanwhile, {n} counting up; what they raise is raised at the end."""

    def write(stop: threading.Event) -> None:
        with followed.server.connect(dbname=followed.database) as connection:
            n = 0
            while not stop.wait(pause):
                n += 1
                with connection.transaction():
                    for statement in statements:
                        connection.execute(statement.format(n=n))

    return meanwhile(write)
