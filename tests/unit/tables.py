"""Short ways to write table definitions in tests."""

from __future__ import annotations

from typing import Any

from airflow_cdc.core.table import Column, Table


def column(name: str, column_type: str, **more: Any) -> Column:
    """A column of that type; ordinal 1 unless said."""
    return Column(name, more.pop("ordinal", 1), column_type.replace("(", " ").partition(" ")[0], column_type, **more)


def table(*columns: Column, key: tuple[str, ...] = ()) -> Table:
    """shop.t with these columns in this order."""
    made = tuple(
        Column(**{**{f: getattr(c, f) for f in c.__slots__}, "ordinal": i}) for i, c in enumerate(columns, start=1)
    )
    return Table("shop", "t", made, key)
