"""A real Spark Connect server: what its sessions do otherwise than Spark's own, and what we do about it (ADR 0033)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.cli import remote_spark
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.parts import Endpoints
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.spark_apps.driver import connect_answers
from airflow_cdc.spark_apps.driver.connect import Remote
from airflow_cdc.transports.kafka.client import KafkaEndpoint
from stack.spark_connect import SparkConnectServer, start_spark_connect
from tests.contract.spark import connect_client
from tests.spark_session import embedded_catalog
from tests.unit.builders import PIPELINE

EXPECTED: dict[str, Any] = {
    "functions": ['{"a":2,"b":1}'] * 2,
    "isolation": {
        "settings": [["true", "UTC"], ["false", "UTC"], ["true", "UTC"]],
        "views": [False, True, False],
        "catalog": "org.apache.iceberg.spark.SparkCatalog",
    },
    "checkpoints": [5, 3, True],
    "images": [1, 2, 3, 3],
    "parts": [[250, True]] * 4 + [0],
    "at_once": 2,
    "interrupted": [False, [True], True],
    "stopped": True,
    "siblings left": 0,
}
# on a machine with other work; half a minute on a quiet one
ENDS_WITHIN_S = 240


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnectServer]:
    folder = tmp_path_factory.mktemp("connect")
    started = start_spark_connect(folder, folder / "logs")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def said(server: SparkConnectServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a driver on the server says; that it ends by itself is part of it."""
    asked = {
        "catalog": embedded_catalog(tmp_path_factory.mktemp("lake")),
        "remote": {"url": server.url, "token": server.token},
    }
    done = subprocess.run(
        [sys.executable, "-m", connect_client.__name__],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=ENDS_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert server.token not in done.stdout + done.stderr
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {name: result for line in lines for name, result in line.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_session_on_a_server_does_as_one_of_our_own(said: dict[str, Any], name: str) -> None:
    assert said[name] == EXPECTED[name]


def test_the_server_answers_what_the_doctor_asks(said: dict[str, Any]) -> None:
    found = said["answers"]
    assert (found["spark"], found["tasks"], found["missing"]) == ("4.1.3", 2, ["no/such/Thing.class"])
    assert found["python"].startswith("Python 3.")


@pytest.fixture
def ask(
    server: SparkConnectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], connect_answers.Answers]:
    """What the doctor is told of that server, asked with a token."""
    endpoints = Endpoints(
        MySqlEndpoint("nowhere", 1, "u", "p"),
        ConnectEndpoint("http://nowhere"),
        KafkaEndpoint("nowhere:1"),
        IcebergEndpoint("lake", embedded_catalog(tmp_path)),
    )
    monkeypatch.setattr(remote_spark, "resolve_endpoints", lambda _pipeline: endpoints)
    monkeypatch.setenv("AIRFLOW__CDC__REPORT_DIR", str(tmp_path))
    entries = ["org/apache/iceberg/spark/SparkCatalog.class", "no/such/Thing.class"]
    return lambda token: remote_spark.ask(PIPELINE, Remote(server.url, token), entries)


def test_the_doctor_asks_in_a_process_that_is_told_all_of_it(
    ask: Callable[[str], connect_answers.Answers], server: SparkConnectServer
) -> None:
    answers = ask(server.token)
    assert (answers.spark, answers.missing) == ("4.1.3", ["no/such/Thing.class"])
    with pytest.raises(ConfigError, match="Invalid authentication token"):
        ask("another")


def test_no_token_is_in_a_command_line(server: SparkConnectServer) -> None:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(b"SparkConnectServer" in line for line in lines)
    assert not any(server.token.encode() in line for line in lines)
