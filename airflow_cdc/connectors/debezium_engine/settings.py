"""What pipelines.yaml says of Debezium's engine."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any, TypeVar, cast

from airflow_cdc.connectors.commands import COMMAND, VARIABLE
from airflow_cdc.core.pipeline import ConnectorSpec
from airflow_cdc.core.settings import CONNECTION, key, settings

E = TypeVar("E")


@settings
class EngineSettings(ConnectorSpec):
    """Debezium Server, or an application with Debezium's engine, that writes to topics."""

    conn_id: str = key(
        "Airflow connection: the database of its offsets (`postgres` or `mysql`) if it keeps them in a table, else"
        " `debezium_engine`, which names the machine that it runs on.",
        form=CONNECTION,
    )
    config: str = key(
        "Its properties file (of Debezium Server: `conf/application.properties`), as the Airflow worker sees it."
    )
    start: str = key(
        "The command that starts it: words, with quotes around what has blanks. It is run on the Airflow worker; no shell reads it.",
        form=COMMAND,
    )
    stop: str = key("The command that stops it.", form=COMMAND)
    status: str = key(
        "The command that ends with 0 while it runs and with 3 when it does not, as `systemctl is-active` does;"
        " any other end means that it is not known.",
        form=COMMAND,
    )
    offsets_file: str = key(
        "The file of its offsets as the Airflow worker sees it, if that differs from `offset.storage.file.filename`.",
        default="",
    )
    environment: tuple[str, ...] = key(
        "Variables that the commands get beside PATH, HOME, LANG and TZ: names of the worker's, or NAME=value.",
        form=VARIABLE,
        default=(),
    )
    log: str = key("Its log, as the Airflow worker sees it; without it nobody sees why it has ended.", default="")

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with its files and commands."""
        own: Any = endpoint
        files = {"config": self.config, "offsets_file": self.offsets_file, "log": self.log}
        commands = {word: tuple(shlex.split(getattr(self, word))) for word in ("start", "stop", "status")}
        return cast("E", replace(own, **files, **commands, environment=self.environment))
