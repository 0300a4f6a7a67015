"""Each kind's client satisfies the port of its part: mypy holds that in the functions here, which hand one over as the other.

The tests see to it that no port and no kind is left out of them.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from airflow_cdc.connectors.canal.connector import CanalConnector
from airflow_cdc.connectors.debezium.connector import DebeziumConnector, OwnTopics
from airflow_cdc.connectors.debezium_engine.connector import DebeziumEngine
from airflow_cdc.connectors.flink.connector import FlinkConnector
from airflow_cdc.connectors.kafka_connect.feeder import ConnectFeeder
from airflow_cdc.connectors.without import NoTopics
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core import ports
from airflow_cdc.kinds import WINGS
from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.client import Stage as HudiStage
from airflow_cdc.sinks.hudi.timeline import Commit as HudiCommit
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.iceberg.stage import Stage, StagedCommit
from airflow_cdc.sinks.iceberg_changelog.client import ChangelogSink
from airflow_cdc.sinks.jdbc.client import JdbcSink
from airflow_cdc.sinks.opensearch.client import SearchSink
from airflow_cdc.sinks.opensearch.control import OpenSearchControlStore
from airflow_cdc.sinks.opensearch.indexes import Stage as SearchStage
from airflow_cdc.sinks.opensearch.record import Commit
from airflow_cdc.sinks.topics import Topics
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.hold import Hold
from airflow_cdc.sources.mysql.replica import MySqlReplication
from airflow_cdc.sources.mysql.server_log import XaTransaction
from airflow_cdc.sources.postgres.client import PostgresSource
from airflow_cdc.sources.postgres.slot import SlotHolds
from airflow_cdc.transports.direct import DirectTransport
from airflow_cdc.transports.kafka.client import KafkaGroups, KafkaTransport
from airflow_cdc.transports.kafka.producer import KafkaProducer
from airflow_cdc.transports.kafka.wire import Record
from airflow_cdc.transports.rabbitmq.client import RabbitMqTransport
from airflow_cdc.transports.rabbitmq.wire import Record as Message


def source(client: MySqlSource | MariaDbSource | PostgresSource) -> ports.Source:
    return client


def replication(client: MySqlReplication) -> ports.Replication:
    return client


def hold(client: Hold | SlotHolds) -> ports.Hold:
    return client


def prepared(transaction: XaTransaction) -> ports.PreparedTransaction:
    return transaction


def connector(client: DebeziumConnector | DebeziumEngine | CanalConnector | FlinkConnector) -> ports.Connector:
    return client


def transport(client: KafkaTransport | RabbitMqTransport | DirectTransport) -> ports.Transport:
    return client


def producer(client: KafkaProducer) -> ports.Producer:
    return client


def feeder(client: ConnectFeeder) -> ports.Feeder:
    return client


def groups(kept: KafkaGroups) -> ports.Groups:
    return kept


def own_topics(topics: OwnTopics | NoTopics) -> ports.OwnTopics:
    return topics


def topic_record(record: Record | Message) -> ports.TopicRecord:
    return record


def sink(client: Lake | SearchSink | HudiSink | JdbcSink | ChangelogSink | Topics) -> ports.Sink:
    return client


def staging(client: Lake | SearchSink | HudiSink) -> ports.Staging:
    return client


def letters(client: Lake | SearchSink | HudiSink) -> ports.Letters:
    return client


def stage(made: Stage | SearchStage | HudiStage) -> ports.Stage:
    return made


def staged_commit(commit: StagedCommit | Commit | HudiCommit) -> ports.StagedCommit:
    return commit


def control_store(store: IcebergControlStore | OpenSearchControlStore | SqlControlStore) -> ports.ControlStore:
    return store


HELD = tuple(one for one in vars().values() if isinstance(one, FunctionType) and one.__module__ == __name__)


def handed(held: Callable[..., Any]) -> tuple[set[type], type]:
    """The classes that a function takes, and the port that it returns."""
    *given, port = typing.get_type_hints(held).values()
    return {cls for one in given for cls in typing.get_args(one) or (one,)}, port


# none refuses everything by design
UNHELD = {"none"}
CLIENTS = [(wing, name) for wing in WINGS for name in WINGS[wing].built_in]


@pytest.mark.parametrize(("wing", "name"), [one for one in CLIENTS if one[1] not in UNHELD])
def test_the_client_of_every_kind_is_held_against_a_port(wing: str, name: str) -> None:
    client = WINGS[wing][name].client.load()
    if not inspect.isclass(client):
        client = typing.get_type_hints(client)["return"]
    assert any(client in classes for classes, _ in map(handed, HELD))


def test_every_port_is_held_against_a_class() -> None:
    classes = {v for v in vars(ports).values() if inspect.isclass(v) and v.__module__.startswith(ports.__name__)}
    declared = {one for one in classes if getattr(one, "_is_protocol", False)} - {ports.Client}
    assert declared == {port for _, port in map(handed, HELD)}
