"""Tries changes of function bodies in forks of one process that has collected the tests already: nothing is imported again.

A fork gives the functions their changed code and runs the chosen tests. What runs when a module is imported can't be changed so:
tables and classes are left to `nursery.run_tests`, unless a table is only read by functions.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

from tests.mutants.change import IMPORTED, Change, read
from tests.mutants.nursery import QUIET, Ran, forked
from tests.mutants.readers import only_functions_read, table_of
from tests.paths import ROOT

# Airflow's database is one for all forks: the tests that use it run where each fork has its own
_SHARED: Final = "airflow_db"

# where a function was written: file, qualified name as the interpreter has it, first line
Place = tuple[str, str, int]


class Session:
    """The collected tests, and the functions of the product that they will run."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self.items = {item.nodeid: item for item in items if _SHARED not in getattr(item, "fixturenames", ())}
        self.functions: dict[Place, list[FunctionType]] = defaultdict(list)
        gc.unfreeze()  # what is frozen is not told
        for one in gc.get_objects():
            # by its own type: an object that stands in for a module, as Airflow's do, imports it when it is asked for its class
            if type(one) is FunctionType and one.__code__.co_filename.startswith(str(ROOT)):
                self.functions[_place(one.__code__)].append(one)
        gc.freeze()

    def can_try(self, change: Change, tests: Sequence[str]) -> bool:
        """Whether the change takes effect without importing its module again, and each of the tests is here."""
        if not tests or any(test not in self.items for test in tests):
            return False
        if change.scope != IMPORTED:
            return any(self._swaps(change))
        return only_functions_read(change) and _module_of(change) is not None

    def run(self, tests: Sequence[str], change: Change | None, limit: float) -> Ran:
        """Run tests by their ids with a change in place (None: as the code is), until the first fails or `limit` seconds passed."""
        with tempfile.TemporaryDirectory(prefix="cdc-mutant-") as folder:
            said = Path(folder) / "said"

            def work() -> int:
                if change is not None:
                    self._apply(change)
                return _until_one_fails([self.items[test] for test in tests], said)

            began = time.monotonic()
            code = forked(work, Path(folder), limit)
            return Ran(code, said.read_text() if said.exists() else "", time.monotonic() - began)

    def _apply(self, change: Change) -> None:
        if change.scope == IMPORTED:
            _put_table(change)
            return
        for function, code in self._swaps(change):
            function.__code__ = code

    def _swaps(self, change: Change) -> Iterator[tuple[FunctionType, CodeType]]:
        """The functions whose code is another with the change: the one that the text is in, and those around it."""
        path = str(ROOT / change.file)
        for code in _codes(compile(change.applied(read(change.file)), path, "exec", dont_inherit=True)):
            name = code.co_qualname.replace(".<locals>", "")
            if change.scope == name or change.scope.startswith(f"{name}."):
                for function in self.functions.get((change.file, code.co_qualname, code.co_firstlineno), ()):
                    if function.__code__.co_freevars == code.co_freevars:
                        yield function, code


def _place(code: CodeType) -> Place:
    file = os.path.realpath(code.co_filename)
    return file.removeprefix(f"{ROOT}/"), code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if inspect.iscode(one):
            yield one
            yield from _codes(one)


def _module_of(change: Change) -> ModuleType | None:
    name = change.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return sys.modules.get(name) or sys.modules.get(f"airflow_cdc.{name}")


def _put_table(change: Change) -> None:
    """Give the changed table to each module that has the old one by its name."""
    module, name = _module_of(change), table_of(change)
    if module is None:
        raise LookupError(f"{change.file} is not imported")
    old = vars(module)[name]
    fresh = ModuleType(module.__name__)
    fresh.__dict__.update({key: vars(module)[key] for key in ("__file__", "__package__", "__spec__")})
    exec(compile(change.applied(read(change.file)), str(module.__file__), "exec", dont_inherit=True), vars(fresh))  # noqa: S102
    for other in list(sys.modules.values()):
        if vars(other).get(name) is old and other is not fresh:
            setattr(other, name, vars(fresh)[name])


class _FirstFailure:
    """Notes the first test that failed."""

    def __init__(self, said: Path) -> None:
        self.said = said

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.said.exists():
            self.said.write_text(report.nodeid)


def _until_one_fails(items: Sequence[pytest.Item], said: Path) -> int:
    config = items[0].config
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_FirstFailure(said))
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if said.exists():
            return int(pytest.ExitCode.TESTS_FAILED)
    return int(pytest.ExitCode.OK)


class _Collected:
    """Does the work where pytest would run the tests."""

    def __init__(self, work: Callable[[Session], None]) -> None:
        self.work = work

    def pytest_runtestloop(self, session: pytest.Session) -> Any:
        self.work(Session(session.items))
        return True


def with_tests(files: Iterable[str], work: Callable[[Session], None]) -> None:
    """Collect these files of tests, and do the work with them."""
    pytest.main([*QUIET, *files], plugins=[_Collected(work)])
