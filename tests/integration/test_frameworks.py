"""The migrations of real frameworks, as they are, under a live pipeline: every table equal after each apply, nobody asked.

Django's own apps, and Wagtail with what it needs, from the package index (frameworks.txt) in an environment of its own.
The comparison shares nothing with the product (tests/adversary/oracle.py). A table that a migration makes is declared,
as a person who edits pipelines.yaml would, and read from the beginning of its topic; one that it drops is left out.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import time
import uuid
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyiceberg.catalog import load_catalog

from airflow_cdc.sources.mysql.types import words_of
from stack.fetch import cache_dir
from tests.adversary.oracle import compare
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column
    from stack.connect import ConnectWorker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

log = logging.getLogger("airflow_cdc.frameworks")
HERE = Path(__file__).parent
FIRST = 1000  # the number, and the key, of the first row that is written
OWN_TABLE = "django_migrations"
NUMBERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "float"}
TIMES = {"datetime", "timestamp", "date"}


def environment() -> str:
    """The interpreter of an environment with frameworks.txt in it, made once per content of that file."""
    wanted = HERE / "frameworks.txt"
    home = cache_dir() / f"frameworks-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]}"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        venv.create(home, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)]
        subprocess.run(command, check=True, timeout=900)
        (home / ".ready").touch()
    return str(python)


@dataclass(slots=True)
class App:
    """A framework's migrations on the rig's database."""

    rig: Rig
    framework: str
    python: str = sys.executable

    def call(self, *what: str) -> list[str]:
        """One call of django_migrations.py, in a process of its own; the lines that it printed."""
        server = self.rig.server
        login = {"HOST": server.host, "PORT": str(server.port), "USER": server.user, "NAME": self.rig.schema}
        secret = {"CDC_DB_PASSWORD": server.password}
        variables = {**os.environ, **{f"CDC_DB_{key}": value for key, value in login.items()}, **secret}
        command = [self.python, str(HERE / "django_migrations.py"), self.framework, *what]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, f"after {done.stdout[-200:]}: {done.stderr[-2000:]}"
        return done.stdout.split()

    def tables(self) -> list[str]:
        """Its tables as they are now."""
        return [row[0] for row in self.rig.run("SHOW TABLES") if row[0] != OWN_TABLE]

    def write(self, table: str, columns: Sequence[Column], number: int) -> None:
        """A row more, and a time changed in all others, unless an index says that there is such a row."""
        parents = self._parents(table)
        values = {
            c.name: _value(c.name, words_of(c).data_type, words_of(c).char_length, number) for c in columns
        } | parents
        times = [c.name for c in columns if words_of(c).data_type in TIMES]
        touch = [
            f"UPDATE IGNORE `{table}` SET `{column}` = '2026-05-06 07:08:{number % 60:02}'" for column in times[:1]
        ]
        names, texts = ", ".join(f"`{column}`" for column in values), ", ".join(values.values())
        insert = f"INSERT IGNORE INTO `{table}` ({names}) VALUES ({texts})"
        self.rig.run("SET foreign_key_checks = 0", *touch, insert)

    def _parents(self, table: str) -> dict[str, str]:
        """Column → the key of a row that it may point to; NULL where there is none. A migration may look for that row."""
        keys = self.rig.run(
            "SELECT column_name, referenced_table_name, referenced_column_name FROM information_schema.key_column_usage"
            f" WHERE table_schema = DATABASE() AND table_name = '{table}' AND referenced_table_name IS NOT NULL"
        )
        first = {column: self.rig.run(f"SELECT MIN(`{key}`) FROM `{parent}`")[0][0] for column, parent, key in keys}
        return {column: "NULL" if key is None else f"'{key}'" for column, key in first.items()}


@dataclass(slots=True)
class Mirrored:
    """The app's database as a pipeline mirrors it, and what came of every apply."""

    app: App
    followed: Followed
    lake: Mapping[str, str]
    comparisons: int = 0
    rows: int = 0
    applies: int = 0
    reread: list[str] = field(default_factory=list)

    def declare(self) -> None:
        """Declare tables that are new, leave out those that are gone."""
        tables, followed = tuple(self.app.tables()), self.followed
        new = [table for table in tables if table not in followed.tables]
        source = replace(followed.base.pipeline.source, tables=tuple(f"{followed.rig.schema}.{t}" for t in tables))
        followed.base = replace(followed.base, pipeline=replace(followed.base.pipeline, source=source))
        followed.tables = tuple(new)
        followed.stamp()
        followed.tables = tables

    def write(self, number: int) -> None:
        """Rows in every table, whatever columns it has now."""
        for name in self.followed.tables:
            self.app.write(name, self.followed.rig.table(name).columns, number)

    def applied(self, after: str) -> None:
        """Apply, and compare every table."""
        done = self.followed.apply(f"run-{self.applies}")
        self.applies += 1
        self.reread += [f"{table} by {after}" for table, result in done.items() if result.get("reread")]
        server, rig = self.followed.rig.server, self.followed.rig
        login = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        catalog = load_catalog(rig.lake.name, **self.lake)
        for table in self.followed.tables:
            found = compare(login, catalog, rig.schema, table, rig.schema, generated=True)
            assert found.equal, (after, found)
            self.comparisons += 1
            self.rows += found.source_rows


def _value(name: str, kind: str, length: int | None, number: int) -> str:
    if name == "permission_type":  # a migration looks for the permission of this name
        return "'edit'"
    if kind in NUMBERS:
        return "1" if kind == "tinyint" else str(number)
    if kind in TIMES:
        return f"'2026-01-02 03:04:{number % 60:02}.000{number % 10}'"
    if kind in {"json", "longtext"}:  # a later migration makes one of the other
        return f"""'{{"content_type": {FIRST}, "pk": {FIRST}, "title": "t", "n": {number}.25}}'"""  # as a page's revision, which a migration reads
    if kind == "char" and length == 32:
        return f"'{uuid.UUID(int=number).hex}'"
    return f"'{(f'{name}{number}')[-(length or 20) :]}'"


@pytest.fixture
def mirrored(
    request: pytest.FixtureRequest,
    rig: Rig,
    connect_worker: ConnectWorker,
    kafka: str,
    tmp_path: Path,
) -> Iterator[Mirrored]:
    """The framework of the parameter, its first migrations run, followed by a connector from before its first row."""
    app = App(rig, request.param, sys.executable if request.param == "django" else environment())
    app.call("first")
    followed = Followed(rig, connect_worker, kafka, tmp_path, dict.fromkeys(app.tables(), "SELECT 1"))
    followed.follow({})
    followed.stamp()
    yield Mirrored(app, followed, request.getfixturevalue("lake_properties"))
    connect_worker.call("DELETE", f"/connectors/{followed.base.pipeline.connector.name}")


def run_all(mirrored: Mirrored, together: int) -> list[str]:
    """All migrations that are left, so many between two applies, rows written before and after; which ran."""
    mirrored.write(FIRST)
    mirrored.applied("first")
    ran: list[str] = []
    while lot := mirrored.app.call("next", str(together)):
        ran += lot
        log.info("%d migrations, up to %s", len(ran), lot[-1])
        mirrored.declare()
        mirrored.write(3000 + len(ran))
        mirrored.applied(lot[-1])
        mirrored.write(2000 + len(ran))
    return ran


def _say(mirrored: Mirrored, ran: list[str], began: float) -> None:
    print(
        f"{mirrored.app.framework}: {len(mirrored.followed.tables)} tables, {len(ran)} migrations, {mirrored.applies} applies,"
        f" {mirrored.comparisons} comparisons of {mirrored.rows} rows, {time.monotonic() - began:.0f} s;"
        f" read again: {', '.join(mirrored.reread) or 'none'}"
    )


@pytest.mark.parametrize("mirrored", ["django"], indirect=True)
def test_inv_30_the_migrations_of_django_need_nobody(mirrored: Mirrored) -> None:
    began = time.monotonic()
    ran = run_all(mirrored, 1)
    _say(mirrored, ran, began)
    assert len(ran) >= 12


@pytest.mark.parametrize("mirrored", ["wagtail"], indirect=True)
def test_inv_30_the_migrations_of_wagtail_and_its_apps_need_nobody(mirrored: Mirrored) -> None:
    began = time.monotonic()
    ran = run_all(mirrored, int(os.environ.get("CDC_MIGRATIONS", "10")))
    _say(mirrored, ran, began)
    assert len(ran) >= 180  # of 191; the server refuses one, and it is among the last
    assert len(mirrored.followed.tables) >= 25
