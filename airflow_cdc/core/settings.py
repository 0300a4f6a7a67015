"""Settings: frozen dataclasses whose fields say what may be written under each key, read from YAML or JSON.

A key is declared once: the dataclass's field holds its type, default, form and description.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import (
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from airflow_cdc.core.amounts import Limit, parse_duration
from airflow_cdc.core.errors import ConfigError

S = TypeVar("S")
_KEY: Final = "key"
_MAPPING: Final = "must be a mapping of keys"


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is written.

    Attributes:
        title: its name in the configuration reference.
        read: turns the file's text into the value. Raises ConfigError.
        write: the inverse, for JSON.
        names_connection: whether the text is the id of an Airflow connection.
    """

    title: str
    read: Callable[[Any], object]
    write: Callable[[Any], object] = lambda value: value
    names_connection: bool = False


@dataclass(frozen=True, slots=True)
class Key:
    """What a field says of its key.

    Attributes:
        description: for the configuration reference.
        form: how the value is written, or each value of a list; None: as its type says.
        wing: the key holds a part of a pipeline, of one of the kinds of this wing, with that kind's settings.
        alone: whether a list of one value may be written as that value.
    """

    description: str
    form: Form | None = None
    wing: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """One key of a settings class; `default` is MISSING for a required key."""

    name: str
    type: object
    key: Key
    default: object

    @property
    def required(self) -> bool:
        """Whether the key must be written."""
        return self.default is MISSING


def key(
    description: str,
    *,
    form: Form | None = None,
    wing: str = "",
    alone: bool = False,
    default: object = MISSING,
    kw_only: bool = False,
) -> Any:
    """A dataclass field that is a key; see Key."""
    return field(default=default, kw_only=kw_only, metadata={_KEY: Key(description, form, wing, alone)})


@dataclass_transform(frozen_default=True, field_specifiers=(key,))
def settings(cls: type[S]) -> type[S]:
    """A settings class: a frozen dataclass whose fields are keys."""
    return dataclass(frozen=True, slots=True)(cls)


def declared(cls: type[object]) -> tuple[Declared, ...]:
    """The keys of a settings class, in the order of its fields."""
    return _declared(cast("Any", cls))  # mypy regards a class as unhashable here


@cache
def _declared(cls: Any) -> tuple[Declared, ...]:
    hints = get_type_hints(cls)
    return tuple(
        Declared(one.name, hints[one.name], one.metadata[_KEY], one.default)
        for one in fields(cls)
        if _KEY in one.metadata
    )


class HasSettings(Protocol):
    """A kind of system, reduced to what reading its settings needs."""

    @property
    def settings(self) -> type[object]: ...


Systems: TypeAlias = Callable[[str], Mapping[str, HasSettings]]
"""The kinds of a wing, by name."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a file: the key's path, what is wrong with it, and what to write instead."""

    path: tuple[str, ...]
    what: str
    todo: str

    @property
    def key(self) -> str:
        """The path as text: "source.conn_id"."""
        return ".".join(self.path)


class Reader:
    """Reads settings from parsed YAML or JSON and collects errors in `faults`."""

    def __init__(self, systems: Systems) -> None:
        self._systems = systems
        self.faults: list[Fault] = []

    def settings(self, cls: type[S], written: object, *path: str, **given: object) -> S | None:
        """An instance of `cls`, or None if it has a fault. `given`: fields that are not keys."""
        if not isinstance(written, Mapping):
            self._fault(path, _MAPPING)
            return None
        before, keys = len(self.faults), declared(cls)
        values = {one.name: self._key(one, written, path) for one in keys if one.required or one.name in written}
        for name in written:
            if name not in {one.name for one in keys} | given.keys():
                todo = nearest(str(name), [one.name for one in keys])
                self.faults.append(Fault((*path, str(name)), "is not a known key here", todo))
        if len(self.faults) > before:
            return None
        try:
            return cls(**values, **given)
        except ConfigError as error:
            self._fault((*path, *filter(None, [error.where])), error.what, error.todo)
            return None

    def _key(self, one: Declared, written: Mapping[object, object], path: tuple[str, ...]) -> object:
        here = (*path, one.name)
        if one.name not in written:
            return self._fault(here, "is missing", f"Add `{one.name}:` to {'.'.join(path) or 'the pipeline'}.")
        value = written[one.name]
        if one.key.wing:
            return self._part(one, value, here)
        if get_origin(one.type) is tuple:
            return self._list(one, value, here)
        return self._value(one.type, one, value, here)

    def _part(self, one: Declared, written: object, path: tuple[str, ...]) -> object:
        if written is None and not one.required:
            return one.default
        if not isinstance(written, Mapping):
            return self._fault(path, _MAPPING)
        kinds = self._systems(one.key.wing)
        here, name = (*path, "kind"), written.get("kind")
        if "kind" not in written:
            return self._fault(here, "is missing", f"Add `kind:` to {'.'.join(path)}.")
        if not isinstance(name, str) or name not in kinds:
            return self._fault(here, *_not_among(name, kinds))
        return self.settings(kinds[name].settings, written, *path)

    def _list(self, one: Declared, written: object, path: tuple[str, ...]) -> object:
        values = [written] if one.key.alone and isinstance(written, Mapping) else written
        if not isinstance(values, list | tuple):
            return self._fault(path, "must be a list", _advice(one.key.form))
        if one.required and not values:
            return self._fault(path, "is empty", _advice(one.key.form))
        of = get_args(one.type)[0]
        return tuple(self._value(of, one, value, path) for value in values)

    def _value(self, of: object, one: Declared, written: object, path: tuple[str, ...]) -> object:
        if is_dataclass(of) and one.key.form is None:
            return self.settings(cast("type[object]", of), written, *path)
        try:
            if written == one.default == "":
                return ""
            if one.key.form is not None:
                return one.key.form.read(written)
            if get_origin(of) is Literal:
                return _word(get_args(of), written)
            return _PLAIN[of](written)
        except ConfigError as error:
            return self._fault(path, error.what, error.todo)

    def _fault(self, path: tuple[str, ...], what: str, todo: str = "") -> object:
        """Record what is wrong with a key; returns MISSING, to be used as its value."""
        self.faults.append(Fault(path, what, todo or (f"Correct `{path[-1]}`." if path else "")))
        return MISSING


def connections(of: object) -> dict[str, str]:
    """The ids of Airflow connections that settings name, by key: "conn_id", "replicas.0"; their own comes first."""
    return dict(pair for one in declared(type(of)) for pair in _connections(one, getattr(of, one.name)))


def own_connection(of: object) -> str:
    """The Airflow connection of a part of a pipeline: the first that its settings name."""
    return next(iter(connections(of).values()))


def _connections(one: Declared, value: object) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if is_dataclass(value):
        yield from ((f"{one.name}.{below}", conn_id) for below, conn_id in connections(value).items())
    elif one.key.form is None or not one.key.form.names_connection:
        return
    elif isinstance(value, tuple):
        yield from ((f"{one.name}.{n}", conn_id) for n, conn_id in enumerate(value))
    elif value:
        yield one.name, str(value)


def settings_to_json(value: object) -> dict[str, object]:
    """Settings as plain JSON that a Reader can read, plus the fields that are not keys."""
    forms = {one.name: one.key.form for one in declared(type(value))}
    return {one.name: plain_value(getattr(value, one.name), forms.get(one.name)) for one in fields(cast("Any", value))}


def plain_value(value: object, form: Form | None) -> object:
    """One value as plain JSON."""
    if isinstance(value, tuple):
        return [plain_value(one, form) for one in value]
    if form is not None:
        return form.write(value)
    return settings_to_json(value) if is_dataclass(value) else value


def nearest(word: str, known: Iterable[str]) -> str:
    """Advice for an error about an unknown word: the nearest known one, or all."""
    words = list(known)
    close = difflib.get_close_matches(word, words, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Write one of: {', '.join(words) or 'none'}."


def either(words: Iterable[str]) -> str:
    """Words as an enumeration: 'a', 'b' or 'c'."""
    *most, last = [f"'{word}'" for word in words]
    return f"{', '.join(most)} or {last}" if most else last


def _not_among(written: object, words: Iterable[str]) -> tuple[str, str]:
    # the value is shown only here: any other value might be a credential in the wrong place
    return f"is not one of the allowed words: {str(written)[:40]!r}", f"Write {either(words)}."


def _word(words: tuple[str, ...], written: object) -> str:
    value = "off" if written is False else written  # YAML reads a bare `off` as false
    if isinstance(value, str) and value in words:
        return value
    what, todo = _not_among(value, words)
    raise ConfigError(what, todo=todo)


def read_text(written: object) -> str:
    """A text, stripped of surrounding blanks. Raises ConfigError if it is empty."""
    if not isinstance(written, str):
        raise ConfigError("must be text")
    if not (stripped := written.strip()):
        raise ConfigError("is empty")
    return stripped


def _flag(written: object) -> bool:
    if not isinstance(written, bool):
        raise ConfigError("must be true or false")
    return written


def _count(written: object) -> int:
    if isinstance(written, bool) or not isinstance(written, int):
        raise ConfigError("must be a whole number")
    if written < 0:
        raise ConfigError("must not be negative")
    return written


_PLAIN: Final[Mapping[object, Callable[[object], object]]] = {str: read_text, bool: _flag, int: _count}


def _advice(form: Form | None) -> str:
    """The form's advice for an invalid value."""
    try:
        if form is not None:
            form.read("")
    except ConfigError as error:
        return error.todo
    return ""


def pattern(title: str, expression: str, todo: str) -> Form:
    """Text that must match a regular expression as a whole; `todo` is the advice in an error."""
    compiled = re.compile(expression)

    def read(written: object) -> str:
        if not isinstance(written, str):
            raise ConfigError("must be text", todo=todo)
        if compiled.fullmatch(written) is None:
            raise ConfigError("has the wrong form", todo=todo)
        return written

    return Form(title, read)


def _or_unreadable(parse: Callable[[Any], object]) -> Callable[[object], object]:
    def read(written: object) -> object:
        try:
            return parse(written)
        except ConfigError as error:
            raise ConfigError(f"cannot be read: {error.what}", todo=error.todo) from None

    return read


def _day(written: object) -> str:
    if not written or isinstance(written, dt.date):  # YAML reads a bare date as one
        return str(written or "")
    try:
        return str(dt.date.fromisoformat(str(written)))
    except ValueError:
        raise ConfigError("it is not a date", todo="Write one like 2026-01-31.") from None


_NAME: Final = r"[A-Za-z][A-Za-z0-9_]{0,99}"
# a name with a dot would look like schema.table, and a comma separates names in the connector's own lists
_PART: Final = r"[^.,\x00-\x20](?:[^.,\x00-\x1f]*[^.,\x00-\x20])?"

CONNECTION: Final = Form("text", read_text, names_connection=True)
NAME: Final = pattern("text", _NAME, "Write a name of letters, digits and _, such as shop.")
TABLE: Final = pattern("text", rf"{_PART}\.{_PART}", "Write each table as schema.table, such as shop.orders.")
DURATION: Final = Form("duration: 45s, 30m, 2h, 1d or seconds", _or_unreadable(parse_duration))
LIMIT: Final = Form("number of rows, or a share such as 1%", _or_unreadable(Limit.parse), write=str)
DAY: Final = Form("text", _or_unreadable(_day))
