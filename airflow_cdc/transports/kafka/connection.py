"""The form of Airflow's connection type `cdc_kafka`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "cdc_kafka",
    "hook-class-name": "airflow_cdc.hooks.kafka.CdcKafkaHook",
    "hook-name": "CDC Kafka transport",
    "ui-field-behaviour": {
        "hidden-fields": ["schema"],
        "relabeling": {"login": "SASL user, or OAuth client id", "password": "SASL password, or OAuth client secret"},
    },
    "conn-fields": {
        "bootstrap.servers": field("Bootstrap servers", "host:port,host:port"),
        "security.protocol": field(
            "Security protocol", enum=["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", None], default="PLAINTEXT"
        ),
        "sasl.mechanism": field("SASL mechanism", "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM"),
        "sasl.oauthbearer.token.endpoint.url": field(
            "OAuth: token URL", "Login and password are the client's id and secret"
        ),
        "sasl.oauthbearer.scope": field("OAuth: scope"),
        "ssl.cafile": field("TLS: CA file", "Path"),
        "ssl.certfile": field("TLS: client certificate", "Path"),
        "ssl.keyfile": field("TLS: client key", "Path"),
    },
}
