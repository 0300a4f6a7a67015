"""What the doctor says of each part: well, a warning, wrong, or not known; and one part that can't be read hides no other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import ConfigError, SourceError, UnknownStateError
from airflow_cdc.core.observation import ConnectorFacts, OtherCommit, SinkTableFacts, TaskState
from airflow_cdc.core.pipeline import NO_SINK, HoldPolicy, Policy, ThrottlePolicy
from airflow_cdc.core.ports import SourceLoad
from airflow_cdc.core.table import Table
from airflow_cdc.flows import doctor
from airflow_cdc.flows.run import Run
from tests.unit.flows.recovering import DEBEZIUM, recovering
from tests.unit.tables import column

KEYED = Table("shop", "customers", (column("id", "int"),), ("id",))
KEYLESS = Table("shop", "orders", (column("id", "int"),), ())


def states(part: Callable[[Run], Iterator[Check]], run: Run) -> dict[str, str]:
    """Name of the check → its state."""
    return {check.name: check.state for check in part(run)}


def run_of(config: dict[str, str] | None = None, *, sink: bool = True, policy: Policy | None = None) -> Run:
    """A run of a pipeline whose tables are KEYED and KEYLESS."""
    run = recovering()
    clients: Any = run.clients
    clients.source.definitions.side_effect = lambda names: {t.full_name: t for t in (KEYED, KEYLESS)}
    clients.connector.raw_config.return_value = {**DEBEZIUM, **(config or {})}
    pipeline = run.pipeline if sink else replace(run.pipeline, sink=NO_SINK)
    return replace(run, pipeline=replace(pipeline, policy=policy or Policy()))


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (UnknownStateError("no answer", where="MySQL db", todo="Start it."), "unknown"),
        (SourceError("access denied", where="MySQL db", todo="Start it."), "bad"),
        (ConfigError("no such setting", where="MySQL db", todo="Start it."), "bad"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_with_what_to_do(error: Exception, state: str) -> None:
    def check_lake(_run: Run) -> Iterator[Check]:
        raise error

    (check,) = doctor.guarded(check_lake, recovering())
    assert (check.subject, check.name, check.state, check.todo) == ("shop", "lake", state, "Start it.")
    assert check.found.endswith("(MySQL db)")


def test_a_part_that_cannot_be_read_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_run: Run) -> Iterator[Check]:
        raise UnknownStateError("no answer")

    def well(_run: Run) -> Iterator[Check]:
        yield Check("shop", "control", "ok", "epoch 4")

    monkeypatch.setattr(doctor, "_PARTS", (fails, well))
    assert [check.state for check in doctor.doctor_pipeline(recovering())] == ["unknown", "ok"]


@pytest.mark.parametrize(
    ("limit", "running", "state"), [(0, 900, None), (20, 20, "ok"), (20, 21, "warn")], ids=["no limit", "at it", "over"]
)
def test_a_source_that_is_busier_than_its_limit_is_a_warning_and_without_a_limit_it_is_not_asked(
    limit: int, running: int, state: str | None
) -> None:
    run = run_of(policy=Policy(throttle=ThrottlePolicy(threads_running=limit)))
    source: Any = run.clients.source
    source.load.return_value = SourceLoad(running=running)
    found = list(doctor.check_throttle(run))
    assert [(check.name, check.state) for check in found] == ([] if state is None else [("throttle", state)])
    assert [bool(check.todo) for check in found] == ([] if state is None else [state == "warn"])
    assert source.load.called is (state is not None)


@pytest.mark.parametrize(
    ("faults", "state"), [((), "ok"), (("log_replica_updates is OFF",), "warn"), (SourceError("no route"), "unknown")]
)
def test_a_replica_that_could_not_stand_in_is_named_before_it_is_needed(faults: Any, state: str) -> None:
    run = run_of()

    def standing_faults(conn_id: str) -> tuple[str, ...]:
        assert conn_id == "near"
        if isinstance(faults, Exception):
            raise faults
        return tuple(faults)

    near: Any = SimpleNamespace(replication=SimpleNamespace(standing_faults=standing_faults))
    (check,) = doctor.check_replicas(replace(run, clients=replace(run.clients, replicas={"near": near})))
    assert (check.name, check.state) == ("replica near", state)
    assert "no route" in check.found or bool(check.todo) is (state == "warn")


def test_tables_without_a_key_are_named() -> None:
    (check,) = doctor._tables(run_of())
    assert (check.name, check.state, check.found) == ("tables", "ok", "2 tables, without key: shop.orders")


def facts(state: str, *tasks: str) -> Any:
    return ConnectorFacts(state, tuple(TaskState(n, one) for n, one in enumerate(tasks)), {}, None, None, 0)


@pytest.mark.parametrize(
    ("state", "tasks", "told"),
    [
        ("RUNNING", ["RUNNING"], "ok"),
        ("RUNNING", ["RUNNING", "FAILED"], "warn"),
        ("STOPPED", [], "warn"),
        ("PAUSED", ["PAUSED"], "warn"),
        ("FAILED", ["FAILED"], "warn"),
    ],
)
def test_a_connector_that_does_not_run_is_a_warning_that_says_what_to_ask(
    state: str, tasks: list[str], told: str
) -> None:
    run = run_of()
    connector: Any = run.clients.connector
    connector.facts.return_value = facts(state, *tasks)
    check = next(one for one in doctor._connector(run) if one.name == "connector")
    assert (check.state, check.found, bool(check.todo)) == (told, f"shop {state}", told == "warn")


@pytest.mark.parametrize(
    ("config", "sink", "told"),
    [
        ({}, True, {"self-healing": "ok", "rows": "ok"}),
        ({"snapshot.mode": "when_needed"}, True, {"self-healing": "bad", "rows": "ok"}),
        ({"skipped.operations": "d"}, True, {"self-healing": "ok", "rows": "bad"}),
        ({"skipped.operations": "d"}, False, {"self-healing": "ok", "rows": "ok"}),
    ],
    ids=["well set", "heals itself", "leaves out deletes", "without a sink"],
)
def test_settings_that_hide_a_gap_are_wrong_and_those_that_leave_out_rows_where_rows_are_mirrored(
    config: dict[str, str], sink: bool, told: dict[str, str]
) -> None:
    run = run_of(config, sink=sink)
    connector: Any = run.clients.connector
    connector.facts.return_value = facts("RUNNING", "RUNNING")
    found = {check.name: check for check in doctor._connector(run)}
    assert {name: found[name].state for name in told} == told
    assert all(bool(found[name].todo) is (found[name].state == "bad") for name in told)


def test_topics_and_tables_that_are_not_there_yet_are_counted() -> None:
    """A new pipeline has none."""
    run = run_of()
    transport: Any = run.clients.transport
    transport.topic_states.side_effect = lambda names: {name: None for name in names if name.endswith("orders")}
    (check,) = doctor._transport(run)
    assert (check.state, check.found) == ("ok", "1 of 2 topics exist")
    sink: Any = run.clients.sink
    sink.facts.side_effect = lambda _namespace, name: SinkTableFacts(exists=name == "orders")
    (check,) = doctor._sink(run)
    assert (check.state, check.found) == ("ok", "1 of 2 tables exist")
    assert states(doctor._control, run) == {"control": "ok"}


def test_topics_that_no_setting_names_are_a_warning_and_no_end() -> None:
    run = run_of({"transforms": "r", "transforms.r.type": "com.example.Own"})
    (check,) = doctor._transport(run)
    assert (check.state, check.found.startswith("topics: unknown, because")) == ("warn", True)


def test_another_program_that_wrote_to_the_mirror_is_named() -> None:
    """The next recovery of the table replaces what it wrote."""
    run = run_of()
    sink: Any = run.clients.sink
    theirs = OtherCommit(77, 1.7e9, "spark")
    sink.facts.side_effect = lambda _namespace, name: SinkTableFacts(True, other=theirs if name == "orders" else None)
    check = list(doctor._sink(run))[1]
    assert (check.state, check.found) == ("warn", "another program wrote to shop.orders")
    assert "choose a new namespace" in check.todo


def test_a_pipeline_without_a_sink_says_what_it_is_for() -> None:
    run = run_of(sink=False)
    (check,) = doctor._sink(run)
    assert (check.state, check.found) == ("ok", "none: diagnosis, watch and offset moves only")
    sink: Any = run.clients.sink
    sink.facts.assert_not_called()


@pytest.mark.parametrize(
    ("pyspark", "client", "state"), [("4.1.0", "4.1.0", "ok"), ("4.1.0", "4.0.1", "bad"), (None, None, "bad")]
)
def test_two_wheels_that_write_one_folder_must_be_of_one_version(
    monkeypatch: pytest.MonkeyPatch, pyspark: str | None, client: str | None, state: str
) -> None:
    monkeypatch.setattr(doctor, "_version", {"pyspark": pyspark, "pyspark-client": client}.get)
    check = doctor._pyspark()
    assert (check.state, bool(check.todo)) == (state, state == "bad")


@pytest.mark.parametrize(
    ("says", "state"),
    [
        ('openjdk version "17.0.12" 2026-01-01', "ok"),
        ('openjdk version "21" 2026-01-01', "ok"),
        ('java version "11.0.2"', "bad"),
        ('java version "1.8.0_402"', "bad"),
        ("what?", "bad"),
        ("", "bad"),
    ],
)
def test_spark_needs_java_17(monkeypatch: pytest.MonkeyPatch, says: str, state: str) -> None:
    monkeypatch.setattr(doctor, "java_command", lambda: "java")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: SimpleNamespace(stderr=says))
    check = doctor._java()
    assert (check.state, bool(check.todo)) == (state, state == "bad")


def test_a_machine_without_java_or_spark_is_told_what_to_install_but_not_where_nothing_is_mirrored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "java_command", lambda: "")
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    found = {check.name: check for check in doctor.doctor_installation()}
    assert [(found[name].state, bool(found[name].todo)) for name in ("java", "spark-submit")] == [("bad", True)] * 2
    assert list(found) == ["pyspark", "java", "spark-submit"]
    assert doctor.doctor_installation(mirrors=False) == []


def test_every_part_that_a_recovery_will_need_is_asked() -> None:
    asked = {part.__name__.removeprefix("check").strip("_") for part in doctor._PARTS}
    assert asked == {
        *("source", "throttle", "replicas", "tables", "connector", "rows_in_events", "years", "carried"),
        *("events", "registry", "transport", "sink", "feeder", "stages", "topics", "control"),
    }


@pytest.mark.parametrize("mode", ["auto", "required", "off"])
@pytest.mark.parametrize("unreadable", ["", "its queue forgets what was read"])
def test_rights_are_asked_for_as_far_as_the_policy_and_the_systems_need_them(
    monkeypatch: pytest.MonkeyPatch, mode: Any, unreadable: str
) -> None:
    """A pipeline that no recovery can read for needs no right to read."""
    monkeypatch.setattr(doctor, "no_recovery", lambda _pipeline: unreadable)
    run = run_of(policy=Policy(hold=HoldPolicy(mode=mode)))
    source: Any = run.clients.source
    source.checks.return_value = iter([Check("shop", "rights", "ok", "all")])
    assert states(doctor.check_source, run) == {"rights": "ok"}
    source.checks.assert_called_once_with("shop", run.pipeline.source.tables, hold=mode != "off", unreadable=unreadable)


@pytest.mark.parametrize(
    ("settings", "allowed", "state"),
    [(None, True, "ok"), ({"a": "b"}, True, "warn"), ({"a": "b"}, False, "bad"), ({}, True, "bad")],
    ids=["no fault", "the recovery sets it", "it may not", "nothing to set"],
)
def test_a_null_that_arrives_as_a_default_is_wrong_unless_the_next_recovery_puts_it_right(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str] | None, allowed: bool, state: str
) -> None:
    fault = None if settings is None else SimpleNamespace(settings=settings, what="NULL arrives as 0", todo="Set it.")
    monkeypatch.setattr(doctor, "fault_of", lambda *_: fault)
    monkeypatch.setattr(doctor, "captured", lambda _run: {})
    (check,) = doctor._rows_in_events(run_of(policy=Policy(set_converter=allowed)))
    assert (check.name, check.state) == ("NULL in events", state)
    assert ("the next recovery sets it" in check.found) is (state == "warn")
    refused = run_of({"skipped.operations": "d"}, policy=Policy(set_converter=allowed))
    assert list(doctor._rows_in_events(refused)) == []


def test_rows_that_the_events_cannot_carry_are_named_with_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    look = SimpleNamespace(what="a year below 100", place="shop.customers.born", todo="Correct it.")
    monkeypatch.setattr(doctor, "captured", lambda _run: {KEYED.full_name: KEYED, KEYLESS.full_name: KEYLESS})
    monkeypatch.setattr(doctor, "asked_of", lambda *_: None)
    monkeypatch.setattr(doctor, "refusals", lambda *_: ())
    monkeypatch.setattr(doctor, "look_through", lambda *_: {KEYED.full_name: (look,)})
    found = [(check.state, check.found) for check in doctor._carried(run_of())]
    assert found == [
        ("bad", "a year below 100 (shop.customers.born)"),
        ("warn", "shop.orders is too large to be searched in a few seconds"),
    ]
