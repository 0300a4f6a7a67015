"""A run of a MariaDB server has a name, and a read that reaches another one fails (INV 9)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.errors import WrongServerError
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as Domains
from airflow_cdc.sources.mariadb.identity import require_same_run, same_run_sql
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.errors import ServerRestartedError
from airflow_cdc.sources.mysql.server_log import ServerIdentity

NOW = datetime(2026, 11, 23, tzinfo=UTC)
NAME = "103/db-1/3306/nsa+/3xwf+y7htwm2xi4jvk807m=/1795472021"
W = Watermark(MariaDbPosition("maria-bin.000005", 842, Domains.parse("0-103-7")), NAME, NOW)


def answering(name: str) -> ServerIdentity:
    return ServerIdentity(name, 103, 5, NOW)


def test_the_run_on_which_w_was_taken_is_the_same_server() -> None:
    require_same_run(answering(NAME), W, "here")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        (NAME.replace("1795472021", "1795472022"), ServerRestartedError),
        (NAME.replace("db-1", "db-2"), WrongServerError),
        (NAME.replace("103/", "104/"), WrongServerError),
        ("", WrongServerError),
    ],
)
def test_another_server_and_another_run_are_told_apart(name: str, error: type[SourceError]) -> None:
    with pytest.raises(error):
        require_same_run(answering(name), W, "here")


def test_a_name_that_no_server_has_never_becomes_sql() -> None:
    assert same_run_sql(W).endswith(f" = '{NAME}'")
    with pytest.raises(SourceError, match="not the name"):
        same_run_sql(replace(W, server="x' OR '1' = '1"))
