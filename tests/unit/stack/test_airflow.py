"""The local Airflow's database is made once and kept; what it was made for is part of its name."""

from __future__ import annotations

import importlib.util
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from stack import airflow
from stack.airflow import AirflowSettings
from stack.airflow_plugins import preload

MAKES = '#!/bin/sh\necho "$@" >> "$CALLS"\n[ -z "$FAILS" ] && echo made > "$MADE"\n'


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """What stands for `python -m airflow db migrate`: it writes the database, and that it was called."""
    path = tmp_path / "python"
    path.write_text(MAKES)
    path.chmod(0o700)
    return path


def migrated(python: Path, home: Path, kept: Path, *, fails: bool = False) -> bool:
    """Whether a new home got its database."""
    home.mkdir()
    env = {"CALLS": str(python.parent / "calls"), "MADE": str(home / "airflow.db"), "FAILS": "1" if fails else ""}
    env["PATH"] = "/usr/bin:/bin"
    files = (home / "ready", kept, home / "airflow.db")
    done = subprocess.run(["/bin/sh", "-c", airflow._MIGRATE, str(python), *map(str, files)], env=env, check=False)
    return done.returncode == 0 and (home / "ready").exists() and (home / "airflow.db").read_text() == "made\n"


def test_a_database_is_made_once(python: Path, tmp_path: Path) -> None:
    kept = tmp_path / "share" / "kept.db"
    assert migrated(python, tmp_path / "one", kept)
    (tmp_path / "one" / "airflow.db").write_text("used")
    assert migrated(python, tmp_path / "two", kept)
    assert (tmp_path / "calls").read_text() == "-m airflow db migrate\n"
    assert [path.name for path in kept.parent.iterdir()] == ["kept.db"]


def test_what_could_not_be_made_is_not_kept(python: Path, tmp_path: Path) -> None:
    kept = tmp_path / "share" / "kept.db"
    assert not migrated(python, tmp_path / "one", kept, fails=True)
    assert not kept.exists()
    assert migrated(python, tmp_path / "two", kept)


def test_other_options_have_another_database() -> None:
    plain = AirflowSettings(Path("dags"))
    other = replace(plain, options={"database": {"load_default_connections": "True"}})
    assert airflow._kept_database(plain) == airflow._kept_database(replace(plain, parallelism=2))
    assert airflow._kept_database(plain) != airflow._kept_database(other)


def test_what_the_scheduler_loads_ahead_is_there() -> None:
    """A module that was renamed would end the loading, unseen, and each task would import for seconds again."""
    assert [name for name in preload.NEEDED if importlib.util.find_spec(name) is None] == []
