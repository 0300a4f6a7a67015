"""The form of Airflow's connection type `debezium_engine`."""

from __future__ import annotations

from typing import Any, Final

FORM: Final[dict[str, Any]] = {
    "connection-type": "debezium_engine",
    "hook-class-name": "airflow_cdc.hooks.debezium_engine.DebeziumEngineHook",
    "hook-name": "Debezium's engine",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port", "login", "password", "extra"],
        "relabeling": {"host": "The machine that it runs on"},
        "placeholders": {"host": "debezium1.example"},
    },
    "conn-fields": {},
}
