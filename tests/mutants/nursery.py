"""Runs tests in processes that are forked from one that has imported what the product needs of others, and nothing of the product.

A fork has a changed module in place of the file's own: no file is written, and several may run at once.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

import pytest

from tests.mutants.change import Change, read
from tests.paths import ROOT

# what most tests import, and what starts no thread and reads no setting
_OTHERS: Final = (
    "hypothesis",
    "httpx",
    "pyarrow.parquet",
    "pyarrow.compute",
    "pymysql",
    "kafka",
    "msgspec",
    "yaml",
    "jinja2",
    "rich.console",
    "pydantic",
    "sqlalchemy",
    "tenacity",
    "pyiceberg.catalog.sql",
    "pyiceberg.table",
    "fastavro",
    "psycopg",
    "pandas",
    "cryptography.fernet",
    "psutil",
    "anyio.pytest_plugin",
    "xdist.plugin",
)
_IMPORTED_BEFORE: Final = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
QUIET: Final = (
    "-c",
    str(ROOT / "pyproject.toml"),
    "-q",
    "-n0",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    "--no-header",
    "--tb=line",
    "-m",
    "not slow",
    *_IMPORTED_BEFORE,
)


def warm_up() -> None:
    """Import what others made, once for all forks. A fork imports what is missing here by itself."""
    for name in _OTHERS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # pytest collects several times in each fork


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of tests ended. `code`: pytest's exit status, None if it was ended after its time. `said`: the first failed test."""

    code: int | None
    said: str
    seconds: float

    @property
    def noticed(self) -> bool:
        """Whether a test failed, could not be collected, or never ended."""
        return self.code not in {0, 5}

    @property
    def nothing(self) -> bool:
        """Whether no test was run."""
        return self.code == pytest.ExitCode.NO_TESTS_COLLECTED


class _Chosen:
    """Runs only the chosen tests, in the chosen order of their files, and tells the first that failed."""

    def __init__(self, ids: Sequence[str], out: Path) -> None:
        self.ids = {name: i for i, name in enumerate(ids)}
        self.out = out

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left = [item for item in items if item.nodeid in self.ids]
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.ids])
        items[:] = left

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.out.exists():
            self.out.write_text(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.out.exists():
            self.out.write_text(report.nodeid)


class _Loader(importlib.machinery.SourceFileLoader):
    """Gives the changed text, and neither reads nor writes compiled files."""

    def __init__(self, name: str, path: str, text: bytes) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the changed module, and leaves all others to the rest."""

    def __init__(self, change: Change) -> None:
        name = change.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        # the package holds a link to the applications
        self.names = {name, f"airflow_cdc.{name}"}
        self.path = str(ROOT / change.file)
        self.package = change.file.endswith("/__init__.py")
        self.text = change.applied(read(change.file))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.names:
            return None
        within = [str(Path(self.path).parent)] if self.package else None
        loader = _Loader(fullname, self.path, self.text)
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=loader, submodule_search_locations=within
        )


def run_tests(ids: Sequence[str], change: Change | None, limit: float) -> Ran:
    """Run tests by their ids with a change in place (None: as the code is), until the first fails or `limit` seconds passed."""
    files = list(dict.fromkeys(name.partition("::")[0] for name in ids))
    with tempfile.TemporaryDirectory(prefix="cdc-mutant-") as folder:
        said = Path(folder) / "said"

        def tests() -> int:
            _forget_the_product()
            if change is not None:
                sys.meta_path.insert(0, _Finder(change))
            return int(pytest.main([*QUIET, "-x", *files], plugins=[_Chosen(ids, said)]))

        began = time.monotonic()
        code = forked(tests, Path(folder), limit)
        return Ran(code, said.read_text() if said.exists() else "", time.monotonic() - began)


def _forget_the_product() -> None:
    """A module that is imported already would keep its old text."""
    for name in [one for one in sys.modules if one.partition(".")[0] in {"airflow_cdc", "spark_apps"}]:
        del sys.modules[name]


def forked(work: Callable[[], int], folder: Path, limit: float, out: Path | None = None) -> int | None:
    """Do `work` in a fork with its output in `out` (or in `folder`); its result, or None if it had to be ended after `limit` seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        _child(work, folder, out or folder / "out")
    _ALIVE.add(pid)
    deadline = time.monotonic() + limit
    pause = 0.01
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            _end(pid)
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.1, pause * 1.5)
    _end(pid)
    os.waitpid(pid, 0)
    return None


# the forks that run now
_ALIVE: Final[set[int]] = set()


def end_with_this_process() -> None:
    """When this process is told to end, its forks end first: each leads a group of its own, and would go on alone."""

    def end(number: int, _frame: object) -> None:
        for pid in tuple(_ALIVE):
            _end(pid)
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _end(pid: int) -> None:
    """End what the fork started, and itself: it leads a group of its own."""
    _ALIVE.discard(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _child(work: Callable[[], int], folder: Path, out: Path) -> None:
    """The fork's life: it never returns."""
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        into = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(into, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        code = work()
    except BaseException as error:
        os.write(2, repr(error).encode())
    finally:
        os._exit(code)


class _Recorder:
    """Tells coverage which test is running, and how long each took."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - began
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def record(files: Sequence[str], out: Path, limit: float) -> int | None:
    """Write to `out` which lines each test of these files executes: {"tests": {id: seconds}, "lines": {file: {line: [id]}}}.

    What runs when a module is imported has the id "".
    """

    def tests() -> int:
        import coverage

        sources = [str(ROOT / name / "*") for name in ("airflow_cdc", "spark_apps")]
        watched = coverage.Coverage(data_file=None, config_file=False, include=sources)
        watched.start()
        recorder = _Recorder(watched)
        code = int(pytest.main([*QUIET, *files], plugins=[recorder]))
        watched.stop()
        data = watched.get_data()
        lines = {
            str(Path(name).resolve().relative_to(ROOT)): data.contexts_by_lineno(name) for name in data.measured_files()
        }
        seconds = {name: took for name, took in recorder.seconds.items() if name not in recorder.failed}
        out.write_text(json.dumps({"tests": seconds, "lines": lines}))
        return code

    with tempfile.TemporaryDirectory(prefix="cdc-mutant-") as folder:
        code = forked(tests, Path(folder), limit)
        if not out.exists():
            print((Path(folder) / "out").read_text()[-2000:], file=sys.stderr)
        return code
