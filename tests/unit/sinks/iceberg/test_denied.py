"""What is committed to an object store that denies or is overloaded: asked again only where that can help, and told."""

from __future__ import annotations

import errno
import itertools
import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import SetPropertiesUpdate
from sqlalchemy.exc import OperationalError

from airflow_cdc.control import control as controlling
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import SinkError, UnknownStateError
from airflow_cdc.core.poll import poll_until
from airflow_cdc.sinks.iceberg import catalog as catalogs
from airflow_cdc.sinks.iceberg.catalog import DeniedError, commit, is_denial
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import IcebergControlStore
from tests.breaks.store_proxy import Refusal, StoreProxy

NAMES = ("cdc_control", "shop")


@pytest.fixture
def refusing() -> Iterator[StoreProxy]:
    """There is no store behind it: every request is refused."""
    with StoreProxy("http://127.0.0.1:1") as proxy:
        yield proxy


@pytest.fixture
def lake(tmp_path: Path, refusing: StoreProxy) -> Lake:
    """A table whose metadata is at a store that refuses, as if it had been moved there."""
    keys = {
        "s3.endpoint": refusing.own_url,
        "s3.access-key-id": "a",
        "s3.secret-access-key": "b",
        "s3.region": "us-east-1",
    }
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db"}
    (tmp_path / "data").mkdir()
    local = Lake("lake", {**catalog, "warehouse": f"file://{tmp_path}/data"})
    local.ensure_table(*NAMES, (("note", "string"),), {})
    table = local.table(*NAMES)
    import sqlite3

    with sqlite3.connect(tmp_path / "c.db") as database:
        database.execute(
            "UPDATE iceberg_tables SET metadata_location = ?", (f"s3://b/{table.metadata.table_uuid}.json",)
        )
    return Lake("lake", {**catalog, "warehouse": "s3://b/w", **keys})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute of waiting in a few looks."""
    seconds = itertools.count(0, 8)
    for module in (controlling, catalogs):
        monkeypatch.setattr(module, "poll_until", partial(poll_until, clock=lambda: next(seconds)))
        monkeypatch.setattr(module, "jittered", lambda _: None)


def committed(lake: Lake) -> None:
    commit(lake.catalog, NAMES, lambda _: None, what="a change")


def noted(lake: Lake) -> None:
    Control(IcebergControlStore(lake), "shop").ledger_set("run:1", "w", 1)


@pytest.mark.parametrize("act", [committed, noted])
def test_a_store_that_denies_is_not_asked_for_a_minute(
    lake: Lake, refusing: StoreProxy, act: Callable[[Lake], None]
) -> None:
    refusing.refusal = Refusal(403)
    with pytest.raises(DeniedError, match=r"ACCESS_DENIED.*\(cdc_control\.shop\)\. Let its user read and write"):
        act(lake)
    assert refusing.refusal.struck == 2, "once more, in case the file was replaced meanwhile"


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("act", [committed, noted])
def test_a_store_that_is_overloaded_is_asked_again_and_the_log_says_so(
    lake: Lake, refusing: StoreProxy, act: Callable[[Lake], None], caplog: pytest.LogCaptureFixture
) -> None:
    refusing.refusal = Refusal(503)
    with (
        caplog.at_level(logging.INFO, "airflow_cdc.waits"),
        pytest.raises(UnknownStateError, match="HTTP status 503") as told,
    ):
        act(lake)
    assert not told.value.lasting
    assert told.value.todo
    assert "HTTP status 503" in caplog.text, "nobody who watches the log knows why it takes so long"


@pytest.mark.parametrize(
    "why",
    [OSError("AWS Error ACCESS_DENIED during PutObject operation: AccessDenied"), OSError(errno.ENOSPC, "no room")],
)
def test_a_file_that_cannot_be_written_ends_a_commit_though_an_earlier_attempt_lost_its_race(
    tmp_path: Path, why: OSError
) -> None:
    (tmp_path / "data").mkdir()
    lake = Lake("lake", {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/data"})
    lake.ensure_table(*NAMES, (("note", "string"),), {})
    attempts: list[Exception] = [CommitFailedException("moved"), why]
    tried = []

    def answer(*_: object) -> None:
        tried.append(attempts.pop(0))
        raise tried[-1]

    lake.catalog.commit_table = answer  # type: ignore[method-assign,assignment]
    with pytest.raises(SinkError, match=r"a change could not be written: .*(ACCESS_DENIED|no room)") as told:
        commit(lake.catalog, NAMES, lambda _: catalogs.Change((), ()), what="a change")
    assert told.value.todo
    assert len(tried) == 2


def test_a_catalog_without_room_ends_a_commit_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    lake = Lake("lake", {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/data"})
    lake.ensure_table(*NAMES, (("note", "string"),), {})
    before = sorted(tmp_path.glob("data/**/*.json"))
    table = lake.table(*NAMES)

    def full(*_: object) -> None:
        raise OperationalError("UPDATE", {}, Exception("database or disk is full"))

    monkeypatch.setattr("pyiceberg.catalog.sql.Session", full)
    change = catalogs.Change((), (SetPropertiesUpdate(updates={"a": "b"}),))
    with pytest.raises(SinkError, match=r"a change could not be written: .*database or disk is full") as told:
        catalogs.commit_once(lake.catalog, table, change, what="a change")
    assert told.value.lasting
    assert sorted(tmp_path.glob("data/**/*.json")) == before


@pytest.mark.parametrize(
    ("error", "is_denied"),
    [
        (PermissionError(13, "Permission denied"), True),
        (OSError("When reading information for key 'x': AWS Error ACCESS_DENIED during HeadObject operation"), True),
        (OSError("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation: No response body."), True),
        (OSError("google::cloud::Status(PERMISSION_DENIED: Permission denied)"), True),
        (OSError("GetProperties failed. Azure Error: [AuthorizationFailure] 403"), True),
        (OSError("AWS Error SLOW_DOWN during PutObject operation"), False),
        (OSError(28, "No space left on device"), False),
        (ValueError("Permission denied"), False),
    ],
)
def test_which_errors_are_a_denial(error: Exception, is_denied: bool) -> None:
    assert is_denial(error) is is_denied
