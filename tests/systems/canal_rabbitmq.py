"""Canal with its cursor in meta.dat, through a stream queue of RabbitMQ into OpenSearch: MySQL's log was purged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stack
from airflow_cdc.core.pipeline import sink_name
from stack import versions
from stack.mysql import MySqlSettings
from stack.opensearch import start_opensearch
from stack.rabbitmq import start_rabbitmq
from tests.integration.canal.over_rabbitmq import OverRabbitMq
from tests.systems import canal_mysql
from tests.systems.canal_mysql import CanalMySql
from tests.systems.case import Case
from tests.systems.debezium_search import FIELDS, documents
from tests.systems.two_tables import same

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_cdc.sinks.iceberg.client import Lake

NAME = "systems_rabbit"
_FIELDS = {**FIELDS, "doc": canal_mysql.document}
KINDS = {name: kind._replace(sink=_FIELDS.get(name, same)) for name, kind in canal_mysql.KINDS.items()}


@dataclass(slots=True)
class CanalRabbit(CanalMySql):
    """The same tables and changes as with Kafka; the documents are read through the table's alias by plain HTTP."""

    followed: OverRabbitMq

    KINDS = KINDS

    def sink_rows(self, table: str) -> Sequence[Mapping[str, Any]]:
        """See TwoTables."""
        return documents(f"{self.followed.url}/{NAME}.{sink_name(table)}")


@contextmanager
def opened(
    folder: Path, spark: SparkSession, lake: Lake, *, moved: bool = False, protobuf: bool = False
) -> Iterator[CanalRabbit]:
    """A database server, RabbitMQ, a search node and Canal of its own, and a database with both tables."""
    settings = [MySqlSettings(max_binlog_size=4194304)]
    with stack.start(folder / "stack", ("mysql",), mysql_settings=settings) as running:
        server = running.mysql["mysql"]
        canal_mysql.create_tables(server, NAME)
        node = start_opensearch(folder, running.logs)
        running.others["opensearch"] = node.child
        rabbit = start_rabbitmq(folder, running.logs)
        try:
            tables = ("kinds", "events")
            followed = OverRabbitMq(
                server, spark, lake, "", "", folder, NAME, tables, rabbit, node.url, moved, protobuf=protobuf
            )
            try:
                version = f"MySQL {server.version}, Canal {versions.CANAL}, RabbitMQ {rabbit.version}"
                yield CanalRabbit(followed, f"{version}, OpenSearch {versions.OPENSEARCH}")
            finally:
                followed.canal.stop()
        finally:
            rabbit.stop()


_FAILURE = "the log was purged past the cursor's GTIDs"
CASES = (
    Case("Canal/file RabbitMQ OpenSearch", _FAILURE, opened),
    Case("Canal/file RabbitMQ (classic queue) OpenSearch", _FAILURE, partial(opened, moved=True)),
    Case("Canal/file RabbitMQ (protobuf) OpenSearch", _FAILURE, partial(opened, protobuf=True)),
)
