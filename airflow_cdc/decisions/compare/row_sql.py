"""Conditions on a table's rows in SQL: the leaves and parts that are compared, written once for every dialect."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_cdc.decisions.compare.leaves import IntegerLeaves, leaf_bounds, leaf_ranges
from airflow_cdc.decisions.compare.part import LeafRows, OneValue

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.decisions.compare.leaves import LeafScheme
    from airflow_cdc.decisions.compare.part import Part

# what a column of a part is compared with; moments are in UTC
PartValue = int | str | dt.date | dt.datetime


class RowSql(ABC):
    """One SQL dialect's expressions for a row, and the conditions built from them.

    Conditions use bare columns, so that an index range can be read and data files can be skipped.
    """

    @abstractmethod
    def quote_ident(self, name: str) -> str:
        """A column's name, quoted."""

    @abstractmethod
    def key_text(self, table: Table) -> str:
        """Expression: the text of the row's key (its hash in a table without a key)."""

    @abstractmethod
    def row_hash(self, table: Table) -> str:
        """Expression: the hexadecimal SHA-256 of the row's canonical text."""

    @abstractmethod
    def leaf(self, scheme: LeafScheme, table: Table) -> str:
        """Expression: the number of the row's leaf."""

    @abstractmethod
    def literal(self, column: Column, value: PartValue) -> str:
        """A value that `column` is compared with."""

    def operand(self, column: Column) -> str:
        """How a column is written when compared with the ends of an interval."""
        return self.quote_ident(column.name)

    def columns(self, table: Table) -> str:
        """The select list key_text, h."""
        return f"{self.key_text(table)} AS key_text, {self.row_hash(table)} AS h"

    def leaves_where(self, table: Table, scheme: LeafScheme, leaves: Sequence[int]) -> str:
        """Condition: rows in these leaves; ranges of the column for integer leaves."""
        if isinstance(scheme, IntegerLeaves):
            column, ranges = self.quote_ident(scheme.column), leaf_ranges(scheme.width, leaves)
            return " OR ".join(f"{column} BETWEEN {low} AND {high}" for low, high in ranges) or "FALSE"
        numbers = ", ".join(str(int(leaf)) for leaf in leaves)
        return f"{self.leaf(scheme, table)} IN ({numbers})" if numbers else "FALSE"

    def part_where(self, table: Table, part: Part) -> str:
        """Condition: rows of the part; "" for all rows."""
        rows = part.rows
        if rows is None:
            return ""
        if isinstance(rows, LeafRows):
            return self.leaves_where(table, rows.scheme, rows.leaves) + self._beyond(rows)
        column = table.column(rows.column)
        if isinstance(rows, OneValue):
            return f"{self.quote_ident(column.name)} = {self.literal(column, rows.value)}"
        operand, low, high = self.operand(column), self.literal(column, rows.low), self.literal(column, rows.high)
        return f"{operand} >= {low} AND {operand} < {high}"

    def _beyond(self, rows: LeafRows) -> str:
        if not isinstance(rows.scheme, IntegerLeaves):
            return ""
        column, width = self.quote_ident(rows.scheme.column), rows.scheme.width
        low = "" if rows.below is None else f" OR {column} < {leaf_bounds(width, rows.below)[0]}"
        return low + ("" if rows.above is None else f" OR {column} > {leaf_bounds(width, rows.above)[1]}")


def both(condition: str, other: str) -> str:
    """Two conditions as one; an empty condition holds for every row."""
    return f"({condition}) AND ({other})" if condition and other else condition or other


def where(condition: str) -> str:
    """A condition as a WHERE clause with a space before it; "" where it is empty."""
    return f" WHERE {condition}" if condition else ""
