"""Papers: frozen dataclasses as JSON, by their fields, for a later process, another version or a person to read.

Pages and steps compute with them long after they were read, so an odd value is refused where it comes in:
`"at": "yesterday"`, `"seconds": 1e999` or a list in place of a text. A class that says `from_json` has a form of its own,
and `to_json` writes it; every other one is read and written here (docs/adr/0030).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
# A value of JSON → the value of the declared type. Raises ValueError or TypeError
_Reader: TypeAlias = Callable[[Any], object]

_YEARS: Final = range(1971, 2200)
_LARGEST: Final = 2**63
_LONGEST_S: Final = 1e9
_NUMBERS: Final = (int, float)
# what is JSON as it is: asked first, since thousands of values are
_AS_THEY_ARE: Final = frozenset({str, int, float, bool, NoneType})


def _moment(text: str) -> str:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or at.year not in _YEARS:
        raise ValueError(f"{text} is no time of ours")
    return text


def _duration(seconds: float | None) -> float | None:
    if seconds is not None and not -_LONGEST_S < seconds < _LONGEST_S:
        raise ValueError(f"{str(seconds)[:40]!r} is no duration")
    return seconds


# An ISO time with its offset; one that may be ""; and seconds that a date can be moved by, None: not known. Papers are read
# into no other text or number.
Moment: TypeAlias = Annotated[str, _moment]
MomentOrNone: TypeAlias = Annotated[str, lambda text: text and _moment(text)]
Seconds: TypeAlias = Annotated[float | None, _duration]


def plain(paper: object) -> dict[str, object]:
    """Every field, as plain JSON; a partition, and any other whole number that is a key, becomes text."""
    return {name: _to_json(getattr(paper, name), plain) for name, _ in _defaults(cast("Any", type(paper)))}


def sparse(paper: object) -> dict[str, object]:
    """The fields that say something, as plain JSON: what is as its class has it by default is left out."""
    values = ((name, getattr(paper, name), default) for name, default in _defaults(cast("Any", type(paper))))
    return {name: _to_json(value, sparse) for name, value, default in values if default is MISSING or value != default}


def read(kind: type[T], value: object, *, more: bool = False) -> T:
    """A paper from its JSON; absent fields are as by default. Raises ValueError or TypeError for anything else.

    `more`: names that the class does not have are passed over; another version wrote them.
    """
    if type(value) is not dict and not isinstance(value, Mapping):
        raise TypeError(f"{kind.__name__} is {type(value).__name__}")
    readers: Mapping[str, _Reader] = _readers(kind)  # type: ignore[arg-type]
    values = {name: reader(one) for name, one in value.items() if (reader := readers.get(name))}
    if len(values) < len(value) and not more:
        raise ValueError(f"{kind.__name__} has no {min(map(str, value.keys() - readers.keys()))}")
    if len(values) < len(readers) and (missing := _required(kind) - values.keys()):  # type: ignore[arg-type]
        raise ValueError(f"{kind.__name__}: {', '.join(sorted(missing)[:3])} missing")
    return kind(**values)


def _to_json(value: Any, write: Callable[[object], dict[str, object]]) -> object:
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is dict:
        return {str(name): one if type(one) in _AS_THEY_ARE else _to_json(one, write) for name, one in value.items()}
    if kind in (tuple, list):
        return [_to_json(one, write) for one in value]
    if is_dataclass(kind):
        return value.to_json() if hasattr(kind, "from_json") else write(value)
    if isinstance(value, Enum):
        return value.value
    return {str(name): _to_json(one, write) for name, one in value.items()} if isinstance(value, Mapping) else value


# Made once for each declared type: a page reads hundreds of values for each of 2,000 pipelines.
@cache
def _readers(kind: type) -> Mapping[str, _Reader]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: _reader(hints[name], f"{kind.__name__}.{name}") for name, _ in _defaults(kind)}


@cache
def _defaults(kind: type) -> tuple[tuple[str, object], ...]:
    """The fields in order, each with its default; MISSING: it has none."""

    def of(one: Field[object]) -> object:
        return one.default if one.default_factory is MISSING else one.default_factory()

    return tuple((one.name, of(one)) for one in fields(cast("Any", kind)))


@cache
def _required(kind: type) -> frozenset[str]:
    return frozenset(name for name, default in _defaults(kind) if default is MISSING)


def _reader(hint: object, name: str) -> _Reader:
    """Reads a value of this declared type; `name` is what errors call it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        form, check = _reader(arguments[0], name), arguments[1]
        return lambda value: check(form(value))
    if origin in (UnionType, Union):
        inner, nullable = _reader(arguments[0], name), NoneType in arguments
        return lambda value: None if value is None and nullable else inner(value)
    if origin is tuple:
        each = _reader(arguments[0], name)
        return _checked(list, name, lambda value: tuple(map(each, value)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, of = int if arguments[0] is int else str, _reader(arguments[1], name)
        return _checked(dict, name, lambda value: {key(own): of(one) for own, one in value.items()})
    return _plain(hint, name)


def _checked(kind: type, name: str, reader: _Reader) -> _Reader:
    def checked(value: object) -> object:
        if isinstance(value, kind):
            return reader(value)
        raise ValueError(f"{name} is {type(value).__name__}")

    return checked


def _plain(hint: object, name: str) -> _Reader:
    if is_dataclass(hint):
        return getattr(hint, "from_json", None) or partial(read, cast("type", hint))
    if hint in (Any, object):
        return lambda value: value
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    allowed = frozenset(_NUMBERS if hint is float else (hint,))
    narrow = hint in _NUMBERS

    def plain(value: Any) -> object:
        if type(value) not in allowed or (narrow and not -_LARGEST < value < _LARGEST):
            raise ValueError(f"{name} is {str(value)[:40]!r}")
        return value

    return plain
