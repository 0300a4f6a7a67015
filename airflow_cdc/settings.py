"""Where this installation keeps its registry, its reports and its Spark jars: the `[cdc]` section of airflow.cfg."""

from __future__ import annotations

import json
import os
from pathlib import Path

from airflow_cdc.core.errors import ConfigError

SECTION = "cdc"
APPLY_SCHEDULE = "* * * * *"
NIGHTLY_SCHEDULE = "0 2 * * *"
CLI_USERS = ("token", "shell")


def _get(key: str, fallback: str = "") -> str:
    from airflow.sdk.configuration import conf

    return str(conf.get(SECTION, key, fallback=fallback) or fallback).strip()


def airflow_home() -> Path:
    """Airflow's home folder, as Airflow itself finds it."""
    return Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()


def registry_path(override: str | None = None) -> Path:
    """The pipelines.yaml to read: `override`, else `[cdc] registry`, else `$AIRFLOW_HOME/pipelines.yaml`."""
    return Path(override or _get("registry") or airflow_home() / "pipelines.yaml").expanduser()


def report_dir(override: str | None = None) -> str:
    """Folder or object-storage URL of the reports, without a trailing slash."""
    return (override or _get("report_dir") or str(airflow_home() / "cdc_reports")).rstrip("/")


def report_url() -> str:
    """Address under which a web server shows `report_dir`; empty where there is none."""
    return _get("report_url").rstrip("/")


def airflow_url() -> str:
    """The address of Airflow's web server, without a trailing slash; empty where it is not set."""
    from airflow.sdk.configuration import conf

    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/")


def apply_schedule() -> str | None:
    """Cron expression of the `cdc_apply__<pipeline>` DAGs; None where it says none: they run when triggered."""
    return _schedule("apply_schedule", APPLY_SCHEDULE)


def nightly_schedule() -> str | None:
    """The same of the `cdc_nightly_consistency__<pipeline>` DAGs."""
    return _schedule("nightly_schedule", NIGHTLY_SCHEDULE)


def _schedule(key: str, default: str) -> str | None:
    wanted = _get(key, default)
    return None if wanted.lower() == "none" else wanted


def cli_users() -> str:
    """Who may change an offset by a command: `token` (an Airflow user, by their token) or `shell` (whoever has one)."""
    wanted = _get("cli_users", "token").lower()
    if wanted not in CLI_USERS:
        raise ConfigError(
            f"cli_users is {wanted!r}", where=f"airflow.cfg [{SECTION}]", todo=f"Write {' or '.join(CLI_USERS)}."
        )
    return wanted


def spark_jars() -> str | None:
    """Comma-separated jar paths for every Spark application, or None."""
    return _get("spark_jars") or None


def spark_packages() -> str | None:
    """Comma-separated Maven coordinates; only used where `spark_jars` is empty."""
    return None if spark_jars() else _get("spark_packages") or None


def spark_conf() -> dict[str, str]:
    """Spark settings of every application, from a JSON object. Raises ConfigError for anything else."""
    text = _get("spark_conf", "{}")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise _bad_conf() from error
    if not isinstance(value, dict):
        raise _bad_conf()
    return {str(key): str(setting) for key, setting in value.items()}


def _bad_conf() -> ConfigError:
    return ConfigError(
        "spark_conf is not a JSON object",
        where=f"airflow.cfg [{SECTION}] spark_conf",
        todo='Write one like {"spark.driver.memory": "2g"}.',
    )
