"""Connection type `iceberg_catalog` → the properties PyIceberg opens a catalog with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Connection

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint

if TYPE_CHECKING:
    from airflow_cdc.sinks.iceberg.client import Lake


class IcebergCatalogHook(CdcHook[IcebergEndpoint]):
    """An Iceberg catalog; the connection's id is the `sink.catalog` of the registry.

    The extra field is the catalog's PyIceberg properties: {"type": "rest", "uri": "https://…"}, or {"type": "sql",
    "uri": "sqlite:////path/catalog.db", "warehouse": "file:///path"}. Host stands in for a missing `uri`; login and
    password become `credential` (a password alone becomes `token`), so that secrets need not be in the extra field.
    """

    default_conn_name = "lake"
    conn_type = "iceberg_catalog"
    hook_name = "Iceberg catalog"
    accepts = frozenset({"iceberg"})
    example = """--conn-extra '{"type": "rest", "uri": "https://HOST/catalog", "warehouse": "…"}'"""

    def endpoint_of(self, conn: Connection) -> IcebergEndpoint:
        """The catalog's name and properties. Raises ConfigError."""
        properties = {str(key): str(value) for key, value in conn.extra_dejson.items() if value not in (None, "")}
        if conn.host:
            properties.setdefault("uri", conn.host)
        if conn.password:
            key, value = ("credential", f"{conn.login}:{conn.password}") if conn.login else ("token", conn.password)
            properties.setdefault(key, value)
        if not {"type", "uri"} & properties.keys():
            raise ConfigError(
                "the catalog has neither type nor uri", where=self.where, todo=f"Fill in extra: {self.example}"
            )
        return IcebergEndpoint(self.conn_id, properties)

    def get_conn(self) -> Lake:
        from airflow_cdc.sinks.iceberg.client import (
            Lake,  # PyIceberg is slow to import, and every provider look-up comes here
        )

        endpoint = self.endpoint()
        return Lake(endpoint.name, dict(endpoint.properties))

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
