"""Connection type `cdc_rabbitmq` → a RabbitMQ endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Connection

from airflow_cdc.core.extras import needs
from airflow_cdc.hooks.base import CdcHook, flag
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint

if TYPE_CHECKING:
    from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport

_PORT, _TLS_PORT = 5672, 5671


class CdcRabbitMqHook(CdcHook[RabbitMqEndpoint]):
    """A RabbitMQ server whose queues carry the change events.

    Connection fields: host, port (5672, with `tls` 5671), schema (the virtual host, `/`), login and password. Extra
    fields: `management` (address of the management interface), `tls`, `ca` (file of the certificate authority's certificate).
    """

    default_conn_name = "cdc_rabbitmq_default"
    conn_type = "cdc_rabbitmq"
    hook_name = "CDC RabbitMQ transport"
    example = "--conn-host rabbit.example --conn-port 5672 --conn-schema / --conn-login USER --conn-password …"

    def endpoint_of(self, conn: Connection) -> RabbitMqEndpoint:
        """The address and the login. Raises ConfigError."""
        extra, tls = conn.extra_dejson, flag(conn.extra_dejson, "tls", default=False)
        return RabbitMqEndpoint(
            host=self.required(conn.host, "host"),
            port=conn.port or (_TLS_PORT if tls else _PORT),
            vhost=conn.schema or "/",
            user=self.required(conn.login, "login"),
            password=conn.password or "",
            management=str(extra.get("management") or "").rstrip("/"),
            tls=tls,
            ca=str(extra.get("ca") or ""),
        )

    def get_conn(self) -> RabbitMqTransport:
        with needs("rabbitmq", where=self.where):
            from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport

        return RabbitMqTransport(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
