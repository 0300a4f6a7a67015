"""Tables of a real source, their topics on a real broker filled by hand, and the application that applies them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.table import Table
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.flows.run import Run, RunOptions
from airflow_cdc.sources.mysql.types import words_of
from airflow_cdc.spark_apps.adapters.iceberg_merge import append_nothing
from airflow_cdc.spark_apps.apply_changes import apply_changes
from airflow_cdc.spark_apps.types import sink_type
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.wire import admin, producer
from stack.process import wait_until
from tests.apply_support import CONFIG, Topic
from tests.integration.rig import Rig

if TYPE_CHECKING:
    pass


class Connector:
    """A connector of which only the configuration is asked."""

    def __init__(self, schema: str) -> None:
        self.settings = {**CONFIG, "database.include.list": schema}

    def raw_config(self, name: str) -> dict[str, str]:
        return self.settings


class Scene:
    """A database, its topics on the broker, its sink tables, and the run that applies."""

    def __init__(self, rig: Rig, kafka: str, folder: Path) -> None:
        self.rig, self.transport, self.folder = rig, KafkaTransport(KafkaEndpoint(kafka)), folder
        self.topics: dict[str, Topic] = {}
        self.connector = Connector(rig.schema)

    def table(
        self, ddl: str, *rows: tuple[Any, ...], partitions: int = 1, configs: dict[str, str] | None = None
    ) -> Topic:
        """A table on both sides, its sink stamped at the start of its new topic."""
        self.rig.run(ddl)
        made = self.rig.table(ddl.split()[2])
        topic = self.topics[made.name] = Topic(made, partitions=partitions)
        with admin(self.transport.endpoint) as client:
            wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs or {}}
            client.create_topics({topic.name: wanted}, wait_for_metadata=True)
        topic.id = wait_until(lambda: self._id(topic.name), timeout=20, what=f"{topic.name} to exist")
        columns = [(c.name, sink_type(c)) for c in made.mirrored]
        self.rig.lake.ensure_table(self.rig.schema, made.name, columns)
        if rows:
            schema = ", ".join(f"`{name}` {kind}" for name, kind in columns)
            self.rig.spark.createDataFrame(list(rows), schema).writeTo(self.name(made)).append()
        offsets = {topic.name: TopicOffsets(topic.id, dict.fromkeys(range(partitions), 0))}
        append_nothing(self.rig.spark, self.name(made), Stamp(0, None, offsets).to_summary())
        return topic

    def _id(self, name: str) -> str | None:
        state = self.transport.topic_states([name]).get(name)
        return state.id if state else None

    def name(self, made: Table) -> str:
        return f"`{self.rig.lake.name}`.`{self.rig.schema}`.`{made.name}`"

    def send(self, topic: Topic) -> None:
        """Everything new in the topic in memory goes to the broker."""
        sent = sum(end for _, end in self.transport.topic_states([topic.name])[topic.name].partitions.values())
        with producer(self.transport.endpoint) as client:
            for partition, _, key, value in topic.records[sent:]:
                client.send(topic.name, key=key, value=value, partition=partition)
            client.flush(30)

    def alter(self, table: str, statement: str) -> None:
        """DDL at the source, reported as a connector does; for integers and texts."""
        self.rig.run(statement)
        made = self.rig.table(table)
        columns = [
            {"name": c.name, "typeName": w.data_type.upper(), "length": w.char_length, "charsetName": w.charset}
            | {"position": c.ordinal, "optional": c.nullable}
            for c, w in ((c, words_of(c)) for c in made.columns)
        ]
        after = {"primaryKeyColumnNames": list(made.key), "columns": columns}
        changes = [{"type": "ALTER", "id": f'"{made.schema}"."{made.name}"', "table": after}]
        source = {"snapshot": "false", "table": table, "server_id": 1, "file": "mysql-bin.000009"}
        body = {"source": source, "databaseName": made.schema, "ddl": statement, "tableChanges": changes}
        with producer(self.transport.endpoint) as client:
            client.send(CONFIG["topic.prefix"], value=json.dumps(body).encode(), partition=0)
            client.flush(30)

    def run(self, *tables: str, run_id: str = "run-1", **options: Any) -> Run:
        made = self.rig.recovery_run(tables or tuple(self.topics), self.folder, self.connector, self.transport)
        # the connector is not there to be waited for, so no table could be read again
        stopping = replace(made.pipeline, policy=replace(made.pipeline.policy, schema_change="stop"))
        return replace(made, pipeline=stopping, run_id=run_id, options=RunOptions.from_json(options))

    def apply(self, *tables: str, **options: Any) -> dict[str, Any]:
        """One run of the application; table (without schema) → result."""
        done = apply_changes(self.run(*tables, **options), self.rig.spark)["tables"]
        return {name.partition(".")[2]: result for name, result in done.items()}

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        found = self.rig.lake.read_arrow(self.rig.schema, table).to_pylist()
        return sorted((tuple(row.values()) for row in found), key=repr)

    def stages(self) -> list[str]:
        return [stage.label for stage in self.rig.lake.stages(self.rig.schema)]


def delete_before(endpoint: KafkaEndpoint, topic: str, offset: int) -> None:
    from kafka import TopicPartition

    with admin(endpoint) as client:
        client.delete_records({TopicPartition(topic, 0): offset})
