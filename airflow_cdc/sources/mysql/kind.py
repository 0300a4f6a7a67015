"""What is known of MySQL before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection, Spark's jars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.pipeline import SourceSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, form_field, host_and_port
from airflow_cdc.core.spark_jars import Need
from airflow_cdc.sources.tls import TLS_FIELDS


@settings
class MySqlSettings(SourceSpec):
    """A MySQL server, and the replicas that may stand in for it."""

    conn_id: str = key(
        "Airflow connection (`cdc_mysql` or `mysql`) of the server that the connector reads.", form=CONNECTION
    )
    replicas: tuple[str, ...] = key(
        "Connections of replicas from which the connector may temporarily read what the source has purged (GTID only).",
        form=CONNECTION,
        default=(),
    )

    def __post_init__(self) -> None:
        if self.conn_id in self.replicas:
            raise ConfigError(
                "names the source itself",
                where="replicas",
                todo="Name connections of its replicas, or leave the key out.",
            )


PORT = 3306


def server(kind: str, title: str, *notes: str) -> Setup:
    """The questions about a server of `kind` that speaks MySQL's protocol."""

    def keys(name: str, _answers: Answers) -> Sequence[Key]:
        return (Key("conn_id", f"{name}_{kind}", "the server that the connector reads"),)

    def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
        host, port = host_and_port(answers[kind], PORT, key=kind)
        password = Password(f"the {title} user", f"CDC_{kind.upper()}_PASSWORD")
        login = answers[f"{kind}_user"]
        return (NewConnection(f"{name}_{kind}", "cdc_mysql", host, port, login, password=password),)

    return Setup(
        (
            Question(kind, f"{title} server, host:port", example="db:3306"),
            Question(f"{kind}_user", f"{title} user", "cdc"),
        ),
        keys,
        connections,
        notes,
    )


SETUP = server(
    "mysql",
    "MySQL",
    "Optional: replicas from which the connector may temporarily read what the source has purged (GTID only).",
    "replicas: [shop_replica]        # ids of Airflow connections",
)


FORM: Final[dict[str, object]] = {
    "connection-type": "cdc_mysql",
    "hook-class-name": "airflow_cdc.hooks.mysql.CdcMySqlHook",
    "hook-name": "CDC MySQL source",
    "ui-field-behaviour": {
        "hidden-fields": ["schema"],
        "relabeling": {"login": "User"},
        "placeholders": {"host": "mysql.example", "port": "3306", "login": "cdc"},
    },
    "conn-fields": {
        **TLS_FIELDS,
        "connect_timeout": form_field("Connect timeout (s)", type=["integer", "null"], default=10),
        "read_timeout": form_field("Read timeout (s)", type=["integer", "null"], default=3600),
    },
}


MYSQL = Need(
    "mariadb-java-client",
    "reads the source",
    "org.mariadb.jdbc:mariadb-java-client:3.5.11",
    "org/mariadb/jdbc/Driver.class",
)
JARS = (MYSQL,)
