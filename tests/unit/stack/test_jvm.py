"""An archive of Spark's classes makes drivers quick; where it can't be made, they start without one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stack import fetch, jvm
from stack.errors import StackError


@pytest.fixture
def tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warm-up jobs of an environment whose machine is too busy for them."""
    begun: list[str] = []

    def busy(command: list[str], *, timeout: float, **_: object) -> None:
        begun.append(command[0])
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(fetch, "set_jars", lambda _name: [])
    monkeypatch.setattr(subprocess, "run", busy)
    monkeypatch.setattr(jvm, "_name", lambda: "classes")
    return begun


def test_a_machine_too_busy_for_it_starts_drivers_without_and_tries_once(tries: list[str]) -> None:
    assert [jvm.conf()["spark.driver.extraJavaOptions"] for _ in range(2)] == [f"-Duser.timezone=UTC {jvm.QUICK}"] * 2
    assert len(tries) == 1


def test_whoever_needs_it_is_told_what_to_remove(tries: list[str], tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(StackError, match="warm-up job took longer than 300 s"):
            jvm.archive()
    with pytest.raises(StackError, match=str(tmp_path / "share" / "spark-classes" / "classes.failed")):
        jvm.archive()
    assert len(tries) == 1
