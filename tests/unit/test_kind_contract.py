"""Every built-in kind is as airflow_cdc.testing asks of any kind."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from airflow_cdc.connectors.canal.endpoint import CanalEndpoint
from airflow_cdc.connectors.debezium_engine.endpoint import EngineEndpoint
from airflow_cdc.connectors.flink.endpoint import FlinkEndpoint
from airflow_cdc.connectors.kafka_connect.http import ConnectEndpoint
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.kinds import WINGS
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sinks.jdbc.endpoint import JdbcEndpoint
from airflow_cdc.sinks.none import NoEndpoint
from airflow_cdc.sinks.opensearch.endpoint import OpenSearchEndpoint
from airflow_cdc.sinks.topics import TopicsEndpoint
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from airflow_cdc.sources.postgres.session import PostgresEndpoint
from airflow_cdc.testing import KindContract
from airflow_cdc.transports.direct import DirectEndpoint
from airflow_cdc.transports.kafka.wire import KafkaEndpoint
from airflow_cdc.transports.rabbitmq.endpoint import RabbitMqEndpoint

HUSH = "hush-1"
SERVER = MySqlEndpoint("db", 3306, "cdc", HUSH, ssl={"key_password": HUSH})
LAKE = IcebergEndpoint("lake", {"credential": HUSH, "warehouse": f"s3://k:{HUSH}@bucket/lake?token={HUSH}"})
TABLES = {"conn_id": "c", "tables": ["shop.orders"]}
# wing, kind → what pipelines.yaml holds, an endpoint
CASES: dict[tuple[str, str], tuple[dict[str, Any], Any]] = {
    ("sources", "mysql"): ({**TABLES, "replicas": ["r"]}, SERVER),
    ("sources", "mariadb"): (TABLES, SERVER),
    ("sources", "postgres"): (
        {**TABLES, "slot": "s", "publication": "p", "database": "shop", "warn_kept_gb": 5},
        PostgresEndpoint("db", 5432, "cdc", HUSH, "shop", "s", "p", ssl={"key_password": HUSH}),
    ),
    ("connectors", "debezium"): ({"conn_id": "c", "name": "n"}, ConnectEndpoint(f"http://u:{HUSH}@connect:8083")),
    ("connectors", "canal"): (
        {
            "conn_id": "c",
            "name": "n",
            "conf": "/conf",
            "start": "a b",
            "stop": "c",
            "status": "d",
            "cursor": "zookeeper",
        },
        CanalEndpoint("zk:2181", "u", HUSH, "n", "zookeeper", "/conf", "/log", ("a", "b"), ("c",), ("d",)),
    ),
    ("connectors", "debezium_engine"): (
        {
            "conn_id": "c",
            "name": "n",
            "config": "/conf/application.properties",
            "start": "a b",
            "stop": "c",
            "status": "d",
        },
        EngineEndpoint(
            database=SqlEndpoint("postgresql+psycopg", "cdc", "db", 5432, "u", HUSH), config="/conf", start=("a", "b")
        ),
    ),
    ("connectors", "flink"): (
        {"conn_id": "c", "name": "n", "plan": "/plan.json", "savepoints": "file:///s", "session": ["a=b"]},
        FlinkEndpoint("http://f:8081", "http://g:8083", "u", HUSH, plan="/plan.json", session=("a=b",)),
    ),
    ("transports", "direct"): ({}, DirectEndpoint()),
    ("transports", "kafka"): (
        {"conn_id": "c"},
        KafkaEndpoint(
            "k:9092", {"security.protocol": "SASL_SSL", "sasl.username": "u", "sasl.password": HUSH}, timeout=5
        ),
    ),
    ("transports", "rabbitmq"): (
        {"conn_id": "c", "queue": "shop.stream"},
        RabbitMqEndpoint("rabbit", 5671, "/shop", "u", HUSH, "https://rabbit:15671", tls=True, queue="shop.stream"),
    ),
    ("sinks", "iceberg"): (
        {"catalog": "lake", "namespace": "shop"},
        LAKE,
    ),
    ("sinks", "opensearch"): (
        {"conn_id": "s", "namespace": "shop"},
        OpenSearchEndpoint("https://search:9200", "u", HUSH),
    ),
    ("sinks", "jdbc"): (
        {"conn_id": "c", "database": "postgres", "connector": "copy"},
        JdbcEndpoint(
            ("postgres",),
            asdict(PostgresEndpoint("db", 5432, "cdc", HUSH)),
            "postgres db:5432/postgres",
            "postgres://db",
        ),
    ),
    ("sinks", "iceberg_changelog"): ({"catalog": "lake", "connector": "shop-log"}, LAKE),
    ("sinks", "hudi"): ({"path": "/lake/hudi", "namespace": "shop"}, HudiEndpoint("/lake/hudi")),
    ("sinks", "topics"): ({}, TopicsEndpoint()),
    ("sinks", "none"): ({}, NoEndpoint()),
    ("controls", "iceberg"): ({"catalog": "lake"}, LAKE),
    ("controls", "sql"): ({"conn_id": "c"}, SqlEndpoint("postgresql+psycopg", "cdc", "db", 5432, "u", HUSH)),
}


def test_every_built_in_kind_is_held_by_the_suite() -> None:
    assert set(CASES) == {(wing, name) for wing, kinds in WINGS.items() for name in kinds.built_in}


@pytest.fixture(params=CASES, ids="/".join)
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    wing, name = request.param
    return wing, name


class TestKinds(KindContract):
    @pytest.fixture
    def kind(self, case: tuple[str, str]) -> Any:
        return WINGS[case[0]][case[1]]

    @pytest.fixture
    def written(self, case: tuple[str, str]) -> dict[str, Any]:
        return {"kind": case[1], **CASES[case][0]}

    @pytest.fixture
    def endpoint(self, case: tuple[str, str]) -> Any:
        return CASES[case][1]

    @pytest.fixture
    def secrets(self) -> tuple[str, ...]:
        return (HUSH,)
