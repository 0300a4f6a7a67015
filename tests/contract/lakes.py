"""Small lakes for contract tests: an embedded SQLite catalog in a folder, and writers without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.control.control import Control
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sinks.iceberg.snapshots import empty_commit, make, summary_of
from airflow_cdc.sinks.iceberg.stage import Stage
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.transports.kafka.kind import KafkaSettings

NOBODY = cast("Any", None)
COLUMNS = (("id", "bigint"), ("a", "string"), ("b", "int"))


def lake_in(folder: Path, **properties: str) -> Lake:
    """A lake whose catalog and files are in `folder`."""
    base = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return Lake("lake", {**base, **properties})


def run_on(
    lake: Lake,
    reports: Path,
    *tables: str,
    run_id: str = "run:1",
    source: MySqlSource = NOBODY,
    connector: DebeziumConnector = NOBODY,
) -> Run:
    """A run of pipeline "shop" over these tables of the source; a system that is not given is not there."""
    pipeline = Pipeline(
        "shop",
        MySqlSettings("mysql", "m", tables),
        DebeziumSettings("debezium", "c", "shop"),
        KafkaSettings("kafka", "k"),
        IcebergSettings("iceberg", "shop", "lake"),
    )
    return Run(
        pipeline,
        Parts(source, connector, NOBODY, lake, Control(IcebergControlStore(lake), "shop")),
        run_id,
        str(reports),
    )


def rows(*ids: int, extra: str = "b") -> pa.Table:
    """Rows of COLUMNS (or with `extra` in place of b)."""
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "a": pa.array([f"a{i}" for i in ids], pa.string()),
            extra: pa.array(list(ids), pa.int32()),
        }
    )


def append(lake: Lake, namespace: str, table: str, *ids: int, summary: dict[str, str] | None = None) -> int:
    """Add rows straight to a table's main; returns the new head."""
    lake.table(namespace, table).append(rows(*ids), snapshot_properties=summary or {})
    return lake.head(namespace, table) or 0


def append_staged(lake: Lake, stage: Stage, *ids: int, extra: str = "b", summary: dict[str, str] | None = None) -> int:
    """Add rows to a stage, as a writer would; returns the stage's new head."""
    lake.table(*stage.identifier).append(rows(*ids, extra=extra), snapshot_properties=summary or {})
    return lake.stage_head(stage)


def compact(lake: Lake, namespace: str, table: str) -> int:
    """A commit like a compaction's: operation `replace`, the same rows."""
    iceberg_table = lake.table(namespace, table)
    change = empty_commit(iceberg_table, {})
    updates = tuple(
        _replacing(update) if isinstance(update, AddSnapshotUpdate) else update for update in change.updates
    )
    lake.catalog.commit_table(iceberg_table, change.requirements, updates)
    return lake.head(namespace, table) or 0


def _replacing(update: AddSnapshotUpdate) -> AddSnapshotUpdate:
    summary = Summary(Operation.REPLACE, **summary_of(update.snapshot))
    return make(AddSnapshotUpdate, snapshot=update.snapshot.model_copy(update={"summary": summary}))


def ids(table: pa.Table) -> list[int]:
    """The ids of a result, sorted."""
    return sorted(table["id"].to_pylist())
