"""Short ways to write table definitions in tests."""

from __future__ import annotations

from typing import Any

from airflow_cdc.core.table import ColumnDef, TableDef


def column(name: str, column_type: str, **more: Any) -> ColumnDef:
    """A column of that type; ordinal 1 unless said."""
    return ColumnDef(name, more.pop("ordinal", 1), column_type.replace("(", " ").partition(" ")[0], column_type, **more)


def table(*columns: ColumnDef, key: tuple[str, ...] = ()) -> TableDef:
    """shop.t with these columns in this order."""
    made = tuple(
        ColumnDef(**{**{f: getattr(c, f) for f in c.__slots__}, "ordinal": i}) for i, c in enumerate(columns, start=1)
    )
    return TableDef("shop", "t", made, key)
