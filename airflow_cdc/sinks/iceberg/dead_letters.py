"""The part of a pipeline's dead-letter table that needs no Spark: which letters wait, and which a re-read resolved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.dead_letter import MAX_ATTEMPTS, DeadLetter, data_in, headers_in, is_before
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.topics import Fence

if TYPE_CHECKING:
    from airflow_cdc.sinks.iceberg.client import Lake

NAMESPACE = "cdc_control"
RESOLVE_SECONDS = 60.0

HEADERS = "headers"  # a table of before has no such column
COLUMNS = (
    ("topic", "string"),
    ("topic_id", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("key", "string"),
    ("value", "string"),
    ("table", "string"),
    ("reason", "string"),
    ("attempts", "int"),
    ("first_seen", "timestamp"),
    ("resolved_at", "timestamp"),
    (HEADERS, "string"),
)


def table_name(pipeline: str) -> str:
    """The table's name in the namespace `cdc_control`."""
    return f"{pipeline}__dead_letters"


def waiting(lake: Lake, pipeline: str) -> int:
    """How many unresolved letters will be tried again."""
    if not lake.exists(NAMESPACE, table_name(pipeline)):
        return 0
    rows = lake.read_arrow(NAMESPACE, table_name(pipeline)).select(["resolved_at", "attempts"]).to_pylist()
    return sum(row["resolved_at"] is None and row["attempts"] < MAX_ATTEMPTS for row in rows)


def unresolved(lake: Lake, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
    """The dead letters that are not resolved yet, of one table or of all, oldest first."""
    return tuple(letter for letter in letters(lake, pipeline, table) if letter.resolved_at is None)


def letters(lake: Lake, pipeline: str, table: str | None = None) -> tuple[DeadLetter, ...]:
    """All dead letters, including resolved ones."""
    if not lake.exists(NAMESPACE, table_name(pipeline)):
        return ()
    rows = lake.read_arrow(NAMESPACE, table_name(pipeline)).to_pylist()
    mine = (letter for letter in map(_letter, rows) if table in {None, letter.table})
    return tuple(sorted(mine, key=lambda one: (one.first_seen, one.topic, one.partition, one.offset)))


def _letter(row: Mapping[str, Any]) -> DeadLetter:
    key, value, headers = data_in(row["key"]), data_in(row["value"]), headers_in(row.get(HEADERS))
    return DeadLetter(**{**row, "key": key, "value": value, HEADERS: headers})


def resolve_before(lake: Lake, pipeline: str, since: Mapping[str, Fence]) -> int:
    """Mark the letters before each table's fence in `since` as resolved, because their rows were read again.

    Returns how many were marked. Safe to repeat; retried if another process changes the table meanwhile.
    """
    if not since or not lake.exists(NAMESPACE, table_name(pipeline)):
        return 0
    return poll_until(
        lambda: _resolve(lake, pipeline, since), timeout=RESOLVE_SECONDS, interval=0.2, what="mark dead letters"
    )


def _resolve(lake: Lake, pipeline: str, since: Mapping[str, Fence]) -> int | None:
    import pyarrow as pa  # imported late, because DAG files import this module
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    from pyiceberg.expressions import EqualTo

    from airflow_cdc.sinks.iceberg.snapshots import make

    table = lake.table(NAMESPACE, table_name(pipeline))
    unresolved = table.scan().to_arrow()
    rows, now = unresolved.to_pylist(), datetime.now(UTC)
    due = [row for row in rows if row["resolved_at"] is None and row["table"] in since and _is_due(row, since)]
    for row in due:
        row["resolved_at"] = now
    for name in sorted({row["table"] for row in due}):
        mine = pa.Table.from_pylist([row for row in rows if row["table"] == name], schema=unresolved.schema)
        try:
            table.overwrite(mine, overwrite_filter=make(EqualTo, term="table", value=name))
        except (CommitFailedException, ValidationException):  # another process was faster: read again
            return None
    return len(due)


def _is_due(row: Mapping[str, Any], since: Mapping[str, Fence]) -> bool:
    return is_before((row["topic"], row["topic_id"], row["partition"], row["offset"]), since[row["table"]])
