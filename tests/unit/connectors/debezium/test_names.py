"""A connector's settings are read, and written, in the words of its version; a plugin has more names than one."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium import routing
from airflow_cdc.connectors.debezium.config import ConnectorSettings
from airflow_cdc.connectors.debezium.connector import DebeziumConnector, address_in
from airflow_cdc.connectors.debezium.healing import remakes_publication
from airflow_cdc.connectors.debezium.names import by_todays_names, rebuilding_mode
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint

CLASS = "io.debezium.connector.mysql.MySqlConnector"
OF_1X = {"connector.class": CLASS, "database.server.name": "shop", "table.whitelist": "shop.orders"}
OF_TODAY = {"connector.class": CLASS, "topic.prefix": "shop"}


@pytest.mark.parametrize(
    ("config", "version", "mode"),
    [
        (OF_1X, "1.9.7.Final", "schema_only_recovery"),
        (OF_TODAY, "2.5.4.Final", "schema_only_recovery"),
        (OF_TODAY, "2.6.2.Final", "recovery"),
        (OF_TODAY, "3.6.1.Final", "recovery"),
        (OF_TODAY, "10.0.0.Final", "recovery"),
        # a version that nobody can see, as that of an embedded engine
        (OF_1X, "", "schema_only_recovery"),
        ({**OF_TODAY, "snapshot.mode": "schema_only"}, "", "schema_only_recovery"),
        ({**OF_TODAY, "snapshot.mode": "no_data"}, "", "recovery"),
        (OF_TODAY, "", "recovery"),
    ],
)
def test_the_mode_that_reads_definitions_again_is_named_as_the_version_does(
    config: dict[str, str], version: str, mode: str
) -> None:
    assert rebuilding_mode(config, version) == mode


@pytest.mark.parametrize(
    ("version", "mode"), [("1.9.7.Final", "schema_only_recovery"), ("3.6.1.Final", "recovery"), (None, "recovery")]
)
def test_the_version_is_that_of_the_workers_plugin(
    version: str | None, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = DebeziumConnector(ConnectEndpoint("http://localhost:1"), MySqlCodec())
    others = [{"class": "org.apache.kafka.connect.mirror.MirrorSourceConnector", "version": "4.3.1"}]
    answers = {
        ("connectors", "shop", "config"): OF_TODAY,
        ("connector-plugins",): [*others, {"class": CLASS, **({"version": version} if version else {})}],
    }
    monkeypatch.setattr(connector._http, "call", lambda _method, path, **_more: answers[path])
    assert connector.rebuilding("shop") == {"snapshot.mode": mode}


# a setting whose value is a plugin, a name that Connect takes for it, and its class
SHORT_NAMES = [
    ("connector.class", "MySqlConnector", CLASS),
    ("connector.class", "MySql", CLASS),
    ("connector.class", "MariaDb", "io.debezium.connector.mariadb.MariaDbConnector"),
    ("connector.class", " Postgres ", "io.debezium.connector.postgresql.PostgresConnector"),
    ("key.converter", "JsonConverter", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter", "Json", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter", "JsonSchema", "io.confluent.connect.json.JsonSchemaConverter"),
    ("transforms.t.type", "ExtractNewRecordState", "io.debezium.transforms.ExtractNewRecordState"),
    ("transforms.t.type", "EventRouter", "io.debezium.transforms.outbox.EventRouter"),
    ("transforms.t.type", "RegexRouter", "org.apache.kafka.connect.transforms.RegexRouter"),
    ("transforms.t.type", "Cast$Value", "org.apache.kafka.connect.transforms.Cast$Value"),
    ("predicates.p.type", "TopicNameMatches", "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"),
    # neither a plugin that is known, nor the value of a setting that names one
    ("connector.class", "SqlServer", "SqlServer"),
    ("transforms.t.type", "com.example.RegexRouter", "com.example.RegexRouter"),
    ("transforms.t.regex", "Json", "Json"),
    ("topic.prefix", "MySql", "MySql"),
]


@pytest.mark.parametrize(("setting", "written", "whole"), SHORT_NAMES)
def test_a_plugin_has_the_class_that_connect_takes_its_short_name_for(setting: str, written: str, whole: str) -> None:
    assert by_todays_names({setting: written}).known[setting].strip() == whole


@pytest.mark.parametrize(
    ("option", "whole"),
    [
        ("schema.registry.url", "io.confluent.connect.avro.AvroConverter"),
        ("apicurio.registry.url", "io.apicurio.registry.utils.converter.AvroConverter"),
        ("scale", "Avro"),
    ],
)
def test_whose_avro_converter_it_is_says_the_setting_beside_it(option: str, whole: str) -> None:
    config = {"value.converter": "Avro", f"value.converter.{option}": "http://registry"}
    assert by_todays_names(config).known["value.converter"] == whole


@pytest.mark.parametrize(
    "name", ["Postgres", "PostgresConnector", "io.debezium.connector.postgresql.PostgresConnector"]
)
def test_a_connector_by_its_short_name_is_no_other_connector(name: str) -> None:
    config = {"connector.class": name, "topic.prefix": "shop", "database.hostname": "db"}
    settings = ConnectorSettings.from_config(config)
    assert (settings.source, settings.refusals) == ("postgres", ())
    assert address_in(config) == "db:5432"
    # else nobody hears that it makes a lost publication again, without the rows of the time between (INV 5)
    assert remakes_publication(config) == "publication.autocreate.mode=all_tables"


def test_every_class_that_is_told_apart_is_known_by_its_short_name() -> None:
    classes = {*routing._HARMLESS_TRANSFORMS, *routing._KEEPS_TOPICS, *routing._ROUTERS, *routing._TRANSFORM_REASONS}
    classes -= {"io.debezium.transforms.Filter"}  # Kafka's own has that name, too, and every worker has it
    for whole in classes:
        settings = by_todays_names({"transforms.t.type": whole.rpartition(".")[2]})
        assert settings.known["transforms.t.type"] == whole
