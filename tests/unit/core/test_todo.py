"""Errors say what to do next. How many do not may only shrink."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.paths import ROOT

PACKAGE = ROOT / "airflow_cdc"
# what no user can do anything about: a race that is lost and tried again, a value that only our own code makes
WITHOUT_AT_MOST = 46


def named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def errors_in(trees: dict[Path, ast.Module]) -> set[str]:
    """CdcError and all that derives from it, by name."""
    names, classes = {"CdcError"}, [n for tree in trees.values() for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]
    before = 0
    while len(names) > before:
        before = len(names)
        names |= {one.name for one in classes if names & set(map(named, one.bases))}
    return names


def made(trees: dict[Path, ast.Module]) -> Iterator[tuple[str, bool]]:
    """Each place that makes such an error, and whether it says what to do."""
    names = errors_in(trees)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and named(node.func) in names:
                given = {keyword.arg for keyword in node.keywords}
                yield f"{path}:{node.lineno}", bool(given & {"todo", None})


def test_an_error_says_what_to_do_next() -> None:
    trees = {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    places = list(made(trees))
    without = sorted(place for place, says in places if not says)
    assert len(places) > 500
    assert len(without) <= WITHOUT_AT_MOST, without


def test_an_error_without_it_is_found() -> None:
    text = "class Odd(CdcError): ...\nraise Odd('a')\nraise errors.Odd('a', todo='b')\nraise Odd('a', **more)\nraise Other('a')\n"
    assert [says for _, says in made({Path("x.py"): ast.parse(text)})] == [False, True, True]
