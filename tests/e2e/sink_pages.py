"""What the walks of pages share that begin with the own pipeline's page, or with its database: the servers, and the first steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stack import cluster
from stack.airflow import AirflowServer
from stack.cluster import Stack
from stack.mysql import MySqlServer, MySqlSettings
from tests.e2e.stock import stock_airflow
from tests.e2e.test_pages import DOCS, of_mysql
from tests.e2e.walking import PASSWORDS, Block, Reader, blocks

OWN = DOCS / "how-to" / "own-pipeline.md"
FIRST = ("1. Create two database users", "2. Say where everything is", "3. Start a connector")
COLUMNS = {"people": ("id", "name", "born"), "notes": ("person", "line", "text")}


@dataclass(frozen=True, slots=True)
class World:
    """The servers that every one of these pages presumes, a folder for what else there is, and the words that all of them have."""

    stack: Stack
    mysql: MySqlServer
    airflow: AirflowServer
    folder: Path
    words: dict[str, str]

    def reader(self, words: Mapping[str, str], **clients: Callable[[list[str]], None]) -> Reader:
        """Somebody who does the page: `words` are what else is other than on it."""
        mysql = self.mysql

        def ask(statements: list[str]) -> None:
            mysql.execute(*statements)

        return Reader(self.airflow.environment, self.folder, {**self.words, **words}, ask, clients)

    def rows(self, table: str) -> list[list[str]]:
        """What the source holds, as texts."""
        names = ", ".join(f"`{name}`" for name in COLUMNS[table])
        return sorted([str(value) for value in row] for row in self.mysql.execute(f"SELECT {names} FROM crm.{table}"))


@contextmanager
def world(folder: Path, services: tuple[str, ...]) -> Iterator[World]:
    """A MySQL with two tables, what else the page presumes, and a stock Airflow in an empty home."""
    servers = [MySqlSettings("theirs", server_id=301)]
    with cluster.start(folder / "world", services, mysql_settings=servers, airflow_settings=stock_airflow) as stack:
        place = of_mysql(stack)
        assert stack.airflow is not None
        words = {**PASSWORDS, "db.example:3306": place.address}
        if stack.connect and stack.kafka:
            words |= {"http://connect.example:8083": stack.connect.url, "kafka.example:9092": stack.kafka.bootstrap}
        yield World(stack, stack.mysql["theirs"], stack.airflow, folder, words)


def of_page(page: str, section: str) -> list[Block]:
    """The steps of a page that begins with those of the own pipeline's."""
    own = DOCS / "systems" / page
    assert "Do steps 1 to 3 of [your first proven copy](../how-to/own-pipeline.md)" in own.read_text()
    return [*(step for heading in FIRST for step in blocks(OWN, heading)), *blocks(own, section)]
