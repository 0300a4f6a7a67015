"""The DAGs: they load, they have the shape of a recovery, and a run of one goes as it must."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec, patch

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, CronDataIntervalTimetable

from airflow_cdc.core.errors import ConfigError, SourceError, UsageError
from airflow_cdc.core.pipeline import ApplySpec
from airflow_cdc.dags import _apply, _checks, _factory, _maintain, _recovery, _watch
from airflow_cdc.flows import checks, close, connector, decide, lease, publish, watermark
from airflow_cdc.flows import hold as holding
from airflow_cdc.flows import open as opening
from airflow_cdc.flows import replica as detour
from airflow_cdc.flows import reset_offset as offset
from airflow_cdc.operators import hold, report
from airflow_cdc.operators.base import CdcOperator, find_pipeline
from airflow_cdc.operators.repair import BackfillOperator, NightlyCheckOperator
from airflow_cdc.operators.spark import ApplyChangesOperator, MaintainOperator
from tests.unit.conftest import REGISTRY
from tests.unit.operator_support import decided

FOLDER = Path(_factory.__file__).parent
ALWAYS = {"cdc_recovery", "cdc_abandon", "cdc_repair"}
DAGS = {*ALWAYS, *(f"cdc_{kind}__shop" for kind in ("apply", "maintain", "nightly_consistency", "watch"))}

EDGES = {
    "diagnose": {"approve"},
    "approve": {"restart_connector", "open_recovery"},
    "restart_connector": {"ask_again"},
    "ask_again": {"report"},
    "open_recovery": {"ask_again", "stop_connector", "detour_connector", "return_connector"},
    "detour_connector": {"return_connector"},
    "return_connector": {"compare"},
    "compare": {"verdict"},
    "verdict": {"report"},
    "stop_connector": {"hold_binlog", "fence_and_watermark"},
    "hold_binlog": set(),
    "fence_and_watermark": {"recover"},
    "recover": {"reset_offset", "verify"},
    "reset_offset": {"resume_connector"},
    "resume_connector": {"publish", "release_hold"},
    "verify": {"publish"},
    "release_hold": set(),
    "publish": {"close"},
    "close": {"report"},
    "report": set(),
}


def schedule(dag: DAG) -> object:
    """As it was given. Airflow's types know neither a text nor None there."""
    return dag.schedule


def loaded(folder: Path = FOLDER) -> Any:
    """What Airflow's own loader makes of the folder."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=folder)


def test_the_folder_loads_without_an_import_error(airflow_db: Path, registry: Path) -> None:
    bag = loaded()
    assert bag.import_errors == {}
    assert set(bag.dags) == DAGS


def test_without_a_registry_there_is_nothing_to_apply_and_no_error(
    airflow_db: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__REGISTRY", str(tmp_path / "none.yaml"))
    bag = loaded()
    assert bag.import_errors == {}
    assert set(bag.dags) == ALWAYS


def test_a_bad_registry_is_one_import_error_that_names_it(airflow_db: Path, registry: Path) -> None:
    registry.write_text(REGISTRY.replace("namespace:", "name_space:"))
    bag = loaded()
    assert set(bag.dags) == ALWAYS
    ((file, error),) = bag.import_errors.items()
    assert file.endswith("cdc_registry.py")
    assert "pipelines.yaml, pipeline 'shop'" in error
    with pytest.raises(ConfigError, match="namespace"):
        _factory.check_each()


def test_a_bad_pipeline_takes_no_dag_of_another_away(airflow_db: Path, registry: Path) -> None:
    """Each wrong one is named in the one import error; its own DAGs are gone until it is corrected."""
    bank = REGISTRY.replace("pipelines:", "").replace("shop", "bank").replace("namespace:", "name_space:")
    twin = REGISTRY.replace("pipelines:", "").replace(
        "shop:", "twin:", 1
    )  # the sink tables and the connector are shop's
    registry.write_text(REGISTRY + bank + twin)
    bag = loaded()
    assert set(bag.dags) == DAGS
    (error,) = bag.import_errors.values()
    assert "pipeline 'bank'" in error
    assert "pipeline 'twin'" in error
    assert find_pipeline("shop").name == "shop"
    for name, fault in (("bank", r"sink.namespace is missing"), ("twin", "which pipeline 'shop' already has")):
        with pytest.raises(ConfigError, match=fault):
            find_pipeline(name)
    with pytest.raises(UsageError, match="there is no pipeline 'shpo'"):
        find_pipeline("shpo")


def test_a_file_in_which_no_pipeline_can_be_found_is_an_error_of_each_file(airflow_db: Path, registry: Path) -> None:
    registry.write_text("pipelines: [")
    bag = loaded()
    assert set(bag.dags) == ALWAYS
    assert all("is not YAML" in error for error in bag.import_errors.values())
    assert len(bag.import_errors) > 1


def test_the_stubs_show_the_same_dags(airflow_db: Path, registry: Path, tmp_path: Path) -> None:
    from airflow_cdc.cli.init import STUBS

    folder = tmp_path / "dags"
    folder.mkdir()
    for name, text in STUBS.items():
        (folder / name).write_text(text)
    bag = loaded(folder)
    assert bag.import_errors == {}
    assert set(bag.dags) == DAGS


def test_parsing_imports_nothing_heavy(registry: Path) -> None:
    """Neither clients of servers nor the steps that use them: only a task that runs needs those."""
    heavy = (
        "('pyspark', 'kafka', 'great_expectations', 'pandas', 'pymysql', 'airflow_cdc.flows', 'airflow_cdc.systems')"
    )
    kinds = ", ".join(f"airflow_cdc.dags._{kind}" for kind in ("apply", "checks", "maintain", "recovery", "watch"))
    script = f"import sys, {kinds}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"


def test_shape_of_the_recovery(registry: Path) -> None:
    dag = _recovery.recovery_dag()
    assert {task.task_id: set(task.downstream_task_ids) for task in dag.tasks} == EDGES
    assert {task.task_id for task in dag.tasks if task.is_teardown} == {"release_hold", "report"}
    assert not [task.task_id for task in dag.tasks if task.retries]
    assert schedule(dag) is None
    # "all_skipped": where a plan is carried out, Airflow skips it without a process of its own
    assert {task.task_id for task in dag.tasks if task.trigger_rule == "all_skipped"} == AGAIN


def test_what_airflow_tries_again_by_itself_a_recovery_does_too(registry: Path) -> None:
    """`[core] default_task_retries`: a task whose worker was lost then goes on without a person."""
    script = (
        "from airflow_cdc.dags import _abandon, _checks, _recovery;"
        "dags = (_recovery.recovery_dag(), _checks.repair_dag(), _abandon.abandon_dag());"
        "print({task.task_id for dag in dags for task in dag.tasks if task.retries != 3})"
    )
    env = {**os.environ, "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip().splitlines()[-1] == "set()"


OWN = REGISTRY + "    airflow: {own_dags: true, queue: team-a, retries: 2, timeout: 1h, pool: shop}\n"


def test_a_pipeline_with_dags_of_its_own_is_in_no_form_of_the_others(airflow_db: Path, registry: Path) -> None:
    registry.write_text(OWN)
    bag = loaded()
    assert bag.import_errors == {}
    own = {f"{dag_id}__shop" for dag_id in ALWAYS}
    assert set(bag.dags) == DAGS | own
    for dag_id in ALWAYS:
        shared, mine = bag.dags[dag_id], bag.dags[f"{dag_id}__shop"]
        assert shared.params.get_param("pipeline").serialize()["schema"]["examples"] == []
        assert mine.params.get_param("pipeline").serialize()["schema"]["enum"] == ["shop"]
        assert {task.task_id for task in shared.tasks} == {task.task_id for task in mine.tasks}
        assert {getattr(task, "pipeline", "shop") for task in mine.tasks} == {"shop"}
        # where it runs is the pipeline's; how often it is tried, and for how long, is the recovery's own
        assert {(task.queue, task.pool, task.retries, task.execution_timeout) for task in mine.tasks} == {
            ("team-a", "shop", 0, None)
        }
    trigger = bag.dags["cdc_watch__shop"].get_task("recover")
    assert trigger.trigger_dag_id == "cdc_recovery__shop"


def test_form_of_the_recovery(registry: Path) -> None:
    form = {
        name: _recovery.recovery_dag().params.get_param(name).serialize() for name in _recovery.recovery_params(None)
    }
    assert form["pipeline"]["schema"]["examples"] == ["shop"]
    assert {"auto", "full_snapshot"} <= set(form["strategy"]["schema"]["enum"])
    explained = [field.get("description") or field["schema"].get("description_md") for field in form.values()]
    assert all(explained), form
    assert all(strategy in explained[1] for strategy in form["strategy"]["schema"]["enum"])
    assert (form["strategy"]["value"], form["tables"]["value"], form["approved"]["value"]) == ("auto", [], False)


def test_an_apply_dag_runs_one_at_a_time_by_schedule(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__APPLY_SCHEDULE", "*/5 * * * *")
    (dag,) = _apply.apply_dags().values()
    assert (dag.dag_id, dag.max_active_runs, dag.catchup, schedule(dag)) == ("cdc_apply__shop", 1, False, "*/5 * * * *")
    (task,) = dag.tasks
    assert isinstance(task, ApplyChangesOperator)
    assert (task.app, task.pipeline) == ("apply_changes", "shop")


@pytest.mark.parametrize(("schedules", "expected"), [("*/5 * * * *", "@continuous"), ("none", None)])
def test_a_continuous_pipelines_next_run_begins_when_the_last_one_ends(
    registry: Path, monkeypatch: pytest.MonkeyPatch, schedules: str, expected: str | None
) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__APPLY_SCHEDULE", schedules)
    pipeline = replace(_factory.registered()["shop"], apply=ApplySpec("continuous"))
    dag = _apply.apply_dag(pipeline)
    assert (schedule(dag), dag.max_active_runs) == (expected, 1)


def test_tidying_up_is_one_task_by_schedule(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__MAINTAIN_SCHEDULE", "0 5 * * 0")
    (dag,) = _maintain.maintain_dags().values()
    assert (dag.dag_id, dag.max_active_runs, dag.catchup, schedule(dag)) == (
        "cdc_maintain__shop",
        1,
        False,
        "0 5 * * 0",
    )
    (task,) = dag.tasks
    assert isinstance(task, MaintainOperator)
    assert (task.app, task.pipeline) == ("maintain", "shop")


def test_watching_is_one_deferred_task_before_one_recovery(registry: Path, connections: dict[str, str]) -> None:
    dag = _watch.watch_dags()["cdc_watch__shop"]
    assert (dag.dag_id, dag.max_active_runs, dag.catchup) == ("cdc_watch__shop", 1, False)
    assert {task.task_id: task.downstream_task_ids for task in dag.tasks} == {"watch": {"recover"}, "recover": set()}
    recover = dag.get_task("recover")
    assert isinstance(recover, TriggerDagRunOperator)
    assert recover.trigger_dag_id == "cdc_recovery"
    assert recover.skip_when_already_exists
    assert "['recovery_run_id']" in recover.trigger_run_id


MEND = {
    "compare": {"approve"},
    "approve": {"repair"},
    "repair": {"verdict"},
    "verdict": {"announce"},
    "announce": set(),
}


def test_a_night_compares_asks_repairs_and_has_the_last_word(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CDC__NIGHTLY_SCHEDULE", "30 1 * * *")
    (dag,) = _checks.nightly_dags().values()
    assert {task.task_id: set(task.downstream_task_ids) for task in dag.tasks} == MEND
    assert (schedule(dag), dag.catchup, dag.max_active_runs) == ("30 1 * * *", False, 1)
    assert [task.task_id for task in dag.tasks if task.is_teardown] == ["verdict", "announce"]
    assert {task.task_id: set(task.downstream_task_ids) for task in _checks.repair_dag().tasks} == MEND
    monkeypatch.setenv("AIRFLOW__CDC__NIGHTLY_SCHEDULE", "none")
    (dag,) = _checks.nightly_dags().values()
    assert schedule(dag) is None


def test_tables_that_consumers_write_from_the_topics_are_compared_each_night_and_nobody_s_are_not(
    registry: Path,
) -> None:
    registry.write_text(
        f"{REGISTRY.partition('    sink:')[0]}    sink: {{kind: topics}}\n    control: {{kind: sql, conn_id: c}}\n"
    )
    assert list(_checks.nightly_dags()) == ["cdc_nightly_consistency__shop"]
    registry.write_text(registry.read_text().replace("kind: topics", "kind: none"))
    assert _checks.nightly_dags() == {}


def test_a_backfill_has_an_interval_of_a_day(registry: Path) -> None:
    assert _checks.backfill_dags() == {}
    registry.write_text(REGISTRY.rstrip() + "\n    backfill: {table: shop.orders, by: created_at}\n")
    (dag,) = _checks.backfill_dags().values()
    assert (dag.dag_id, dag.catchup) == ("cdc_backfill__shop", False)
    assert isinstance(dag.timetable, CronDataIntervalTimetable)
    assert "cdc_backfill__shop" in loaded().dags


def test_execute_of_an_operator_stays_short() -> None:
    import inspect

    dags = (_recovery.recovery_dag(), _checks.repair_dag())
    for cls in {type(task) for dag in dags for task in dag.tasks} | {NightlyCheckOperator, BackfillOperator}:
        if cls.__module__.startswith("airflow_cdc") and "execute" in vars(cls):
            assert len(inspect.getsource(vars(cls)["execute"]).splitlines()) <= 25, cls
    assert len(inspect.getsource(CdcOperator.execute).splitlines()) <= 25


# the tasks of strategies that read no table
BESIDE = {"restart_connector", "detour_connector", "return_connector", "compare", "verdict"}
# and the one that only a plan leads to that changed while a person was asked
AGAIN = {"ask_again"}

# ---- whole runs ------------------------------------------------------------------------------------

# such a run starts Airflow's API server in this process, whose libraries warn about each other
in_process = pytest.mark.filterwarnings("default")

FLOWS: dict[str, tuple[Any, str]] = {
    "diagnose": (decide, "decide"),
    "open_recovery": (opening, "open_recovery"),
    "restart_connector": (connector, "restart"),
    "stop_connector": (connector, "stop"),
    "detour_connector": (detour, "detour"),
    "return_connector": (detour, "return_to_source"),
    "verdict": (checks, "conclude"),
    "hold_binlog": (holding, "hold"),
    "fence_and_watermark": (watermark, "fence_and_watermark"),
    "reset_offset": (offset, "reset_offset"),
    "resume_connector": (connector, "resume"),
    "publish": (publish, "publish"),
    "close": (close, "close"),
}


@pytest.fixture
def flows(connections: dict[str, str], registry: Path, airflow_db: Path) -> Iterator[dict[str, Any]]:
    """Every step of `flows` and spark-submit, autospecced; by the task that calls it."""
    with ExitStack() as stack:
        made = {}
        for task, (module, name) in FLOWS.items():
            made[task] = create_autospec(getattr(module, name), return_value={"done": task})
            stack.enter_context(patch.object(module, name, made[task]))
        made["report"] = create_autospec(report.ReportOperator.step, return_value={"page": "/r/report.html"})
        stack.enter_context(patch.object(report.ReportOperator, "step", made["report"]))
        made["release_hold"] = create_autospec(hold.ReleaseHold.step, return_value={"released": True})
        stack.enter_context(patch.object(hold.ReleaseHold, "step", made["release_hold"]))
        made["spark"] = create_autospec(SparkSubmitHook.submit, return_value=None)
        stack.enter_context(patch.object(SparkSubmitHook, "submit", made["spark"]))
        stack.enter_context(patch.object(lease, "free_dead", autospec=True))  # no control store is there
        made["diagnose"].return_value = decided()
        yield made


def run_here(dag: DAG, **conf: Any) -> tuple[str, dict[str, str]]:
    """Run a DAG to its end in this process → its state, and each task's."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        run = dag.test(run_conf=conf)
    finally:  # Airflow's task runner leaves its own handler behind, after which these tests could not be ended any more
        signal.signal(signal.SIGTERM, before)
    return str(run.state), {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def ran(pipeline: str = "shop") -> tuple[str, dict[str, str]]:
    """Run cdc_recovery."""
    return run_here(_recovery.recovery_dag(), pipeline=pipeline)


@in_process
def test_a_whole_recovery(flows: dict[str, Any]) -> None:
    ended_by = signal.getsignal(signal.SIGTERM)
    state, tasks = ran()
    assert signal.getsignal(signal.SIGTERM) is ended_by
    assert state == "success"
    assert tasks == {**dict.fromkeys(EDGES, "success"), **dict.fromkeys(BESIDE | AGAIN, "skipped")}
    called = {task: flow.call_count for task, flow in flows.items()}
    assert called == {**dict.fromkeys(flows, 1), **dict.fromkeys(BESIDE & set(flows), 0), "spark": 2}


def ended_well(flows: dict[str, Any], problem: str, strategy: str) -> dict[str, str]:
    """A run that succeeds, of a plan; the state of each task."""
    flows["diagnose"].return_value = decided(problem, strategy=strategy)
    state, tasks = ran()
    assert state == "success"
    return tasks


@in_process
def test_a_healthy_pipeline_is_left_alone(flows: dict[str, Any]) -> None:
    tasks = ended_well(flows, "HEALTHY", "none")
    assert tasks == {**dict.fromkeys(EDGES, "skipped"), "diagnose": "success"}
    assert sum(flow.call_count for flow in flows.values()) == 1


@in_process
def test_a_restart_opens_no_recovery(flows: dict[str, Any]) -> None:
    tasks = ended_well(flows, "CONNECTOR_FAILED", "restart")
    done = {task for task, state in tasks.items() if state == "success"}
    assert done == {"diagnose", "approve", "restart_connector", "report"}


@in_process
def test_a_detour_reads_no_table_and_compares_them_all(flows: dict[str, Any]) -> None:
    tasks = ended_well(flows, "GTID_PURGED", "replica_detour")
    done = {task for task, state in tasks.items() if state == "success"}
    assert done == {"diagnose", "approve", "open_recovery", *BESIDE - {"restart_connector"}, "report"}
    assert {task for task, state in tasks.items() if state != "success"} == set(EDGES) - done


@in_process
def test_after_a_failover_only_the_position_is_written(flows: dict[str, Any]) -> None:
    tasks = ended_well(flows, "SOURCE_FAILED_OVER", "translate_gtid")
    done = {task for task, state in tasks.items() if state == "success"}
    assert done == {"diagnose", "approve", "open_recovery", "return_connector", "compare", "verdict", "report"}


@in_process
def test_a_failed_detour_goes_no_further(flows: dict[str, Any]) -> None:
    flows["diagnose"].return_value = decided("GTID_PURGED", strategy="replica_detour")
    flows["detour_connector"].side_effect = SourceError("the replica is gone")
    state, tasks = ran()
    assert (state, tasks["detour_connector"], tasks["report"]) == ("failed", "failed", "success")
    assert [tasks[task] for task in ("return_connector", "compare", "verdict")] == ["upstream_failed"] * 3


@in_process
def test_a_failed_step_leaves_the_connector_stopped_and_is_reported(flows: dict[str, Any]) -> None:
    flows["reset_offset"].side_effect = SourceError("W is gone")
    state, tasks = ran()
    assert state == "failed"
    assert tasks["reset_offset"] == "failed"
    assert (tasks["resume_connector"], tasks["publish"], tasks["close"]) == ("upstream_failed",) * 3
    assert (tasks["release_hold"], tasks["report"], tasks["ask_again"]) == ("success", "success", "skipped")
    assert [flows[task].call_count for task in ("resume_connector", "publish", "close")] == [0, 0, 0]


@in_process
def test_an_unknown_pipeline_fails_in_the_first_task_only(flows: dict[str, Any]) -> None:
    state, tasks = ran("shops")
    assert state == "failed"
    assert tasks["diagnose"] == "failed"
    assert {task for task, state in tasks.items() if state == "failed"} == {"diagnose"}
    assert sum(flow.call_count for flow in flows.values()) == 0


# ---- what pipelines.yaml says of Airflow ----------------------------------------------------------------------------

AIRFLOW = (
    "    airflow: {pool: cdc_shop, pool_slots: 2, queue: heavy, executor: CeleryExecutor, timeout: 2h, retries: 1,"
    " pod_template: /pods/cdc.yaml}\n"
    "    owner: data\n"
    "    tags: [gold, cdc]\n"
)


def own_dags() -> list[DAG]:
    (pipeline,) = _factory.registered().values()
    makers = (_apply.apply_dag, _maintain.maintain_dag, _checks.nightly_dag, _checks.backfill_dag, _watch.watch_dag)
    return [make(pipeline) for make in makers]


def test_the_tasks_of_a_pipeline_run_as_its_owner_says(registry: Path) -> None:
    registry.write_text(REGISTRY + AIRFLOW)
    for dag in own_dags():
        assert set(dag.tags) == {"cdc", "shop", "gold"}
        for task in dag.tasks:
            where = (task.pool, task.pool_slots, task.queue, task.executor, task.owner)
            assert where == ("cdc_shop", 2, "heavy", "CeleryExecutor", "data"), task.task_id
            assert task.executor_config == {"pod_template_file": "/pods/cdc.yaml"}
            asks = isinstance(task, ApprovalOperator)  # a person may take longer: policy.approval_timeout
            assert task.execution_timeout == (None if asks else timedelta(hours=2))
            assert task.retries == (_watch.RETRIES_OF_WATCH if task.task_id == _watch.WATCH_TASK else 1)


def test_without_a_word_they_run_as_airflow_does(registry: Path) -> None:
    for dag in own_dags():
        assert set(dag.tags) == {"cdc", "shop"}
        for task in dag.tasks:
            assert (task.pool, task.pool_slots, task.queue, task.executor) == ("default_pool", 1, "default", None)
            assert (task.execution_timeout, task.owner, task.executor_config) == (None, "airflow", {})


def test_another_pool_ends_no_recovery(registry: Path) -> None:
    (before,) = _factory.registered().values()
    registry.write_text(REGISTRY + AIRFLOW)
    (after,) = _factory.registered().values()
    assert after.hash == before.hash


def test_a_task_without_a_slot_would_never_run(registry: Path) -> None:
    registry.write_text(REGISTRY + "    airflow: {pool_slots: 0}\n")
    with pytest.raises(ConfigError, match=r"airflow pool_slots is 0.*Write 1 or more"):
        _factory.check_each()
