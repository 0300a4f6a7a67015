"""The house's rules that import-linter cannot see (docs/adr/0001): names stay at home, values meet, not dicts, and core stays small.

The list of dicts holds what is not untied yet. It may only shrink: an entry that is no longer needed fails, too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from airflow_cdc.kinds import WINGS
from tests.paths import ROOT

PACKAGE = ROOT / "airflow_cdc"
# where a system's name may stand
AT_HOME = (
    "sources/",
    "connectors/",
    "transports/",
    "sinks/",
    "controls/",
    "hooks/",
    "sensors/",
    "testing/",
    "kinds.py",
)
LISTS = Path(__file__).with_name("house")


def modules(*parts: str) -> Iterator[tuple[str, ast.Module]]:
    """The package's modules in these of its folders ("": all), by their path in it."""
    # spark_apps/ and dags/ are links in the package, which rglob does not follow
    for base in (PACKAGE, ROOT / "spark_apps", ROOT / "dags"):
        for path in sorted(base.rglob("*.py")):
            name = path.relative_to(PACKAGE if base == PACKAGE else ROOT).as_posix()
            if name.startswith(parts):
                yield name, ast.parse(path.read_text(encoding="utf-8"))


def listed(name: str) -> set[str]:
    """The entries of a list: one a line, without comments."""
    lines = (line.partition("#")[0].strip() for line in (LISTS / name).read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line}


# --- values for dicts ----------------------------------------------------------------------------------------------------

_DICT = r"\b(dict|Mapping|MutableMapping)\[str, (Any|object)\]"
_ALLOWED = ("to_json", "from_json", "codec.py:plain", "codec.py:sparse")  # a paper as JSON
_VALUES_MEET = ("core/", "decisions/", "flows/", "control/", "reports/", "alerting/")
# Room → how many of its functions take or return a dict of anything. Lower it with each that you untie.
DICTS_AT_MOST = {
    "cli": 17,
    "config": 7,
    "connectors": 116,
    "controls": 1,
    "dags": 2,
    "events": 5,
    "hooks": 6,
    "kinds.py": 2,
    "notifications": 7,
    "operators": 35,
    "plugin": 1,
    "provider_info.py": 4,
    "sensors": 2,
    "sinks": 13,
    "sources": 17,
    "spark_apps": 65,
    "spark_main.py": 1,
    "testing": 17,
    "transports": 6,
    "triggers": 6,
}
_FACTS = "Facts"  # what a step returns to XCom: nobody takes it


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions of a module by their qualified names, nested ones included."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + child.name, child
                yield from below(child, f"{prefix}{child.name}.")
            elif isinstance(child, ast.ClassDef):
                yield from below(child, f"{prefix}{child.name}.")
            else:
                yield from below(child, prefix)

    return below(tree, "")


def aliases(tree: ast.Module) -> set[str]:
    """The module's own names for a dict of anything."""
    bound = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None]
    return {
        ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        for node in bound
        if node.value is not None and re.fullmatch(_DICT, ast.unparse(node.value))
    }


def known_as(tree: ast.Module, elsewhere: Mapping[str, set[str]]) -> set[str]:
    """All names that a dict of anything has in the module; `elsewhere`: module → its own names for one."""
    imported = {
        name.asname or name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if name.name in elsewhere.get(node.module or "", ())
    }
    return aliases(tree) | imported


def dicts(function: ast.FunctionDef | ast.AsyncFunctionDef, names: Collection[str] = ()) -> bool:
    """Whether a parameter or the result is a dict of anything, or one of its `names`."""
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    given = [ast.unparse(arg.annotation) for arg in every if arg is not None and arg.annotation is not None]
    result = ast.unparse(function.returns) if function.returns is not None else ""
    found = "|".join((_DICT, *(rf"\b{name}\b" for name in names)))
    returned = "|".join((_DICT, *(rf"\b{name}\b" for name in names if name != _FACTS)))
    return any(re.search(found, text) for text in given) or bool(re.search(returned, result))


def passing_dicts() -> set[str]:
    parsed = dict(modules(""))
    elsewhere = {
        f"airflow_cdc.{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}": aliases(tree)
        for path, tree in parsed.items()
    }
    return {
        name
        for path, tree in parsed.items()
        for names in (known_as(tree, elsewhere),)
        for name, function in ((f"{path}:{name}", function) for name, function in functions(tree))
        if not name.endswith(_ALLOWED) and dicts(function, names)
    }


# --- a name stays at home ------------------------------------------------------------------------------------------------


def system_names() -> set[str]:
    """Every name in kinds.py, but for words that are no system's: the sinks `none` and `topics`, the transport `direct`, sql and JDBC."""
    return {name for kinds in WINGS.values() for name in kinds.built_in} - {"sql", "jdbc", "none", "topics", "direct"}


def outside() -> Iterator[tuple[str, ast.Module]]:
    for path, tree in modules(""):
        adapter = path.startswith("spark_apps/adapters/")
        if not adapter and not path.startswith(AT_HOME):
            yield path, tree


def words(tree: ast.Module) -> Iterator[str]:
    """Identifiers and strings of the code; docstrings are left out."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = list(ast.walk(tree))
    told = {id(n.body[0].value) for n in nodes if isinstance(n, documented) and ast.get_docstring(n, clean=False)}  # type: ignore[attr-defined]
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value
        for field in ("id", "attr", "name", "asname", "arg", "module"):
            if isinstance(value := getattr(node, field, None), str):
                yield value


def naming_systems() -> set[str]:
    known = re.compile("|".join(sorted(system_names())), re.IGNORECASE)
    return {
        f"{path} {m.group().lower()}" for path, tree in outside() for word in words(tree) for m in known.finditer(word)
    }


NEUTRAL = (
    "core/",
    "flows/",
    "control/",
    "decisions/apply/",
    "decisions/compare/",
    "spark_apps/apply/",
    "spark_apps/compare/",
)
SYSTEMS_WORDS = re.compile(
    r"binlog|binary log|gtid|innodb|snapshot\.mode|heartbeat\.|keep\.alive|skipped\.operations|\bslots?\b|publication",
    re.IGNORECASE,
)


def systems_words() -> set[str]:
    """The file and the word, for each word of one system in what the neutral rooms say or look for."""
    return {
        f"{path} {match.group().lower()}"
        for path, tree in modules(*NEUTRAL)
        for node in ast.walk(tree)
        for text in _said(node)
        for match in SYSTEMS_WORDS.finditer(text)
    }


def _said(node: ast.AST) -> Iterator[str]:
    """The strings of a node's children, but for docstrings, which stand alone as statements."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and not isinstance(node, ast.Expr):
            yield child.value


def test_values_meet_and_not_dicts_but_for_a_list_that_may_only_shrink() -> None:
    """By name in the rooms that know no system; elsewhere, where answers of servers are read, by number."""
    passing, allowed = passing_dicts(), listed("dicts.txt")
    named = {name for name in passing if name.startswith(_VALUES_MEET)}
    assert sorted(named - allowed) == [], "new: pass a value type"
    assert sorted(allowed - named) == [], "untied: take these lines out of tests/unit/house/dicts.txt"
    numbers = Counter(re.split(r"[/:]", name)[0] for name in passing - named)
    assert {room: n for room, n in numbers.items() if n > DICTS_AT_MOST.get(room, 0)} == {}, "pass a value type"


def test_a_name_stays_at_home() -> None:
    assert sorted(naming_systems()) == [], "ask the system's kind or port"


def test_a_systems_own_word_stays_at_home_but_for_a_list_that_may_only_shrink() -> None:
    """Whoever runs PostgreSQL is told nothing of a binlog: what to do is asked of the system."""
    now, allowed = systems_words(), listed("words.txt")
    assert sorted(now - allowed) == [], "new: ask the system's kind or port for its words"
    assert sorted(allowed - now) == [], "at home: take these lines out of tests/unit/house/words.txt"


def test_the_rules_see_what_they_forbid() -> None:
    bad = "class A:\n    def f(self, x: Mapping[str, Any]) -> None: ...\n    def to_json(self) -> dict[str, Any]: ...\n"
    assert [name for name, function in functions(ast.parse(bad)) if dicts(function)] == ["A.f", "A.to_json"]
    step = ast.parse("def step(run: Run) -> Facts: ...\ndef other(facts: Facts) -> None: ...\n")
    assert [name for name, function in functions(step) if dicts(function, {"Facts"})] == ["other"]
    named = ast.parse("from a.b import Facts as F\nBody: TypeAlias = Mapping[str, object]\nRow = dict[str, str]\n")
    assert known_as(named, {"a.b": {"Facts"}, "a": {"Row"}}) == {"F", "Body"}
    named = ast.parse('"""Of MySQL."""\nfrom a.mysql import b\nx = "kafka"\ndef f() -> None:\n    """Debezium."""\n')
    assert {word for word in words(named) if "mysql" in word.lower() or "kafka" in word or "Debezium" in word} == {
        "a.mysql",
        "kafka",
    }


# --- a variable is named by what it holds --------------------------------------------------------------------------------

_IRREGULAR = frozenset(
    [
        "begun",
        "bound",
        "brought",
        "built",
        "caught",
        "chosen",
        "done",
        "drawn",
        "driven",
        "fed",
        "found",
        "given",
        "gone",
        "grown",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "put",
        "read",
        "said",
        "seen",
        "sent",
        "shown",
        "sold",
        "spent",
        "taken",
        "taught",
        "thrown",
        "told",
        "torn",
        "understood",
        "woken",
        "worn",
        "written",
    ]
)
_NO_PARTICIPLES = frozenset({"bed", "embed", "feed", "hundred", "need", "put", "seed", "speed"})
# How many variables, parameters and fields are named by a bare participle (`found`, `stored`): what they hold then has to be
# guessed. Lower it with each that you rename.
PARTICIPLES_AT_MOST = 1_520


def bare_participles(tree: ast.Module) -> Iterator[str]:
    """Names that are bound in the module and say only that somebody did something."""
    for node in ast.walk(tree):
        bound = (
            node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else getattr(node, "arg", None)
        )
        name = bound.strip("_") if isinstance(bound, str) and isinstance(node, ast.Name | ast.arg) else ""
        if name in _IRREGULAR - _NO_PARTICIPLES or (re.fullmatch(r"[a-z]{2,}ed", name) and name not in _NO_PARTICIPLES):
            yield name


def test_names_say_what_they_hold_and_no_more_of_them_only_what_was_done() -> None:
    names = [f"{path} {name}" for path, tree in modules("") for name in bare_participles(tree)]
    assert len(names) <= PARTICIPLES_AT_MOST, "name it by what it holds: offsets, report, tables"


def test_a_bare_participle_is_seen_wherever_a_name_is_bound() -> None:
    bound = (
        "def f(known, *, wanted_rows): found = 1\nfor stored, feed in x: pass\ny = f(kept=1)\nclass A:\n    read: int\n"
    )
    assert sorted(bare_participles(ast.parse(bound))) == ["found", "known", "read", "stored"]


# --- core stays small ----------------------------------------------------------------------------------------------------

# 250 lines of it: sinks that others write have ports, and a recovery of them has a state, of their own; 130: the timeline,
# which every wait fills; 140: the sink connectors that fill the tables of others have a port and facts; 150: the codec, from reports;
# 10: what another program commits to a table of ours; 5: the clock that gives events their times
CORE_AT_MOST = 6_400


def test_core_stays_small() -> None:
    """All lines count, docstrings and blank ones too."""
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in (PACKAGE / "core").rglob("*.py"))
    assert 1_000 < lines <= CORE_AT_MOST, "a decision belongs to decisions/, what one room uses to that room"
