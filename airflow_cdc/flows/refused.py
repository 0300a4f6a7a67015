"""Tables that apply cannot put right (DDL without events, unreadable records), recorded in the control table for the diagnosis."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow_cdc.control.control import REFUSED
from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.observation import RefusedTable
from airflow_cdc.flows.run import Run, now_iso
from airflow_cdc.flows.stages import staging_of

# After this long without a try, the obstacle to a re-read may be gone.
FORGOTTEN = timedelta(hours=1)


def note_refused(run: Run, table: str, why: str, *, tried: bool) -> None:
    """Record that a table waits to be re-read; the record is valid until the table's stamp changes.

    `tried`: a re-read was started and failed. Otherwise an earlier record is kept.
    """
    if _noted(run, table) is not None and not tried:
        return
    tries = failed_tries(run, table) + int(tried)
    refused = RefusedTable(why, now_iso(), tries, _stamp(run, table))
    run.clients.control.ledger_set(REFUSED, table, plain(refused))


def failed_tries(run: Run, table: str) -> int:
    """How often a re-read of the table has failed recently, since the table was last published."""
    refused = _noted(run, table)
    if refused is None:
        return 0
    age = datetime.now(UTC) - datetime.fromisoformat(refused.at)
    return refused.tries if age < FORGOTTEN else 0


def _noted(run: Run, table: str) -> RefusedTable | None:
    """The record of the table that is still valid; None if there is none."""
    note = run.clients.control.ledger_get(REFUSED).get(table)
    refused = read(RefusedTable, note) if note else None
    return refused if refused is not None and refused.stamp == _stamp(run, table) else None


def _stamp(run: Run, table: str) -> object:
    place = run.pipeline.sink.namespace, run.pipeline.sink_table(table)
    stamp = staging_of(run).stamp_or_mirror(*place, run.clients.control.mirrored_stamp(table))
    return None if stamp is None else stamp.to_json()
