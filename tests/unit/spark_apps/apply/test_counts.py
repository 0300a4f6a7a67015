"""What a batch that is not applied says, by what was counted in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.dead_letter import MISREAD
from airflow_cdc.core.errors import UnreadableEventsError
from airflow_cdc.spark_apps.apply.counts import Counts, check
from tests.unit.tables import column, table

ROUTING: Any = SimpleNamespace(
    key_mark=lambda _name: None, doubt_way_out="Convert the column.", unreadable_way_out="Name a converter."
)
START: Any = SimpleNamespace(table=table(column("id", "varchar(9)"), key=("id",)), topic="shop.shop.t", change=None)


@pytest.mark.parametrize(
    ("reason", "way_out"),
    [(f"the key's id: {MISREAD}", "Convert the column."), ("the value is not JSON", "Name a converter.")],
)
def test_keys_with_characters_that_are_read_differently_are_no_fault_of_a_converter(reason: str, way_out: str) -> None:
    with pytest.raises(UnreadableEventsError) as refused:
        check(Counts(records=3, bad=3, unreadable=3, reason=reason), START, ROUTING, 5, 0.5)
    assert reason in str(refused.value)
    assert refused.value.todo.startswith(way_out)
