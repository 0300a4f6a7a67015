"""A server whose clock is set to before its start: its uptime is no number of centuries."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.xa import XaState
from airflow_cdc.sources.mariadb.identity import _aged
from airflow_cdc.sources.mysql.server_log import read_identity, read_xa
from airflow_cdc.sources.row import Row

NOW = "2026-10-25T00:59:55.000000"
START = datetime(2026, 11, 28, tzinfo=UTC)


class Answering:
    """What MySQL 8.0.15 answers: Uptime is 64 bits without a sign."""

    version = SimpleNamespace(can=lambda _: True)

    def __init__(self, uptime: int) -> None:
        self.uptime = uptime % 2**64

    def row(self, statement: str, **_: Any) -> Row:
        up = {"Variable_name": "Uptime", "Value": str(self.uptime)}
        return Row(up if "Uptime" in statement else {"uuid": "U", "id": 7, "now": NOW})

    def rows(self, statement: str, **_: Any) -> list[Row]:
        del statement
        return []


@pytest.mark.parametrize("seconds", [0, 7, -1, -2_934_005])
def test_a_clock_before_the_servers_start_gives_an_uptime_below_zero(seconds: int) -> None:
    assert read_identity(Answering(seconds)).uptime_s == seconds  # type: ignore[arg-type]


def test_inv_32_what_is_stored_of_such_a_server_can_be_read_again() -> None:
    now = datetime.fromisoformat(NOW).replace(tzinfo=UTC)
    session: Any = Answering(int((now - START).total_seconds()))
    xa = read_xa(session, read_identity(session))
    assert xa is not None
    assert datetime.fromtimestamp(xa.started_at, UTC) == START, "it is the same start by any clock"
    assert read(XaState, json.loads(json.dumps(plain(xa)))) == xa


def test_a_mariadb_whose_clock_was_set_back_is_not_waited_for() -> None:
    session: Any = Answering(-5)
    assert _aged(session) is not None
    session.uptime = 0
    assert _aged(session) is None
