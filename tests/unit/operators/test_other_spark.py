"""A driver in another environment: what is asked of it first, and what spark-submit is given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import airflow_cdc
from airflow_cdc import spark_main
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.operators import other_spark, spark
from tests.unit.operator_support import Submitted, context, declared, environment


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return environment(tmp_path / "env", airflow_cdc.__version__, "4.1.3")


def operator() -> spark.CdcSparkOperator:
    return spark.CdcSparkOperator(task_id="t", app="recover", pipeline="shop")


def test_the_driver_has_the_python_the_launcher_and_the_jars_of_the_other_environment(
    submitted: Submitted, registry: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", "/jars/for-another-spark.jar")
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_PACKAGES", "a:b:1")
    for name in ("SPARK_HOME", "PYTHONPATH"):
        monkeypatch.setenv(name, "/elsewhere")
    declared(registry, python, ", jars: [/jars/own.jar]")
    assert operator().execute(context()) == {"rows": 3}
    command, env = submitted.command, submitted.env
    assert str(python.parents[1] / "airflow_cdc" / "spark_main.py") in command
    assert str(Path(spark_main.__file__).resolve()) not in command
    assert command[command.index("--jars") + 1] == "/jars/own.jar"
    assert "--packages" not in command
    assert env["PYSPARK_PYTHON"] == env["PYSPARK_DRIVER_PYTHON"] == str(python)
    assert env["PATH"].split(os.pathsep)[:2] == [str(python.parents[1] / "bin")] * 2
    assert (env["SPARK_HOME"], env["PYTHONPATH"]) == (str(python.parents[1]), "")


def test_an_environment_that_cannot_run_a_driver_is_named_before_anything_starts(
    submitted: Submitted, registry: Path, tmp_path: Path
) -> None:
    python = environment(tmp_path / "without", airflow_cdc.__version__, None)
    declared(registry, python)
    with pytest.raises(
        ConfigError, match=rf"{python} cannot run a driver: ModuleNotFoundError: No module named 'pyspark'"
    ):
        operator().execute(context())
    assert submitted.command == []


@pytest.mark.parametrize(
    ("package", "pyspark", "said"),
    [
        ("0.0.9", "4.1.3", r"has version 0\.0\.9 of this package, not"),
        (airflow_cdc.__version__, "3.4.4", r"has Spark 3\.4\.4, on which this package has not been run"),
    ],
)
def test_another_version_is_refused(tmp_path: Path, package: str, pyspark: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        other_spark.ask(str(environment(tmp_path / "old", package, pyspark)), "pipeline shop")


def test_a_python_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"spark\.python does not run"):
        other_spark.ask(str(tmp_path / "python"), "pipeline shop")


def test_it_is_refused_on_a_cluster(
    submitted: Submitted, registry: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", '{"conn_type": "spark", "host": "spark://master", "port": 7077}')
    declared(registry, python)
    with pytest.raises(ConfigError, match="works with a local master only"):
        operator().execute(context())


@pytest.mark.parametrize(
    ("more", "said"),
    [("python: env/bin/python", "python is not an absolute path"), ("jars: [/a.jar]", "jars is only used with")],
)
def test_keys_that_mean_nothing_are_refused(registry: Path, more: str, said: str, submitted: Any) -> None:
    registry.write_text(registry.read_text().replace("{conn_id: shop_spark}", f"{{conn_id: shop_spark, {more}}}"))
    with pytest.raises(ConfigError, match=said):
        operator().execute(context())
