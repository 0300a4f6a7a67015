"""Connection type `cdc_kafka` → a Kafka endpoint."""

from __future__ import annotations

from airflow.sdk import Connection

from airflow_cdc.hooks.base import CdcHook
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport

SECURITY_PREFIXES = ("security.", "sasl.", "ssl.")


class CdcKafkaHook(CdcHook[KafkaEndpoint]):
    """The brokers that carry the change events.

    Connection fields: host and port, or the extra field `bootstrap.servers` (comma-separated host:port). Extra fields
    by the names that Kafka gives them: `security.protocol`, `sasl.mechanism`, `ssl.cafile`, `ssl.certfile`,
    `ssl.keyfile`; login and password are the SASL user.
    """

    default_conn_name = "cdc_kafka_default"
    conn_type = "cdc_kafka"
    hook_name = "CDC Kafka transport"
    accepts = frozenset({"kafka"})
    example = """--conn-extra '{"bootstrap.servers": "HOST:9092"}'"""

    def endpoint_of(self, conn: Connection) -> KafkaEndpoint:
        """The bootstrap servers and the security settings. Raises ConfigError."""
        extra = conn.extra_dejson
        host = f"{conn.host}:{conn.port or 9092}" if conn.host else None
        security = {key: str(value) for key, value in extra.items() if key.startswith(SECURITY_PREFIXES) and value}
        if conn.login:
            security |= {"sasl.username": conn.login, "sasl.password": conn.password or ""}
        return KafkaEndpoint(
            bootstrap=self.required(extra.get("bootstrap.servers") or host, "bootstrap.servers"), security=security
        )

    def get_conn(self) -> KafkaTransport:
        return KafkaTransport(self.endpoint())

    def test_connection(self) -> tuple[bool, str]:
        return self.tested("reach")
