"""What `airflow cdc init` asks about a control store in a SQL database."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup


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
