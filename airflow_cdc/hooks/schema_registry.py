"""Connection type `cdc_schema_registry` → the endpoint of a schema registry."""

from __future__ import annotations

from airflow.sdk import Connection

from airflow_cdc.core.endpoint import Address
from airflow_cdc.hooks.base import CdcHook, tls_settings
from airflow_cdc.transports.kafka.registry import RegistryEndpoint, SchemaRegistry


class SchemaRegistryHook(CdcHook[RegistryEndpoint]):
    """A schema registry with Confluent's interface, or Apicurio.

    Connection fields: host (a name, or a whole URL such as https://registry.example:8081, of Apicurio with the interface,
    as …/apis/registry/v2), port (8081), schema (http or https), login and password (basic authentication, optional). Extra
    fields: `verify` (check the server's certificate, default true), `ca_file`, `cert_file`, `key_file`, `key_password`.
    """

    default_conn_name = "cdc_schema_registry_default"
    conn_type = "cdc_schema_registry"
    hook_name = "CDC schema registry"
    accepts = frozenset({"http"})
    example = "--conn-host http://HOST:8081"

    def endpoint_of(self, conn: Connection) -> RegistryEndpoint:
        """The address and its credentials. Raises ConfigError."""
        host = self.required(conn.host, "host")
        address = Address.of(host if "://" in host else f"{conn.schema or 'http'}://{host}", "the schema registry")
        port = conn.port or ("" if "://" in host else 8081)
        return RegistryEndpoint(
            url=f"{address.url}:{port}" if port else address.url,
            user=conn.login or address.user,
            password=conn.password or address.password,
            **tls_settings(conn.extra_dejson),
        )

    def get_conn(self) -> SchemaRegistry:
        return SchemaRegistry(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
