"""Records and what is opened of them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.events.record import RawRecord, Record, SchemaId, Side, Unreadable, Want
from airflow_cdc.events.value import WRONG, Shape, Value, Values, Wire, key_shape, row_shape
from tests.unit.tables import column, table

ORDERS = table(column("id", "bigint", nullable=False), column("note", "varchar(20)"), key=("id",))
KEYLESS = replace(ORDERS, key=())


class Whole:
    """A table of values in which every column is a whole number, except one."""

    way_out = ""

    def check_table(self, table: Table) -> None:
        """Nothing to refuse."""

    def value(self, column: Column) -> Value:
        if column.name == "refused":
            raise SchemaError("refused", where="column refused")
        return Value(Shape(Wire.INT), int)


WHOLE: Values = Whole()


def test_a_record_needs_no_headers() -> None:
    record: Record = RawRecord(0, 7, b"k", None)
    assert (record.offset, record.headers) == (7, ())


def test_a_table_without_a_key_is_always_read_with_its_old_rows() -> None:
    assert Want().of(ORDERS) == Want()
    assert Want().of(KEYLESS) == Want(Side.ROW, Side.ROW)
    assert Want(Side.IMAGE, Side.IMAGE).of(KEYLESS) == Want(Side.IMAGE, Side.IMAGE)


def test_why_a_record_is_unreadable_reaches_the_driver() -> None:
    error = Unreadable("the value is not JSON", doubted=True, unknown=("more",), schema_id=SchemaId("contentId", 7))
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own
    assert (again.why, again.doubted, again.unknown) == (error.why, True, ("more",))
    assert again.schema_id == SchemaId("contentId", 7)
    assert str(again) == "the value is not JSON"


def test_a_row_has_its_columns_and_no_others_and_a_key_may_have_a_routers_field() -> None:
    row, key = row_shape(ORDERS, WHOLE), key_shape(ORDERS, WHOLE)
    assert [name for name, _ in row.parts] == [column.name for column in ORDERS.mirrored]
    assert [name for name, _ in key.parts] == list(ORDERS.key)
    assert (row.whole, key.whole) == (True, False)


def test_a_column_that_events_do_not_carry_exactly_is_refused() -> None:
    with pytest.raises(SchemaError, match="refused"):
        row_shape(table(column("id", "bigint", nullable=False), column("refused", "bigint"), key=("id",)), WHOLE)


def test_a_value_of_another_type_is_still_that_after_a_journey() -> None:
    assert pickle.loads(pickle.dumps((1, WRONG)))[1] is WRONG  # noqa: S301 - its own
