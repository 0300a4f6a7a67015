"""One change of one file of the code, as text, and where in the code it stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tests.paths import ROOT

IMPORTED = ""  # the scope of what runs when the module is imported


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes `start` to `end` of the file become `new`.

    Attributes:
        kind: which rule of tests/mutants/operators.py made it, or "directed".
        line: the first changed line, from 1.
        scope: the qualified name of the function that the text stands in; "" if it runs at import.
        rule: what must be noticed, in words; "" for a random change.
    """

    file: str
    kind: str
    start: int
    end: int
    line: int
    scope: str
    new: str
    rule: str = ""

    def applied(self, source: bytes) -> bytes:
        """The file's new text."""
        return source[: self.start] + self.new.encode() + source[self.end :]

    @property
    def old(self) -> str:
        """The text that is changed."""
        return read(self.file)[self.start : self.end].decode()

    @property
    def lines(self) -> tuple[str, str]:
        """The statement's lines before and after the change, each as one line of text."""
        source = read(self.file)
        begin = source.rfind(b"\n", 0, self.start) + 1
        stop = source.find(b"\n", self.end)
        stop = len(source) if stop < 0 else stop
        after = source[begin : self.start] + self.new.encode() + source[self.end : stop]
        return _one_line(source[begin:stop]), _one_line(after)

    def __str__(self) -> str:
        before, after = self.lines
        where = f"{self.file}:{self.line} {self.scope or '(import)'} [{self.kind}]"
        return f"{where}{f' {self.rule}' if self.rule else ''}\n    - {before}\n    + {after}"


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


@lru_cache(maxsize=2_000)
def read(file: str) -> bytes:
    """The text of a file of the repository."""
    return (ROOT / file).read_bytes()


@dataclass(frozen=True, slots=True)
class Scope:
    """A function: its qualified name, its lines from the first of its body, and whether a cache keeps its results."""

    name: str
    first: int
    last: int
    cached: bool


@lru_cache(maxsize=2_000)
def scopes(file: str) -> tuple[Scope, ...]:
    """The functions of a file, outer ones first."""
    return tuple(_scopes(ast.parse(read(file)), ""))


def _scopes(node: ast.AST, prefix: str) -> Iterator[Scope]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            cached = any("cache" in ast.unparse(one) for one in child.decorator_list)
            yield Scope(prefix + child.name, child.body[0].lineno, child.end_lineno or child.lineno, cached)
            yield from _scopes(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _scopes(child, f"{prefix}{child.name}.")
        else:
            yield from _scopes(child, prefix)


def scope_at(file: str, line: int) -> str:
    """The innermost function whose body holds a line; "" at the module's own level and in a signature."""
    inside = [scope for scope in scopes(file) if scope.first <= line <= scope.last]
    return inside[-1].name if inside else IMPORTED


def cached(file: str, name: str) -> bool:
    """Whether a function, or one around it, keeps its results: only the first test that asks executes its lines."""
    return any(scope.cached and (name == scope.name or name.startswith(f"{scope.name}.")) for scope in scopes(file))
