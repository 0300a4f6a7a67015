"""Which changes of a definition events alone can carry a mirror through (INV 13)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.schema_change import (
    DEFINITION,
    SchemaChange,
    check_change,
    dump_definition,
    load_definition,
)
from airflow_cdc.core.table import ColumnDef, TableDef

ID = ColumnDef("id", 1, "bigint", "bigint", nullable=False)


def col(data_type: str, column_type: str = "", **more: Any) -> ColumnDef:
    return ColumnDef("c", 2, data_type, column_type or data_type, **more)


def table(*columns: ColumnDef, key: tuple[str, ...] = ("id",)) -> TableDef:
    return TableDef("shop", "t", (ID, *columns), key)


def text(size: int, data_type: str = "varchar", charset: str = "utf8mb4", **more: Any) -> ColumnDef:
    return col(data_type, f"{data_type}({size})", char_length=size, byte_length=size * 4, charset=charset, **more)


def dec(precision: int, scale: int) -> ColumnDef:
    return col("decimal", f"decimal({precision},{scale})", precision=precision, scale=scale)


def clock(data_type: str, fsp: int) -> ColumnDef:
    return col(data_type, f"{data_type}({fsp})", fsp=fsp)


def labels(*names: str, data_type: str = "enum") -> ColumnDef:
    return col(data_type, f"{data_type}({names})", labels=names)


WIDENED = [
    (col("int"), col("bigint")),
    (col("tinyint"), col("mediumint")),
    (col("int", "int unsigned"), col("bigint")),
    (col("int", "int unsigned"), col("bigint", "bigint unsigned")),
    (dec(10, 2), dec(12, 2)),
    (text(20), text(40)),
    (text(20), text(65535, "text")),
    (text(20, charset="latin1"), text(20)),
    (text(5, "char"), text(9, "char")),
    (labels("a", "b"), labels("a", "b", "c")),
    (labels("a", data_type="set"), labels("a", "z", data_type="set")),
    (clock("datetime", 0), clock("datetime", 3)),
    (clock("datetime", 4), clock("datetime", 6)),
    (clock("timestamp", 0), clock("timestamp", 6)),
    (col("bit", "bit(2)", precision=2), col("bit", "bit(9)", precision=9)),
    (text(20, nullable=False), text(20)),
]

BROKEN = [
    (col("bigint"), col("int"), "lossless"),
    (col("int"), col("int", "int unsigned"), "lossless"),
    (col("int"), text(20), "lossless"),
    (dec(10, 2), dec(12, 3), "lossless"),
    (dec(10, 2), dec(9, 2), "lossless"),
    (text(40), text(20), "lossless"),
    (text(20), text(20, charset="latin1"), "characters"),
    (text(20), text(20, nullable=False), "forbidden"),
    (labels("a", "b"), labels("z", "a", "b"), "lossless"),
    (labels("a", "b"), labels("a"), "lossless"),
    (clock("datetime", 3), clock("datetime", 6), "lossless"),
    (clock("time", 6), clock("time", 0), "lossless"),
    (col("float"), col("double"), "lossless"),
    (col("binary", "binary(4)", byte_length=4), col("binary", "binary(8)", byte_length=8), "lossless"),
    (col("bit", "bit(1)", precision=1), col("bit", "bit(2)", precision=2), "lossless"),
    (col("int", generated=True, expression="id+1"), col("int", generated=True, expression="id+2"), "generated"),
    (col("int"), col("int", generated=True, expression="id+2"), "generated"),
]


@pytest.mark.parametrize(("old", "new"), WIDENED)
def test_a_lossless_widening_passes(old: ColumnDef, new: ColumnDef) -> None:
    change = check_change(table(old), table(new), None)
    assert change.added == ()
    assert change.widened == (("c",) if old.column_type != new.column_type else ())


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_inv_13_any_other_change_of_a_column_is_named(old: ColumnDef, new: ColumnDef, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        check_change(table(old), table(new), None)
    assert "column c" in str(caught.value)
    assert "shop.t" in str(caught.value)


def test_what_does_not_touch_rows_passes_without_a_word() -> None:
    old = table(text(20, collation="utf8mb4_general_ci"), replace(text(5), name="d", ordinal=3))
    new = table(replace(text(5), name="d", ordinal=2), replace(text(20, collation="utf8mb4_bin"), ordinal=3))
    assert check_change(old, new, None) == SchemaChange()
    assert not check_change(old, new, None).any


def test_an_integers_display_width_does_not_count() -> None:
    assert (
        check_change(table(col("int", "int(11)", precision=10)), table(col("int", "int", precision=10)), None).added
        == ()
    )


def test_a_nullable_column_without_a_default_may_be_added() -> None:
    new = table(text(20))
    assert check_change(table(), new, {"c": None}) == SchemaChange(added=("c",))


@pytest.mark.parametrize(
    ("column", "defaults", "message"),
    [
        (text(20), None, "default is not known"),
        (text(20), {}, "default is not known"),
        (text(20), {"c": ""}, "with a default"),
        (text(20, nullable=False), {"c": None}, "NOT NULL"),
        (col("int", generated=True, expression="id"), {"c": None}, "generated column c"),
    ],
)
def test_inv_13_a_column_that_fills_old_rows_is_refused(column: ColumnDef, defaults: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        check_change(table(), table(column), defaults)


def test_inv_13_a_dropped_column_and_a_changed_key_are_refused() -> None:
    with pytest.raises(SchemaError, match="column c was dropped"):
        check_change(table(text(20)), table(), None)
    with pytest.raises(SchemaError, match=r"key changed from \(id\) to \(\)"):
        check_change(table(), table(key=()), None)


def test_a_definition_travels_as_a_property() -> None:
    made = table(labels("a", "ü"))
    assert load_definition({DEFINITION: dump_definition(made)}) == made
    assert load_definition({}) is None
    with pytest.raises(SchemaError, match=DEFINITION):
        load_definition({DEFINITION: "{"})
