"""Spark operators: what a driver is told stays secret, and its error is the error of the task."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import shutil
import socket
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from airflow_cdc import spark_main
from airflow_cdc.core.errors import (
    CdcError,
    ConfigError,
    DeadlineError,
    SourceError,
    VerificationError,
)
from airflow_cdc.core.pipeline import ApplySpec
from airflow_cdc.core.poll import poll_until
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets, TopicState
from airflow_cdc.flows import backlog as pending
from airflow_cdc.operators import driver_settings as private
from airflow_cdc.operators import repair, spark
from airflow_cdc.operators.base import find_pipeline
from airflow_cdc.operators.spark import Deadline
from airflow_cdc.spark_apps.driver.session import LATE_COMPILER, QUICK_COMPILER, SessionOnDemand
from tests.unit.conftest import SECRETS
from tests.unit.operator_support import Submitted, context, shown

SAID = (
    'Cannot execute: spark-submit --master local[*] … Error code is: 1.\nLast spark-submit output:\nException in thread "main" '
    "java.lang.RuntimeException: [unresolved dependency: org.apache.spark#spark-token-provider-kafka-0-10_2.13;4.1.3: not found]\nat x"
)


def test_a_package_that_could_not_be_fetched_is_named_with_what_to_do(submitted: Submitted) -> None:
    submitted.fails, submitted.says = True, SAID
    with pytest.raises(CdcError) as raised:
        operator().execute(context())
    error = raised.value
    assert str(error).startswith(
        "spark-submit could not fetch org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.3 ([cdc] spark_packages). "
    )
    assert "[cdc] spark_jars" in error.todo
    assert spark.not_fetched("Cannot execute: spark-submit. Error code is: -9") is None


def operator(**kwargs: Any) -> spark.CdcSparkOperator:
    return spark.CdcSparkOperator(**{"task_id": "t", "app": "recover", "pipeline": "shop", **kwargs})


def test_a_driver_is_told_everything_in_a_private_file_and_nothing_elsewhere(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", "/jars/a.jar,/jars/b.jar")
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_CONF", '{"spark.driver.memory": "2g"}')
    task = operator(conf={"spark.x": "1"})
    assert task.execute(context(note="why")) == {"rows": 3}
    assert submitted.modes == (0o600, 0o700)
    assert submitted.settings["endpoints"]["source"]["password"] == SECRETS["mysql"]
    assert submitted.settings["pipeline"]["name"] == "shop"
    told = {key: submitted.settings[key] for key in ("run_id", "dag_id", "try_number", "options")}
    assert told == {"run_id": "manual__1", "dag_id": "cdc_recovery", "try_number": 1, "options": {"note": "why"}}
    assert not submitted.path.parent.exists()

    command, options = submitted.command, submitted.options
    assert options[options.index("--master") + 1] == "local[1]"
    assert options[options.index("--jars") + 1] == "/jars/a.jar,/jars/b.jar"
    assert {"spark.driver.memory=2g", "spark.x=1", "spark.ui.enabled=false"} <= set(options)
    assert command[-4:] == [str(Path(spark_main.__file__).resolve()), "recover", "--settings", str(submitted.path)]
    assert submitted.env["PYSPARK_PYTHON"] == submitted.env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    rendered = json.dumps([getattr(task, name, None) for name in task.template_fields], default=str)
    for secret in SECRETS.values():
        assert secret not in f"{command}{submitted.env}{rendered}{vars(task)}"


def test_a_driver_keeps_its_classes_where_a_folder_for_them_is_named(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task = operator()
    task.execute(context())
    assert "Archive" not in str(submitted.options)
    monkeypatch.setenv("AIRFLOW__CDC__CLASS_ARCHIVE", str(tmp_path / "classes"))
    for _ in range(2):  # a sensor or a retry uses the operator again
        task.execute(context())
        (java,) = (word for word in submitted.options if "extraJavaOptions" in word)
        assert java.count(f"-XX:ArchiveClassesAtExit={tmp_path}") == 1
    monkeypatch.setenv("AIRFLOW__CDC__CLASS_ARCHIVE", str(tmp_path / "my classes"))
    with pytest.raises(ConfigError, match="blank"):
        task.execute(context())


def test_packages_only_count_without_jars(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_PACKAGES", "a:b:1")
    operator().execute(context())
    assert submitted.options[submitted.options.index("--packages") + 1] == "a:b:1"
    monkeypatch.setenv("AIRFLOW__CDC__SPARK_JARS", "/jars/a.jar")
    operator().execute(context())
    assert "--packages" not in submitted.options


def test_a_bad_spark_conf_is_a_clear_error(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("[1]", "memory=2g"):
        monkeypatch.setenv("AIRFLOW__CDC__SPARK_CONF", text)
        with pytest.raises(ConfigError, match=r"spark_conf is not a JSON object \(airflow.cfg \[cdc\] spark_conf\)"):
            operator().execute(context())


def test_the_error_of_the_driver_is_the_error_of_the_task(submitted: Submitted) -> None:
    submitted.fails = True
    submitted.result = {"error": SourceError("W is gone", where="db:3306", todo="Clear it.").to_json()}
    with pytest.raises(SourceError, match=r"^W is gone \(db:3306\)\. Clear it\.$"):
        operator().execute(context())
    assert not submitted.path.parent.exists()
    submitted.result = {}
    with pytest.raises(AirflowException, match="Error code is: 1"):
        operator().execute(context())


def test_an_error_of_the_driver_keeps_what_it_knows(submitted: Submitted) -> None:
    submitted.fails = True
    submitted.result = {"error": VerificationError("settled too late", verdict="INCONCLUSIVE").to_json()}
    with pytest.raises(VerificationError) as raised:
        operator(app="verify").execute(context())
    assert raised.value.verdict == "INCONCLUSIVE"
    submitted.result = {"error": {"error": "OfTheApplication", "what": "odd", "where": "", "todo": "", "more": 1}}
    with pytest.raises(CdcError, match=r"^odd$"):
        operator().execute(context())


@pytest.mark.parametrize(
    ("waiting", "said"),
    [
        ({"recovery": "manual__7", "tables": ["shop.orders"], "dead_letters": 0}, "manual__7 is open"),
        ({"recovery": None, "tables": [], "dead_letters": 0}, "nothing to apply"),
    ],
)
def test_no_driver_is_started_for_nothing(waiting: dict[str, Any], said: str, submitted: Submitted, step: Any) -> None:
    step(pending, "pending", waiting)
    with pytest.raises(AirflowSkipException, match=said):
        spark.ApplyChangesOperator(task_id="t", pipeline="shop").execute(context())
    assert submitted.command == []


def test_inv_37_a_lease_that_a_dead_run_left_is_freed_before_a_driver_that_needs_it_and_cannot_ask_airflow(
    submitted: Submitted, step: Any
) -> None:
    step(pending, "pending", {"recovery": None, "tables": ["shop.orders"], "dead_letters": 0})
    spark.ApplyChangesOperator(task_id="t", pipeline="shop").execute(context())
    for app in ("repair", "backfill"):
        spark.CdcSparkOperator(task_id="t", app=app, pipeline="shop").execute(context())
    assert submitted.freed == [context()["run_id"]] * 3
    spark.CdcSparkOperator(task_id="t", app="verify", pipeline="shop").execute(context())
    assert len(submitted.freed) == 3, "a recovery's own drivers have its lease"


@pytest.fixture
def continuous(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry's pipeline applies continuously, in runs of 20 s; nobody sleeps."""
    clock = iter(range(0, 10_000, 5))
    monkeypatch.setattr(
        spark, "find_pipeline", lambda *names: replace(find_pipeline(*names), apply=ApplySpec("continuous", lasts=20))
    )
    quick = partial(poll_until, clock=lambda: next(clock), sleep=lambda _: None)
    monkeypatch.setattr(spark, "poll_until", quick)


@pytest.mark.usefixtures("continuous")
def test_a_continuous_run_waits_for_something_to_apply_and_then_stays(submitted: Submitted, step: Any) -> None:
    asked = step(pending, "pending", {"recovery": None, "tables": [], "dead_letters": 0})
    something = {"recovery": None, "tables": ["shop.orders"], "dead_letters": 0}
    asked.side_effect = [SourceError("restarting"), asked.return_value, something]
    task = spark.ApplyChangesOperator(task_id="t", pipeline="shop")
    assert task.execute(context()) == {"rows": 3}
    assert asked.call_count == 3
    assert submitted.settings["task"] == {"host": socket.gethostname(), "pid": os.getpid()}


@pytest.mark.usefixtures("continuous")
def test_a_continuous_run_that_finds_nothing_is_skipped_when_its_time_is_up(submitted: Submitted, step: Any) -> None:
    asked = step(pending, "pending", {"recovery": "manual__7", "tables": [], "dead_letters": 0})
    with pytest.raises(AirflowSkipException, match="manual__7 is open"):
        spark.ApplyChangesOperator(task_id="t", pipeline="shop").execute(context())
    assert asked.call_count > 2
    assert submitted.command == []


@pytest.mark.usefixtures("continuous")
def test_a_run_over_some_tables_applies_once(submitted: Submitted, step: Any) -> None:
    step(pending, "pending", {"recovery": None, "tables": ["shop.orders"], "dead_letters": 0})
    spark.ApplyChangesOperator(task_id="t", pipeline="shop").execute(context(tables=["shop.orders"]))
    assert "task" not in submitted.settings


def test_a_source_that_cannot_be_asked_fails_a_scheduled_run_at_once(submitted: Submitted, step: Any) -> None:
    asked = step(pending, "pending", {})
    asked.side_effect = SourceError("away")
    with pytest.raises(SourceError, match="away"):
        spark.ApplyChangesOperator(task_id="t", pipeline="shop").execute(context())
    assert asked.call_count == 1


def test_changes_dead_letters_and_a_replay_start_one(submitted: Submitted, step: Any) -> None:
    asked = step(pending, "pending", {"recovery": None, "tables": [], "dead_letters": 2})
    task = spark.ApplyChangesOperator(task_id="t", pipeline="shop")
    assert task.execute(context()) == {"rows": 3}
    assert submitted.command[-3] == "apply_changes"
    task.execute(context(replay=True, tables=["shop.orders"]))
    assert asked.call_count == 1
    assert submitted.settings["options"] == {"replay": True, "tables": ["shop.orders"]}


def test_apply_is_not_taken_for_the_night_of_the_same_minute(submitted: Submitted, step: Any) -> None:
    """Airflow calls both runs `scheduled__2026-11-21T02:00:00+00:00`; who holds the lease is told by that name."""
    step(pending, "pending", {"recovery": None, "tables": ["shop.orders"], "dead_letters": 0})
    names = set()
    for operator in (spark.ApplyChangesOperator, repair.NightlyCheckOperator):
        operator(task_id="t", pipeline="shop").execute(context())
        names.add(submitted.settings["run_id"])
    assert names == {"manual__1", "apply__manual__1"}


@pytest.mark.parametrize(("events", "quick"), [(500_000, True), (500_001, False)])
def test_the_compiler_is_that_of_the_work_ahead(events: int, quick: bool, submitted: Submitted, step: Any) -> None:
    step(pending, "pending", {"recovery": None, "tables": ["shop.orders"], "events": events, "dead_letters": 0})
    task = spark.ApplyChangesOperator(task_id="t", pipeline="shop")
    task.execute(context())
    assert (QUICK_COMPILER in str(submitted.options)) is quick
    assert (LATE_COMPILER in str(submitted.options)) is not quick
    task.execute(context(replay=True))
    assert LATE_COMPILER in str(submitted.options), "nobody knows how much a replay is"


@pytest.mark.usefixtures("continuous")
def test_a_driver_that_stays_is_not_for_short_work(submitted: Submitted, step: Any) -> None:
    step(pending, "pending", {"recovery": None, "tables": ["shop.orders"], "events": 1, "dead_letters": 0})
    spark.ApplyChangesOperator(task_id="t", pipeline="shop").execute(context())
    assert LATE_COMPILER in str(submitted.options)


@pytest.mark.parametrize(
    ("app", "recovered", "quick"),
    [
        ("verify", {"rows": 1_000}, True),
        ("verify", {"rows": 10_000_000}, False),
        ("verify", None, False),
        ("recover", {"rows": 1_000}, False),
        ("publish", None, True),
    ],
)
def test_verify_has_ahead_what_recover_read_and_recover_nobody_knows_what(
    app: str, recovered: dict[str, int] | None, quick: bool, submitted: Submitted
) -> None:
    given = context()
    given["ti"].xcom["recover"] = recovered  # type: ignore[attr-defined]
    operator(app=app).execute(given)
    assert (QUICK_COMPILER in str(submitted.options)) is quick
    assert (LATE_COMPILER in str(submitted.options)) is not quick


TOPIC = TopicState("shop.shop.orders", "id1", {0: (0, 10), 1: (5, 7)})
AT_END = {TOPIC.name: TopicOffsets("id1", {0: 10, 1: 7})}


@pytest.mark.parametrize(
    ("stamp", "state", "caught_up"),
    [
        (Stamp(3, None, AT_END), TOPIC, True),
        (Stamp(2, None, AT_END), TOPIC, False),
        (None, TOPIC, False),
        (Stamp(3, None, AT_END), None, False),
        (Stamp(3, None, {}), None, True),  # no event has come yet, so that there is no topic
        (None, None, False),
        (Stamp(2, None, {}), None, False),
        (Stamp(3, None, {}), TOPIC, False),
        (Stamp(3, None, {TOPIC.name: TopicOffsets("id1", {0: 10, 1: 6})}), TOPIC, False),
        (Stamp(3, None, {TOPIC.name: TopicOffsets("id1", {0: 10})}), TOPIC, False),
        (Stamp(3, None, {TOPIC.name: TopicOffsets("id0", {0: 10, 1: 7})}), TOPIC, False),
    ],
)
def test_only_a_stamp_at_the_very_end_means_nothing_to_do(stamp: Any, state: Any, caught_up: bool) -> None:
    assert pending.caught_up(stamp, 3, TOPIC.name, state) is caught_up


@pytest.mark.parametrize(
    ("stamp", "state", "left"),
    [
        (Stamp(3, None, AT_END), TOPIC, 0),
        (Stamp(3, None, {TOPIC.name: TopicOffsets("id1", {0: 4})}), TOPIC, 6 + 2),
        (Stamp(3, None, {}), TOPIC, 12),
        (None, replace(TOPIC, ahead=5), 17),
        (None, None, 0),
    ],
)
def test_events_wait_behind_the_stamp(stamp: Any, state: Any, left: int) -> None:
    assert pending.events_left(stamp, state) == left


def test_a_missing_spark_connection_does_not_mean_yarn(submitted: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_SPARK")
    with pytest.raises(ConfigError, match=r"'shop_spark' is not defined.*airflow connections add shop_spark"):
        operator().execute(context())
    assert submitted.command == []


def test_an_operator_without_an_application_is_no_operator() -> None:
    with pytest.raises(TypeError, match="missing keyword argument 'app'"):
        spark.CdcSparkOperator(task_id="t", pipeline="shop")


def test_what_cannot_work_is_refused_before_it_starts(submitted: Submitted) -> None:
    with pytest.raises(ConfigError, match=r"no Spark application 'recovery'.*recover, verify, apply_changes"):
        operator(app="recovery").execute(context())
    with pytest.raises(ConfigError, match="deploy-mode to client"):
        operator(deploy_mode="cluster").execute(context())
    with pytest.raises(ConfigError, match="deploy-mode to client"):
        operator(conf={"spark.submit.deployMode": "cluster"}).execute(context())
    assert submitted.command == []


# a connection of a cluster, and the master that spark-submit gets
CLUSTERS = (
    ({"conn_type": "spark", "host": "spark://localhost", "port": 7077}, "spark://localhost:7077"),
    ({"conn_type": "spark", "host": "localhost", "port": 7077}, "spark://localhost:7077"),
    ({"conn_type": "spark", "host": "spark://one:7077,two:7077"}, "spark://one:7077,two:7077"),
    ({"conn_type": "spark", "host": "yarn", "extra": {"queue": "cdc", "deploy-mode": "client"}}, "yarn"),
    ({"conn_type": "spark", "host": "k8s://https://api:6443", "extra": {"namespace": "cdc"}}, "k8s://https://api:6443"),
)


@pytest.mark.parametrize(("connection", "master"), CLUSTERS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_cluster_keeps_its_own_settings_and_its_own_python(
    connection: dict[str, Any], master: str, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings of a driver that is its own executor would leave the executors without a driver to answer."""
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", json.dumps(connection))
    operator(conf={"spark.pyspark.python": "/opt/python"}).execute(context())
    command = submitted.command
    assert command[command.index("--master") + 1] == master
    told = [one for one in command if one.startswith("spark.")]
    assert not [
        one for one in told if one.startswith(("spark.driver.host", "spark.driver.bindAddress", "spark.master"))
    ]
    assert {"spark.pyspark.python=/opt/python", f"spark.pyspark.driver.python={sys.executable}"} <= set(told)
    assert "PYSPARK_PYTHON" not in submitted.env
    # nothing of this machine's environment becomes the cluster's
    assert not [one for one in told if "Env." in one]
    extra = connection.get("extra", {})
    pairs = list(itertools.pairwise(command))
    assert (("--queue", "cdc") in pairs, ("--deploy-mode", "client") in pairs) == (master == "yarn",) * 2
    assert ("spark.kubernetes.namespace=cdc" in command) == ("namespace" in extra)


@pytest.mark.parametrize(("connection", "own"), [({}, True), ({"spark-binary": "spark3-submit"}, False)])
def test_spark_submit_is_found_where_the_path_has_none(
    connection: dict[str, Any], own: bool, submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    made = {"conn_type": "spark", "host": "yarn", "extra": connection}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", json.dumps(made))
    operator().execute(context())
    assert (submitted.command[0] == "spark3-submit") is not own
    assert os.access(submitted.command[0], os.X_OK) is own


def test_kubernetes_without_its_provider_is_one_clear_line(
    submitted: Submitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(spark_submit, "kube_client", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_SPARK", json.dumps({"conn_type": "spark", "host": "k8s://https://api:6443"}))
    with pytest.raises(ConfigError, match=r"Install apache-airflow-providers-cncf-kubernetes on the workers\.$"):
        operator().execute(context())
    assert submitted.command == []


def test_a_folder_others_can_read_is_refused(tmp_path: Path) -> None:
    base_dir = tmp_path / "shared"
    base_dir.mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="could be read by others"), private.private_settings({}, base_dir):
        pass
    assert list(base_dir.iterdir()) == []


def test_what_a_killed_task_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "private"
    root.mkdir(mode=0o700)
    dead, fresh, alive = (root / name for name in ("999999999-a", "999999998-b", f"{os.getpid()}-c"))
    for folder in (dead, fresh, alive):
        folder.mkdir()
    os.utime(dead, (0, 0))
    os.utime(alive, (0, 0))
    with private.private_settings({"a": 1}, root) as path:
        assert json.loads(path.read_text()) == {"a": 1}
    assert {folder.name for folder in root.iterdir()} == {fresh.name, alive.name}


def write(folder: Path, payload: dict[str, Any]) -> Path:
    path = folder / private.SETTINGS_NAME
    path.write_text(json.dumps(payload))
    return path


@pytest.mark.parametrize(
    ("body", "status", "result"),
    [
        ("return {'rows': settings['n']}", 0, {"rows": 7}),
        ("return None", 0, {}),
        (
            "raise UnknownStateError('no answer', where='db')",
            3,
            {"error": {"error": "UnknownStateError", "what": "no answer", "where": "db", "todo": ""}},
        ),
    ],
)
def test_the_launcher_runs_the_application_and_deletes_the_settings(
    body: str, status: int, result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "fake"
    package.mkdir()
    (package / "cdc_fake_app.py").write_text(
        f"from airflow_cdc.core.errors import UnknownStateError\ndef main(settings):\n    {body}\n"
    )
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(importlib, "import_module", lambda _name: _fresh("cdc_fake_app"))
    path = write(tmp_path, {"n": 7})
    assert spark_main.main(["recover", "--settings", str(path)]) == status
    assert not path.exists()
    assert spark_main.read_result(path) == result


@pytest.mark.parametrize("needed", [True, False])
def test_the_launcher_tells_whether_a_session_was_made(
    needed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionOnDemand, "needed", needed)
    monkeypatch.setattr(importlib, "import_module", lambda _name: SimpleNamespace(main=lambda _settings: {}))
    path = write(tmp_path, {"n": 7})
    assert spark_main.main(["verify", "--settings", str(path)]) == 0
    assert spark_main.needed_session(path) is needed


def _fresh(name: str) -> Any:
    sys.modules.pop(name, None)
    return __import__(name)


def test_the_data_docs_are_linked_from_the_verification(submitted: Submitted) -> None:
    submitted.result = {"data_docs": "/r/index.html"}
    verify = operator(app="verify")
    verify.execute(context())
    assert shown(verify) == {"Data Docs": "file:///r/index.html"}
    assert operator(app="recover").operator_extra_links == ()


def test_reading_the_source_for_longer_than_the_policy_allows_ends_spark(
    submitted: Submitted, registry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.write_text(registry.read_text() + "    policy: {max_duration: 1s}\n")
    ended = threading.Event()
    monkeypatch.setattr(SparkSubmitHook, "on_kill", lambda _: ended.set())

    def submit(*_: Any, **__: Any) -> None:
        assert ended.wait(30), "nobody ended it"
        raise AirflowException("Error code is: -9")

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    with pytest.raises(DeadlineError, match=r"longer than policy\.max_duration \(1 s\).*Raise it in pipelines\.yaml"):
        operator().execute(context())


def test_only_reading_the_source_is_limited_so(submitted: Submitted, registry: Path) -> None:
    registry.write_text(registry.read_text() + "    policy: {max_duration: 1s}\n")
    ended: list[bool] = []
    with Deadline(None, lambda: ended.append(True)) as deadline:
        assert not deadline.passed
    with Deadline(60, lambda: ended.append(True)) as deadline:
        pass
    assert not deadline.passed
    assert ended == []
    assert operator(app="verify").execute(context()) == {"rows": 3}
