"""Flink CDC, whose job writes Iceberg tables itself: MySQL's log was purged, and the table is put right in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stack
from airflow_cdc.core.poll import poll_until
from stack import versions
from stack.flink import start_flink
from stack.mysql import MySqlSettings
from tests.integration.flink.recovered import Copied, Followed
from tests.integration.recovering import SECONDS, writing
from tests.systems.canal_mysql import document
from tests.systems.case import Case, Differences, Recovered, Row, differences
from tests.systems.debezium_mariadb import HEX, NUMBER, STAMP, TEXT, as_text, digits, exact
from tests.systems.two_tables import Kind, plain, same, stamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

NAME = "systems_flink"
GONE = "no longer available on the server"
# the row that is written last, below the writer's and within the hours that a TIMESTAMP has
LAST = 99_999

# each with its type in Flink. Not among them: FLOAT, BIT, TIME and geometry, which have another type in the job's tables
# than a recovery reads.
KINDS: dict[str, tuple[str, Kind]] = {
    "tiny": ("INT", Kind("tinyint", "{n} % 256 - 128", TEXT, same)),
    "small": ("INT", Kind("smallint unsigned", "{n} % 65536", TEXT, same)),
    "medium": ("INT", Kind("mediumint", "-8388608 + {n}", TEXT, same)),
    "whole": ("BIGINT", Kind("int unsigned", "4294967295 - {n}", TEXT, same)),
    "huge": ("DECIMAL(20, 0)", Kind("bigint unsigned", "18446744073709551615 - {n}", TEXT, plain)),
    "total": ("DECIMAL(12, 2)", Kind("decimal(12,2)", "{n} + 0.25", TEXT, plain)),
    "wide": ("DECIMAL(38, 10)", Kind("decimal(38,10)", "1234567890123456789012345678.0123456789 - {n}", TEXT, plain)),
    "share": ("DOUBLE", Kind("double", "{n} / 3e0", "{c}", exact)),
    "day": ("DATE", Kind("date", "DATE'1990-01-01' + INTERVAL {n} DAY", TEXT, lambda v: str(v.isoformat()))),
    "at": (
        "TIMESTAMP(6)",
        Kind("datetime(6)", "TIMESTAMP'1969-12-31 23:59:59.999999' + INTERVAL {n} SECOND", STAMP, stamp),
    ),
    "seen": (
        "TIMESTAMP_LTZ(6)",
        Kind("timestamp(6) NULL", "TIMESTAMP'2026-03-29 00:30:00.000001' + INTERVAL {n} HOUR", STAMP, stamp),
    ),
    "since": ("INT", Kind("year", "1901 + {n} % 250", NUMBER, same)),
    "word": ("STRING", Kind("varchar(40)", "CONCAT('wörd |', {n}, '\\t\\\\ ')", TEXT, same)),
    "padded": ("STRING", Kind("char(12)", "CONCAT('c', {n}, '  ')", TEXT, same)),
    "story": ("STRING", Kind("mediumtext", "REPEAT(CONCAT('😀', {n}), 50)", TEXT, same)),
    "doc": ("STRING", Kind("json", "JSON_OBJECT('b', {n}, 'a', JSON_ARRAY('ü', NULL, TRUE))", TEXT, document)),
    "mood": ("STRING", Kind("enum('sad','happy')", "{n} % 2 + 1", TEXT, same)),
    "tags": ("STRING", Kind("set('a','b|','ü')", "{n} % 8", TEXT, same)),
    "raw": ("BYTES", Kind("varbinary(40)", "UNHEX(CONCAT(MD5({n}), '00ff00'))", HEX, digits)),
    "blob_": ("BYTES", Kind("blob", "UNHEX(REPEAT(MD5({n}), 20))", HEX, digits)),
}
ALL = {"id": Kind("bigint", "", TEXT, same), **{name: kind for name, (_, kind) in KINDS.items()}}
NAMES = ", ".join(f"`{name}`" for name in ("id", *KINDS))
VALUES = ", ".join(kind.value for _, kind in KINDS.values())


def rows(first: int, last: int) -> str:
    """SQL that adds rows of these numbers."""
    numbers = f"WITH RECURSIVE s(seq) AS (SELECT {first} UNION ALL SELECT seq + 1 FROM s WHERE seq < {last})"
    return f"INSERT INTO kinds ({NAMES}) {numbers} SELECT seq, {VALUES.format(n='CAST(seq AS SIGNED)')} FROM s"


@dataclass(slots=True)
class FlinkMySql:
    """One table: each table is a source of the job with a position of its own, and a job with several is refused."""

    followed: Followed
    version: str

    def fill(self) -> None:
        """See System."""
        self.followed.execute(rows(1, 1000))
        self.followed.follow()
        self.followed.execute(rows(1001, 2000))
        self.followed.wait_read()

    def fail(self) -> str:
        """See System. The job is stopped with a savepoint, so that nothing of the gap is read."""
        followed = self.followed
        followed.connector.stop(followed.database)
        followed.execute(
            "DELETE FROM kinds WHERE id BETWEEN 100 AND 399",
            "UPDATE kinds SET total = -1, day = NULL WHERE id BETWEEN 400 AND 450",
            "UPDATE kinds SET id = id + 10000 WHERE id BETWEEN 500 AND 510",
            rows(3001, 3100),
        )
        followed.purge()
        followed.go_on()
        said = [line for line in followed.failure().splitlines() if GONE in line]
        if not said:
            raise AssertionError("another failure than the purged log's")
        return said[0].strip()

    def writing(self) -> AbstractContextManager[Any]:
        """See System."""
        return writing(
            self.followed.server,
            self.followed.database,
            # far from every other key, however long the writer goes on
            f"INSERT INTO kinds ({NAMES}) SELECT 100000 + {{n}}, {VALUES.replace('{n}', '(5000 + {n})')}",
            "UPDATE kinds SET word = 'w{n}', total = total + 1 WHERE id = 500 + {n} % 50",
            "DELETE FROM kinds WHERE id = 100000 + {n} - 20",
        )

    def recover(self) -> Recovered:
        """See System."""
        done = self.followed.recover("recovery")
        return Recovered(done["decision"]["diagnosis"]["code"], done["verify"]["verdict"])

    def catch_up(self) -> None:
        """See System. The sink shows all, once it shows the row that was written last."""
        self.followed.execute("UPDATE kinds SET total = 0 WHERE id < 50", rows(LAST, LAST))
        poll_until(self._has_last, timeout=SECONDS, interval=1.0, what="the sink to show the row that was written last")

    def _has_last(self) -> bool | None:
        return True if any(row["id"] == LAST for row in self._sink_rows()) else None

    def differences(self) -> Differences:
        """See System."""
        columns = ", ".join(kind.server.replace("{c}", f"`{name}`") for name, kind in ALL.items())
        source = self.followed.execute(f"SELECT {columns} FROM kinds")
        ours = [tuple(None if value is None else as_text(value) for value in row) for row in source]
        return differences(ours, [_plain(row) for row in self._sink_rows()], 1)

    def _sink_rows(self) -> Sequence[Mapping[str, Any]]:
        """By Spark, because PyIceberg does not read the deletes that Flink writes."""
        return self.followed.sink_rows("kinds")

    def spoil(self) -> None:
        """See System. The job is stopped before, so that it does not copy these changes."""
        self.followed.connector.stop(self.followed.database)
        self.followed.execute(
            rows(9001, 9001), "DELETE FROM kinds WHERE id = 1", "UPDATE kinds SET story = 'another' WHERE id = 2"
        )


def _plain(row: Mapping[str, Any]) -> Row:
    return tuple(None if row[name] is None else kind.sink(row[name]) for name, kind in ALL.items())


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[FlinkMySql]:
    """Servers of its own, and a database with the table."""
    properties = {
        "uri": f"sqlite:///{folder.parent / 'catalog.db'}",
        "warehouse": f"file://{folder.parent / 'warehouse'}",
    }
    with stack.start(folder / "stack", ("mysql",), mysql_settings=[MySqlSettings(max_binlog_size=4194304)]) as running:
        server = running.mysql["mysql"]
        columns = ", ".join(f"`{name}` {kind.declared}" for name, (_, kind) in KINDS.items())
        server.execute(
            f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            f"CREATE TABLE {NAME}.kinds (id bigint PRIMARY KEY, {columns})",
        )
        declared = ", ".join(["`id` BIGINT", *(f"`{name}` {kind}" for name, (kind, _) in KINDS.items())])
        flink = start_flink(folder / "flink", sets=("flink-iceberg",))
        try:
            tables = {"kinds": Copied(declared, "id")}
            followed = Followed(server, flink, spark, lake, properties, folder, NAME, tables)
            yield FlinkMySql(
                followed, f"MySQL {server.version}, Flink CDC {versions.FLINK_CDC}, Flink {versions.FLINK}"
            )
        finally:
            flink.cancel(NAME)
            flink.stop()


CASE = Case("Flink CDC MySQL", "the log was purged past the savepoint's GTIDs", opened)
