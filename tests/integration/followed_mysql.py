"""A MySQL database whose changes are followed in some special way, and the recovery that each such way has to pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from stack.process import wait_until
from tests.integration.mariadb.support import purge
from tests.integration.recovering import SECONDS, FollowedDatabase, meanwhile


@dataclass(slots=True)
class FollowedMySql(FollowedDatabase):
    """A MySQL database with a table `t` of an `id` and a `v`."""

    def set_up_mysql(self) -> None:
        """The run over this database."""
        server = self.server
        source = MySqlSource(MySqlEndpoint(server.host, server.port, server.cdc.user, server.cdc.password))
        names = tuple(f"{self.database}.{table}" for table in self.tables)
        self.set_up(source, MySqlSettings("mysql", "m", names), MySqlCodec())

    def execute(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        rows: Sequence[tuple[Any, ...]] = self.server.execute(f"USE {self.database}", *statements)
        return rows

    def stored(self) -> Mapping[str, Any] | None:
        return self.connector.committed_offset(self.database, self.database)

    def sent(self) -> int:
        """How many events of `t` are in its topic."""
        topic = f"{self.database}.{self.database}.t"
        state = self.base.clients.transport.topic_states([topic]).get(topic)
        return 0 if state is None else sum(stop - start for start, stop in state.partitions.values())

    def wait_sent(self, count: int) -> None:
        wait_until(lambda: self.sent() >= count or None, timeout=SECONDS, what=f"{count} events")

    def source_rows(self, table: str, order: Sequence[str]) -> Sequence[Sequence[Any]]:
        """See FollowedDatabase: by PyMySQL."""
        return self.execute(f"SELECT {', '.join(order)} FROM {table}")

    def plain(self, row: Sequence[Any]) -> tuple[Any, ...]:
        """See FollowedDatabase."""
        return tuple(row)


def recover_a_purge(followed: FollowedMySql) -> None:
    """Rows change while nothing follows, the log is purged, and a writer goes on while it is put right."""
    followed.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    followed.apply("apply-1")
    followed.connector.stop(followed.database)
    followed.execute(
        "DELETE FROM t WHERE id = 1", "UPDATE t SET v = 'changed' WHERE id = 2", "INSERT INTO t VALUES (4, 'd')"
    )
    purge(followed.server)
    followed.connector.resume(followed.database)
    assert "no longer available" in followed.failure()

    def write(stop: Event) -> None:
        connection = followed.server.connect(database=followed.database, autocommit=True)
        with connection, connection.cursor() as cursor:
            number = 100
            while not stop.wait(0.05):
                number += 1
                cursor.execute(f"INSERT INTO t VALUES ({number}, 'live')")
                cursor.execute(f"DELETE FROM t WHERE id = {number - 20}")

    with meanwhile(write):
        done = followed.recover("rec-1")
    assert done["decision"]["diagnosis"]["code"] == "GTID_PURGED"
    assert done["verify"]["verdict"] == "MATCH"
    followed.execute("UPDATE t SET v = 'after' WHERE id = 3")
    followed.apply("apply-2")
    assert followed.differences("t", ("id", "v")) == ([], [])
