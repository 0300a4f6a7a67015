"""What `airflow cdc init` asks about a MySQL source."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, host_and_port

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
