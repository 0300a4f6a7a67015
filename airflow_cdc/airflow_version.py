"""Which Airflow this is, whether this package runs on it, and what differs between the versions that it runs on.

The package does not state Airflow's minimum version as a dependency, because pip would then upgrade an older Airflow, and
with it a whole installation, to satisfy it. Instead, an older Airflow is refused when our modules are imported.
"""

from __future__ import annotations

import importlib.metadata
from functools import cache
from typing import Any, Final

from airflow_cdc.core.errors import ConfigError

MINIMUM: Final = (3, 2)
# the first version whose SparkSubmitOperator can reattach to a running driver, and so can be told not to
DURABLE: Final = (3, 3)


@cache
def installed() -> tuple[str, tuple[int, int]]:
    """The version of the installed Airflow: its text, and its first two numbers; (0, 0) if there is none."""
    for name in ("apache-airflow-core", "apache-airflow"):
        try:
            text = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        return text, _first_two(text)
    return "none", (0, 0)


def _first_two(version: str) -> tuple[int, int]:
    major, minor, *_ = [*version.split("."), "0"]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def check_airflow() -> None:
    """Raise ConfigError if this Airflow is older than the oldest one that the package was tested with."""
    text, version = installed()
    if version < MINIMUM:
        raise ConfigError(
            f"airflow-provider-cdc needs Airflow {MINIMUM[0]}.{MINIMUM[1]} or newer, and this is {text}",
            where="this Python environment",
            todo="Upgrade Airflow, or uninstall airflow-provider-cdc.",
        )


def stats() -> Any:
    """Airflow's metrics, with `gauge` and `timing`: in 3.2 a class, from 3.3 on the module."""
    from airflow.sdk.observability import stats as module

    return module if hasattr(module, "gauge") else module.Stats


def not_durable() -> dict[str, bool]:
    """The SparkSubmitOperator argument that makes each try start a driver of its own; older ones always do."""
    return {"durable": False} if installed()[1] >= DURABLE else {}
