"""Connection type `kafka_connect` → the REST endpoint of a Kafka Connect cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk import Connection

from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint, KafkaConnect
from airflow_cdc.core.endpoint import Address
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.hooks.base import CdcHook, flag

# extra fields of the connection → fields of the endpoint
AUTH: Final[Mapping[str, str]] = {
    "token_url": "token_url",
    "scope": "scope",
    "cert_file": "certificate",
    "key_file": "key",
    "key_password": "key_password",
}

# how the host of a managed service looks
MANAGED: Final[Mapping[str, str]] = {
    r"(^|[/.])confluent\.cloud([:/]|$)": "Confluent Cloud's managed connectors",
    r"(^|/)kafkaconnect\.[a-z0-9-]+\.amazonaws\.com(\.cn)?([:/]|$)": "MSK Connect",
}


class KafkaConnectHook(CdcHook[ConnectEndpoint]):
    """The REST interface of Kafka Connect.

    Connection fields: host (a name, or a whole URL such as https://connect.example:8443/prefix), port (8083), schema
    (http or https), login and password (basic authentication, optional; a password alone is a bearer token). Extra fields:
    `verify` (check the server's certificate, default true), `ca_file` (your own certificate authority; replaces
    `verify`), `cert_file`, `key_file`, `key_password` (a client certificate), `token_url` and `scope` (OAuth: login and
    password are the client's id and secret, for which that URL issues tokens).
    """

    default_conn_name = "kafka_connect_default"
    conn_type = "kafka_connect"
    hook_name = "Kafka Connect"
    accepts = frozenset({"http"})
    example = "--conn-host http://HOST:8083"

    def endpoint_of(self, conn: Connection) -> ConnectEndpoint:
        """The REST address and its credentials. Raises ConfigError."""
        extra = conn.extra_dejson
        host = self.required(conn.host, "host")
        self._refuse_managed(host)
        address = Address.of(host if "://" in host else f"{conn.schema or 'http'}://{host}", "Kafka Connect")
        port = conn.port or ("" if "://" in host else 8083)
        given: dict[str, Any] = {field: str(extra[name]) for name, field in AUTH.items() if extra.get(name)}
        return ConnectEndpoint(
            url=f"{address.url}:{port}" if port else address.url,
            user=conn.login or address.user,
            password=conn.password or address.password,
            verify=extra.get("ca_file") or flag(extra, "verify", default=True),
            **given,
        )

    def _refuse_managed(self, host: str) -> None:
        """Raises ConfigError for connectors that another company runs: they cannot be stopped as Kafka Connect's can."""
        for pattern, name in MANAGED.items():
            if re.search(pattern, host):
                raise ConfigError(
                    f"{name} is not supported: its connectors cannot be stopped and told an offset as Kafka Connect's can",
                    where=self.where,
                    todo="Use a Kafka Connect of your own beside these brokers; `airflow cdc explain` reads an error's text.",
                )

    def get_conn(self) -> KafkaConnect:
        return KafkaConnect(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("root")
