"""A recovery writes settings in the words of the connector's version."""

from __future__ import annotations

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.names import rebuilding_mode
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
