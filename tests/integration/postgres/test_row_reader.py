"""PostgreSQL's adapter for Spark does what airflow_cdc.testing asks of any source's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from airflow_cdc.core.position import Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import Array, Instant
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.spark_apps.adapters.postgres import PostgresReader
from airflow_cdc.testing.rows import RowBench, RowReaderContract
from tests.integration.postgres.support import endpoint
from tests.integration.postgres.test_types import CASES, SETUP

if TYPE_CHECKING:
    from stack.postgres import PostgresServer

PLAIN = [case for case in CASES if case[1] != Array(Instant())]  # Python's reference takes moments without a zone
ROWS = 10


@dataclass(frozen=True, slots=True)
class PostgresRowBench:
    """Two tables of a database on a real server."""

    server: PostgresServer
    database: str
    source: PostgresSource
    reader: PostgresReader
    keyed: Table
    keyless: Table

    def watermark(self) -> Watermark:
        return self.source.watermark()

    def foreign(self) -> Watermark:
        return replace(self.watermark(), server="7711398449993377731/1")

    def write(self) -> None:
        self.server.execute(f"INSERT INTO {self.keyless.full_name} VALUES (7, 'new')", dbname=self.database)


def bench_of(server: PostgresServer, database: str) -> PostgresRowBench:
    columns = ", ".join(f"c{at} {declared}" for at, (declared, _, _) in enumerate(PLAIN))
    server.execute(
        *SETUP,
        f"CREATE TABLE public.every (id int PRIMARY KEY, {columns})",
        *(f"INSERT INTO public.every VALUES ({n}, {_values(n)})" for n in range(-3, ROWS - 3)),
        "CREATE TABLE public.bag (n int, v text)",
        "INSERT INTO public.bag VALUES (1, 'x'), (1, 'x'), (1, 'X'), (NULL, NULL), (NULL, '')",
        dbname=database,
    )
    source = PostgresSource(endpoint(server, database))
    made = source.definitions(["public.every", "public.bag"])
    return PostgresRowBench(server, database, source, PostgresReader(source), made["public.every"], made["public.bag"])


def _values(n: int) -> str:
    """The literals of a row: each type's edges in turn, then NULL where the type allows it."""
    chosen = []
    for declared, _, values in PLAIN:
        literals = [literal for literal, _ in values] + ([] if "positive" in declared else ["NULL"])
        chosen.append(literals[n % len(literals)])
    return ", ".join(chosen)


class TestPostgres(RowReaderContract):
    """The newest series."""

    @pytest.fixture
    def rows(self, newest: PostgresServer) -> Iterator[RowBench]:
        name = f"t_{uuid.uuid4().hex[:8]}"
        newest.execute(f"CREATE DATABASE {name}")
        newest.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO cdc, debezium", dbname=name)
        yield bench_of(newest, name)
        newest.execute(f"DROP DATABASE {name} WITH (FORCE)")
