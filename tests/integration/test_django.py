"""The migrations of a real framework, as they are, under a live pipeline: every table equal after each, nobody asked.

The comparison shares nothing with the product: both sides are read as plain Python values.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.sources.mysql.types import words_of
from tests.integration.followed import Followed
from tests.integration.rig import Rig

if TYPE_CHECKING:
    from stack.connect import ConnectWorker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning"),
]

TIMES = {"datetime", "timestamp", "date"}
NUMBERS = {"tinyint", "smallint", "int", "bigint"}


def django(rig: Rig, what: str) -> str:
    """One step of Django's, in a process of its own."""
    server = rig.server
    database = {"HOST": server.host, "PORT": str(server.port), "USER": server.user, "NAME": rig.schema}
    secret = {"CDC_DB_PASSWORD": server.password}
    environment = {**os.environ, **{f"CDC_DB_{key}": value for key, value in database.items()}, **secret}
    command = [sys.executable, "-m", "tests.integration.django_migrations", what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def followed(rig: Rig, connect_worker: ConnectWorker, kafka: str, tmp_path: Path) -> Iterator[Followed]:
    django(rig, "first")
    tables = [row[0] for row in rig.run("SHOW TABLES") if row[0] != "django_migrations"]
    made = Followed(rig, connect_worker, kafka, tmp_path, dict.fromkeys(tables, "SELECT 1"))
    made.follow({})
    made.stamp()
    yield made
    connect_worker.call("DELETE", f"/connectors/{made.base.pipeline.connector.name}")


def write(followed: Followed, number: int) -> None:
    """A row in every table, whatever columns it has now."""
    for name in followed.tables:
        columns = followed.rig.table(name).columns
        values = {c.name: _value(c.name, words_of(c).data_type, words_of(c).char_length, number) for c in columns}
        names, texts = ", ".join(f"`{column}`" for column in values), ", ".join(values.values())
        followed.rig.run("SET foreign_key_checks = 0", f"INSERT INTO `{name}` ({names}) VALUES ({texts})")


def _value(name: str, kind: str, length: int | None, number: int) -> str:
    if kind in NUMBERS:
        return "1" if kind == "tinyint" else str(number)
    if kind in TIMES:
        return f"'2026-01-02 03:04:{number % 60:02}.000{number % 10}'"
    return f"'{(f'{name}{number}')[-(length or 20) :]}'"


def source_rows(followed: Followed, table: str) -> Counter[Any]:
    with (
        closing(followed.rig.server.connect(database=followed.rig.schema)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(f"SELECT * FROM `{table}`")
        names = [column[0] for column in cursor.description or ()]
        return Counter(tuple(sorted(zip(names, row, strict=True))) for row in cursor.fetchall())


def sink_rows(followed: Followed, table: str) -> Counter[Any]:
    found = followed.rig.lake.read_arrow(followed.rig.schema, sink_name(table)).to_pylist()
    return Counter(tuple(sorted(row.items())) for row in found)


def test_inv_30_the_migrations_of_django_need_nobody(followed: Followed) -> None:
    write(followed, 1000)
    followed.apply("run-0")
    reread, ran = [], []
    for number in range(int(django(followed.rig, "left"))):
        write(followed, 2000 + number)
        ran.append(django(followed.rig, "next"))
        write(followed, 3000 + number)
        done = followed.apply(f"run-{number + 1}")
        reread += [f"{table} by {ran[-1]}" for table, result in done.items() if result.get("reread")]
        for table in followed.tables:
            assert source_rows(followed, table) == sink_rows(followed, table), (ran[-1], table)
    print(f"{len(followed.tables)} tables, {len(ran)} migrations; read again: {', '.join(reread) or 'none'}")
    assert len(ran) >= 12
