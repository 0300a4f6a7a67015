"""What `airflow cdc init` asks about a PostgreSQL source."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, host_and_port

PORT = 5432


def keys(name: str, answers: Answers) -> Sequence[Key]:
    """The keys to write below `source` in pipelines.yaml."""
    return (
        Key("conn_id", f"{name}_postgres", "the server that the connector reads"),
        Key("slot", answers["slot"], "the connector's slot.name"),
        Key("publication", answers["publication"], "the connector's publication.name"),
    )


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The Airflow connection to create for the server."""
    host, port = host_and_port(answers["postgres"], PORT, key="postgres")
    password = Password("the PostgreSQL user", "CDC_POSTGRES_PASSWORD")
    login, database = answers["postgres_user"], answers["database"]
    return (NewConnection(f"{name}_postgres", "cdc_postgres", host, port, login, database, password=password),)


SETUP = Setup(
    (
        Question("postgres", "PostgreSQL server, host:port", example="db:5432"),
        Question("postgres_user", "PostgreSQL user", "cdc"),
        Question("database", "PostgreSQL database of the tables", example="shop"),
        Question("slot", "The connector's replication slot (its slot.name)", "debezium"),
        Question("publication", "The connector's publication (its publication.name)", "dbz_publication"),
    ),
    keys,
    connections,
)
