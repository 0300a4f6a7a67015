"""Offsets in the metadata of a savepoint that Flink 1.20.3 with Flink CDC 3.5.0 wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_cdc.connectors.flink.checkpoint import existing, of_source, offsets_in, operator_id, read_checkpoint
from airflow_cdc.core.errors import ConnectorError

REAL = (Path(__file__).parents[3] / "data" / "flink-savepoint.bin").read_bytes()
OFFSET = {
    "transaction_id": None,
    "ts_sec": "1795509319",
    "file": "mysql-bin.000001",
    "pos": "1196",
    "kind": "SPECIFIC",
    "gtids": "c7b26f9b-e7e1-11f1-9f10-02fc00000001:1-4",
    "row": "1",
    "event": "2",
    "server_id": "101",
}


def test_the_offset_is_that_of_the_log_and_not_of_the_snapshot_before_it() -> None:
    (one,) = offsets_in(REAL, "here")
    assert (one.raw, one.tables) == (OFFSET, ("shop.t",))


def test_each_source_of_a_job_has_its_own() -> None:
    other = REAL.replace(b'"shop"."t"', b'"crm_"."u"').replace(b'"pos":"1196"', b'"pos":"2000"')
    offsets = offsets_in(REAL + other, "here")
    assert [(one.raw["pos"], one.tables[0]) for one in offsets] == [("1196", "shop.t"), ("2000", "crm_.u")]


def test_the_offset_of_one_source_is_found_by_its_operator() -> None:
    other = REAL.replace(operator_id("1_source"), operator_id("3_source")).replace(b'"pos":"1196"', b'"pos":"2000"')
    both = REAL + other
    offsets = offsets_in(both, "here")
    found = {node: [one.raw["pos"] for one in of_source(both, offsets, (1, 3), node)] for node in (1, 3)}
    assert found == {1: ["1196"], 3: ["2000"]}
    # source 3 was replaced by 7: its state is still there, and is nobody's
    assert [one.raw["pos"] for one in of_source(both, offsets, (1, 7), 1)] == ["1196"]
    assert of_source(both, offsets, (1, 7), 7) == ()
    # source 1 still copies its table: what follows is that of source 3
    both = REAL.replace(b"binlog-split", b"shop.t:00000") + other
    assert of_source(both, offsets_in(both, "here"), (1, 3), 1) == ()


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("", "00000000000000000000000000000000"),
        ("a", "897859f6655555855a890e51483ab5e6"),
        ("a" * 33, "bdd433f476c32ee0019fde9dbb56e3ae"),
    ],
)
def test_an_operators_id_is_the_hash_of_its_name(name: str, id_: str) -> None:
    assert operator_id(name).hex() == id_


def test_a_source_that_still_copies_its_tables_has_none() -> None:
    assert offsets_in(REAL.replace(b"binlog-split", b"shop.t:00000"), "here") == ()


def test_what_is_cut_off_is_an_error_and_no_offset() -> None:
    end = REAL.index(b'"pos":"1196"')
    with pytest.raises(ConnectorError, match="no JSON"):
        offsets_in(REAL[:end], "here")


def test_a_checkpoint_that_flink_removed_gives_way_to_the_newest_beside_it(tmp_path: Path) -> None:
    for number in (9, 10):
        (tmp_path / f"chk-{number}").mkdir()
        (tmp_path / f"chk-{number}" / "_metadata").write_bytes(REAL)
    (tmp_path / "chk-11").mkdir()  # begun, not complete
    gone = f"file:{tmp_path}/chk-8"
    assert existing(gone) == (tmp_path / "chk-10").as_uri()
    assert read_checkpoint(gone)[0].raw == OFFSET
    assert existing(f"file:{tmp_path}/chk-9") == f"file:{tmp_path}/chk-9"


@pytest.mark.parametrize("path", ["file:///nowhere/savepoint-1", "s3://bucket/savepoint-1"])
def test_what_the_worker_cannot_read_is_said(path: str) -> None:
    with pytest.raises(ConnectorError, match="cannot be read") as error:
        read_checkpoint(path)
    assert path in error.value.where
    assert existing(path) == path
