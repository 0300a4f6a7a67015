"""The form of Airflow's connection type `cdc_postgres`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "cdc_postgres",
    "hook-class-name": "airflow_cdc.hooks.postgres.CdcPostgresHook",
    "hook-name": "CDC PostgreSQL source",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"login": "User", "schema": "Database"},
        "placeholders": {"host": "postgres.example", "port": "5432", "login": "cdc", "schema": "shop"},
    },
    "conn-fields": {
        "ssl_mode": field(
            "TLS mode",
            "disabled, preferred, required, verify_ca or verify_identity",
            enum=["disabled", "preferred", "required", "verify_ca", "verify_identity", None],
            default="preferred",
        ),
        "ssl_ca": field("TLS: CA file", "Path of the authority's certificate"),
        "ssl_cert": field("TLS: client certificate", "Path"),
        "ssl_key": field("TLS: client key", "Path"),
        "ssl_key_password": field("TLS: password of the client key", format="password"),
        "connect_timeout": field("Connect timeout (s)", type=["integer", "null"], default=10),
        "read_timeout": field("Read timeout (s)", type=["integer", "null"], default=3600),
    },
}
