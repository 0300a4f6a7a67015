"""What `airflow cdc init` asks about Debezium's engine."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup

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
