"""What is known of OpenSearch before a client is opened: its settings in pipelines.yaml, init's questions, the form of its connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from airflow_cdc.core.pipeline import SinkSpec
from airflow_cdc.core.settings import CONNECTION, key, settings
from airflow_cdc.core.setup import (
    HTTPS,
    Answers,
    Key,
    NewConnection,
    Password,
    Question,
    Setup,
    form_field,
    host_and_port,
)


@settings
class OpenSearchSettings(SinkSpec):
    """An OpenSearch cluster, and the first part of the names of the aliases in it."""

    writer: Literal["cdc_apply"] = key(
        "Who writes the sink tables: the DAG `cdc_apply__<pipeline>`.", default="cdc_apply", kw_only=True
    )
    conn_id: str = key("Airflow connection of the OpenSearch cluster.", form=CONNECTION)


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


FORM: Final[dict[str, object]] = {
    "connection-type": "cdc_opensearch",
    "hook-class-name": "airflow_cdc.hooks.opensearch.CdcOpenSearchHook",
    "hook-name": "CDC OpenSearch sink",
    "ui-field-behaviour": {
        "hidden-fields": [],
        "relabeling": {"schema": "Scheme"},
        "placeholders": {"host": "search.example", "port": "9200", "schema": "https", "extra": '{"replicas": 1}'},
    },
    "conn-fields": {
        **HTTPS,
        "shards": form_field("Shards", "Primary shards of a new index (default 1)"),
        "replicas": form_field("Replicas", "Replicas of each shard once an index is published (default 1)"),
    },
}
