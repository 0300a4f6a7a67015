"""The form of Airflow's connection type `cdc_schema_registry`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "cdc_schema_registry",
    "hook-class-name": "airflow_cdc.hooks.schema_registry.SchemaRegistryHook",
    "hook-name": "CDC schema registry",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Scheme", "host": "Host or URL"},
        "placeholders": {"host": "https://registry.example:8081 (Apicurio: …/apis/registry/v2)", "schema": "http"},
    },
    "conn-fields": {
        "verify": field("Check the TLS certificate", type=["boolean", "null"], default=True),
        "ca_file": field("TLS: CA file", "Path; takes the place of the system's authorities"),
        "cert_file": field("TLS: client certificate", "Path"),
        "key_file": field("TLS: client key", "Path; if it is not in the certificate's file"),
        "key_password": field("TLS: password of the client key", format="password"),
    },
}
