"""An Airflow that is too old is refused in words, and the rest of what differs between versions is in one place."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable

import pytest

from airflow_cdc import airflow_version
from airflow_cdc.airflow_version import check_airflow, installed, not_durable, stats
from airflow_cdc.core.errors import ConfigError
from tests.airflow_matrix.rows import VERSIONS, Row, changes, counted, frozen, touches_airflow
from tests.paths import ROOT

REFUSED = "needs Airflow 3.2 or newer, and this is 3.1.8"


@pytest.fixture
def as_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def pretend(version: str) -> None:
        monkeypatch.setattr(airflow_version, "installed", lambda: (version, airflow_version._first_two(version)))

    return pretend


@pytest.mark.parametrize("version", ["3.2.0", "3.2.0rc1", "3.10.1", "4.0.0", installed()[0]])
def test_this_and_newer_ones_are_taken(as_version: Callable[[str], None], version: str) -> None:
    as_version(version)
    check_airflow()


@pytest.mark.parametrize("version", ["3.1.8", "2.11.2", "none"])
def test_an_older_one_is_refused(as_version: Callable[[str], None], version: str) -> None:
    as_version("0" if version == "none" else version)
    with pytest.raises(ConfigError, match=r"needs Airflow 3\.2 or newer.*Upgrade Airflow, or uninstall"):
        check_airflow()


@pytest.mark.parametrize(
    "module", ["hooks.mysql", "operators.base", "sensors.gtid", "triggers.base", "plugin", "dags.cdc_apply"]
)
def test_whatever_is_imported_first_says_so(module: str) -> None:
    script = (
        "import importlib.metadata as m; real = m.version;"
        "m.version = lambda name: '3.1.8' if name.startswith('apache-airflow') else real(name);"
        f"import airflow_cdc.{module}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert REFUSED in done.stderr.splitlines()[-1]


def test_the_spark_task_is_told_what_its_version_understands(as_version: Callable[[str], None]) -> None:
    as_version("3.3.0")
    assert not_durable() == {"durable": False}
    as_version("3.2.2")
    assert not_durable() == {}


def test_metrics_have_a_place_to_go() -> None:
    assert callable(stats().gauge)
    assert callable(stats().timing)


def test_pip_is_not_told_a_minimum_to_upgrade_airflow_to() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [one for one in declared if re.match(r"apache-airflow(-core|-task-sdk)?\b(?!-)", one)] == ["apache-airflow"]


def test_the_matrix_reaches_down_to_the_minimum_and_over_every_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    classified = {one.rpartition(" ")[2] for one in project["classifiers"] if "Python :: 3." in one}
    assert {version.python for version in VERSIONS} == classified
    assert min(tuple(map(int, version.airflow.split(".")[:2])) for version in VERSIONS) == airflow_version.MINIMUM
    assert installed()[0] in {version.airflow for version in VERSIONS}


def test_an_upgraded_airflow_is_seen() -> None:
    before = frozen("apache-airflow==3.2.0\napache-airflow-providers-standard==1.12.2\n-e git+x#egg=y\nrich==14.3.3\n")
    after = {**before, "apache-airflow-providers-standard": "1.21.0", "pyspark": "4.1.3"}
    assert changes(before, after) == ("apache-airflow-providers-standard 1.12.2 -> 1.21.0",)
    assert not touches_airflow(changes(before, after))
    assert touches_airflow(changes(before, {**after, "apache-airflow": "3.3.2"}))
    assert touches_airflow(changes({"apache-airflow-core": "3.2.0"}, {}))


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("6 passed in 3.1s", (6, 0)),
        ("1 failed, 5 passed in 3s", (5, 1)),
        ("2 passed, 4 errors in 1s", (2, 4)),
        ("", (0, 0)),
    ],
)
def test_the_closing_line(line: str, counts: tuple[int, int]) -> None:
    assert counted(f"...\n{line}\n") == counts


def test_what_was_not_tried_is_not_good() -> None:
    version = VERSIONS[0]
    assert Row(version, True, (), 6, 0, 1.0).good
    assert not Row(version, True, (), 0, 0, 1.0).good
    assert not Row(version, False, ("apache-airflow 3.2.0 -> 3.3.2",), 6, 0, 1.0).good
    assert not Row(version, True, (), 6, 1, 1.0).good
    assert not Row(version, True, (), 6, 0, 1.0, recovery="exit 1: …").good
    row = Row(version, False, (), 0, 0, 0.0, untried="no python3.13")
    assert not row.good
    assert "not tried: no python3.13" in row.text()
