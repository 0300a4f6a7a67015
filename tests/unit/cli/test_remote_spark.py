"""The doctor's look at a Spark Connect server: the process that asks it is a stand-in."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.cli import checks, commands, remote_spark
from airflow_cdc.config.registry import load_registry
from airflow_cdc.kinds import jars_for

TOKEN = "s3cret-of-the-server"
ANSWERS = {"spark": "4.1.3", "tasks": 2, "missing": [], "python": "Python 3.11.7, pyarrow 26.0.1"}


class Asked:
    """Takes the place of the process."""

    def __init__(self, reply: object, stderr: str = "") -> None:
        self.stdout, self.stderr = json.dumps(reply) if reply else "", stderr
        self.command: list[str] = []
        self.settings: dict[str, Any] = {}

    def run(self, command: list[str], *, input: str, **_: Any) -> Any:  # noqa: A002 - as subprocess.run
        self.command, self.settings = command, json.loads(input)
        return SimpleNamespace(stdout=self.stdout, stderr=self.stderr, returncode=0)


@pytest.fixture
def shop(airflow_db: Path, registry: Path, connections: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The pipeline, on a server."""
    text = registry.read_text()
    registry.write_text(text.replace("{conn_id: shop_spark}", "{conn_id: shop_spark, mode: connect}"))
    conn = {"conn_type": "spark_connect", "host": "localhost", "password": TOKEN}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", json.dumps(conn))
    return load_registry(registry)["shop"]


def found(shop: Any, monkeypatch: pytest.MonkeyPatch, asked: Asked) -> list[tuple[str, str, str]]:
    monkeypatch.setattr(subprocess, "run", asked.run)
    named = checks.pipeline_airflow_checks(shop)
    return [(one.name, one.state, one.found) for one in named if one.name in {"jars", remote_spark.NAME}]


def test_a_server_with_all_that_is_needed_is_good_and_what_it_does_not_run_is_said(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(ANSWERS)
    server, jars, left = found(shop, monkeypatch, asked)
    assert server == (
        "spark connect",
        "ok",
        "Spark 4.1.3, 2 tasks at once, Python 3.11.7, pyarrow 26.0.1; experimental",
    )
    assert jars[:2] == ("jars", "ok")
    assert left == ("spark connect", "warn", "it runs no nightly, backfill, maintain")
    assert asked.settings["connect"] == {"url": "sc://localhost/", "token": TOKEN}
    assert TOKEN not in " ".join(asked.command)
    assert {need.entry for need in jars_for([shop])} <= set(asked.settings["jars"])


def test_a_jar_that_the_server_does_not_find_is_named(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    need = jars_for([shop])[0]
    results = found(shop, monkeypatch, Asked({**ANSWERS, "missing": [need.entry]}))
    assert ("jars", "bad", f"the server does not find {need.artifact}, which {need.why}") in results


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            Asked({"error": {"error": "ConfigError", "what": "has Spark 4.0.1", "where": "sc://x"}}),
            "has Spark 4.0.1 (sc://x)",
        ),
        (Asked(None, "Traceback\nImportError: no grpc"), "ImportError: no grpc (sc://localhost/)"),
    ],
)
def test_a_server_that_cannot_be_used_is_bad(
    asked: Asked, said: str, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(shop, monkeypatch, asked) == [("spark connect", "bad", said)]


def test_a_worker_of_such_pipelines_alone_needs_no_java(shop: Any, spec: Any, cdc: Any) -> None:
    doctor = spec(commands, "doctor_installation", [])
    spec(commands, "doctor_pipeline", [])
    spec(commands, "pipeline_airflow_checks", [])
    cdc("doctor", "shop", "-o", "json")
    doctor.assert_called_once_with(mirrors=False)
