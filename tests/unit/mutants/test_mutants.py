"""`make mutants`: what it changes, which tests it runs for a change, and that it counts as noticed only what a test noticed."""

from __future__ import annotations

import ast
import gc
import json
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_cdc.core.poll import poll_until
from tests.mutants import nursery
from tests.mutants.bodies import bodies
from tests.mutants.change import Change, read, scope_at
from tests.mutants.directed import change_of, directed, unknown_tables
from tests.mutants.equivalent import Equivalents
from tests.mutants.executed import BUDGET_S, Executed
from tests.mutants.operators import changes
from tests.mutants.readers import reading
from tests.mutants.rooms import ROOMS, room_of
from tests.mutants.session import Session, with_tests
from tests.paths import ROOT

EPOCHS = "airflow_cdc/core/epochs.py"
LEAVES = "airflow_cdc/decisions/compare/leaves.py"
PUBLISH = "airflow_cdc/flows/publish.py"
NAMES = "airflow_cdc/flows/reached.py"


def test_every_directed_change_still_has_its_text_in_the_code() -> None:
    every = directed()
    assert len(every) >= 150
    assert unknown_tables() == []
    assert all(change.rule for change in every)
    assert len({(change.file, change.start, change.new) for change in every}) == len(every)


@pytest.mark.parametrize("file", [EPOCHS, PUBLISH])
def test_a_changed_file_is_a_program_and_another_one(file: str) -> None:
    source = read(file)
    for change in (*changes(file), *bodies(file)):
        assert ast.dump(ast.parse(change.applied(source))) != ast.dump(ast.parse(source)), str(change)


def test_texts_for_people_and_what_only_a_reader_sees_are_left_alone() -> None:
    constants = [one.old for one in changes(PUBLISH) if one.kind == "constant"]
    assert constants
    assert not [text for text in constants if " " in text]


READ_BY_A_TYPE_CHECKER_ALONE = {
    "cast": 'a = cast("Row", b)',
    "typing.cast": 'a = typing.cast("Row", b)',
    "a type variable": 'a = TypeVar("a", bound="Row")',
    "a variable of parameters": 'P = ParamSpec("P")',
    "a type with a name of its own": 'Rows = dict[str, list["Row"]]',
    "one of several types": "_KeyValue = int | str | bytes",
    "an alias that says so": 'a: TypeAlias = "Row"',
    "imports for annotations": "if TYPE_CHECKING:\n    a = 1",
    "what another class must have": "class Log(Protocol):\n    def read(self, n: int = 1) -> bool: return n == 1",
    "what must be there in both": "class Log(Own, Protocol[T]):\n    def read(self, n: int = 1) -> bool: return n == 1",
    "the type of a generic base": 'class Log(Base["Row", "Key", "Place"]):\n    pass',
    "memory": '__slots__ = ("first", "second", "third")',
    "guards of a record": "@dataclass(frozen=True, slots=True, kw_only=True)\nclass Log:\n    pass",
    "an overload": "@overload\ndef read(n: int = 1) -> bool: ...",
}
RAISED = 'raise ConfigError("it is full", where="there", todo="Wait.")'
READ_BY_THE_INTERPRETER = {
    "the value of a cast": ('a = cast("int", 1)', ["1"]),
    "an error, but not its texts": (RAISED, [RAISED]),
    "a number": ("MOST = 100 * 10", ["100", "10", "100 * 10"]),
    "an entry of a table": ('FIRST = TABLE["first"]', ['"first"']),
    "a union of sets": ("_SIZED = _TEXTS | _BYTES", ["_TEXTS | _BYTES"]),
    "what is done where types are not checked": ("if TYPE_CHECKING:\n    a = 1\nelse:\n    a = 2", ["2"]),
    "whether records are ordered": (
        "@dataclass(frozen=True, order=True)\nclass Log:\n    pass",
        ["True", "dataclass(frozen=True, order=True)"],
    ),
    "a class that others derive from": ("class Log(Base):\n    read = 1", ["1"]),
}


def changed_texts(text: str) -> list[str]:
    """The texts that are changed in a file with this text."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=build, suffix=".py") as file:
        file.write(text)
        file.flush()
        return [one.old for one in changes(Path(file.name).relative_to(ROOT).as_posix())]


@pytest.mark.parametrize("text", READ_BY_A_TYPE_CHECKER_ALONE.values(), ids=READ_BY_A_TYPE_CHECKER_ALONE)
def test_what_only_a_type_checker_reads_is_left_alone(text: str) -> None:
    """No run of the program differs with such a change."""
    assert changed_texts(text) == []


@pytest.mark.parametrize(("text", "changed"), READ_BY_THE_INTERPRETER.values(), ids=READ_BY_THE_INTERPRETER)
def test_what_stands_beside_it_is_changed(text: str, changed: list[str]) -> None:
    assert sorted(set(changed_texts(text))) == sorted(changed)


def test_every_kind_of_change_is_made() -> None:
    kinds = Counter(change.kind for file in (EPOCHS, LEAVES, PUBLISH, NAMES) for change in changes(file))
    assert set(kinds) == {
        "compare",
        "boolean",
        "condition",
        "constant",
        "arithmetic",
        "statement",
        "element",
        "keyword",
        "name",
    }


def test_a_directed_change_whose_text_is_not_there_once_is_refused() -> None:
    entry = {"file": PUBLISH, "function": "publish", "old": "run", "new": "x", "rule": "r"}
    with pytest.raises(ValueError, match="and not once"):
        change_of(entry)
    with pytest.raises(ValueError, match="0 functions nobody"):
        change_of({**entry, "function": "nobody"})


def test_every_room_has_files_and_a_file_one_room() -> None:
    assert all(list(room.files()) for room in ROOMS)
    assert room_of("spark_apps/events.py").name == "apply"
    with pytest.raises(KeyError, match="none of the rooms"):
        room_of("airflow_cdc/plugin/app.py")


def test_equivalents_are_named_with_a_reason() -> None:
    assert all(reason for reason in Equivalents.read().reasons.values())


def test_a_change_of_a_table_is_given_to_the_tests_that_read_it() -> None:
    """SOUND_POSITION is executed by no test: flows/open.py asks it."""
    change = next(one for one in directed() if one.file == EPOCHS and "'TABLE_ADDED'" in one.rule)
    files = {file for file, _ in reading(change)}
    assert files == {"airflow_cdc/flows/open.py"}


def test_a_row_whose_predicate_another_module_has_is_given_to_the_tests_of_that_predicate() -> None:
    """DELETES_DROPPED is told by `events.deletes_dropped`, and `events` is a module of its own."""
    change = next(one for one in directed() if "the row DELETES_DROPPED" in one.rule)
    assert "airflow_cdc/connectors/debezium/problems_events.py" in {file for file, _ in reading(change)}


def record(*tests: str, seconds: float = 0.1) -> Executed:
    """A record in which each of these tests executes one line of leaf_at."""
    made = Executed(dict.fromkeys(tests, seconds))
    made.lines[LEAVES][LEAF_AT.line].update(tests)
    return made


LEAF_AT = next(one for one in directed() if "numbers around zero" in one.rule)


def test_of_many_tests_the_fastest_run() -> None:
    made = record("tests/unit/a.py::slow", seconds=BUDGET_S)
    made.seconds["tests/unit/a.py::quick"] = 0.1
    made.lines[LEAVES][LEAF_AT.line].add("tests/unit/a.py::quick")
    assert made.tests(LEAF_AT) == ["tests/unit/a.py::quick"]
    assert record("tests/unit/a.py::slow", seconds=BUDGET_S * 2).tests(LEAF_AT) == ["tests/unit/a.py::slow"]


def test_a_line_that_no_test_executes_has_no_tests() -> None:
    assert Executed().tests(LEAF_AT) == []


@pytest.fixture
def suite() -> Iterator[str]:
    """A file of tests that notices a change of what numbers below zero become. pytest names no test outside of its root."""
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        path = Path(folder) / "test_it.py"
        path.write_text(
            "from airflow_cdc.decisions.compare.leaves import HashLeaves, leaf_at, leaf_of\n"
            "def test_below_zero(): assert leaf_at(10, -25) == -2\n"
            "def test_above_zero(): assert leaf_at(10, 25) == 2\n"
            "def test_a_hash(): assert leaf_of(None, HashLeaves(7), 'a') == 4\n"
        )
        yield path.relative_to(ROOT).as_posix()


def changed(old: str, new: str) -> Change:
    """leaf_at with one text in place of another."""
    return change_of({"file": LEAVES, "function": "leaf_at", "old": old, "new": new, "rule": "r"})


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (changed("-(-number // width)", "number // width"), True),
        (changed("number >= 0", "number > 0"), False),  # 0 // width is 0 either way
        (None, False),
    ],
    ids=["a change that shows", "one that nobody sees", "none"],
)
def test_a_change_is_noticed_only_by_a_test_that_fails(suite: str, change: Change | None, noticed: bool) -> None:
    """In a process of its own: the file and this process keep what they have."""
    before = read(LEAVES)
    ran = nursery.run_tests([f"{suite}::test_below_zero", f"{suite}::test_above_zero"], change, 60)
    assert (ran.noticed, ran.nothing) == (noticed, False)
    assert ("test_below_zero" in ran.said) is noticed
    assert (ROOT / LEAVES).read_bytes() == before


def test_a_session_notices_the_same_without_importing_again(suite: str, tmp_path: Path) -> None:
    """A function's changed code, and a table that functions read, take effect in the fork alone."""
    changes_of_it = [
        changed("-(-number // width)", "number // width"),
        changed("number >= 0", "number > 0"),
        change_of({"file": LEAVES, "function": "", "old": "KeyHash.CRC32: zlib.crc32,", "new": "", "rule": "r"}),
        None,
    ]
    tests = [f"{suite}::{name}" for name in ("test_below_zero", "test_above_zero", "test_a_hash")]
    out = tmp_path / "ran"

    def work(session: Session) -> None:
        assert all(session.can_try(one, tests) for one in changes_of_it if one is not None)
        assert not session.can_try(LEAF_AT, ["tests/unit/a.py::of_a_file_that_was_not_collected"])
        ran = [session.run(tests, one, 60) for one in changes_of_it]
        out.write_text(json.dumps([one.said.rpartition("::")[2] for one in ran]))

    def collect() -> int:
        gc.freeze()  # as whoever forks may have done before
        with_tests([suite], work)
        return 0

    assert nursery.forked(collect, tmp_path, 120) == 0
    assert json.loads(out.read_text()) == ["test_below_zero", "", "test_a_hash", ""]


def test_a_change_with_which_a_test_never_ends_is_noticed(suite: str) -> None:
    ran = nursery.run_tests([f"{suite}::test_above_zero"], changed("return", "while True: pass\n    return"), 2)
    assert (ran.code, ran.noticed) == (None, True)


def test_a_scope_is_the_innermost_function() -> None:
    assert scope_at(LEAVES, LEAF_AT.line) == "leaf_at"
    assert scope_at(EPOCHS, 1) == ""


def test_a_run_that_is_told_to_end_leaves_no_test_behind(tmp_path: Path) -> None:
    """Each fork leads a group of its own: without this it would go on alone."""
    alive = tmp_path / "alive"
    program = (
        "import os, pathlib, time\n"
        "from tests.mutants import nursery\n"
        "nursery.end_with_this_process()\n"
        "def work():\n"
        f"    pathlib.Path({str(alive)!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "    return 0\n"
        f"nursery.forked(work, pathlib.Path({str(tmp_path)!r}), 60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as running:
        poll_until(lambda: (alive.exists() and alive.read_text()) or None, timeout=60, interval=0.05, what="the fork")
        running.terminate()
        assert running.wait(30) == 128 + signal.SIGTERM
    poll_until(lambda: True if _gone(int(alive.read_text())) else None, timeout=30, interval=0.05, what="its end")


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
