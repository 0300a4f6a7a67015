"""Debezium MySQL and Debezium's JDBC sink into PostgreSQL: the log was purged, and the copies are put right through the topics.

Each column is compared as text that both databases make of it in SQL of the test's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from airflow_cdc.flows.close import close
from airflow_cdc.flows.feeder import wait_filled
from airflow_cdc.flows.publish import publish
from airflow_cdc.flows.reached import wait_past
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.driver.functions import register_functions
from airflow_cdc.spark_apps.recover import recover
from airflow_cdc.spark_apps.verify import verify
from stack import versions
from tests.integration.jdbc.fed import Fed, run_of, started
from tests.integration.recovering import resume, up_to_watermark, writing
from tests.systems.case import Case, Differences, Recovered, Row, differences
from tests.systems.debezium_hudi import GONE, PURGED, numbers, rows_of_kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake


def same(value: Any) -> str:
    return str(value)


def exact(value: Any) -> str:
    return repr(float(value))


def document(value: Any) -> str:
    return json.dumps(json.loads(value), sort_keys=True)


class Kind(NamedTuple):
    """A column: its declaration, its value in row {n}, and how source and copy ({c}) are asked for it, each in SQL of its own."""

    declared: str
    value: str
    source: str
    copy: str
    text: Callable[[Any], str] = same


CHARS, TEXT = "CAST({c} AS CHAR)", "{c}::text"
STAMP, STAMPED = "DATE_FORMAT({c}, '%Y-%m-%dT%H:%i:%s.%f')", "to_char({c}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')"
HEX, HEXED = "HEX({c})", "upper(encode({c}, 'hex'))"
# Nine numeric columns beside the year: see tests/integration/jdbc/test_copies.py
KINDS: Final[Mapping[str, Kind]] = {
    "ti": Kind("tinyint", "{n} % 256 - 128", CHARS, TEXT),
    "ti1": Kind("tinyint(1)", "{n} % 2", CHARS, TEXT),
    "si": Kind("smallint", "{n} % 65536 - 32768", CHARS, TEXT),
    "big": Kind("bigint unsigned", "18446744073709551615 - {n}", CHARS, TEXT),
    "money": Kind("decimal(12,2)", "{n} - 0.75", CHARS, TEXT),
    "wide": Kind("decimal(38,10)", "1234567890123456789012345678.0123456789 - {n}", CHARS, TEXT),
    "f": Kind("float", "{n} + 0.1", "{c} + 0e0", "{c}::float8", exact),
    "d": Kind("double", "{n} / 3e0", "{c}", "{c}", exact),
    "c": Kind("char(12)", "CONCAT('c', {n}, '  ')", CHARS, TEXT),
    "v": Kind("varchar(40)", "CONCAT('wörd |', {n}, '\\t\\\\ ')", CHARS, TEXT),
    "note": Kind("longtext", "REPEAT(CONCAT('😀', {n}), 50)", CHARS, TEXT),
    "bin": Kind("varbinary(40)", "UNHEX(CONCAT(MD5({n}), '00ff00'))", HEX, HEXED),
    "b": Kind("blob", "UNHEX(REPEAT(MD5({n}), 20))", HEX, HEXED),
    "day": Kind("date", "DATE'1000-01-01' + INTERVAL {n} DAY", CHARS, "to_char({c}, 'YYYY-MM-DD')"),
    "clock": Kind("time(6)", "SEC_TO_TIME({n} % 86400 + 0.000001)", CHARS, "to_char(date '2000-01-01' + {c}, 'HH24:MI:SS.US')"),
    "at": Kind("datetime(6)", "TIMESTAMP'1969-12-31 23:59:59.999999' + INTERVAL {n} SECOND", STAMP, STAMPED),
    "seen": Kind("timestamp(6) NULL", "TIMESTAMP'2026-03-29 00:30:00.000001' + INTERVAL {n} HOUR", STAMP, STAMPED),
    "y": Kind("year", "1901 + {n} % 250", "{c} + 0", TEXT),
    "e": Kind("enum('sad ''one''','ÿ')", "{n} % 2 + 1", CHARS, TEXT),
    "s": Kind("set('a','b|','ü')", "{n} % 8", CHARS, TEXT),
    "doc": Kind("json", "JSON_OBJECT('b', {n}, 'a', JSON_ARRAY('ü', NULL, TRUE))", CHARS, TEXT, document),
    "flag": Kind("bit(1)", "{n} % 2", "{c} + 0", "{c}::int"),
    "void": Kind("varchar(9)", "IF({n} % 5 = 0, NULL, '')", CHARS, TEXT),
}  # fmt: skip
WORDS: Final[Mapping[str, Kind]] = {
    "lang": Kind("varchar(20)", "", CHARS, TEXT),
    "n": Kind("int", "", CHARS, TEXT),
    "t": Kind("text", "", CHARS, TEXT),
}
ID: Final = Kind("bigint unsigned", "", CHARS, TEXT)
NAMES, VALUES = ", ".join(["id", *KINDS]), ", ".join(kind.value for kind in KINDS.values())
TABLES: Final = ("kinds", "words")


# what happens to the tables while the connector stands
GAP: Final = (
    "DELETE FROM kinds WHERE id BETWEEN 100 AND 399",
    "UPDATE kinds SET money = -1, day = NULL WHERE id BETWEEN 400 AND 450",
    "DELETE FROM words WHERE n < 50",
    "UPDATE words SET lang = 'moved' WHERE n = 60",
)


@dataclass(slots=True)
class DebeziumJdbc:
    """Two tables and their copies: `kinds` with a column of each type, `words` with a key of two columns.

    What is of MySQL as the source stands in the attributes and in what says "in the source's SQL".
    """

    fed: Fed
    spark: SparkSession
    folder: Path
    version: str
    kinds: ClassVar[Mapping[str, Kind]] = {"id": ID, **KINDS}
    words: ClassVar[Mapping[str, Kind]] = WORDS
    # the column that a change turns over in the source alone
    turned: ClassVar[str] = "ti1 = 1 - ti1"

    def rows(self, first: int, last: int) -> str:
        """Rows of `kinds` of these numbers, in the source's SQL."""
        return rows_of_kinds(NAMES, VALUES, first, last)

    def row(self, key: str, number: str) -> str:
        """One row of `kinds` under this key, in the source's SQL."""
        return f"INSERT INTO kinds ({NAMES}) SELECT {key}, {VALUES.replace('{n}', number)}"

    def first_rows(self) -> tuple[str, ...]:
        """2,000 rows of `kinds` and 500 of `words`, in the source's SQL."""
        return (
            "SET SESSION cte_max_recursion_depth = 100000",
            self.rows(1, 2000),
            f"INSERT INTO words {numbers(1, 500)} SELECT CONCAT('é:', seq % 7), seq, CONCAT('w', seq) FROM s",
        )

    @property
    def run(self) -> Run:
        """The pipeline's run."""
        return run_of(self.fed, self.folder, TABLES, approval="never", max_deletes="100%")

    def fill(self) -> None:
        """See System."""
        columns = ", ".join(f"{name} {kind.declared}" for name, kind in self.kinds.items() if name != "id")
        self.fed.create(
            f"CREATE TABLE kinds (id {self.kinds['id'].declared} PRIMARY KEY, {columns})",
            "CREATE TABLE words (lang varchar(20), n int, t text, PRIMARY KEY (lang, n))",
        )
        self.fed.follow({"topic.creation.default.partitions": "4", "topic.creation.default.replication.factor": "1"})
        self.fed.feed()
        self.fed.execute(*self.first_rows())
        self.wait_first_rows()

    def wait_first_rows(self) -> None:
        """Until the sink has them."""
        self.fed.wait_target("SELECT count(*) FROM kinds", [(2000,)])
        self.fed.wait_target("SELECT count(*) FROM words", [(500,)])

    def fail(self) -> str:
        """See System."""
        fed = self.fed
        fed.stop_source()
        fed.execute(*GAP, self.rows(3001, 3100))
        fed.purge()
        trace = fed.failure()
        text = next((line.strip() for line in trace.splitlines() if GONE in line), "")
        if not text:
            raise AssertionError(f"another failure than the purged log's: {trace}")
        return text

    def statements(self) -> tuple[str, ...]:
        """A writer's transaction, by its number {n}."""
        return (
            self.row("100000 + {n}", "(5000 + {n})"),  # far from every other key, however long the writer goes on
            "UPDATE kinds SET v = 'w{n}', money = money + 1 WHERE id = 500 + {n} % 50",
            "DELETE FROM kinds WHERE id = 100000 + {n} - 20",
            "INSERT INTO words VALUES ('live', {n}, 'a')",
            "DELETE FROM words WHERE n = {n} - 30 AND lang = 'live'",
        )

    def writing(self) -> AbstractContextManager[Any]:
        """See System."""
        return writing(self.fed.servers.mysql, self.fed.name, *self.statements(), pause=0.05)

    def recover(self) -> Recovered:
        """See System."""
        register_functions(self.spark)
        run = self.run
        decision = up_to_watermark(run)
        recover(run, self.spark)
        resume(run)
        compared = verify(run, self.spark)
        publish(run)
        close(run)
        return Recovered(decision["diagnosis"]["code"], str(compared["verdict"]))

    def catch_up(self) -> None:
        """See System."""
        self.change()
        run = self.run
        wait_past(run, run.clients.source.position())
        wait_filled(run, run.clients.transport.end_offsets([self.fed.topic(table) for table in TABLES]))

    def change(self) -> None:
        """A deleted row comes back, and one is deleted that was there all the time."""
        self.fed.execute(
            f"UPDATE kinds SET {self.turned} WHERE id < 50",
            self.rows(100, 100),
            "DELETE FROM kinds WHERE id IN (60, 700)",
        )

    def differences(self) -> Differences:
        """See System."""
        return self._compared("kinds", self.kinds, 1) + self._compared("words", self.words, 2)

    def _compared(self, table: str, kinds: Mapping[str, Kind], key: int) -> Differences:
        source = ", ".join(kind.source.replace("{c}", name) for name, kind in kinds.items())
        copy = ", ".join(kind.copy.replace("{c}", name) for name, kind in kinds.items())
        ours = self.fed.execute(f"SELECT {source} FROM {table}")
        theirs = self.fed.target(f"SELECT {copy} FROM {table}")
        return differences(_texts(kinds, ours), _texts(kinds, theirs), key)

    def spoil(self) -> None:
        """See System: with the connector stopped, or its events would bring the copies there, too."""
        self.fed.stop_source()
        self.fed.execute(
            self.rows(9001, 9001), "DELETE FROM kinds WHERE id = 1", "UPDATE kinds SET note = 'another' WHERE id = 2"
        )


def _texts(kinds: Mapping[str, Kind], found: Sequence[Sequence[Any]]) -> list[Row]:
    return [
        tuple(None if value is None else kind.text(value) for kind, value in zip(kinds.values(), row, strict=True))
        for row in found
    ]


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumJdbc]:
    """Servers of its own, with a worker that has both of Debezium's connectors."""
    with started(folder) as servers:
        fed = Fed(servers)
        about = f"MySQL {servers.mysql.version}, Debezium {versions.DEBEZIUM}, JDBC sink {versions.DEBEZIUM_SINK}"
        try:
            yield DebeziumJdbc(fed, spark, folder, f"{about}, PostgreSQL {servers.postgres.version}")
        finally:
            fed.close()


CASE = Case("Debezium MySQL and its JDBC sink into PostgreSQL", PURGED, opened)
