"""The settings of Iceberg's sink connector: where a table's log is, how changes stand in it, what can't be put right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_cdc.core.table import Column, NativeColumn, Table
from airflow_cdc.core.types import Integer
from airflow_cdc.sinks.iceberg_changelog.config import ChangelogConfig, Form

TOPIC = "a.shop.Orders"
FLAT = {"transforms": "f", "transforms.f.type": "org.apache.iceberg.connect.transforms.DebeziumTransform"}
PLACED = {
    "transforms": "p",
    "transforms.p.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.p.offset.field": "at!",
    "transforms.p.partition.field": "part?",
}
RIGHT = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "topics": TOPIC,
    "iceberg.tables": "raw.orders",
    "iceberg.tables.evolve-schema-enabled": "true",
    **FLAT,
}
DYNAMIC = {"topics": "", "topics.regex": r"a\.shop\..*", "iceberg.tables": "", "iceberg.tables.dynamic-enabled": "true"}
STATIC = {
    "topics": f"{TOPIC},a.shop.words",
    "iceberg.tables": "raw.words,raw.o",
    "iceberg.table.raw.o.route-regex": ".*Orders",
}
ORDERS = Table("shop", "Orders", (Column("id", 1, Integer(), NativeColumn("mysql", "int"), nullable=False),), ("id",))


def config(settings: dict[str, str]) -> ChangelogConfig:
    return ChangelogConfig({**RIGHT, **settings}, "log")


def routed(by: str, **settings: str) -> dict[str, str]:
    named = {f"transforms.f.{name.replace('_', '.')}": value for name, value in settings.items()}
    return {"iceberg.tables.route-field": by, **named}


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({}, "raw.orders"),
        ({"iceberg.tables": "a.b.orders, raw.second"}, "a.b.orders"),
        ({**DYNAMIC, **routed("_cdc.target")}, "shop.orders"),
        ({**DYNAMIC, **routed("_cdc.target", cdc_target_pattern="Raw.{db}_{table}")}, "raw.shop_orders"),
        ({**DYNAMIC, **routed("_cdc.source", cdc_target_pattern="Raw.{db}_{table}")}, "shop.orders"),
        ({**STATIC, **routed("_cdc.source")}, "raw.o"),
        ({**STATIC, **PLACED, **routed("source.table")}, "raw.o"),
        # of several topics all records go to all tables
        ({"topics": f"{TOPIC},a.shop.words"}, None),
        ({"topics": "", "topics.regex": TOPIC}, None),
        ({**DYNAMIC, **routed("region")}, None),
        ({**DYNAMIC, **PLACED, **routed("_cdc.target")}, None),
        ({**STATIC, **routed("_cdc.source"), "iceberg.table.raw.o.route-regex": "other"}, None),
        ({"iceberg.tables": ""}, None),
    ],
)
def test_a_log_is_where_the_settings_lead_its_table(settings: dict[str, str], place: str | None) -> None:
    found = config(settings).place("shop.Orders", TOPIC)
    assert (found and found.full_name) == place


@pytest.mark.parametrize(
    ("transforms", "form"),
    [
        ({"transforms": ""}, Form(flat=False)),
        (FLAT, Form(flat=True)),
        ({**FLAT, "transforms.f.type": "DebeziumTransform"}, Form(flat=True)),
        (PLACED, Form(flat=False, offset="at", partition="part")),
        ({**FLAT, **PLACED, "transforms": "f,p"}, Form(flat=True, offset="at", partition="part")),
        # what is added before it is not there behind it
        ({**FLAT, **PLACED, "transforms": "p,f"}, Form(flat=True)),
    ],
)
def test_the_transforms_say_how_a_change_stands(transforms: dict[str, str], form: Form) -> None:
    assert config(transforms).form == form


def test_its_groups_and_topics_have_icebergs_own_defaults() -> None:
    assert config({}).committed == "kafka.connect.offsets.control-iceberg.connect-log"
    assert config({"iceberg.control.topic": "c"}).committed == "kafka.connect.offsets.c.connect-log"


@pytest.mark.parametrize("settings", [{}, {**STATIC, **routed("_cdc.source")}, PLACED])
def test_right_settings_have_no_faults(settings: dict[str, str]) -> None:
    made = config(settings)
    assert [*made.faults(), *made.table_faults(ORDERS, TOPIC)] == []


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        # another's settings have other names: nothing else can be said
        ({"transforms": "", "connector.class": "io.tabular.iceberg.connect.IcebergSinkConnector"}, "connector.class"),
        ({"transforms": ""}, "transforms"),
        ({**PLACED, "transforms.p.offset.field": ""}, "transforms"),
        ({"transforms": "f,r", "transforms.r.type": "org.example.Mine"}, "transforms.r.type"),
        ({"transforms.f.predicate": "some"}, "transforms.f.predicate"),
        ({"iceberg.tables.evolve-schema-enabled": ""}, "iceberg.tables.evolve-schema-enabled"),
        ({"iceberg.tables.default-commit-branch": "audit"}, "iceberg.tables.default-commit-branch"),
        ({"iceberg.table.raw.orders.commit-branch": "audit"}, "iceberg.table.raw.orders.commit-branch"),
        ({"consumer.override.group.id": "g"}, "consumer.override.group.id"),
        ({"iceberg.connect.group-id": "g"}, "iceberg.connect.group-id"),
        ({"errors.tolerance": "all"}, "errors.tolerance"),
    ],
)
def test_what_cannot_be_put_right_is_named(changed: dict[str, str], named: str) -> None:
    assert [name for name, _ in config(changed).faults()] == [named]


def test_a_table_without_a_topic_a_key_or_a_log_is_named() -> None:
    keyless = replace(ORDERS, key=())
    assert [name for name, _ in config({}).table_faults(ORDERS, "b")] == ["topics", "iceberg.tables.route-field"]
    assert [name for name, _ in config({}).table_faults(keyless, TOPIC)] == ["topics"]
    assert [name for name, _ in config(STATIC).table_faults(ORDERS, TOPIC)] == ["iceberg.tables.route-field"]
