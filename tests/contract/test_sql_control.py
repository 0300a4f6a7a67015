"""The control store in a SQL database, here a SQLite file: the suite of all stores, and what only this one has.

PostgreSQL and MySQL: tests/integration/test_sql_control_servers.py.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from airflow_cdc.control.control import Control
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import SqlControlStore
from airflow_cdc.core.errors import ConfigError, UnknownStateError
from tests.contract.control_store import ControlStoreSuite, StoreBench
from tests.contract.control_worker import add_one
from tests.contract.sql_bench import SqlBench


def endpoint(folder: Path) -> SqlEndpoint:
    return SqlEndpoint("sqlite", str(folder / "control.db"), options={"timeout": "30"})


class TestSqliteControlStore(ControlStoreSuite):
    """The suite."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> StoreBench:
        return SqlBench(endpoint(tmp_path))


def test_a_database_that_cannot_be_reached_is_unknown_and_its_password_is_not_said() -> None:
    store = SqlControlStore(SqlEndpoint("mysql+pymysql", "cdc", "127.0.0.1", 1, "ann", "s3cret-pw"))
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.load("shop"),
        lambda: store.swap("shop", "v", "{}"),
        store.reach,
    )
    for call in calls:
        with pytest.raises(UnknownStateError, match="does not answer as it should") as caught:
            call()
        assert "database cdc at 127.0.0.1:1" in str(caught.value)
        assert "s3cret-pw" not in f"{caught.value}{caught.value!r}{store!r}{store.endpoint!r}"


def test_a_file_that_is_no_database_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "control.db").write_bytes(b"no database" * 100)
    with pytest.raises(UnknownStateError, match="not a database"):
        SqlControlStore(endpoint(tmp_path)).load("shop")


def test_a_table_of_somebody_else_is_not_taken_for_an_empty_store(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "control.db")) as connection:
        connection.execute("CREATE TABLE cdc_control (x INT)")
    with pytest.raises(UnknownStateError):
        SqlControlStore(endpoint(tmp_path)).load("shop")


def test_no_connection_is_kept_between_two_calls(tmp_path: Path) -> None:
    """A file can be moved aside, and a forked process takes no connection of its parent with it."""
    control = Control(SqlControlStore(endpoint(tmp_path)), "shop")
    control.update(add_one, "one")
    open_files = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [path for path in open_files if path.is_relative_to(tmp_path)]


def test_a_driver_that_is_not_installed_is_said_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    store = SqlControlStore(SqlEndpoint("postgresql+psycopg", "cdc", "127.0.0.1", 1, "ann", extra="postgres"))
    with pytest.raises(ConfigError) as caught:
        store.load("shop")
    assert str(caught.value) == (
        "the package 'psycopg' is not installed (database cdc at 127.0.0.1:1). "
        "Run: pip install 'airflow-provider-cdc[postgres]'"
    )
