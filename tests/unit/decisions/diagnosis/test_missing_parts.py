"""What could not be read, or is not there, is no evidence: no row takes it for a fact, and none breaks on it (INV 1, 40)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.canal.kind import CanalSettings
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.observation import Observation, Unknown
from airflow_cdc.core.pipeline import Pipeline
from tests.diagnosing import diagnose
from tests.unit.builders import PIPELINE, seen
from tests.unit.connectors.canal import test_problems as canal
from tests.unit.decisions.diagnosis.test_position_faults import SCENES
from tests.unit.sources.postgres.pg_scene import PG_PIPELINE

CANAL = replace(PIPELINE, connector=CanalSettings("canal", "shop", "shop", "/canal", "start", "stop", "status"))
DECIDING = ("source", "connector", "control")
OTHERS = ("transport", "sink", "schema")
ALL = [*SCENES, (CANAL, "", seen(connector=canal.facts()))]
IDS = [f"{pipeline.source.kind}-{pipeline.connector.kind}-{code}" for pipeline, code, _ in ALL]


def scene_of(pipeline: Pipeline, scene: Observation, **changes: Any) -> Observation:
    return replace(scene, pipeline=pipeline, **changes)


def connector(scene: Observation, **changes: Any) -> Any:
    facts: Any = scene.connector
    return replace(facts, **changes)


@pytest.mark.parametrize("part", DECIDING)
@pytest.mark.parametrize(("pipeline", "code", "scene"), ALL, ids=IDS)
def test_without_a_part_that_decides_nothing_is_known(
    pipeline: Pipeline, code: str, scene: Observation, part: str
) -> None:
    diagnosis = diagnose(scene_of(pipeline, scene, **{part: Unknown("no answer")}))
    assert diagnosis.code == "UNKNOWN"
    assert "no answer" in str(diagnosis.evidence)


@pytest.mark.parametrize("part", OTHERS)
@pytest.mark.parametrize(("pipeline", "code", "scene"), ALL, ids=IDS)
def test_what_the_server_proves_of_the_position_is_said_whatever_else_could_not_be_read(
    pipeline: Pipeline, code: str, scene: Observation, part: str
) -> None:
    before, after = (diagnose(scene_of(pipeline, scene, **one)).code for one in ({}, {part: Unknown("no answer")}))
    # which server and timeline rows came from stands in the sink alone
    if (part, code) not in {("sink", "OTHER_SYSTEM"), ("sink", "OTHER_TIMELINE")}:
        assert after == before


@pytest.mark.parametrize(("pipeline", "code", "scene"), ALL, ids=IDS)
def test_where_no_offset_is_stored_no_place_is_judged(pipeline: Pipeline, code: str, scene: Observation) -> None:
    """A slot is the server's own mark, and is judged without one."""
    gone = connector(scene, offset=None, key=None, offsets_count=0, elsewhere={}, other_keys=())
    diagnosis = diagnose(scene_of(pipeline, scene, connector=gone))
    found = {diagnosis.code, *(one.code for one in diagnosis.others)}
    assert diagnosis.code != "HEALTHY"
    assert code not in found or pipeline == PG_PIPELINE


@pytest.mark.parametrize(("pipeline", "code", "scene"), ALL, ids=IDS)
def test_an_offset_that_cannot_be_read_is_not_judged_but_named(
    pipeline: Pipeline, code: str, scene: Observation
) -> None:
    facts: Any = scene.connector
    torn = replace(facts.offset, position=None, fault="it is torn")
    diagnosis = diagnose(scene_of(pipeline, scene, connector=connector(scene, offset=torn)))
    assert diagnosis.code == "UNKNOWN" or pipeline == PG_PIPELINE
    assert "it is torn" in str((diagnosis.evidence, [one.evidence for one in diagnosis.others]))


def test_settings_that_cannot_be_understood_are_named_beside_what_the_server_proves() -> None:
    fault = ConfigError("its settings make no sense")
    scene = scene_of(CANAL, seen(connector=canal.facts(capture=None, capture_fault=fault)))
    diagnosis = diagnose(scene)
    assert "its settings make no sense" in str((diagnosis.evidence, [one.evidence for one in diagnosis.others]))
