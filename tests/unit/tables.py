"""Short ways to write definitions of MySQL's tables in tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from airflow_cdc.core.table import Column, Table
from airflow_cdc.sources.mysql.types import MySqlWords, mysql_column, with_zones


def col(name: str, ordinal: int, data_type: str, column_type: str, **more: Any) -> Column:
    """A column in MySQL's words; `nullable`, `generated` and the fields of MySqlWords may be given."""
    about = {key: more.pop(key) for key in ("nullable", "generated") if key in more}
    return mysql_column(name, ordinal, MySqlWords(data_type, column_type, **more), **about)


def column(name: str, column_type: str, **more: Any) -> Column:
    """A column of that type; ordinal 1 unless said."""
    return col(name, more.pop("ordinal", 1), column_type.replace("(", " ").partition(" ")[0], column_type, **more)


def table(*columns: Column, key: tuple[str, ...] = ()) -> Table:
    """shop.t with these columns in this order."""
    return Table("shop", "t", with_zones(replace(c, ordinal=at) for at, c in enumerate(columns, start=1)), key)
