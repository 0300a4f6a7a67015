"""The rows of the diagnosis that name no system: what could not be read, the open recovery, stamps and epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from airflow_cdc.core.observation import (
    ControlFacts,
    Observation,
    OtherCommit,
    RefusedTable,
    SchemaFacts,
    SinkFacts,
    SinkTableFacts,
    Unknown,
)
from airflow_cdc.core.problem import FULL_SNAPSHOT, WARNING, AnyCase, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis import lag
from airflow_cdc.decisions.diagnosis.evidence import (
    OFFSETS,
    evidence,
    failure_evidence,
    offset_evidence,
    states,
    tables_of,
    transport_of,
)

_REQUIRED = ("source", "connector", "control")


def recovery_open(case: AnyCase) -> Evidence | None:
    control = case.seen.control
    if not isinstance(control, ControlFacts) or control.recovery is None:
        return None
    now = control.recovery
    parts = {"run_id": now.run_id, "opened_at": now.opened_at, "problem": now.problem, "strategy": now.strategy}
    shown = {**parts, "tables": ", ".join(now.tables)}
    return evidence(
        case, "control table", {"epoch": control.epoch, **{key: text for key, text in shown.items() if text}}
    )


def unread(case: AnyCase) -> Evidence | None:
    parts = {part: f"could not be read: {why}" for part, why in case.seen.unknowns.items() if part in _REQUIRED}
    if case.offset is not None and case.offset.fault:
        parts["offset"] = case.offset.fault
    return evidence(case, "observation", parts) if parts else None


def offset_unseen(case: AnyCase) -> Evidence | None:
    """The offset is kept where it isn't read. What the connector says of its failure is all that is known then."""
    connector = case.connector
    if connector is None or not connector.offset_unseen:
        return None
    return {
        **evidence(case, OFFSETS, {"stored offset": f"unknown: {connector.offset_unseen}"}),
        **failure_evidence(case),
    }


def rest_unread(case: AnyCase) -> Evidence | None:
    """Topics, sink or schemas could not be read. Problems of what was read still hold, but others may be hidden."""
    parts = {part: f"could not be read: {why}" for part, why in case.seen.unknowns.items() if part not in _REQUIRED}
    return evidence(case, "observation", parts) if parts else None


def control_behind(case: AnyCase) -> Evidence | None:
    return _epochs(case, lambda stamp, control: stamp > control)


def epoch_behind(case: AnyCase) -> Evidence | None:
    return _epochs(case, lambda stamp, control: stamp < control)


def new_pipeline(case: AnyCase) -> Evidence | None:
    tables = tables_of(case.seen)
    if tables is None or not _no_offset(case) or any(facts.stamp for facts in tables.values()):
        return None
    return {**offset_evidence(case), **_stamp_evidence(case, tables)}


def offset_missing(case: AnyCase) -> Evidence | None:
    tables = tables_of(case.seen)
    if tables is None or not _no_offset(case) or not any(facts.stamp for facts in tables.values()):
        return None
    return {**offset_evidence(case), **_stamp_evidence(case, tables)}


def stamp_lost(case: AnyCase) -> Evidence | None:
    """A table that was filled under an epoch has no stamp, and the stamp's copy in the control table is gone too."""
    control = case.seen.control
    if not isinstance(control, ControlFacts) or not control.epoch:
        return None
    bare = {name: facts for name, facts in _bare(case.seen).items() if facts.exists and facts.rows}
    return _stamp_evidence(case, bare) if bare else None


def sink_differs(case: AnyCase) -> Evidence | None:
    """Readers see wrong rows, whatever the position is."""
    sink = case.seen.sink
    if not isinstance(sink, SinkFacts) or not sink.differs:
        return None
    return evidence(case, "stored reports", {"tables that differ": ", ".join(sink.differs)})


def sink_written_by_others(case: AnyCase) -> Evidence | None:
    """Another program commits to tables that we write: what it wrote is in no event, and we may overwrite it."""
    theirs = {f"commit in the sink of {name}": shown(other) for name, other in others(case.seen).items()}
    return evidence(case, "sink", theirs) if theirs else None


def table_added(case: AnyCase) -> Evidence | None:
    bare = _bare(case.seen)
    return _stamp_evidence(case, bare) if bare else None


def needs_reread(case: AnyCase) -> Evidence | None:
    """Tables that apply cannot put right, because of DDL or of unreadable records, and that were not read again since."""
    waiting = {f"{name} since {table.at}": table.why for name, table in _stopped(case.seen).items()}
    return evidence(case, "control table", waiting) if waiting else None


def healthy(case: AnyCase) -> Evidence | None:
    observation = case.seen
    if (
        case.source is None
        or case.connector is None
        or observation.unknowns
        or not isinstance(observation.schema, SchemaFacts)
    ):
        return None
    return {**evidence(case, "connector status", states(case.connector)), **offset_evidence(case)}


def others(obs: Observation) -> dict[str, OtherCommit]:
    """Table that we write → the newest commit of another program there."""
    tables = tables_of(obs) if obs.pipeline.is_applied else None
    return {name: facts.other for name, facts in (tables or {}).items() if facts.other}


def shown(other: OtherCommit) -> str:
    """A commit of another program, in words."""
    at = datetime.fromtimestamp(other.at, UTC).isoformat(timespec="seconds")
    return f"version {other.version} of {at}{f' by {other.by}' if other.by else ''}"


def tables_stopped(obs: Observation) -> tuple[str, ...]:
    """The tables that `needs_reread` is about."""
    return tuple(_stopped(obs))


def tables_behind(obs: Observation) -> tuple[str, ...]:
    """The tables whose stamp is of an earlier epoch than the control table asks for."""
    tables, control = tables_of(obs), obs.control
    if tables is None or not isinstance(control, ControlFacts):
        return ()
    required = control.required
    return tuple(name for name, facts in tables.items() if facts.stamp and facts.stamp.epoch < required.of(name))


def tables_without_stamp(obs: Observation) -> tuple[str, ...]:
    """The declared tables without a commit that says how far they are applied."""
    return tuple(_bare(obs))


def _no_offset(case: AnyCase) -> bool:
    """Whether the connector is known to have no offset at all, under any key."""
    connector = case.connector
    return connector is not None and case.offset is None and not connector.other_keys and not connector.offset_unseen


def _stopped(obs: Observation) -> dict[str, RefusedTable]:
    tables, control = tables_of(obs), obs.control
    if tables is None or not isinstance(control, ControlFacts):
        return {}
    return {
        name: table
        for name, table in control.refused.items()
        if (stamp := tables[name].stamp if name in tables else None) and table.stamp == stamp.to_json()
    }


def _bare(obs: Observation) -> dict[str, SinkTableFacts]:
    """The declared tables without a stamp, in a sink that we write: other writers leave no stamps."""
    tables = tables_of(obs)
    if isinstance(obs.sink, Unknown) or tables is None or not obs.pipeline.is_applied:
        return {}
    declared = {name: tables.get(name, SinkTableFacts(exists=False)) for name in obs.pipeline.source.tables}
    return {name: facts for name, facts in declared.items() if not facts.stamp}


def _epochs(case: AnyCase, differs: Callable[[int, int], bool]) -> Evidence | None:
    tables, control = tables_of(case.seen), case.seen.control
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
    return evidence(case, "sink and control", {"control": f"epoch {control.epoch}", **stamps, **given_up})


def _given_up(note: Mapping[str, str]) -> str:
    return f"abandoned at {note['at']} by {note['who']}: {note['reason']}"


def _stamp_evidence(case: AnyCase, tables: Mapping[str, SinkTableFacts]) -> Evidence:
    shown = {f"sink of {name}": _stamp_text(facts) for name, facts in tables.items()}
    return evidence(case, "sink", shown or {"sink": "no tables"})


def _stamp_text(facts: SinkTableFacts) -> str:
    if not facts.exists:
        return "does not exist"
    rows = "" if facts.rows is None else f", {facts.rows} rows"
    return f"stamp of epoch {facts.stamp.epoch}" if facts.stamp else f"exists without a stamp{rows}"


def topics_remark(case: AnyCase) -> Iterator[str]:
    """Why nothing is known of the topics, if their names can't be derived."""
    transport = transport_of(case.seen)
    if transport is not None and transport.unnamed:
        yield f"topics: unknown, because {transport.unnamed}"


def offset_remark(case: AnyCase) -> Iterator[str]:
    """Why nothing is known of the stored offset, also beside what the server itself says of the position."""
    if case.connector is not None and case.connector.offset_unseen:
        yield f"offset: unknown, because {case.connector.offset_unseen}"


RULES = Rules(
    (
        Problem(
            "RECOVERY_OPEN",
            10,
            "A recovery was started and not finished: not all its tables are published.",
            recovery_open,
            ("finish", "replica_detour", "translate_gtid"),
            on_request=("full_snapshot",),
        ),
        Problem(
            "UNKNOWN",
            20,
            "Something essential could not be read, so no conclusion is drawn.",
            unread,
            about_position=True,
        ),
        Problem(
            "UNKNOWN",
            21,
            "A sink table has a later epoch than the control table, which was lost or rolled back.",
            control_behind,
        ),
        Problem(
            "UNKNOWN",
            40,
            "The connector's position is kept where it can't be read, so nobody knows whether the source still has it.",
            offset_unseen,
        ),
        Problem(
            "UNKNOWN",
            68,
            "Topics, sink or table definitions could not be read, so nobody knows whether the pipeline is complete.",
            rest_unread,
        ),
        Problem(
            "NEW_PIPELINE",
            42,
            "Nothing has been copied yet: the connector has no offset and no sink table has a stamp.",
            new_pipeline,
            FULL_SNAPSHOT,
        ),
        Problem(
            "OFFSET_MISSING",
            43,
            "The connector has lost its offset: the sink has rows, and where to continue is unknown.",
            offset_missing,
            FULL_SNAPSHOT,
            on_request=("diff_repair",),
        ),
        Problem(
            "EPOCH_BEHIND",
            63,
            "A sink table has an earlier epoch than the control table: it was rolled back across a recovery, or its recovery "
            "was abandoned.",
            epoch_behind,
            FULL_SNAPSHOT,
            on_request=("diff_repair",),
        ),
        Problem(
            "STAMP_LOST",
            64,
            "A sink table has rows but no stamp that says how far it was applied, and no copy of the stamp is left.",
            stamp_lost,
            FULL_SNAPSHOT,
        ),
        Problem(
            "TABLE_ADDED",
            65,
            "This pipeline has never filled a declared table: its sink table has no stamp.",
            table_added,
            FULL_SNAPSHOT,
        ),
        Problem(
            "TABLE_NEEDS_REREAD",
            66,
            "Rows of a table changed without events, or in records that cannot be read: apply cannot put it right.",
            needs_reread,
            FULL_SNAPSHOT,
        ),
        Problem(
            "SINK_DIFFERS",
            70,
            "A comparison found rows that differ from the source, and none has found them equal since: `airflow cdc repair` "
            "names them and writes them again.",
            sink_differs,
            WARNING,
            on_request=("full_snapshot", "diff_repair"),
        ),
        Problem(
            "SINK_WRITTEN_BY_OTHERS",
            74,
            "Another program wrote to a sink table of ours since its rows were last read from the source.",
            sink_written_by_others,
            WARNING,
            on_request=("full_snapshot", "diff_repair"),
        ),
        Problem(
            "SINK_BEHIND",
            90,
            "Events wait to be applied: readers see old rows.",
            lag.sink_behind,
            WARNING,
            on_request=("full_snapshot", "diff_repair"),
        ),
        Problem(
            "HEALTHY",
            99,
            "The source holds everything from the connector's position on.",
            healthy,
            ("none",),
            on_request=("full_snapshot", "diff_repair"),
        ),
    ),
    remarks=(topics_remark, offset_remark),
)
