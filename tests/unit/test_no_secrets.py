"""No credential where people read: what objects print of themselves, templates as rendered, messages of failures."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

import pytest

from airflow_cdc.config.registry import load_registry
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.pipeline import sink_name
from airflow_cdc.flows import hold as holding
from airflow_cdc.hooks.endpoints import resolve_endpoints
from airflow_cdc.operators import base, hold
from airflow_cdc.spark_apps.driver.app import explained
from tests.unit.conftest import SECRETS
from tests.unit.operator_support import context
from tests.unit.operators.test_operators import STEPS

OPERATORS = [*STEPS, (holding, "hold", hold.HoldBinlogOperator)]


def shows_none(text: str) -> None:
    assert not [name for name, secret in SECRETS.items() if secret in text]


@pytest.mark.parametrize(("module", "name", "operator"), OPERATORS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_failed_task_shows_none(module: Any, name: str, operator: Any, step: Any) -> None:
    """The traceback with the values of each frame, the rendered templates, and all that the operator keeps."""
    step(module, name, RuntimeError("what no one foresaw"))
    task = operator(task_id="t", pipeline="shop")
    with pytest.raises(RuntimeError) as caught:
        task.execute(context(note="why"))
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    shows_none("".join(shown.format()))
    shows_none(json.dumps({field: getattr(task, field) for field in task.template_fields}, default=repr))
    shows_none(repr(vars(task)))


def test_what_a_run_is_made_of_prints_none(connections: dict[str, str], registry: Path) -> None:
    pipeline = load_registry(registry)["shop"]
    run = base.open_run(pipeline, "manual__1")
    parts = [run, run.clients, *(getattr(run.clients, name) for name in run.clients.__slots__)]
    parts += [resolve_endpoints(pipeline), run.clients.source.hold("run")]
    for part in parts:
        shows_none(f"{part!r} {part}")


def test_a_failed_spark_job_is_told_without_the_passwords_in_its_trace() -> None:
    from pyspark.errors import PySparkException

    trace = "java.sql.SQLException: no\nCaused by: x: jdbc:mysql://cdc:s3cret-mysql@db/?password=s3cret-connect&a=1"
    with pytest.raises(SourceError) as caught, explained(SourceError, "read", where="db", todo="See."):
        raise PySparkException(trace)
    shows_none(f"{caught.value} {caught.value.to_json()}")
    assert "jdbc:mysql" in caught.value.what


def test_names_of_sink_tables_are_plain_and_never_the_same() -> None:
    assert sink_name("orders_2") == "orders_2"
    odd = [sink_name(name) for name in ("my table", "my`table", "my_table", 'my"table', "../my")]
    assert len(set(odd)) == len(odd)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_") for name in odd)


def test_what_a_control_database_is_given_is_not_shown() -> None:
    endpoint = SqlEndpoint("postgresql+psycopg", "cdc", "db", password="hunter2", options={"sslpassword": "hunter3"})
    assert "hunter" not in repr(endpoint)
