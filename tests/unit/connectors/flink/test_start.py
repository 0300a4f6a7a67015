"""What the next start of a job begins from, and which of two positions counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_cdc.connectors.flink.start import Start, StartFile, StartStore
from airflow_cdc.core.errors import ConnectorError
from airflow_cdc.core.offset import RawOffset

OLD: RawOffset = {"file": "mysql-bin.000001", "pos": "4", "kind": "SPECIFIC"}
NEW: RawOffset = {"file": "mysql-bin.000002", "pos": "4", "kind": "SPECIFIC"}
STOPPED = Start(1000, "file:/s/savepoint-1")


def store(path: Path, start: Start = STOPPED) -> StartStore:
    file = StartFile(path)
    file.write(start)

    def now() -> Start:
        read = file.read()
        assert read is not None
        return read

    return StartStore(file, now, lambda savepoint: OLD if savepoint else None, lambda: None)


def test_an_offset_is_decided_and_the_savepoints_own_one_takes_it_back(tmp_path: Path) -> None:
    one = store(tmp_path / "p.start")
    one.write(NEW)
    assert StartFile(tmp_path / "p.start").read() == Start(1000, "file:/s/savepoint-1", NEW)
    one.write(OLD)
    assert StartFile(tmp_path / "p.start").read() == STOPPED


def test_once_the_plan_was_changed_the_savepoints_offset_is_one_like_any_other(tmp_path: Path) -> None:
    one = store(tmp_path / "p.start", Start(1000, "file:/s/savepoint-1", NEW, replanned=True))
    one.write(OLD)
    assert StartFile(tmp_path / "p.start").read() == Start(1000, "file:/s/savepoint-1", OLD, replanned=True)


def at(gtids: str, time: str, file: str = "mysql-bin.000001") -> RawOffset:
    return {"file": file, "pos": "4", "kind": "SPECIFIC", "gtids": gtids, "ts_sec": time}


@pytest.mark.parametrize(
    ("raw", "same"),
    [
        (at("u:1-9", "100", "other-bin.000007"), True),
        (at("u:1-8", "100"), False),
        (at("u:1-9", "101"), False),  # a watermark: tables were published since
    ],
)
def test_the_same_transactions_at_another_server_keep_the_state(tmp_path: Path, raw: RawOffset, same: bool) -> None:
    file = StartFile(tmp_path / "p.start")
    StartStore(file, lambda: STOPPED, lambda _path: at("u:1-9", "100"), lambda: None).write(raw)
    assert file.read() == Start(1000, "file:/s/savepoint-1", raw, same=same)


def test_one_source_after_the_other_is_set(tmp_path: Path) -> None:
    """What was decided for one would be lost."""
    one = store(tmp_path / "p.start")
    own = replace(one, reads="shop.orders")
    own.write(NEW)
    assert StartFile(tmp_path / "p.start").read() == replace(STOPPED, offset=NEW, reads="shop.orders")
    with pytest.raises(ConnectorError, match=r"the position of shop\.orders was set, and the job was not started"):
        replace(one, reads="shop.items").write(NEW)


def test_no_offset_is_a_start_without_any_state(tmp_path: Path) -> None:
    one = store(tmp_path / "p.start")
    one.write(None)
    assert StartFile(tmp_path / "p.start").read() == Start(1000)


def test_without_a_plan_nothing_is_decided() -> None:
    with pytest.raises(ConnectorError, match="COMPILE PLAN"):
        StartStore(None, lambda: STOPPED, lambda _path: None, lambda: None).write(NEW)


@pytest.mark.parametrize(
    ("start", "began", "stored", "counts"),
    [
        (STOPPED, 900, "file:/c/chk-9", True),  # decided after that job
        (STOPPED, 1100, "", False),  # somebody started another job since
        (Start(1000, "", NEW, "j"), 1100, "", True),  # carried out, and nothing stored yet
        (Start(1000, "", NEW, "j"), 1100, "file:/c/chk-1", False),
        (Start(1000, "", NEW, "other"), 1100, "", False),
    ],
)
def test_which_position_counts(start: Start, began: int, stored: str, counts: bool) -> None:
    assert start.is_newer_than("j", began, stored) is counts


@pytest.mark.parametrize("content", ["{", "{}", '{"format": 2, "at": 1}'])
def test_a_file_that_cannot_be_read_is_an_error_and_not_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "p.start"
    assert StartFile(path).read() is None
    path.write_text(content)
    with pytest.raises(ConnectorError, match="cannot be read"):
        StartFile(path).read()
