"""`make airflow-matrix`: install each Airflow as it was on the day of its release, then our wheel, and try it.

Pip gets no constraints for the wheel: it must by itself leave Airflow as it was. The tests are those of
tests/e2e/test_wheel.py (provider, DAG parse, page, doctor, a kind from another distribution). With --recovery, each
environment also runs the demo: a purged log, recovered and compared row by row.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.airflow_matrix.rows import VERSIONS, Row, Version, changes, counted, frozen, touches_airflow, written
from tests.paths import ROOT

RESULT = ROOT / "build" / "airflow-matrix.json"
INSTALL_S = 1800
TESTS_S = 1800
RECOVERY_S = 1800


def main() -> int:
    """0: every version was tried and is good; 1: not."""
    arguments = _arguments()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="cdc-airflow-matrix-") as folder:
        wheel = _wheel(Path(folder))
        for version in VERSIONS:
            if arguments.versions and version.name not in arguments.versions:
                continue
            row = _tried(version, wheel, Path(folder) / version.name, recovery=arguments.recovery)
            print(row.text(), flush=True)
            rows.append(row)
            RESULT.parent.mkdir(exist_ok=True)
            RESULT.write_text(written(rows))
            shutil.rmtree(Path(folder) / version.name, ignore_errors=True)
    return 0 if rows and all(row.good for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make airflow-matrix", description=__doc__)
    parser.add_argument("versions", nargs="*", help=f"only these: {', '.join(one.name for one in VERSIONS)}")
    parser.add_argument("--recovery", action="store_true", help="also run one recovery in each environment")
    return parser.parse_args()


def _wheel(folder: Path) -> Path:
    argv = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "dist"), str(ROOT)]
    subprocess.run(argv, check=True, capture_output=True, timeout=INSTALL_S)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def _tried(version: Version, wheel: Path, folder: Path, *, recovery: bool) -> Row:
    began, python = time.monotonic(), _python(version.python)
    if python is None:
        return Row(version, False, (), 0, 0, 0.0, untried=f"no python{version.python} on PATH or in PYTHONS")
    folder.mkdir()
    pip = _environment(version, python, folder)
    if isinstance(pip, str):
        return Row(version, False, (), 0, 0, time.monotonic() - began, untried=pip)
    before = frozen(_run(pip, "freeze").stdout)
    done = _run(pip, "install", "--quiet", str(wheel))
    changed = changes(before, frozen(_run(pip, "freeze").stdout))
    if done.returncode:
        return Row(version, False, changed, 0, 0, time.monotonic() - began, untried=_last(done))
    passed, failed = _tested(folder / "venv")
    outcome = _recovered(folder / "venv") if recovery else ""
    return Row(version, not touches_airflow(changed), changed, passed, failed, time.monotonic() - began, outcome)


def _python(version: str) -> str | None:
    """The interpreter, from PATH or one of the folders in PYTHONS (separated by colons)."""
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONS"), os.environ.get("PATH"))))
    return shutil.which(f"python{version}", path=path)


def _environment(version: Version, python: str, folder: Path) -> list[str] | str:
    """An environment with that Airflow alone: its pip, or why there is none."""
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True, timeout=INSTALL_S, capture_output=True)
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    # the pip that Python brings does not know --uploaded-prior-to
    for wanted in (
        ["--upgrade", "pip>=26"],
        ["--uploaded-prior-to", version.day, f"apache-airflow=={version.airflow}"],
    ):
        done = _run(pip, "install", "--quiet", *wanted)
        if done.returncode:
            return _last(done)
    return pip


def _run(pip: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*pip, *words], capture_output=True, text=True, timeout=INSTALL_S, check=False)


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it ended without a word"]
    return lines[-1]


def _tested(venv: Path) -> tuple[int, int]:
    """The wheel's own tests in that environment, run from ours."""
    argv = [sys.executable, "-m", "pytest", "tests/e2e/test_wheel.py", "-q", "-m", "", "-p", "no:cacheprovider"]
    env = {**os.environ, "CDC_WHEEL_VENV": str(venv)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TESTS_S, check=False)
    passed, failed = counted(done.stdout)
    if failed or not passed:
        print(done.stdout[-6000:])
    return passed, failed


def _recovered(venv: Path) -> str:
    """One recovery on real servers by that environment's Airflow: MATCH, or the demo's last line."""
    argv = [str(venv / "bin" / "python"), "-m", "demo", "--rows", "20000"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=RECOVERY_S, check=False)
    return "MATCH" if done.returncode == 0 else f"exit {done.returncode}: {(done.stdout + done.stderr)[-300:]}"


if __name__ == "__main__":
    sys.exit(main())
