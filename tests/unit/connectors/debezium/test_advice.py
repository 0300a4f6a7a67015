"""Every refusal of a connector's settings ends when its advice is followed word by word (INV 43)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.flattening import FLATTENS
from airflow_cdc.connectors.debezium.rows import _REFUSED
from airflow_cdc.core.errors import CdcError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.sources.postgres.columns import PgColumn
from airflow_cdc.sources.postgres.types import column_of
from tests.unit.tables import column, table

MYSQL = "io.debezium.connector.mysql.MySqlConnector"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN = {"topic.prefix": "shop", "key.converter": JSON, "value.converter": JSON}
ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
TABLE = table(column("id", "int"), column("note", "varchar(20)"), column("a b", "int"), key=("id",))


def pg(kind: str, name: str = "c", **more: Any) -> Column:
    return column_of(PgColumn(name, 1, kind, kind, **more))


def transform(kind: str, **options: str) -> dict[str, str]:
    return {"transforms": "t", "transforms.t.type": kind, **{f"transforms.t.{name}": v for name, v in options.items()}}


# what is refused → the settings that make it so
SETTINGS: dict[str, dict[str, str]] = {
    "cloud events": {f"{side}.converter": "io.debezium.converters.CloudEventsConverter" for side in ("key", "value")},
    "protobuf with another schema": {
        "value.converter": "io.confluent.connect.protobuf.ProtobufConverter",
        "value.converter.use.latest.version": "true",
    },
    "protobuf with dates of Connect": {
        "value.converter": "io.confluent.connect.protobuf.ProtobufConverter",
        "time.precision.mode": "connect",
    },
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


@pytest.mark.parametrize("kind", [MYSQL, POSTGRES])
def test_inv_43_decimals_that_are_doubles_keep_a_table_out_only_if_they_lose_digits(kind: str) -> None:
    config = {**PLAIN, "connector.class": kind, "decimal.handling.mode": "double"}
    assert ConnectorSettings.from_config(config).refusals == ()


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


# a list of tables that cannot be read as Java reads it
PATTERNS = {"a set in a set": "shop.[a[bt]]", "no end": "shop.(t", "a slow one": r"shop\.(s+)+!"}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=list(PATTERNS))
def test_inv_43_a_pattern_that_is_refused_is_followed_as_the_names_that_it_stands_for(pattern: str) -> None:
    config = {**PLAIN, "connector.class": MYSQL, "table.include.list": pattern}
    with pytest.raises(
        CdcError, match="Write it as the names that it stands for, each with a backslash before the dot"
    ):
        ConnectorSettings.from_config(config).captures("shop." + "s" * 40)
    named = ConnectorSettings.from_config({**config, "table.include.list": r"shop\.t"})
    assert (named.captures("shop.t"), named.captures("shop.u")) == (True, False)


def test_inv_43_a_router_whose_replacement_names_no_group_is_followed_once_it_does() -> None:
    config = {**PLAIN, "connector.class": MYSQL, **transform(ROUTER, regex="shop.*", replacement="x.$1")}
    with pytest.raises(CdcError, match="Give the pattern that group"):
        ConnectorSettings.from_config(config).topic_of("shop.t")
    assert (
        ConnectorSettings.from_config({**config, "transforms.t.regex": "(shop.*)"}).topic_of("shop.t")
        == "x.shop.shop.t"
    )


def test_inv_43_a_flattened_table_is_followed_once_its_advice_is() -> None:
    config = {**PLAIN, "connector.class": MYSQL, **transform(FLATTENS, **{"delete.tombstone.handling.mode": "rewrite"})}
    keyless = replace(TABLE, key=())
    with pytest.raises(CdcError, match=r"Give the table a key, remove t from transforms"):
        ConnectorSettings.from_config(config).check_table(keyless)
    ConnectorSettings.from_config(config).check_table(TABLE)
    ConnectorSettings.from_config({**config, "transforms": ""}).check_table(keyless)
    hidden = {**config, "transforms.t.add.fields": "op", "transforms.t.add.fields.prefix": "n"}
    shadowed = replace(TABLE, columns=(*TABLE.columns, column("nop", "int")))
    with pytest.raises(CdcError, match=r"Set another transforms\.t\.add\.fields\.prefix"):
        ConnectorSettings.from_config(hidden).check_table(shadowed)
    ConnectorSettings.from_config({**hidden, "transforms.t.add.fields.prefix": "__"}).check_table(shadowed)


@pytest.mark.parametrize(
    ("setting", "advised"),
    [
        ({"include.schema.changes": "false"}, {}),
        (transform(ROUTER, regex="shop(.*)", replacement="x$1"), {"transforms.t.regex": r"shop\..*"}),
        (
            {"value.converter": "io.confluent.connect.avro.AvroConverter"},
            {"schema.history.internal.kafka.topic": "history"},
        ),
    ],
    ids=["no schema changes", "schema changes are routed", "schema changes as Avro"],
)
def test_inv_43_ddl_that_no_topic_tells_of_is_seen_once_the_advice_is_followed(
    setting: dict[str, str], advised: dict[str, str]
) -> None:
    config = {**PLAIN, "connector.class": MYSQL, **setting}
    with pytest.raises(CdcError) as refused:
        assert ConnectorSettings.from_config(config).ddl_topic is None
    after = {**config, **advised} if advised else followed(config, refused.value.todo)
    assert all(name in refused.value.todo or "router's regex" in refused.value.todo for name in advised)
    assert ConnectorSettings.from_config(after).ddl_topic in {"shop", "history"}


def test_inv_43_tables_that_share_a_topic_are_followed_once_the_advice_is() -> None:
    merged = transform("io.debezium.transforms.ByLogicalTableRouter", **{
        "topic.regex": "(.*)t[12]", "topic.replacement": "$1t", "key.enforce.uniqueness": "false",
    })  # fmt: skip
    config = {**PLAIN, "connector.class": MYSQL, **merged}
    error = ConnectorSettings.from_config(config).mixed(["shop.t1", "shop.t2"])["shop.t1"]
    assert error.todo.startswith("Set key.enforce.uniqueness=true on the router")
    unique = {**config, "transforms.t.key.enforce.uniqueness": "true"}
    assert ConnectorSettings.from_config(unique).mixed(["shop.t1", "shop.t2"]) == {}


def test_inv_43_keys_that_look_wrapped_are_followed_once_the_connector_names_its_converter() -> None:
    config = {name: value for name, value in PLAIN.items() if "converter" not in name} | {"connector.class": MYSQL}
    odd = table(column("schema", "int"), column("payload", "int"), key=("schema", "payload"))
    with pytest.raises(
        CdcError, match=r"Set key\.converter and key\.converter\.schemas\.enable on the connector itself"
    ):
        ConnectorSettings.from_config(config).check_table(odd)
    own = {**config, "key.converter": JSON, "key.converter.schemas.enable": "true"}
    ConnectorSettings.from_config(own).check_table(odd)


# columns that a mode cannot carry → (kind, the mode, the column)
MODES = [
    (MYSQL, {"decimal.handling.mode": "double"}, column("c", "decimal(20,0)", precision=20, scale=0)),
    (MYSQL, {"time.precision.mode": "connect"}, column("c", "datetime(6)", fsp=6)),
    (MYSQL, {"time.precision.mode": "isostring"}, column("c", "time", fsp=0)),
    (MYSQL, {"time.precision.mode": "nanoseconds"}, column("c", "datetime", fsp=0)),
    (POSTGRES, {"decimal.handling.mode": "double"}, pg("numeric", modifier=(20 << 16) + 4)),
    (POSTGRES, {"decimal.handling.mode": "precise"}, pg("numeric")),
    (POSTGRES, {"interval.handling.mode": "numeric"}, pg("interval")),
    (POSTGRES, {"hstore.handling.mode": "map"}, pg("hstore", type_schema="public")),
]


@pytest.mark.parametrize(("kind", "mode", "odd"), MODES, ids=[f"{k.rpartition('.')[2]}-{m}" for k, m, _ in MODES])
def test_inv_43_a_mode_that_cannot_carry_a_column_is_followed_once_it_is_another(
    kind: str, mode: dict[str, str], odd: Column
) -> None:
    config, held = {**PLAIN, "connector.class": kind, **mode}, Table("shop", "t", (odd, pg("int4", "id")), ("id",))
    if kind == MYSQL:
        held = table(column("id", "int"), odd, key=("id",))
    with pytest.raises(CdcError) as refused:
        ConnectorSettings.from_config(config).check_table(held)
    advice = refused.value.todo.replace(" on the connector", "").rstrip(".")
    ConnectorSettings.from_config(followed(config, advice)).check_table(held)


@pytest.mark.parametrize("kind", ["tsvector", "timetz", "varbit", "name"])
def test_inv_43_a_column_that_events_do_not_carry_is_left_out_once_it_is_excluded(kind: str) -> None:
    config = {**PLAIN, "connector.class": POSTGRES}
    held = Table("shop", "t", (pg("int4", "id"), pg(kind)), ("id",))
    with pytest.raises(CdcError, match="Exclude the column on the connector"):
        ConnectorSettings.from_config(config).check_table(held)
    excluded = ConnectorSettings.from_config({**config, "column.exclude.list": r"shop\.t\.c"})
    excluded.check_table(held)
    assert [one.name for one in excluded.carried(held).columns] == ["id"]


def test_inv_43_a_table_without_a_key_is_followed_once_its_events_are_numbered() -> None:
    config, bare = {**PLAIN, "connector.class": POSTGRES}, Table("shop", "t", (pg("int4"),))
    with pytest.raises(CdcError) as refused:
        ConnectorSettings.from_config(config).check_table(bare)
    ConnectorSettings.from_config(followed(config, refused.value.todo.replace(" on the connector", ""))).check_table(
        bare
    )


def test_inv_43_an_offset_without_a_time_is_taken_by_debezium_1_x_once_it_has_one() -> None:
    """Debezium 1.9 was seen to end with a NullPointerException; 3.x starts from it."""
    value = {"lsn": 1, "lsn_proc": 1, "lsn_commit": 1}
    names = {"database.server.name": "shop", "connector.class": POSTGRES}
    old = ConnectorSettings.from_config(names)
    (fault,) = old.offset_faults(value)
    assert fault.endswith("add the time of the position, in microseconds since 1970")
    assert old.offset_faults({**value, "ts_usec": 1_795_000_000_000_000}) == ()
    for other in ({**names, "topic.prefix": "shop"}, {**names, "connector.class": MYSQL}):
        assert ConnectorSettings.from_config(other).offset_faults(value) == ()
