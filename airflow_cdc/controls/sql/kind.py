"""What is known of a control store in a database before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow_cdc.core.pipeline import ControlSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup, form_field


@settings
class SqlControlSettings(ControlSpec):
    """`kind: sql`."""

    conn_id: str = key(
        "Airflow connection of the database (`cdc_sql_control`, `postgres`, `mysql` or `sqlite`).", form=CONNECTION
    )


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `control`."""
    return (Key("conn_id", answers["control"], "the database that keeps lease, audit and offset moves"),)


def connections(_name: str, answers: Answers) -> Sequence[NewConnection]:
    """The connection of a new SQLite file, if one is named. Other databases, with passwords, are configured by hand."""
    if not answers["control_file"]:
        return ()
    extra = '{"dialect": "sqlite"}'
    return (NewConnection(answers["control"], "cdc_sql_control", answers["control_file"], extra=extra),)


SETUP = Setup(
    (
        Question("control", "Database for the pipeline's own state: the id of its Airflow connection", "cdc_control"),
        Question("control_file", "Its SQLite file (only if it is new and on this machine)", needed=False),
    ),
    keys,
    connections,
)


FORM: Final[dict[str, Any]] = {
    "connection-type": "cdc_sql_control",
    "hook-class-name": "airflow_cdc.hooks.sql_control.SqlControlHook",
    "hook-name": "CDC control database",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Database", "login": "User", "host": "Host, or the file of a SQLite database"},
        "placeholders": {"host": "postgres.example", "schema": "cdc"},
    },
    "conn-fields": {
        "dialect": form_field(
            "Dialect", "postgres, mysql or sqlite", enum=["postgres", "mysql", "sqlite", None], default="postgres"
        )
    },
}
