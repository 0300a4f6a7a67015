"""The source and its named replicas, as servers that replicate from each other."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.ports import Replication, Source
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import SOURCES


def replication(run: Run) -> Replication:
    """The source. Raises ConfigError for a kind whose transactions have different names on other servers."""
    return _offered(run, run.clients.source)


def named_replicas(run: Run) -> Mapping[str, Replication]:
    """The replicas that the pipeline names, by connection. Raises ConfigError as `replication` does."""
    return {conn_id: _offered(run, replica) for conn_id, replica in run.clients.replicas.items()}


def _offered(run: Run, source: Source) -> Replication:
    if source.replication is None:
        title = SOURCES[run.pipeline.source.kind].title
        raise ConfigError(
            f"what a replica of a {title} source logs cannot be compared with its source",
            where=run.where,
            todo="Trigger cdc_recovery with the strategy full_snapshot.",
        )
    return source.replication
