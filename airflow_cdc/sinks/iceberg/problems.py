"""Predicates about the sink, the control table, and parts that could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_cdc.connectors.debezium.problems import no_offset
from airflow_cdc.core.diagnosis.evidence import (
    Evidence,
    connector_of,
    evidence,
    offset_evidence,
    offset_fault,
    source_of,
    states,
    tables_of,
)
from airflow_cdc.core.diagnosis.observation import ControlFacts, Observation, SchemaFacts, SinkTableFacts, Unknown

_REQUIRED = ("source", "connector", "transport", "control")


def recovery_open(obs: Observation) -> Evidence | None:
    control = obs.control
    if not isinstance(control, ControlFacts) or not control.recovery:
        return None
    shown = ("run_id", "opened_at", "problem", "strategy", "tables")
    told = {key: str(control.recovery[key]) for key in shown if key in control.recovery}
    return evidence(obs, "control table", {"epoch": control.epoch, **told})


def unread(obs: Observation) -> Evidence | None:
    found = {part: f"could not be read: {why}" for part, why in obs.unknowns.items() if part in _REQUIRED}
    if fault := offset_fault(obs):
        found["offset"] = fault
    return evidence(obs, "observation", found) if found else None


def rest_unread(obs: Observation) -> Evidence | None:
    """Sink or schemas unread: what the server's facts prove still stands, but the pipeline is not known to be whole."""
    found = {part: f"could not be read: {why}" for part, why in obs.unknowns.items() if part not in _REQUIRED}
    return evidence(obs, "observation", found) if found else None


def control_behind(obs: Observation) -> Evidence | None:
    return _epochs(obs, lambda stamp, control: stamp > control)


def epoch_behind(obs: Observation) -> Evidence | None:
    return _epochs(obs, lambda stamp, control: stamp < control)


def new_pipeline(obs: Observation) -> Evidence | None:
    tables = tables_of(obs)
    if tables is None or not no_offset(obs) or any(facts.stamp for facts in tables.values()):
        return None
    return {**offset_evidence(obs), **_stamp_evidence(obs, tables)}


def offset_missing(obs: Observation) -> Evidence | None:
    tables = tables_of(obs)
    if tables is None or not no_offset(obs) or not any(facts.stamp for facts in tables.values()):
        return None
    return {**offset_evidence(obs), **_stamp_evidence(obs, tables)}


def stamp_lost(obs: Observation) -> Evidence | None:
    """A table that was filled under an epoch and says nothing of it, and whose copy in the control table is gone too."""
    control = obs.control
    if not isinstance(control, ControlFacts) or not control.epoch:
        return None
    bare = {name: facts for name, facts in _bare(obs).items() if facts.exists and facts.rows}
    return _stamp_evidence(obs, bare) if bare else None


def table_added(obs: Observation) -> Evidence | None:
    bare = _bare(obs)
    return _stamp_evidence(obs, bare) if bare else None


def needs_reread(obs: Observation) -> Evidence | None:
    """Tables that apply has stopped because of DDL, and that were not read again since."""
    waiting = {
        f"{name} stopped at {noted.get('at', '')}": str(noted.get("why", "")) for name, noted in _stopped(obs).items()
    }
    return evidence(obs, "control table", waiting) if waiting else None


def tables_stopped(obs: Observation) -> tuple[str, ...]:
    """The tables that `needs_reread` is about."""
    return tuple(_stopped(obs))


def _stopped(obs: Observation) -> dict[str, Mapping[str, Any]]:
    tables, control = tables_of(obs), obs.control
    if tables is None or not isinstance(control, ControlFacts):
        return {}
    return {
        name: noted
        for name, noted in control.refused.items()
        if (stamp := tables[name].stamp if name in tables else None) and noted.get("stamp") == stamp.to_json()
    }


def healthy(obs: Observation) -> Evidence | None:
    source, connector = source_of(obs), connector_of(obs)
    if source is None or connector is None or obs.unknowns or not isinstance(obs.schema, SchemaFacts):
        return None
    return {**evidence(obs, "connector status", states(connector)), **offset_evidence(obs)}


def tables_behind(obs: Observation) -> tuple[str, ...]:
    """The tables whose stamp is of an earlier epoch than the control table asks for."""
    tables, control = tables_of(obs), obs.control
    if tables is None or not isinstance(control, ControlFacts):
        return ()
    required = control.required
    return tuple(name for name, facts in tables.items() if facts.stamp and facts.stamp.epoch < required.of(name))


def tables_without_stamp(obs: Observation) -> tuple[str, ...]:
    """The declared tables that no commit says how far they have come."""
    return tuple(_bare(obs))


def _bare(obs: Observation) -> dict[str, SinkTableFacts]:
    """The declared tables without a stamp, of a sink that we write: other writers leave none."""
    tables = tables_of(obs)
    if isinstance(obs.sink, Unknown) or tables is None or obs.pipeline.sink.writer != "cdc_apply":
        return {}
    declared = {name: tables.get(name, SinkTableFacts(exists=False)) for name in obs.pipeline.source.tables}
    return {name: facts for name, facts in declared.items() if not facts.stamp}


def _epochs(obs: Observation, differs: Callable[[int, int], bool]) -> Evidence | None:
    tables, control = tables_of(obs), obs.control
    if tables is None or not isinstance(control, ControlFacts):
        return None
    stamped = {name: facts.stamp.epoch for name, facts in tables.items() if facts.stamp}
    stamps = {
        f"stamp of {name}": f"epoch {epoch}, the control table asks for {control.required.of(name)}"
        for name, epoch in stamped.items()
        if differs(epoch, control.required.of(name))
    }
    if not stamps:
        return None
    given_up = {f"recovery of {name}": _given_up(note) for name, note in control.abandoned.items()}
    return evidence(obs, "sink and control", {"control": f"epoch {control.epoch}", **stamps, **given_up})


def _given_up(note: Mapping[str, str]) -> str:
    return f"abandoned at {note['at']} by {note['who']}: {note['reason']}"


def _stamp_evidence(obs: Observation, tables: Mapping[str, SinkTableFacts]) -> Evidence:
    shown = {f"sink of {name}": _stamp_text(facts) for name, facts in tables.items()}
    return evidence(obs, "sink", shown or {"sink": "no tables"})


def _stamp_text(facts: SinkTableFacts) -> str:
    if not facts.exists:
        return "does not exist"
    rows = "" if facts.rows is None else f", {facts.rows} rows"
    return f"stamp of epoch {facts.stamp.epoch}" if facts.stamp else f"exists without a stamp{rows}"
