"""`spark.mode: connect`: the driver is plain Python, its token is in the private file alone, and what can't run there is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc import spark_main
from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.operators import spark
from airflow_cdc.operators.spark_connect import CLASSIC_ONLY, ConnectDriver
from airflow_cdc.spark_apps.driver.connect import Remote
from airflow_cdc.spark_apps.driver.session import LATE_JVM
from tests.unit.operator_support import Submitted, context

TOKEN = "s3cret-of-the-server"
MAIN = str(Path(spark_main.__file__).resolve())


def operator(**kwargs: Any) -> spark.CdcSparkOperator:
    return spark.CdcSparkOperator(**{"task_id": "t", "app": "recover", "pipeline": "shop", **kwargs})


def server(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """The connection of a server."""
    known = {"conn_type": "spark_connect", "host": "localhost", "port": 15002, "password": TOKEN, **more}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", json.dumps(known))


def remote(registry: Path, more: str = "", sink: str = "", apply: str = "") -> None:
    """Give the registry's pipeline the mode, and further keys."""
    text = registry.read_text().replace("{conn_id: shop_spark}", f"{{conn_id: shop_spark, mode: connect{more}}}{apply}")
    registry.write_text(
        text.replace("{kind: iceberg, catalog: lake, namespace: shop, writer: cdc_apply}", sink) if sink else text
    )


def test_a_driver_is_python_alone_and_its_token_is_in_the_private_file(
    submitted: Submitted, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote(registry)
    server(monkeypatch, login="me", extra={"use_ssl": False})
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", "/jars/a.jar")
    task = operator()
    for _ in range(2):  # a retry uses the operator again
        assert task.execute(context()) == {"rows": 3}
        assert submitted.command == [sys.executable, MAIN, "recover", "--settings", str(submitted.path)]
        assert submitted.settings["connect"] == {
            "url": "sc://localhost:15002/;user_id=me;use_ssl=False",
            "token": TOKEN,
        }
        assert submitted.env == {"PYTHONUNBUFFERED": "1"}
        assert submitted.modes == (0o600, 0o700)


def test_without_the_mode_nothing_is_said_of_a_server(submitted: Submitted) -> None:
    operator().execute(context())
    assert "connect" not in submitted.settings
    assert submitted.env[LATE_JVM] == "1"


@pytest.mark.parametrize("app", CLASSIC_ONLY)
def test_applications_that_need_a_spark_of_their_own_are_refused(
    app: str, submitted: Submitted, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote(registry)
    server(monkeypatch)
    with pytest.raises(ConfigError, match=f"{app} does not run on a Spark Connect server"):
        operator(app=app).execute(context())
    assert submitted.command == []


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ({"conn_type": "spark"}, "is no spark_connect with a host"),
        ({"host": ""}, "is no spark_connect with a host"),
        ({"host": "127.0.0.1"}, "by the name localhost"),
        ({"host": "spark.example"}, "by the name localhost"),
    ],
)
def test_a_connection_that_cannot_be_used_is_named(
    connection: dict[str, str], said: str, submitted: Submitted, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote(registry)
    server(monkeypatch, **connection)
    with pytest.raises(ConfigError, match=said) as raised:
        operator().execute(context())
    assert TOKEN not in str(raised.value)
    assert submitted.command == []


def test_a_token_goes_elsewhere_by_tls(submitted: Submitted, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote(registry)
    server(monkeypatch, host="spark.example", extra={"use_ssl": True})
    operator().execute(context())
    assert submitted.settings["connect"] == {"url": "sc://spark.example:15002/;use_ssl=True", "token": TOKEN}
    assert TOKEN not in repr(Remote.from_json(submitted.settings["connect"]))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"more": ", python: /opt/python"}, "spark.python starts a Spark of its own"),
        (
            {
                "sink": "{kind: hudi, path: /lake, namespace: shop, table_type: merge-on-read}\n    control: {kind: sql, conn_id: c}"
            },
            "Apache Hudi is written by Spark 3.5",
        ),
        ({"apply": "\n    apply: {mode: continuous}"}, "a continuous apply keeps a Spark of its own"),
    ],
)
def test_what_needs_a_spark_of_its_own_is_refused_by_name_where_it_is_declared(
    more: dict[str, str], said: str, registry: Path
) -> None:
    remote(registry, **more)
    with pytest.raises(ConfigError, match=said) as raised:
        load_registry(registry)["shop"]
    assert "spark.mode: connect" in raised.value.what


def test_a_killed_task_lets_its_driver_end_what_runs_on_the_server(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (open(sys.argv[1], 'w').close(), sys.exit()))\n"
    hook = ConnectDriver(application_args=[])
    with subprocess.Popen(
        [sys.executable, "-c", f"{script}print('ready', flush=True)\ntime.sleep(60)", str(ended)],
        stdout=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stdout is not None
        driver.stdout.readline()
        hook._submit_sp = driver
        hook.on_kill()
        assert driver.poll() == 0
    assert ended.exists()
