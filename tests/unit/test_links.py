"""Whoever is told of a problem gets an address that a browser opens, on the page that comes with the wheel."""

from __future__ import annotations

import ast
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import airflow_cdc
from airflow_cdc.cli import commands
from airflow_cdc.flows import decide
from airflow_cdc.links import runbook_url
from airflow_cdc.operators import approval, base, diagnose
from airflow_cdc.plugin import PREFIX
from tests.unit.builders import HEALTHY, PROBLEMS
from tests.unit.conftest import Answer
from tests.unit.operator_support import DECISION, Ledger, context

AIRFLOW = "https://airflow.example"
PURGED = f"{AIRFLOW}/cdc/runbook#binlog_purged"
PACKAGE = Path(airflow_cdc.__file__).parent


@pytest.fixture(autouse=True)
def base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", f"{AIRFLOW}/")


def test_explain_leads_to_the_page(cdc: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    log = "Could not find first log file name in binary log index file"
    monkeypatch.setattr("sys.stdin", io.StringIO(log))
    assert cdc("explain", "-o", "json").data["runbook"] == PURGED


@pytest.mark.parametrize("form", ["json", "table"])
def test_diagnose_leads_to_the_page(form: str, cdc: Callable[..., Answer], spec: Any) -> None:
    spec(commands, "observe", HEALTHY)
    assert f"{AIRFLOW}/cdc/runbook#healthy" in cdc("diagnose", "shop", "-o", form).out


def test_the_task_that_diagnosed_leads_to_the_page(step: Any, ledger: Ledger) -> None:
    step(decide, "decide", {**DECISION, "diagnosis": {**DECISION["diagnosis"], "runbook": ""}})
    facts = diagnose.CdcDiagnoseOperator(task_id="t", pipeline="shop").execute(context())
    assert facts["diagnosis"]["runbook"] == PURGED


def test_who_is_told_or_asked_gets_the_address() -> None:
    assert f"({PURGED})" in approval.describe(DECISION)
    assert PURGED in str(base.refusal(DECISION))


def test_every_code_has_its_place_on_the_page(web: Any, registry: Path) -> None:
    text = web("VIEWER").get(f"{PREFIX}/runbook").text
    places = {runbook_url(row.code).removeprefix(f"{AIRFLOW}{PREFIX}/runbook#") for row in PROBLEMS}
    assert len(places) > 30
    assert [place for place in places if f'<h2 id="{place}">' not in text] == []
    assert web(None).get(f"{PREFIX}/runbook").status_code == 401


def test_without_an_address_links_lead_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW__API__BASE_URL")
    monkeypatch.setenv("AIRFLOW__API__PORT", "9090")
    assert runbook_url("GTID_PURGED") == "http://localhost:9090/cdc/runbook#gtid_purged"


def texts(path: Path) -> list[str]:
    """The strings of a module that somebody may be shown: all but its docstrings."""
    tree = ast.parse(path.read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {ast.get_docstring(one, clean=False) for one in ast.walk(tree) if isinstance(one, documented)}
    strings = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return [text for text in strings if text not in docs]


def test_nobody_is_sent_to_a_file_of_the_repository() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if "templates" not in path.parts]
    assert len(modules) > 100
    assert {
        path.name: text for path in modules for text in texts(path) if "docs/" in text and "https://" not in text
    } == {}
