"""What is known of a database that a JDBC sink connector fills before a client is opened: the settings in pipelines.yaml, and init's questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import E, SinkSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import Answers, Key, Question, Setup

if TYPE_CHECKING:
    from airflow_cdc.sinks.jdbc.endpoint import JdbcEndpoint


@settings
class JdbcSettings(SinkSpec):
    """A database that Debezium's JDBC sink connector fills from the topics. We read it and never write to it."""

    namespace: str = key(
        "Schema or database of the tables, where the sink connector names none.",
        default="",
    )
    writer: Literal["connect_sink"] = key("The sink connector `connector`.", default="connect_sink", kw_only=True)
    conn_id: str = key(
        "Airflow connection of the database, of the type of such a source.",
        form=CONNECTION,
        kw_only=True,
    )
    database: Literal["postgres", "mysql", "mariadb"] = key("What the database is.", kw_only=True)
    connector: str = key("Name of the sink connector on the same Kafka Connect.", kw_only=True)

    @property
    def where(self) -> str:
        """How messages name the place of the tables: connection and sink connector."""
        return f"{self.conn_id}.{self.namespace or self.connector}"

    @property
    def read_as(self) -> str:
        """See SinkSpec."""
        return self.database

    @property
    def feeder(self) -> str:
        """See SinkSpec."""
        return self.connector

    def at(self, endpoint: E) -> E:
        """The database as this pipeline names it. Raises ConfigError for a connection of another database."""
        own = cast("JdbcEndpoint", endpoint)
        if self.database not in own.databases:
            raise ConfigError(
                f"connection {self.conn_id!r} leads to {' or '.join(own.databases)}, and sink.database is"
                f" {self.database}",
                where="key sink.database",
                todo="Correct sink.database, or name another connection.",
            )
        return cast("E", own.of(self.database, self.namespace))


def keys(_name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `sink`."""
    return (
        Key("conn_id", answers["jdbc_conn_id"], "the database that the sink connector fills"),
        Key("database", answers["jdbc_database"]),
        Key("connector", answers["jdbc_connector"], "the sink connector's name on Kafka Connect"),
        Key("writer", "connect_sink", "who writes the tables"),
    )


SETUP = Setup(
    (
        Question("jdbc_conn_id", "Airflow connection of the database that the JDBC sink fills", example="copy_db"),
        Question("jdbc_database", "What that database is: postgres, mysql or mariadb", "postgres"),
        Question("jdbc_connector", "Name of the JDBC sink connector on Kafka Connect", example="shop-sink"),
    ),
    keys,
)
