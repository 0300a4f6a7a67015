"""What `airflow cdc init` asks about an OpenSearch sink."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Password, Question, Setup, host_and_port

CONN_ID = "{name}_search"


def keys(name: str, answers: Answers) -> Sequence[Key]:
    """The keys under `sink`."""
    return (
        Key("conn_id", CONN_ID.format(name=name), "the Airflow connection of the cluster"),
        Key("namespace", answers["search_namespace"], "the first part of the aliases' names"),
    )


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The cluster's connection."""
    host, port = host_and_port(answers["search"], 9200, key="search")
    return (
        NewConnection(
            CONN_ID.format(name=name),
            "cdc_opensearch",
            host,
            port,
            login=answers["search_user"],
            schema=answers["search_scheme"],
            password=Password("the OpenSearch user", "CDC_SEARCH_PASSWORD") if answers["search_user"] else None,
        ),
    )


SETUP = Setup(
    (
        Question("search", "OpenSearch, host:port", example="search.example:9200"),
        Question("search_scheme", "How it is spoken to: https or http", "https"),
        Question("search_user", "OpenSearch user (none: no login)", needed=False),
        Question(
            "search_namespace", "First part of the aliases' names (default: the pipeline's name)", as_pipeline=True
        ),
    ),
    keys,
    connections,
)
