"""Which files of tests/unit `make check` runs: those whose imports lead to a changed file, the nearest first."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import grimp

from tests.paths import ROOT

ROOTS: Final = ("airflow_cdc", "stack", "demo", "tests")
UNIT: Final = "tests/unit/"
# seconds of a processor for tests: what lint leaves of a minute and a half on two cores
BUDGET_S: Final = 60.0
# a file whose time nobody has kept
USUAL_S: Final = 1.0
# a changed file that is no module (a page, a template): tests that name it are one step away
NAMED: Final = 1


def distances(importers: Mapping[str, Iterable[str]], changed: Iterable[str]) -> dict[str, int]:
    """Module → how many imports lie between it and a changed one. `importers`: module → those that import it."""
    steps = dict.fromkeys(changed, 0)
    edge = list(steps)
    while edge:
        following = []
        for module in edge:
            for importer in importers.get(module, ()):
                if importer not in steps:
                    steps[importer] = steps[module] + 1
                    following.append(importer)
        edge = following
    return steps


def chosen(files: Mapping[str, int], seconds: Mapping[str, float], budget: float = BUDGET_S) -> list[str]:
    """The nearest of the files (file → distance) that take `budget` seconds together; at least one."""
    left = budget
    taken: list[str] = []
    for file in sorted(files, key=lambda name: (files[name], seconds.get(name, USUAL_S), name)):
        cost = seconds.get(file, USUAL_S)
        if cost <= left or not taken:
            taken.append(file)
            left -= cost
    return taken


def module_of(file: str) -> str:
    """The dotted name of a Python file."""
    parts = PurePosixPath(file).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _git(*words: str) -> list[str]:
    done = subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if not done.returncode else []


def changed_files() -> list[str]:
    """What is not committed, and what is not on the branch that this one follows; without any, the newest commit's files."""
    since = [*_git("diff", "--name-only", "@{upstream}..."), *_git("diff", "--name-only", "HEAD")]
    files = dict.fromkeys([*since, *_git("ls-files", "--others", "--exclude-standard")])
    return list(files or dict.fromkeys(_git("diff", "--name-only", "HEAD~1")))


def importers() -> dict[str, set[str]]:
    """Module → the modules that import it, in all packages of this repository."""
    graph = grimp.build_graph(*ROOTS, include_external_packages=False)
    return {module: graph.find_modules_that_directly_import(module) for module in graph.modules}


def _naming(names: Sequence[str]) -> Iterator[str]:
    """Tests in whose text the name of a changed file stands."""
    for path in (ROOT / UNIT).rglob("test_*.py") if names else ():
        text = path.read_text()
        if any(name in text for name in names):
            yield path.relative_to(ROOT).as_posix()


def leading_to(files: Sequence[str]) -> dict[str, int]:
    """Test file → its distance from the changed files."""
    modules = [module_of(file) for file in files if file.endswith(".py")]
    steps = distances(importers(), modules)
    paths = {
        f"{module.replace('.', '/')}.py": step for module, step in steps.items() if module.startswith("tests.unit.")
    }
    tests = {
        path: step for path, step in paths.items() if Path(path).name.startswith("test_") and (ROOT / path).exists()
    }
    for path in _naming([Path(file).name for file in files if not file.endswith(".py")]):
        tests[path] = min(NAMED, tests.get(path, NAMED))
    return tests
