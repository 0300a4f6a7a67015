"""Connection type `cdc_rabbitmq` → a RabbitMQ endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Connection

from airflow_cdc.core.errors import ConfigError, needs
from airflow_cdc.hooks.base import CdcHook, flag, tls_settings
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint

if TYPE_CHECKING:
    from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport

_PORT, _TLS_PORT = 5672, 5671


class CdcRabbitMqHook(CdcHook[RabbitMqEndpoint]):
    """A RabbitMQ server whose queues carry the change events.

    Connection fields: host (a name, or amqps://NAME for TLS), port (5672, with TLS 5671), schema (the virtual host, `/`),
    login and password. Extra fields: `management` (address of the management interface), `tls` (read messages through
    TLS), and for TLS of both interfaces `verify` (check the server's certificate, default true), `ca_file` (your own
    certificate authority), `cert_file`, `key_file`, `key_password` (a client certificate).
    """

    default_conn_name = "cdc_rabbitmq_default"
    conn_type = "cdc_rabbitmq"
    hook_name = "CDC RabbitMQ transport"
    example = "--conn-host rabbit.example --conn-port 5672 --conn-schema / --conn-login USER --conn-password …"

    def endpoint_of(self, conn: Connection) -> RabbitMqEndpoint:
        """The address and the login. Raises ConfigError."""
        extra, (scheme, host) = conn.extra_dejson, self._address(self.required(conn.host, "host"))
        is_secured = scheme == "amqps" or flag(extra, "tls", default=False)
        return RabbitMqEndpoint(
            host=host,
            port=conn.port or (_TLS_PORT if is_secured else _PORT),
            vhost=conn.schema or "/",
            user=self.required(conn.login, "login"),
            password=conn.password or "",
            management=str(extra.get("management") or "").rstrip("/"),
            tls=is_secured,
            **tls_settings(extra),
        )

    def _address(self, host: str) -> tuple[str, str]:
        """Scheme and name. Raises ConfigError without what was written: it may hold a password."""
        scheme, _, name = host.rstrip("/").rpartition("://")
        if scheme not in {"", "amqp", "amqps"} or not name or set(name) & set("/@ ") or name.count(":") == 1:
            raise ConfigError(
                "host is not a server's name",
                where=self.where,
                todo="Write its name or amqps://NAME; port, virtual host, login and password have fields of their own.",
            )
        return scheme, name

    def get_conn(self) -> RabbitMqTransport:
        with needs("rabbitmq", where=self.where):
            from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport

        return RabbitMqTransport(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
