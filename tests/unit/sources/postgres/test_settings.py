"""A PostgreSQL source in pipelines.yaml and as an Airflow connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.hooks.postgres import CdcPostgresHook
from airflow_cdc.kinds import read_pipeline
from airflow_cdc.sources.postgres.kind import PostgresSettings
from airflow_cdc.sources.postgres.session import PostgresEndpoint, tls_parameters

REGISTRY = """
pipelines:
  shop:
    source: {kind: postgres, conn_id: shop_pg, tables: [public.orders], slot: shop, publication: shop_pub, database: shop}
    connector: {kind: debezium, conn_id: shop_connect, name: shop}
    transport: {kind: kafka, conn_id: shop_kafka}
    sink: {kind: iceberg, catalog: lake, namespace: shop}
"""


def connection(**more: Any) -> Connection:
    return Connection(conn_id="shop_pg", conn_type="postgres", host="db", login="cdc", password="secret", **more)


def endpoint_of(**more: Any) -> PostgresEndpoint:
    return CdcPostgresHook("shop_pg").endpoint_of(connection(**more))


def test_a_pipeline_names_slot_publication_and_database(tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yaml"
    path.write_text(REGISTRY)
    pipeline = load_registry(path)["shop"]
    assert isinstance(pipeline.source, PostgresSettings)
    assert read_pipeline(pipeline.to_json()) == pipeline
    own = pipeline.source.at(endpoint_of(schema="other"))
    assert (own.slot, own.publication, own.database) == ("shop", "shop_pub", "shop")


def test_what_is_left_out_is_debezium_s_default(tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yaml"
    path.write_text(REGISTRY.replace(", slot: shop, publication: shop_pub, database: shop", ""))
    source = load_registry(path)["shop"].source
    own = source.at(endpoint_of(schema="other"))
    assert (own.slot, own.publication, own.database) == ("debezium", "dbz_publication", "other")


@pytest.mark.parametrize(
    ("extra", "wanted"),
    [
        ("{}", {"sslmode": "prefer"}),
        ('{"ssl_mode": "required"}', {"sslmode": "require"}),
        ('{"sslmode": "verify-full", "sslrootcert": "/ca"}', {"sslmode": "verify-full", "sslrootcert": "/ca"}),
        ('{"ssl_ca": "/ca"}', {"sslmode": "verify-full", "sslrootcert": "/ca"}),
        ('{"ssl_mode": "verify_ca", "ssl_ca": "/ca", "ssl_key": "/k"}', {"sslmode": "verify-ca", "sslrootcert": "/ca", "sslkey": "/k"}),
        ('{"sslmode": "allow"}', {"sslmode": "prefer"}),
        # the form of a connection fills in preferred, which alone would verify nothing
        ('{"ssl_mode": "preferred", "ssl_ca": "/ca"}', {"sslmode": "verify-ca", "sslrootcert": "/ca"}),
        ('{"sslmode": "require", "sslrootcert": "/ca"}', {"sslmode": "verify-ca", "sslrootcert": "/ca"}),
    ],
)  # fmt: skip
def test_tls_of_a_connection(extra: str, wanted: dict[str, str]) -> None:
    made = endpoint_of(extra=extra)
    assert tls_parameters(made) == wanted
    assert (made.port, made.database) == (5432, "postgres")
    assert "secret" not in repr(made)


@pytest.mark.parametrize(("extra", "says"), [('{"ssl_mode": "maybe"}', "ssl_mode is 'maybe'")])
def test_what_is_wrong_is_named(extra: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        endpoint_of(extra=extra)
    with pytest.raises(ConfigError, match="unknown ssl setting 'caa'"):
        tls_parameters(PostgresEndpoint("db", 1, "u", "p", ssl={"caa": "/x"}))
    with pytest.raises(ConfigError, match="no host"):
        PostgresEndpoint(" ", 1, "u", "p")
