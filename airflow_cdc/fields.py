"""JSON objects that another program wrote, read by the field's name and by what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Fields(dict[str, object]):
    """Name → value, as it was written. Each reader raises one of MALFORMED for anything else than it says."""

    @classmethod
    def of(cls, value: object) -> Fields:
        """The fields of an object."""
        if not isinstance(value, Mapping):
            raise TypeError(f"{_shown(value)} is no object")
        return cls(value)

    def text(self, name: str, default: str | None = None) -> str:
        """A text. `default`: what null means, or a field that is absent."""
        value = default if self.get(name) is None else self[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {_shown(value)}")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number, which may be written as text. `default`: what null means, or a field that is absent."""
        value: Any = self[name] if default is None or self.get(name) is not None else default
        return int(value)

    def real(self, name: str, default: float | None = None) -> float:
        """A number, which may be written as text. `default`: what null means, or a field that is absent."""
        value: Any = self[name] if default is None or self.get(name) is not None else default
        return float(value)

    def inner(self, name: str) -> Fields:
        """An object within it; no fields for null, or if it is absent."""
        return Fields.of(self.get(name) or {})

    def each(self, name: str, *, strict: bool = False) -> list[Fields]:
        """The objects of a list. `strict`: null, or a list that is absent, is an error, and not an empty one."""
        return [Fields.of(one) for one in self._list(name, strict)]

    def texts(self, name: str, *, strict: bool = False) -> tuple[str, ...]:
        """The texts of a list. `strict`: null, or a list that is absent, is an error, and not an empty one."""
        return tuple(Fields(text=one).text("text") for one in self._list(name, strict))

    def _list(self, name: str, strict: bool) -> list[object]:
        value = self[name] if strict else self.get(name) or []
        if not isinstance(value, list):
            raise TypeError(f"{name} is {_shown(value)}")
        return value


def _shown(value: object) -> str:
    return repr(value)[:40]
