"""What the operators tell OpenLineage, asked as its own provider asks."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.openlineage.extractors.base import DefaultExtractor

from airflow_cdc import spark_main
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.lineage import FLOWS, datasets
from airflow_cdc.operators.publish import PublishOperator
from airflow_cdc.operators.spark import CdcSparkOperator
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from tests.unit.builders import PIPELINE
from tests.unit.conftest import SECRETS
from tests.unit.operator_support import TaskInstance

TABLES = 2  # of the registry in conftest.py


def names(datasets: list[Any]) -> list[tuple[str, str]]:
    """Data sets as pairs."""
    return [(one.namespace, one.name) for one in datasets]


def told(operator: Any) -> Any:
    """What the provider's extractor gets from a task that has ended."""
    return DefaultExtractor(operator).extract_on_complete(TaskInstance())


@pytest.mark.usefixtures("connections", "registry")
def test_publishing_leads_from_the_source_to_the_sink() -> None:
    lineage = told(PublishOperator(task_id="publish", pipeline="shop"))
    assert names(lineage.inputs) == [("mysql://db:3306", "shop.customers"), ("mysql://db:3306", "shop.orders")]
    assert names(lineage.outputs) == [("file:///tmp/none", "shop.customers"), ("file:///tmp/none", "shop.orders")]
    assert not any(secret in str(lineage) for secret in SECRETS.values())


@pytest.mark.usefixtures("connections", "registry")
@pytest.mark.parametrize("app", spark_main.APPS)
def test_every_application_says_what_it_reads_and_writes(app: str) -> None:
    lineage = told(CdcSparkOperator(task_id=app, app=app, pipeline="shop"))
    reads, writes = FLOWS[app]
    assert (len(lineage.inputs), len(lineage.outputs)) == (len(reads) * TABLES, len(writes) * TABLES)


@pytest.mark.parametrize(
    ("properties", "namespace"),
    [
        ({"warehouse": "s3://key:hush@bucket/lake/?token=hush"}, "s3://bucket/lake"),
        ({"warehouse": "file:///data/lake"}, "file:///data/lake"),
        ({"uri": "https://rest.example"}, "iceberg://lake"),
    ],
)
def test_a_sink_is_named_by_its_place_and_by_no_credential(properties: dict[str, str], namespace: str) -> None:
    endpoints = Endpoints(
        MySqlEndpoint("db", 3306, "u", "hush"),
        ConnectEndpoint("http://c"),
        KafkaEndpoint("k:9092"),
        IcebergEndpoint("lake", properties),
    )
    assert {one.namespace for one in datasets(PIPELINE, endpoints, "sink")} == {namespace}
    assert {one.namespace for one in datasets(PIPELINE, endpoints, "source")} == {"mysql://db:3306"}
