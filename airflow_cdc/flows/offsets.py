"""The offset that a connector has stored: reading it, and the only transaction that writes it."""

from __future__ import annotations

from typing import Final

from airflow_cdc.core.errors import RESTORE_OFFSET, DeadlineError, OffsetRejectedError
from airflow_cdc.core.offset import OffsetCodec, OffsetStore, RawOffset, StoredOffset
from airflow_cdc.core.poll import poll_until
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.run import Run

SHOWN_SECONDS: Final = 20.0


def committed(run: Run) -> StoredOffset | None:
    """The offset that the connector has committed, or None while it has none. Raises OffsetRejectedError."""
    value = stored_value(run)
    return None if value is None else read(run, value)


def read(run: Run, value: RawOffset) -> StoredOffset:
    """The meaning of a stored value. Raises OffsetRejectedError if it cannot be read."""
    offset = run.clients.connector.codec.read(value, {})
    if offset.position is None:
        raise OffsetRejectedError(offset.fault, where=run.where, reasons=(offset.fault,), todo=RESTORE_OFFSET)
    return offset


def stored_value(run: Run) -> RawOffset | None:
    """The raw offset value as the connector stores it, or None."""
    return run.clients.connector.committed_offset(run.pipeline.connector.name, settings(run).prefix)


def write(run: Run, key: RawOffset, before: RawOffset | None, value: RawOffset) -> None:
    """Replace this pipeline's offset as `replace_offset` does. Raises OffsetRejectedError."""
    connector = run.clients.connector
    store = connector.offset_store(run.pipeline.connector.name, key)
    replace_offset(store, connector.codec, before, value, where=run.where)


def whole_transaction(run: Run) -> None:
    """Have a stopped connector send the transaction that it was in again, from its beginning, which is harmless.

    An offset inside a transaction says how many of its events and rows to skip, so a row that was only half sent
    would be skipped whole. Without those two keys the transaction is sent again.
    """
    stored = stored_value(run)
    if stored is not None and (stored.get("event") or stored.get("row")):
        whole = {key: value for key, value in stored.items() if key not in ("event", "row")}
        write(run, {"server": settings(run).prefix}, stored, whole)


def replace_offset(
    store: OffsetStore, codec: OffsetCodec, before: RawOffset | None, value: RawOffset, *, where: str
) -> None:
    """The write as a transaction: validate, write, read back, compare; on any difference restore the backup `before`.

    The connector must be stopped. Raises OffsetRejectedError.
    """
    if faults := codec.faults(value):
        todo = "Nothing was written. `airflow cdc offset get` shows how this connector's offsets look."
        what = f"the new offset is not valid: {'; '.join(faults)}"
        raise OffsetRejectedError(what, where=where, reasons=faults, todo=todo)
    store.write(value)
    read_back = _read_back(store, where)
    if read_back == dict(value):
        return
    store.write(before)
    raise OffsetRejectedError(
        f"the offset read back differs from what was written: wrote {dict(value)}, found {read_back}; the old offset was restored",
        where=where,
        todo="Look for another writer of this connector's offsets, then clear the task reset_offset.",
        reasons=("read back differs",),
    )


def _read_back(store: OffsetStore, where: str) -> RawOffset | None:
    """The stored offset after a write, which a store may show a moment late."""
    try:
        stored = poll_until(
            store.read, timeout=SHOWN_SECONDS, interval=0.1, what=f"the written offset to show ({where})"
        )
    except DeadlineError:
        return None
    return dict(stored)
