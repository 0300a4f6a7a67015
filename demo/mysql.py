"""The shop on MySQL, and on MariaDB where that is told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from demo import interference
from demo.make import Settings
from stack import connections
from stack.connect import MARIADB_CLASS
from stack.installation import MySqlSettings
from stack.shop import connectors, dataset
from stack.shop.check import TableCheck, check
from stack.shop.gap import Gap, make_gap
from stack.versions import MARIADB, MYSQL_TESTED, mysql_series

if TYPE_CHECKING:
    from stack.cluster import Stack
    from stack.connect import ConnectWorker
    from stack.mysql import MySqlServer

# the keep-alive as it is by default
PEER = {**connectors.FAST_SNAPSHOT, "connect.keep.alive.interval.ms": "60000", "snapshot.mode": "initial"}


@dataclass(frozen=True, slots=True)
class MySql:
    """See Make. The series is the one that STACK_MYSQL chooses."""

    server: MySqlServer

    kind: ClassVar[str] = "mysql"
    title: ClassVar[str] = "MySQL"
    services: ClassVar[tuple[str, ...]] = ("mysql", "kafka", "connect")
    writer: ClassVar[str] = "stack.shop.writer"
    method: ClassVar[str] = "snapshot.mode=when_needed"
    keeps_others_out: ClassVar[bool] = True
    made: ClassVar[frozenset[str]] = frozenset(MYSQL_TESTED) - MARIADB  # the series of this make

    @classmethod
    def series(cls) -> str:
        """Of the server that is started."""
        return mysql_series()

    @classmethod
    def servers(cls) -> dict[str, Any]:
        """See Make."""
        return {"mysql_settings": [MySqlSettings(series=cls.series())]}

    @classmethod
    def of(cls, stack: Stack) -> Self | None:
        """See Make."""
        server = stack.mysql.get("mysql")
        return cls(server) if server and server.settings.series in cls.made else None

    def connection(self) -> connections.Connection:
        """See Make."""
        return connections.to_mysql(self.server)

    def source(self) -> Mapping[str, str]:
        """See Make."""
        return {}

    def fill(self, rows: int) -> Mapping[str, int]:
        """See Make."""
        with closing(self.server.connect(autocommit=False)) as connection:
            dataset.create(connection)
            return dataset.fill(connection, rows)

    def connector(self) -> Settings:
        """Settings beside those of an ordinary MySQL connector."""
        return {}

    def connectors(self, bootstrap: str) -> dict[str, Settings]:
        """See Make."""
        modes = {"shop": {"snapshot.mode": "no_data"}, "peer": PEER}
        return {
            name: connectors.config(name, self.server, bootstrap, **{**mode, **self.connector()})
            for name, mode in modes.items()
        }

    def streams(self, name: str, offset: Mapping[str, Any]) -> bool:  # noqa: ARG002 - the offset says it
        """See Make."""
        return connectors.copied(offset)

    def break_log(self, *, alter: bool = True) -> Gap:
        """See Make."""
        with closing(self.server.connect()) as connection:
            return make_gap(connection, alter=alter)

    def lost(self, gap: Gap) -> str:
        """See Make."""
        return f"purged {len(gap.purged)} binlog files"

    def interfere(self) -> dict[str, str]:
        """See Make."""
        return interference.interfere(self.server)

    def heal(self, worker: ConnectWorker, settings: Mapping[str, str]) -> None:
        """See Make."""
        connectors.heal_itself(worker, settings)

    def end(self) -> str:
        """See Make."""
        return str(self.server.execute("SELECT @@GLOBAL.gtid_executed")[0][0])

    def has_read(self, name: str, offset: Mapping[str, Any], end: str) -> bool:  # noqa: ARG002 - the offset says it
        """See Make."""
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT GTID_SUBSET(%s, %s)", (end, offset.get("gtids", "")))
            return bool(cursor.fetchall()[0][0])

    def keys(self, table: str, columns: tuple[str, ...]) -> set[tuple[str, ...]]:
        """See Make."""
        rows = self.server.execute(f"SELECT {', '.join(columns)} FROM {dataset.SCHEMA}.{table}")
        return {tuple(str(value) for value in row) for row in rows}

    def check(self, lake: Mapping[str, str], namespace: str) -> list[TableCheck]:
        """See Make."""
        server = self.server
        admin = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        return check(admin, lake, dataset.SCHEMA, namespace, list(dataset.TABLES))


class MariaDb(MySql):
    """See Make. Its connector does not see by itself that its place was purged, and nothing prevents a purge."""

    __slots__ = ()

    kind: ClassVar[str] = "mariadb"
    title: ClassVar[str] = "MariaDB"
    method: ClassVar[str] = "offset deleted, snapshot.mode=initial"
    keeps_others_out: ClassVar[bool] = False
    made: ClassVar[frozenset[str]] = MARIADB

    @classmethod
    def series(cls) -> str:
        """See MySql: STACK_MYSQL's, if that is one."""
        chosen = mysql_series()
        return chosen if chosen in MARIADB else "mariadb"

    def connector(self) -> Settings:
        """See MySql."""
        return {
            "connector.class": MARIADB_CLASS,
            "database.ssl.mode": "disable",
            "enable.time.adjuster": "false",
            "driver.allowPublicKeyRetrieval": "",
            "driver.yearIsDateType": "false",  # its driver has no date for the year 0, and the snapshot would fail
        }

    def interfere(self) -> dict[str, str]:
        """Nothing: it would go through, and the run would fail as it should."""
        return {}

    def heal(self, worker: ConnectWorker, settings: Mapping[str, str]) -> None:
        """See Make."""
        connectors.copy_again(worker, settings)

    def end(self) -> str:
        """See Make."""
        return str(self.server.execute("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])

    def has_read(self, name: str, offset: Mapping[str, Any], end: str) -> bool:  # noqa: ARG002 - the offset says it
        """See Make. There is one domain, whose numbers rise."""
        held = str(offset.get("gtids") or "")
        return bool(held) and int(held.rpartition("-")[2]) >= int(end.rpartition("-")[2])
