"""Directed changes: a rule taken out, a row of a table dropped, a flag turned.

Those of tables are made from the tables, so that a new row is in; the others stand in tests/mutants/directed.toml.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.mutants.change import Change, read, scope_at
from tests.mutants.operators import _span, _starts
from tests.mutants.rooms import ROOMS
from tests.paths import ROOT

FILE: Final = Path(__file__).with_name("directed.toml")


def directed() -> list[Change]:
    """All of them: of the tables, then of the file."""
    files = [file for room in ROOMS for file in room.files()]
    of_tables = [change for file in files for change in (*rows(file), *entries(file))]
    return [*of_tables, *(change_of(entry) for entry in tomllib.loads(FILE.read_text(encoding="utf-8"))["change"])]


def rows(file: str) -> Iterator[Change]:
    """Each row of a problem table dropped, and each of its flags turned."""
    source = read(file)
    starts = _starts(source)
    for node in ast.walk(ast.parse(source)):
        for row in node.elts if isinstance(node, ast.Tuple) else ():
            if not _is_row(row):
                continue
            code, rank = (ast.literal_eval(one) for one in row.args[:2])  # type: ignore[attr-defined]
            yield _made(file, row, starts, "*()", f"the row {code} ({rank}) is told when it holds")
            for keyword in row.keywords:  # type: ignore[attr-defined]
                if isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
                    yield _made(file, keyword.value, starts, "False", f"{code} ({rank}) is {keyword.arg}")


def _is_row(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "Problem" and bool(node.args)


# file → tables whose entries are each dropped, and the rule they are of
_TABLES: Final[dict[str, dict[str, str]]] = {
    "airflow_cdc/core/epochs.py": {"SOUND_POSITION": "only tables are read again under"},
    "airflow_cdc/core/problem.py": {"_DANGERS": "a rank says the danger"},
    "airflow_cdc/control/document.py": {"KINDS": "keeps runs of its own"},
    "airflow_cdc/decisions/diagnosis/problems.py": {"_REQUIRED": "decides the diagnosis"},
    "airflow_cdc/decisions/diagnosis/connector_rows.py": {
        "STILL": "a connector at rest",
        "_SETTLED": "no passing state",
    },
    "airflow_cdc/decisions/diagnosis/strategy.py": {
        "POSITION_ONLY": "moves the position only",
        "_SNAPSHOT_STEPS": "a step of a recovery that reads rows",
        "_BACK_STEPS": "a step of a recovery that moves the position",
    },
    "airflow_cdc/flows/appliable.py": {"_CHECKS": "asked before rows are applied"},
    "airflow_cdc/sources/mysql/ddl_clauses.py": {
        "_HARMLESS": "leaves rows as they are",
        "_OPTION": "an option that leaves rows as they are",
    },
    "airflow_cdc/sources/mysql/column_changes.py": {
        "_TEXTS": "a text that may be widened",
        "_BYTES": "bytes that may be widened",
        "_BREAKS": "a change that breaks old rows",
        "_WIDENINGS": "keeps old rows",
    },
    "airflow_cdc/connectors/debezium/rows.py": {"_REFUSED": "refused by name"},
    "airflow_cdc/connectors/debezium/config.py": {"_NO_DDL": "hides DDL"},
    "airflow_cdc/connectors/debezium/healing.py": {"_HEALS_ITSELF": "hides a gap"},
    "airflow_cdc/connectors/flink/capture.py": {"_LOSES": "passes over events"},
}


def entries(file: str) -> Iterator[Change]:
    """Each entry of a named table dropped."""
    named = _TABLES.get(file, {})
    source = read(file)
    starts = _starts(source)
    for node in ast.parse(source).body if named else ():
        target = _target(node)
        for entry in _elements(node.value) if target in named else ():  # type: ignore[attr-defined]
            text = ast.unparse(entry)
            yield _made(file, entry, starts, "*()", f"{named[target]}: {text}")


def _target(node: ast.AST) -> str:
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    return ast.unparse(node.target) if isinstance(node, ast.AnnAssign) and node.value else ""


def _elements(node: ast.AST) -> Iterable[ast.expr]:
    """The elements of a tuple, list or set, also of one in a call or that a generator goes through."""
    if isinstance(node, ast.Call) and node.args:
        return _elements(node.args[0])
    if isinstance(node, ast.GeneratorExp):
        return _elements(node.generators[0].iter)
    return node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else ()


def _made(file: str, node: Any, starts: list[int], new: str, rule: str) -> Change:
    start, end = _span(node, starts)
    return Change(file, "directed", start, end, node.lineno, scope_at(file, node.lineno), new, rule)


def change_of(entry: dict[str, str]) -> Change:
    """An entry of the file. Raises ValueError unless its text stands exactly once in its function (or file, without one)."""
    file, function, old = entry["file"], entry.get("function", ""), entry["old"]
    source = read(file)
    first, last = _range(file, source, function)
    where = f"{file} {function}: {old!r}"
    count = source.count(old.encode(), first, last)
    if count != 1:
        raise ValueError(f"tests/mutants/directed.toml: {where} stands there {count} times, and not once")
    start = source.index(old.encode(), first, last)
    line = source.count(b"\n", 0, start) + 1
    return Change(
        file, "directed", start, start + len(old.encode()), line, scope_at(file, line), entry["new"], entry["rule"]
    )


def _range(file: str, source: bytes, function: str) -> tuple[int, int]:
    """The bytes of a function with its signature; of the file for ""."""
    if not function:
        return 0, len(source)
    starts = _starts(source)
    found = [one for one in _functions(ast.parse(source), "") if one[0] == function]
    if len(found) != 1:
        raise ValueError(f"tests/mutants/directed.toml: {file} has {len(found)} functions {function}")
    return starts[found[0][1].lineno - 1], starts[found[0][1].end_lineno or 0]


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
        below = f"{prefix}{child.name}." if isinstance(child, ast.FunctionDef | ast.ClassDef) else prefix
        yield from _functions(child, below)


def unknown_tables() -> list[str]:
    """Named tables that the code no longer has."""
    return [
        f"{file} {name}"
        for file, names in _TABLES.items()
        for name in names
        if not (ROOT / file).exists() or name not in {_target(node) for node in ast.parse(read(file)).body}
    ]
