"""Debezium and Kafka into OpenSearch: the log was purged, and every supported type becomes a field of a document.

The documents are read through the table's alias by plain HTTP.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stack
from airflow_cdc.core.pipeline import sink_name
from stack import versions
from stack.mysql import MySqlSettings
from stack.opensearch import start_opensearch
from tests.integration.opensearch.searched import Searched
from tests.integration.recovering import writing
from tests.systems import debezium_mariadb as mariadb
from tests.systems.case import Case, Differences, Recovered, Row, differences
from tests.systems.debezium_mariadb import GONE, NAMES, TEXT, VALUES, as_text, exact, lasting, rows
from tests.systems.two_tables import Kind, same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

NAME = "systems_search"
MOST_HITS = 1_000  # in one answer
SECONDS = 60


def unpacked(value: Any) -> str:
    return base64.b64decode(value).hex().upper()


def moment(value: Any) -> str:
    """A time as the server prints it: with six digits behind the second."""
    whole, _, micros = str(value).removesuffix("Z").partition(".")
    return f"{whole}.{micros.ljust(6, '0')}"


def shape(value: Any) -> str:
    return f"{value['srid']}:{unpacked(value['wkb'])}"


# how a field of a document says what the server says; the others are alike
FIELDS: Mapping[str, Callable[[Any], str]] = {
    "ratio": exact,
    "share": exact,
    "at": moment,
    "seen": moment,
    "clock": lasting,
    "fixed": unpacked,
    "raw": unpacked,
    "blob_": unpacked,
    "place": shape,
}
KINDS = {name: kind._replace(sink=FIELDS.get(name, same)) for name, kind in mariadb.KINDS.items()}
WORDS = {
    "lang": Kind("varchar(20)", "", TEXT, same),
    "n": Kind("int", "", TEXT, same),
    "t": Kind("text", "", TEXT, same),
}


@dataclass(slots=True)
class DebeziumSearch:
    """Two tables of a MariaDB: `kinds` with a column of each type, `words` with a key of two columns."""

    followed: Searched
    version: str

    def fill(self) -> None:
        """See System."""
        self.followed.follow({})
        self.followed.execute(
            rows(1, 2000),
            "INSERT INTO words SELECT CONCAT('é|', seq % 7), seq, CONCAT('w', seq) FROM seq_1_to_500",
        )
        self.followed.apply("before")

    def fail(self) -> str:
        """See System."""
        followed = self.followed
        followed.connector.stop(followed.database)
        followed.execute(
            "DELETE FROM kinds WHERE id BETWEEN 100 AND 399",
            "UPDATE kinds SET total = -1, day = NULL WHERE id BETWEEN 400 AND 450",
            rows(3001, 3100),
            "DELETE FROM words WHERE n < 50",
            "UPDATE words SET lang = 'moved' WHERE n = 60",
        )
        followed.purge()
        followed.connector.resume(followed.database)
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
            "INSERT INTO words VALUES ('live', {n}, 'a')",
            "DELETE FROM words WHERE n = {n} - 30 AND lang = 'live'",
        )

    def recover(self) -> Recovered:
        """See System."""
        done = self.followed.recover("recovery")
        return Recovered(done["decision"]["diagnosis"]["code"], done["verify"]["verdict"])

    def catch_up(self) -> None:
        """See System."""
        self.followed.execute("UPDATE kinds SET ok = 1 - ok WHERE id < 50")
        self.followed.apply("after")

    def differences(self) -> Differences:
        """See System."""
        kinds = {"id": Kind("bigint", "", TEXT, same), **KINDS}
        return self._compared("kinds", kinds, 1) + self._compared("words", WORDS, 2)

    def _compared(self, table: str, kinds: Mapping[str, Kind], key: int) -> Differences:
        columns = ", ".join(kind.server.replace("{c}", name) for name, kind in kinds.items())
        source = self.followed.execute(f"SELECT {columns} FROM {table}")
        theirs = [tuple(None if value is None else as_text(value) for value in row) for row in source]
        return differences(
            theirs,
            [_row(kinds, document) for document in documents(f"{self.followed.url}/{NAME}.{sink_name(table)}")],
            key,
        )

    def spoil(self) -> None:
        """See System."""
        self.followed.execute(
            rows(9001, 9001), "DELETE FROM kinds WHERE id = 1", "UPDATE kinds SET story = 'another' WHERE id = 2"
        )


def documents(alias: str) -> Sequence[Mapping[str, Any]]:
    """What a reader finds under the table's alias, given with the node's URL."""
    ask(f"{alias}/_refresh", {})
    answer = ask(f"{alias}/_search?scroll=1m", {"size": MOST_HITS, "track_total_hits": True})
    hits, total = list(answer["hits"]["hits"]), answer["hits"]["total"]["value"]
    while answer["hits"]["hits"]:
        answer = ask(f"{alias.rpartition('/')[0]}/_search/scroll", {"scroll": "1m", "scroll_id": answer["_scroll_id"]})
        hits += answer["hits"]["hits"]
    if total != len(hits):
        raise AssertionError(f"{len(hits)} of {total} documents")
    return [hit["_source"] for hit in hits]


def _row(kinds: Mapping[str, Kind], document: Mapping[str, Any]) -> Row:
    values = [(kind, document.get(_bare(name))) for name, kind in kinds.items()]
    return tuple(None if value is None else kind.sink(value) for kind, value in values)


def _bare(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def ask(url: str, body: Mapping[str, Any]) -> Any:
    """POST JSON, by the standard library alone."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
        return json.load(answer)


@contextmanager
def opened(folder: Path, spark: SparkSession, lake: Lake) -> Iterator[DebeziumSearch]:
    """A server, a broker, a worker and a search node of its own, and a database with both tables."""
    settings = MySqlSettings(name="mariadb", server_id=104, series="mariadb", max_binlog_size=4194304)
    with stack.start(folder / "stack", ("kafka", "connect", "mysql"), mysql_settings=[settings]) as running:
        server, broker, worker = running.mysql["mariadb"], running.kafka, running.connect
        if broker is None or worker is None:
            raise AssertionError("the stack has no Kafka or no Connect")
        node = start_opensearch(folder, running.logs)
        running.others["opensearch"] = node.child
        columns = ", ".join(f"{name} {kind.declared}" for name, kind in mariadb.KINDS.items())
        server.execute(
            f"CREATE DATABASE {NAME} CHARACTER SET utf8mb4",
            f"USE {NAME}",
            f"CREATE TABLE kinds (id bigint PRIMARY KEY, {columns})",
            "CREATE TABLE words (lang varchar(20), n int, t text, PRIMARY KEY (lang, n))",
        )
        tables = ("kinds", "words")
        followed = Searched(server, spark, lake, broker.bootstrap, worker.url, folder, NAME, tables, node.url)
        version = f"MariaDB {server.version}, Debezium {versions.DEBEZIUM_MARIADB}, OpenSearch {versions.OPENSEARCH}"
        yield DebeziumSearch(followed, version)


CASE = Case("Debezium to OpenSearch", "the log was purged past the stored GTID", opened)
