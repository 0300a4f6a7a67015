"""Debezium's rows of the diagnosis: its offset, its state, its schema history, and what its events carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_cdc.connectors.debezium import problems_events as events
from airflow_cdc.connectors.debezium.error_texts import TEXTS
from airflow_cdc.connectors.debezium.healing import healing_settings, publication_of, remakes_publication
from airflow_cdc.core.observation import ConnectorFacts, ControlFacts, HistoryFacts, SchemaFacts
from airflow_cdc.core.offset import Inside
from airflow_cdc.core.problem import FULL_SNAPSHOT, WARNING, AnyCase, Beside, Evidence, Problem, Rules
from airflow_cdc.core.text import number_in, shorten
from airflow_cdc.decisions.diagnosis.connector_rows import CONNECTOR_STATES, NOT_IN_HISTORY, STILL
from airflow_cdc.decisions.diagnosis.evidence import (
    OFFSETS,
    evidence,
    failure_evidence,
    offset_evidence,
    state_evidence,
)
from airflow_cdc.decisions.diagnosis.strategy import DIFF_REPAIR, FULL, NEXT_FILE
from airflow_cdc.sources.postgres.facts import PgFacts

_ENDLESS = 2**62
# the position is lost, so the gap cannot be read: differing definitions are added to the evidence
_GAP_RANKS = frozenset({30, 31, 32, 33, 34, 35, 37})


# ---- offset and state --------------------------------------------------------------------------


def offset_ambiguous(case: AnyCase) -> Evidence | None:
    """Positions under a second key, or different ones in two topics: a person must say which one counts."""
    connector = case.connector
    if connector is None or not (connector.other_keys or connector.elsewhere):
        return None
    keys = {f"another key {n}": shorten(str(dict(key))) for n, key in enumerate(connector.other_keys, 1)}
    topics = {f"offset in {topic}": shorten(str(dict(value))) for topic, value in connector.elsewhere.items()}
    return {**offset_evidence(case), **evidence(case, OFFSETS, {**keys, **topics})}


def snapshot_interrupted(case: AnyCase) -> Evidence | None:
    """The connector stopped during its own snapshot, as its offset or its trace shows."""
    if case.connector is None or case.streams:
        return None
    inside = case.offset is not None and case.offset.inside is Inside.SNAPSHOT
    in_trace = any(failure.code == "SNAPSHOT_INTERRUPTED" for failure in case.failures)
    ended = case.connector.state in STILL or bool(case.failures)
    return {**offset_evidence(case), **failure_evidence(case)} if ended and (inside or in_trace) else None


def heals_itself(case: AnyCase) -> Evidence | None:
    """Settings with which the connector silently skips a gap instead of failing (INV 5)."""
    if case.connector is None:
        return None
    remakes = remakes_publication(case.connector.config)
    healing = (
        *healing_settings(case.connector.config),
        *([remakes] if remakes and not _published(case, case.connector.config) else []),
    )
    shown = {f"setting {n}": setting for n, setting in enumerate(healing, 1)}
    return evidence(case, "connector config", shown) if healing else None


def publication_remark(case: AnyCase) -> Iterator[str]:
    """What a default that nearly everyone leaves as it is would do, where nothing is wrong yet."""
    config = case.connector.config if case.connector else {}
    if (remakes := remakes_publication(config)) and _published(case, config):
        yield (
            f"{remakes}: publication {publication_of(config)} exists and covers the tables. If it is lost, the connector"
            " makes it again without an error, and the rows between never come; with `disabled` it would fail instead."
        )


def _published(case: AnyCase, config: Mapping[str, str]) -> bool:
    """Whether the connector's own publication is known to exist and to cover the pipeline's tables."""
    source = case.source
    if not isinstance(source, PgFacts) or source.publication is None or source.unpublished():
        return False
    return source.publication_name == publication_of(config)


# ---- the schema history ------------------------------------------------------------------------


def schema_history_missing(case: AnyCase) -> Evidence | None:
    """The connector has an offset, but some or all of the definitions that it decodes with are gone."""
    history = _history(case)
    begun = case.offset is not None or case.connector is None or bool(case.connector.offset_unseen)
    if history is None or not begun:
        return None
    where = f"topic {history.topic}"
    if history.state is None:
        return {**evidence(case, where, {"schema history": "the topic does not exist"}), **state_evidence(case)}
    cut = {number: first for number, (first, _) in history.state.partitions.items() if first > 0}
    if not history.records or cut:
        shown: dict[str, object] = {"records": history.records, "first offsets": cut or "0"}
        return {**evidence(case, where, shown), **state_evidence(case)}
    return None


def ddl_in_gap(case: AnyCase) -> Evidence | None:
    """A definition changed, and the connector has read everything but still decodes with the old one.

    DDL in the log ahead of the connector is not a problem: it will be read in its turn. DDL in a purged gap is reported
    as evidence of the purge.
    """
    differences = changed_definitions(case)
    return {**differences, **offset_evidence(case)} if differences and _has_read_everything(case) else None


def self_healed(case: AnyCase) -> Evidence | None:
    """The connector took its own snapshot after the last recovery: rows deleted in the gap are still in the sink."""
    history, control = _history(case), case.seen.control
    if history is None or not isinstance(control, ControlFacts) or not control.closed_at:
        return None
    if not history.snapshot_at or history.snapshot_at <= control.closed_at:
        return None
    mode = (case.connector or _NOBODY).config.get("snapshot.mode", "initial")
    shown = {"connector's own snapshot at": history.snapshot_at, "snapshot.mode": mode}
    return {
        **evidence(case, f"topic {history.topic}", shown),
        **evidence(case, "control table", {"last recovery closed at": control.closed_at}),
    }


def history_misconfigured(case: AnyCase) -> Evidence | None:
    """A schema history that will lose its beginning, or has no order."""
    wrong = dict(_bad_history(_history(case)))
    return evidence(case, "topic settings", wrong) if wrong else None


def changed_definitions(case: AnyCase) -> Evidence:
    """Tables whose source definition differs from the connector's schema history; also {} where it has none."""
    history = _history(case)
    if history is None:
        return {}
    texts = {
        f"definition of {table}": "; ".join(differences)
        for table, differences in history.differences.items()
        # a table that was never in the history is new to the connector: it is not decoded with an old definition
        if differences != (NOT_IN_HISTORY,)
    }
    return evidence(case, f"source and topic {history.topic}", texts)


def definitions_blocker(case: AnyCase) -> str:
    """Why a connector that continues after a gap would decode events with a wrong definition; "" if it would not."""
    changed = changed_definitions(case)
    return f"definitions changed since the position: {', '.join(sorted(changed))}" if changed else ""


_NOBODY = ConnectorFacts("", (), {}, None, None, 0)


def _history(case: AnyCase) -> HistoryFacts | None:
    return case.seen.schema.history if isinstance(case.seen.schema, SchemaFacts) else None


def _has_read_everything(case: AnyCase) -> bool:
    """Whether the connector had read the whole log when its offset was read, before anything else was read."""
    both = case.both
    if both is None or case.offset is None or case.offset.inside is Inside.SNAPSHOT:
        return False
    source, stored = both
    return bool(source.read_all(stored))


def _bad_history(history: HistoryFacts | None) -> Iterator[tuple[str, str]]:
    if history is None or history.state is None:
        return
    if len(history.state.partitions) > 1:
        yield f"partitions of {history.topic}", f"{len(history.state.partitions)}, must be 1: its order is lost"
    for setting in ("retention.ms", "retention.bytes"):
        value = history.config.get(setting, "-1")
        if "delete" in history.config.get("cleanup.policy", "delete") and not _endless(value):
            yield f"{setting} of {history.topic}", f"{value}, must be -1: the connector needs all of it for ever"


def _endless(value: str) -> bool:
    """Whether retention is unlimited: -1, or a very large number; Debezium itself writes the largest possible."""
    return value == "-1" or (number_in(value) or 0) >= _ENDLESS


PROBLEMS = (
    Problem(
        "DDL_IN_GAP",
        39,
        "A table was changed and the connector did not notice: it decodes rows with an old definition.",
        ddl_in_gap,
        FULL_SNAPSHOT,
    ),
    Problem(
        "OFFSET_AMBIGUOUS",
        41,
        "The connector has more than one stored offset, and they differ.",
        offset_ambiguous,
        on_request=("full_snapshot",),
    ),
    Problem(
        "SNAPSHOT_INTERRUPTED",
        45,
        "The connector ended while it copied its tables.",
        snapshot_interrupted,
        FULL_SNAPSHOT,
    ),
    Problem(
        "SCHEMA_HISTORY_MISSING",
        46,
        "The table definitions that the connector decodes with are gone, all or in part.",
        schema_history_missing,
        FULL_SNAPSHOT,
    ),
    *CONNECTOR_STATES,
    Problem(
        "SELF_HEALED",
        62,
        "The connector copied its tables by itself: rows deleted in the gap are still in the sink.",
        self_healed,
        FULL_SNAPSHOT,
        on_request=("diff_repair",),
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        85,
        "The connector filters, masks or keys rows of a table so that its events cannot be applied.",
        events.tables_refused,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        86,
        "A NULL arrives as its column's default, so the tables are not applied.",
        events.nulls_replaced,
        FULL_SNAPSHOT,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        84,
        "The connector has a setting with which no rows can be taken from its events, so no table is applied.",
        events.rows_refused,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        83,
        "The connector is none of Debezium's for such a source.",
        events.other_connector,
    ),
    Problem(
        "CONNECTOR_MISCONFIGURED",
        91,
        "The connector is set to pass over a gap by itself: what is lost then is never reported.",
        heals_itself,
        WARNING,
    ),
    Problem(
        "DELETES_DROPPED",
        76,
        "No delete reaches the connector's topics: anyone who reads them keeps rows that the source has deleted.",
        events.deletes_dropped,
    ),
    Problem(
        "TRANSPORT_MISCONFIGURED",
        75,
        "The topic of the connector's schema history will lose table definitions, or has no order.",
        history_misconfigured,
        WARNING,
    ),
)

RULES = Rules(
    PROBLEMS,
    beside=(Beside(_GAP_RANKS, changed_definitions),),
    blockers={
        NEXT_FILE: (definitions_blocker, events.events_blocker),
        DIFF_REPAIR: (events.events_blocker,),
        FULL: (events.events_blocker,),
    },
    notes=(events.converter_note,),
    remarks=(events.rows_remark, events.deletes_remark, publication_remark),
    texts=TEXTS,
)
