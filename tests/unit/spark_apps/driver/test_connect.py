"""A session on a Spark Connect server, as far as that shows without one: what is refused, and how long it is waited for."""

from __future__ import annotations

import logging
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest

from airflow_cdc.core.errors import CdcError, ConfigError, SinkError
from airflow_cdc.spark_apps.driver import connect
from airflow_cdc.spark_apps.driver.app import explained, root_cause

SERVER = connect.Remote("sc://localhost:15002")
EXTENSION = {"spark.sql.extensions": "a.Extensions"}


def session(release: str = "4.1.3", zone: str = "UTC", extensions: str = "z.Other,a.Extensions") -> Any:
    """What a server answers."""
    asked = SimpleNamespace(collect=lambda: [(zone,)])
    return SimpleNamespace(version=release, sql=lambda _text: asked, conf={"spark.sql.extensions": extensions})


def test_a_server_like_ours_is_taken() -> None:
    connect.check(session(), SERVER, EXTENSION)
    connect.check(session(extensions=""), SERVER, {})


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"release": "4.0.1"}, "has Spark 4.0.1"),
        ({"zone": "Europe/Berlin"}, "in the time zone Europe/Berlin"),
        ({"extensions": "z.Other"}, "has no a.Extensions in spark.sql.extensions"),
    ],
)
def test_a_server_on_which_values_or_statements_would_mean_something_else_is_refused(
    answers: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        connect.check(session(**answers), SERVER, EXTENSION)
    assert raised.value.todo


class Gone(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """What grpc raises for a server that is not there."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "failed to connect to all addresses"

    def trailing_metadata(self) -> tuple[()]:
        return ()


for name in Gone.__abstractmethods__:
    setattr(Gone, name, lambda *_: None)
Gone.__abstractmethods__ = frozenset()


def test_a_server_that_is_gone_is_given_up_after_a_minute_and_not_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "airflow_cdc")
    policy = connect._policy()
    assert policy.can_retry(Gone())
    assert "does not answer, and is asked again: failed to connect" in caplog.text
    assert not policy.can_retry(ValueError())
    state, waits = policy.to_state(), list[int]()
    while (wait := state.next_attempt()) is not None:
        waits.append(wait)
    assert 30_000 < sum(waits) < 90_000


def test_a_session_that_was_stopped_is_explained_and_no_other_value_error() -> None:
    with (
        pytest.raises(CdcError, match="could not compare: the session of Spark was stopped"),
        explained(SinkError, "compare", where="here", todo="Again."),
    ):
        raise ValueError("Cannot invoke RPC: Channel closed!")
    assert root_cause('<_X of RPC:\n\tstatus = CANCELLED\n\tdetails = "Stream removed (Channel closed!)"') == (
        "the session of Spark was stopped meanwhile"
    )
    assert root_cause('<_X of RPC:\n\tstatus = UNAVAILABLE\n\tdetails = "failed to connect"\n>') == "failed to connect"
    with pytest.raises(ValueError, match="no number"), explained(SinkError, "compare", where="here", todo="Again."):
        raise ValueError("no number")


def test_a_driver_without_a_server_loads_nothing_of_it() -> None:
    code = (
        "import sys, airflow_cdc.spark_apps.verify, airflow_cdc.operators.spark, airflow_cdc.cli.checks\n"
        "print([name for name in sys.modules if name.endswith(('driver.connect', 'spark_connect')) or name == 'grpc'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_sigterm_ends_a_driver_after_what_it_has_to_do_before() -> None:
    code = (
        "import os, signal, time\nfrom airflow_cdc.spark_apps.driver import task\n"
        "task.before_end(lambda: print('interrupted', flush=True))\ntask.before_end(lambda: 1 / 0)\n"
        "task.end_in_order()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (143, "interrupted\n")
