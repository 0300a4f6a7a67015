"""The sink connector's settings: where a table's copy is, and what can't be put right through the topics."""

from __future__ import annotations

import pytest

from airflow_cdc.core.table import Column, NativeColumn, Table
from airflow_cdc.core.types import Integer
from airflow_cdc.sinks.jdbc.config import SinkConfig

RIGHT = {
    "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
    "insert.mode": "upsert",
    "delete.enabled": "true",
    "primary.key.mode": "record_key",
    "topics": "a.shop.orders",
}
TOPIC = "a.shop.orders"
UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
ORDERS = Table("shop", "orders", (Column("id", 1, Integer(), NativeColumn("mysql", "int"), nullable=False),), ("id",))


def config(database: str = "postgres", namespace: str = "", **settings: str) -> SinkConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return SinkConfig({**RIGHT, **named}, database, namespace)


@pytest.mark.parametrize(
    ("made", "place"),
    [
        (config(), "public.a_shop_orders"),
        (config(namespace="copy"), "copy.a_shop_orders"),
        (config(connection_url="jdbc:postgresql://h:5432/db?ssl=x&currentSchema=copy"), "copy.a_shop_orders"),
        (config("mysql", connection_url="jdbc:mysql://h:3306/copy?sslMode=DISABLED"), "copy.a_shop_orders"),
        (config(collection_name_format="copy.${source.table}"), "copy.orders"),
        (config(collection_name_format="${source.db}.${topic}"), "shop.a_shop_orders"),
        (config(collection_name_format="Copy.${source.table}"), "copy.orders"),
        (config("mysql", collection_name_format="Copy.${source.table}"), "Copy.orders"),
        (config(collection_name_format="Copy.${source.table}", quote_identifiers="true"), "Copy.orders"),
        (config(table_name_format="old.${source.table}"), "old.orders"),
    ],
)
def test_a_copy_is_where_the_format_says(made: SinkConfig, place: str) -> None:
    assert made.place("shop.orders", TOPIC).full_name == place


def test_the_database_of_a_source_with_schemas_is_not_its_schema() -> None:
    named = {**RIGHT, "collection.name.format": "${source.db}.${source.schema}_${source.table}"}
    assert SinkConfig(named, "mysql", "", "erp").place("shop.orders", TOPIC).full_name == "erp.shop_orders"


@pytest.mark.parametrize("unwrap", [UNWRAP, "ExtractNewRecordState"])  # Connect takes the short name, too
def test_right_settings_have_no_faults(unwrap: str) -> None:
    unwrapped = {"transforms": "u", "transforms.u.type": unwrap}
    made = SinkConfig({**RIGHT, **unwrapped}, "postgres")
    assert [*made.faults(), *made.table_faults(ORDERS, TOPIC)] == []


def test_the_sink_of_another_maker_is_refused_by_its_name_and_by_nothing_else() -> None:
    """Confluent's says pk.mode where Debezium's says primary.key.mode: what to set there can't be said here."""
    other = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "pk.mode": "record_key",
        "insert.mode": "upsert",
    }
    assert list(SinkConfig(other, "postgres").faults()) == [
        (
            "connector.class",
            "io.confluent.connect.jdbc.JdbcSinkConnector: only Debezium's JDBC sink connector can be followed",
        )
    ]
    for short in ("JdbcSinkConnector", "JdbcSink"):
        assert [*SinkConfig({**RIGHT, "connector.class": short}, "postgres").faults()] == []


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"delete.enabled": "false"}, "delete.enabled"),
        ({"delete.enabled": ""}, "delete.enabled"),
        ({"insert.mode": "insert"}, "insert.mode"),
        ({"insert.mode": "update"}, "insert.mode"),
        ({"insert.mode": ""}, "insert.mode"),
        ({"primary.key.mode": "kafka"}, "primary.key.mode"),
        ({"primary.key.mode": ""}, "primary.key.mode"),
        (
            {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"},
            "transforms.r.type",
        ),
        (
            {
                "transforms": "u",
                "transforms.u.type": UNWRAP,
                "transforms.u.delete.tombstone.handling.mode": "drop",
            },
            "transforms.u.delete.tombstone.handling.mode",
        ),
        ({"collection.naming.strategy": "org.example.Mine"}, "collection.naming.strategy"),
        ({"errors.tolerance": "all"}, "errors.tolerance"),
    ],
)
def test_what_cannot_be_put_right_is_named(changed: dict[str, str], named: str) -> None:
    assert [name for name, _ in SinkConfig({**RIGHT, **changed}, "postgres").faults()] == [named]


def test_letters_make_tolerance_bearable() -> None:
    made = {**RIGHT, "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}
    assert list(SinkConfig(made, "postgres").faults()) == []


def test_a_table_that_is_not_read_or_has_another_key_is_named() -> None:
    keyless = Table("shop", "orders", ORDERS.columns)
    assert [name for name, _ in config(topics="b").table_faults(ORDERS, TOPIC)] == ["topics"]
    assert [name for name, _ in config(primary_key_fields="v").table_faults(ORDERS, TOPIC)] == ["primary.key.fields"]
    assert [name for name, _ in config().table_faults(keyless, TOPIC)] == ["primary.key.mode"]
    assert list(config(topics="", topics_regex=r"a\.shop\..*").table_faults(ORDERS, TOPIC)) == []


@pytest.mark.parametrize("kind", [UNWRAP, "org.example.Other"])
@pytest.mark.parametrize("handling", [None, "drop", "rewrite", "tombstone", "delete-to-tombstone"])
def test_a_transform_that_drops_deletes_is_named_and_by_default_none_are_dropped(
    kind: str, handling: str | None
) -> None:
    name = "transforms.u.delete.tombstone.handling.mode"
    settings = {"transforms": "u", "transforms.u.type": kind, **({} if handling is None else {name: handling})}
    told = dict(SinkConfig({**RIGHT, **settings}, "postgres", "")._transforms())
    assert (name in told) is (kind == UNWRAP and handling == "drop")
    assert ("transforms.u.type" in told) is (kind != UNWRAP)
