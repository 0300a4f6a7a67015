"""The two doors to giving up a recovery: the command and the form's operator. Both name who did it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import create_autospec

import pytest

from airflow_cdc.cli import commands
from airflow_cdc.cli import run as running
from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.flows import abandon as abandoning
from airflow_cdc.flows.run import Run
from airflow_cdc.operators import abandon as operators
from airflow_cdc.parts import Parts
from tests.unit.builders import HEALTHY
from tests.unit.conftest import Answer
from tests.unit.operator_support import Ledger, context

DONE: dict[str, Any] = {
    "abandoned": ["shop.orders"],
    "left": [],
    "recovery": "abandoned",
    "connector": "connector shop is STOPPED; its offset was not changed",
    "todo": "Recover it.",
}


@pytest.fixture
def shop(spec: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whoever has a shell may; nothing is asked of a server."""
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "shell")
    spec(running, "open_run", Run(HEALTHY.pipeline, create_autospec(Parts, instance=True), "cli", "/reports"))
    return spec(commands, "abandon_recovery", DONE)


def test_the_command_names_who_and_why(cdc: Callable[..., Answer], shop: Any) -> None:
    answer = cdc("abandon", "shop", "--table", "shop.orders", "--reason", "it was dropped", "-o", "json")
    assert (answer.status, answer.data) == (0, DONE)
    assert shop.call_args.args[1] == ["shop.orders"]
    assert shop.call_args.kwargs["reason"] == "it was dropped"
    assert "@" in shop.call_args.kwargs["who"]


def test_the_command_wants_a_reason_and_a_user_that_airflow_knows(
    cdc: Callable[..., Answer], shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cdc("abandon", "shop").status == 2
    monkeypatch.setenv("AIRFLOW__CDC__CLI_USERS", "airflow")
    assert cdc("abandon", "shop", "--reason", "because").status == 2
    shop.assert_not_called()


def test_a_live_recovery_is_one_line(cdc: Callable[..., Answer], shop: Any) -> None:
    shop.side_effect = LeaseHeldError("the pipeline is being changed by manual__1")
    answer = cdc("abandon", "shop", "--reason", "because")
    assert (answer.status, answer.err) == (1, "error: the pipeline is being changed by manual__1\n")


def test_the_form_is_carried_out_in_the_name_of_who_triggered_it(
    step: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a table that pipelines.yaml no longer names."""
    called = step(abandoning, "abandon", DONE)
    opened = create_autospec(vars(operators)["open_run"])
    monkeypatch.setattr(operators, "open_run", opened)
    made = context(tables=["shop.gone"], reason="it was dropped")
    cast("dict[str, Any]", made)["dag_run"] = SimpleNamespace(triggering_user_name="ada")
    task = operators.AbandonRecoveryOperator(task_id="abandon", pipeline="shop")
    assert task.execute(made) == DONE
    called.assert_called_once_with(opened.return_value, ("shop.gone",), who="ada", reason="it was dropped")
