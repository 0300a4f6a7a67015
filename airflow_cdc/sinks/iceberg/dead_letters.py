"""The dead-letter table of a pipeline, as far as no Spark is needed: what waits in it, and what a new read put right."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.topics import Fence

if TYPE_CHECKING:
    from airflow_cdc.sinks.iceberg.client import Lake

NAMESPACE = "cdc_control"
# after so many tries only a person asks for another
MAX_ATTEMPTS = 5
RESOLVE_SECONDS = 60.0

# topic, the topic's id, partition, offset
Place = tuple[str, str, int, int]


def table_name(pipeline: str) -> str:
    """The table's name in the namespace `cdc_control`."""
    return f"{pipeline}__dead_letters"


def waiting(lake: Lake, pipeline: str) -> int:
    """How many unresolved letters are to be tried again."""
    if not lake.exists(NAMESPACE, table_name(pipeline)):
        return 0
    rows = lake.read_arrow(NAMESPACE, table_name(pipeline)).select(["resolved_at", "attempts"]).to_pylist()
    return sum(row["resolved_at"] is None and row["attempts"] < MAX_ATTEMPTS for row in rows)


def is_before(place: Place, since: Fence) -> bool:
    """Whether a record lies before `since`, a fence or a stamp's offsets.

    A topic that is absent did not exist then, so nothing lies before it; a record of another topic of the same name
    is of a time before.
    """
    topic, topic_id, partition, offset = place
    known = since.get(topic)
    return known is not None and known.is_past_record(topic_id, partition, offset)


def resolve_before(lake: Lake, pipeline: str, since: Mapping[str, Fence]) -> int:
    """Mark the letters of tables (table → as in `is_before`) that lie before it: their rows were read again since.

    Returns how many were marked. Safe to repeat; done again if another process changes the table meanwhile.
    """
    if not since or not lake.exists(NAMESPACE, table_name(pipeline)):
        return 0
    return poll_until(
        lambda: _resolve(lake, pipeline, since), timeout=RESOLVE_SECONDS, interval=0.2, what="mark dead letters"
    )


def _resolve(lake: Lake, pipeline: str, since: Mapping[str, Fence]) -> int | None:
    import pyarrow as pa  # not before it is needed: DAG files import this module
    from pyiceberg.exceptions import CommitFailedException, ValidationException
    from pyiceberg.expressions import EqualTo

    from airflow_cdc.sinks.iceberg.snapshots import make

    table = lake.table(NAMESPACE, table_name(pipeline))
    found = table.scan().to_arrow()
    rows, now = found.to_pylist(), datetime.now(UTC)
    due = [row for row in rows if row["resolved_at"] is None and row["table"] in since and _is_due(row, since)]
    for row in due:
        row["resolved_at"] = now
    for name in sorted({row["table"] for row in due}):
        mine = pa.Table.from_pylist([row for row in rows if row["table"] == name], schema=found.schema)
        try:
            table.overwrite(mine, overwrite_filter=make(EqualTo, term="table", value=name))
        except (CommitFailedException, ValidationException):  # another process was quicker: look again
            return None
    return len(due)


def _is_due(row: Mapping[str, Any], since: Mapping[str, Fence]) -> bool:
    return is_before((row["topic"], row["topic_id"], row["partition"], row["offset"]), since[row["table"]])
