"""The offset that Connect keeps for the connector: read as it is, and written as a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow_cdc.core.errors import DeadlineError, OffsetRejectedError
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.poll import poll_until
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.run import Run

SHOWN_SECONDS: Final = 20.0


def committed(run: Run) -> StoredOffset | None:
    """The offset that the connector has committed, or None while it has none. Raises OffsetRejectedError."""
    value = stored_value(run)
    return None if value is None else read(run, value)


def read(run: Run, value: Mapping[str, Any]) -> StoredOffset:
    """What a stored value means. Raises OffsetRejectedError for one that cannot be read."""
    offset = run.clients.connector.codec.read(value, {})
    if offset.position is None:
        raise OffsetRejectedError(offset.fault, where=run.where, reasons=(offset.fault,))
    return offset


def stored_value(run: Run) -> dict[str, Any] | None:
    """The same, as Connect keeps it."""
    return run.clients.connector.committed_offset(run.pipeline.connector.name, settings(run).prefix)


def write(run: Run, partition: Mapping[str, Any], before: Mapping[str, Any] | None, value: Mapping[str, Any]) -> None:
    """Validate, write, read back, compare; on any difference put `before` back and raise OffsetRejectedError."""
    if faults := run.clients.connector.codec.faults(value):
        raise OffsetRejectedError(f"the new offset is not valid: {'; '.join(faults)}", where=run.where, reasons=faults)
    name, connector = run.pipeline.connector.name, run.clients.connector
    connector.alter_offsets(name, partition, value)
    found = _read_back(run, str(partition["server"]))
    if found == dict(value):
        return
    connector.alter_offsets(name, partition, before)
    raise OffsetRejectedError(
        f"the offset read back differs from what was written: wrote {dict(value)}, found {found}; the old one was put back",
        where=run.where,
        todo="Look for another writer of this connector's offsets, then clear the task reset_offset.",
        reasons=("read back differs",),
    )


def _read_back(run: Run, server: str) -> dict[str, Any] | None:
    """The offset after a write. Connect lists a partition that had none only once its own reader of the topic has met the
    record: seen on 4.3.1 after a DELETE, where a GET some milliseconds after the PATCH still answered none.
    """
    name, connector = run.pipeline.connector.name, run.clients.connector
    try:
        return poll_until(
            lambda: connector.committed_offset(name, server),
            timeout=SHOWN_SECONDS,
            interval=0.1,
            what=f"Connect shows the offset written for {name}",
        )
    except DeadlineError:
        return None
