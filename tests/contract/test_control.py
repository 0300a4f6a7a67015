"""The control store in an Iceberg catalog: the suite of all stores, and what only this one has."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import SinkError, UnknownStateError
from airflow_cdc.sinks.iceberg import snapshots
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import KEEP_SNAPSHOTS, IcebergControlStore
from tests.contract.control_store import ControlStoreSuite, StoreBench
from tests.contract.control_worker import add_one, opened
from tests.contract.lakes import lake_in


@dataclass(frozen=True)
class IcebergBench:
    """A catalog in a folder."""

    folder: Path

    @property
    def spec(self) -> dict[str, Any]:
        return {"folder": str(self.folder)}

    def open(self) -> Any:
        return opened(self.spec)


class TestIcebergControlStore(ControlStoreSuite):
    """The suite."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> StoreBench:
        return IcebergBench(tmp_path)


@pytest.fixture
def control(lake: Lake) -> Control:
    return Control(IcebergControlStore(lake), "shop")


def files_of(lake: Lake, pattern: str) -> list[Path]:
    location = lake.table("cdc_control", "shop").location()
    return sorted(Path(urlparse(location).path).glob(pattern))


def test_reading_creates_nothing(control: Control, lake: Lake) -> None:
    empty: dict[str, Any] = {
        "epoch": 0,
        "epochs": {},
        "lease": None,
        "recovery": None,
        "ledger": {},
        "stamps": {},
        "checks": {},
        "xa": {},
        "abandoned": {},
        "audit": [],
    }
    assert control.state() == empty
    assert lake.exists("cdc_control", "shop") is False


def test_a_change_that_changes_nothing_makes_no_commit(control: Control, lake: Lake) -> None:
    control.update(add_one, "one")
    head = lake.head("cdc_control", "shop")
    control.update(lambda state: state, "nothing")
    control.update(lambda _: None, "nothing")
    assert lake.head("cdc_control", "shop") == head


Commit = Callable[..., Any]


def lost_answer(real: Commit, *, landed: bool, then: Callable[[], object]) -> Commit:
    """A commit_table whose first answer is lost; `then` happens before the caller looks again."""
    calls: list[int] = []

    def call(*args: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return real(*args)
        if landed:
            real(*args)
        then()
        raise CommitStateUnknownException("502 bad gateway")

    return call


@pytest.mark.parametrize("landed", [True, False])
def test_a_write_whose_answer_is_lost_is_made_once(
    control: Control, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    control.update(add_one, "one")
    other = Control(IcebergControlStore(lake_in(tmp_path)), "shop")
    many = lost_answer(
        lake.catalog.commit_table, landed=landed, then=lambda: [other.update(add_one, "other") for _ in range(8)]
    )
    monkeypatch.setattr(lake.catalog, "commit_table", many)
    control.update(add_one, "mine")
    assert other.state()["stamps"] == {"count": 1 + 8 + 1}


def test_a_full_disk_is_one_clear_error_and_the_state_stays(
    control: Control, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What PyArrow raises at the end of the list of manifests, before anything is committed."""
    control.update(add_one, "one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(snapshots, "write_manifest_list", full)
        with pytest.raises(SinkError, match=r"the control document could not be written: .*No space left") as told:
            control.update(add_one, "two")
    assert "Make room" in told.value.todo
    assert control.update(add_one, "three")["stamps"] == {"count": 2}


def test_history_and_files_are_trimmed(control: Control, lake: Lake) -> None:
    for number in range(40):
        control.ledger_set("run", "n", number)
    metadata = lake.table("cdc_control", "shop").metadata
    assert len(metadata.snapshots) == KEEP_SNAPSHOTS
    assert len(files_of(lake, "metadata/snap-*.avro")) == KEEP_SNAPSHOTS
    assert len(files_of(lake, "metadata/*.metadata.json")) <= 21
    assert control.ledger_get("run") == {"n": 39}


def test_a_foreign_commit_does_not_hide_the_state(control: Control, lake: Lake) -> None:
    control.update(add_one, "one")
    lake.table("cdc_control", "shop").append(lake.read_arrow("cdc_control", "shop"))
    assert control.state()["stamps"] == {"count": 1}
    assert control.update(add_one, "two")["stamps"] == {"count": 2}


def test_a_state_that_is_gone_is_unknown_not_empty(control: Control, lake: Lake) -> None:
    control.update(add_one, "one")
    path = Path(urlparse(lake.table("cdc_control", "shop").metadata_location).path)
    document = json.loads(path.read_text())
    for snapshot in document["snapshots"]:
        snapshot["summary"].pop("cdc.state", None)
    path.write_text(json.dumps(document))
    with pytest.raises(UnknownStateError, match="although it has been written to"):
        control.state()
    with pytest.raises(UnknownStateError, match="although it has been written to"):
        control.open_recovery("run")
