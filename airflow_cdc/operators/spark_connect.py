"""A driver whose Spark is a Spark Connect server: plain Python, no Java on the worker (`spark.mode: connect`, experimental)."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.operators.base import spark_connection
from airflow_cdc.spark_apps.driver.connect import Remote

TYPE: Final = SparkConnectHook.conn_type
EXAMPLE: Final = f"""'{{"conn_type": "{TYPE}", "host": "localhost", "port": 15002}}'"""
# for a driver to end what runs on the server: a killed one leaves that running
GRACE_S: Final = 10.0
# applications that were not run there
CLASSIC_ONLY: Final = ("nightly", "backfill", "maintain")


def remote_of(pipeline: Pipeline, conn_id: str) -> Remote:
    """The server of the pipeline's connection. Raises ConfigError for a connection that is missing or of another type."""
    conn = spark_connection(conn_id, pipeline.name, EXAMPLE)
    if conn.conn_type != TYPE or not conn.host:
        what = f"connection {conn_id!r} is no {TYPE} with a host, which spark.mode: connect needs"
        add = f"airflow connections add {conn_id} --conn-json {EXAMPLE}"
        raise ConfigError(
            what, where=f"needed as Spark, pipeline {pipeline.name}", todo=f"Name another one, or make it: {add}"
        )
    return Remote(_without_token(SparkConnectHook(conn_id).get_connection_url()), conn.password or "")


def _without_token(url: str) -> str:
    """The hook's URL as it may be shown: a client finds the token in its environment."""
    parts = urlsplit(url)
    path, _, params = parts.path.partition(";")
    others = [one for one in params.split(";") if one and not one.startswith(f"{SparkConnectHook.PARAM_TOKEN}=")]
    return urlunsplit((parts.scheme, parts.netloc, ";".join((path, *others)), "", parts.fragment))


def check_app(app: str, pipeline: str) -> None:
    """Raise ConfigError for an application that needs a Spark of its own."""
    if app in CLASSIC_ONLY:
        raise ConfigError(
            f"{app} does not run on a Spark Connect server (spark.mode: connect is experimental)",
            where=f"pipeline {pipeline}",
            todo="Leave spark.mode out for this pipeline, or pause the DAG.",
        )


class ConnectDriver(SparkSubmitHook):  # type: ignore[misc]
    """Starts a driver as Python, by the ways of Airflow's hook for spark-submit: its log, its error, its end."""

    _submit_sp: subprocess.Popen[str] | None

    def _resolve_connection(self) -> dict[str, str | None]:
        """What the base class wants to know of a master, of which there is none."""
        nothing: dict[str, str | None] = dict.fromkeys(("queue", "deploy_mode", "namespace", "principal", "keytab"))
        return {**nothing, "master": "local", "spark_binary": "python"}

    def _build_spark_submit_command(self, application: str) -> list[str]:
        self._env = {**(self._env_vars or {}), "PYTHONUNBUFFERED": "1"}
        return [sys.executable, application, *map(str, self._application_args or ())]

    def on_kill(self) -> None:
        """Let the driver end what runs on the server, then end it."""
        if self._submit_sp is not None and self._submit_sp.poll() is None:
            self._submit_sp.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._submit_sp.wait(GRACE_S)
        super().on_kill()
