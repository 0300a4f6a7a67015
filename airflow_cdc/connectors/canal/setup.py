"""What `airflow cdc init` asks about a Canal server."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup

_COMMANDS = ("start", "stop", "status")


def keys(name: str, answers: Answers) -> Sequence[Key]:
    """The keys below `connector`."""
    log = (Key("log", answers["canal_log"], "Canal's log of the destination"),) if answers["canal_log"] else ()
    commands = tuple(Key(word, answers[f"canal_{word}"], "run on the worker, without a shell") for word in _COMMANDS)
    return (
        Key("conn_id", f"{name}_canal", "ZooKeeper's servers, or the machine that Canal runs on"),
        Key("name", answers["canal_destination"], "the destination"),
        Key("cursor", "zookeeper" if answers["canal_zookeeper"] else "file", "where Canal keeps its cursors"),
        Key("conf", answers["canal_conf"], "canal.properties, and below it the destination's files"),
        *log,
        *commands,
    )


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The connection to ZooKeeper, or one that names the machine."""
    return (NewConnection(f"{name}_canal", "canal", answers["canal_zookeeper"] or "localhost"),)


SETUP = Setup(
    (
        Question("canal_destination", "Canal's destination", as_pipeline=True),
        Question("canal_conf", "Canal's conf folder, as the Airflow worker sees it", "/opt/canal/conf"),
        Question("canal_zookeeper", "ZooKeeper's servers, if Canal keeps its cursors there", needed=False),
        Question("canal_log", "Canal's log of the destination, as the worker sees it", needed=False),
        Question("canal_start", "The command that starts Canal", "systemctl start canal"),
        Question("canal_stop", "The command that stops Canal", "systemctl stop canal"),
        Question(
            "canal_status",
            "The command that ends with 0 while Canal runs, and with 3 if not",
            "systemctl is-active canal",
        ),
    ),
    keys,
    connections,
)
