"""Tables that Flink's job made: what their properties and files say, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_cdc.core.errors import ConfigError
from airflow_cdc.sinks.hudi.client import HudiSink
from airflow_cdc.sinks.hudi.endpoint import HudiEndpoint
from airflow_cdc.sinks.hudi.kind import BUCKETS, HudiSettings
from airflow_cdc.sinks.hudi.shared import SharedTable, bucket_of

# as Flink wrote them, without what is not read
PROPERTIES = """\
#Updated at 2026-11-25T17:24:05.594732760Z
hoodie.table.keygenerator.type=NON_PARTITION_AVRO
hoodie.table.type=MERGE_ON_READ
hoodie.table.metadata.partitions=files
hoodie.table.create.schema={"type"\\:"record"}
hoodie.table.name=to_t
hoodie.table.recordkey.fields=id
"""
KEY = [("id", "bigint")]
# of rows with these keys, as Flink and Spark named them
FLINK = "00000001-4361-4da7-b255-e92d3d2190d8_0-1-0_20261125171604669.parquet"
LOG = ".00000003-4361-4da7-b255-e92d3d2190d8_20261125171603255.log.1_0-1-0"


def table(folder: Path, more: str = "", **files: str) -> SharedTable:
    """A table with these properties; `files`: the keys of the rows in a base file, by its name."""
    (folder / ".hoodie").mkdir(parents=True, exist_ok=True)
    (folder / ".hoodie" / "hoodie.properties").write_text(PROPERTIES + more)
    for name, key in files.items():
        pq.write_table(pa.table({"_hoodie_record_key": key.split(",")}), folder / name)
    known = SharedTable.read(folder)
    assert known is not None
    return known


def test_a_folder_without_a_table(tmp_path: Path) -> None:
    assert SharedTable.read(tmp_path) is None


def test_its_properties(tmp_path: Path) -> None:
    known = table(tmp_path)
    assert (known.name, known.kind, known.keys, known.listed) == ("to_t", "MERGE_ON_READ", ("id",), True)
    assert (known.partitions, known.ordering) == ((), ())


def test_the_bucket_of_a_key_is_the_one_in_which_flink_put_it() -> None:
    """Keys and buckets as Flink and Spark wrote them into a table of four."""
    buckets = {"1": 0, "2": 1, "3": 2, "4": 3, "5": 0, "9": 0, "10": 2, "11": 3, "13": 1, "19": 3, "100": 0}
    assert {key: bucket_of(key, 4) for key in buckets} == buckets


def test_a_table_by_buckets_is_taken(tmp_path: Path) -> None:
    known = table(tmp_path, **{FLINK: "2"})
    (tmp_path / LOG).touch()
    (tmp_path / ".hoodie_partition_metadata").touch()
    assert list(known.faults(KEY, 4)) == []


@pytest.mark.parametrize(
    ("more", "key", "said"),
    [
        ("hoodie.table.partition.fields=day\n", KEY, "it has partitions, by day"),
        ("hoodie.table.ordering.fields=ts\n", KEY, "its rows are ordered by ts"),
        ("hoodie.table.precombine.field=ts\n", KEY, "its rows are ordered by ts"),
        ("", [("no", "bigint")], "its record key is id, and the source's no"),
        ("", [("id", "string")], "its record key is not one column of whole numbers"),
        ("hoodie.table.recordkey.fields=id,no\n", [("id", "int"), ("no", "int")], "not one column of whole numbers"),
        ("hoodie.table.keygenerator.type=COMPLEX\n", KEY, "its key generator is COMPLEX"),
    ],
)
def test_what_is_refused_by_name(tmp_path: Path, more: str, key: list[tuple[str, str]], said: str) -> None:
    (fault,) = table(tmp_path, more).faults(key, 4)
    assert said in fault


def test_a_state_index_is_refused(tmp_path: Path) -> None:
    """Its file groups have names without a number."""
    known = table(tmp_path, **{FLINK.replace("00000001", "4f3a90b1"): "2"})
    (fault,) = known.faults(KEY, 4)
    assert "only index.type = BUCKET" in fault


def test_fewer_buckets_than_the_job_has_are_refused(tmp_path: Path) -> None:
    known = table(tmp_path)
    (tmp_path / LOG).touch()
    (fault,) = known.faults(KEY, 3)
    assert "none of 3 buckets" in fault


def test_more_buckets_than_the_job_has_are_refused(tmp_path: Path) -> None:
    """The key of a row tells, where the numbers of the files alone do not."""
    known = table(tmp_path, **{FLINK: "2,6"})
    (fault,) = known.faults(KEY, 5)
    assert "none of 5 buckets" in fault


def test_settings_say_who_writes(tmp_path: Path) -> None:
    ours = HudiSettings("hudi", "shop", "/lake")
    assert not ours.at(HudiEndpoint()).shared
    theirs = HudiSettings("hudi", "shop", "/lake", buckets=7, writer="connector")
    assert theirs.at(HudiEndpoint()).buckets == 7


@pytest.mark.parametrize("written", [0, -1, "4", True])
def test_a_number_of_buckets(written: object) -> None:
    with pytest.raises(ConfigError, match="whole number above 0"):
        BUCKETS.read(written)


def test_a_table_that_the_connector_has_to_make(tmp_path: Path) -> None:
    sink = HudiSink(HudiEndpoint.of(str(tmp_path), buckets=4))
    assert not sink.exists("shop", "orders")
    assert not sink.ensure_table("shop", "orders", KEY)  # its columns are noted, and it is not made
    assert not sink.exists("shop", "orders")
    table(tmp_path / "shop" / "orders")
    assert sink.exists("shop", "orders")
    assert sink.noted(("shop", "orders")).columns == tuple(KEY)
