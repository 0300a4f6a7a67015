"""How many tables are compared at a time, and which of them share a view."""

from __future__ import annotations

from typing import Any, cast

from airflow_cdc.core.table import Table
from airflow_cdc.spark_apps.compare.scan import CONNECTIONS, SMALL_ROWS, TOGETHER, Subject, groups, shared
from tests.unit.tables import column


def subject(name: str, rows: int, *, keyless: bool = False) -> Subject:
    unused = cast("Any", None)
    table = Table("shop", name, (column("id", "int"),), () if keyless else ("id",))
    return Subject(table, unused, None, {}, unused, rows)


def names(lots: Any) -> list[list[str]]:
    return [[one.table.name if isinstance(one, Subject) else one.name for one in lot] for lot in lots]


def test_small_tables_share_and_no_group_takes_more_connections() -> None:
    subjects = [subject(f"s{n}", SMALL_ROWS) for n in range(500)] + [
        subject(f"l{n}", SMALL_ROWS + 1) for n in range(20)
    ]
    subjects[100] = subject("keyless", 1, keyless=True)
    made = list(groups(subjects, sharing=True))
    assert [one for group in made for one in group] == subjects
    assert max(len(shared(group)) for group in made) == CONNECTIONS
    assert len(made) < len(list(groups(subjects, sharing=False))) / 8
    assert max(len(lot) for group in made for lot in shared(group)) == TOGETHER
    assert ["keyless"] in names(lot for group in made for lot in shared(group))
    assert all(len(lot) == 1 for group in made for lot in shared(group) if any(table.name[0] in "lk" for table in lot))


def test_without_sharing_each_table_has_a_connection() -> None:
    made = list(groups([subject(f"s{n}", 1) for n in range(20)], sharing=False))
    assert [len(group) for group in made] == [CONNECTIONS, CONNECTIONS, 4]
    assert list(groups([], sharing=True)) == []
