"""Each row of the connectors' problems: what it is called, how much is lost while nobody acts, and what may be done about it.

Its tables: airflow_cdc.connectors.canal.problems, airflow_cdc.connectors.flink.problems, airflow_cdc.connectors.debezium.problems.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_cdc.connectors.canal import problems as canal
from airflow_cdc.connectors.debezium import problems as debezium
from airflow_cdc.connectors.flink import problems as flink
from airflow_cdc.core.problem import WARNING, Danger, Problem, Rules
from airflow_cdc.decisions.diagnosis.connector_rows import CONNECTOR_STATES
from airflow_cdc.decisions.diagnosis.strategy import DETOUR, DIFF_REPAIR, FULL, NEXT_FILE, TRANSLATE
from airflow_cdc.kinds import CONNECTORS, SOURCES
from tests.unit.builders import ALL_CODES

# code, what it costs while nobody acts, what may be done (none of it by itself: a person looks first)
Row = tuple[str, Danger, tuple[str, ...]]

# in the order in which they lead. A setting refuses rows (84, 85) before one that would lose something one day (88 on)
CANAL: Mapping[str, Row] = {
    # it is dropped without an error, and the cursor moves on: nothing else says so
    "unroutable": ("CONNECTOR_MISCONFIGURED", Danger.LOSS, ()),
    "second_client": ("OFFSET_AMBIGUOUS", Danger.LOSS, ()),
    "taken_elsewhere": ("SOURCE_CHANGED", Danger.LOSS, ()),
    "setting_refused": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "tables_not_followed": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "resets_itself": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "would_jump": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, WARNING),
    "cannot_begin": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, WARNING),
}
FLINK: Mapping[str, Row] = {
    # after a failure it begins again from nothing
    "stores_nothing": ("CONNECTOR_MISCONFIGURED", Danger.LOSS, ()),
    # with the set made right it skips nothing; a copy needs none of it
    "gtids_ahead": ("GTID_AHEAD", Danger.LOSS, (TRANSLATE, FULL)),
    "several_jobs": ("OFFSET_AMBIGUOUS", Danger.LOSS, ()),
    "went_on_elsewhere": ("SOURCE_FAILED_OVER", Danger.LOSS, (TRANSLATE, FULL)),
    "setting_refused": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "tables_not_read": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "skips_itself": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, WARNING),
    "state_not_kept": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, WARNING),
}
DEBEZIUM: Mapping[str, Row] = {
    "ddl_in_gap": ("DDL_IN_GAP", Danger.LOSS, (FULL,)),
    "offset_ambiguous": ("OFFSET_AMBIGUOUS", Danger.LOSS, ()),
    "snapshot_interrupted": ("SNAPSHOT_INTERRUPTED", Danger.LOSS, (FULL,)),
    "schema_history_missing": ("SCHEMA_HISTORY_MISSING", Danger.LOSS, (FULL,)),
    "self_healed": ("SELF_HEALED", Danger.LOSS, (FULL,)),
    # the history's topic may lose its beginning at any time
    "history_misconfigured": ("TRANSPORT_MISCONFIGURED", Danger.THREAT, WARNING),
    "deletes_dropped": ("DELETES_DROPPED", Danger.THREAT, ()),
    "other_connector": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "rows_refused": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "tables_refused": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, ()),
    "nulls_replaced": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, (FULL,)),
    "heals_itself": ("CONNECTOR_MISCONFIGURED", Danger.SETTING, WARNING),
}
ALL = (("canal", canal.RULES, CANAL), ("flink", flink.RULES, FLINK), ("debezium", debezium.RULES, DEBEZIUM))


def _own(rules: Rules) -> list[Problem]:
    """The rows that are of this connector alone, in the order in which they lead."""
    return sorted((row for row in rules.problems if row not in CONNECTOR_STATES), key=lambda row: row.rank)


def _name(row: Problem) -> str:
    return str(getattr(row.holds, "__name__", row.holds))


@pytest.mark.parametrize(("kind", "rules", "rows"), ALL, ids=[one[0] for one in ALL])
def test_each_row_has_its_name_its_danger_and_its_way_out(kind: str, rules: Rules, rows: Mapping[str, Row]) -> None:
    told = {_name(row): (row.code, row.danger, row.strategies) for row in _own(rules)}
    assert list(told.items()) == list(rows.items()), kind
    assert {row.code for row in rules.problems} <= ALL_CODES


@pytest.mark.parametrize(("kind", "rules"), [one[:2] for one in ALL], ids=[one[0] for one in ALL])
def test_each_state_of_a_connector_is_a_row_of_every_connector(kind: str, rules: Rules) -> None:
    assert [row for row in CONNECTOR_STATES if row not in rules.problems] == [], kind


@pytest.mark.parametrize(("kind", "rules"), [one[:2] for one in ALL], ids=[one[0] for one in ALL])
def test_no_two_rows_that_may_hold_at_once_have_one_rank(kind: str, rules: Rules) -> None:
    for source in (SOURCES[name] for name in CONNECTORS[kind].reads):
        assert source.rules is not None
        ranks = [row.rank for row in (*rules.problems, *source.rules.load().problems)]
        assert len(set(ranks)) == len(ranks), f"{kind} reads {source.name}"


def test_only_a_set_that_is_ahead_says_that_flinks_position_is_wrong() -> None:
    """The others say something of the job, or of a server at which the position may be in order."""
    assert [_name(row) for row in _own(flink.RULES) if row.about_position] == ["gtids_ahead"]
    assert [row for one in (canal, debezium) for row in _own(one.RULES) if row.about_position] == []


def test_a_failover_is_worth_a_word_while_the_position_is_in_order() -> None:
    assert [_name(row) for row in _own(flink.RULES) if row.in_order] == ["went_on_elsewhere"]


def test_what_may_be_asked_for_where_no_plan_would_choose_it() -> None:
    asked = {
        _name(row): row.on_request for one in (canal, flink, debezium) for row in _own(one.RULES) if row.on_request
    }
    # of two offsets a copy needs none; rows of a gap can be compared after the connector has healed itself
    assert asked == {"offset_ambiguous": (FULL,), "self_healed": (DIFF_REPAIR,)}


def test_what_flink_cannot_do_is_refused_for_every_strategy_that_there_is() -> None:
    """The job writes the sink itself: of all strategies those that put rows right are never possible."""
    assert set(flink.RULES.blockers) == {FULL, DIFF_REPAIR, NEXT_FILE, DETOUR, TRANSLATE}
    for strategy in (DIFF_REPAIR, NEXT_FILE, DETOUR):
        (blocker,) = flink.RULES.blockers[strategy]
        assert blocker(None).startswith("the job writes its tables itself: ")  # type: ignore[arg-type]
