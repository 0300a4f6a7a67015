"""The form of Airflow's connection type `flink`."""

from __future__ import annotations

from typing import Any, Final

from airflow_cdc.core.connection_form import field

FORM: Final[dict[str, Any]] = {
    "connection-type": "flink",
    "hook-class-name": "airflow_cdc.hooks.flink.FlinkHook",
    "hook-name": "Flink",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"host": "JobManager", "schema": "http or https", "login": "User", "port": "REST port"},
        "placeholders": {"host": "jobmanager.example", "port": "8081", "schema": "http"},
    },
    "conn-fields": {
        "gateway": field("SQL gateway", "http://gateway.example:8083; without it no job is started from here"),
        "verify": field("Check certificates", "true or false"),
    },
}
