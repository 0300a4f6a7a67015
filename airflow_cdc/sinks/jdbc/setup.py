"""What `airflow cdc init` asks about a database that a JDBC sink connector fills."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, Question, Setup


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
