"""The environment of Hudi's Spark; pip itself is replaced, the real one runs in tests/integration/hudi."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stack import hudi
from stack.errors import UnavailableError
from stack.versions import HUDI, SPARK_OF_HUDI
from tests.paths import ROOT


class FakePip:
    """Counts the installations; ends with `status`."""

    def __init__(self) -> None:
        self.runs: list[Sequence[str]] = []
        self.status = 0

    def __call__(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.runs.append(command)
        return subprocess.CompletedProcess(command, self.status, "", "no such version")


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    fake = FakePip()
    monkeypatch.setenv("CDC_CACHE", str(tmp_path))
    monkeypatch.setattr("stack.hudi.venv.create", lambda folder, with_pip: folder.mkdir(parents=True))
    monkeypatch.setattr("stack.hudi.subprocess.run", fake)
    return fake


def test_the_environment_is_made_once_with_the_pinned_spark(pip: FakePip) -> None:
    first = hudi.python()
    assert hudi.python() == first
    assert [command[-1] for command in pip.runs] == [f"pyspark=={SPARK_OF_HUDI}"]


def test_one_that_failed_half_way_is_made_anew(pip: FakePip) -> None:
    pip.status = 1
    with pytest.raises(UnavailableError, match="no such version"):
        hudi.python()
    pip.status = 0
    hudi.python()
    assert len(pip.runs) == 2


def test_nothing_leads_it_to_another_spark(pip: FakePip, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYTHONPATH"):
        monkeypatch.setenv(name, "/elsewhere")
    environment = hudi.environment()
    assert "/elsewhere" not in environment.values()
    assert environment["PYTHONPATH"] == str(ROOT)
    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"] == str(hudi.python())


def test_its_bundle_for_flink_is_the_file_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDC_HUDI_FLINK_BUNDLE", raising=False)
    with pytest.raises(UnavailableError, match=rf"it has to lead to hudi-flink.*-bundle-{HUDI}\.jar"):
        hudi.flink_bundle()
    jar = tmp_path / "bundle.jar"
    monkeypatch.setenv("CDC_HUDI_FLINK_BUNDLE", str(jar))
    with pytest.raises(UnavailableError):
        hudi.flink_bundle()
    jar.touch()
    assert hudi.flink_bundle() == jar
