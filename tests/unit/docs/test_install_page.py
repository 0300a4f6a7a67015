"""The way to the first recovery is written down: what the test on a stock Airflow sets or says stands in the pages."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from airflow_cdc.config.settings import OPTIONS
from airflow_cdc.core.spark_jars import GivenJars, SparkVersion, misfits, missing
from airflow_cdc.kinds import jars_for
from airflow_cdc.sinks.iceberg.kind import IcebergEndpoint, catalog_needs
from stack import pages as made
from stack.airflow import AirflowServer, AirflowSettings
from stack.versions import SPARK
from tests.e2e.stock import stock_settings
from tests.paths import ROOT
from tests.unit.builders import PIPELINE

NEEDS = jars_for([PIPELINE])

PAGES = ("how-to/install.md", "how-to/own-pipeline.md", "production.md")
FOREIGN = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONFIG", "PYSPARK_PYTHON", "SPARK_HOME")
SETTING = re.compile(r"AIRFLOW__(\w+?)__(\w+)")


def pages() -> str:
    """Both pages, with the files that they show."""
    text = "\n".join((ROOT / "docs" / name).read_text() for name in PAGES)
    files = {name.partition(":")[0] for name in made.parts(text)} - set(made.TABLES)
    return "\n".join((text, *((ROOT / name).read_text() for name in sorted(files))))


def shell(text: str) -> dict[str, str]:
    """The variables that lines of a shell export."""
    words = (shlex.split(line, comments=True) for line in text.splitlines() if line.startswith("export "))
    return dict(word.split("=", 1) for line in words for word in line[1:])


def named(variable: str) -> bool:
    """Whether the pages name a variable, or the option of airflow.cfg that it sets."""
    option = SETTING.fullmatch(variable)
    spelled = f"[{option[1].lower()}] {option[2].lower()}" if option else variable
    return variable in pages() or spelled in pages()


@pytest.fixture
def shell_env(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's shell: nothing of it that concerns Airflow or Spark is inherited."""
    for name in FOREIGN:
        monkeypatch.setenv(name, "/inherited")


def stock(home: Path) -> AirflowServer:
    settings = AirflowSettings(Path("dags"), stock_settings([Path("/jars/a.jar")]), stock=True)
    return AirflowServer("http://localhost:8081", str(home), "admin", "", settings)


def test_the_stock_airflow_has_no_setting_that_the_pages_do_not_name(shell_env: None, tmp_path: Path) -> None:
    environment = stock(tmp_path).environment
    added = {name for name, value in environment.items() if os.environ.get(name) != value} - {"PATH"}
    assert {"AIRFLOW_HOME", "AIRFLOW__API__BASE_URL", "AIRFLOW__CDC__SPARK_JARS"} <= added
    assert [name for name in sorted(added) if not named(name)] == []
    assert "/inherited" not in environment.values()


def test_the_stock_airflow_writes_no_file_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stack import airflow

    monkeypatch.setattr(airflow, "spawn", lambda *_args, **_kwargs: None)
    server, _ = airflow.prepare(tmp_path, tmp_path, stock(tmp_path).settings)
    assert list(Path(server.home).iterdir()) == []


def test_every_variable_of_the_script_is_said_at_its_top() -> None:
    script = (ROOT / "examples" / "own-pipeline.sh").read_text()
    head = script.split("set -eu")[0]
    used = set(re.findall(r"\$\{?([A-Z][A-Z_]+)", script)) - {"DAGS", "AIRFLOW_HOME", "HOME", "JSON"}
    test = (ROOT / "tests" / "e2e" / "test_own_pipeline.py").read_text()
    given = set(re.findall(r'^        "([A-Z_]+)": ', test, re.MULTILINE))
    assert used <= given
    assert [name for name in given if name not in head] == []


def test_the_packages_of_the_page_are_all_that_spark_needs() -> None:
    exported = shell((ROOT / "examples" / "install.env").read_text())
    given = GivenJars(packages=tuple(exported["AIRFLOW__CDC__SPARK_PACKAGES"].split(",")))
    spark = SparkVersion(SPARK)
    assert missing(given, (*NEEDS, *catalog_needs(IcebergEndpoint("lake", json.loads(exported["CATALOG"]))))) == ()
    assert misfits(given, spark, NEEDS) == ()
    assert {spark.package(need) for need in NEEDS if need.comes_with is None} <= set(given.packages)


def test_every_setting_that_a_page_names_exists() -> None:
    """Of the [cdc] section, and of Airflow's own."""
    import airflow

    text = (Path(airflow.__file__).parent / "config_templates" / "config.yml").read_text()
    ours = {f"[cdc] {option.name}" for option in OPTIONS}
    sections = re.findall(r"^(\w+):\n(.*?)(?=^\w+:|\Z)", text, re.MULTILINE | re.DOTALL)
    theirs = {f"[{name}] {key}" for name, body in sections for key in re.findall(r"^    (\w+):", body, re.MULTILINE)}
    asked = {" ".join(part.split()) for part in re.findall(r"\[[a-z_]+\]\s[a-z_]+", pages())}
    asked |= {f"[{section.lower()}] {key.lower()}" for section, key in SETTING.findall(pages())}
    assert len(asked) > 8
    assert asked - ours - theirs == set()
