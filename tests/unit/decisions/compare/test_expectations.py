"""What readers of a table may rely on: each fault of a snapshot is a failure, in words."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from airflow_cdc.core.codec import plain, read
from airflow_cdc.decisions.compare.expectations import Counted, Expected, StageFacts, judged

COLUMNS = {"id": "bigint", "line": "int", "price": "decimal(20,0)", "place": "struct<srid:int,wkb:binary>"}
TYPES = {"id": "LongType", "line": "IntegerType", "price": "DecimalType", "place": "StructType"}
EXPECTED = Expected("shop.orders", 7, COLUMNS, ("id", "line"), rows=50, key=("id", "line"))
SOUND = StageFacts(50, TYPES, {"id": 0, "line": 0})


def failures(facts: StageFacts, expected: Expected = EXPECTED) -> tuple[str, ...]:
    return judged(Counted(expected, facts)).failures


def test_a_sound_snapshot_has_no_failure() -> None:
    assert (judged(Counted(EXPECTED, SOUND)).success, failures(SOUND)) == (True, ())


def without(name: str) -> dict[str, str]:
    return {column: kind for column, kind in TYPES.items() if column != name}


@pytest.mark.parametrize(
    ("facts", "failure"),
    [
        pytest.param(replace(SOUND, rows=49), "rows: 49, expected 50", id="a row too few"),
        pytest.param(replace(SOUND, rows=51), "rows: 51, expected 50", id="a row too many"),
        pytest.param(replace(SOUND, repeated=2), "rows whose key another row has: 2, expected 0", id="a key twice"),
        pytest.param(replace(SOUND, nulls={"id": 0, "line": 3}), "NULLs in line: 3, expected 0", id="a NULL"),
        pytest.param(
            replace(SOUND, types=TYPES | {"price": "StringType"}),
            "column 3: price StringType, expected price DecimalType",
            id="another type",
        ),
        pytest.param(
            replace(SOUND, types=without("line")),
            "column 2: price DecimalType, expected line IntegerType, and 2 after it",
            id="a column is missing",
        ),
        pytest.param(
            replace(SOUND, types=TYPES | {"more": "LongType"}),
            "column 5: more LongType, expected none",
            id="a column too many",
        ),
        pytest.param(
            replace(SOUND, types={name: TYPES[name] for name in ("line", "id", "price", "place")}),
            "column 1: line IntegerType, expected id LongType, and 1 after it",
            id="another order",
        ),
    ],
)
def test_each_fault_is_a_failure_in_words(facts: StageFacts, failure: str) -> None:
    assert failures(facts) == (failure,)


@pytest.mark.parametrize(
    ("rows", "said"),
    [(48, ("rows: 48, expected 49 to 51",)), (49, ()), (51, ()), (52, ("rows: 52, expected 49 to 51",))],
)
def test_rows_in_flight_widen_the_count_by_as_many(rows: int, said: tuple[str, ...]) -> None:
    assert failures(replace(SOUND, rows=rows), replace(EXPECTED, tolerance=1)) == said


def test_a_table_without_a_key_may_hold_equal_rows() -> None:
    assert failures(replace(SOUND, repeated=2), replace(EXPECTED, key=())) == ()


def test_facts_are_kept_and_read_back_as_they_were() -> None:
    kept = Counted(EXPECTED, SOUND)
    assert read(Counted, json.loads(json.dumps(plain(kept)))) == kept
