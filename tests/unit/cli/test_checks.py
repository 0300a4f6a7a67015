"""What the doctor says of this Airflow: each fault is made, and named with what to do about it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import airflow_cdc
from airflow_cdc.cli import checks, commands, jars, trigger
from airflow_cdc.config.registry import load_registry
from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import UsageError
from airflow_cdc.kinds import jars_for
from stack.fetch import jars_of
from tests.unit.builders import PIPELINE
from tests.unit.conftest import Answer
from tests.unit.operator_support import declared, environment

NEEDS = jars_for([PIPELINE])

# DAG → whether it is paused, and gone from its file: Airflow keeps a row of those, too
DAGS = {
    "cdc_recovery": (False, False),
    "cdc_repair": (False, False),
    "cdc_apply__shop": (True, False),
    "cdc_nightly_consistency__shop": (False, True),
}


@pytest.fixture
def dags(airflow_db: Path) -> Iterator[None]:
    """Airflow knows two DAGs that run, a paused one, and one that is gone; afterwards it knows what it knew before."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    new: Any = DagModel  # untyped in Airflow
    with create_session() as session:
        session.add(DagBundleModel(name="doctor"))
        session.flush()
        before = {row.dag_id: (row.is_paused, row.is_stale) for row in session.query(DagModel) if row.dag_id in DAGS}
        session.add_all(new(dag_id=name, bundle_name="doctor", fileloc="") for name in DAGS.keys() - before.keys())
    restate(DAGS)
    yield
    restate(before)
    with create_session() as session:
        for row in session.query(DagModel).filter(DagModel.bundle_name == "doctor"):
            session.delete(row)
        session.flush()
        session.delete(session.get(DagBundleModel, "doctor"))


def restate(states: Mapping[str, tuple[bool | None, bool]]) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        for name, (paused, stale) in states.items():
            row = session.get_one(DagModel, name)
            row.is_paused, row.is_stale = bool(paused), stale


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jars with the demo's names, and a Spark that has none of its own."""
    home, folder = tmp_path / "spark", tmp_path / "jars"
    (home / "jars").mkdir(parents=True)
    folder.mkdir()
    monkeypatch.setenv("SPARK_HOME", str(home))
    for name in (
        "SPARK_CONF_DIR",
        "AIRFLOW__CDC__SPARK_JARS",
        "AIRFLOW__CDC__SPARK_PACKAGES",
        "AIRFLOW__CDC__SPARK_CONF",
    ):
        monkeypatch.delenv(name, raising=False)
    for jar in jars_of("spark"):
        zipfile.ZipFile(folder / jar.file_name, "w").close()
    return folder


def states(results: list[Check]) -> dict[str, str]:
    return {check.name: check.state for check in results}


def all_in(folder: Path) -> str:
    return ",".join(map(str, sorted(folder.glob("*.jar"))))


# ---- DAGs, slots ------------------------------------------------------------------------------------


def test_a_dag_that_does_not_run_is_named_with_the_command(dags: None, registry: Path, connections: Any) -> None:
    results = checks.pipeline_airflow_checks(load_registry(registry)["shop"])
    by_name = {check.name: (check.state, check.found, check.todo) for check in results}
    assert by_name["cdc_apply__shop"] == (
        "warn",
        "paused, so its runs wait",
        "Run: airflow dags unpause cdc_apply__shop",
    )
    unknown = by_name["cdc_nightly_consistency__shop"]
    assert unknown[:2] == ("warn", "Airflow has not loaded this DAG")
    assert "airflow dags reserialize" in unknown[2]


def test_no_run_is_triggered_that_would_stay_queued(dags: None) -> None:
    """Airflow takes the run of a DAG that is gone from its file, and never begins it: the command waited for its whole time."""
    for name, why in (
        ("cdc_apply__shop", "is paused.*airflow dags unpause cdc_apply__shop"),
        ("cdc_nightly_consistency__shop", "loads it no more.*list-import-errors"),
        ("cdc_apply__nowhere", "has not loaded cdc_apply__nowhere"),
    ):
        with pytest.raises(UsageError, match=why):
            trigger.start(name, {})
    trigger.refuse_waiting("cdc_recovery")


def test_a_recovery_that_could_not_run_is_bad(dags: None, registry: Path) -> None:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    assert states(checks.airflow_checks(NEEDS))["cdc_recovery"] == "ok"
    with create_session() as session:
        session.get_one(DagModel, "cdc_recovery").is_paused = True
    assert states(checks.airflow_checks(NEEDS))["cdc_recovery"] == "bad"


@pytest.mark.parametrize(
    ("name", "slots", "state"),
    [
        ("default_pool", 1, "bad"),
        ("default_pool", 0, "bad"),
        ("default_pool", 2, "ok"),
        ("default_pool", -1, "ok"),
        ("[core] parallelism", 1, "bad"),
        ("[core] parallelism", 0, "ok"),
    ],
)
def test_the_hold_needs_a_slot_of_its_own(name: str, slots: int, state: str) -> None:
    assert checks.slot_check(name, slots).state == state


def test_slots_are_read_from_this_airflow(airflow_db: Path, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG", "1")
    results = states(checks.airflow_checks(NEEDS))
    assert (results["[core] max_active_tasks_per_dag"], results["[core] parallelism"]) == ("bad", "ok")
    assert results["default_pool"] == "ok"


# ---- reports and links ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "executor", "state"),
    [
        ("reports", "LocalExecutor", "bad"),
        ("~/reports", "LocalExecutor", "bad"),
        ("/tmp/reports", "LocalExecutor", "warn"),  # noqa: S108 - the fault
        ("file:///var/tmp/reports", "LocalExecutor", "warn"),
        ("/srv/reports", "LocalExecutor", "ok"),
        ("/srv/reports", "CeleryExecutor", "warn"),
        ("s3://bucket/reports", "CeleryExecutor", "ok"),
    ],
)
def test_a_place_of_reports_that_not_every_component_finds(location: str, executor: str, state: str) -> None:
    assert checks.report_dir_check(location, executor).state == state


def test_a_place_of_reports_that_cannot_be_written(
    airflow_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AIRFLOW__CDC__REPORT_DIR", str(tmp_path / "file"))
    report_dir = next(check for check in checks.airflow_checks(NEEDS) if check.name == "report_dir")
    assert (report_dir.state, "can't write" in report_dir.found) == ("bad", True)


def test_links_without_an_address(airflow_db: Path, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert states(checks.airflow_checks(NEEDS))["links"] == "warn"
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    assert states(checks.airflow_checks(NEEDS))["links"] == "ok"


# ---- jars -------------------------------------------------------------------------------------------


def test_without_jars_each_is_named_with_its_package(spark: Path) -> None:
    results = jars.jar_checks("installation", NEEDS)
    assert [check.state for check in results] == ["bad"] * len(NEEDS)
    assert "no iceberg-spark-runtime, which reads and writes the sink tables" in results[0].found
    assert "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:" in results[0].todo


def test_a_run_that_would_wait_for_ever_is_not_triggered(dags: None, cdc: Callable[..., Answer]) -> None:
    answer = cdc("dead-letters", "replay", "shop")
    assert answer.status == 2
    assert "cdc_apply__shop is paused" in answer.err
    assert "airflow dags unpause cdc_apply__shop" in answer.err


def test_every_place_where_jars_may_be_named(spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def good() -> bool:
        return [check.state for check in jars.jar_checks("installation", NEEDS)] == ["ok"]

    assert not good()
    for key, value in {
        "AIRFLOW__CDC__SPARK_JARS": all_in(spark),
        "AIRFLOW__CDC__SPARK_PACKAGES": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,"
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3,org.mariadb.jdbc:mariadb-java-client:3.5.11",
        "AIRFLOW__CDC__SPARK_CONF": json.dumps({"spark.driver.extraClassPath": f"{spark}/*"}),
    }.items():
        with monkeypatch.context() as patch:
            patch.setenv(key, value)
            assert good(), key
    (tmp_path / "spark" / "conf").mkdir()
    (tmp_path / "spark" / "conf" / "spark-defaults.conf").write_text(f"# jars\nspark.jars={all_in(spark)}\n")
    assert good()
    (tmp_path / "spark" / "conf" / "spark-defaults.conf").unlink()
    for jar in spark.glob("*.jar"):
        jar.rename(tmp_path / "spark" / "jars" / jar.name)
    assert good()


def test_a_jar_that_is_not_there_or_for_another_spark(spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", f"/nowhere/a.jar,{spark}/iceberg-spark-runtime-3.5_2.12-1.12.0.jar")
    (spark / "iceberg-spark-runtime-3.5_2.12-1.12.0.jar").write_text("")
    results = [check.found for check in jars.jar_checks("installation", NEEDS)]
    assert results == [
        "/nowhere/a.jar does not exist here",
        "iceberg-spark-runtime-3.5_2.12-1.12.0.jar is for Spark 3.5, Scala 2.12",
    ]


def test_a_jar_of_another_name_is_known_by_its_classes(spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(spark / "all.jar", "w") as jar:
        for need in NEEDS:
            jar.writestr(need.entry, "")
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", str(spark / "all.jar"))
    assert [check.state for check in jars.jar_checks("installation", NEEDS)] == ["ok"]


def test_settings_that_are_not_json_are_named(spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_CONF", "{")
    (one,) = jars.jar_checks("installation", NEEDS)
    assert (one.state, "not a JSON object" in one.found) == ("bad", True)


def test_the_driver_of_the_catalog_is_asked_for(
    spark: Path, airflow_db: Path, registry: Path, connections: Any
) -> None:
    results = checks.pipeline_airflow_checks(load_registry(registry)["shop"])
    (lacking,) = [check for check in results if check.name == "jars"]
    assert (lacking.subject, lacking.state) == ("shop", "bad")
    assert "no sqlite-jdbc, which opens the catalog" in lacking.found


def test_another_spark_is_asked_and_has_jars_of_its_own(
    airflow_db: Path, registry: Path, connections: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", "/jars/of-airflow.jar")
    python = environment(tmp_path / "env", airflow_cdc.__version__, "4.1.3")
    declared(registry, python, ", jars: [/nowhere/own.jar]")
    shop = load_registry(registry)["shop"]
    results = {check.name: check for check in checks.pipeline_airflow_checks(shop)}
    assert (results["spark.python"].state, results["spark.python"].found) == ("ok", f"Spark 4.1.3 of {python}")
    assert (results["jars"].state, results["jars"].found) == ("bad", "/nowhere/own.jar does not exist here")
    python.unlink()
    results = {check.name: check for check in checks.pipeline_airflow_checks(shop)}
    assert (results["spark.python"].state, "jars" in results) == ("bad", False)


def test_the_doctor_asks_all_of_it(dags: None, spark: Path, spec: Any, cdc: Callable[..., Answer]) -> None:
    spec(commands, "doctor_installation", [])
    spec(commands, "doctor_pipeline", [])
    answer = cdc("doctor", "shop", "-o", "json")
    named = {(check["subject"], check["name"]) for check in answer.data}
    wanted = {("installation", name) for name in ("cdc_recovery", "default_pool", "report_dir", "links", "jars")}
    assert wanted | {("shop", "cdc_apply__shop"), ("shop", "jars")} <= named
    assert answer.status == 1
