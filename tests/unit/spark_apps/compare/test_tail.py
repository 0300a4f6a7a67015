"""Events decoded in the process, as evidence of a comparison."""

from __future__ import annotations

from airflow_cdc.decisions.apply.applied import LastChange, PlainChange
from airflow_cdc.spark_apps.compare.tail import plain_events
from tests.unit.tables import column, table

TABLE = table(column("id", "int"), column("v", "int", nullable=True), key=("id",))
PLACED = LastChange("u", (1, 2, 3), "1/f", 4, "u:1", 5)


def test_a_change_without_a_place_in_the_log_counts_and_a_tombstone_does_not() -> None:
    changes = [
        PlainChange(0, 1, "u", (7,), (7, 1), None),
        PlainChange(0, 2, "d", (7,)),
        PlainChange(0, 3, "tombstone", (7,)),
        PlainChange(0, 4, "c", (8,), (8, 2), PLACED),
    ]
    seen = [(one.offset, one.op, one.origin, one.place, one.transaction) for one in plain_events(TABLE, changes)]
    assert seen == [
        (1, "u", None, (0, 0, 0), None),
        (2, "d", None, (0, 0, 0), None),
        (4, "c", "u", (1, 2, 3), "u:1"),
    ]
