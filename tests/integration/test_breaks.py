"""The short form of `make breaks`: a disk that fills, a process that is killed while it writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_cdc.core.errors import CdcError, SinkError
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.sinks.iceberg import catalog as iceberg_catalog
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.row_delta import RowDelta
from airflow_cdc.spark_apps.driver.app import explained
from tests.breaks.full_disk import Disk, small_disk
from tests.breaks.killing import killed_at_each_change


def test_a_process_killed_while_it_writes_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    told = killed_at_each_change(tmp_path, pipelines_yaml=1, report=1, few_changes=16)
    assert {name: one["faults"] for name, one in told.items()} == {name: [] for name in told}
    assert all(one["kills"] > 3 for one in told.values()), told


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", 16) as made:
        yield made


def test_a_full_disk_is_one_error_and_nothing_is_half_written(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit, and a report: what stood there still stands, and with room again it is done."""
    (disk.folder / "data").mkdir()
    catalog = {"uri": f"sqlite:///{disk.folder}/catalog.db", "warehouse": f"file://{disk.folder}/data"}
    lake, place, reports = (
        Lake("lake", {"type": "sql", **catalog}),
        ("shop", "t"),
        ReportStore(f"{disk.folder}/reports"),
    )
    lake.ensure_table(*place, [("id", "int")])

    def write(first: int) -> bool:
        rows = pa.table({"id": pa.array([first, first + 1], pa.int32())})
        with explained(SinkError, "apply the changes", where="table shop.t", todo="Run it again."):
            return RowDelta(rows, rows, {"at": str(first)}).write(lake.catalog, place, lake.table(*place)) is not None

    assert write(1)
    reports.write("old", "shop", "report.json")
    monkeypatch.setattr(iceberg_catalog, "COMMIT_SECONDS", 2.0)  # for so long a commit is tried again
    for left in (0, 16_384):
        with disk.filled(left):
            with pytest.raises(CdcError) as caught:
                write(5)
            assert caught.value.where
            assert "No space left" in str(caught.value)
            if not left:
                with pytest.raises(CdcError, match="No space left"):
                    reports.write("new", "shop", "report.json")
        assert sorted(lake.read_arrow(*place)["id"].to_pylist()) == [1, 2]
        assert reports.read("shop", "report.json") == b"old"
    assert write(5)
    reports.write("new", "shop", "report.json")
    assert sorted(lake.read_arrow(*place)["id"].to_pylist()) == [1, 2, 5, 6]
    assert reports.read("shop", "report.json") == b"new"
