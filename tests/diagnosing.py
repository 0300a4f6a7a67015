"""Diagnosis and plan of an observation by the rules of its own pipeline, and offsets read as the pipeline's connector does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.core.error_texts import Explanation
from airflow_cdc.core.observation import Observation
from airflow_cdc.core.offset import StoredOffset
from airflow_cdc.core.pipeline import Pipeline, Policy
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.problem import AnyCase
from airflow_cdc.decisions.diagnosis import diagnose as diagnosing
from airflow_cdc.decisions.diagnosis import pasted, strategy
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.pasted import Finding
from airflow_cdc.decisions.diagnosis.strategy import Plan
from airflow_cdc.kinds import all_texts, reads_of, rules_for, voices

SERVER_KEY = {"server": "shop"}


def diagnose(seen: Observation) -> Diagnosis:
    """By the rows of all kinds that the observation's pipeline is made of."""
    return diagnosing.diagnose(seen, rules_for(seen.pipeline))


def make_plan(diagnosis: Diagnosis, policy: Policy, seen: Observation, **more: Any) -> Plan:
    """The plan, by the same kinds."""
    return strategy.make_plan(diagnosis, policy, seen, rules_for(seen.pipeline), **more)


def case_of(seen: Observation) -> AnyCase:
    """What a row is given."""
    return rules_for(seen.pipeline).case(seen)


def seems_stuck(seen: Observation) -> bool:
    """Whether its connector should have moved."""
    return diagnosing.seems_stuck(seen, rules_for(seen.pipeline))


def explain(text: str) -> Explanation:
    """The failure that leads, by the texts of every system."""
    return finding(text).leads


def finding(text: str) -> Finding:
    """All that a pasted text says, by the texts of every system."""
    return pasted.explain(all_texts(), voices(), text)


def stored(value: Mapping[str, Any] | None, pipeline: Pipeline) -> StoredOffset | None:
    """The offset as the pipeline's connector reads it."""
    reads = reads_of(pipeline)
    assert reads.codec is not None
    offset: StoredOffset | None = reads.codec.load()().read(value, SERVER_KEY) if value else None
    return offset


def offset_for(watermark: Watermark, ts_sec: int) -> dict[str, Any]:
    """The value with which Debezium's MySQL connector starts at W, as a recovery writes it."""
    return MySqlCodec().at(watermark.position, ts_sec)


def offset_in(value: Mapping[str, Any]) -> StoredOffset:
    """A stored value as Debezium's MySQL connector means it."""
    return MySqlCodec().read(value, SERVER_KEY)
