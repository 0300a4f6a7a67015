"""What is known of a control store in a database before a client is opened: its settings in pipelines.yaml, where it is, init's questions, the form of its connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.pipeline import ControlSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup, form_field


@settings
class SqlControlSettings(ControlSpec):
    """`kind: sql`."""

    conn_id: str = key(
        "Airflow connection of the database (`cdc_sql_control`, `postgres`, `mysql` or `sqlite`).", form=CONNECTION
    )


@dataclass(frozen=True, slots=True)
class SqlEndpoint:
    """A database that SQLAlchemy reaches.

    Attributes:
        driver: dialect and driver as in an SQLAlchemy URL: "sqlite", "postgresql+psycopg", "mysql+pymysql".
        database: its name, or the file of a SQLite database.
        options: further parameters of the driver, such as sslmode or the connection timeout.
        extra: the extra of this package that installs the driver; "" if the plain install does.
    """

    driver: str
    database: str
    host: str = ""
    port: int | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # sslpassword may be among them
    extra: str = ""

    def limited(self, _: CallLimits) -> Self:
        """Returns itself: `options` hold the timeouts of calls."""
        return self

    @property
    def where(self) -> str:
        """How messages name the database."""
        if not self.host:
            return f"database {Path(self.database).name}"
        port = f":{self.port}" if self.port else ""
        return f"database {self.database} at {self.host}{port}"


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


FORM: Final[dict[str, object]] = {
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
