"""Every refusal of a connector's settings ends when its advice is followed word by word (INV 43)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.flattening import FLATTENS
from airflow_cdc.connectors.debezium.rows import _REFUSED
from airflow_cdc.core.errors import CdcError
from tests.unit.tables import column, table

MYSQL = "io.debezium.connector.mysql.MySqlConnector"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN = {"topic.prefix": "shop", "key.converter": JSON, "value.converter": JSON}
ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
TABLE = table(column("id", "int"), column("note", "varchar(20)"), column("a b", "int"), key=("id",))


def transform(kind: str, **options: str) -> dict[str, str]:
    return {"transforms": "t", "transforms.t.type": kind, **{f"transforms.t.{name}": v for name, v in options.items()}}


# what is refused → the settings that make it so
SETTINGS: dict[str, dict[str, str]] = {
    "protobuf": {f"{side}.converter": "io.confluent.connect.protobuf.ProtobufConverter" for side in ("key", "value")},
    "ids by a class": {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.value.schema.id.serializer": "com.example.HeaderSerializer",
    },
    "ids by a handler": {
        "key.converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "key.converter.apicurio.registry.headers.handler": "com.example.Handler",
    },
    "two registries": {
        f"{side}.converter{name}": value
        for side, port in (("key", 1), ("value", 2))
        for name, value in (
            ("", "io.confluent.connect.avro.AvroConverter"),
            (".schema.registry.url", f"http://r:{port}"),
        )
    },
    "lost deletes": transform(FLATTENS, **{"delete.tombstone.handling.mode": "drop"}),
    "left out fields": transform(FLATTENS, **{"drop.fields.header.name": "h"}),
    "rows routed by a field": transform(FLATTENS, **{"route.by.field": "kind"}),
    "flattened twice": {
        "transforms": "t,u",
        "transforms.t.type": FLATTENS,
        "transforms.u.type": FLATTENS,
    },
    "text": {"key.converter": "org.apache.kafka.connect.storage.StringConverter"},
    "outbox": transform("io.debezium.transforms.outbox.EventRouter"),
    "own transform": transform("com.example.Own$Value"),
    "router without a place": transform(ROUTER, regex="shop(.*)"),
    "router with a predicate": {
        **transform(ROUTER, regex="shop(.*)", replacement="x$1", predicate="p"),
        "predicates.p.type": "com.example.Predicate",
    },
    "no prefix": {"topic.prefix": ""},
    "names of topics": {"topic.naming.strategy": "com.example.Naming"},
    "no number": {"heartbeat.interval.ms": "soon"},
    "a placeholder": {"heartbeat.interval.ms": "${env:BEAT}"},
    "custom converters": {"converters": "isbn"},
    "post-processors": {"post.processors": "reselector"},
    "another SELECT": {"snapshot.select.statement.overrides": "shop.orders"},
    "some servers": {"gtid.source.includes": "3e11fa47-71ca-11e1-9e33-c80aa9429562"},
    "no deletes": {"skipped.operations": "t,d"},
    "skipped DDL": {"schema.history.internal.skip.unparseable.ddl": "true"},
    "filtered DDL": {"schema.history.internal.ddl.filter": "DROP TABLE.*"},
    "a slot that is dropped": {"slot.drop.on.stop": "true"},
    "numbers in values": {"value.converter.decimal.format": "NUMERIC"},
    "numbers in keys": {"key.converter.decimal.format": "NUMERIC"},
    "a partitioner": {"producer.override.partitioner.class": "com.example.Partitioner"},
    "a mode nobody knows": {"binary.handling.mode": "octal"},
}


def followed(config: Mapping[str, str], todo: str) -> dict[str, str]:
    """The settings after somebody has done what the advice says first."""
    advice = todo.partition(", or ")[0]
    if set_to := re.match(r"Set ([\w.]+)=([^\s,]+)", advice):
        return {**config, set_to[1]: set_to[2]}
    if number := re.match(r"Set ([\w.]+) to a number", advice):
        return {**config, number[1]: "1000"}
    if named := re.match(r"Set ([\w.]+)$", advice):
        return {**config, named[1]: "shop"}
    if transformed := re.match(r"Remove (\w+) from transforms", advice):
        left = [one for one in config["transforms"].split(",") if one != transformed[1]]
        return {**config, "transforms": ",".join(left)}
    if removed := re.match(r"Remove (\S+)", advice):
        return {name: value for name, value in config.items() if name != removed[1]}
    if advice.startswith("Write the value itself into the connector's configuration"):
        return {name: "1000" if value.startswith("${") else value for name, value in config.items()}
    raise AssertionError(f"nobody can follow this: {todo}")


def chosen(config: Mapping[str, str], error: CdcError) -> dict[str, str]:
    """For a mode the advice lists those that can be followed."""
    if listed := re.match(r"Use one of ([\w-]+)", error.todo):
        return {**config, error.what.partition("=")[0]: listed[1]}
    return followed(config, error.todo)


@pytest.mark.parametrize("kind", [MYSQL, POSTGRES])
@pytest.mark.parametrize("name", list(SETTINGS))
def test_inv_43_a_refused_setting_is_followed_once_its_advice_is(name: str, kind: str) -> None:
    config = {**PLAIN, "connector.class": kind, **SETTINGS[name]}
    refusals = ConnectorSettings.from_config(config).refusals
    assert refusals, name
    for error in refusals:
        config = chosen(config, error)
    assert ConnectorSettings.from_config(config).refusals == ()


def test_inv_43_decimals_that_are_doubles_are_refused_with_the_reason_and_a_way_out() -> None:
    config = {**PLAIN, "connector.class": POSTGRES, "decimal.handling.mode": "double"}
    (error,) = ConnectorSettings.from_config(config).refusals
    assert "rounds" in error.what
    assert ConnectorSettings.from_config(chosen(config, error)).refusals == ()


def test_every_setting_that_is_refused_has_a_case() -> None:
    names = {name for config in SETTINGS.values() for name in config}
    assert [row.pattern for row in _REFUSED if not any(re.fullmatch(row.pattern, name) for name in names)] == []


@pytest.mark.parametrize(
    "setting",
    [
        {"column.mask.hash.SHA-256.with.salt.x": "shop.t.note"},
        {"column.truncate.to.5.chars": "shop.t.note"},
        {"column.exclude.list": "shop.t.id"},
        {"message.key.columns": "shop.t:note"},
        {"field.name.adjustment.mode": "avro_unicode"},
        {"field.name.adjustment.mode": "avro"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_inv_43_a_refused_column_is_followed_once_its_advice_is(setting: dict[str, str]) -> None:
    config = {**PLAIN, "connector.class": MYSQL, **setting}
    with pytest.raises(CdcError) as refused:
        ConnectorSettings.from_config(config).check_table(TABLE)
    if refused.value.todo.startswith("Rename the columns"):
        renamed = replace(TABLE, columns=tuple(replace(one, name=one.name.replace(" ", "_")) for one in TABLE.columns))
        ConnectorSettings.from_config(config).check_table(renamed)
        return
    ConnectorSettings.from_config(followed(config, refused.value.todo)).check_table(TABLE)
