"""What is known of Debezium's engine before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from airflow_cdc.connectors.commands import COMMAND, environment_key
from airflow_cdc.core.pipeline import ConnectorSpec, E
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup

if TYPE_CHECKING:
    from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint


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
    environment: tuple[str, ...] = environment_key()
    log: str = key("Its log, as the Airflow worker sees it; without it nobody sees why it has ended.", default="")

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with its files and commands."""
        own = cast("EngineEndpoint", endpoint)
        start, stop, status = (tuple(shlex.split(text)) for text in (self.start, self.stop, self.status))
        own = replace(own, config=self.config, offsets_file=self.offsets_file, log=self.log)
        return cast("E", replace(own, start=start, stop=stop, status=status, environment=self.environment))


_COMMANDS = ("start", "stop", "status")


def keys(name: str, answers: Answers) -> Sequence[Key]:
    """The keys below `connector`."""
    log = (Key("log", answers["engine_log"], "its log"),) if answers["engine_log"] else ()
    commands = tuple(Key(word, answers[f"engine_{word}"], "run on the worker, without a shell") for word in _COMMANDS)
    return (
        Key("conn_id", f"{name}_engine", "the machine that it runs on, or the database of its offsets"),
        Key("name", name, "what messages call it"),
        Key("config", answers["engine_config"], "its properties file"),
        *log,
        *commands,
    )


def connections(name: str, _answers: Answers) -> Sequence[NewConnection]:
    """A connection that names the machine. One with a database, and its password, is made by hand."""
    return (NewConnection(f"{name}_engine", "debezium_engine", "localhost"),)


SETUP = Setup(
    (
        Question(
            "engine_config",
            "Its properties file, as the Airflow worker sees it",
            "/opt/debezium/conf/application.properties",
        ),
        Question("engine_log", "Its log, as the worker sees it", needed=False),
        Question("engine_start", "The command that starts Debezium Server", "systemctl start debezium"),
        Question("engine_stop", "The command that stops it", "systemctl stop debezium"),
        Question(
            "engine_status",
            "The command that ends with 0 while it runs, and with 3 if not",
            "systemctl is-active debezium",
        ),
    ),
    keys,
    connections,
)


FORM: Final[dict[str, object]] = {
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
