"""What is known of PostgreSQL before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection, Spark's jars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

from airflow_cdc.core.pipeline import E, SourceSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, form_field, host_and_port
from airflow_cdc.core.spark_jars import Need
from airflow_cdc.sources.tls import TLS_FIELDS

if TYPE_CHECKING:
    from airflow_cdc.sources.postgres.session import PostgresEndpoint


@settings
class PostgresSettings(SourceSpec):
    """A PostgreSQL server, and the slot and the publication through which the connector reads it."""

    conn_id: str = key(
        "Airflow connection (`cdc_postgres` or `postgres`) of the server that the connector reads.", form=CONNECTION
    )
    slot: str = key("The connector's replication slot (its `slot.name`).", default="debezium")
    publication: str = key("The connector's publication (its `publication.name`).", default="dbz_publication")
    database: str = key("The database of the tables; left out: that of the connection.", default="")
    warn_kept_gb: int = key(
        "Warn when the slot keeps more log than this many GB, which may fill the server's disk.", default=10
    )

    def at(self, endpoint: E) -> E:
        """The connection's endpoint, with this pipeline's slot, publication and database."""
        own = cast("PostgresEndpoint", endpoint)
        made = replace(own, slot=self.slot, publication=self.publication, database=self.database or own.database)
        return cast("E", made)


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


FORM: Final[dict[str, object]] = {
    "connection-type": "cdc_postgres",
    "hook-class-name": "airflow_cdc.hooks.postgres.CdcPostgresHook",
    "hook-name": "CDC PostgreSQL source",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"login": "User", "schema": "Database"},
        "placeholders": {"host": "postgres.example", "port": "5432", "login": "cdc", "schema": "shop"},
    },
    "conn-fields": {
        **TLS_FIELDS,
        "connect_timeout": form_field("Connect timeout (s)", type=["integer", "null"], default=10),
        "read_timeout": form_field("Read timeout (s)", type=["integer", "null"], default=3600),
    },
}


POSTGRES = Need("postgresql", "reads the source", "org.postgresql:postgresql:42.7.11", "org/postgresql/Driver.class")
JARS = (POSTGRES,)
