"""The catalogs that `make catalogs` recovers into: real ones, each with its own store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import stack
from stack import versions
from stack.hive import start_metastore
from stack.object_store import start_object_store
from stack.process import end
from stack.rest_catalog import start_rest_catalog
from tests.catalogs.cluster import on_a_cluster
from tests.catalogs.killed import killed_and_again
from tests.spark_session import embedded_catalog
from tests.systems.running import lake_and_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.flows.run import Run
    from airflow_cdc.sinks.iceberg.client import Lake


@dataclass(frozen=True, slots=True)
class CatalogCase:
    """A row: its name, what it runs on, and how it is opened in a folder: PyIceberg's properties.

    `publishing`: how the step `publish` is run, if not once and to its end. `session`: where Spark runs.
    """

    name: str
    version: str
    opened: Callable[[Path], AbstractContextManager[Mapping[str, str]]]
    publishing: Callable[[Run], Any] | None = None
    session: Callable[[Path, Mapping[str, str], Sequence[Path]], AbstractContextManager[tuple[Lake, SparkSession]]] = (
        lake_and_spark
    )


@contextmanager
def in_a_file(folder: Path) -> Iterator[Mapping[str, str]]:
    """SQLite and a folder."""
    yield embedded_catalog(folder)


@contextmanager
def in_postgres(folder: Path) -> Iterator[Mapping[str, str]]:
    """A database of a PostgreSQL server, and a folder."""
    with stack.start(folder / "stack", ("postgres",)) as running:
        server = running.postgres["postgres"]
        server.execute("CREATE DATABASE catalog")
        login = f"{server.user}:{server.password}"
        yield {**embedded_catalog(folder), "uri": f"postgresql+psycopg://{login}@{server.host}:{server.port}/catalog"}


@contextmanager
def in_hive(folder: Path) -> Iterator[Mapping[str, str]]:
    """A Hive Metastore, and a folder."""
    logs, warehouse = folder / "logs", f"file://{folder}/warehouse"
    logs.mkdir()
    metastore = start_metastore(folder, logs, warehouse)
    try:
        yield {"type": "hive", "uri": metastore.url, "warehouse": warehouse}
    finally:
        end(metastore.child)


@contextmanager
def by_rest(folder: Path, refuses: str = "") -> Iterator[Mapping[str, str]]:
    """A REST catalog, and an object store. `refuses`: see start_rest_catalog."""
    logs = folder / "logs"
    logs.mkdir()
    store = start_object_store(folder, logs)
    try:
        java = {**store.iceberg(), "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
        catalog = start_rest_catalog(folder, logs, java, refuses=refuses)
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
    CatalogCase("hive", f"Hive Metastore {versions.HIVE} over Derby, a local folder", in_hive),
    CatalogCase("rest", REST, by_rest),
    CatalogCase(
        "guarded",
        f"{REST}, which refuses to register tables and to share locations; publish killed twice",
        partial(by_rest, refuses="register"),
        killed_and_again,
    ),
    CatalogCase("rest-cluster", f"{REST}; Spark on a standalone cluster of two workers", by_rest, session=on_a_cluster),
)
