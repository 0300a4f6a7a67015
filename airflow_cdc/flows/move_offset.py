"""Moving a connector's position by hand: only to where the source still has the log, by compare-and-set, audited."""

from __future__ import annotations

from dataclasses import replace

from airflow_cdc.core.errors import OffsetRejectedError, UnknownStateError, UsageError
from airflow_cdc.core.lease import LEASE_SECONDS
from airflow_cdc.core.observation import ConnectorFacts, Observation, OpenFacts
from airflow_cdc.core.offset import RawOffset, entry_of
from airflow_cdc.decisions.diagnosis.diagnose import position_fault
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.lease import ended_by, kept
from airflow_cdc.flows.observe import observe
from airflow_cdc.flows.offsets import write
from airflow_cdc.flows.run import Facts, Run, now_iso
from airflow_cdc.kinds import rules_for
from airflow_cdc.reports.stored import LASTING

LEDGER = f"{LASTING}offset_moves"
_KEPT = 20
_MOVES = "moves"


def stored(run: Run) -> Facts:
    """Partition and value of the offset of this pipeline's connector; `offset` None: it has none."""
    return entry_of(run.clients.connector.entries(run.pipeline.connector.name), settings(run).prefix).to_json()


def check(run: Run, value: RawOffset) -> None:
    """Raise unless `value` may be written and a connector could continue from it (see `check_place`)."""
    if faults := (*run.clients.connector.codec.faults(value), *settings(run).offset_faults(value)):
        raise OffsetRejectedError(
            f"the offset is not valid: {'; '.join(faults)}",
            where=run.where,
            reasons=faults,
            todo="Correct it: `airflow cdc offset get` shows how this connector's offsets look.",
        )
    check_place(run, value)


def check_place(run: Run, value: RawOffset) -> None:
    """Raise unless a connector could continue from the place of `value` at the live source.

    An offset stored by a connector may lack a field that we always write: PostgreSQL's has no lsn_proc between the
    connector's own snapshot and its first event. Raises OffsetRejectedError, which names the problem that the value
    would cause and the evidence, or UnknownStateError if the source could not be asked.
    """
    fault = position_fault(_as_if(run, value), rules_for(run.pipeline))
    if fault is None:
        return
    text = "; ".join(f"{name}: {value_text}" for name, value_text in fault.evidence.items())
    if fault.code == "UNKNOWN":
        raise UnknownStateError(
            f"the offset cannot be checked: {text}", where=run.where, todo="Fix the parts listed above."
        )
    raise OffsetRejectedError(
        f"a connector could not continue from there: {fault.code}: {fault.description} {text}",
        where=run.where,
        todo=f"Choose a position that the server still has; see {fault.code} in the runbook.",
        reasons=(fault.code,),
    )


def move(run: Run, value: RawOffset, *, who: str, shown: RawOffset | None) -> Facts:
    """Stop the connector, write `value`, prove it by reading it back, and leave the connector stopped.

    `shown` is the offset on which the decision was based: if a resting connector has another one by now, nothing is
    written. Returns `{"before", "after", "moves", "at"}`. Raises as `check` and flows.stored_offset.write do.
    """
    control, owner = run.clients.control, f"offset {now_iso()}"

    def no_recovery(recovery: OpenFacts | None) -> None:
        if recovery is not None:
            raise UsageError(
                "a recovery is open and controls the offset", where=run.where, todo="Finish the recovery first."
            )

    control.acquire(owner, LEASE_SECONDS, ended=ended_by(run.lives), admit=no_recovery)
    try:
        with kept(control, owner, LEASE_SECONDS):
            moved = _move(run, value, who=who, shown=shown)
    finally:
        control.release(owner)
    return moved


def _move(run: Run, value: RawOffset, *, who: str, shown: RawOffset | None) -> Facts:
    name = run.pipeline.connector.name
    rested = run.clients.connector.state(name).state == "STOPPED"
    run.clients.connector.stop(name)
    before = stored(run)
    if rested:
        _unchanged(run, shown, before["offset"])
    check(run, value)
    _unchanged(run, before["offset"], stored(run)["offset"])
    noted = _note(run, who, before["offset"], value)
    run.clients.control.audit(who, "offset", before["offset"], dict(value))
    write(run, before["partition"], before["offset"], value)
    _settle(run, noted["at"])
    return {
        "before": before["offset"],
        "after": dict(value),
        "moves": run.clients.connector.codec.moved(before["offset"], value),
        "at": noted["at"],
    }


def last_before(run: Run) -> Facts:
    """The offset before the newest move. Raises UsageError if there was no move, or no offset before it."""
    done = [entry for entry in _moves(run) if entry["state"] == "done" and entry["from"]]
    if not done:
        raise UsageError(
            "no earlier move of the offset is recorded", where=run.where, todo="Name a file of `offset backup`."
        )
    return dict(done[-1]["from"])


def _as_if(run: Run, value: RawOffset) -> Observation:
    """The observation as it would be with the connector at rest at `value`."""
    source, observation = run.clients.source, observe(run, watch=0.0)
    connector = observation.connector
    if not isinstance(connector, ConnectorFacts):
        return observation
    offset = run.clients.connector.codec.read(dict(value), connector.key or {})
    there = replace(connector, state="STOPPED", tasks=(), offset=offset)
    return replace(observation, connector=there, source=source.facts_for(run.pipeline.source.tables, offset.position))


def _unchanged(run: Run, expected: RawOffset | None, current: RawOffset | None) -> None:
    if (dict(expected) if expected else None) != (dict(current) if current else None):
        raise OffsetRejectedError(
            f"somebody else changed the offset: it was {expected}, it is {current}",
            where=run.where,
            todo="Check the new offset, then decide again.",
            reasons=("changed meanwhile",),
        )


def _moves(run: Run) -> list[Facts]:
    return list(run.clients.control.ledger_get(LEDGER).get(_MOVES) or [])


def _note(run: Run, who: str, before: RawOffset | None, after: RawOffset) -> Facts:
    """Note the move in the audit before it is done, so that a move that died half-way has left its trace."""
    entry = {"who": who, "at": now_iso(), "from": before, "to": dict(after), "state": "begun"}
    run.clients.control.ledger_set(LEDGER, _MOVES, [*_moves(run), entry][-_KEPT:])
    return entry


def _settle(run: Run, at: str) -> None:
    entries = [{**entry, "state": "done"} if entry["at"] == at else entry for entry in _moves(run)]
    run.clients.control.ledger_set(LEDGER, _MOVES, entries)
