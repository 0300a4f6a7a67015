"""The kinds of random changes: a table from a node of the syntax to the texts that may stand in its place.

Left out are texts for people (a string with a space in it, an f-string), docstrings, imports and `__all__`: a test of those
would only repeat the code. So is what a type checker alone reads (annotations, casts, aliases, protocols, `__slots__` and the
guards of a dataclass): no run of the program differs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tests.mutants.change import Change, read, scope_at

# one change of a node: kind, the node whose text is replaced, the new text
Edit = tuple[str, ast.AST, str]

_COMPARED: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_COUNTED: Final[dict[type[ast.operator], str]] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.LShift: ">>",
    ast.RShift: "<<",
}
_NAMES: Final = {
    "any": "all",
    "all": "any",
    "min": "max",
    "max": "min",
    "startswith": "endswith",
    "endswith": "startswith",
    "lower": "upper",
    "upper": "lower",
}
_BRACKETS: Final[dict[type[ast.expr], tuple[str, str]]] = {
    ast.Tuple: ("(", ")"),
    ast.List: ("[", "]"),
    ast.Set: ("{", "}"),
}
_LEAST_ELEMENTS: Final = 2
# fields of the syntax that hold types
_FOR_CHECKERS: Final = frozenset({"annotation", "returns", "type_params"})
# the parameters of errors that are texts for people
_PLACES: Final = frozenset({"where", "todo"})
_OF_TYPES: Final = frozenset({"TypeVar", "ParamSpec"})
# what a dataclass refuses when it is used in another way: so does mypy
_GUARDS: Final = frozenset({"frozen", "slots", "kw_only"})
_SAID: Final = ("log", "logger", "_log", "warnings", "print")


def changes(file: str) -> list[Change]:
    """Every change of a file, in the order of its text."""
    source = read(file)
    starts = _starts(source)
    made = []
    for kind, node, new in _edits(ast.parse(source)):
        start, end = _span(node, starts)
        line = node.lineno  # type: ignore[attr-defined]
        made.append(Change(file, kind, start, end, line, scope_at(file, line), new))
    return sorted(dict.fromkeys(made), key=lambda one: (one.start, one.end, one.new))


def _starts(source: bytes) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(node: Any, starts: list[int]) -> tuple[int, int]:
    return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset


def _edits(tree: ast.Module) -> Iterator[Edit]:
    for node in _seen(tree):
        for kind, edit in _KINDS.items():
            yield from ((kind, target, new) for target, new in edit(node))


def _seen(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that say what the program does when it runs."""
    hidden = list(_hidden(node))
    for name, value in ast.iter_fields(node):
        if name in _FOR_CHECKERS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and child not in hidden and not _told(child):
                yield child
                yield from _seen(child)


def _hidden(node: ast.AST) -> Iterable[ast.AST]:
    """The children of a node that only the reader of the code sees, or a type checker."""
    hidden: list[ast.AST] = []
    match node:
        case ast.If() if _for_checkers(node):
            hidden = [node.test, *node.body]
        case ast.Assign() if _names_types(node):
            hidden = [node.value]
        case ast.AnnAssign(value=ast.expr() as value) if "TypeAlias" in ast.unparse(node.annotation):
            hidden = [value]
        case ast.ClassDef():
            hidden = [base for base in node.bases if isinstance(base, ast.Subscript)]
        # the arguments of an exception and of a log are texts for people
        case ast.Call() if _says(node):
            hidden = [*node.args, *node.keywords]
        case ast.Call() if _called(node) == "cast":
            hidden = [node.args[0]]
        case ast.Call():
            hidden = [keyword for keyword in node.keywords if _guards(node, keyword)]
    return hidden


def _for_checkers(node: ast.If) -> bool:
    return "TYPE_CHECKING" in ast.unparse(node.test)


def _names_types(node: ast.Assign) -> bool:
    """Whether a name is given to a type: `Rows = dict[str, Row]`. Tables and numbers are written in capitals."""
    if isinstance(node.value, ast.Call) and _called(node.value) in _OF_TYPES:
        return True
    names = [ast.unparse(target).lstrip("_") for target in node.targets]
    told = isinstance(node.value, ast.Subscript | ast.BinOp) and all(
        name[:1].isupper() and not name.isupper() for name in names
    )
    return told or any(f"__{name}" in {"__all__", "__slots__"} for name in names)


def _guards(call: ast.Call, keyword: ast.keyword) -> bool:
    """Whether a record is told to refuse what the type checker refuses already."""
    return _called(call) == "dataclass" and keyword.arg in _GUARDS


def _called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def _says(node: ast.Call) -> bool:
    called = ast.unparse(node.func)
    return called.endswith(("Error", "Warning")) or called.partition(".")[0] in _SAID


def _told(node: ast.AST) -> bool:
    """Whether a statement, or a text that is put together, is for readers and type checkers alone."""
    match node:
        case ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return True
        case ast.ClassDef():
            return any(ast.unparse(base).partition("[")[0] == "Protocol" for base in node.bases)
        case ast.FunctionDef():
            return any(ast.unparse(one) == "overload" for one in node.decorator_list)
    return False


Found = Iterable[tuple[ast.AST, str]]


def _compare(node: ast.AST) -> Found:
    if isinstance(node, ast.Compare):
        for i in range(len(node.ops)):
            parts = [ast.unparse(node.left)]
            for j, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
                parts += [_COMPARED[type(op)] if i == j else _symbol(op), f"({ast.unparse(right)})"]
            yield node, f"({' '.join(parts)})"


def _symbol(op: ast.cmpop) -> str:
    return ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2]


def _boolean(node: ast.AST) -> Found:
    if isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, f"({word.join(f'({ast.unparse(value)})' for value in node.values)})"
        for i in range(len(node.values)):
            left = [f"({ast.unparse(value)})" for j, value in enumerate(node.values) if j != i]
            yield node, f"({(' and ' if isinstance(node.op, ast.And) else ' or ').join(left)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, f"({ast.unparse(node.operand)})"


def _condition(node: ast.AST) -> Found:
    if isinstance(node, ast.IfExp) or (isinstance(node, ast.If) and not _for_checkers(node)):
        yield node.test, "True"
        yield node.test, "False"
    if isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield test, "True"


def _constant(node: ast.AST) -> Found:
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            yield node, str(not value)
        elif isinstance(value, int):
            yield node, str(value + 1)
        elif isinstance(value, float):
            yield node, repr(value * 2 + 1)
        elif isinstance(value, str) and " " not in value and value:
            yield node, repr(f"XX{value}")
        elif isinstance(value, bytes) and value:
            yield node, repr(b"XX" + value)


def _arithmetic(node: ast.AST) -> Found:
    if isinstance(node, ast.BinOp) and type(node.op) in _COUNTED and not _text(node):
        yield node, f"(({ast.unparse(node.left)}) {_COUNTED[type(node.op)]} ({ast.unparse(node.right)}))"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node, f"({ast.unparse(node.operand)})"


def _text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr | ast.Constant) and '"' in ast.dump(side) for side in (node.left, node.right)
    )


def _name(node: ast.AST) -> Found:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id in _NAMES:
            yield node.func, _NAMES[node.func.id]
        if isinstance(node.func, ast.Attribute) and node.func.attr in _NAMES:
            yield node.func, f"{ast.unparse(node.func.value)}.{_NAMES[node.func.attr]}"


def _statement(node: ast.AST) -> Found:
    if isinstance(node, ast.Raise | ast.AugAssign):
        yield node, "pass"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await) and not _logs(node.value):
        yield node, "pass"
    if isinstance(node, ast.Continue | ast.Break):
        yield node, "break" if isinstance(node, ast.Continue) else "continue"


def _logs(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).partition(".")[0] in _SAID


def _element(node: ast.AST) -> Found:
    """One element less, in a list of at least two."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        if len(node.elts) < _LEAST_ELEMENTS or _short(node):
            return
        opening, closing = _BRACKETS[type(node)]
        for i in range(len(node.elts)):
            left = "".join(f"{ast.unparse(one)}, " for j, one in enumerate(node.elts) if j != i)
            yield node, f"{opening}{left}{closing}"
    if isinstance(node, ast.Dict) and len(node.keys) >= _LEAST_ELEMENTS:
        for i in range(len(node.keys)):
            pairs = zip(node.keys, node.values, strict=True)
            left = ", ".join(_pair(*pair) for j, pair in enumerate(pairs) if j != i)
            yield node, f"{{{left}}}"


def _short(node: ast.AST) -> bool:
    """A pair or triple that is unpacked somewhere: leaving out a part only makes a program that cannot run."""
    return isinstance(node, ast.Tuple) and len(node.elts) < 3


def _pair(key: ast.expr | None, value: ast.expr) -> str:
    return f"**({ast.unparse(value)})" if key is None else f"{ast.unparse(key)}: {ast.unparse(value)}"


def _keyword(node: ast.AST) -> Found:
    """One keyword argument less, so that the default holds."""
    if isinstance(node, ast.Call):
        for i, keyword in enumerate(node.keywords):
            if keyword.arg is not None and keyword.arg not in _PLACES and not _guards(node, keyword):
                left = ast.Call(node.func, node.args, [one for j, one in enumerate(node.keywords) if j != i])
                yield node, ast.unparse(left)


_KINDS: Final[dict[str, Callable[[ast.AST], Found]]] = {
    "compare": _compare,
    "boolean": _boolean,
    "condition": _condition,
    "constant": _constant,
    "arithmetic": _arithmetic,
    "name": _name,
    "statement": _statement,
    "element": _element,
    "keyword": _keyword,
}
