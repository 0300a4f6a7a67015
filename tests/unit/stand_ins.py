"""Autospec'd systems, one of each kind for a process: making the five of a run takes 80 ms, longer than most tests that use them."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest.mock import create_autospec


def stand_in(kind: type) -> Any:
    """A stand-in for an instance of `kind`, as if it was new. Whoever got one before has the same one: use one at a time."""
    mock, attributes, children = _made(kind)
    vars(mock).clear()
    vars(mock).update(attributes)
    mock._mock_children.clear()
    mock._mock_children.update(children)
    mock.reset_mock(return_value=True, side_effect=True)
    return mock


@cache
def _made(kind: type) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    mock: Any = create_autospec(kind, instance=True)
    return mock, dict(vars(mock)), dict(mock._mock_children)
