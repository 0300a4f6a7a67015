"""An Airflow of their own for the unit tests: set up before anything imports airflow, gone with the test session."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import create_autospec

import pytest

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

    from tests.unit.operator_support import Ledger, Submitted

HOME = tempfile.TemporaryDirectory(prefix="cdc-unit-airflow-")
os.environ |= {
    "AIRFLOW_HOME": HOME.name,
    "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__FERNET_KEY": "f0uyVJeH4YQZJHXpNzqMtYKyRZnGDsAsnRGPeFwRZRo=",
    "AIRFLOW__CORE__DAGS_FOLDER": str(Path(__file__).parents[2] / "dags"),
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME.name}/airflow.db",
    "AIRFLOW__LOGGING__BASE_LOG_FOLDER": f"{HOME.name}/logs",
}

REGISTRY = """
pipelines:
  shop:
    source:    {kind: mysql, conn_id: shop_mysql, tables: [shop.customers, shop.orders]}
    connector: {kind: debezium, conn_id: shop_connect, name: shop}
    transport: {kind: kafka, conn_id: shop_kafka}
    sink:      {kind: iceberg, catalog: lake, namespace: shop, writer: cdc_apply}
    spark:     {conn_id: shop_spark}
"""

SECRETS = {"mysql": "s3cret-mysql", "connect": "s3cret-connect", "kafka": "s3cret-kafka", "lake": "s3cret-lake"}

CONNECTIONS = {
    "shop_mysql": f'{{"conn_type": "cdc_mysql", "host": "db", "login": "cdc", "password": "{SECRETS["mysql"]}"}}',
    "shop_connect": f'{{"conn_type": "kafka_connect", "host": "connect", "login": "u", "password": "{SECRETS["connect"]}"}}',
    "shop_kafka": '{"conn_type": "cdc_kafka", "login": "u", "password": "'
    + SECRETS["kafka"]
    + '", "extra": {"bootstrap.servers": "broker:9092", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}}',
    "lake": '{"conn_type": "iceberg_catalog", "password": "'
    + SECRETS["lake"]
    + '", "extra": {"type": "sql", "uri": "sqlite:///:memory:", "warehouse": "file:///tmp/none"}}',
    "shop_spark": '{"conn_type": "spark", "host": "local[1]"}',
}


@pytest.fixture(scope="session")
def airflow_db() -> Path:
    """Airflow's database, with its tables."""
    from airflow.utils.db import initdb

    initdb()
    return Path(HOME.name)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The pipeline's connections, as Airflow finds them in the environment."""
    for conn_id, text in CONNECTIONS.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)
    return CONNECTIONS


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry with one pipeline, `shop`, and a folder for its reports."""
    path = tmp_path / "pipelines.yaml"
    path.write_text(REGISTRY)
    monkeypatch.setenv("AIRFLOW__CDC__REGISTRY", str(path))
    monkeypatch.setenv("AIRFLOW__CDC__REPORT_DIR", str(tmp_path / "reports"))
    return path


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch, connections: dict[str, str], registry: Path) -> Callable[..., Any]:
    """Put an autospecced step in the place of `module.name`, answering `facts` (or raising it)."""
    real: dict[tuple[Any, str], Any] = {}

    def patched(module: Any, name: str, facts: Any) -> Any:
        made = create_autospec(real.setdefault((module, name), getattr(module, name)))
        if isinstance(facts, Exception):
            made.side_effect = facts
        else:
            made.return_value = facts
        monkeypatch.setattr(module, name, made)
        return made

    return patched


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch, step: Any, tmp_path: Path) -> Ledger:
    """The run of the operators under test keeps its ledger here."""
    # Airflow may only be imported once its settings above stand
    from airflow_cdc.operators import base
    from tests.unit.operator_support import Ledger, fake_run

    made = Ledger()
    run = fake_run(made, tmp_path / "reports")
    monkeypatch.setattr(base, "open_run", create_autospec(base.open_run, return_value=run))
    return made


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, connections: dict[str, str], registry: Path) -> Submitted:
    """spark-submit, seen from its command line."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from airflow_cdc.flows import lease
    from tests.unit.operator_support import Submitted

    made = Submitted()
    monkeypatch.setattr(lease, "free_dead", lambda run: made.freed.append(run.run_id))  # no catalog is there
    monkeypatch.setattr(
        SparkSubmitHook, "submit", lambda hook, application="", **kw: made.submit(hook, application, **kw)
    )
    return made


class Answer:
    """What a command printed, and its exit status."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out
        self.err = err

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def cdc(capsys: pytest.CaptureFixture[str], connections: dict[str, str], registry: Path) -> Callable[..., Answer]:
    """Run `airflow cdc …`."""
    from airflow.cli import cli_parser

    def run(*words: str) -> Answer:
        def called() -> None:
            args = cli_parser.get_parser().parse_args(["cdc", *words])
            args.func(args)

        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            called()
        captured = capsys.readouterr()
        code = ended.value.code
        return Answer(code if isinstance(code, int) else -1, captured.out, captured.err)

    return run


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Put an autospecced function in the place of `module.name`."""
    real: dict[tuple[Any, str], Any] = {}

    def patched(module: Any, name: str, answer: Any) -> Any:
        made = create_autospec(real.setdefault((module, name), getattr(module, name)))
        made.side_effect, made.return_value = (answer, None) if isinstance(answer, Exception) else (None, answer)
        monkeypatch.setattr(module, name, made)
        return made

    return patched


@pytest.fixture
def web(
    airflow_db: Path, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str | None], TestClient]]:
    """A browser signed in with a role of the simple auth manager; None: not signed in; "": signed in without a right."""
    from airflow.api_fastapi import app as airflow_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from airflow_cdc.plugin import PREFIX, CdcPlugin

    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "0123456789abcdef" * 4)
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(registry.parent / "passwords.json"))
    root = FastAPI()
    root.mount(PREFIX, CdcPlugin.fastapi_apps[0]["app"])
    manager = airflow_app.init_auth_manager(root)

    def signed_in(role: str | None) -> TestClient:
        client = TestClient(root, base_url="http://airflow.example", follow_redirects=False)
        if role is not None:
            token = manager.generate_jwt(SimpleAuthManagerUser(username="u", role=role or None))
            client.cookies.set("_token", token)
        return client

    yield signed_in
    airflow_app.purge_cached_app()
