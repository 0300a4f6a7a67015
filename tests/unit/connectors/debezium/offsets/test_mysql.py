from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.connectors.debezium.offsets.mysql import MySqlOffset, validate
from airflow_cdc.core.errors import OffsetRejectedError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import mysql_position
from tests.diagnosing import offset_for, offset_in
from tests.marks import moved
from tests.unit.builders import UUID, WATERMARK

FILE, OTHER_SERIES = "mysql-bin.000009", "binlog.000009"
NO_GTID = moved(WATERMARK, gtids=None)
LIVED_IN = {
    "file": FILE,
    "pos": 4,
    "gtids": f"{UUID}:1-29",
    "ts_sec": 1795244529,
    "server_id": 1,
    "event": 2,
    "row": 3,
    "snapshot": "INITIAL",
    "snapshot_completed": False,
    "transaction_id": None,
    "incremental_snapshot_primary_key": "aced",
}

counts = st.integers(0, 2**40)
offsets = st.builds(
    MySqlOffset,
    file=st.just(FILE),
    pos=counts,
    gtids=st.sampled_from([None, GtidSet(), GtidSet.parse(f"{UUID}:1-3:t:2")]),
    ts_sec=st.none() | counts,
    server_id=st.none() | counts,
    event=counts,
    row=counts,
    extra=st.sampled_from([(), (("snapshot", "true"),), (("transaction_id", "x"), ("a_key_of_a_later_version", 1))]),
)


@given(offsets)
def test_from_value_reverses_to_value(offset: MySqlOffset) -> None:
    assert MySqlOffset.from_value(offset.to_value()) == offset


def test_a_value_is_kept_whole() -> None:
    assert MySqlOffset.from_value(LIVED_IN).to_value() == LIVED_IN


def test_the_value_debezium_wrote_in_the_field_is_valid() -> None:
    value = {"ts_sec": 1795244529, "file": "mysql-bin.000004", "pos": 198, "gtids": f"{UUID}:1-29"}
    assert validate(value) == ()
    assert MySqlOffset.from_value(value).to_value() == value


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"pos": 4}, "file is missing"),
        ({"file": None, "pos": 4}, "file is missing"),
        ({"file": FILE}, "pos is missing"),
        ({"file": FILE, "pos": "4"}, "pos must be a number of 0 or more"),
        ({"file": FILE, "pos": True}, "pos must be a number of 0 or more"),
        ({"file": FILE, "pos": -4}, "pos must be a number of 0 or more"),
        ({"file": FILE, "pos": 4, "row": 1.5}, "row must be a number of 0 or more"),
        ({"file": 9, "pos": 4}, "file must be text"),
        ({"file": "mysql-bin", "pos": 4}, "not a binlog file name"),
        ({"file": FILE, "pos": 4, "gtids": "x:1"}, "GTID set cannot be read"),
        ({"file": FILE, "pos": 4, "gtids": ["x"]}, "gtids must be text"),
        ({"fiel": FILE, "file": FILE, "pos": 4}, "unknown key 'fiel' (did you mean 'file'?)"),
    ],
)
def test_validate_names_the_fault(value: dict[str, Any], fault: str) -> None:
    faults = validate(value)
    assert len(faults) == 1
    assert fault in faults[0]


def test_every_fault_is_told_at_once() -> None:
    assert len(validate({"pos": -1, "gtids": "x", "nonsense": 1})) == 4


def test_reading_a_malformed_value_is_refused_with_its_reasons() -> None:
    with pytest.raises(OffsetRejectedError, match="pos is missing") as caught:
        MySqlOffset.from_value({"file": FILE})
    assert caught.value.reasons == ("pos is missing",)


def test_reading_keeps_what_a_later_version_adds() -> None:
    value = {"file": FILE, "pos": 4, "a_new_key": 1}
    assert MySqlOffset.from_value(value).to_value() == value
    assert validate(value) != ()


def test_offset_for_w_resets_everything_but_the_position() -> None:
    assert offset_for(WATERMARK, 1795244529) == {
        "file": mysql_position(WATERMARK.position).file,
        "pos": mysql_position(WATERMARK.position).pos,
        "gtids": f"{UUID}:1-80",
        "ts_sec": 1795244529,
    }


def test_offset_for_w_without_gtid_has_no_gtids_key() -> None:
    assert offset_for(NO_GTID, 7) == {
        "file": mysql_position(WATERMARK.position).file,
        "pos": mysql_position(WATERMARK.position).pos,
        "ts_sec": 7,
    }


def test_offset_for_w_has_no_newline_and_the_full_set() -> None:
    w = moved(WATERMARK, gtids=GtidSet.parse(f"{UUID}:1-4,\n{UUID[:-1]}9:1-2:t:5"))
    written = offset_for(w, 7)["gtids"]
    assert "\n" not in written
    assert GtidSet.parse(written) == mysql_position(w.position).gtids


@given(st.sampled_from([None, GtidSet.parse(f"{UUID}:1-3:t:2")]), counts)
def test_what_is_written_is_valid_and_starts_at_w(gtids: GtidSet | None, ts: int) -> None:
    w = moved(WATERMARK, gtids=gtids)
    value = offset_for(w, ts)
    assert validate(value) == ()
    assert offset_in(value).has_read(w) is True


@pytest.mark.parametrize(
    ("watermark", "offset", "expected"),
    [
        (WATERMARK, MySqlOffset(FILE, 4, GtidSet.parse(f"{UUID}:1-80")), True),
        (WATERMARK, MySqlOffset(FILE, 4, GtidSet.parse(f"{UUID}:1-79:81-90")), False),
        # inside a transaction, which may be the last one of W, read again after a lost connection
        (WATERMARK, MySqlOffset(FILE, 4, GtidSet.parse(f"{UUID}:1-80"), event=34, row=31), False),
        (WATERMARK, MySqlOffset(FILE, 4, GtidSet.parse(f"{UUID}:1-80"), row=1), False),
        (WATERMARK, MySqlOffset(FILE, 4, GtidSet.parse(f"{UUID}:1-81"), event=34), True),
        (NO_GTID, MySqlOffset(FILE, 500, event=2), False),
        (NO_GTID, MySqlOffset(FILE, 501, event=2), True),
        (WATERMARK, MySqlOffset("mysql-bin.000099", 4, GtidSet.parse(f"{UUID}:1-79")), False),  # the set alone counts
        (WATERMARK, MySqlOffset(FILE, 4, GtidSet()), False),
        (WATERMARK, MySqlOffset("mysql-bin.000099", 4), None),
        (NO_GTID, MySqlOffset(FILE, 500), True),
        (NO_GTID, MySqlOffset("mysql-bin.000010", 4), True),
        (NO_GTID, MySqlOffset(FILE, 499), False),
        (NO_GTID, MySqlOffset(FILE, 500, server_id=1), True),
        (NO_GTID, MySqlOffset(FILE, 900, server_id=2), None),
        (NO_GTID, MySqlOffset(OTHER_SERIES, 900), None),
        (NO_GTID, MySqlOffset(FILE, 900, extra=(("snapshot", "INITIAL"),)), False),
        (NO_GTID, MySqlOffset(FILE, 900, extra=(("snapshot", "INITIAL"), ("snapshot_completed", True))), True),
    ],
)
def test_inv_38_what_is_past_a_position(watermark: Watermark, offset: MySqlOffset, expected: bool | None) -> None:
    assert offset_in(offset.to_value()).has_read(watermark) is expected
