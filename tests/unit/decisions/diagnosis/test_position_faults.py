"""What `airflow cdc offset set` and a recovery of single tables refuse: a position that the server's facts prove wrong.

Both ask `position_fault`. The list of what they refuse is written down here apart from the rows' flags: a connector that
continued from such a place would fail there, or silently leave out or repeat changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.flink.kind import FlinkSettings
from airflow_cdc.core.observation import Observation, Unknown
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.core.problem import Rules
from airflow_cdc.decisions.diagnosis.diagnose import position_fault
from airflow_cdc.kinds import rules_for
from airflow_cdc.sources.mysql.facts import EventAtPosition, EventBoundary
from tests.unit.builders import (
    FAILED,
    GTID_OFFSET,
    HEALTHY,
    PIPELINE,
    SOURCE,
    UUID,
    file_offset,
    seen,
    with_connector,
    with_source,
)
from tests.unit.connectors.flink import test_problems as flink
from tests.unit.faults import AHEAD, PURGED, by_file, half_sent
from tests.unit.sources.mariadb import test_problems as mariadb
from tests.unit.sources.postgres import test_problems as postgres
from tests.unit.sources.postgres.pg_scene import PG_PIPELINE, observed

FLINK = replace(
    PIPELINE,
    connector=FlinkSettings("flink", "shop_flink", "shop"),
    transport=replace(PIPELINE.transport, kind="direct"),
)
MARIADB = mariadb.MARIADB_PIPELINE
INSIDE = EventAtPosition(EventBoundary.INSIDE, (), "wrong offset")
HEARTBEATS = EventAtPosition(EventBoundary.BOUNDARY, ("Gtid", "Query", "Gtid"))
PLAIN = {key: value for key, value in mariadb.OFFSET.items() if key != "gtids"}
AT_REST = {"state": "STOPPED", "tasks": ()}


def of_mysql(offset: dict[str, Any]) -> Observation:
    return with_connector(offset=offset, **AT_REST)


def of_mariadb(source: Any = mariadb.MARIADB, **changes: Any) -> Observation:
    return mariadb.observed({**mariadb.OFFSET, **changes}, source)


def of_postgres(name: str) -> Observation:
    _, _, source, mirror, read_from = next(row for row in postgres.ROWS if row[0] == name)
    return observed(source, mirror, read_from=read_from)


MYSQL_SCENES = {
    "GTID_PURGED": seen(source=PURGED),
    "POSITION_AHEAD": by_file("mysql-bin.000998"),
    "SOURCE_CHANGED": by_file("binlog.000009"),
    "BINLOG_PURGED": by_file("mysql-bin.000007"),
    "POSITION_PAST_END": by_file("mysql-bin.000009", 1001),
    "POSITION_MID_EVENT": by_file("mysql-bin.000009", at_offset=INSIDE),
    "GTID_MODE_MISMATCH": with_source(gtid_mode="ON_PERMISSIVE"),
    "GTID_NOT_CONTAINED": with_connector(offset=AHEAD, **FAILED),
    "TRANSACTION_HALF_SENT": half_sent(f"{UUID}:80"),
    "GTID_MISSING_IN_OFFSET": of_mysql(file_offset("mysql-bin.000009")),
}
MARIADB_SCENES = {
    "GTID_PURGED": of_mariadb(gtids="0-1-49,3-1-5"),
    "POSITION_AHEAD": of_mariadb(file="mysql-bin.000998", gtids="0-1-101,3-1-7"),
    "SOURCE_CHANGED": mariadb.observed({**PLAIN, "file": "other.000009"}),
    "BINLOG_PURGED": mariadb.observed({**PLAIN, "file": "mysql-bin.000001"}),
    "POSITION_PAST_END": of_mariadb(pos=1001),
    "POSITION_MID_EVENT": of_mariadb(replace(mariadb.MARIADB, at_offset=INSIDE)),
    "GTID_MODE_MISMATCH": of_mariadb(gtids=f"{UUID}:1-5"),
    "GTID_NOT_CONTAINED": of_mariadb(gtids="0-1-101,3-1-7"),
    "TRANSACTION_HALF_SENT": of_mariadb(replace(mariadb.MARIADB, at_offset=HEARTBEATS), event=26),
    "GTID_MISSING_IN_OFFSET": mariadb.observed(PLAIN),
}
POSTGRES_SCENES = {
    "SLOT_MISSING": of_postgres("dropped"),
    "SLOT_INVALIDATED": of_postgres("lost"),
    "OTHER_SYSTEM": of_postgres("another cluster"),
    "OTHER_TIMELINE": of_postgres("promoted"),
    "LSN_AHEAD": of_postgres("restored"),
    "LSN_BEHIND_RESTART": of_postgres("removed"),
    "LSN_BEFORE_SLOT": of_postgres("advanced"),
}
FLINK_SCENES = {
    "GTID_AHEAD": replace(
        seen(pipeline=FLINK, source=replace(SOURCE, address=flink.ADDRESS)),
        connector=flink.facts(offset=flink.offset(f"{UUID}:1-103")),
    )
}
SCENES = [
    (pipeline, code, scene)
    for pipeline, scenes in (
        (PIPELINE, MYSQL_SCENES),
        (MARIADB, MARIADB_SCENES),
        (PG_PIPELINE, POSTGRES_SCENES),
        (FLINK, FLINK_SCENES),
    )
    for code, scene in scenes.items()
]


def without(rules: Rules, code: str) -> Rules:
    return replace(rules, problems=tuple(row for row in rules.problems if row.code != code))


IDS = [f"{pipeline.source.kind}-{pipeline.connector.kind}-{code}" for pipeline, code, _ in SCENES]
# a place that is wrong in one way is wrong in these, too: what they say would be said instead
FOLLOWS = {
    "GTID_AHEAD": {"GTID_NOT_CONTAINED"},
    "GTID_PURGED": {"GTID_NOT_CONTAINED"},
    "POSITION_AHEAD": {"GTID_NOT_CONTAINED", "GTID_MISSING_IN_OFFSET"},
    "LSN_BEHIND_RESTART": {"LSN_BEFORE_SLOT"},
    "SOURCE_CHANGED": {"GTID_MISSING_IN_OFFSET"},
    "BINLOG_PURGED": {"GTID_MISSING_IN_OFFSET"},
}


@pytest.mark.parametrize(("pipeline", "code", "scene"), SCENES, ids=IDS)
def test_no_offset_is_moved_to_a_place_with_such_a_problem(pipeline: Pipeline, code: str, scene: Observation) -> None:
    fault = position_fault(scene, rules_for(pipeline))
    assert fault is not None
    assert (fault.code, bool(fault.evidence)) == (code, True)


@pytest.mark.parametrize(("pipeline", "code", "scene"), SCENES, ids=IDS)
def test_each_such_problem_has_a_scene_that_it_alone_explains(
    pipeline: Pipeline, code: str, scene: Observation
) -> None:
    """Without its row the place would be called sound, or what follows from it would be said in its place."""
    rest = position_fault(scene, without(rules_for(pipeline), code))
    assert rest is None or rest.code in FOLLOWS.get(code, set())


# what is wrong beside the position: the connector's state, the topics, the sink. An offset may be moved in spite of it
BESIDE = {
    "a failed task": with_connector(**FAILED),
    "a connector at rest": of_mysql(GTID_OFFSET),
    "the sink can't be read": seen(sink=Unknown("catalog down")),
    "the definitions can't be read": seen(schema=Unknown("not JSON")),
    "rows are logged in part": with_source(row_image="MINIMAL"),
    "a right is missing": with_source(missing_privileges=("RELOAD on *.*",)),
}


@pytest.mark.parametrize("scene", [HEALTHY, *BESIDE.values()], ids=["healthy", *BESIDE])
def test_an_offset_may_be_moved_while_something_else_is_wrong(scene: Observation) -> None:
    assert position_fault(scene, rules_for(PIPELINE)) is None


@pytest.mark.parametrize("part", ["source", "connector", "transport", "control"])
def test_no_offset_is_moved_while_it_is_unknown_what_is_there(part: str) -> None:
    scene = seen(**{part: Unknown("no answer")})
    fault = position_fault(scene, rules_for(PIPELINE))
    assert fault is not None
    assert fault.code == "UNKNOWN"
    assert "no answer" in str(fault.evidence)
