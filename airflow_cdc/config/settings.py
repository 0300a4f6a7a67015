"""The `[cdc]` section of airflow.cfg: every option declared once, and read here.

The declarations are also what Airflow lists (`airflow config list --section cdc`) and what the configuration reference
shows. Nothing of Airflow is imported at the top, because Airflow reads the declarations while it is being imported.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.text import read_json

SECTION = "cdc"
CLI_USERS = ("token", "shell")
# Airflow's own default if `[api] base_url` is not set
LOCAL_AIRFLOW = "http://localhost"
LOCAL_PORT = "8080"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its purpose, its default, and an example.

    `form` says how the text is written. `default` must hold no brace, which Airflow would replace while it is imported;
    `unset` describes in words what an empty option means.
    """

    name: str
    form: str
    description: str
    example: str
    default: str = ""
    unset: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"AIRFLOW__{SECTION}__{self.name}".upper()


OPTIONS: tuple[Option, ...] = (
    Option(
        "registry",
        "path",
        "Path of the registry of pipelines. Every component reads it: the DAG processor, workers, the API server.",
        "/etc/airflow/pipelines.yaml",
        unset="`pipelines.yaml` in Airflow's home folder",
    ),
    Option(
        "report_dir",
        "path or URL",
        "Folder or object-storage URL (file, s3, gs, abfs) under which `<pipeline>/<run_id>/report.json` and its page are "
        "written. Workers write it, the API server and the commands read it: with more than one machine a URL, or a folder "
        "that all of them mount. `s3://CONN_ID@bucket/…` is opened with that Airflow connection.",
        "s3://bucket/cdc-reports",
        unset="`cdc_reports` in Airflow's home folder",
    ),
    Option(
        "report_url",
        "URL",
        "Address of your own web server that serves report_dir. Links to reports then point there.",
        "https://reports.example/cdc",
        unset="this provider's page in Airflow shows the reports, under `[api] base_url`",
    ),
    Option(
        "apply_schedule",
        "cron expression",
        "Cron expression of the DAGs `cdc_apply__<pipeline>`; `none`: only when triggered.",
        "*/5 * * * *",
        default="* * * * *",
    ),
    Option(
        "nightly_schedule",
        "cron expression",
        "Cron expression (UTC) of the DAGs `cdc_nightly_consistency__<pipeline>`; `none`: only when triggered.",
        "30 1 * * *",
        default="0 2 * * *",
    ),
    Option(
        "maintain_schedule",
        "cron expression",
        "Cron expression (UTC) of the DAGs `cdc_maintain__<pipeline>`; `none`: only when triggered.",
        "0 5 * * 0",
        default="0 4 * * *",
    ),
    Option(
        "cli_users",
        "`token` or `shell`",
        "Who may change an offset by a command. `token`: an Airflow user who may trigger cdc_recovery, by the token in "
        "AIRFLOW_CLI_TOKEN; `shell`: everybody who has a shell.",
        "shell",
        default="token",
    ),
    Option(
        "spark_jars",
        "paths",
        "Comma-separated paths of the jars that Spark needs: each kind of source, transport and sink has its own, and so has "
        "a JDBC catalog its driver. `airflow cdc doctor` names those that are missing, with their Maven coordinates.",
        "/opt/jars/table-format.jar,/opt/jars/database-driver.jar",
        unset="`spark_packages`",
    ),
    Option(
        "spark_packages",
        "Maven coordinates",
        "The same as comma-separated Maven coordinates, which spark-submit fetches with their dependencies. Only used where "
        "spark_jars is empty.",
        "org.example:table-format_2.13:1.12.0,org.example:database-driver:3.5.11",
        unset="nothing beyond Spark's own jars",
    ),
    Option(
        "spark_conf",
        "JSON object",
        "Spark settings of every application, as a JSON object. They are visible in the Spark UI, so put no credentials here.",
        '{"spark.driver.memory": "2g"}',
        unset="Spark's own settings",
    ),
    Option(
        "class_archive",
        "path",
        "Folder on each worker in which Spark's classes are kept for the next driver (HotSpot's class data sharing, 200 MB "
        "for each installation of Spark): drivers then start with two thirds of the processor time. The first one writes it.",
        "/var/cache/airflow/spark-classes",
        unset="each driver reads them from the jars",
    ),
)
_DEFAULTS = {option.name: option.default for option in OPTIONS}


def _get(key: str) -> str:
    from airflow.sdk.configuration import conf

    default = _DEFAULTS[key]
    return str(conf.get(SECTION, key, fallback=default) or default).strip()


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
    """Address under which a web server shows `report_dir`; "" if there is none."""
    return _get("report_url").rstrip("/")


def airflow_url() -> str:
    """The address of Airflow's web server, without a trailing slash; on this machine if `[api] base_url` is not set."""
    from airflow.sdk.configuration import conf

    local = f"{LOCAL_AIRFLOW}:{conf.get('api', 'port', fallback=LOCAL_PORT) or LOCAL_PORT}"
    return str(conf.get("api", "base_url", fallback="") or local).rstrip("/")


def has_airflow_url() -> bool:
    """Whether `[api] base_url` says where Airflow's web server is."""
    from airflow.sdk.configuration import conf

    return bool(conf.get("api", "base_url", fallback=""))


def apply_schedule() -> str | None:
    """Cron expression of the `cdc_apply__<pipeline>` DAGs; None if it is `none`: they run when triggered."""
    return _schedule("apply_schedule")


def nightly_schedule() -> str | None:
    """Cron expression of the `cdc_nightly_consistency__<pipeline>` DAGs; None if it is `none`."""
    return _schedule("nightly_schedule")


def maintain_schedule() -> str | None:
    """Cron expression of the `cdc_maintain__<pipeline>` DAGs; None if it is `none`."""
    return _schedule("maintain_schedule")


def _schedule(key: str) -> str | None:
    wanted = _get(key)
    return None if wanted.lower() == "none" else wanted


def cli_users() -> str:
    """Who may change an offset by a command: `token` (an Airflow user, by their token) or `shell` (whoever has one)."""
    wanted = _get("cli_users").lower()
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
    text = _get("spark_conf") or "{}"
    try:
        value = read_json(text)
    except ValueError as error:
        raise _bad_conf() from error
    if not isinstance(value, dict):
        raise _bad_conf()
    return {str(key): str(setting) for key, setting in value.items()}


def class_archive() -> Path | None:
    """The folder of the drivers' class archives; None if there are to be none. Raises ConfigError for an unusable path."""
    text = _get("class_archive")
    if set(text) & set(" \t\"'"):
        raise ConfigError(
            "class_archive has a blank or a quote, which Java's options cannot hold",
            where=f"airflow.cfg [{SECTION}] class_archive",
            todo="Name another folder.",
        )
    return Path(text).expanduser() if text else None


def _bad_conf() -> ConfigError:
    return ConfigError(
        "spark_conf is not a JSON object",
        where=f"airflow.cfg [{SECTION}] spark_conf",
        todo='Write one like {"spark.driver.memory": "2g"}.',
    )
