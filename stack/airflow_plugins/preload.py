"""The scheduler imports what its tasks need: they run in forks of it, and each would import it again (a second of CPU)."""

from __future__ import annotations

import sys

from airflow.listeners import hookimpl
from airflow.plugins_manager import AirflowPlugin


@hookimpl
def on_starting(component: object) -> None:
    """Called in every component of Airflow when it starts."""
    del component
    if "scheduler" in sys.argv:
        import airflow_cdc.dags._factory  # noqa: F401


class Preload(AirflowPlugin):
    """Makes Airflow call `on_starting`."""

    name = "cdc_preload"
    listeners = [sys.modules[__name__]]  # noqa: RUF012 - as Airflow declares it
