"""Which changes of a definition events alone can carry a mirror through (INV 13)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from airflow_cdc.core.errors import RereadNeededError, SchemaError
from airflow_cdc.core.table import Column, Table
from airflow_cdc.decisions.apply.schema_change import (
    DEFINITION,
    check_added,
    dump_definition,
    load_definition,
    stored_definition,
)
from airflow_cdc.sources.mysql.column_changes import check_column
from airflow_cdc.sources.mysql.types import words_of
from tests.unit.tables import col as made

ID = made("id", 1, "bigint", "bigint", nullable=False)


def col(data_type: str, column_type: str = "", **more: Any) -> Column:
    return made("c", 2, data_type, column_type or data_type, **more)


def table(*columns: Column, key: tuple[str, ...] = ("id",)) -> Table:
    return Table("shop", "t", (ID, *columns), key)


def text(size: int, data_type: str = "varchar", charset: str = "utf8mb4", **more: Any) -> Column:
    return col(data_type, f"{data_type}({size})", char_length=size, byte_length=size * 4, charset=charset, **more)


def dec(precision: int, scale: int) -> Column:
    return col("decimal", f"decimal({precision},{scale})", precision=precision, scale=scale)


def clock(data_type: str, fsp: int) -> Column:
    return col(data_type, f"{data_type}({fsp})", fsp=fsp)


def labels(*names: str, data_type: str = "enum") -> Column:
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
    (labels("a", "b"), labels("z", "a", "b"), "lossless"),
    (labels("a", "b"), labels("a"), "lossless"),
    (clock("datetime", 3), clock("datetime", 6), "lossless"),
    (clock("time", 6), clock("time", 0), "lossless"),
    (col("float"), col("double"), "lossless"),
    (col("binary", "binary(4)", char_length=4), col("binary", "binary(8)", char_length=8), "lossless"),
    (col("bit", "bit(1)", precision=1), col("bit", "bit(2)", precision=2), "lossless"),
    (col("int", generated=True, expression="id+1"), col("int", generated=True, expression="id+2"), "generated"),
    (col("int"), col("int", generated=True, expression="id+2"), "generated"),
]


@pytest.mark.parametrize(("old", "new"), WIDENED)
def test_a_lossless_widening_passes(old: Column, new: Column) -> None:
    widened = old.native.type != new.native.type or words_of(old).charset != words_of(new).charset
    assert check_column(table(), old, new) is widened


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_inv_13_any_other_change_of_a_column_is_named(old: Column, new: Column, message: str) -> None:
    with pytest.raises(RereadNeededError, match=message) as caught:
        check_column(table(), old, new)
    assert "column c" in str(caught.value)
    assert "shop.t" in str(caught.value)


def test_what_does_not_touch_rows_passes_without_a_word() -> None:
    assert not check_column(table(), text(20, collation="utf8mb4_general_ci"), text(20, collation="utf8mb4_bin"))


def test_an_integers_display_width_does_not_count() -> None:
    assert not check_column(table(), col("int", "int(11)", precision=10), col("int", "int", precision=10))


def test_a_nullable_column_without_a_default_may_be_added() -> None:
    check_added(table(), text(20), {"c": None})


@pytest.mark.parametrize(
    ("column", "defaults", "message"),
    [
        (text(20), None, "default is unknown"),
        (text(20), {}, "default is unknown"),
        (text(20), {"c": ""}, "with a default"),
        (text(20, nullable=False), {"c": None}, "NOT NULL"),
        (col("int", generated=True, expression="id"), {"c": None}, "generated column c"),
    ],
)
def test_inv_13_a_column_that_fills_old_rows_is_refused(column: Column, defaults: Any, message: str) -> None:
    with pytest.raises(RereadNeededError, match=message):
        check_added(table(), column, defaults)


def test_a_definition_is_known_by_its_fingerprint_as_it_was_written() -> None:
    made = table(labels("a", "ü"))
    known = {DEFINITION: dump_definition(made)}
    assert stored_definition(known, made.fingerprint) == made == stored_definition(known, None)
    assert stored_definition(known, "another") is None
    assert stored_definition({}, made.fingerprint) is None
    # what an older version wrote, which described less of a column
    older = json.loads(known[DEFINITION])
    for one in older["columns"]:
        del one["zoned"]
    fingerprint = hashlib.sha256(json.dumps(older, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert stored_definition({DEFINITION: json.dumps(older)}, fingerprint) == made


def test_a_definition_travels_as_a_property() -> None:
    made = table(labels("a", "ü"))
    assert load_definition({DEFINITION: dump_definition(made)}) == made
    assert load_definition({}) is None
    with pytest.raises(SchemaError, match=DEFINITION):
        load_definition({DEFINITION: "{"})
