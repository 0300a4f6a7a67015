"""The catalogs that `make catalogs` recovers into: real ones, each with its own store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import stack
from airflow_cdc.spark_apps.adapters.iceberg import IcebergWriter
from stack import versions
from stack.object_store import start_object_store
from stack.process import end
from stack.rest_catalog import start_rest_catalog
from stack.spark_cluster import start_spark_cluster
from tests.systems.running import embedded


@contextmanager
def in_this_process(_folder: Path) -> Iterator[str]:
    """A driver that is its own executor."""
    yield "local[2]"


@contextmanager
def on_a_dying_cluster(folder: Path) -> Iterator[str]:
    """Two workers of a Spark cluster, whose executors are killed: before the first and the third write to a stage, and once
    while the caught-up rows are merged. Raises AssertionError if one of these moments did not come.
    """
    cluster = start_spark_cluster(folder, folder / "logs")
    moments = (("snapshot", 1), ("snapshot", 3), ("changes", 1))
    try:
        with ExitStack() as hooked:
            done = [hooked.enter_context(before_call(name, number, cluster.kill_executors)) for name, number in moments]
            yield cluster.master
        assert all(done), f"executors killed: {dict(zip(moments, done, strict=True))}"
    finally:
        cluster.stop()


@contextmanager
def before_call(name: str, number: int, do: Callable[[], int]) -> Iterator[list[int]]:
    """`do` something before a writer's method is called for the `number`-th time; the list then holds its result."""
    calls, results, real = itertools.count(1), list[int](), getattr(IcebergWriter, name)

    def hooked(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == number:
            results.append(do())
        return real(*args, **kwargs)

    with patch.object(IcebergWriter, name, hooked):
        yield results


@dataclass(frozen=True, slots=True)
class CatalogCase:
    """A row: its name, what it runs on, and how it is opened in a folder: PyIceberg's properties."""

    name: str
    version: str
    opened: Callable[[Path], AbstractContextManager[Mapping[str, str]]]
    spark: Callable[[Path], AbstractContextManager[str]] = in_this_process


@contextmanager
def in_a_file(folder: Path) -> Iterator[Mapping[str, str]]:
    """SQLite and a folder."""
    yield embedded(folder)


@contextmanager
def in_postgres(folder: Path) -> Iterator[Mapping[str, str]]:
    """A database of a PostgreSQL server, and a folder."""
    with stack.start(folder / "stack", ("postgres",)) as running:
        server = running.postgres["postgres"]
        server.execute("CREATE DATABASE catalog")
        login = f"{server.user}:{server.password}"
        yield {**embedded(folder), "uri": f"postgresql+psycopg://{login}@{server.host}:{server.port}/catalog"}


@contextmanager
def by_rest(folder: Path) -> Iterator[Mapping[str, str]]:
    """A REST catalog, and an object store."""
    logs = folder / "logs"
    logs.mkdir()
    store = start_object_store(folder, logs)
    try:
        java = {**store.iceberg(), "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
        catalog = start_rest_catalog(folder, logs, java)
        try:
            yield {"type": "rest", "uri": catalog.url, **store.iceberg()}
        finally:
            end(catalog.child)
    finally:
        end(store.child)


REST: Final = f"Iceberg {versions.ICEBERG_REST} REST server, S3Proxy {versions.S3PROXY} (s3://)"
CATALOGS: Final = (
    CatalogCase("embedded", "SQLite, a local folder", in_a_file),
    CatalogCase(
        "jdbc", f"PostgreSQL {versions.POSTGRES_TESTED[versions.POSTGRES_DEFAULT]}, a local folder", in_postgres
    ),
    CatalogCase("rest", REST, by_rest),
    CatalogCase(
        "rest-cluster", f"{REST}; Spark {versions.SPARK} on two workers, executors killed", by_rest, on_a_dying_cluster
    ),
)
