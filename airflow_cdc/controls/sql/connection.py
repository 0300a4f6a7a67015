"""The form of Airflow's connection type `cdc_sql_control`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "cdc_sql_control",
    "hook-class-name": "airflow_cdc.hooks.sql_control.SqlControlHook",
    "hook-name": "CDC control database",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Database", "login": "User", "host": "Host, or the file of a SQLite database"},
        "placeholders": {"host": "postgres.example", "schema": "cdc"},
    },
    "conn-fields": {
        "dialect": field(
            "Dialect", "postgres, mysql or sqlite", enum=["postgres", "mysql", "sqlite", None], default="postgres"
        )
    },
}
