"""What is known of Canal before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, cast
from zoneinfo import ZoneInfo

from airflow_cdc.connectors.commands import COMMAND, environment_key
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import ConnectorSpec, E
from airflow_cdc.core.settings import CONNECTION, Form, key, read_text, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup

if TYPE_CHECKING:
    from airflow_cdc.connectors.canal.endpoint import CanalEndpoint


def _zone(value: object) -> str:
    if value == "":
        return ""
    name = read_text(value)
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(f"is no time zone: {name!r}", todo="Write UTC, or a name such as Asia/Shanghai.") from None
    return name


ZONE: Final = Form("time zone", _zone)


@settings
class CanalSettings(ConnectorSpec):
    """A Canal server that writes to topics. `name` is the destination."""

    conn_id: str = key(
        "Airflow connection (`canal`): ZooKeeper's servers, or the machine that Canal runs on.", form=CONNECTION
    )
    conf: str = key(
        "Folder with `canal.properties` and `<name>/instance.properties`, as the Airflow worker sees it; with `cursor: file`"
        " also with `<name>/meta.dat`, which the worker must be able to write."
    )
    start: str = key(
        "The command that starts the server: words, with quotes around what has blanks. It is run on the Airflow worker; no shell reads it.",
        form=COMMAND,
    )
    stop: str = key("The command that stops the server.", form=COMMAND)
    status: str = key(
        "The command that ends with 0 while the server runs and with 3 when it does not, as `systemctl is-active` does;"
        " any other end means that it is not known.",
        form=COMMAND,
    )
    cursor: Literal["file", "zookeeper"] = key("Where Canal keeps its cursors.", default="file")
    environment: tuple[str, ...] = environment_key()
    log: str = key(
        "Canal's log of the destination (`logs/<name>/<name>.log`); without it nobody sees why Canal does not continue.",
        default="",
    )
    time_zone: str = key(
        "The time zone of Canal's JVM (`UTC`, `Asia/Shanghai`), in which it writes TIMESTAMPs: without it tables with such"
        " a column are not recovered.",
        form=ZONE,
        default="",
    )

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with this destination's files and commands."""
        own = cast("CanalEndpoint", endpoint)
        start, stop, status = (tuple(shlex.split(text)) for text in (self.start, self.stop, self.status))
        own = replace(own, destination=self.name, cursor=self.cursor, conf=self.conf, log=self.log)
        own = replace(own, start=start, stop=stop, status=status, environment=self.environment)
        return cast("E", replace(own, time_zone=self.time_zone))


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


FORM: Final[dict[str, object]] = {
    "connection-type": "canal",
    "hook-class-name": "airflow_cdc.hooks.canal.CanalHook",
    "hook-name": "Canal",
    "ui-field-behaviour": {
        "hidden-fields": ["schema", "port", "extra"],
        "relabeling": {"host": "ZooKeeper's servers, or the machine that Canal runs on", "login": "ZooKeeper user"},
        "placeholders": {"host": "zk1.example:2181,zk2.example:2181"},
    },
    "conn-fields": {},
}
