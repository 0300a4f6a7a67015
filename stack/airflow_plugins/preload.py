"""The scheduler imports what its tasks need: they run in forks of it, and each would import it again (two seconds of CPU)."""

from __future__ import annotations

import sys
from importlib import import_module

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin

STEPS = (
    "checks",
    "close",
    "connector",
    "decide",
    "replica",
    "hold",
    "reset_offset",
    "open",
    "backlog",
    "publish",
    "observe",
    "watermark",
)
NEEDED = (
    "airflow_cdc.dags._apply",
    "airflow_cdc.dags._recovery",
    *(f"airflow_cdc.flows.{step}" for step in STEPS),
    "airflow_cdc.hooks.endpoints",
    "airflow_cdc.control.control",
    "kafka",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
)


@hookimpl
def on_starting(component: object) -> None:
    """Called in every component of Airflow when it starts."""
    del component
    if "scheduler" in sys.argv:
        for name in NEEDED:
            import_module(name)


class Preload(AirflowPlugin):
    """Makes Airflow call `on_starting`."""

    name = "cdc_preload"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 - as Airflow declares it
