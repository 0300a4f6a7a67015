from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.errors import PositionError
from airflow_cdc.core.position import Position, Watermark
from airflow_cdc.kinds import read_position
from airflow_cdc.sources.mariadb.gtid import MariaDbPosition as DomainGtids
from airflow_cdc.sources.mariadb.position import MariaDbPosition
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, MySqlPosition, file_after
from tests.marks import moved
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
    w = moved(WATERMARK, gtids=gtids)
    for written in (w.to_json(), json.dumps(w.to_json())):
        again = Watermark.from_json(written, read_position)
        assert again == w
        assert again.to_json() == w.to_json()
    assert set(w.to_json()) == {"format", "position", "server", "taken_at"}
    assert set(w.position.to_json()) == {"kind", "file", "pos", "gtids", "server_id"}


def test_every_field_changes_the_watermarks_hash() -> None:
    changed = [
        replace(WATERMARK, server=OTHER),
        replace(WATERMARK, taken_at=WATERMARK.taken_at + timedelta(seconds=1)),
        moved(WATERMARK, file="mysql-bin.000010"),
        moved(WATERMARK, pos=501),
        moved(WATERMARK, gtids=None),
        moved(WATERMARK, server_id=2),
    ]
    assert len({w.hash for w in (WATERMARK, *changed)}) == len(changed) + 1
    assert replace(WATERMARK).hash == WATERMARK.hash


@pytest.mark.parametrize("change", [{"pos": "x"}, {"gtids": "x"}, {"file": "x"}, {"server_id": "x"}, {"kind": "db2"}])
def test_malformed_position_is_refused(change: dict[str, object]) -> None:
    value = WATERMARK.to_json()
    with pytest.raises(PositionError):
        Watermark.from_json({**value, "position": {**WATERMARK.position.to_json(), **change}}, read_position)


@pytest.mark.parametrize("missing", ["position", "server", "taken_at"])
def test_a_watermark_without_a_field_is_refused(missing: str) -> None:
    value = {key: held for key, held in WATERMARK.to_json().items() if key != missing}
    with pytest.raises(PositionError, match=missing):
        Watermark.from_json(value, read_position)


@pytest.mark.parametrize("held", [{}, {"format": 3}])
def test_a_watermark_of_another_format_is_refused_by_its_number(held: dict[str, int]) -> None:
    first = {"server_uuid": UUID, "file": "b.000001", "pos": 4, "gtids": None, "taken_at": "2026-11-21", "server_id": 1}
    with pytest.raises(PositionError, match=f"watermark of format {held.get('format', 1)}, but only format 2"):
        Watermark.from_json({**first, **held}, read_position)


BY_SET, BY_FILE = MySqlPosition("b.000001", 900, GtidSet.parse(f"{UUID}:1-5")), MySqlPosition("b.000001", 900)
MARIA = MariaDbPosition("b.000001", 900, DomainGtids.parse("0-1-100,1-2-5"))


@pytest.mark.parametrize(
    ("mine", "other", "expected"),
    [
        (BY_SET, replace(BY_SET, file="b.000009", gtids=GtidSet.parse(f"{UUID}:1-4")), True),  # the set alone counts
        (BY_SET, replace(BY_SET, file="b.000001", pos=4, gtids=GtidSet.parse(f"{UUID}:1-6")), False),
        (BY_SET, BY_FILE, None),
        (BY_FILE, BY_SET, None),
        (BY_FILE, replace(BY_FILE, pos=899), True),
        (BY_FILE, replace(BY_FILE, pos=901), False),
        (BY_FILE, replace(BY_FILE, file="other.000001"), None),
        (replace(BY_FILE, server_id=1), replace(BY_FILE, server_id=2), None),
        (replace(BY_FILE, server_id=1), BY_FILE, True),
        (BY_FILE, MARIA, None),
        (MARIA, BY_FILE, None),
        (MARIA, replace(MARIA, file="b.000009", domains=DomainGtids.parse("0-7-99")), True),
        (MARIA, replace(MARIA, domains=DomainGtids.parse("2-1-1")), False),
        (MARIA, replace(MARIA, domains=None), None),
        (replace(MARIA, domains=None), replace(MARIA, domains=None, pos=901), False),
        (replace(MARIA, domains=None, server_id=1), replace(MARIA, domains=None, server_id=2), None),
    ],
)
def test_which_position_covers_which(mine: Position, other: Position, expected: bool | None) -> None:
    assert mine.covers(other) is expected


@pytest.mark.parametrize("position", [BY_SET, BY_FILE, MARIA, replace(MARIA, domains=None, server_id=3)])
def test_a_position_is_read_by_the_kind_it_carries(position: Position) -> None:
    again = read_position(json.loads(json.dumps(position.to_json())))
    assert again == position
    assert again.to_json() == position.to_json()


def test_the_file_after_another_is_the_next_of_its_series() -> None:
    files = ["mysql-bin.000010", "mysql-bin.000009", "mysql-bin.000011", "binlog.000012"]
    assert file_after(files, "mysql-bin.000009") == "mysql-bin.000010"
    assert file_after(files, "mysql-bin.000004") == "mysql-bin.000009"
    assert file_after(files, "mysql-bin.000011") is None
    assert file_after(["b.1000000", "b.999999"], "b.999999") == "b.1000000"
