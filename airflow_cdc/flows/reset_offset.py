"""Step 6: write the offset as a transaction: back up → validate → write → read back → compare → roll back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.offset import OffsetEntry, RawOffset, StoredOffset, entry_of
from airflow_cdc.core.pipeline import Corrected
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.diagnosis.connector_rows import NOT_IN_HISTORY
from airflow_cdc.flows.capture import defined, present, settings
from airflow_cdc.flows.connector import STOP_SECONDS, history, moved_since
from airflow_cdc.flows.corrections import check_corrected
from airflow_cdc.flows.move_offset import check_place
from airflow_cdc.flows.offsets import committed, read, stored_value, write
from airflow_cdc.flows.publish import publish_read
from airflow_cdc.flows.recovery import change, current, watermark_of
from airflow_cdc.flows.run import Facts, Run, now_iso, step
from airflow_cdc.flows.watermark import check_held, still_there


@step("reset_offset", leased=True)
def reset_offset(run: Run) -> Facts:
    """Write W as the connector's offset and read it back; or leave the offset if only tables are wrong (INV 39).

    If the connector writes the tables itself, they are published first. Safe to run again: the first backup is kept, and a
    connector that already reads from this W (or past it) is not touched. Raises SourceError if W is gone, SchemaError if a
    table changed since W (INV 11).
    """
    recovery = current(run)
    watermark = watermark_of(recovery, run)
    check_corrected(run, recovery)
    if recovery.offset_kept:
        return _kept(run, recovery, watermark)
    if recovery.written_at and not moved_since(run, recovery) and _already(run, watermark):
        return _facts(recovery, recovery.written)
    definitions = _unchanged(run, recovery)
    run.clients.source.check_same_server(watermark)
    still_there(run, watermark, then="fence_and_watermark")
    before = backup(run, recovery)
    written = run.clients.connector.codec.at(watermark.position, int(watermark.taken_at.timestamp()))
    run.clients.connector.stop(run.pipeline.connector.name, timeout=STOP_SECONDS)
    if run.pipeline.corrected is Corrected.BEFORE_START:
        publish_read(run)
    write(run, before.key, before.value, written)
    differences = _to_rebuild(recovery, definitions, _history(run, definitions, written))
    at = now_iso()
    change(run, lambda now: now.wrote(written, at, differences))
    differing = _lists(differences)
    return {"offset_before": before.value, "offset_after": written, "history_differences": differing, "kept": False}


def _facts(recovery: OpenRecovery, after: RawOffset | None) -> Facts:
    """The result for an offset that stays as it is."""
    before = None if recovery.backup is None else recovery.backup.value
    return {"offset_before": before, "offset_after": after, "kept": True}


def _lists(differences: Mapping[str, tuple[str, ...]]) -> dict[str, list[str]]:
    return {table: list(texts) for table, texts in differences.items()}


def _kept(run: Run, recovery: OpenRecovery, watermark: Watermark) -> Facts:
    """Leave the offset as it is, for the tables that are not recovered (INV 39), if W covers it and the source has it.

    Changes of the recovered tables between the offset and W are sent again, and dropped because the snapshot has them.
    """
    if recovery.written_at:
        return _facts(recovery, recovery.written)
    definitions = _unchanged(run, recovery)
    run.clients.source.check_same_server(watermark)
    backup(run, recovery)
    check_held(run, watermark)
    offset = stored_value(run) or {}  # unchanged: it is compared with what the connector commits next
    check_place(run, offset)
    differences = _to_rebuild(recovery, definitions, _history(run, definitions, offset))
    if not recovery.history.doubted and not _read_up_to(run, read(run, offset), watermark):
        differences = _not_ahead(run, differences)
    if differences:
        _others_unchanged(run, set(definitions), offset)
    at = now_iso()
    change(run, lambda now: now.wrote(offset, at, differences))
    return {"offset_before": offset, "offset_after": offset, "history_differences": _lists(differences), "kept": True}


def _read_up_to(run: Run, stored: StoredOffset, watermark: Watermark) -> bool:
    """Whether no statement before W is left that could explain how the connector's definitions differ."""
    if stored.has_read(watermark) is not False:
        return True
    return stored.position is not None and run.clients.source.at_rest(stored.position, watermark)


def _not_ahead(run: Run, differences: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Tables to rebuild for a connector that continues from before W: those that it does not know.

    What it knows otherwise was changed after its position, and it reads that change in its turn. With a rebuilt definition
    it would not: Debezium fails at a CHANGE of a column that this no longer has. Raises SchemaError if both are needed.
    """
    unknown = {table: texts for table, texts in differences.items() if texts == (NOT_IN_HISTORY,)}
    if unknown and (changed := sorted(differences.keys() - unknown)):
        raise _changed_ahead(run, changed)
    return unknown


def _others_unchanged(run: Run, recovered: set[str], offset: RawOffset) -> None:
    """Check that the other tables' definitions are those that the connector has: a rebuilt history holds current ones.

    Otherwise the connector would decode events from before a change with the definition after it (INV 11, 12).
    """
    others = [table for table in run.pipeline.source.tables if table not in recovered]
    changed = _history(run, present(run, others), offset) if others else {}
    if changed:
        raise _changed_ahead(run, sorted(changed))


def _changed_ahead(run: Run, tables: Sequence[str]) -> SchemaError:
    return SchemaError(
        f"{', '.join(tables)} changed after the connector's position, and its schema history must be rebuilt "
        "for the tables of this recovery",
        where=run.where,
        todo="Give up the recovery (airflow cdc abandon), start the connector, and trigger cdc_recovery once the "
        "connector has read that change.",
    )


def _already(run: Run, watermark: Watermark) -> bool:
    offset = committed(run)
    return offset is not None and offset.has_read(watermark) is True


def _unchanged(run: Run, recovery: OpenRecovery) -> Mapping[str, Table]:
    now = defined(run, recovery.tables)
    changed = [name for name, table in now.items() if recovery.definitions.get(name) != table.fingerprint]
    if changed:
        raise SchemaError(
            f"the definition of {', '.join(changed)} changed since the watermark, so the rows already read no longer fit",
            where=run.where,
            todo="Clear the task fence_and_watermark and all after it: a new watermark is taken.",
        )
    return now


def backup(run: Run, recovery: OpenRecovery) -> OffsetEntry:
    """The offset's key and its value before the recovery; the first backup is never replaced."""
    if recovery.backup is not None:
        return recovery.backup
    mine = entry_of(run.clients.connector.entries(run.pipeline.connector.name), settings(run).prefix)
    before = OffsetEntry(mine.key, mine.value or None)
    return change(run, lambda now: now.backed_up(before)).backup or before


def _history(run: Run, definitions: Mapping[str, Table], written: RawOffset) -> dict[str, tuple[str, ...]]:
    """Table → how the schema history, read from the offset `written` on, differs from the source (INV 12).

    {} if all are equal, or if the connector has no history because its source's events carry their own definitions.
    """
    if not settings(run).reports_ddl:
        return {}
    return history(run).differences(definitions, at=read(run, written).position)


def _to_rebuild(
    recovery: OpenRecovery, definitions: Mapping[str, Table], differences: Mapping[str, tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    """The differences of the connector's definitions, of every table if they are doubted.

    After an abandoned detour they may hold positions that the source will never reach.
    """
    why = "it was recorded with a replica's errant transactions, or was wrong past W"
    return {**differences, **(dict.fromkeys(definitions, (why,)) if recovery.history.doubted else {})}
