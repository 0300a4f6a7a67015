"""Connection type `flink` → the REST interfaces of a Flink cluster."""

from __future__ import annotations

from airflow.sdk import Connection

from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.flink.offset import FlinkCodec
from airflow_cdc.core.endpoint import Address
from airflow_cdc.hooks.base import CdcHook, flag


class FlinkHook(CdcHook[FlinkEndpoint]):
    """A Flink cluster. The job's plan and its savepoints stand in pipelines.yaml, below `connector`.

    Connection fields: host (a name, or a whole URL), port (8081), schema (http or https), login and password (basic
    authentication of a proxy, optional). Extra fields: `gateway` (URL of the SQL gateway; without it no job is started),
    `verify` (check the server's certificate, default true).
    """

    default_conn_name = "flink_default"
    conn_type = "flink"
    hook_name = "Flink"
    example = """--conn-host JOBMANAGER --conn-port 8081 --conn-extra '{"gateway": "http://GATEWAY:8083"}'"""

    def endpoint_of(self, conn: Connection) -> FlinkEndpoint:
        """The addresses and the login there. Raises ConfigError."""
        extra = conn.extra_dejson
        host = self.required(conn.host, "host")
        given = host if "://" in host else f"{conn.schema or 'http'}://{host}"
        address = Address.of(given, "Flink")
        port = conn.port or ("" if "://" in host else 8081)
        return FlinkEndpoint(
            f"{address.url}:{port}" if port else address.url,
            str(extra.get("gateway") or ""),
            conn.login or address.user,
            conn.password or address.password,
            flag(extra, "verify", default=True),
        )

    def get_conn(self) -> FlinkConnector:
        return FlinkConnector(self.endpoint(), FlinkCodec())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
