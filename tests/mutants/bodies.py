"""A function's body replaced by the empty value of its type: a test that still passes cannot fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.mutants.change import Change, read, scopes
from tests.mutants.operators import _span, _starts

# the outermost name of a return annotation → its empty value
_EMPTY: Final = {
    "None": "return None",
    "bool": "return False",
    "int": "return 0",
    "float": "return 0.0",
    "str": 'return ""',
    "bytes": 'return b""',
    "tuple": "return ()",
    "list": "return []",
    "Sequence": "return ()",
    "dict": "return {}",
    "Mapping": "return {}",
    "Facts": "return {}",
    "Evidence": "return {}",
    "set": "return set()",
    "frozenset": "return frozenset()",
    "Iterable": "return ()",
    "Iterator": "return iter(())",
}


def bodies(file: str) -> Iterator[Change]:
    """Each public function of a file with the empty value of its type as its body."""
    source = read(file)
    starts = _starts(source)
    names = {scope.first: scope.name for scope in scopes(file)}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_") or not (new := _empty(node)):
            continue
        told = ast.get_docstring(node) is not None
        code = node.body[1:] if told else node.body
        if not code or (len(code) == 1 and ast.unparse(code[0]) in {new, "pass", "..."}) or _abstract(node):
            continue
        start, end = _span(code[0], starts)[0], _span(code[-1], starts)[1]
        yield Change(file, "body", start, end, code[0].lineno, names[node.body[0].lineno], new)


def _empty(node: ast.FunctionDef) -> str:
    if node.returns is None:
        return ""
    said = ast.unparse(node.returns).strip("'\"")
    if said.endswith("| None"):
        return "return None"
    yields = any(isinstance(one, ast.Yield | ast.YieldFrom) for one in ast.walk(node))
    return "return; yield" if yields else _EMPTY.get(said.partition("[")[0], "")


def _abstract(node: ast.FunctionDef) -> bool:
    return any("abstract" in ast.unparse(one) or "overload" in ast.unparse(one) for one in node.decorator_list)
