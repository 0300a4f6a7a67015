"""A small shop on MySQL whose tables all have keys, and its writer: for pipelines that cannot follow a table without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any, ClassVar

from stack.mysql import MySqlServer
from stack.shop.check import TableCheck
from tests.faults.mysql import purge
from tests.faults.world import PIPELINE, FaultWorld
from tests.integration.recovering import meanwhile

OLDER = 20  # how many transactions ago the customer came that goes now
FIRST_LIVE = 1_000_000
WRITES_EVERY_S = 0.05
TABLES_SQL = (
    f"CREATE DATABASE {PIPELINE} CHARACTER SET utf8mb4",
    f"USE {PIPELINE}",
    "CREATE TABLE customers (code varchar(60) PRIMARY KEY, name varchar(80), balance int)",
    "CREATE TABLE orders (id bigint PRIMARY KEY, customer varchar(60), note varchar(200), amount int)",
)
ROWS_SQL = (
    "SET SESSION cte_max_recursion_depth = 1000000",
    """INSERT INTO customers WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {rows})
        SELECT CONCAT('Cust-', i), CONCAT('customer ', i), i FROM s""",
    """INSERT INTO orders WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {rows})
        SELECT i, CONCAT('Cust-', i), 'new', i FROM s""",
)
# orders beyond the first half are the writer's
GAP_SQL = (
    "DELETE FROM customers WHERE CRC32(code) % 40 = {n} AND code LIKE 'Cust-%'",
    "DELETE FROM orders WHERE id <= {half} AND id % 40 = {n}",
    "UPDATE orders SET amount = amount + 1 WHERE id % 30 = {n}",
    "UPDATE customers SET name = 'gap {n}' WHERE CRC32(code) % 30 = {n}",
    "INSERT INTO orders VALUES ({id}, 'gap', 'gap', {n})",
)
WRITER_SQL = (
    "INSERT INTO orders (id, customer, note, amount) VALUES ({id}, 'live', 'i{n}', {n})",
    "UPDATE orders SET note = 'u{n}' WHERE id = {changed}",
    "INSERT INTO customers (code, name, balance) VALUES ('live-{n}', 'born', {n})",
    "DELETE FROM customers WHERE code = 'live-{gone}'",
)


@dataclass(slots=True)
class Written:
    """The writer's committed transactions: number → the last number in the server's GTIDs just before it."""

    rows: int
    at: dict[int, int] = field(default_factory=dict)

    def statements(self, n: int) -> Sequence[str]:
        """Those of transaction n."""
        values = {"id": FIRST_LIVE + n, "n": n, "gone": n - OLDER, "changed": self.rows // 2 + 1 + n % (self.rows // 2)}
        return [sql.format(**values) for sql in WRITER_SQL]

    def changes(self, after: int) -> set[tuple[str, str, str]]:
        """Table, kind and value of every change that certainly came after this number of the server's GTIDs."""
        numbers = [n for n, before in self.at.items() if before >= after]
        return {
            change
            for n in numbers
            for change in (
                ("orders", "INSERT", f"i{n}"),
                ("orders", "UPDATE", f"u{n}"),
                ("customers", "INSERT", f"live-{n}"),
                *((("customers", "DELETE", f"live-{n - OLDER}"),) if n > OLDER else ()),
            )
        }


@dataclass
class KeyedShop(FaultWorld):
    """Two tables of a shop in a database of the pipeline's name."""

    written: Written = field(init=False)

    server: ClassVar[str] = "mysql"
    tables: ClassVar[tuple[str, ...]] = ("customers", "orders")

    def __post_init__(self) -> None:
        self.written = Written(self.chunk_rows * 4)

    def copied(self, table: str, names: Sequence[str]) -> Iterable[Sequence[Any]]:
        """The rows that the sink has of a table, in the order of these columns."""
        raise NotImplementedError

    @property
    def mysql(self) -> MySqlServer:
        """The server itself, not through the proxy."""
        return self.stack.mysql[self.server]

    def restart_server(self) -> None:
        """See FaultWorld."""
        self.stack.restart_mysql()

    def create(self) -> None:
        """The empty tables."""
        self.mysql.execute(*TABLES_SQL)

    def fill(self) -> None:
        """Their first rows."""
        self.sql(*(sql.format(rows=self.written.rows) for sql in ROWS_SQL))

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in the shop as root; rows of the last one."""
        rows: list[tuple[Any, ...]] = self.mysql.execute(f"USE {PIPELINE}", *statements)
        return rows

    def executed(self) -> str:
        """The server's GTIDs."""
        return str(self.mysql.execute("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")

    def writing(self) -> AbstractContextManager[Any]:
        """See FaultWorld: twenty transactions a second at most, each of four changes of one row."""
        return meanwhile(self._write)

    def _write(self, stop: Event) -> None:
        with (
            closing(self.mysql.connect(database=PIPELINE, autocommit=False)) as connection,
            connection.cursor() as cursor,
        ):
            n = max(self.written.at, default=0)
            while not stop.wait(WRITES_EVERY_S):
                n, before = n + 1, last_number(self.executed())
                for statement in self.written.statements(n):
                    cursor.execute(statement)
                connection.commit()
                self.written.at[n] = before

    def lose_log(self, *more: str) -> None:
        """Rows go, change and come, `more` statements follow, and the log of it all is purged."""
        values = {"n": self.gaps % 30, "half": self.written.rows // 2, "id": FIRST_LIVE // 2 + self.gaps}
        self.sql(*(sql.format(**values) for sql in GAP_SQL), *more)
        with closing(self.mysql.connect()) as connection, connection.cursor() as cursor:
            purge(cursor)

    def compare(self) -> list[TableCheck]:
        """See FaultWorld: by PyMySQL, and by what the world reads its sink with."""
        return [self._compared(table) for table in self.tables]

    def _compared(self, table: str) -> TableCheck:
        names = [row[0] for row in self.sql(f"SHOW COLUMNS FROM {table}")]
        theirs = Counter(tuple(map(_text, row)) for row in self.sql(f"SELECT {', '.join(names)} FROM {table}"))
        ours = Counter(tuple(map(_text, row)) for row in self.copied(table, names))
        missing, ghosts = theirs - ours, ours - theirs
        examples = [f"only in {side}: {row!r}"[:200] for side, some in _sides(missing, ghosts) for row in some]
        return TableCheck(table, theirs.total(), ours.total(), missing.total(), ghosts.total(), {}, examples[:6])


def last_number(gtids: str) -> int:
    """The last number of a set of one server."""
    return int(gtids.rpartition(":")[2].rpartition("-")[2])


def _sides(missing: Counter[Any], ghosts: Counter[Any]) -> tuple[tuple[str, Counter[Any]], ...]:
    return (("source", missing), ("sink", ghosts))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
