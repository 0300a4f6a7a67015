"""A decision, a context and a ledger: what the operators under test are given."""

from __future__ import annotations

import json
import shlex
import stat
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from airflow_cdc import spark_main
from airflow_cdc.core.errors import (
    SinkError,
)
from airflow_cdc.core.observation import ControlFacts
from airflow_cdc.flows.run import Run
from tests.unit.builders import PIPELINE

DECISION: dict[str, Any] = {
    "pipeline": "shop",
    "pipeline_hash": "h",
    "tables": ["shop.orders"],
    "taken_at": "2026-11-21T09:00:00+00:00",
    "note": "",
    "diagnosis": {
        "code": "BINLOG_PURGED",
        "description": "The binlog was purged.",
        "evidence": {"oldest file": "binlog.000009"},
        "strategies": ["full_snapshot"],
        "runbook": "http://localhost:8080/cdc/runbook#binlog_purged",
    },
    "plan": {
        "strategy": "full_snapshot",
        "steps": [],
        "data_loss": "nothing",
        "destructive": False,
        "needs_approval": False,
        "reason": "BINLOG_PURGED: read again",
        "refused": False,
    },
}


def decided(code: str = "BINLOG_PURGED", **plan: Any) -> dict[str, Any]:
    """A decision with some of its plan replaced."""
    return {**DECISION, "diagnosis": {**DECISION["diagnosis"], "code": code}, "plan": {**DECISION["plan"], **plan}}


class TaskInstance:
    """The part of a running task instance that operators use."""

    def __init__(self, xcom: dict[str, Any] | None = None) -> None:
        self.xcom = xcom or {}
        self.try_number = 1
        self.dag_id = "cdc_recovery"
        self.run_id = "r"
        self.task_id = "approve"
        self.map_index = -1
        self.pushed: dict[str, Any] = {}

    def xcom_pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self.xcom.get(task_ids if key == "return_value" else f"{task_ids}.{key}")

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


class Task:
    """A task of a DAG with one task after it."""

    is_teardown = False
    dag = SimpleNamespace(tasks=())
    rest: list[Any] = []  # noqa: RUF012 - filled below, with a task

    def get_flat_relatives(self, upstream: bool) -> list[Any]:
        return [] if upstream else Task.rest


Task.rest.append(Task())


def context(xcom: dict[str, Any] | None = None, **params: Any) -> Context:
    made = {
        "run_id": "manual__1",
        "ti": TaskInstance(xcom),
        "params": params,
        "task": Task(),
        "outlet_events": defaultdict(Events),
    }
    return cast("Context", made)


def ti(made: Context) -> TaskInstance:
    return cast("TaskInstance", made["ti"])


class Events:
    """The asset events of one outlet."""

    def __init__(self) -> None:
        self.added: list[tuple[str, dict[str, Any]]] = []

    def add(self, asset: Any, extra: dict[str, Any]) -> None:
        self.added.append((asset.uri, extra))


class Ledger:
    """A control table of which only the ledger is used."""

    def __init__(self, **kept: Any) -> None:
        self.kept: dict[str, Any] = kept
        self.broken = False

    def ledger_get(self, run_id: str) -> dict[str, Any]:
        if self.broken:
            raise SinkError("the catalog is away")
        return dict(self.kept)

    def facts(self) -> ControlFacts:
        return ControlFacts(1)

    def ledger_set(self, run_id: str, key: str, value: Any) -> None:
        self.kept[key] = value


def shown(operator: Any) -> dict[str, str]:
    return {link.name: link.get_link(operator, ti_key=cast("Any", None)) for link in operator.operator_extra_links}


class Submitted:
    """What spark-submit was given, and what the driver finds there."""

    def __init__(self) -> None:
        self.command: list[str] = []
        # of spark-submit, which starts the driver or only its JVM
        self.options: list[str] = []
        self.env: dict[str, str] = {}
        self.settings: dict[str, Any] = {}
        self.modes: tuple[int, int] = (0, 0)
        self.path = Path()
        self.result: dict[str, Any] = {"rows": 3}
        self.fails = False
        self.says = "Cannot execute: spark-submit. Error code is: 1."
        self.freed: list[str] = []

    def submit(self, hook: SparkSubmitHook, application: str = "", **kwargs: Any) -> None:
        self.command = hook._build_spark_submit_command(application)
        self.env = dict(hook._env or {})
        own = self.env.get("PYSPARK_SUBMIT_ARGS")
        self.options = shlex.split(own) if own else self.command[1 : self.command.index(application)]
        self.path = Path(self.command[-1])
        self.modes = stat.S_IMODE(self.path.stat().st_mode), stat.S_IMODE(self.path.parent.stat().st_mode)
        self.settings = json.loads(self.path.read_text())
        (self.path.parent / spark_main.RESULT_NAME).write_text(json.dumps(self.result))
        if self.fails:
            raise AirflowException(self.says)


def fake_run(ledger: Ledger, reports: Path) -> Run:
    """A run of which only the control table and the report folder are used."""
    clients = cast("Any", type("Parts", (), {"control": ledger}))
    return Run(PIPELINE, clients, "manual__1", str(reports))


def environment(folder: Path, package: str, pyspark: str | None) -> Path:
    """A Python that finds this package in some version, and a pyspark or none."""
    (folder / "airflow_cdc").mkdir(parents=True)
    (folder / "airflow_cdc" / "__init__.py").write_text(f"__version__ = {package!r}\n")
    (folder / "airflow_cdc" / "spark_main.py").touch()
    if pyspark:
        (folder / "pyspark.py").write_text(f"__version__ = {pyspark!r}\n")
    python = folder / "bin" / "python"
    python.parent.mkdir()
    # -I leaves out PYTHONPATH; -S this environment's own packages
    python.write_text(
        f'#!/bin/sh\nshift 2\nexec {sys.executable} -I -S -c "import sys; sys.path.insert(0, \'{folder}\'); exec(sys.argv[1])" "$1"\n'
    )
    python.chmod(0o755)
    return python


def declared(registry: Path, python: object, more: str = "") -> None:
    """Give the registry's pipeline the keys of another Spark."""
    text = registry.read_text()
    registry.write_text(text.replace("{conn_id: shop_spark}", f"{{conn_id: shop_spark, python: {python}{more}}}"))
