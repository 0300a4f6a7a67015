"""The commands over a pipeline with Canal and without a sink, on MySQL 9.7, which keeps its log while it is held.

Canal asks `show master status`, which that server does not know: it is given its start.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import stack
from stack import connections
from stack.canal import CanalServer, CanalSettings, make_canal
from stack.mysql import MySqlServer, MySqlSettings
from stack.process import wait_until
from tests.integration.canal.support import take_start_away
from tests.paths import ROOT

pytestmark = pytest.mark.slow

LATE_S = 180.0


@dataclass(frozen=True)
class Shop:
    """A pipeline in a registry, and its servers."""

    name: str
    mysql: MySqlServer
    canal: CanalServer
    environment: dict[str, str]

    def cdc(self, *words: str, status: int = 0) -> Any:
        """The JSON of `airflow cdc …`."""
        argv = [sys.executable, "-m", "airflow", "cdc", *words, "-o", "json"]
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=LATE_S, check=False)
        assert done.returncode == status, (words, done.returncode, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def end(self) -> tuple[str, int]:
        file, position, *_ = self.mysql.execute("SHOW BINARY LOG STATUS")[0]
        return str(file), int(position)

    def insert(self, number: int) -> None:
        self.mysql.execute(f"INSERT INTO {self.name}.t VALUES ({number})")


@pytest.fixture(scope="session")
def mysql97(servers: stack.Stack) -> MySqlServer:
    settings = MySqlSettings(name="mysql-97", server_id=109, series="9.7")
    return servers.mysql.get(settings.name) or servers.add_mysql(settings)


@pytest.fixture
def shop(mysql97: MySqlServer, kafka: str, databases: Callable[..., str], tmp_path: Path) -> Iterator[Shop]:
    """Canal has stored a cursor, and runs."""
    name = databases(mysql97)
    mysql97.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    file, position, *_ = mysql97.execute("SHOW BINARY LOG STATUS")[0]
    address = f"{mysql97.host}:{mysql97.port}"
    filters = {"canal.instance.filter.regex": rf"{name}\..*"}
    settings = CanalSettings(name, address, mysql97.debezium, kafka, name, (str(file), int(position)), "", filters)
    canal = make_canal(tmp_path / "canal", settings)
    words = {word: shlex.join(argv) for word, argv in canal.commands().items()}
    declared = {
        "source": {"kind": "mysql", "conn_id": "m", "tables": [f"{name}.t"]},
        "connector": {
            "kind": "canal",
            "conn_id": "c",
            "name": name,
            "conf": str(canal.conf),
            "log": str(canal.log),
            **words,
        },
        "transport": {"kind": "kafka", "conn_id": "k"},
        "control": {"kind": "sql", "conn_id": "state"},
    }
    registry = tmp_path / "pipelines.yaml"
    registry.write_text(yaml.safe_dump({"pipelines": {name: declared}}))
    known = {
        "m": connections.to_mysql(mysql97),
        "c": {"conn_type": "canal", "host": "localhost"},
        "k": connections.to_kafka(kafka),
        "state": {"conn_type": "sqlite", "host": str(tmp_path / "state.db")},
    }
    environment = {
        **os.environ,
        **connections.variables(known),
        "PYTHONPATH": str(ROOT),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CDC__REGISTRY": str(registry),
        "AIRFLOW__CDC__REPORT_DIR": str(tmp_path / "reports"),
        "AIRFLOW__CDC__CLI_USERS": "shell",
    }
    one = Shop(name, mysql97, canal, environment)
    try:
        canal.start()
        one.insert(1)
        wait_until(lambda: canal.meta.exists() or None, timeout=60, what="a cursor", child=canal.child)
        yield one
    finally:
        canal.stop()


@pytest.mark.minutes
def test_it_is_diagnosed_forecast_held_and_moved(shop: Shop) -> None:
    name = shop.name
    healthy = shop.cdc("diagnose", name)
    assert (healthy["code"], healthy["plan"]["strategy"]) == ("HEALTHY", "none"), healthy
    assert shop.cdc("forecast", name)["at_risk"] is False
    # 3: the database of this Airflow was never made, so whether its DAGs are paused is unknown
    checks = {one["name"]: one["state"] for one in shop.cdc("doctor", name, status=3) if one["subject"] == name}
    assert checks["connector"] == "ok", checks
    assert "fail" not in checks.values(), checks

    argv = [sys.executable, "-m", "airflow", "cdc", "hold", name, "--seconds", "600", "-o", "json"]
    holding = subprocess.Popen(
        argv, env=shop.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert holding.stderr is not None
    said = holding.stderr.readline()
    holding.send_signal(signal.SIGINT)
    out, more = holding.communicate(timeout=LATE_S)
    assert said.startswith("the log is held for at most 600 s"), said + more
    assert json.loads(out)["blocks_purge"] is True

    before = shop.cdc("offset", "get", name)[0]["offset"]
    shop.insert(2)
    file, position = shop.end()
    value = {**before, "postion": {**before["postion"], "journalName": file, "position": position}}
    moved = shop.cdc("offset", "set", name, json.dumps(value), "--yes")
    assert moved["after"] == value
    assert not shop.canal.alive
    assert shop.cdc("offset", "get", name)[0]["offset"] == value
    assert json.loads(shop.canal.meta.read_bytes())["clientDatas"][0]["cursor"] == value
    stopped = shop.cdc("diagnose", name, status=1)
    assert stopped["code"] == "CONNECTOR_STOPPED", stopped
    # what stood there when Canal was stopped: it may have sent row 2 before that
    assert shop.cdc("offset", "restore", name, "--yes")["after"] == moved["before"]

    # a server without `show master status`, and settings without a start: only its cursor lets Canal begin there
    take_start_away(shop.canal)
    shop.canal.start()
    warned = shop.cdc("diagnose", name, status=1)
    assert (warned["code"], "show master status" in warned["evidence"]["version"]) == (
        "CONNECTOR_MISCONFIGURED",
        True,
    ), warned
    shop.canal.stop()
    shop.canal.meta.unlink()
    shop.canal.start()
    wait_until(
        lambda: "errorNumber=1064" in shop.canal.log.read_text() or None,
        timeout=60,
        what="Canal to fail",
        child=shop.canal.child,
    )
    lost = shop.cdc("diagnose", name, status=1)
    assert lost["code"] == "NEW_PIPELINE", lost
    assert "changes before it are lost" in lost["evidence"]["without a cursor Canal begins at"]
