"""The text of a .proto file → its messages, as far as a reader of their bytes needs them.

No package that only parses such a text could be found: protoc's own parser comes with a compiler. What a registry holds was
written by a converter, or by a person for a converter, so a field of a message is all that is looked at. Options are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<token>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\.?[A-Za-z_][\w.]*|-?[0-9][\w.+-]*|[{}\[\]()<>=;,:.+-])""",
    re.DOTALL,
)
ENUM: Final = "enum"  # the type of each field of an enum
_OPENS: Final = {"{": "}", "[": "]", "(": ")", "<": ">"}
_LABELS: Final = frozenset({"optional", "repeated", "required"})
# statements of a file or a message that say nothing about its fields
_SKIPPED: Final = frozenset({"syntax", "import", "option", "reserved", "extensions", "service", "extend"})


@dataclass(frozen=True, slots=True)
class ProtoField:
    """One field.

    Attributes:
        type: a scalar's name, ENUM, or a message's with its package; "" for a map.
        repeated: whether it is a list, or a map.
        presence: whether the bytes tell a field that is not set from one that is zero, or empty.
    """

    name: str
    number: int
    type: str
    repeated: bool = False
    presence: bool = False


@dataclass(slots=True)
class ProtoMessage:
    """A message. `nested` is in the order of the text, by which a record names its message."""

    name: str
    fields: list[ProtoField] = field(default_factory=list)
    nested: list[ProtoMessage] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """A file. `messages`: all of them, nested ones too, by their names with the package."""

    top: tuple[ProtoMessage, ...]
    messages: Mapping[str, ProtoMessage]

    def at(self, indexes: tuple[int, ...]) -> ProtoMessage:
        """The message that a record names. Case: (0, 1) is the second within the first. Raises LookupError."""
        first, *rest = indexes
        if min(indexes) < 0:
            raise LookupError
        message = self.top[first]
        for index in rest:
            message = message.nested[index]
        return message


def parse(text: str) -> ProtoFile:
    """Read a file of proto2 or proto3. Raises ValueError for another text, and for an edition."""
    parser = _Parser(list(_tokens(text)))
    parser.file()
    messages = {message.name: message for message in parser.all()}
    for message in messages.values():
        message.fields = [_resolved(one, message.name, {*messages}, parser.enums) for one in message.fields]
    return ProtoFile(tuple(parser.top), messages)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"no .proto at character {at}")
        if token := match["token"]:
            yield token
        at = match.end()


def _resolved(one: ProtoField, scope: str, messages: set[str], enums: set[str]) -> ProtoField:
    """With the whole name of its message, looked for from the innermost scope outwards, as protoc does."""
    names = [one.type.removeprefix(".")]
    while scope and not one.type.startswith("."):
        names.insert(-1, f"{scope}.{one.type}")
        scope = scope.rpartition(".")[0]
    name = next((name for name in names if name in messages | enums), names[-1])
    return replace(one, type=ENUM if name in enums else name)


class _Parser:
    """Goes through the tokens once."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._package = ""
        self._presence = True  # in proto2, which a file without `syntax` is
        self.top: list[ProtoMessage] = []
        self.enums: set[str] = set()

    def all(self) -> Iterator[ProtoMessage]:
        """Every message, nested ones too."""
        waiting = list(self.top)
        while waiting:
            message = waiting.pop()
            yield message
            waiting += message.nested

    def file(self) -> None:
        """Read all statements of the file."""
        while self._at < len(self._tokens):
            word = self._next()
            if word == "message":
                self.top.append(self._message(self._package))
            elif word == "package":
                self._package = self._next()
                self._expect(";")
            elif word == "syntax":
                self._expect("=")
                self._presence = {'"proto2"': True, '"proto3"': False}[self._next().replace("'", '"')]
                self._expect(";")
            elif word == ENUM:
                self._enum(self._package)
            elif word in _SKIPPED:
                self._skip()
            elif word != ";":
                raise ValueError(f"{word} is no statement of a .proto that is read")

    def _message(self, scope: str) -> ProtoMessage:
        name = self._next()
        message = ProtoMessage(f"{scope}.{name}" if scope else name)
        self._expect("{")
        while (word := self._next()) != "}":
            if word == "message":
                message.nested.append(self._message(message.name))
            elif word == ENUM:
                self._enum(message.name)
            elif word == "oneof":
                self._next()
                self._expect("{")
                while (word := self._next()) != "}":
                    self._statement(message, word, presence=True)
            else:
                self._statement(message, word, presence=self._presence)
        return message

    def _enum(self, scope: str) -> None:
        name = self._next()
        self.enums.add(f"{scope}.{name}" if scope else name)
        self._skip()

    def _statement(self, message: ProtoMessage, word: str, *, presence: bool) -> None:
        """A field, or what is skipped. A name such as `option` may be a type's, but no converter writes one."""
        if word in _SKIPPED:
            self._skip()
        elif word != ";":
            message.fields.append(self._field(word, presence=presence))

    def _field(self, word: str, *, presence: bool) -> ProtoField:
        label = word if word in _LABELS else ""
        kind = self._next() if label else word
        if kind == "map" and self._tokens[self._at] == "<":
            self._skip_to(">")
            kind, label = "", "repeated"
        name = self._next()
        self._expect("=")
        number = int(self._next(), 0)
        self._skip()
        return ProtoField(name, number, kind, label == "repeated", presence or label in {"optional", "required"})

    def _skip(self) -> None:
        """To the end of a statement: its semicolon, or its block."""
        while (word := self._next()) != ";":
            if word in _OPENS:
                self._skip_to(_OPENS[word])
                if word == "{":
                    return

    def _skip_to(self, closing: str) -> None:
        while (word := self._next()) != closing:
            if word in _OPENS and word != "<":
                self._skip_to(_OPENS[word])

    def _expect(self, token: str) -> None:
        if (word := self._next()) != token:
            raise ValueError(f"{word} where {token} has to be")

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise ValueError("the .proto ends in the middle")
        self._at += 1
        return self._tokens[self._at - 1]
