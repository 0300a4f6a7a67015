"""The text of a DDL statement, split into words, names, literals and groups in parentheses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "Z": "\x1a", "b": "\b"}
_TOKEN: Final = re.compile(
    r"""(?P<skip>\s+|/\*(?!!|\+|M!).*?\*/|--(?=[ \t\r\n]|$)[^\n]*|\#[^\n]*)
    |`(?P<name>(?:[^`]|``)+)`
    |'(?P<text>(?:[^'\\]|''|\\.)*)'
    |(?P<number>[-+]?\d+\.\d*(?:[eE][-+]?\d+)?)
    |(?P<punct>[(),.;=])
    |(?P<word>[^\s`'"(),.;=\#/]+)""",
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word as written, a `name` without its backquotes, the value of a literal, or a group of tokens.

    `kind` is word, name, text, punct or group.
    """

    kind: str
    text: str = ""
    inner: tuple[Token, ...] = ()

    def is_word(self, *words: str) -> bool:
        """Whether the token is one of these keywords."""
        return self.kind == "word" and self.text.upper() in words

    def is_punct(self, char: str) -> bool:
        """Whether the token is this punctuation mark."""
        return self.kind == "punct" and self.text == char


def tokens(statement: str) -> tuple[Token, ...]:
    """The statement's tokens; a group in parentheses is one token.

    Raises ValueError for text that is not supported: comments that the server executes, double quotes (text or name,
    depending on the server's sql_mode), and unbalanced parentheses.
    """
    flat = list(_flat(statement))
    while flat and flat[-1].is_punct(";"):
        flat.pop()
    return _grouped(flat)


def _flat(statement: str) -> Iterator[Token]:
    at = 0
    while at < len(statement):
        match = _TOKEN.match(statement, at)
        if match is None:
            raise ValueError(f"not understood: {statement[at : at + 20]}")
        at = match.end()
        kind = str(match.lastgroup)
        if kind != "skip":
            yield Token("word" if kind == "number" else kind, _value(kind, match[kind]))


def _value(kind: str, text: str) -> str:
    if kind == "name":
        return text.replace("``", "`")
    if kind == "text":
        return unescaped(text)
    return text


def unescaped(text: str, quote: str = "'") -> str:
    """What MySQL stores for the inside of a text literal between these quotes."""
    escapes = rf"{quote}{quote}|\\(.)"
    return re.sub(escapes, lambda m: quote if m[1] is None else _ESCAPED.get(m[1], m[1]), text, flags=re.DOTALL)


def _grouped(flat: Sequence[Token]) -> tuple[Token, ...]:
    stack: list[list[Token]] = [[]]
    for token in flat:
        if token.is_punct("("):
            stack.append([])
        elif token.is_punct(")"):
            inner = stack.pop()
            if not stack:
                raise ValueError("a parenthesis is closed that was not opened")
            stack[-1].append(Token("group", "", tuple(inner)))
        else:
            stack[-1].append(token)
    if len(stack) != 1:
        raise ValueError("a parenthesis is not closed")
    return tuple(stack[0])


def parts(sequence: Sequence[Token]) -> list[tuple[Token, ...]]:
    """The tokens split at commas."""
    pieces: list[list[Token]] = [[]]
    for token in sequence:
        if token.is_punct(","):
            pieces.append([])
        else:
            pieces[-1].append(token)
    return [tuple(run) for run in pieces]


def skeleton(sequence: Sequence[Token]) -> str:
    """The tokens on one line, for regular expressions. A word stays as it is; the n-th token becomes `n if it is a
    name, 'n if it is a literal, (n if it is a group. Equals signs are left out: they are optional everywhere.
    """
    marks = {"name": "`", "text": "'", "group": "("}
    return " ".join(
        f"{marks[token.kind]}{at}" if token.kind in marks else token.text
        for at, token in enumerate(sequence)
        if not token.is_punct("=")
    )


def named(sequence: Sequence[Token], mark: str) -> str:
    """The name that the mark in a skeleton stands for."""
    return sequence[int(mark[1:])].text if mark[:1] in "`'(" else mark
