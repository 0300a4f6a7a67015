"""Our errors are Airflow's too, and a task fails at once where trying again cannot help."""

from __future__ import annotations

import inspect
import pickle
from importlib import import_module
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_cdc.core import errors
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    DeadlineError,
    LeaseHeldError,
    MissingPrivilegeError,
    SchemaError,
    SinkError,
    SourceError,
    UnknownStateError,
    UnreportedChangeError,
    UsageError,
    VerificationError,
)
from airflow_cdc.fail_fast import ENTRIES, HOPELESS, FailFast, airflow_error
from airflow_cdc.operators.watermark import CaptureWatermarkOperator
from airflow_cdc.provider_info import get_provider_info
from tests.unit.operator_support import context

EVERY = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, CdcError)]


@pytest.mark.parametrize("kind", EVERY)
def test_every_error_keeps_its_class_its_text_and_its_facts(kind: type[CdcError]) -> None:
    error = kind("no such file", where="db:3306", todo="Create it.")
    raised = airflow_error(error)
    assert isinstance(raised, kind)
    assert isinstance(raised, AirflowException)
    assert (str(raised), repr(raised), raised.to_json()) == (str(error), repr(error), error.to_json())
    assert airflow_error(raised) is raised


@pytest.mark.parametrize("kind", [ConfigError, UsageError, MissingPrivilegeError, SchemaError])
def test_what_somebody_has_to_change_first_is_not_tried_again(kind: type[CdcError]) -> None:
    assert isinstance(airflow_error(kind("x")), AirflowFailException)


@pytest.mark.parametrize(
    "kind",
    [
        SourceError,
        SinkError,
        UnknownStateError,
        LeaseHeldError,
        DeadlineError,
        VerificationError,
        UnreportedChangeError,
    ],
)
def test_what_may_pass_is_tried_again_if_the_task_says_so(kind: type[CdcError]) -> None:
    assert not isinstance(airflow_error(kind("x")), AirflowFailException)


def test_it_can_be_sent_to_another_process_as_our_own_error() -> None:
    back = pickle.loads(pickle.dumps(airflow_error(LeaseHeldError("held", owner="r1", expires_at="soon"))))  # noqa: S301
    assert type(back) is LeaseHeldError
    assert (back.owner, back.expires_at, str(back)) == ("r1", "soon", "held")


def test_an_operator_raises_it_so(registry: Any, connections: Any) -> None:
    with pytest.raises(UsageError, match="no pipeline 'shop2'") as raised:
        CaptureWatermarkOperator(task_id="t", pipeline="shop2").execute(context())
    assert isinstance(raised.value, AirflowFailException)


def test_every_operator_does() -> None:
    modules = [name for group in get_provider_info()["operators"] for name in group["python-modules"]]
    classes = {
        one
        for name in modules
        for _, one in inspect.getmembers(import_module(name), inspect.isclass)
        if issubclass(one, BaseOperator) and one.__module__.startswith("airflow_cdc")
    }
    asking = {one for one in classes if one.__name__ == "AskAgainOperator"}  # it only triggers a run
    assert len(classes) > 20
    assert [one for one in classes - asking if not issubclass(one, FailFast)] == []
    own = [(one, name) for one in classes - asking for name in ENTRIES if name in vars(one)]
    assert [(one, name) for one, name in own if not hasattr(vars(one)[name], "__wrapped__")] == []
    assert HOPELESS
