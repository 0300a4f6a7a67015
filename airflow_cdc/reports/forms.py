"""JSON that was stored by an earlier process, or by hand, read into its value type: everything has its declared type.

Pages compute with these values long after they were read, for all pipelines together, so an odd one is refused where it
comes in: `"at": "yesterday"`, `"seconds": 1e999` or a list in place of a text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
# A value of JSON → the value of the declared type. Raises ValueError or TypeError
_Reader: TypeAlias = Callable[[Any], Any]

_YEARS: Final = range(1971, 2200)
_LARGEST: Final = 2**63
_LONGEST_S: Final = 1e9
_NUMBERS: Final = (int, float)


def read(kind: type[T], value: object) -> T:
    """A dataclass from its JSON. Raises ValueError or TypeError for anything else."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{kind.__name__} is {type(value).__name__}")
    readers = _readers(cast("Any", kind))
    if unknown := value.keys() - readers.keys():
        raise ValueError(f"{kind.__name__} has no {min(map(str, unknown))}")
    if missing := [name for name in _required(cast("Any", kind)) if name not in value]:
        raise ValueError(f"{kind.__name__}: {', '.join(missing[:3])} missing")
    return kind(**{name: readers[name](one) for name, one in value.items()})


def moment(text: str) -> str:
    """An ISO time with its offset, as it is. Raises ValueError for any other text."""
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or at.year not in _YEARS:
        raise ValueError(f"{text} is no time of ours")
    return text


def duration(seconds: object) -> None:
    """Raise ValueError unless this is None or a number of seconds that a date can be moved by."""
    if seconds is not None and not (
        type(seconds) in (int, float) and -_LONGEST_S < cast("float", seconds) < _LONGEST_S
    ):
        raise ValueError(f"{str(seconds)[:40]!r} is no duration")


# Made once for each declared type: a page reads hundreds of values for each of 2,000 pipelines.
@cache
def _readers(kind: type) -> Mapping[str, _Reader]:
    hints = get_type_hints(kind)
    own = fields(cast("Any", kind))
    return {field.name: _reader(hints[field.name], f"{kind.__name__}.{field.name}") for field in own}


@cache
def _required(kind: type) -> tuple[str, ...]:
    own = fields(cast("Any", kind))
    return tuple(one.name for one in own if one.default is MISSING and one.default_factory is MISSING)


def _reader(hint: Any, name: str) -> _Reader:
    """Reads a value of this declared type; `name` is what errors call it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin in (UnionType, Union):
        inner, nullable = _reader(arguments[0], name), NoneType in arguments
        return lambda value: None if value is None and nullable else inner(value)
    if origin is tuple:
        each = _reader(arguments[0], name)
        return _checked(list, name, lambda value: tuple(map(each, value)))
    if origin is not None and issubclass(origin, Mapping):
        key, of = int if arguments[0] is int else str, _reader(arguments[1], name)
        return _checked(dict, name, lambda value: {key(own): of(one) for own, one in value.items()})
    if isinstance(hint, type) and origin is None:
        return _plain(hint, name)
    return _checked((), name, lambda value: value)  # nothing is of such a type


def _checked(kind: type | tuple[()], name: str, reader: _Reader) -> _Reader:
    def checked(value: Any) -> Any:
        if isinstance(value, kind):
            return reader(value)
        raise ValueError(f"{name} is {type(value).__name__}")

    return checked


def _plain(hint: type, name: str) -> _Reader:
    if is_dataclass(hint):
        return lambda value: read(hint, value)
    if issubclass(hint, Enum):
        return hint
    allowed = (int, float) if hint is float else (hint,)

    def plain(value: Any) -> Any:
        kind = type(value)
        wide = kind in _NUMBERS and not (math.isfinite(value) and abs(value) < _LARGEST)
        if kind not in allowed or wide:
            raise ValueError(f"{name} is {str(value)[:40]!r}")
        return value

    return plain
