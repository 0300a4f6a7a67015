"""The form of Airflow's connection type `cdc_rabbitmq`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "cdc_rabbitmq",
    "hook-class-name": "airflow_cdc.hooks.rabbitmq.CdcRabbitMqHook",
    "hook-name": "CDC RabbitMQ transport",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Virtual host"},
        "placeholders": {"host": "rabbit.example", "port": "5672", "schema": "/"},
    },
    "conn-fields": {
        "management": field("Management interface", "http://HOST:15672, of the plugin rabbitmq_management"),
        "tls": field("TLS", "true: messages are read through TLS (port 5671)"),
        "verify": field("Check the TLS certificate", type=["boolean", "null"], default=True),
        "ca_file": field("TLS: CA file", "Path; takes the place of the system's authorities"),
        "cert_file": field("TLS: client certificate", "Path"),
        "key_file": field("TLS: client key", "Path; if it is not in the certificate's file"),
        "key_password": field("TLS: password of the client key", format="password"),
    },
}
