from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import PositionError
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, Watermark, file_after
from tests.unit.builders import OTHER, UUID, WATERMARK

positions = st.builds(
    BinlogPosition, st.integers(1, 2_000_000).map(lambda n: f"mysql-bin.{n:06}"), st.integers(0, 2**40)
)


@given(positions)
def test_parse_reverses_str(position: BinlogPosition) -> None:
    assert BinlogPosition.parse(str(position)) == position


@given(positions, positions)
def test_order_is_that_of_the_numbers(x: BinlogPosition, y: BinlogPosition) -> None:
    assert (x < y) == ((x.file_number, x.pos) < (y.file_number, y.pos))
    assert (x <= y) == (not y < x)
    assert (x == y) == (not x < y and not y < x)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("mysql-bin.9:4", "mysql-bin.10:4"),
        ("mysql-bin.999999:4", "mysql-bin.1000000:4"),
        ("mysql-bin.000009:9", "mysql-bin.000009:10"),
        ("my.log.000001:900", "my.log.000002:4"),
    ],
)
def test_files_are_ordered_by_number_not_by_text(older: str, newer: str) -> None:
    assert BinlogPosition.parse(older) < BinlogPosition.parse(newer)


def test_different_series_have_no_order() -> None:
    one, other = BinlogPosition("mysql-bin.000001", 4), BinlogPosition("binlog.000002", 4)
    assert not one.comparable(other)
    with pytest.raises(PositionError, match="different series"):
        assert one < other


@pytest.mark.parametrize("file", ["", "mysql-bin", "mysql-bin.", ".000001", "mysql-bin.00x", "mysql-bin.-1"])
def test_a_name_without_a_number_is_refused(file: str) -> None:
    with pytest.raises(PositionError, match="not a binlog file name"):
        BinlogPosition(file, 4)


@pytest.mark.parametrize("pos", [-1, True, "4", None])
def test_a_position_that_is_no_count_is_refused(pos: object) -> None:
    with pytest.raises(PositionError, match="not a number of bytes"):
        BinlogPosition("b.000001", pos)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "b.000001", "b.000001:", "b.000001:-4", "4"])
def test_malformed_position_text_is_refused(text: str) -> None:
    with pytest.raises(PositionError):
        BinlogPosition.parse(text)


@pytest.mark.parametrize("gtids", [None, GtidSet(), GtidSet.parse(f"{UUID}:1-3:t:2")])
def test_watermark_survives_json(gtids: GtidSet | None) -> None:
    w = replace(WATERMARK, gtids=gtids)
    assert Watermark.from_json(w.to_json()) == w
    assert Watermark.from_json(json.dumps(w.to_json())) == w
    assert set(w.to_json()) == {"server_uuid", "file", "pos", "gtids", "taken_at", "server_id"}


def test_every_field_changes_the_watermarks_hash() -> None:
    changes: dict[str, Any] = {
        "server_uuid": OTHER,
        "file": "mysql-bin.000010",
        "pos": 501,
        "gtids": None,
        "taken_at": "later",
        "server_id": 2,
    }
    hashes = {replace(WATERMARK, **{key: value}).hash for key, value in changes.items()} | {WATERMARK.hash}
    assert len(hashes) == len(changes) + 1
    assert replace(WATERMARK).hash == WATERMARK.hash


@pytest.mark.parametrize("change", [{"pos": "x"}, {"gtids": "x"}, {"file": "x"}, {"server_id": None}])
def test_malformed_watermark_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(PositionError):
        Watermark.from_json({**WATERMARK.to_json(), **change})


def test_a_watermark_without_a_field_is_refused() -> None:
    with pytest.raises(PositionError, match="server_uuid"):
        Watermark.from_json({})


def test_the_file_after_another_is_the_next_of_its_series() -> None:
    files = ["mysql-bin.000010", "mysql-bin.000009", "mysql-bin.000011", "binlog.000012"]
    assert file_after(files, "mysql-bin.000009") == "mysql-bin.000010"
    assert file_after(files, "mysql-bin.000004") == "mysql-bin.000009"
    assert file_after(files, "mysql-bin.000011") is None
    assert file_after(["b.1000000", "b.999999"], "b.999999") == "b.1000000"
