"""NULL that arrives as a column's default: found from settings and definitions, said before a recovery begins."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from airflow_cdc.connectors.debezium.null_defaults import null_fault, nulls_at_risk, replaces_nulls
from airflow_cdc.core.observation import (
    Observation,
    SchemaFacts,
)
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.table import Table
from tests.diagnosing import diagnose, make_plan
from tests.unit.builders import CONNECTOR, HEALTHY, PIPELINE, connector_with, seen
from tests.unit.tables import col

JSON = "org.apache.kafka.connect.json.JsonConverter"
TABLE = Table(
    "shop",
    "orders",
    (
        col("id", 1, "bigint", "bigint", nullable=False),
        col("status", 2, "varchar", "varchar(9)", nullable=True),
        col("at", 3, "datetime", "datetime", nullable=True),
        col("must", 4, "int", "int", nullable=False),
        col("plain", 5, "int", "int", nullable=True),
    ),
    ("id",),
)
# a default may be the text NULL; that of the current time arrives as 1970-01-01
DEFAULTS = {"id": None, "status": "NULL", "at": "CURRENT_TIMESTAMP", "must": "7", "plain": None}
OWN = {"value.converter": JSON}


def with_nulls(config: dict[str, str], *, set_converter: bool = True) -> Observation:
    definitions = {"shop.orders": TABLE}
    schema = SchemaFacts(definitions, None, {"shop.orders": DEFAULTS})
    pipeline = replace(PIPELINE, policy=Policy(set_converter=set_converter))
    facts = connector_with(CONNECTOR, config={**CONNECTOR.config, **config})
    return replace(seen(connector=facts, schema=schema), pipeline=pipeline)


def test_nullable_columns_with_any_default_are_at_risk() -> None:
    assert nulls_at_risk(TABLE, DEFAULTS) == ("status", "at")


def test_the_columns_and_the_lines_to_add_are_named() -> None:
    fault = null_fault({**OWN, "key.converter": JSON}, {"shop.orders": TABLE}, {"shop.orders": DEFAULTS})
    assert fault is not None
    assert fault.columns == ("shop.orders.status", "shop.orders.at")
    assert dict(fault.settings) == {
        "key.converter.replace.null.with.default": "false",
        "value.converter.replace.null.with.default": "false",
    }
    assert "value.converter.replace.null.with.default=false" in fault.todo


def test_with_the_setting_nothing_is_at_fault() -> None:
    right = {**OWN, "value.converter.replace.null.with.default": "false"}
    assert null_fault(right, {"shop.orders": TABLE}, {"shop.orders": DEFAULTS}) is None
    assert diagnose(with_nulls(right)).code == "HEALTHY"


def test_a_healthy_pipeline_is_told_and_its_recovery_sets_the_converter() -> None:
    obs = with_nulls(OWN)
    diagnosis = diagnose(obs)
    plan = make_plan(diagnosis, obs.pipeline.policy, obs)
    assert diagnosis.code == "CONNECTOR_MISCONFIGURED"
    assert any("shop.orders.status" in value for value in diagnosis.evidence.values())
    assert (plan.strategy, plan.refused) == ("full_snapshot", False)
    assert "It sets value.converter.replace.null.with.default=false on the connector, for good" in plan.reason


@pytest.mark.parametrize(
    ("config", "allowed", "line"),
    [
        (OWN, False, "Set value.converter.replace.null.with.default=false"),
        # what the worker's converter was told beside it is not known, so it cannot be set
        ({"value.converter.replace.null.with.default": "false"}, True, f"Set value.converter={JSON}"),
    ],
)
def test_what_no_recovery_may_set_refuses_it_before_it_begins(config: dict[str, str], allowed: bool, line: str) -> None:
    lost = replace(with_nulls(config, set_converter=allowed), sink=HEALTHY.sink)
    plan = make_plan(replace(diagnose(lost), strategies=("full_snapshot",)), lost.pipeline.policy, lost)
    assert plan.refused
    assert line in plan.reason


def test_tables_beside_one_that_loses_nulls_are_left_to_be_looked_at_when_they_are_asked_for() -> None:
    """Seen with Avro: the way on for the other tables, which the refusal named, was refused for the same table."""
    lost = replace(with_nulls(OWN, set_converter=False), sink=HEALTHY.sink)
    assert isinstance(lost.schema, SchemaFacts)
    both = {**lost.schema.definitions, "shop.sound": replace(TABLE, name="sound", columns=TABLE.columns[:1])}
    lost = replace(lost, schema=replace(lost.schema, definitions=both))
    plan = make_plan(replace(diagnose(lost), strategies=("full_snapshot",)), lost.pipeline.policy, lost)
    assert not plan.refused


def test_another_writers_sink_is_its_own_matter() -> None:
    obs = with_nulls(OWN)
    theirs = replace(obs.pipeline, sink=replace(obs.pipeline.sink, writer="connect_sink"))
    assert diagnose(replace(obs, pipeline=theirs)).code == "HEALTHY"


def test_a_converter_setting_that_nobody_can_see_may_be_any() -> None:
    json = "org.apache.kafka.connect.json.JsonConverter"
    named = {"value.converter": json, "value.converter.replace.null.with.default": "${env:REPLACE}"}
    assert replaces_nulls(named)
    assert not replaces_nulls({**named, "value.converter.replace.null.with.default": "false"})
    assert replaces_nulls({"value.converter": "${env:CONVERTER}", "value.converter.replace.null.with.default": "false"})


FLATTENED = {
    "transforms": "t",
    "transforms.t.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.t.delete.tombstone.handling.mode": "rewrite",
}


@pytest.mark.parametrize(
    "config",
    [
        OWN,
        {**OWN, "key.converter": JSON},
        {},
        {"value.converter": "io.confluent.connect.avro.AvroConverter"},
        {"value.converter": "io.apicurio.registry.utils.converter.AvroConverter"},
        {**OWN, "value.converter.replace.null.with.default": "false", **FLATTENED},
        {**OWN, **FLATTENED},
    ],
    ids=["JSON", "JSON, keys too", "the worker's", "Avro", "Avro of Apicurio", "flattened", "flattened as JSON"],
)
def test_inv_43_a_null_stays_null_once_the_advice_is_followed(config: dict[str, str]) -> None:
    """Whether it names settings to set, or says that this converter has none and JSON has."""
    fault = null_fault(config, {"shop.orders": TABLE}, {"shop.orders": DEFAULTS})
    assert fault is not None
    lines = dict(re.findall(r"([\w.]*converter[\w.]*|transforms[\w.]*)=([\w.]+?)(?=[, ]|\.? on |$)", fault.todo))
    assert lines or "Let the connector write JSON" in fault.todo
    after = {**config, **lines} if lines else {**config, "value.converter": JSON}
    again = null_fault(after, {"shop.orders": TABLE}, {"shop.orders": DEFAULTS})
    after |= dict(again.settings) if again and not lines else {}  # JSON has a setting for it, which is said in its turn
    assert null_fault(after, {"shop.orders": TABLE}, {"shop.orders": DEFAULTS}) is None


def test_a_transform_of_1_9_replaces_nulls_whatever_it_is_told() -> None:
    """debezium-core 1.9.7 does not know the setting of later releases, and ignores it."""
    config = {
        **{name: value for name, value in OWN.items() if name != "topic.prefix"},
        "database.server.name": "shop",
        "value.converter": JSON,
        "value.converter.replace.null.with.default": "false",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.unwrap.delete.handling.mode": "rewrite",
        "transforms.unwrap.replace.null.with.default": "false",
    }
    fault = null_fault(config, {"shop.orders": TABLE}, {"shop.orders": DEFAULTS})
    assert fault is not None
    assert (fault.settings, fault.transform) == ({}, "unwrap")
    assert "Debezium 1.x has no setting" in fault.todo
