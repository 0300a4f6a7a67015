"""A pipeline without a sink on real servers, in processes that can import neither Spark nor what reads or judges tables."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import stack
from airflow_cdc.control.control import Control
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.position import mysql_position
from stack import connections
from stack.connect import DEBEZIUM_CLASS, ConnectWorker
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import wait_until
from tests.integration.blocked.sitecustomize import BLOCKED

# kafka-python reads its own message schemas with a deprecated call
pytestmark = pytest.mark.filterwarnings("ignore:(read_text|open_text) is deprecated:DeprecationWarning")

HERE = Path(__file__).parent
LATE_S = 180.0


@dataclass(frozen=True)
class Shop:
    """A pipeline of three parts, and how its commands are run."""

    name: str
    mysql: MySqlServer
    connect: ConnectWorker
    environment: dict[str, str]
    control: Control

    def python(self, *words: str, status: int = 0) -> tuple[str, str]:
        """A Python process with blocked imports; its output and what it said on stderr."""
        argv = [sys.executable, *words]
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=LATE_S, check=False)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout, done.stderr

    def cdc(self, *words: str, status: int = 0) -> Any:
        """The command `airflow cdc …`; its JSON, or its one line of error."""
        output = () if status == 2 else ("-o", "json")
        out, err = self.python("-m", "airflow", "cdc", *words, *output, status=status)
        return err if status == 2 else json.loads(out)

    def helper(self, *what: str) -> Any:
        """What tests/integration/no_sink_watch.py prints."""
        out, _ = self.python("-m", "tests.integration.no_sink_watch", self.name, *what)
        return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="session")
def mysql97(servers: stack.Stack) -> MySqlServer:
    """A MySQL that keeps its log while it is held; 8.0 does not."""
    settings = MySqlSettings(name="mysql-97", server_id=109, series="9.7")
    return servers.mysql.get(settings.name) or servers.add_mysql(settings)


@pytest.fixture
def shop(
    mysql97: MySqlServer, connect_worker: ConnectWorker, kafka: str, databases: Callable[..., str], tmp_path: Path
) -> Iterator[Shop]:
    """A connector that has copied one table and stands at the log's end; deleted after the test."""
    mysql = mysql97
    name = databases(mysql)
    mysql.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1)")
    config = {
        "connector.class": DEBEZIUM_CLASS,
        "database.hostname": mysql.host,
        "database.port": str(mysql.port),
        "database.user": mysql.debezium.user,
        "database.password": mysql.debezium.password,
        "database.server.id": "31007",
        "database.ssl.mode": "preferred",
        "driver.allowPublicKeyRetrieval": "true",
        "topic.prefix": name,
        "database.include.list": name,
        "schema.history.internal.kafka.bootstrap.servers": kafka,
        "schema.history.internal.kafka.topic": f"{name}.history",
        "heartbeat.interval.ms": "500",
    }
    connect_worker.call("PUT", f"/connectors/{name}/config", config)
    registry, state = tmp_path / "pipelines.yaml", tmp_path / "state.db"
    declared = {
        "source": {"kind": "mysql", "conn_id": "m", "tables": [f"{name}.t"]},
        "connector": {"kind": "debezium", "conn_id": "c", "name": name},
        "transport": {"kind": "kafka", "conn_id": "k"},
        "control": {"kind": "sql", "conn_id": "state"},
        "policy": {"recover_automatically": True, "alert": {"unknown_for": "1h"}},
    }
    registry.write_text(yaml.safe_dump({"pipelines": {name: declared}}))
    made = {
        "m": connections.to_mysql(mysql),
        "c": connections.to_connect(connect_worker.url),
        "k": connections.to_kafka(kafka),
        "state": {"conn_type": "sqlite", "host": str(state)},
    }
    environment = {
        **os.environ,
        **connections.variables(made),
        "PYTHONPATH": os.pathsep.join((str(HERE / "blocked"), str(HERE.parents[1]))),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CDC__REGISTRY": str(registry),
        "AIRFLOW__CDC__REPORT_DIR": str(tmp_path / "reports"),
        "AIRFLOW__CDC__CLI_USERS": "shell",
    }
    control = Control(SqlControlStore(SqlEndpoint("sqlite", str(state), options={"timeout": "30"})), name)
    one = Shop(name, mysql, connect_worker, environment, control)

    def copied() -> bool | None:
        found = connect_worker.call("GET", f"/connectors/{name}/offsets").get("offsets") or [{}]
        offset = found[0].get("offset") or {}
        return True if offset.get("gtids") and not offset.get("snapshot") else None

    wait_until(copied, timeout=90, what=f"{name} to have an offset", child=connect_worker.child)
    yield one
    connect_worker.call("DELETE", f"/connectors/{name}")


def test_its_imports_are_really_blocked(shop: Shop) -> None:
    for name in sorted(BLOCKED):
        _, said = shop.python("-c", f"import {name}", status=1)
        assert f"ModuleNotFoundError: {name} is blocked" in said


def test_it_is_diagnosed_forecast_and_watched(shop: Shop) -> None:
    name = shop.name
    diagnosis = shop.cdc("diagnose", name)
    assert (diagnosis["code"], diagnosis["plan"]["strategy"]) == ("HEALTHY", "none"), diagnosis
    forecast = shop.cdc("forecast", name)
    assert (forecast["pipeline"], forecast["at_risk"]) == (name, False)
    quiet = shop.helper("watch", "page")
    assert (quiet["watch"]["event"]["state"], quiet["watch"]["facts"]["alerts"]) == ("timeout", []), quiet
    assert quiet["page"] == {"code": "HEALTHY", "actions": [], "error": ""}

    # the position is lost: told once, and nothing is triggered that nobody could carry out
    shop.connect.call("PUT", f"/connectors/{name}/stop")

    def stopped() -> bool | None:
        return None if shop.connect.call("GET", f"/connectors/{name}/status")["tasks"] else True

    wait_until(stopped, timeout=LATE_S, what="the connector to stop: what it still reads is not lost")
    shop.mysql.execute(f"INSERT INTO {name}.t VALUES (2)", "FLUSH BINARY LOGS", f"INSERT INTO {name}.t VALUES (3)")
    newest = shop.mysql.execute("SHOW BINARY LOGS")[-1][0]
    shop.mysql.execute(f"PURGE BINARY LOGS TO '{newest}'")
    lost = shop.helper("watch", "diagnose", "page")
    facts = lost["watch"]["facts"]
    assert (lost["watch"]["event"]["state"], facts["diagnosis"]["code"], facts["recover"]) == (
        "problem",
        "GTID_PURGED",
        False,
    ), lost
    assert [alert["status"] for alert in facts["alerts"]] == ["firing"]
    assert "needs a sink, and this pipeline has none" in facts["plan"]["reason"]
    assert "needs a sink, and this pipeline has none" in lost["diagnose"]["refused"]
    assert lost["page"] == {"code": "GTID_PURGED", "actions": ["What to do"], "error": ""}
    again = shop.cdc("diagnose", name, status=1)
    assert (again["code"], again["plan"]["refused"]) == ("GTID_PURGED", True)


@pytest.mark.slow
def test_its_position_is_held_and_moved(shop: Shop) -> None:
    name = shop.name
    source = MySqlSource(MySqlEndpoint(shop.mysql.host, shop.mysql.port, shop.mysql.cdc.user, shop.mysql.cdc.password))
    argv = [sys.executable, "-m", "airflow", "cdc", "hold", name, "--seconds", "600", "-o", "json"]
    holding = subprocess.Popen(
        argv, env=shop.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert holding.stderr is not None
    said = holding.stderr.readline()
    holding.send_signal(signal.SIGINT)
    out, more = holding.communicate(timeout=LATE_S)
    assert said.startswith("the log is held for at most 600 s"), said + more
    assert (holding.returncode, json.loads(out)["blocks_purge"]) == (0, True), more

    before = shop.cdc("offset", "get", name)[0]["offset"]
    shop.mysql.execute(f"INSERT INTO {name}.t VALUES (2)")
    end = mysql_position(source.position().position)
    value = {"file": end.file, "pos": end.pos, "gtids": str(end.gtids), "ts_sec": 1}
    moved = shop.cdc("offset", "set", name, json.dumps(value), "--yes")
    assert moved["after"] == value
    assert shop.connect.call("GET", f"/connectors/{name}/status")["connector"]["state"] == "STOPPED"
    assert shop.cdc("offset", "get", name)[0]["offset"] == value
    (line,) = shop.control.state()["audit"]
    assert (line["what"], line["to"]) == ("offset", value)
    _, said = shop.python(
        "-m",
        "airflow",
        "cdc",
        "offset",
        "set",
        name,
        json.dumps({**value, "gtids": f"{uuid.uuid4()}:1-3"}),
        "--yes",
        status=1,
    )
    assert "a connector could not continue from there" in said
    assert shop.cdc("offset", "get", name)[0]["offset"] == value
    assert shop.control.state()["lease"] is None
    assert before != value


@pytest.mark.parametrize(
    "words",
    [
        ("recover",),
        *(
            pytest.param(words, marks=pytest.mark.slow)
            for words in (("recover", "--strategy", "diff_repair"), ("verify",), ("repair",), ("dead-letters", "list"))
        ),
    ],
    ids=" ".join,
)
def test_what_needs_a_sink_is_refused_in_one_line(shop: Shop, words: tuple[str, ...]) -> None:
    error = shop.cdc(*words, shop.name, status=2)
    assert error.count("\n") == 1, error
    assert "needs a sink, and this pipeline has none" in error
    assert not shop.control.state()["ledger"]


def test_the_doctor_asks_for_no_spark(shop: Shop) -> None:
    # 3: the database of this Airflow was never made, so whether its DAGs are paused is unknown
    out, _ = shop.python("-m", "airflow", "cdc", "doctor", shop.name, "-o", "json", status=3)
    checks = {(check["subject"], check["name"]): check for check in json.loads(out)}
    names = {name for _, name in checks}
    assert not names & {"pyspark", "java", "spark-submit", "spark"}
    assert checks[shop.name, "control"]["state"] == checks[shop.name, "sink"]["state"] == "ok"
    assert "database state.db" in checks[shop.name, "control"]["found"]
