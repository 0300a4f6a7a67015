"""What a connector's own configuration says about topics, keys and values, and what is refused by name."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.events.mysql import DecodeModes, MySqlValues
from airflow_cdc.connectors.debezium.healing import remakes_publication
from airflow_cdc.connectors.debezium.routing import KeyMark, _compiled, full_match, is_listed
from airflow_cdc.connectors.debezium.rows import check_nulls
from airflow_cdc.core.errors import ConfigError, SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.core.types import Unsupported
from airflow_cdc.decisions.compare.canonical import not_compared
from airflow_cdc.events.value import Shape, Value, Wire, as_is
from tests.unit.tables import col, column, table

BASE = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "topic.prefix": "shop1",
    "database.include.list": "shop",
    "database.password": "hunter2",
}
ORDERS = Table(
    "shop",
    "orders",
    (col("id", 1, "bigint", "bigint", nullable=False), col("note", 2, "text", "text")),
    ("id",),
)


def read(**changes: str) -> ConnectorSettings:
    """The settings of BASE with changes; `__` in a name stands for a dot."""
    return ConnectorSettings.from_config({**BASE, **{key.replace("__", "."): value for key, value in changes.items()}})


def transform(kind: str, **options: str) -> dict[str, str]:
    return {
        "transforms": "t",
        "transforms.t.type": kind,
        **{f"transforms.t.{k.replace('__', '.')}": v for k, v in options.items()},
    }


def with_config(config: dict[str, str]) -> ConnectorSettings:
    return ConnectorSettings.from_config({**BASE, **config})


def test_an_ordinary_connector() -> None:
    made = read()
    assert made.topic_of("shop.orders") == "shop1.shop.orders"
    assert made.key_mark("shop.orders") is None
    assert made.heartbeat_ms == 0
    assert made.heartbeat_topic == "__debezium-heartbeat.shop1"
    assert made.schema_topic == "shop1"
    assert made.history_topic is None
    assert not made.truncates_seen
    assert made.null_becomes_default
    assert made.years_adjusted
    assert made.healing == ()
    made.check_table(ORDERS)


def test_no_secret_is_kept() -> None:
    made = read(schema__history__internal__kafka__bootstrap__servers="k:9092")
    assert "hunter2" not in repr(made)
    assert all("hunter2" not in str(getattr(made, name)) for name in made.__slots__)


def test_settings_that_change_what_events_say() -> None:
    made = read(
        heartbeat__interval__ms="1000",
        topic__heartbeat__prefix="hb",
        skipped__operations="none",
        include__schema__changes="false",
        value__converter="org.apache.kafka.connect.json.JsonConverter",
        value__converter__replace__null__with__default="false",
        schema__history__internal__kafka__topic="h",
        decimal__handling__mode="string",
        enable__time__adjuster="false",
    )
    assert not made.years_adjusted
    assert (made.heartbeat_ms, made.heartbeat_topic) == (1000, "hb.shop1")
    assert made.truncates_seen
    assert made.schema_topic is None
    assert not made.null_becomes_default
    assert made.history_topic == "h"
    assert made.values == MySqlValues(DecodeModes(decimal="string"))


def test_what_is_said_of_a_converter_that_is_the_workers_counts_for_nothing() -> None:
    """Seen on Connect 4.3.1: without value.converter, value.converter.* of the connector is not read at all."""
    assert read(value__converter__replace__null__with__default="false").null_becomes_default


def test_characters_that_topics_cannot_have_are_replaced() -> None:
    assert read().topic_of("shop.or$ders ü") == "shop1.shop.or_ders__"
    assert read(topic__delimiter="-").topic_of("shop.orders") == "shop1-shop-orders"


@pytest.mark.parametrize(
    ("regex", "replacement", "topic"),
    [
        (r"shop1\.(.*)", "cdc.$1", "cdc.shop.orders"),
        (r"(.*)\.(.*)\.(.*)", "$3", "orders"),
        (r"(?<a>shop1)\.(.*)", "${a}_x", "shop1_x"),
        (r"([a-z0-9]+)\.(.*)", "$12", "shop12"),  # group 12 does not exist: group 1 and a "2"
        (r"(.*)", r"\$1", "$1"),
        ("shop1", "other", "shop1.shop.orders"),  # must match wholly
    ],
)
def test_a_regex_router_renames_as_java_does(regex: str, replacement: str, topic: str) -> None:
    made = with_config(
        transform("org.apache.kafka.connect.transforms.RegexRouter", regex=regex, replacement=replacement)
    )
    assert made.topic_of("shop.orders") == topic


def test_a_table_router_marks_keys() -> None:
    route = {"topic__regex": r"(.*)orders_\d+", "topic__replacement": "$1all_orders"}
    made = with_config(transform("io.debezium.transforms.ByLogicalTableRouter", **route))
    assert made.topic_of("shop.orders_1") == made.topic_of("shop.orders_2") == "shop1.shop.all_orders"
    assert made.key_mark("shop.orders_2") == KeyMark("__dbz__physicalTableIdentifier", "shop1.shop.orders_2")
    assert made.key_mark("shop.customers") is None
    assert made.topics(["shop.orders_1", "shop.orders_2", "shop.customers"]) == {
        "shop1.shop.all_orders": ("shop.orders_1", "shop.orders_2"),
        "shop1.shop.customers": ("shop.customers",),
    }


def test_a_table_router_with_a_key_field_of_its_own() -> None:
    kind = "io.debezium.transforms.ByLogicalTableRouter"
    options = {"topic__regex": "(.*)", "topic__replacement": "all", "key__field__name": "shard"}
    made = with_config(transform(kind, **options, key__field__regex=r".*_(\d+)", key__field__replacement="s$1"))
    assert made.key_mark("shop.orders_7") == KeyMark("shard", "s7")
    assert made.key_mark("shop.orders") == KeyMark("shard", "shop1.shop.orders")


def test_tables_that_share_a_topic_without_a_mark_are_refused() -> None:
    kind = "io.debezium.transforms.ByLogicalTableRouter"
    made = with_config(transform(kind, topic__regex="(.*)", topic__replacement="all", key__enforce__uniqueness="false"))
    assert made.mixed(["shop.orders"]) == {}
    mixed = made.mixed(["shop.orders", "shop.customers"])
    assert mixed.keys() == {"shop.orders", "shop.customers"}
    assert "share the topic all" in mixed["shop.orders"].what
    assert "key.enforce.uniqueness" in mixed["shop.orders"].todo


def test_tables_whose_names_are_one_in_a_topics_name_are_refused_even_with_a_mark() -> None:
    """A router's mark is made of the topic, which both have."""
    plain = with_config({})
    assert plain.mixed(["shop.a?b", "shop.a/b", "shop.a"]).keys() == {"shop.a?b", "shop.a/b"}
    assert "Rename one of them" in plain.mixed(["shop.a?b", "shop.a/b"])["shop.a?b"].todo
    route = {"topic__regex": "(.*)", "topic__replacement": "all"}
    marked = with_config(transform("io.debezium.transforms.ByLogicalTableRouter", **route))
    assert marked.mixed(["shop.a", "shop.b"]) == {}
    assert marked.mixed(["shop.a?b", "shop.a/b"]).keys() == {"shop.a?b", "shop.a/b"}


def test_routes_follow_each_other_and_their_predicates() -> None:
    config = {
        "transforms": "a, b",
        "transforms.a.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.a.regex": r"shop1\.(.*)",
        "transforms.a.replacement": "x.$1",
        "transforms.b.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.b.regex": r"(.*)",
        "transforms.b.replacement": "y.$1",
        "transforms.b.predicate": "p",
        "transforms.b.negate": "true",
        "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": r"x\.shop\.orders",
    }
    made = with_config(config)
    assert made.topic_of("shop.orders") == "x.shop.orders"
    assert made.topic_of("shop.customers") == "y.x.shop.customers"


PROTOBUF = "io.confluent.connect.protobuf.ProtobufConverter"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"connector.class": "io.debezium.connector.oracle.OracleConnector"}, "connector.class"),
        ({"topic.prefix": ""}, "topic.prefix"),
        ({"topic.naming.strategy": "com.example.Mine"}, "topic.naming.strategy"),
        ({"value.converter": "io.debezium.converters.CloudEventsConverter"}, "value.converter.*Protobuf"),
        (
            {"value.converter": PROTOBUF, "value.converter.use.latest.version": "true"},
            "use.latest.version.*no other schema",
        ),
        ({"value.converter": PROTOBUF, "time.precision.mode": "connect"}, "time.precision.mode.*calendar"),
        ({"key.converter": "org.apache.kafka.connect.storage.StringConverter"}, "key.converter"),
        ({"value.converter.decimal.format": "NUMERIC"}, "decimal.format"),
        (
            transform("io.debezium.transforms.ExtractNewRecordState", delete__tombstone__handling__mode="drop"),
            "no delete",
        ),
        (transform("io.debezium.transforms.Filter"), "leaves out events"),
        (transform("org.apache.kafka.connect.transforms.MaskField$Value"), "MaskField"),
        (transform("org.apache.kafka.connect.transforms.ReplaceField$Value"), "ReplaceField"),
        (transform("com.example.Mystery"), "com.example.Mystery"),
        (transform("org.apache.kafka.connect.transforms.RegexRouter", regex="(.*)"), "no replacement"),
        ({"converters": "boolean", "boolean.type": "x"}, "converters"),
        ({"post.processors": "reselector"}, "post.processors"),
        ({"snapshot.select.statement.overrides": "shop.orders"}, "snapshot.select"),
        ({"gtid.source.includes": "abc"}, "gtid.source.includes"),
        ({"skipped.operations": "d,t"}, "skipped.operations"),
        (
            {"producer.override.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
            "partitioner",
        ),
        ({"heartbeat.interval.ms": "soon"}, "heartbeat.interval.ms"),
    ],
)
def test_inv_21_what_cannot_be_followed_exactly_is_refused(config: dict[str, str], message: str) -> None:
    settings = with_config(config)
    with pytest.raises(ConfigError, match=message):
        settings.check_rows()
    with pytest.raises(ConfigError, match=message):
        settings.check_table(ORDERS)
    with pytest.raises(ConfigError, match=message):
        _ = settings.values


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (transform("io.debezium.transforms.SchemaChangeEventFilter"), "out of the topic that tells of it"),
        ({"schema.history.internal.skip.unparseable.ddl": "true"}, "silently skipped"),
        ({"schema.history.internal.ddl.filter": "DROP TEMPORARY TABLE.*"}, "silently skipped"),
    ],
)
def test_inv_31_a_setting_that_keeps_ddl_out_of_sight_is_refused(config: dict[str, str], message: str) -> None:
    settings = with_config(config)
    with pytest.raises(ConfigError, match=message):
        settings.check_rows()


def test_inv_31_a_router_over_the_topic_of_schema_changes_hides_them() -> None:
    router = transform("org.apache.kafka.connect.transforms.RegexRouter", regex="shop1(.*)", replacement="cdc$1")
    history = {"schema.history.internal.kafka.topic": "h"}
    assert with_config(history).ddl_topic == "shop1"
    assert with_config({**router, **history}).ddl_topic == "h"
    with pytest.raises(ConfigError, match="would not be seen"):
        _ = with_config(router).ddl_topic


@pytest.mark.parametrize("kind", ["ExtractChangedRecordState", "openlineage.OpenLineage"])
def test_harmless_transforms_pass(kind: str) -> None:
    made = with_config(transform(f"io.debezium.transforms.{kind}"))
    assert made.rows_refused is None
    assert made.topic_of("shop.orders") == "shop1.shop.orders"


def test_a_regular_expression_that_only_java_has_is_refused() -> None:
    made = with_config(transform("org.apache.kafka.connect.transforms.RegexRouter", regex=r"\p{Lu}.*", replacement="x"))
    with pytest.raises(ConfigError, match="cannot be followed here"):
        made.topic_of("shop.orders")


@pytest.mark.parametrize(
    ("config", "captured"),
    [
        ({}, True),
        ({"database.include.list": "sh.*"}, True),
        ({"database.include.list": "sh"}, False),
        ({"database.include.list": "SHOP"}, True),
        ({"table.include.list": r"shop\.orders, shop\.customers"}, True),
        ({"table.include.list": "shop.customers"}, False),
        ({"table.include.list": r"shop\.orders_[0-9]{1\,3}"}, False),
        ({"table.exclude.list": "shop.orders"}, False),
        ({"database.include.list": "", "database.exclude.list": "shop"}, False),
    ],
)
def test_capture_lists_are_anchored_and_ignore_case(config: dict[str, str], captured: bool) -> None:
    made = with_config(config)
    assert made.captures("shop.orders") is captured
    if not captured:
        with pytest.raises(ConfigError, match="does not capture"):
            made.check_table(ORDERS)


@pytest.mark.parametrize(
    "pattern",
    [
        "shop.orders",
        r"shop\.orders",
        r"SHOP\.Orders",
        "shop-orders",
        "shop.*",
        "shop.orders$",
        r"shop\.\w+",
        r"shop\.\sorders",
    ],
)
@pytest.mark.parametrize(
    "name", ["shop.orders", "SHOP.ORDERS", "shopXorders", "shop-orders", "shop.orders2", "shöp.orders", "shop.sorders"]
)
def test_a_name_in_a_list_is_what_its_regular_expression_matches(pattern: str, name: str) -> None:
    alone = re.fullmatch(pattern, name, re.IGNORECASE) is not None
    assert is_listed(f"other, {pattern},another", name) is alone


def test_a_list_of_many_tables_is_not_tried_for_each_of_them() -> None:
    """Python keeps 512 compiled patterns: with 2,000 names, each of the 2,000 was compiled 2,000 times (58 s)."""
    names = [f"shop.t{number}" for number in range(2_000)]
    made = with_config({"table.include.list": ",".join(name.replace(".", r"\.") for name in names)})
    before = _compiled.cache_info()
    assert all(made.captures(name) for name in names)
    after = _compiled.cache_info()
    assert (after.hits - before.hits) + (after.misses - before.misses) < 10
    assert not made.captures("shop.other")


def test_a_comma_inside_a_regular_expression_is_escaped() -> None:
    assert with_config({"table.include.list": r"shop\.orders_[0-9]{1\,3}"}).captures("shop.orders_12")


@pytest.mark.parametrize(
    "config",
    [
        {"column.exclude.list": r"shop\.orders\.id"},
        {"column.include.list": r"shop\.orders\.note"},
        {"column.mask.with.12.chars": r".*\.note"},
        {"column.mask.hash.SHA-256.with.salt.x": r"shop\.orders\.NOTE"},
        {"column.truncate.to.20.chars": r"shop\.orders\.note"},
        {"message.key.columns": r"shop.orders:note;other.t:id"},
    ],
)
def test_inv_21_settings_over_columns_are_refused_for_the_tables_they_touch(config: dict[str, str]) -> None:
    made = with_config(config)
    with pytest.raises(SchemaError, match=next(iter(config)).replace(".", r"\.")):
        made.check_table(ORDERS)
    other = Table("shop", "others", (col("id", 1, "int", "int"),))
    if "include" not in next(iter(config)):
        made.check_table(other)


@pytest.mark.parametrize(
    "config",
    [
        {"column.exclude.list": r"shop\.orders\.note"},
        {"column.exclude.list": r"other\.t\.x,shop\.orders\.no.*"},
        {"column.include.list": r"shop\.orders\.(?!note).*"},
        # a column that is left out may be masked, too
        {"column.exclude.list": r"shop\.orders\.note", "column.mask.with.12.chars": r".*\.note"},
    ],
)
def test_inv_43_a_column_that_the_connector_leaves_out_is_left_out_of_the_mirror(config: dict[str, str]) -> None:
    made = with_config(config)
    made.check_table(ORDERS)
    carried = made.carried(ORDERS)
    assert carried.left_out == ("note",)
    assert [column.name for column in carried.columns] == [c.name for c in ORDERS.columns if c.name != "note"]
    assert ("note", "not mirrored: the connector leaves it out") in not_compared(carried)


def test_inv_43_a_column_of_an_unsupported_type_is_refused_until_the_advice_is_followed() -> None:
    odd = replace(
        ORDERS, columns=(*ORDERS.columns, replace(ORDERS.columns[-1], name="odd", ordinal=99, type=Unsupported()))
    )
    with pytest.raises(SchemaError, match="Exclude the column on the connector"):
        with_config({}).check_table(odd)
    with_config({"column.exclude.list": r"shop\.orders\.odd"}).check_table(odd)


HIDES_A_GAP = {
    "errors.tolerance": ({"all"}, {"none"}),
    "snapshot.mode": ({"when_needed", "always"}, {"initial", "no_data", "recovery"}),
    "event.processing.failure.handling.mode": ({"warn", "skip", "ignore"}, {"fail"}),
    "inconsistent.schema.handling.mode": ({"warn", "skip"}, {"fail"}),
    "slot.drop.on.stop": ({"true"}, {"false"}),
    "offset.mismatch.strategy": ({"trust_offset", "trust_slot", "trust_greater_lsn"}, {"no_validation"}),
}


@pytest.mark.parametrize("setting", HIDES_A_GAP)
def test_inv_05_a_setting_that_hides_a_gap_is_named_with_its_value_and_one_that_fails_is_not(setting: str) -> None:
    hiding, failing = HIDES_A_GAP[setting]
    for value in hiding:
        assert with_config({setting: value}).healing == (f"{setting}={value}",)
    for value in failing:
        assert with_config({setting: value}).healing == ()


def test_inv_05_settings_that_hide_a_gap_are_named() -> None:
    hiding = {setting: min(values) for setting, (values, _) in HIDES_A_GAP.items()}
    assert with_config(hiding).healing == tuple(sorted(f"{setting}={value}" for setting, value in hiding.items()))


def test_a_refusal_for_want_of_ddl_names_the_setting_as_it_is() -> None:
    with pytest.raises(
        ConfigError, match=r"include\.schema\.changes is false: DDL that changes rows without events"
    ) as refused:
        assert with_config({"include.schema.changes": "false"}).ddl_topic is None
    assert "include.schema.changes" in refused.value.todo


POSTGRES = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "topic.prefix": "shop1"}


def test_inv_05_a_publication_that_the_connector_makes_anew_is_named_by_default_too() -> None:
    mode = "publication.autocreate.mode"
    assert remakes_publication(POSTGRES) == f"{mode}=all_tables"
    for value in ("all_tables", "filtered", "no_tables"):
        assert remakes_publication({**POSTGRES, mode: value}) == f"{mode}={value}"
    assert remakes_publication({**POSTGRES, mode: "disabled"}) == ""
    assert remakes_publication({**POSTGRES, "plugin.name": "wal2json"}) == "", "wal2json needs no publication"
    assert remakes_publication(BASE) == "", "MySQL has no publication"


def test_inv_21_a_connector_that_drops_its_slot_when_it_stops_is_refused() -> None:
    drops = {**POSTGRES, "slot.drop.on.stop": "true"}
    with pytest.raises(ConfigError, match=r"slot\.drop\.on\.stop"):
        ConnectorSettings.from_config(drops).check_rows()
    ConnectorSettings.from_config({**drops, "slot.drop.on.stop": "false"}).check_rows()


@pytest.mark.parametrize("plugin", ["wal2json", "decoderbufs"])
def test_an_older_plugin_needs_no_publication_and_is_followed_by_its_slot(plugin: str) -> None:
    settings = ConnectorSettings.from_config({**POSTGRES, "plugin.name": plugin})
    assert (settings.healing, settings.prefix) == ((), "shop1")


def test_values_may_be_missing() -> None:
    assert ConnectorSettings.from_config({**BASE, "skipped.operations": None}).truncates_seen is False  # type: ignore[dict-item]


OUTBOX = transform("io.debezium.transforms.outbox.EventRouter")
UNWRAP = transform("io.debezium.transforms.ExtractNewRecordState", delete__tombstone__handling__mode="drop")
EVENTS = {"key.converter": "io.debezium.converters.CloudEventsConverter"}


@pytest.mark.parametrize("config", [OUTBOX, UNWRAP, EVENTS, {"decimal.handling.mode": "no such mode"}])
def test_inv_40_how_events_are_written_says_nothing_of_names_and_position(config: dict[str, str]) -> None:
    history = {"schema.history.internal.kafka.topic": "h", "heartbeat.interval.ms": "1000", "snapshot.mode": "always"}
    settings = with_config({**config, **history})
    assert settings.rows_refused is not None
    assert (settings.prefix, settings.history_topic, settings.heartbeat_topic) == (
        "shop1",
        "h",
        "__debezium-heartbeat.shop1",
    )
    assert settings.healing == ("snapshot.mode=always",)
    assert settings.captures("shop.orders")


def test_inv_40_every_refusal_of_rows_is_named_at_once() -> None:
    error = with_config({**UNWRAP, **EVENTS, "converters": "mine", "mine.type": "x"}).rows_refused
    assert error is not None
    for name in ("delete.tombstone.handling.mode", "key.converter", "converters"):
        assert name in str(error)


def test_inv_21_in_protobuf_a_null_must_be_shown_or_the_table_is_refused() -> None:
    """A list's NULL is shown by no setting; a decimal is a message, which tells by itself whether it is there."""
    named = {"value.converter": PROTOBUF, "key.converter": PROTOBUF}
    shown = with_config({**named, "value.converter.optional.for.nullables": "true"})
    plain = with_config(named)
    text, number = col("v", 2, "varchar", "varchar(10)"), col("n", 2, "decimal", "decimal(5,2)", precision=5, scale=2)
    key = col("id", 1, "int", "int", nullable=False)
    for other, refused in ((text, True), (number, False), (replace(text, nullable=False), False)):
        table = Table("shop", "orders", (key, other), ("id",))
        shown.check_table(table)
        if refused:
            with pytest.raises(SchemaError, match=r"a NULL looks like a zero or an empty text: v") as error:
                plain.check_table(table)
            assert "value.converter.optional.for.nullables=true" in error.value.todo
        else:
            plain.check_table(table)


def test_inv_21_in_protobuf_a_list_that_may_be_null_is_refused_with_every_setting() -> None:
    named = {f"{side}.converter": PROTOBUF for side in ("key", "value")}
    shown = {**named, "value.converter.optional.for.nullables": "true"}
    values: Any = SimpleNamespace(value=lambda _column: Value(Shape(Wire.ARRAY), as_is))  # as PostgreSQL's text[]
    tags = col("tags", 1, "varchar", "varchar(10)")
    converters = with_config(shown).converters
    check_nulls(converters, values, Table("shop", "orders", (replace(tags, nullable=False),), ()))
    with pytest.raises(SchemaError, match="a NULL looks like an empty list: tags"):
        check_nulls(converters, values, Table("shop", "orders", (tags,), ()))


def test_inv_40_a_topic_is_named_unless_a_transform_chooses_it() -> None:
    assert with_config({**UNWRAP, **EVENTS}).topic_of("shop.orders") == "shop1.shop.orders"
    for config in (
        OUTBOX,
        transform("com.example.Mystery"),
        transform("io.debezium.transforms.ExtractNewRecordState", route__by__field="kind"),
    ):
        with pytest.raises(ConfigError, match=r"transforms\.t\.(type|route\.by\.field)"):
            with_config(config).topic_of("shop.orders")


OLD = {
    "connector.class": "io.debezium.connector.mysql.MySqlConnector",
    "database.server.name": "shop1",
    "database.whitelist": "shop",
    "table.blacklist": "shop.customers",
    "column.blacklist": "shop.orders.note",
    "database.history.kafka.topic": "h",
    "database.history.kafka.bootstrap.servers": "k:9092",
    "heartbeat.interval.ms": "1000",
    "heartbeat.topics.prefix": "hb",
    "snapshot.mode": "schema_only",
}


def test_names_of_debezium_1_are_read_as_what_they_were() -> None:
    settings = ConnectorSettings.from_config(OLD)
    assert (settings.prefix, settings.history_topic, settings.history_bootstrap) == ("shop1", "h", "k:9092")
    assert (settings.topic_of("shop.orders"), settings.heartbeat_topic) == ("shop1.shop.orders", "hb.shop1")
    assert settings.captures("shop.orders")
    assert not settings.captures("shop.customers")
    assert not settings.captures("other.orders")
    assert settings.carried(ORDERS).left_out == ("note",)
    assert settings.rows_refused is None
    assert settings.truncates_seen, "Debezium 1.x sends TRUNCATE unless skipped.operations says otherwise"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"database.history.skip.unparseable.ddl": "true"}, "silently skipped"),
        ({"database.history.ddl.filter": "DROP.*"}, "silently skipped"),
        ({"slot.drop_on_stop": "true"}, "drops the slot"),
    ],
)
def test_inv_21_what_is_refused_is_refused_by_its_old_name_too(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConnectorSettings.from_config({**OLD, **config}).check_rows()


def test_inv_05_healing_is_named_by_its_old_name_too() -> None:
    config = {**OLD, "event.deserialization.failure.handling.mode": "warn"}
    assert ConnectorSettings.from_config(config).healing == ("event.processing.failure.handling.mode=warn",)


def test_a_name_of_debezium_1_counts_for_nothing_beside_topic_prefix() -> None:
    """Debezium 2.0 removed the lists: a connector that names its prefix in today's way does not read them."""
    settings = read(table__whitelist="shop.customers", database__history__kafka__topic="h")
    assert settings.captures("shop.orders")
    assert settings.history_topic is None


@pytest.mark.parametrize(
    "config",
    [
        {"table.include.list": "${file:/etc/cdc:tables}"},
        {"decimal.handling.mode": "${env:MODE}"},
        {"value.converter": "${file:/etc/cdc:converter}"},
        {"transforms": "${env:TRANSFORMS}"},
    ],
)
def test_inv_41_a_placeholder_is_unknown_and_never_a_value(config: dict[str, str]) -> None:
    settings = with_config(config)
    with pytest.raises(ConfigError, match="only the connector's own machine can resolve"):
        settings.check_table(ORDERS)


def test_inv_41_a_prefix_that_cannot_be_seen_names_no_topic() -> None:
    settings = read(topic__prefix="${file:/etc/cdc:prefix}", heartbeat__interval__ms="1000")
    assert (settings.prefix, settings.heartbeat_topic) == ("", "")
    with pytest.raises(ConfigError, match=r"topic.prefix is \$\{file:/etc/cdc:prefix\}"):
        settings.topic_of("shop.orders")


def test_inv_41_a_password_from_a_provider_hides_nothing() -> None:
    settings = read(database__password="${file:/etc/cdc:password}", database__user="${file:/etc/cdc:user}")
    settings.check_table(ORDERS)
    assert settings.topic_of("shop.orders") == "shop1.shop.orders"


def test_a_group_of_a_regular_expression_is_no_placeholder() -> None:
    router = transform(
        "org.apache.kafka.connect.transforms.RegexRouter", regex=r"(?<a>shop1)\.(.*)", replacement="${a}_x"
    )
    assert with_config(router).topic_of("shop.orders") == "shop1_x"


@pytest.mark.parametrize("pattern", ["shop.[a-z&&[^q]]+", "shop.[ab[cd]]", "shop\\\\[a[b]]", "[^a[b]]", "[]a[b]"])
def test_sets_that_java_reads_in_another_way_are_refused(pattern: str) -> None:
    """A class within a class is a union in Java, && an intersection; Python reads both as characters."""
    with pytest.raises(ConfigError, match="means something else in Java"):
        full_match(pattern, "shop.a")


@pytest.mark.parametrize("pattern", ["shop\\.[a-z&]+", "shop[.](a|b)", "shop.\\[?a", "[\\[.a-z]+", "shop.[a]|[b]"])
def test_brackets_that_both_read_alike_are_read(pattern: str) -> None:
    assert full_match(pattern, "shop.a")


AVRO = {f"{side}.converter": "io.confluent.connect.avro.AvroConverter" for side in ("key", "value")}
HISTORY = {"schema.history.internal.kafka.topic": "h"}
ODD = table(column("id", "int"), column("a-b", "int"), key=("id",))


def test_avro_with_its_names_is_followed_and_two_columns_of_one_name_are_refused() -> None:
    renamed = with_config({**AVRO, "field.name.adjustment.mode": "avro"})
    renamed.check_table(ODD)
    assert renamed.names_for_avro
    both = table(column("id", "int"), column("a-b", "int"), column("a_b", "int"), key=("id",))
    with pytest.raises(SchemaError, match="gives one name to several columns: a-b"):
        renamed.check_table(both)
    for other in (
        {"field.name.adjustment.mode": "avro"},
        {**AVRO, "field.name.adjustment.mode": "avro_unicode"},
        {**AVRO, "value.converter.scrub.invalid.names": "true"},
    ):
        with_config(other).check_table(ORDERS)
        with pytest.raises(SchemaError, match="not followed: a-b"):
            with_config(other).check_table(ODD)


def test_ddl_is_read_in_the_history_where_the_converter_does_not_write_json() -> None:
    assert with_config(HISTORY).ddl_topic == "shop1"
    assert with_config({**HISTORY, **AVRO}).ddl_topic == "h"
    with pytest.raises(ConfigError, match="Avro, in which schema changes are not read"):
        _ = with_config(AVRO).ddl_topic


def test_a_transform_with_a_predicate_flattens_the_topics_that_it_names() -> None:
    predicate = {
        "transforms": "r,t",
        "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.r.regex": r"shop1\.(.*)",
        "transforms.r.replacement": "x.$1",
        "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.p.pattern": r"x\.shop\.orders",
    }
    flattens = {"transforms.t.type": "io.debezium.transforms.ExtractNewRecordState", "transforms.t.predicate": "p"}
    settings = with_config({**predicate, **flattens})
    assert settings.flattened_form("shop.orders") is not None
    assert settings.flattened_form("shop.customers") is None
    turned = with_config({**predicate, **flattens, "transforms.t.negate": "true"})
    assert turned.flattened_form("shop.orders") is None
    assert turned.flattened_form("shop.customers") is not None


def test_a_flattened_table_without_a_key_or_with_the_name_of_an_added_field_is_refused() -> None:
    settings = with_config(transform("io.debezium.transforms.ExtractNewRecordState", add__fields="op"))
    settings.check_table(ORDERS)
    with pytest.raises(SchemaError, match="no key, and t flattens"):
        settings.check_table(table(column("id", "int"), key=()))
    with pytest.raises(SchemaError, match="name of a column: __op"):
        settings.check_table(table(column("id", "int"), column("__op", "int"), key=("id",)))


@pytest.mark.parametrize(
    ("interval", "set_to"),
    [("0", "1000"), ("1", None), ("30000", None), ("30001", "1000")],
)
def test_a_recovery_makes_heartbeats_quick_and_leaves_quick_ones_alone(interval: str, set_to: str | None) -> None:
    made = read(heartbeat__interval__ms=interval)
    assert made.quickened == ({} if set_to is None else {"heartbeat.interval.ms": set_to})


def test_the_doctor_names_a_setting_by_which_a_position_would_stand_still_or_be_lost() -> None:
    def states(made: ConnectorSettings) -> list[tuple[str, str]]:
        return [(check.name, check.state) for check in made.reading_checks("shop")]

    assert states(read()) == [("heartbeat", "warn"), ("keep-alive", "ok")]
    busy = read(heartbeat__interval__ms="10000", connect__keep__alive__interval__ms="29999")
    assert states(busy) == [("heartbeat", "ok"), ("keep-alive", "warn")]
