"""Where a name of a module is read: the lines to whose tests a change of a table or a class is given.

What runs when a module is imported is executed by no test, or by all of them. A table is read where its name stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.mutants.change import IMPORTED, Change, read, scope_at
from tests.paths import ROOT

# from a row to its table, from the table to the rules, from the rules to who asks them
_STEPS: Final = 3
_CODE: Final = ("airflow_cdc", "spark_apps")

Line = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Use:
    """A name, where it stands, and the names of the module's own level that the statement around it defines."""

    name: str
    line: int
    defines: tuple[str, ...]


def reading(change: Change) -> set[Line]:
    """The lines in functions that read what the change is part of, and those of the functions that it names."""
    defined, named = _around(change)
    lines = {
        (file, line)
        for file in (change.file, *_modules(change.file, named))
        for name in named
        for line in _body(file, name)
    }
    wanted, seen = {(change.file, name) for name in defined}, set[tuple[str, str]]()
    for _ in range(_STEPS):
        seen |= wanted
        further = set()
        for file, name in wanted:
            for user, use in _users(file, name):
                if scope_at(user, use.line) != IMPORTED:
                    lines.add((user, use.line))
                further |= {(user, one) for one in use.defines}
        wanted = further - seen
    return lines


def table_of(change: Change) -> str:
    """The name that the changed statement of the module's own level gives a value; "" if it gives none, or several."""
    for statement in ast.parse(read(change.file)).body:
        if statement.lineno <= change.line <= (statement.end_lineno or 0):
            names = _defines(statement)
            return names[0] if isinstance(statement, ast.Assign | ast.AnnAssign) and len(names) == 1 else ""
    return ""


def only_functions_read(change: Change) -> bool:
    """Whether the change is of a table whose name stands in functions alone: nothing else was made of it at import."""
    name = table_of(change)
    used = list(_users(change.file, name)) if name else []
    return bool(used) and all(scope_at(user, use.line) != IMPORTED for user, use in used)


def _around(change: Change) -> tuple[tuple[str, ...], set[str]]:
    """What the statement around the change defines, and which names stand in the changed text."""
    for statement in ast.parse(read(change.file)).body:
        if statement.lineno <= change.line <= (statement.end_lineno or 0):
            return _defines(statement), _words(_row(change, statement) or change.old)
    return (), set()


def _row(change: Change, statement: ast.stmt) -> str:
    """The text of the innermost call around the change: the row of a table, of which a flag is a part."""
    end = change.line + change.old.count("\n")
    calls = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and node.lineno <= change.line and end <= (node.end_lineno or 0)
    ]
    row = min(calls, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)
    return "" if row is None else ast.unparse(row)


def _words(text: str) -> set[str]:
    words = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in text)
    return set(words.split())


def _defines(statement: ast.stmt) -> tuple[str, ...]:
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return (statement.name,)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return tuple(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _body(file: str, name: str) -> range:
    """The lines of a function of the module's own level."""
    for statement in ast.parse(read(file)).body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == name:
            return range(statement.body[0].lineno, (statement.end_lineno or 0) + 1)
    return range(0)


def _modules(file: str, names: set[str]) -> Iterator[str]:
    """The files of the modules among these names, and of those that a name among them is imported from."""
    for statement in ast.parse(read(file)).body:
        if not isinstance(statement, ast.ImportFrom) or statement.level:
            continue
        folder = f"{statement.module}".replace(".", "/")
        for one in statement.names:
            if (one.asname or one.name) in names:
                yield from (path for path in (f"{folder}/{one.name}.py", f"{folder}.py") if (ROOT / path).is_file())


def _users(file: str, name: str) -> Iterator[tuple[str, _Use]]:
    """Who uses the name of this module: itself, and the modules that import it from there."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, last = module.rpartition(".")
    for user, uses in _all_uses().items():
        if user != file and not _imports(user, module, package, last):
            continue
        yield from ((user, use) for use in uses if use.name == name)


@cache
def _imports(user: str, module: str, package: str, last: str) -> bool:
    text = read(user).decode()
    return (
        module in text or f"from {package} import {last}" in text or (f"from {package} import" in text and last in text)
    )


@cache
def _all_uses() -> dict[str, tuple[_Use, ...]]:
    files = [path.relative_to(ROOT).as_posix() for folder in _CODE for path in sorted((ROOT / folder).rglob("*.py"))]
    return {file: tuple(_uses(file)) for file in files}


def _uses(file: str) -> Iterator[_Use]:
    for statement in ast.parse(read(file)).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        defines = () if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) else _defines(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id not in defines:
                yield _Use(node.id, node.lineno, defines)
            elif isinstance(node, ast.Attribute):
                yield _Use(node.attr, node.lineno, defines)
