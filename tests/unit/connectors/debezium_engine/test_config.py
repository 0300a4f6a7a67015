"""The properties file of Debezium's engine: what Kafka Connect would call its settings, and how one is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium_engine.config import change_config, edited, parse_config, read_config
from airflow_cdc.connectors.java_properties import parse
from airflow_cdc.core.errors import ConfigError, ConnectorError

SERVER = """\
# Debezium Server
debezium.sink.type=kafka
debezium.source.connector.class=io.debezium.connector.mysql.MySqlConnector
debezium.source.topic.prefix=shop
debezium.source.database.password=hush-1
debezium.source.table.include.list=shop.a,\\
    shop.b
debezium.format.value.schemas.enable=false
debezium.transforms=route
debezium.transforms.route.type=io.debezium.transforms.ByLogicalTableRouter
quarkus.log.level=INFO
"""

PLAIN = SERVER.replace("debezium.transforms", "x")


def test_debezium_server_s_names_become_those_of_a_connector() -> None:
    config = parse_config(SERVER)
    assert (config.engine, config.prefix) == ("kafka", "debezium.source.")
    assert config.connector == {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "topic.prefix": "shop",
        "database.password": "hush-1",
        "table.include.list": "shop.a,shop.b",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "transforms": "route",
        "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter",
    }


def test_another_format_is_refused_by_its_name() -> None:
    config = parse_config(SERVER.replace("debezium.transforms", "x") + "debezium.format.value=avro\n").connector
    with pytest.raises(ConfigError, match=r"debezium\.format\.value=avro"):
        ConnectorSettings.from_config(config).check_rows()


def test_inv_21_events_that_go_elsewhere_than_to_kafka_are_in_no_topic() -> None:
    kinesis = ConnectorSettings.from_config(parse_config(PLAIN.replace("type=kafka", "type=kinesis")).connector)
    assert str(kinesis.rows_refused).startswith("debezium.sink.type is kinesis: its events go to no topic")
    with pytest.raises(ConfigError, match="no topic of Kafka"):
        kinesis.topic_of("shop.a")
    followed = ConnectorSettings.from_config(parse_config(PLAIN).connector)  # as the advice says
    assert followed.rows_refused is None
    assert followed.topic_of("shop.a") == "shop.shop.a"


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("${PREFIX}", ""),
        ("${PREFIX:shop}", ""),
        ("a-${X}", ""),
        ("$${routedByValue}", "${routedByValue}"),
        ("x$", "x$"),
    ],
)
def test_what_an_expression_of_quarkus_stands_for_is_not_seen(written: str, seen: str) -> None:
    settings = ConnectorSettings.from_config(
        parse_config(PLAIN.replace("topic.prefix=shop", f"topic.prefix={written}")).connector
    )
    assert settings.prefix == seen
    assert bool(settings.rows_refused) is not bool(seen)


def test_an_engine_s_own_file_has_no_prefix() -> None:
    config = parse_config("name=orders\ntopic.prefix=shop\n")
    assert (config.engine, config.prefix, config.connector["topic.prefix"]) == ("orders", "", "shop")


def test_a_change_touches_its_own_lines_alone() -> None:
    changes = {
        "debezium.source.table.include.list": "shop.a",
        "debezium.source.topic.prefix": None,
        "debezium.source.snapshot.mode": "recovery",
    }
    assert (
        edited(SERVER, changes)
        == SERVER.replace(",\\\n    shop.b", "").replace("debezium.source.topic.prefix=shop\n", "")
        + "debezium.source.snapshot.mode=recovery\n"
    )
    assert edited("a=1\nb=2", {"c": "3"}) == "a=1\nb=2\nc=3\n"
    assert edited("a=1\nb=2\na=3\n", {"a": "4"}) == "a=4\nb=2\n"


@given(st.text(max_size=20).map(str.strip), st.sampled_from(["a", "new"]))
def test_every_value_is_read_as_it_was_written(value: str, name: str) -> None:
    assert parse(edited("a=1\\\n  2\n! b\n", {name: value})).get(name) == value


def test_the_file_before_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "application.properties"
    path.write_text(SERVER)
    path.chmod(0o600)
    change_config(path, {"debezium.source.snapshot.mode": "recovery"}, "here")
    assert path.with_name("application.properties.before").read_text() == SERVER
    assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}
    assert read_config(path, "here").connector["snapshot.mode"] == "recovery"
    with pytest.raises(ConnectorError, match=r"connector\.config"):
        read_config(tmp_path / "none", "here")
