"""A row of a database's answer, read by the column's name and by what it holds."""

from __future__ import annotations

from datetime import datetime
from typing import Any


class Row(dict[str, object]):
    """Column → value, as the driver gives it. Each reader raises TypeError or ValueError for a value of another type."""

    def text(self, name: str) -> str:
        """A text; "" for NULL. Some server versions return some of their own texts as bytes."""
        return self.text_or_null(name) or ""

    def text_or_null(self, name: str) -> str | None:
        """As `text`, but None for NULL."""
        value = self[name]
        if value is None or isinstance(value, str):
            return value
        return value.decode() if isinstance(value, bytes) else str(value)

    def number(self, name: str) -> int:
        """A whole number, which may be written as text."""
        return int(self._value(name))

    def number_or_null(self, name: str) -> int | None:
        """As `number`, but None for NULL."""
        return None if self[name] is None else self.number(name)

    def real(self, name: str) -> float:
        """A number, which may be written as text or as a decimal."""
        return float(self._value(name))

    def real_or_null(self, name: str) -> float | None:
        """As `real`, but None for NULL."""
        return None if self[name] is None else self.real(name)

    def flag(self, name: str) -> bool:
        """A boolean; False for NULL."""
        return bool(self[name])

    def moment(self, name: str) -> datetime:
        """A time with its offset."""
        value = self[name]
        if not isinstance(value, datetime):
            raise TypeError(f"{name} is {type(value).__name__}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """An array of texts; () for NULL."""
        return tuple(self._value(name) or ())

    def row(self, name: str) -> Row:
        """A row within the row, such as one as JSON."""
        return Row(self._value(name))

    def in_order(self) -> tuple[Any, ...]:
        """The values, in the order of the columns."""
        return tuple(self.values())

    def _value(self, name: str) -> Any:
        return self[name]
