"""An Airflow as `pip install` leaves it: all that is set stands in docs/how-to/install.md, as a unit test compares."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stack import fetch
from stack.airflow import AirflowSettings
from stack.cluster import Stack


def stock_settings(jars: Iterable[Path]) -> dict[str, str]:
    """The environment that is set; the values are this machine's."""
    return {
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CDC__SPARK_JARS": ",".join(map(str, jars)),
    }


def stock_airflow(_stack: Stack) -> AirflowSettings:
    """Nothing of the stack is known to it: the pipeline's connections are the user's to make."""
    return AirflowSettings(Path("dags"), stock_settings(fetch.set_jars("spark")), stock=True)
