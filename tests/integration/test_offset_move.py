"""A position moved by hand, on a real connector: refused where the source cannot follow, written where it can, undone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import stack
from airflow_cdc.cli.permission import TOKEN
from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.connectors.debezium.kind import DebeziumSettings
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.connectors.kafka_connect.client import ConnectEndpoint
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import OffsetRejectedError
from airflow_cdc.core.pipeline import Pipeline
from airflow_cdc.flows.move_offset import last_before, move, stored
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from airflow_cdc.sinks.iceberg.kind import IcebergSettings
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.kind import MySqlSettings
from airflow_cdc.sources.mysql.position import mysql_position
from airflow_cdc.transports.kafka.client import KafkaEndpoint, KafkaTransport
from airflow_cdc.transports.kafka.kind import KafkaSettings
from stack import connections
from stack.airflow import AirflowServer, AirflowSettings
from stack.connect import DEBEZIUM_CLASS, ConnectWorker
from stack.mysql import MySqlServer
from stack.process import wait_until

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")


@pytest.fixture
def run(
    mysql: MySqlServer,
    connect_worker: ConnectWorker,
    kafka: str,
    lake_properties: dict[str, str],
    databases: Callable[..., str],
) -> Any:
    """A pipeline with a connector that has copied one table and stands at the log's end; deleted after the test."""
    name = databases()
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1)")
    config = {
        "connector.class": DEBEZIUM_CLASS,
        "database.hostname": mysql.host,
        "database.port": str(mysql.port),
        "database.user": mysql.debezium.user,
        "database.password": mysql.debezium.password,
        "database.server.id": "31001",
        "database.ssl.mode": "preferred",
        "driver.allowPublicKeyRetrieval": "true",
        "topic.prefix": name,
        "database.include.list": name,
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": f"{name}.history",
        "heartbeat.interval.ms": "500",
        "connect.keep.alive.interval.ms": "500",
    }
    connect_worker.call("PUT", f"/connectors/{name}/config", config)
    login = mysql.cdc
    lake = Lake("lake", lake_properties)
    pipeline = Pipeline(
        name,
        MySqlSettings("mysql", "m", (f"{name}.t",)),
        DebeziumSettings("debezium", "c", name),
        KafkaSettings("kafka", "k"),
        IcebergSettings("iceberg", name, "lake"),
    )
    clients = Parts(
        MySqlSource(MySqlEndpoint(mysql.host, mysql.port, login.user, login.password)),
        DebeziumConnector(ConnectEndpoint(connect_worker.url), MySqlCodec()),
        KafkaTransport(KafkaEndpoint(kafka)),
        lake,
        Control(IcebergControlStore(lake), name),
    )
    made = Run(pipeline, clients, "cli", "/reports")

    def copied() -> bool | None:
        offset = stored(made)["offset"]
        return True if offset and offset.get("gtids") and not offset.get("snapshot") else None

    wait_until(copied, timeout=90, what=f"{name} to have an offset", child=connect_worker.child)
    yield made
    connect_worker.call("DELETE", f"/connectors/{name}")


def test_a_move_is_judged_written_and_undone(run: Run, mysql: MySqlServer) -> None:
    name = run.pipeline.name
    run.clients.connector.stop(name)
    before = stored(run)["offset"]
    mysql.execute(f"INSERT INTO {name}.t VALUES (2)")
    end = mysql_position(run.clients.source.position().position)
    value = {"file": end.file, "pos": end.pos, "gtids": str(end.gtids), "ts_sec": 1}

    for wrong, code in (
        ({**value, "file": "mysql-bin.999999", "gtids": None}, "POSITION_AHEAD"),
        ({**value, "gtids": None}, "GTID_MISSING_IN_OFFSET"),
        ({**value, "gtids": f"{end.gtids},3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3"}, "GTID_NOT_CONTAINED"),
    ):
        asked = {key: part for key, part in wrong.items() if part is not None}
        with pytest.raises(OffsetRejectedError) as refused:
            move(run, asked, who="ann@desk", shown=before)
        assert refused.value.reasons == (code,)
        assert stored(run)["offset"] == before

    done = move(run, value, who="ann@desk", shown=before)
    assert "skips" in done["moves"]
    assert stored(run)["offset"] == value
    with pytest.raises(OffsetRejectedError, match="somebody else changed"):
        move(run, before, who="bob@desk", shown=before)  # decided on what stood there before ann came

    move(run, last_before(run), who="ann@desk", shown=value)
    assert stored(run)["offset"] == before
    run.clients.connector.resume(name)
    run.clients.connector.wait_running(name)


@pytest.fixture
def airflow(run: Run, lake_properties: dict[str, str], tmp_path: Path) -> Iterator[AirflowServer]:
    """An Airflow that knows the pipeline, with an operator `olga` and a `vera` who may only look."""
    (tmp_path / "dags").mkdir()
    registry = tmp_path / "pipelines.yaml"
    registry.write_text(yaml.safe_dump({"pipelines": {run.pipeline.name: declared(run)}}))
    made = {**addresses(run), "lake": connections.to_lake(lake_properties)}
    env = {**connections.variables(made), "AIRFLOW__CDC__REGISTRY": str(registry), "AIRFLOW__CDC__CLI_USERS": "token"}
    settings = AirflowSettings(tmp_path / "dags", env, users={"olga": "op", "vera": "viewer"})
    with stack.start(tmp_path / "s", (), airflow_settings=lambda _: settings) as own:
        assert own.airflow is not None
        yield own.airflow


def declared(run: Run) -> dict[str, Any]:
    """The pipeline as it stands in the registry."""
    return {key: value for key, value in run.pipeline.to_json().items() if key != "name"}


def addresses(run: Run) -> dict[str, connections.Connection]:
    """The connections to its servers, by id."""
    source: Any = run.clients.source.endpoint
    connect: Any = run.clients.connector.endpoint
    kafka: Any = run.clients.transport.endpoint
    return {
        "m": connections.to_source(source.host, source.port, source.user, source.password),
        "c": connections.to_connect(connect.url),
        "k": connections.to_kafka(kafka.bootstrap),
    }


@pytest.mark.slow
def test_only_an_airflow_user_who_may_recover_moves_an_offset_and_the_audit_names_them(
    run: Run, airflow: AirflowServer
) -> None:
    """Airflow's own tokens, given by its API server; the command as its user types it."""
    before = stored(run)["offset"]
    end = mysql_position(run.clients.source.position().position)
    value = {"file": end.file, "pos": end.pos, "gtids": str(end.gtids), "ts_sec": 1}

    def command(token: str) -> subprocess.CompletedProcess[str]:
        words = ("cdc", "offset", "set", run.pipeline.name, json.dumps(value), "--yes")
        env = {**airflow.environment, TOKEN: token}
        argv = [sys.executable, "-m", "airflow", *words]
        return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)

    vera = airflow.client("vera").token()
    for token, reason in (("", "token of an Airflow user"), (vera, "user vera may not trigger cdc_recovery")):
        refused = command(token)
        assert (refused.returncode, reason in refused.stderr) == (2, True), refused.stderr
        assert stored(run)["offset"] == before
    assert not run.clients.control.state()["audit"]

    olga = airflow.client("olga").token()
    done = command(olga)
    assert done.returncode == 0, done.stderr
    assert stored(run)["offset"] == value
    (line,) = run.clients.control.state()["audit"]
    assert line["who"].startswith("olga (")
    assert (line["from"], line["to"], bool(line["at"])) == (before, value, True)
    assert not [text for text in (done.stdout, done.stderr) if olga in text or vera in text]
