"""What a large table costs: `python -m tests.bench.large --rows 2000000 --wide 100000`.

On a real MySQL server, in one driver that is warm (the second recovery counts), with Java's own compiler settings:
- the snapshot (step `recover`) against a raw dump: `SELECT *` over one connection, by a client that prints the rows to
  nowhere, `mariadb --quick` (beside it: their bytes, read and thrown away; the same rows read by Spark and written nowhere);
- verify, with nothing in flight, against the slower side's bare digest query;
- diff_repair against full_snapshot, each after 1 % of the keys, next to each other, changed unseen and the log was purged;
- all steps with `--rows` rows against a tenth of them;
- all steps with `--tables` tables of 1,000 rows against one table with as many rows.
A table of nine narrow columns, and one of 4 KB rows. Writes build/bench/large.json; ends with 1 if a goal is not held, or
if a recovery does not end as MATCH or a row differs by the suite's own comparison.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.chunk import Chunk
from airflow_cdc.decisions.compare.leaves import IntegerLeaves, LeafScheme
from airflow_cdc.flows.capture import captured
from airflow_cdc.sources.mysql import encoding
from airflow_cdc.spark_apps.compare.digest import digest_sql
from airflow_cdc.spark_apps.driver.systems import row_reader
from stack import debian, jvm
from tests.adversary.world import Pipe, Servers, servers
from tests.bench import many_tables
from tests.bench.recovered import Measured, differing, recovered
from tests.bench.result import FOLDER, Ratio, write_all

MODES = {"topic.creation.default.partitions": "1"}
# Java's own compilers: the quick one alone, which the stack sets for short drivers, takes twice as long for large digests
OPTIONS = {"spark.driver.extraJavaOptions": "-Duser.timezone=UTC", "spark.driver.memory": "3g"}
NUMBERS = (
    "WITH d AS (SELECT 0 i UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6"
    " UNION SELECT 7 UNION SELECT 8 UNION SELECT 9), n AS (SELECT a.i + 10 * b.i + 100 * c.i + 1000 * e.i + 10000 * f.i i"
    " FROM d a, d b, d c, d e, d f)"
)
BLOCK = 100_000
LEAVES = 1024
SHARE = 100  # one key in so many changes


@dataclass(frozen=True, slots=True)
class Kind:
    """A table, how its rows are made from `i`, and the goals that it has."""

    name: str
    columns: str
    row: str
    change: str
    snapshot: float
    repair: float


NARROW = Kind(
    "narrow",
    "id BIGINT PRIMARY KEY, customer INT NOT NULL, status VARCHAR(12), amount DECIMAL(12,2), qty INT, at DATETIME(3),"
    " note VARCHAR(40), flag TINYINT NOT NULL, changed TIMESTAMP NOT NULL",
    "{i}, {i} % 9973, ELT(1 + {i} % 4, 'new', 'paid', 'sent', 'done'), {i} % 100000 / 100, {i} % 17,"
    " '2026-01-01' + INTERVAL {i} SECOND, CONCAT('note of ', {i}), {i} % 2, '2026-01-01 00:00:00'",
    "qty = qty + 1",
    1 / 0.7,
    0.5,
)
THIN = Kind("thin", "id INT PRIMARY KEY, a VARCHAR(20), b INT NOT NULL", "{i}, CONCAT('row ', {i}), 0", "b = 1", 0, 0)
WIDE = Kind(
    "wide",
    "id BIGINT PRIMARY KEY, body VARCHAR(4096) CHARACTER SET utf8mb4, changed INT NOT NULL",
    "{i}, CONCAT(REPEAT(MD5({i}), 120), {i}), 0",
    "changed = changed + 1",
    1 / 0.8,
    0.3,
)


def main() -> int:
    """Measure both tables; 0 if every goal is held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the narrow table")
    parser.add_argument("--wide", type=int, default=100_000, help="rows of 4 KB; 0 leaves them out")
    parser.add_argument("--tables", type=int, default=500, help="tables of 1,000 rows; 0 leaves them out")
    parser.add_argument("--stack", default="", help="the folder of a stack that runs already")
    asked = parser.parse_args()
    folder = FOLDER.absolute() / f"large-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    jvm.archive()
    with servers(folder, asked.stack, OPTIONS) as running:
        small = tenth(running, asked.rows // 10)
        rows = [*measured(running, NARROW, asked.rows, small)]
        rows += [*measured(running, WIDE, asked.wide)] if asked.wide else []
        rows += [many_against_one(running, asked.tables)] if asked.tables else []
    return write_all(rows, FOLDER / "large.json")


def tenth(running: Servers, rows: int) -> Measured:
    """A recovery of so many narrow rows, in a warm driver."""
    with pipe_of(running, NARROW, rows) as pipe:
        recovered(pipe, "full_snapshot", Measured(1, f"{rows:,} rows, cold: 1"))
        warm = recovered(pipe, "full_snapshot", Measured(1, f"{rows:,} rows: 1"))
        assert not differing(pipe, pipe.tables)
    return warm


def measured(running: Servers, kind: Kind, rows: int, small: Measured | None = None) -> Iterator[Ratio]:
    """The rows of one table."""
    what = f"{rows:,} {kind.name} rows"
    with pipe_of(running, kind, rows) as pipe:
        recovered(pipe, "full_snapshot", Measured(1, f"{what}, first: 1"))
        again = recovered(pipe, "full_snapshot", Measured(1, f"{what}: 1"))
        raw, digests = best(partial(dumped, pipe, kind.name)), bare_digests(pipe, kind.name)
        unparsed = best(partial(bytes_of, pipe, kind.name))
        unwritten = best(lambda: read_only(pipe, kind.name, rows))
        changed_and_recovered(pipe, kind, rows, "diff_repair")  # as cold as the first snapshot was
        repair, full = (changed_and_recovered(pipe, kind, rows, way) for way in ("diff_repair", "full_snapshot"))
        load = round(os.getloadavg()[0], 1)
        also = {"the bytes, unparsed": unparsed, "read and written nowhere": unwritten}
        more: Mapping[str, object] = {"load": load, **also, "steps": again.steps}
        yield Ratio(
            f"snapshot of {what}, seconds, against a raw dump", again.steps["recover"], raw, kind.snapshot, more
        )
        slower = max(digests.values())
        yield Ratio(f"verify of {what} against the slower bare digest", again.steps["verify"], slower, 2.0, digests)
        yield Ratio(
            f"diff_repair of {what}, 1 % changed, against full_snapshot", repair.seconds, full.seconds, kind.repair,
            {"repair": repair.steps, "full": full.steps},
        )  # fmt: skip
        if small:
            yield Ratio(
                f"all steps with {what} against a tenth of them", again.seconds, small.seconds, 10.5, small.steps
            )


def many_against_one(running: Servers, tables: int, rows: int = 1_000) -> Ratio:
    """All steps of a recovery of so many small tables against those of one large one."""
    with many_tables.pipe_of(running, [f"t{number:05}" for number in range(tables)], rows) as pipe:
        many = recovered(pipe, "full_snapshot", Measured(tables))
        assert not differing(pipe, pipe.tables)
    with pipe_of(running, THIN, tables * rows) as pipe:
        one = recovered(pipe, "full_snapshot", Measured(1, f"{tables * rows:,} thin rows: 1"))
        assert not differing(pipe, pipe.tables)
    more = {"many": many.steps, "one": one.steps}
    return Ratio(
        f"{tables} tables of {rows:,} rows against one of {tables * rows:,}", many.seconds, one.seconds, 3.0, more
    )


@contextmanager
def pipe_of(running: Servers, kind: Kind, rows: int) -> Iterator[Pipe]:
    """The table with its rows, followed by a connector; taken away at the end."""
    pipe = Pipe(running, f"large{rows}", [kind.name], MODES)
    try:
        with closing(pipe.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(f"CREATE TABLE {kind.name} ({kind.columns})")
            for begin in range(0, rows, BLOCK):
                values = kind.row.format(i=f"({begin} + i)")
                where = f"WHERE i < {min(BLOCK, rows - begin)}"
                cursor.execute(f"INSERT INTO {kind.name} {NUMBERS} SELECT {values} FROM n {where}")
            cursor.execute(f"ANALYZE TABLE {kind.name}")
        pipe.follow()
        yield pipe
    finally:
        pipe.end()


def changed_and_recovered(pipe: Pipe, kind: Kind, rows: int, strategy: str) -> Measured:
    """Change one key in a hundred, next to each other, behind the connector's back, purge the log, and recover."""
    pipe.pause()
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        first = rows // 3
        cursor.execute(f"UPDATE {kind.name} SET {kind.change} WHERE id >= {first} AND id < {first + rows // SHARE}")
    pipe.purge()
    result = recovered(pipe, strategy, Measured(1, f"{rows:,} {kind.name} rows, {strategy}: 1"))
    assert not differing(pipe, pipe.tables)
    return result


# --- what it is measured against -------------------------------------------------------------------------------------


def best(act: Callable[[], object], times: int = 3) -> float:
    """Seconds of the quickest of some tries."""

    def tried() -> float:
        began = time.monotonic()
        act()
        return time.monotonic() - began

    return round(min(tried() for _ in range(times)), 2)


def dumped(pipe: Pipe, table: str) -> None:
    """Read all rows with a client that keeps none of them, and print them to nowhere."""
    server = pipe.servers.mysql
    client = debian.command(debian.unpacked(debian.MARIADB_CLIENT), "usr/bin/mariadb")
    login = ("--no-defaults", "--quick", f"--host={server.host}", f"--port={server.port}", f"--user={server.user}")
    command = [*client, *login, "-e", f"SELECT * FROM {table}", pipe.database]
    subprocess.run(command, env={"MYSQL_PWD": server.password}, check=True, stdout=subprocess.DEVNULL, timeout=600)


def bytes_of(pipe: Pipe, table: str) -> int:
    """Read all rows over one connection as the server sends them, unparsed; the number of bytes."""
    with closing(pipe.connect()) as connection:
        text = f"SELECT * FROM {table}".encode()
        connection._sock.sendall(struct.pack("<I", len(text) + 1) + b"\x03" + text)  # type: ignore[attr-defined]
        return _read_to_end(connection._sock)  # type: ignore[attr-defined]


def read_only(pipe: Pipe, name: str, rows: int) -> None:
    """Read all rows by Spark as a snapshot does, in as many tasks as run at once, and write them nowhere."""
    run, spark = pipe.run(), pipe.servers.spark
    (table,) = captured(run, [f"{pipe.database}.{name}"]).values()
    at_once = spark.sparkContext.defaultParallelism
    ends = [(rows * number // at_once,) for number in range(1, at_once)]
    chunks = [Chunk(lo, hi) for lo, hi in zip([None, *ends], [*ends, None], strict=True)]
    frame = row_reader(run).rows(spark, table, chunks, at=run.clients.source.position())
    frame.write.format("noop").mode("overwrite").save()


def _read_to_end(wire: socket.socket) -> int:
    """Until the packet that ends a result: its length is 5, it begins with 0xfe, and nothing follows within a moment.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_eof_packet.html
    """
    buffer, count, end = bytearray(1 << 20), 0, b""
    wire.settimeout(60.0)
    while True:
        read = wire.recv_into(buffer)
        assert read, "the server closed the connection"
        count += read
        end = (end + bytes(buffer[max(0, read - 9) : read]))[-9:]
        if count > BLOCK and end[:3] == b"\x05\x00\x00" and end[4:5] == b"\xfe":
            return count


def bare_digests(pipe: Pipe, name: str) -> dict[str, Any]:
    """Side → seconds of the query that the comparison asks it, alone."""
    (table,) = captured(pipe.run(), [f"{pipe.database}.{name}"]).values()
    scheme = scheme_of(pipe, table)
    relation = f"lake.`{pipe.namespace}`.`{name}`"

    def source() -> None:
        with closing(pipe.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(encoding.digest_sql(table, scheme))
            cursor.fetchall()

    sink = lambda: pipe.servers.spark.sql(digest_sql(table, scheme, relation)).collect()  # noqa: E731
    return {"source": best(source), "sink": best(sink)}


def scheme_of(pipe: Pipe, table: Table) -> LeafScheme:
    """About a thousand leaves over the key's range."""
    with closing(pipe.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT max(id) FROM {table.name}")
        (top,) = cursor.fetchone()
    return IntegerLeaves("id", max(2, top // LEAVES))


if __name__ == "__main__":
    sys.exit(main())
