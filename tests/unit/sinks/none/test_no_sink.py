"""A pipeline without a sink: how it is declared, what keeps its state, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_cdc.config.registry import load_registry
from airflow_cdc.controls.iceberg import IcebergControlSettings
from airflow_cdc.controls.sql.kind import SqlControlSettings, SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import ConfigError, UsageError
from airflow_cdc.core.pipeline import NO_SINK, Pipeline
from airflow_cdc.core.settings import connections
from airflow_cdc.hooks import endpoints as resolving
from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.hooks.sql_control import SqlControlHook
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.lineage import datasets
from airflow_cdc.parts import Endpoints, open_parts
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.none import NoEndpoint, NoSinkClient
from airflow_cdc.sources.mysql.client import MySqlEndpoint

THREE = """\
pipelines:
  shop:
    source:    {kind: mysql, conn_id: m, tables: [shop.orders]}
    connector: {kind: debezium, conn_id: c, name: shop}
    transport: {kind: kafka, conn_id: k}
"""
SQL = "    control:   {kind: sql, conn_id: state}\n"
SINK = "    sink:      {kind: iceberg, catalog: lake, namespace: shop}\n"


def declared(tmp_path: Path, text: str, **options: Any) -> Pipeline:
    path = tmp_path / "pipelines.yaml"
    path.write_text(text)
    return load_registry(path, **options)["shop"]


@pytest.mark.parametrize("sink", ["", "    sink:\n", "    sink:      {kind: none}\n"])
def test_a_pipeline_without_a_sink_keeps_its_state_in_a_database(tmp_path: Path, sink: str) -> None:
    pipeline = declared(tmp_path, THREE + sink + SQL)
    assert (pipeline.sink, pipeline.has_sink, pipeline.control) == (NO_SINK, False, SqlControlSettings("sql", "state"))
    assert read_pipeline(pipeline.to_json()) == pipeline
    assert sorted(connections(pipeline).values()) == ["c", "k", "m", "spark_default", "state"]


def test_without_a_place_for_its_state_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"key control.*Add `control: \{kind: sql, conn_id: …\}`"):
        declared(tmp_path, THREE)


def test_a_sink_keeps_the_state_unless_another_store_is_named(tmp_path: Path) -> None:
    assert declared(tmp_path, THREE + SINK).control is None
    assert declared(tmp_path, THREE + SINK + SQL).control == SqlControlSettings("sql", "state")
    other = declared(tmp_path, THREE + SINK + "    control:   {kind: iceberg, catalog: other}\n")
    assert other.control == IcebergControlSettings("iceberg", "other")


@pytest.mark.parametrize(
    ("control", "key"),
    [
        ("{kind: sql}", "control.conn_id"),
        ("{kind: sqll, conn_id: x}", "control.kind"),
        ("{kind: iceberg, conn_id: x}", "control"),
    ],
)
def test_a_fault_of_the_store_is_named(tmp_path: Path, control: str, key: str) -> None:
    with pytest.raises(ConfigError, match=f"key {key}"):
        declared(tmp_path, f"{THREE}    control:   {control}\n")


@pytest.mark.parametrize("kind", ["sql", "iceberg", "none"])
def test_the_state_is_kept_where_the_pipeline_says(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the connections, as a task resolves them, and again from a driver's settings file."""
    control = {"sql": SQL, "iceberg": "    control:   {kind: iceberg, catalog: other}\n", "none": ""}[kind]
    pipeline = declared(tmp_path, THREE + (SINK if kind != "sql" else "") + control)
    catalog = f'{{"type": "sql", "uri": "sqlite:///{tmp_path}/c.db", "warehouse": "file://{tmp_path}/w"}}'
    stores = {
        "m": Connection(conn_id="m", conn_type="cdc_mysql", host="h", login="u"),
        "c": Connection(conn_id="c", conn_type="kafka_connect", host="h"),
        "k": Connection(conn_id="k", conn_type="cdc_kafka", host="h", extra='{"bootstrap.servers": "h:1"}'),
        "state": Connection(conn_id="state", conn_type="sqlite", host=str(tmp_path / "state.db")),
        "lake": Connection(conn_id="lake", conn_type="iceberg_catalog", extra=catalog),
        "other": Connection(conn_id="other", conn_type="iceberg_catalog", extra=catalog),
    }
    monkeypatch.setattr(CdcHook, "get_connection", stores.__getitem__)
    endpoints = resolving.resolve_endpoints(pipeline)
    assert Endpoints.from_json(endpoints.to_json(pipeline)) == endpoints
    parts = open_parts(pipeline, endpoints.limited(CallLimits()))
    kept = {"sql": "database state.db", "iceberg": "catalog other", "none": "catalog lake"}[kind]
    assert parts.control.endpoint == kept
    assert parts.control.state()["epoch"] == 0
    if kind == "sql":
        assert isinstance(parts.sink, NoSinkClient)


def test_what_needs_a_sink_is_refused_in_one_line(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, THREE + SQL)
    client = NoSinkClient(NoEndpoint())
    asks: tuple[Callable[[], object], ...] = (lambda: pipeline.check_sink("a recovery"), lambda: client.facts("shop"))
    for ask in asks:
        with pytest.raises(UsageError, match=r"needs a sink, and this pipeline has none.*Declare one under `sink`"):
            ask()
    endpoints = Endpoints(MySqlEndpoint("h", 1, "u", "p"), NoEndpoint(), NoEndpoint(), NoEndpoint())
    assert datasets(pipeline, endpoints, "sink") == []


# the connection


def endpoint_of(**fields: Any) -> SqlEndpoint:
    return SqlControlHook("state").endpoint_of(Connection(conn_id="state", **fields))


def test_a_stock_connection_says_where_the_database_is() -> None:
    endpoint = endpoint_of(
        conn_type="postgres",
        host="h",
        schema="cdc",
        login="u",
        password="s3cret-pw",
        extra='{"sslmode": "verify-full"}',
    )
    assert (endpoint.driver, endpoint.port, endpoint.where) == ("postgresql+psycopg", 5432, "database cdc at h:5432")
    assert (endpoint.options["sslmode"], endpoint.options["connect_timeout"]) == ("verify-full", "10")
    assert "s3cret-pw" not in repr(endpoint)
    assert endpoint_of(conn_type="mysql", host="h", schema="cdc", login="u").driver == "mysql+pymysql"
    assert endpoint_of(conn_type="sqlite", host="/var/lib/cdc.db").database == "/var/lib/cdc.db"
    own = endpoint_of(conn_type="cdc_sql_control", host="h", schema="cdc", login="u", extra='{"dialect": "mysql"}')
    assert (own.driver, "dialect" in own.options) == ("mysql+pymysql", False)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"conn_type": "cdc_sql_control", "host": "h"}, "dialect is 'cdc_sql_control'"),
        ({"conn_type": "postgres", "host": "h", "login": "u"}, "schema is empty"),
        ({"conn_type": "sqlite"}, "host is empty"),
    ],
)
def test_a_connection_that_is_not_whole_is_refused(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        endpoint_of(**fields)


def test_the_form_tests_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = SqlControlHook("state")
    monkeypatch.setattr(
        hook, "connection", lambda: Connection(conn_id="state", conn_type="sqlite", host=str(tmp_path / "s.db"))
    )
    assert isinstance(hook.get_conn(), SqlControlStore)
    assert hook.test_connection() == (True, "CDC control database: connection works")
    monkeypatch.setattr(
        hook, "connection", lambda: Connection(conn_id="state", conn_type="sqlite", host=str(tmp_path / "no" / "s.db"))
    )
    works, said = hook.test_connection()
    assert (works, "does not answer as it should" in said) == (False, True)


def test_iceberg_as_a_store_apart_is_the_same_catalog_type() -> None:
    assert IcebergEndpoint("other", {}).where == "catalog other"
