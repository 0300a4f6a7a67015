"""The pages that lead from nothing to a proven copy, done block by block in a fresh home on a stock Airflow.

Canal's page has tests/e2e/test_canal_page.py; the script of the own pipeline tests/e2e/test_own_pipeline.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path

import pytest

from stack import cluster
from stack.cluster import Stack
from stack.mysql import MySqlServer, MySqlSettings
from stack.ports import free_port
from stack.postgres import PostgresServer
from stack.process import end, spawn, wait_until
from stack.shop.check import MySqlRows, SourceRows, compare
from stack.shop.postgres.rows import PostgresRows
from tests.e2e.stock import stock_airflow
from tests.e2e.walking import PASSWORDS, Block, Reader, blocks, proven, walk
from tests.paths import ROOT

DOCS = ROOT / "docs"
TABLES = ["people", "notes"]
CREATED = (
    "CREATE TABLE crm.people (id INT PRIMARY KEY, name VARCHAR(40), born DATE)",
    "CREATE TABLE crm.notes (person INT, line SMALLINT, text VARCHAR(200), PRIMARY KEY (person, line))",
    "INSERT INTO crm.people VALUES (1, 'Ada', '1815-12-10'), (2, 'Grace 🚢', '1906-12-09'), (3, 'Edsger', NULL)",
    "INSERT INTO crm.notes VALUES (1, 1, 'engine'), (1, 2, 'notes  '), (2, 1, '')",
)
pytestmark = pytest.mark.timeout(3600)


@dataclass(frozen=True, slots=True)
class Place:
    """A database as a user has it: where it is, how an administrator asks it, and how its rows are read to compare."""

    address: str
    port: int
    sql: Callable[[list[str]], None]
    rows: SourceRows


def of_mysql(stack: Stack) -> Place:
    """Of MySQL or MariaDB, with two tables. Our own servers have users of these names already."""
    server = stack.mysql["theirs"]
    server.execute("DROP USER 'cdc'@'%', 'debezium'@'%'", "CREATE DATABASE crm CHARACTER SET utf8mb4", *CREATED)
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    return Place(f"{server.host}:{server.port}", server.port, _asks(server), MySqlRows(login, "crm"))


def of_postgres(stack: Stack) -> Place:
    """A database of PostgreSQL, with a schema of two tables."""
    server = stack.postgres["postgres"]
    server.execute("DROP OWNED BY cdc, debezium", "DROP ROLE cdc, debezium", "CREATE DATABASE crm")
    server.execute("CREATE SCHEMA crm", *CREATED, dbname="crm")
    login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
    rows = PostgresRows({**login, "dbname": "crm"}, "crm")
    return Place(f"{server.host}:{server.port}", server.port, _asks(server, dbname="crm"), rows)


def _asks(server: MySqlServer | PostgresServer, **options: str) -> Callable[[list[str]], None]:
    def ask(statements: list[str]) -> None:
        server.execute(*statements, **options)

    return ask


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is walked: its section ("" for the whole), the servers that it presumes, and its database's example address."""

    name: str
    section: str
    services: tuple[str, ...]
    made: Callable[[Stack], Place]
    example: str
    series: str = ""

    def __str__(self) -> str:
        return Path(self.name).stem


WALKED = (
    Page("how-to/own-pipeline.md", "", cluster.ALL, of_mysql, "db.example:3306"),
    Page("systems/mariadb.md", "Set up MariaDB", cluster.ALL, of_mysql, "db.example:3306", "mariadb"),
    Page("systems/postgres.md", "Set up PostgreSQL", ("postgres", "kafka", "connect"), of_postgres, "db.example:5432"),
)


INSTALL = "how-to/install.md"
# the wheel and what it needs, in a clean environment: tests/e2e/test_wheel.py
BUILT = "pip wheel"


def test_install_leads_to_an_airflow_that_shows_the_package(tmp_path: Path) -> None:
    """In an empty home, with the settings of the page and one that it does not need: a free port."""
    port = free_port()
    foreign = ("AIRFLOW", "PYSPARK", "SPARK")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment |= {"AIRFLOW_HOME": str(tmp_path / "airflow"), "AIRFLOW__API__PORT": str(port), "PATH": programs}
    reader = Reader(environment, tmp_path, {}, lambda _statements: None)
    *steps, last = [step for step in blocks(DOCS / INSTALL) if BUILT not in step.text]
    for step in steps:
        reader.do(step)
    assert last.text.strip() == "airflow standalone"
    log = tmp_path / "standalone.log"
    child = spawn("standalone", ["bash", "-c", reader.in_the_terminal(f"exec {last.text}")], log=log, env=environment)
    try:
        # what the page says that one should see
        wait_until(lambda: answers(port, "/api/v2/version"), timeout=300, what="Airflow's page", child=child)
        assert answers(port, "/auth/login/")
        assert "assword" in log.read_text()
        reader.do(Block("console", "", "airflow cdc --help\nairflow plugins\n"))
        assert "airflow_cdc" in reader.output("airflow plugins")
    finally:
        end(child)


def answers(port: int, path: str) -> bool | None:
    """Whether a page is there; None while nobody answers."""
    try:
        with closing(HTTPConnection("localhost", port, timeout=10)) as connection:
            connection.request("GET", path)
            return connection.getresponse().status == HTTPStatus.OK or None
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class World:
    """What a reader has before the page, and their terminal."""

    reader: Reader
    lake: Mapping[str, str]
    rows: SourceRows

    def copied(self) -> bool:
        """Whether every row of the source is in the lake, and no other."""
        return all(table.equal for table in compare(self.rows, self.lake, "crm", TABLES))


@contextmanager
def world_of(page: Page, folder: Path) -> Iterator[World]:
    """The servers, a stock Airflow in an empty home, and a folder for the lake."""
    lake = folder / "lake"
    lake.mkdir()
    server = MySqlSettings("theirs", server_id=301)
    servers = [replace(server, series=page.series) if page.series else server]
    with cluster.start(
        folder / "world", page.services, mysql_settings=servers, airflow_settings=stock_airflow
    ) as stack:
        if stack.connect is None or stack.kafka is None or stack.airflow is None:
            raise AssertionError("the stack started without a server that was asked for")
        place = page.made(stack)
        words = {
            **PASSWORDS,
            page.example: place.address,
            "http://connect.example:8083": stack.connect.url,
            "kafka.example:9092": stack.kafka.bootstrap,
            "/data/catalog.db": f"{lake}/catalog.db",
            "/data/lake": f"{lake}/warehouse",
        }
        reader = Reader(stack.airflow.environment, folder, words, place.sql)
        properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
        yield World(reader, properties, place.rows)


@pytest.mark.parametrize("page", WALKED, ids=str)
def test_the_page_leads_from_nothing_to_match(page: Page, tmp_path: Path) -> None:
    steps = blocks(DOCS / page.name, page.section)
    shown = "\n".join(step.text for step in steps)
    with world_of(page, tmp_path) as world:
        reader = world.reader
        assert [word for word in reader.words if word not in shown] == []
        walk(reader, steps, str(page))
        # what the page says that one should see
        assert reader.output("curl").splitlines()[-1] in ("JSON", "")
        proven(reader)
        assert world.copied()
