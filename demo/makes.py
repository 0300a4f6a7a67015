"""What the demo tells each make of server otherwise: one row per make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stack.connect import MARIADB_CLASS
from stack.shop import connectors
from stack.versions import mysql_series

if TYPE_CHECKING:
    import pymysql

    from stack.connect import ConnectWorker


@dataclass(frozen=True, slots=True)
class Make:
    """One make of server.

    Attributes:
        kind: `source.kind` in pipelines.yaml.
        series: of the server in stack/; "": the one that STACK_MYSQL chooses.
        connector: settings beside those of an ordinary MySQL connector.
        heal, method: how Debezium itself gets over a purged log, and what that is called.
        end: SQL of the log's end, and `reached` whether an offset with these GTIDs has it.
        holds: whether the server lets nobody purge the log, or change a table, while it is being read.
    """

    kind: str
    title: str
    series: str
    connector: Mapping[str, str]
    heal: Callable[[ConnectWorker, Mapping[str, str]], float]
    method: str
    end: str
    reached: Callable[[pymysql.cursors.Cursor, str, str], bool]
    holds: bool

    @property
    def chosen_series(self) -> str:
        """The series that is started."""
        return self.series or mysql_series()


def _subset(cursor: pymysql.cursors.Cursor, target: str, held: str) -> bool:
    cursor.execute("SELECT GTID_SUBSET(%s, %s)", (target, held))
    found: Any = cursor.fetchone()
    return bool(found[0])


def _number(_cursor: pymysql.cursors.Cursor, target: str, held: str) -> bool:
    """One domain, whose numbers rise."""
    return bool(held) and int(held.rpartition("-")[2]) >= int(target.rpartition("-")[2])


MYSQL: Final = Make(
    kind="mysql",
    title="MySQL",
    series="",
    connector={},
    heal=connectors.heal_itself,
    method="snapshot.mode=when_needed",
    end="SELECT @@GLOBAL.gtid_executed",
    reached=_subset,
    holds=True,
)
MARIADB: Final = Make(
    kind="mariadb",
    title="MariaDB",
    series="mariadb",
    connector={
        "connector.class": MARIADB_CLASS,
        "database.ssl.mode": "disable",
        "enable.time.adjuster": "false",
        "driver.allowPublicKeyRetrieval": "",
    },
    heal=connectors.copy_again,
    method="offset deleted, snapshot.mode=initial",
    end="SELECT @@GLOBAL.gtid_binlog_pos",
    reached=_number,
    holds=False,
)
MAKES: Final[Mapping[str, Make]] = {make.kind: make for make in (MYSQL, MARIADB)}


def make_of(series: str) -> Make:
    """The make of a server of that series."""
    return next((make for make in MAKES.values() if make.series == series), MYSQL)
