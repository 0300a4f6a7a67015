"""The shop on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from demo.make import Settings
from stack import connections
from stack.postgres import PostgresSettings
from stack.shop import connectors
from stack.shop.check import TableCheck, compare
from stack.shop.dataset import SCHEMA, TABLES
from stack.shop.gap import Gap
from stack.shop.postgres import dataset
from stack.shop.postgres.gap import make_gap
from stack.shop.postgres.rows import PostgresRows

if TYPE_CHECKING:
    from stack.cluster import Stack
    from stack.connect import ConnectWorker
    from stack.postgres import PostgresServer

CONNECTORS = {"shop": {"snapshot.mode": "no_data"}, "peer": {**connectors.FAST_SNAPSHOT, "snapshot.mode": "initial"}}


@dataclass(frozen=True, slots=True)
class Postgres:
    """See Make. The slot and the publication of a connector have its name."""

    server: PostgresServer

    kind: ClassVar[str] = "postgres"
    title: ClassVar[str] = "PostgreSQL"
    services: ClassVar[tuple[str, ...]] = ("kafka", "connect", "postgres")
    writer: ClassVar[str] = "stack.shop.postgres.writer"
    method: ClassVar[str] = "snapshot.mode=when_needed"
    keeps_others_out: ClassVar[bool] = False

    @classmethod
    def servers(cls) -> dict[str, Any]:
        """See Make."""
        return {"postgres_settings": [PostgresSettings()]}

    @classmethod
    def of(cls, stack: Stack) -> Self | None:
        """See Make."""
        server = stack.postgres.get("postgres")
        return cls(server) if server else None

    def connection(self) -> connections.Connection:
        """See Make."""
        return connections.to_postgres(self.server, SCHEMA)

    def source(self) -> Mapping[str, str]:
        """See Make."""
        return {"slot": "shop", "publication": "shop"}

    def fill(self, rows: int) -> Mapping[str, int]:
        """See Make."""
        dataset.create(self.server)
        return dataset.fill(self.server, rows)

    def connectors(self, bootstrap: str) -> dict[str, Settings]:
        """See Make."""
        return {
            name: connectors.postgres_config(name, self.server, bootstrap, **more) for name, more in CONNECTORS.items()
        }

    def streams(self, name: str, offset: Mapping[str, Any]) -> bool:
        """See Make. A connector that took no snapshot stores nothing before the first event: its slot is in use."""
        return (
            self._slot(name, "active") if CONNECTORS[name]["snapshot.mode"] == "no_data" else connectors.copied(offset)
        )

    def break_log(self, *, alter: bool = True) -> Gap:  # noqa: ARG002 - only MySQL's shop is told without
        """See Make."""
        return make_gap(self.server, tuple(CONNECTORS))

    def lost(self, gap: Gap) -> str:
        """See Make."""
        return f"dropped {len(gap.purged)} replication slots"

    def interfere(self) -> dict[str, str]:
        """Nothing: the slot keeps the log, and whoever may replicate can drop it; a changed definition is seen afterwards."""
        return {}

    def heal(self, worker: ConnectWorker, settings: Mapping[str, str]) -> None:
        """See Make."""
        connectors.heal_itself(worker, settings)

    def end(self) -> str:
        """See Make."""
        return str(self.server.execute("SELECT pg_current_wal_lsn()")[0][0])

    def has_read(self, name: str, offset: Mapping[str, Any], end: str) -> bool:  # noqa: ARG002 - the slot follows it
        """See Make. A connector is only ever at an event: each look leaves an empty message behind the end."""
        self.server.execute("SELECT pg_logical_emit_message(true, 'demo', '')", dbname=SCHEMA)
        return self._slot(name, f"confirmed_flush_lsn >= '{end}'")

    def _slot(self, name: str, condition: str) -> bool:
        found = self.server.execute(f"SELECT {condition} FROM pg_replication_slots WHERE slot_name = '{name}'")
        return bool(found and found[0][0])

    def keys(self, table: str, columns: tuple[str, ...]) -> set[tuple[str, ...]]:
        """See Make."""
        rows = self.server.execute(f"SELECT {', '.join(columns)} FROM {SCHEMA}.{table}", dbname=SCHEMA)
        return {tuple(str(value) for value in row) for row in rows}

    def check(self, lake: Mapping[str, str], namespace: str) -> list[TableCheck]:
        """See Make."""
        server = self.server
        admin = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        return compare(PostgresRows({**admin, "dbname": SCHEMA}, SCHEMA), lake, namespace, list(TABLES))
