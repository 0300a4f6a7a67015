"""What `airflow cdc init` asks about a control store in a SQL database."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """What stands below `control`."""
    return (Key("conn_id", answers["control"], "the database that keeps lease, audit and offset moves"),)


def connections(_name: str, answers: Answers) -> Sequence[NewConnection]:
    """The database's, where a file for a new one is named: any other database is described by hand, with its password."""
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
