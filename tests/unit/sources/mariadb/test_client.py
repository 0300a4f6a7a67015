"""MariaDB as a kind of its own: what each make says of the other, whether a position is there, and which ways it offers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_cdc.core.position import Availability
from airflow_cdc.sources.errors import SourceSettingError
from airflow_cdc.sources.mariadb.client import MariaDbSource
from airflow_cdc.sources.mariadb.facts import MariaDbFacts
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from tests.diagnosing import diagnose, make_plan
from tests.unit.sources.mariadb.test_problems import MARIADB, OFFSET, observed

ENDPOINT = MySqlEndpoint("db", 3306, "cdc", "pw")


def answering(version: str, kind: type[Any]) -> Any:
    """A source of a kind, at which a server of this version answers."""

    class Server(kind):  # type: ignore[misc]
        @contextmanager
        def session(self, *, read_timeout: float | None = None) -> Iterator[MagicMock]:
            yield MagicMock(version=ServerVersion.parse(version))

    return Server(ENDPOINT)


@pytest.mark.parametrize(
    ("version", "kind", "what", "todo"),
    [
        ("10.11.18-MariaDB", MySqlSource, "the server is MariaDB 10.11.18-MariaDB", "kind: mariadb"),
        ("8.0.36", MariaDbSource, "the server is MySQL 8.0.36", "kind: mysql"),
    ],
)
def test_a_pipeline_of_the_other_kind_is_told_in_one_line_what_to_write(
    version: str, kind: type[Any], what: str, todo: str
) -> None:
    source = answering(version, kind)
    for asked in (source.facts, lambda: source.facts_for(("shop.t",), None)):
        with pytest.raises(SourceSettingError) as refused:
            asked()
        assert what in refused.value.what
        assert refused.value.todo == f"Write `{todo}` below `source:` in pipelines.yaml."
        assert "\n" not in str(refused.value)


class Known(MariaDbSource):
    """A server whose facts a test wrote down."""

    def __init__(self, facts: MariaDbFacts) -> None:
        super().__init__(ENDPOINT)
        self.known = facts

    @contextmanager
    def session(self, *, read_timeout: float | None = None) -> Iterator[MagicMock]:
        yield MagicMock()

    def _facts(self, session: object) -> MariaDbFacts:
        return self.known


@pytest.mark.parametrize(
    ("domains", "state"),
    [
        ("0-1-80,3-1-7", Availability.AVAILABLE),
        ("0-1-50,3-1-5", Availability.AVAILABLE),
        ("0-1-49,3-1-5", Availability.LOST),
        ("0-1-80", Availability.LOST),  # it has read nothing of domain 3
        ("0-1-101,3-1-7", Availability.NOT_YET),
        ("0-7-60,3-1-7", Availability.NOT_YET),
    ],
)
def test_whether_a_place_is_still_there(domains: str, state: Availability) -> None:
    position = MariaDbPosition("mysql-bin.000001", 4, Domains.parse(domains))  # the file does not count
    assert Known(MARIADB).availability(position).state is state


def test_without_gtids_the_file_decides() -> None:
    assert Known(MARIADB).availability(MariaDbPosition("mysql-bin.000009", 4)).state is Availability.AVAILABLE
    assert Known(MARIADB).availability(MariaDbPosition("mysql-bin.000001", 4)).state is Availability.LOST
    silent = Known(replace(MARIADB, domains=None))
    assert silent.availability(MariaDbPosition("x.000001", 4, Domains.parse("0-1-1"))).state is Availability.UNKNOWN


def test_ways_that_need_a_server_uuid_are_not_offered() -> None:
    lost = observed({**OFFSET, "gtids": "0-1-49,3-1-5"})
    plan = make_plan(diagnose(lost), lost.pipeline.policy, lost)
    assert "replica_detour: this kind of source does not support it." in plan.reason
