"""Files of people's are replaced whole or not at all."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_cdc.files import replace_file
from tests.paths import ROOT

# a real write that fails in its middle: the system allows this process files of 4 kB, as a full disk would
NO_ROOM = """
import resource, signal, sys
from pathlib import Path
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from airflow_cdc.cli.run import write_file
from airflow_cdc.core.errors import UsageError
try:
    write_file(Path(sys.argv[1]), "new " * 100_000)
except UsageError as error:
    sys.exit(str(error))
"""


def test_a_full_disk_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "pipelines.yaml"
    path.write_text("pipelines: {}")
    ended = subprocess.run([sys.executable, "-c", NO_ROOM, str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "the file cannot be written: File too large" in ended.stderr
    assert path.read_text() == "pipelines: {}"
    assert [one.name for one in tmp_path.iterdir()] == ["pipelines.yaml"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_keeps_its_rights(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    replace_file(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def test_a_new_file_has_the_rights_that_it_is_given_or_a_new_files(tmp_path: Path) -> None:
    replace_file(tmp_path / "private", "x", mode=0o600)
    replace_file(tmp_path / "plain", b"x")
    (tmp_path / "usual").touch()
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("private", "plain", "usual")]
    assert modes == [0o600, modes[2], modes[2]]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    replace_file(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["link", "target"]


def test_nothing_of_ours_writes_over_a_file_that_is_there() -> None:
    """But for replace_file itself, and two files that are made for one run of a driver in a folder of its own."""
    writes = {
        path.relative_to(ROOT / "airflow_cdc").as_posix()
        for path in (ROOT / "airflow_cdc").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _writes(node)
    }
    assert writes == {"files.py", "operators/driver_settings.py", "spark_main.py"}


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in {"write_text", "write_bytes"}:
        return True
    modes = [
        one.value
        for one in [*call.args, *(word.value for word in call.keywords if word.arg == "mode")][:2]
        if isinstance(one, ast.Constant)
    ]
    return name in {"open", "fdopen"} and any(
        isinstance(mode, str) and set(mode) & set("wax+") and len(mode) < 4 for mode in modes
    )
