"""Give up an open recovery, or some of its tables: main is not touched, and the connector is left as it is.

Tables that the connector writes itself were published before they were compared: they keep what the recovery has read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from airflow_cdc.core.errors import CdcError, UsageError
from airflow_cdc.core.lease import LEASE_SECONDS
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.flows.close import close, drop_stages
from airflow_cdc.flows.lease import ended_by, kept
from airflow_cdc.flows.run import Facts, Run, now_iso
from airflow_cdc.kinds import read_position

log = logging.getLogger("airflow_cdc.abandon")


def abandon(run: Run, tables: Sequence[str] = (), *, who: str, reason: str) -> Facts:
    """Give up `tables` of the open recovery (none: all that are not published and proven). `who` and `reason` go into the audit.

    Until a recovery publishes the abandoned tables, apply refuses them and the diagnosis names them. The recovery
    continues with the rest; if all of that is published already, it is closed here. Returns `{"abandoned", "left",
    "recovery", "connector", "todo"}`. Raises LeaseHeldError while the recovery's run lives, UsageError if nothing is
    open or no reason is given.
    """
    if not reason.strip():
        raise UsageError(
            "the reason is missing", where=run.where, todo="Give a reason, for those who find the table later."
        )
    control, owner = run.clients.control, f"abandon {now_iso()}"
    control.acquire(owner, LEASE_SECONDS, ended=ended_by(run.lives))
    try:
        with kept(control, owner, LEASE_SECONDS):
            before = control.recovery(read_position)
            abandoned = control.abandon(tables, who, reason, read_position)
            after = control.recovery(read_position)
            _forget_stages(run, abandoned)
    finally:
        control.release(owner)
    left = list(after.tables) if after else []
    state = "open" if after else "abandoned"
    if after and not after.unsettled:
        _close(run, after.run_id)
        state, before = "closed", before and replace(before, settings_before={})  # as at the end of any recovery
    return {
        "abandoned": list(abandoned),
        "left": left,
        "recovery": state,
        "connector": connector_text(run, before),
        "todo": _TODO[state].format(pipeline=run.pipeline.name),
    }


_TODO = {
    "open": "The other tables can be finished: clear the failed task of their run, or trigger cdc_recovery, which takes over the recovery.",
    "closed": "The other tables are published, and apply continues with them. `airflow cdc diagnose {pipeline}` names the "
    "abandoned ones; recover them with diff_repair, or remove them from pipelines.yaml.",
    "abandoned": "Apply continues only with the tables of other recoveries. `airflow cdc diagnose {pipeline}` says what is "
    "wrong now; recover the abandoned tables with diff_repair, or remove them from pipelines.yaml.",
}


def _forget_stages(run: Run, tables: Sequence[str]) -> None:
    """Drop the stages of the abandoned tables. An unreachable lake must not keep the recovery open."""
    try:
        drop_stages(run, tables)
    except CdcError as error:
        log.warning("stages of %s were not all dropped: %s", ", ".join(tables), error)


def _close(run: Run, run_id: str) -> None:
    """Close the rest of the recovery in the name of its own run, which has ended."""
    theirs = replace(run, run_id=run_id)
    run.clients.control.acquire(run_id, LEASE_SECONDS)
    close(theirs)


def connector_text(run: Run, recovery: OpenRecovery | None) -> str:
    """The state in which the recovery left the connector: running or not, its offset, and settings that are not restored."""
    name = run.pipeline.connector.name
    try:
        state = run.clients.connector.state(name).state
    except CdcError as error:
        state = f"in a state that could not be read ({error})"
    written = recovery.written_at if recovery and not recovery.offset_kept else ""
    offset = f"its offset is the watermark's, written at {written}" if written else "its offset was not changed"
    changed = recovery.settings_before if recovery else {}
    before = ", ".join(f"{key} (before: {value if value is not None else 'not set'})" for key, value in changed.items())
    return f"connector {name} is {state}; {offset}" + (f"; still set for the recovery: {before}" if before else "")
