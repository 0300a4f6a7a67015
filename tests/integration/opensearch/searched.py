"""A MariaDB database that a real connector follows into OpenSearch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows.run import Run
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.control import OpenSearchControlStore
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.sinks.opensearch.kind import OpenSearchSettings
from airflow_cdc.spark_apps.types import sink_type
from tests.integration.mariadb.recovered import Followed
from tests.integration.recovering import SinkParts


class IntoSearch:
    """The parts of a FollowedDatabase whose tables are mirrored into indexes of the node at `url`; the lake is not used."""

    __slots__ = ()
    url: str
    database: str
    tables: tuple[str, ...]
    source: Any
    base: Run

    def sink_parts(self) -> SinkParts:
        """See FollowedDatabase."""
        sink: Any = SearchSink(OpenSearchEndpoint(self.url, replicas=0))
        return SinkParts(sink, OpenSearchSettings("opensearch", self.database, "s"), OpenSearchControlStore(sink))

    def mirror(self, schema: str) -> None:
        """See FollowedDatabase."""
        sink: Any = self.base.clients.sink
        for table in self.tables:
            name = f"{schema}.{table}"
            definition = self.source.definitions([name])[name]
            sink.ensure_table(
                self.database, sink_name(table), [(column.name, sink_type(column)) for column in definition.mirrored]
            )
            sink.commit_nothing(self.database, sink_name(table), Stamp(0).to_summary())


@dataclass(slots=True)
class Searched(IntoSearch, Followed):
    """A database that Debezium follows."""

    url: str
