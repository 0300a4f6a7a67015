"""What a person is offered for a problem, when replicas are asked, and when waiting events are worth a word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.observation import ControlFacts, Observation, SinkFacts, SinkTableFacts, TransportFacts, Unknown
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicState
from airflow_cdc.decisions.diagnosis.diagnose import lost_where
from airflow_cdc.decisions.diagnosis.lag import events_waiting, sink_behind
from airflow_cdc.decisions.diagnosis.strategy import (
    DETOUR,
    DIFF_REPAIR,
    FULL,
    NEXT_FILE,
    STRATEGIES,
    TRANSLATE,
    choices,
    make_plan,
    open_strategy,
)
from airflow_cdc.kinds import rules_for
from tests.diagnosing import case_of, diagnose
from tests.unit.builders import FAILED, HEALTHY, PIPELINE, seen, with_connector, with_source
from tests.unit.faults import KNOWN, NO_SINK, PURGED, RECOVERY, TOPIC, applied, by_file, stamped, waits

RULES = rules_for(PIPELINE)


def offered(scene: Observation) -> dict[str, str]:
    return choices(diagnose(scene), scene, RULES)


def test_what_nobody_can_carry_out_and_doing_nothing_are_not_offered() -> None:
    purged = offered(seen(source=PURGED))
    assert set(purged) == {DETOUR, FULL, DIFF_REPAIR}
    assert "skip" in RULES.on_request("GTID_PURGED"), "a person may ask for it by name, and is told how to do it"
    assert offered(with_connector(config={**_config(), "errors.tolerance": "all"})) == {}  # a warning: nothing to do


def _config() -> dict[str, Any]:
    facts: Any = HEALTHY.connector
    return dict(facts.config)


def test_a_strategy_that_is_blocked_is_offered_with_the_reason() -> None:
    purged = offered(seen(source=PURGED))
    assert purged[DETOUR] != ""
    assert (purged[FULL], purged[DIFF_REPAIR]) == ("", "")


def test_what_the_diagnosis_would_choose_is_offered_first() -> None:
    past_the_end = offered(by_file("mysql-bin.000009", 1001))
    assert list(past_the_end) == [NEXT_FILE, DIFF_REPAIR, FULL]


@pytest.mark.parametrize(
    ("scene", "strategy", "lost"),
    [
        (seen(source=PURGED), DETOUR, True),
        (seen(source=PURGED), NEXT_FILE, False),
        (HEALTHY, DETOUR, False),
        # the new server has all of it: nothing is lost, though the row offers this strategy
        (replace(with_connector(**FAILED), sink=stamped(KNOWN)), TRANSLATE, False),
        (by_file("mysql-bin.000009", 1001), NEXT_FILE, True),
    ],
    ids=["purged", "purged, another way", "healthy", "failed over", "past the end"],
)
def test_replicas_are_asked_only_where_changes_are_lost_that_they_may_have(
    scene: Observation, strategy: str, lost: bool
) -> None:
    assert lost_where(scene, RULES, strategy) is lost


@pytest.mark.parametrize("strategy", [FULL, DIFF_REPAIR, NEXT_FILE, TRANSLATE, DETOUR])
def test_no_rows_are_read_from_a_source_that_does_not_log_them_whole(strategy: str) -> None:
    """Whatever is written while they are read, and after, would arrive in part."""
    scene = replace(with_source(row_image="MINIMAL", gtid_purged=PURGED.gtid_purged))
    plan = make_plan(diagnose(scene), Policy(), scene, RULES, asked=strategy)
    assert plan.refused
    assert strategy not in offered(scene) or "MINIMAL" in offered(scene)[strategy]


@pytest.mark.parametrize("strategy", [name for name, one in STRATEGIES.items() if not one.sinkless])
def test_a_pipeline_without_a_sink_is_offered_nothing_that_needs_one(strategy: str) -> None:
    scene = replace(seen(source=PURGED), pipeline=replace(PIPELINE, sink=NO_SINK))
    blocked = choices(diagnose(scene), scene, rules_for(scene.pipeline))
    assert strategy not in blocked or blocked[strategy] == "it needs a sink, and this pipeline has none"


def test_the_strategy_of_an_open_recovery_that_says_none_is_unknown_and_no_recovery_is_none() -> None:
    assert open_strategy(seen(control=ControlFacts(4, RECOVERY))) == RECOVERY.strategy
    assert open_strategy(seen(control=ControlFacts(4, replace(RECOVERY, strategy="")))) == "unknown"
    assert (open_strategy(HEALTHY), open_strategy(seen(control=Unknown("locked")))) == ("", "")


# --- how far the sink is behind ----------------------------------------------------------------------------------------------

FAILING = ControlFacts(3, apply_error="column a was dropped")
ALL_APPLIED = replace(waits(), sink=applied("id1", 10))
LATE = replace(waits(), sink=replace(applied("id1", 4), late={"shop.orders": 5}))


@pytest.mark.parametrize(
    ("scene", "behind"),
    [
        (waits(), False),
        (LATE, True),
        (replace(waits(), control=FAILING), True),
        (replace(ALL_APPLIED, control=FAILING), False),
        (replace(LATE, control=Unknown("locked")), True),
        (replace(LATE, sink=Unknown("down")), False),
        (replace(LATE, transport=Unknown("down")), False),
        (replace(LATE, pipeline=replace(PIPELINE, sink=replace(PIPELINE.sink, writer="connector"))), False),
    ],
    ids=[
        "events wait, not for long",
        "events wait for too long",
        "events wait, and the newest apply failed",
        "the newest apply failed, and nothing waits",
        "the control table can't be read",
        "the sink can't be read",
        "the topics can't be read",
        "the connector writes the tables",
    ],
)
def test_inv_35_main_is_behind_where_events_wait_for_too_long_or_for_an_apply_that_fails(
    scene: Observation, behind: bool
) -> None:
    assert (sink_behind(case_of(scene)) is not None) is behind


@pytest.mark.parametrize(
    ("scene", "count"),
    [
        (waits(), 6),
        (ALL_APPLIED, 0),
        (replace(waits(), transport=Unknown("down")), None),
        (replace(waits(), sink=Unknown("down")), None),
        (replace(waits(), transport=TransportFacts({}, {})), None),
        (replace(waits(), pipeline=replace(PIPELINE, sink=NO_SINK)), None),
        (replace(waits(), pipeline=replace(PIPELINE, sink=replace(PIPELINE.sink, writer="connector"))), None),
    ],
    ids=["six", "none", "topics unread", "sink unread", "no topic is known", "no sink", "others apply"],
)
def test_inv_36_how_many_events_wait_is_unknown_and_not_nought_where_it_cannot_be_said(
    scene: Observation, count: int | None
) -> None:
    assert events_waiting(scene) == count


def test_a_table_that_was_never_filled_waits_for_no_event() -> None:
    """It is a problem of its own: TABLE_ADDED."""
    bare = SinkFacts({"shop.orders": SinkTableFacts(True, 7, None)})
    state = TopicState(TOPIC.name, "id1", {0: (0, 10)})
    scene = seen(transport=TransportFacts({TOPIC.name: state}, {"shop.orders": TOPIC.name}), sink=bare)
    assert events_waiting(scene) == 0
    stamped_table = replace(scene, sink=SinkFacts({"shop.orders": SinkTableFacts(True, 7, Stamp(3))}))
    assert events_waiting(stamped_table) == 10
