"""Few changes written by Arrow to a table of an embedded catalog, read back by PyIceberg's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from airflow_cdc.core.errors import StaleHeadError
from airflow_cdc.sinks.iceberg import file_change, row_positions
from airflow_cdc.sinks.iceberg.catalog import Change, commit
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.row_delta import RowDelta
from airflow_cdc.sinks.iceberg.snapshots import head_of, snapshot_at, summary_of
from tests.contract.lakes import lake_in
from tests.unit.sinks.iceberg.plain_tables import SHAPE, VALUES, Sink, ids, kill_at_commit

# as Spark hands a geometry over: its fields are never NULL
STRICT = pa.struct([pa.field("srid", pa.int32(), nullable=False), pa.field("wkb", pa.binary(), nullable=False)])


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


@pytest.mark.parametrize("kind", VALUES)
def test_each_type_is_kept_exactly_and_may_be_null(lake: Lake, kind: str) -> None:
    sink = Sink(lake, {"id": "int", "v": kind})
    wanted = sink.lake.table(*sink.place).schema().as_arrow().field("v").type
    values = [*VALUES[kind], None]
    numbers = list(range(len(values)))
    column = pa.array(values, STRICT if kind == SHAPE else wanted)
    rows = pa.table({"id": pa.array(numbers, pa.int32()), "v": column})
    assert sink.write(ids(*numbers), rows)
    expected = [{"id": number, "v": value} for number, value in zip(numbers, values, strict=True)]
    assert sink.rows() == expected
    assert sink.write(ids(*numbers), rows.slice(0, 1))
    assert sink.rows() == expected[:1]


@pytest.mark.parametrize(
    "kind",
    ["string", "binary", "decimal(20,0)", "decimal(9,2)", "date", "timestamp", "timestamp_ntz", "boolean", "bigint"],
)
def test_a_key_of_each_type_finds_its_row(lake: Lake, kind: str) -> None:
    sink = Sink(lake, {"id": kind, "n": "int"})
    wanted = sink.lake.table(*sink.place).schema().as_arrow().field("id").type
    keys = VALUES[kind]
    rows = pa.table({"id": pa.array(keys, wanted), "n": pa.array(range(len(keys)), pa.int32())})
    assert sink.write(rows.select(["id"]), rows)
    assert sink.write(ids(keys[0], kind=wanted), rows.slice(0, 0))
    left = {str(row["id"]) for row in sink.rows()}
    assert left == {str(key) for key in keys[1:]}


def counted(*rows: tuple[Any, Any]) -> pa.Table:
    return pa.table(
        {"id": pa.array([a for a, _ in rows], pa.int32()), "v": pa.array([b for _, b in rows], pa.string())}
    )


def test_of_whole_rows_so_many_go_as_are_told(lake: Lake) -> None:
    """NULLs equal each other; a second file, and rows that are gone already, are looked at, too."""
    sink = Sink(lake, {"id": "int", "v": "string"})
    assert sink.write(counted(), counted((1, "a"), (1, "a"), (None, "n"), (1, None)))
    assert sink.write(counted(), counted((1, "a"), (None, "n"), (2, "a")))
    assert sink.write(counted((1, "a"), (None, "n"), (1, None)), counted(), copies=[1, 2, 1])
    assert sorted(map(repr, sink.rows())) == sorted(map(repr, counted((1, "a"), (1, "a"), (2, "a")).to_pylist()))
    head = lake.head(*sink.place)
    assert not sink.write(counted((1, "a")), counted(), copies=[3])
    assert not sink.write(counted((3, "a")), counted(), copies=[1])
    assert lake.head(*sink.place) == head
    assert sink.write(counted((1, "a")), counted((None, None)), copies=[2])
    assert sorted(map(repr, sink.rows())) == sorted(map(repr, counted((2, "a"), (None, None)).to_pylist()))


def test_rows_of_large_files_are_looked_up_by_spark(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, {"id": "int", "v": "string"})
    assert sink.write(counted(), counted((1, "a")))
    monkeypatch.setattr(row_positions, "MOST_IMAGE_BYTES", 10)
    assert not sink.write(counted((1, "a")), counted(), copies=[1])
    assert sink.write(ids(1), counted())


def test_a_key_that_is_a_floating_point_number_is_left_to_spark(lake: Lake) -> None:
    sink = Sink(lake, {"id": "double"})
    assert not sink.write(ids(0.5, kind=pa.float64()), ids(0.5, kind=pa.float64()))


def test_a_value_that_the_column_cannot_hold_is_left_to_spark(lake: Lake) -> None:
    sink = Sink(lake, {"id": "int"})
    head = lake.head(*sink.place)
    assert not sink.write(ids(2**40, kind=pa.int64()), ids(2**40, kind=pa.int64()))
    assert not sink.write(ids(1), pa.table({"id": [1], "strange": [2]}))
    assert lake.head(*sink.place) == head


def test_a_key_narrower_than_the_sinks_column_finds_its_row(lake: Lake) -> None:
    sink = Sink(lake, {"id": "bigint"})
    assert sink.write(ids(), ids(7, 2**40, kind=pa.int64()))
    assert sink.write(ids(7), ids())
    assert sink.rows() == [{"id": 2**40}]


def test_keys_again_and_again_leave_one_row_each_and_few_manifests(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_change, "MERGE_AT", 4)
    sink = Sink(lake, {"id": "int", "b": "string", "n": "int"})
    rows: dict[tuple[int, str], int] = {}
    for number in range(3 * file_change.MERGE_AT):
        some = [(at % 5, f"k{at % 3}") for at in range(number, number + 7)]
        gone, kept = some[:2], some[2:]
        for key in gone:
            rows.pop(key, None)
        rows |= dict.fromkeys(kept, number)
        keys = pa.table({"id": pa.array([a for a, _ in some], pa.int32()), "b": [b for _, b in some]})
        new = keys.slice(2).append_column("n", pa.array([number] * len(kept), pa.int32()))
        assert sink.write(keys, new)
        expected = sorted((a, b, n) for (a, b), n in rows.items())
        assert sorted(tuple(row.values()) for row in sink.rows()) == expected
    table = lake.table(*sink.place)
    head = snapshot_at(table.metadata, head_of(table.metadata))
    assert head is not None
    assert len(head.manifests(table.io)) < 2 * file_change.MERGE_AT
    summary = summary_of(head)
    assert int(summary["total-records"]) - int(summary["total-position-deletes"]) == len(rows)


def test_another_process_reads_what_this_one_keeps_in_memory(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, {"id": "int"})
    assert sink.write(ids(), ids(1, 2, 3))
    assert sink.write(ids(2), ids())
    monkeypatch.setattr(row_positions, "KEPT", row_positions.Kept())
    assert sink.write(ids(2, 3), ids(2))
    assert sink.rows() == [{"id": 1}, {"id": 2}]


def test_a_commit_whose_answer_was_lost_is_not_made_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, {"id": "int"})
    catalog = lake.catalog
    real = catalog.commit_table

    def lost(*args: Any) -> Any:
        real(*args)
        monkeypatch.setattr(catalog, "commit_table", real)
        raise ConnectionError

    monkeypatch.setattr(catalog, "commit_table", lost)
    assert sink.write(ids(1), ids(1))
    assert sink.rows() == [{"id": 1}]


@pytest.mark.parametrize("how", ["rows", "columns"])
def test_a_table_that_moved_since_it_was_read_is_not_written(lake: Lake, how: str) -> None:
    sink = Sink(lake, {"id": "int"})
    read = lake.table(*sink.place)
    if how == "rows":
        assert sink.write(ids(), ids(1))
    else:
        with lake.table(*sink.place).update_schema() as change:
            change.rename_column("id", "number")
    with pytest.raises(StaleHeadError):
        RowDelta(ids(2), ids(2), {}).write(lake.catalog, sink.place, read)
    assert len(lake.read_arrow(*sink.place)) == (how == "rows")


def test_a_pin_set_meanwhile_does_not_matter(lake: Lake) -> None:
    sink = Sink(lake, {"id": "int"})
    read = lake.table(*sink.place)
    lake.stage(*sink.place, "recov_1")
    assert RowDelta(ids(2), ids(2), {}).write(lake.catalog, sink.place, read) is not None
    assert sink.rows() == [{"id": 2}]
    assert "recov_1" in lake.table(*sink.place).metadata.refs


def test_a_property_is_set_in_the_same_commit(lake: Lake) -> None:
    sink = Sink(lake, {"id": "int"})
    read = lake.table(*sink.place)
    after = RowDelta(ids(2), ids(2), {"cdc.x": "y"}, {"cdc.note": "z"}).write(lake.catalog, sink.place, read)
    assert after is not None
    assert after.properties["cdc.note"] == "z"
    assert summary_of(snapshot_at(after.metadata, head_of(after.metadata)))["cdc.x"] == "y"


def test_a_batch_that_changes_nothing_is_a_commit_too(lake: Lake) -> None:
    sink = Sink(lake, {"id": "int"})
    before = lake.head(*sink.place)
    assert sink.write(ids(5), ids(), x="y")
    assert lake.head(*sink.place) != before
    assert sink.rows() == []


@pytest.mark.parametrize("setting", [{"write.format.default": "orc"}])
def test_a_table_of_another_layout_is_left_to_spark(lake: Lake, setting: dict[str, str]) -> None:
    sink = Sink(lake, {"id": "int"})

    def build(now: Any) -> Change | None:
        missing = any(now.properties.get(name) != value for name, value in setting.items())
        same = AssertTableUUID(uuid=now.metadata.table_uuid)
        return Change((same,), (SetPropertiesUpdate(updates=setting),)) if missing else None

    commit(lake.catalog, sink.place, build, what="a property")
    assert not sink.write(ids(1), ids(1))


def test_v3_tables_are_left_to_spark(tmp_path: Path) -> None:
    sink = Sink(lake_in(tmp_path, format_version="3"), {"id": "int"})
    assert not sink.write(ids(1), ids(1))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_writer_killed_at_its_commit_leaves_all_or_nothing(tmp_path: Path, when: str) -> None:
    sink = Sink(lake_in(tmp_path), {"id": "int"})
    assert sink.write(ids(1), ids(1))
    call = "row_delta.RowDelta(ids, ids, {'cdc.x': 'killed'}).write(catalog, place, read)"
    kill_at_commit(tmp_path, sink, when, call)
    files = len(list(tmp_path.rglob("*.parquet")))
    assert files == 3  # the first row, and the killed writer's deletes and rows
    assert sink.rows() == ([{"id": 1}] if when == "before" else [{"id": 1}, {"id": 2}])
    metadata = sink.lake.table(*sink.place).metadata
    stamped = summary_of(snapshot_at(metadata, head_of(metadata))).get("cdc.x") == "killed"
    assert stamped == (when == "after")
    assert sink.write(ids(1, 2), ids(1, 2))
    assert sink.rows() == [{"id": 1}, {"id": 2}]
