"""What a run was asked for and what its steps tell and keep: each option, each fact, each field of a check's report."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_cdc.control.ledger import CheckedTable, LedgerEntry, StepEntry
from airflow_cdc.core.errors import CdcError, ConfigError, DeadlineError, SchemaError, UnknownStateError
from airflow_cdc.core.observation import SinkTableFacts
from airflow_cdc.core.pipeline import Policy, ThrottlePolicy
from airflow_cdc.core.recovery import HistoryDoubts, OpenRecovery
from airflow_cdc.core.report import RecoveryReport
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.flows import checks, close, connector, doctor, feeder, observe, replica, side_by_side, watch
from airflow_cdc.flows.recoverable import Refusals
from airflow_cdc.flows.run import NO_OPTIONS, Run, RunOptions
from airflow_cdc.reports.store import ReportStore
from airflow_cdc.reports.stored import BACKFILL, CHECK, REPAIR
from tests.unit.builders import HEALTHY, WATERMARK, seen
from tests.unit.clocks import waiting
from tests.unit.core.test_report import BAD, TABLE
from tests.unit.faults import PURGED
from tests.unit.flows.recovering import NAME, READ, recovering

# --- options -----------------------------------------------------------------------------------------------------------------

ASKED: dict[str, tuple[dict[str, Any], Any]] = {
    "tables": ({"tables": ["a.b", "a.c"]}, ("a.b", "a.c")),
    "strategy": ({"strategy": "full_snapshot"}, "full_snapshot"),
    "note": ({"note": "after the move"}, "after the move"),
    "approved": ({"approved": True}, True),
    "deletes": ({"deletes": {"a.b": "7"}}, {"a.b": 7}),
    "replay": ({"replay": True}, True),
    "dry_run": ({"dry_run": True}, True),
    "interval": ({"from": "2026-01-01", "to": "2026-01-02"}, ("2026-01-01", "2026-01-02")),
    "started_by": ({"started_by": "ann"}, "ann"),
}


@pytest.mark.parametrize("option", [field.name for field in fields(RunOptions)])
def test_each_option_of_a_run_is_read_by_its_name_and_sets_no_other(option: str) -> None:
    said, value = ASKED[option]
    assert RunOptions.from_json(said) == replace(NO_OPTIONS, **{option: value})


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        {"of a later version": 1},
        {"from": "2026-01-01"},
        {"to": "2026-01-02"},
        dict.fromkeys(("tables", "strategy", "note", "approved", "deletes", "replay", "dry_run", "started_by")),
    ],
    ids=str,
)
def test_what_is_not_asked_for_is_as_if_nothing_was(said: dict[str, Any] | None) -> None:
    """Half an interval is none; Airflow's form sends null for a field that was left empty."""
    assert RunOptions.from_json(said) == NO_OPTIONS == RunOptions()


# --- a check's report ----------------------------------------------------------------------------------------------------------

EQUAL = replace(TABLE, table=NAME)
PART = CheckedTable(EQUAL, "leaf 3")


def checking(tmp_path: Path, **checked: CheckedTable) -> Run:
    run = replace(recovering(), report_dir=str(tmp_path), options=RunOptions(started_by="ann"))
    control: Any = run.clients.control
    step = StepEntry("compare", "2026-01-01T00:00:00.000+00:00", 2.0, "done")
    control.entry.return_value = LedgerEntry(steps=(step,), checked=checked, approved="bob")
    control.ledger_get.return_value = {"check": {name: {"compared": one.part} for name, one in checked.items()}}
    control.facts.return_value = SimpleNamespace(epoch=4)
    return run


def stored(tmp_path: Path) -> RecoveryReport:
    (file,) = tmp_path.rglob("report.json")
    return RecoveryReport.from_json(file.read_text())


@pytest.mark.parametrize(
    ("kind", "table", "problem", "strategy"),
    [
        (CHECK, EQUAL, "HEALTHY", "none"),
        (CHECK, replace(BAD, table=NAME), "SINK_DIFFERS", "none"),
        (REPAIR, EQUAL, "SINK_DIFFERS", "diff_repair"),
        (REPAIR, replace(BAD, table=NAME), "SINK_DIFFERS", "diff_repair"),
    ],
    ids=["equal", "different", "repaired", "not repaired"],
)
def test_a_checks_report_says_what_was_found_in_which_epoch_and_who_asked(
    tmp_path: Path, kind: str, table: Any, problem: str, strategy: str
) -> None:
    run = checking(tmp_path)
    told = checks.report_check(run, {NAME: table}, evidence={NAME: "seen"}, kind=kind)
    report = stored(tmp_path)
    assert told["verdict"] == str(table.verdict)
    assert (report.pipeline, report.run_id, report.problem, report.strategy) == ("shop", "r", problem, strategy)
    assert (report.tables, report.epoch, report.evidence) == ((table,), 4, {NAME: "seen"})
    assert (report.data_loss, report.watermark, report.offset_before, report.offset_after) == ("nothing", *[None] * 3)
    assert [step.name for step in report.steps] == ["compare"]
    assert (report.started_by, report.approved, report.began) == ("ann", "bob", "2026-01-01T00:00:00.000+00:00")
    assert report.ended


@pytest.mark.parametrize(
    ("kind", "before", "now", "equal"),
    [
        (CHECK, None, True, True),
        (CHECK, CheckedTable(EQUAL), False, True),
        (CHECK, PART, True, False),
        (CHECK, PART, False, False),
        (REPAIR, PART, True, True),
        (REPAIR, PART, False, False),
        (BACKFILL, CheckedTable(EQUAL), True, False),
    ],
    ids=["whole", "whole before", "a part", "a part before", "repaired", "not yet", "an interval"],
)
def test_a_table_is_proven_equal_where_all_of_it_was_compared(
    tmp_path: Path, kind: str, before: CheckedTable | None, now: bool, equal: bool
) -> None:
    """A repair compares whole tables, a night may compare a part, and a backfill only its interval."""
    run = checking(tmp_path, **({NAME: before} if before else {}))
    found = checks._equal({NAME: EQUAL}, frozenset({NAME} if now else ()), run.clients.control.entry("r"), kind)
    assert found == ({NAME} if equal else set())


# --- the recovery's document ---------------------------------------------------------------------------------------------------


def test_a_closed_recovery_is_kept_beside_its_report_and_not_in_the_ledger(tmp_path: Path) -> None:
    run = replace(recovering(), report_dir=str(tmp_path))
    close.keep_document(run, READ)
    assert close.kept_document(run) == READ.to_json()
    control: Any = run.clients.control
    control.ledger_set.assert_not_called()


def test_where_the_folder_cannot_be_written_a_closed_recovery_is_kept_in_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A finished recovery must be able to close, and its report is written from what is kept."""

    def refuse(*_: Any) -> str:
        raise ConfigError("read-only")

    monkeypatch.setattr(ReportStore, "write", refuse)
    run = recovering()
    close.keep_document(run, READ)
    control: Any = run.clients.control
    control.ledger_set.assert_called_once_with("r", "document", READ.to_json())


# --- all that forbids a recovery -----------------------------------------------------------------------------------------------

A, B, C = "shop.a", "shop.b", "shop.c"
ODD, OTHER = SchemaError("odd.", where="w", todo="Mend it."), SchemaError("odder", todo="Mend it.")
SET = ConfigError("a setting", where="v", todo="Set it.")


def ended(found: Refusals) -> CdcError:
    with pytest.raises((SchemaError, ConfigError)) as caught:
        found.end(recovering(), [A, B, C])
    return caught.value


def found_in(*faults: tuple[SchemaError | ConfigError, str]) -> Refusals:
    found = Refusals()
    for error, table in faults:
        found.add(type(error)(error.what, where=error.where, todo=error.todo), table)
    return found


def test_one_fault_of_several_tables_is_said_once_and_the_way_on_leaves_all_of_them_out() -> None:
    error = ended(found_in((ODD, A), (ODD, B)))
    assert (error.what, error.where) == ("odd.", "w")
    assert error.todo == "Mend it. To continue with the others now, run: airflow cdc recover shop --table shop.c"


def test_faults_that_differ_in_their_place_or_remedy_are_two() -> None:
    elsewhere, otherwise = (SchemaError("odd.", where=w, todo=t) for w, t in (("x", "Mend it."), ("w", "Leave it.")))
    assert ended(found_in((ODD, A), (elsewhere, A), (otherwise, A))).what.startswith("3 things forbid")


def test_several_faults_are_numbered_with_their_places_and_what_helps_against_two_is_said_once() -> None:
    error = ended(found_in((ODD, A), (OTHER, B), (SET, B)))
    assert error.what == "3 things forbid to read these tables: (1) odd (w); (2) odder; (3) a setting (v)"
    assert error.todo == (
        "(1, 2) Mend it. (3) Set it. To continue with the others now, run: airflow cdc recover shop --table shop.c"
    )
    assert error.where == recovering().where


@pytest.mark.parametrize(
    ("faults", "kind"),
    [(((ODD, A), (OTHER, B)), SchemaError), (((ODD, A), (SET, B)), ConfigError), (((SET, A), (ODD, B)), ConfigError)],
    ids=["of tables", "a setting last", "a setting first"],
)
def test_it_is_a_fault_of_the_tables_only_if_all_of_it_is(faults: Any, kind: type[CdcError]) -> None:
    assert type(ended(found_in(*faults))) is kind


def test_a_fault_of_all_tables_leaves_no_others_to_go_on_with() -> None:
    assert "To continue" not in ended(found_in((ODD, A), (SET, ""))).todo
    assert "To continue" not in ended(found_in((SET, ""), (SET, ""))).todo


def test_what_is_not_refused_ends_nothing() -> None:
    found = Refusals()
    assert found.trying(lambda: 7) == 7
    found.end(recovering(), [A])

    def refuse() -> int:
        raise SchemaError("odd.", where="w", todo="Mend it.")

    assert found.trying(refuse) is None
    assert ended(found).todo == "Mend it."


# --- starting a connector ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "rebuilt", "asked"),
    [(True, False, True), (False, False, False), (True, True, False), (False, True, False)],
)
def test_inv_12_only_a_kept_offset_with_kept_definitions_leaves_changes_for_the_connector_to_read(
    monkeypatch: pytest.MonkeyPatch, kept: bool, rebuilt: bool, asked: bool
) -> None:
    history = HistoryDoubts({NAME: ("x",)} if rebuilt else {})
    recovery = replace(READ, offset_kept=kept, history=history, written={"pos": 4}, written_at="t", resuming="half")
    run = recovering(recovery)
    client: Any = run.clients.connector
    client.rebuilding.return_value = {"snapshot.mode": "recovery"}
    done: list[Any] = []

    def noted(what: str, answer: Any = None) -> Any:
        def act(*args: Any, **_: Any) -> Any:
            done.append((what, args[1:]))
            return answer

        return act

    for name in ("_has_read_changes", "history_rebuilt", "from_the_start_again", "set_converter", "change_settings"):
        monkeypatch.setattr(connector, name, noted(name))
    for name, answer in (("failures", ()), ("moved_since", False), ("_doubted_since", 5), ("wait_reading", "its log")):
        monkeypatch.setattr(connector, name, noted(name, answer))
    monkeypatch.setattr(connector, "settings", lambda _run: SimpleNamespace(quickened={"heartbeat": "1"}))
    monkeypatch.setattr(connector, "_streaming", noted("_streaming", {"pos": 9}))
    assert connector._resumed(run, recovery, WATERMARK) == {
        "connector": "shop",
        "state": "RUNNING",
        "history_rebuilt": rebuilt,
        "offset": {"pos": 9},
        "shown_by": "its log",
    }
    names = [name for name, _ in done]
    assert ("_has_read_changes" in names, "history_rebuilt" in names, "from_the_start_again" in names) == (
        asked,
        rebuilt,
        rebuilt,
    )
    mode = {"snapshot.mode": "recovery"} if rebuilt else {}
    assert dict(done)["change_settings"] == ({"heartbeat": "1", **mode},)
    assert dict(done)["wait_reading"] == ({"pos": 4},)
    after = run.clients.control.recovery(None)  # type: ignore[arg-type]
    assert after is not None
    assert (bool(after.resumed_at), after.resuming, after.history.differences) == (True, "", {})


def test_a_connector_has_as_long_to_start_at_a_replica_as_at_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    run = recovering(OpenRecovery("r", epoch=4, tables=(NAME,), strategy="replica_detour"))
    order: list[str] = []
    there: Any = SimpleNamespace(executed=lambda: None, from_the_oldest=lambda start: start)
    known: dict[str, Any] = {
        "backup": SimpleNamespace(key={}), "_replica": ("near", there), "replication": there, "own_transactions": set(),
        "_own": set(), "start_there": None, "_read_set": None, "_history_size": 3,
        "_write_set": None, "_point_at": None,
    }  # fmt: skip

    def noted(what: str, answer: Any) -> Any:
        def act(*_: Any, **__: Any) -> Any:
            order.append(what)
            return answer

        return act

    for name, answer in known.items():
        monkeypatch.setattr(replica, name, noted(name, answer))
    monkeypatch.setattr(connector, "change_settings", lambda *_: order.append("settings"))
    monkeypatch.setattr(replica, "settings", lambda _run: SimpleNamespace(quickened={}))
    replica._start_at_replica(run)
    client: Any = run.clients.connector
    assert client.wait_running.call_args.kwargs == {"timeout": connector.RUNNING_SECONDS}
    assert client.stop.call_args.kwargs == {"timeout": connector.STOP_SECONDS}
    assert order[-3:] == ["_write_set", "settings", "_point_at"]


# --- a watch -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("automatic", [True, False])
def test_a_watch_tells_what_its_alert_and_its_recovery_are_named_by(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, automatic: bool
) -> None:
    run = replace(recovering(), report_dir=str(tmp_path))
    run = replace(run, pipeline=replace(run.pipeline, policy=Policy(recover_automatically=automatic)))
    control: Any = run.clients.control
    control.ledger_get.return_value = {}
    monkeypatch.setattr(watch, "observe", lambda _run, within: seen(source=PURGED))
    told = watch.tell(run, at="2026-11-23T09:00:00+00:00")
    recovery = "watch__shop__gtid_purged_e3__20261123T090000" if automatic else ""
    assert (told["pipeline"], told["outage"], told["recover"]) == ("shop", "gtid_purged_e3", automatic)
    assert told["recovery_run_id"] == recovery
    assert [alert["dedup_key"] for alert in told["alerts"]] == ["shop:GTID_PURGED:3"]
    assert (told["diagnosis"]["code"], told["plan"]["strategy"]) == ("GTID_PURGED", "full_snapshot")
    kept = watch.carried_log(told)
    assert [(one.code, one.recovery) for one in kept.outages] == [("GTID_PURGED", recovery)]
    control.ledger_set.assert_called_once_with(watch.LEDGER, watch.LOG_KEY, told["outages"])


def test_a_watch_of_a_healthy_pipeline_names_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = replace(recovering(), report_dir=str(tmp_path))
    control: Any = run.clients.control
    control.ledger_get.return_value = {}
    monkeypatch.setattr(watch, "observe", lambda _run, within: HEALTHY)
    told = watch.tell(run, at="2026-11-23T09:00:00+00:00")
    assert [told[key] for key in ("outage", "alerts", "recover", "recovery_run_id")] == ["", [], False, ""]
    assert told["diagnosis"]["code"] == "HEALTHY"


# --- small steps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "stands"), [(None, 9.0), (0.6, 0.6), (0.0, 0.0)])
def test_a_wait_for_a_sink_connector_stands_still_for_as_long_as_is_said_or_else_as_the_policy_allows(
    monkeypatch: pytest.MonkeyPatch, given: float | None, stands: float
) -> None:
    clock = waiting(monkeypatch, feeder)
    run = recovering()
    run = replace(run, pipeline=replace(run.pipeline, policy=replace(run.pipeline.policy, standstill=9)))
    stuck: Any = SimpleNamespace(
        name="copy", settings=dict, group=lambda _settings: "g", state=lambda: SimpleNamespace(failures=())
    )
    monkeypatch.setattr(feeder, "filling", lambda _run: stuck)
    monkeypatch.setattr(feeder, "_left", lambda *_: [("t/0", 3)])
    with pytest.raises(DeadlineError, match="t/0: 3 left"):
        feeder.wait_filled(run, {"t": {0: 3}}, standstill=given)
    assert stands <= clock.now < stands + 1


def test_without_consumer_groups_nobody_knows_how_far_a_sink_connector_has_read() -> None:
    run = recovering()
    transport: Any = run.clients.transport
    transport.groups, transport.where = None, "rabbit:5672"
    with pytest.raises(ConfigError, match="rabbit:5672 has no consumer groups") as caught:
        feeder._groups(run)
    assert (caught.value.where, caught.value.todo) == (run.where, "Use a transport that has them.")
    with pytest.raises(ConfigError, match="no sink connector fills this sink"):
        feeder.filling(run)


STAMP = Stamp(3)


@pytest.mark.parametrize(
    ("facts", "staging", "stamp"),
    [
        (SinkTableFacts(exists=True, head=7), True, STAMP),
        (SinkTableFacts(exists=True, head=7, stamp=Stamp(9)), True, Stamp(9)),
        (SinkTableFacts(exists=False), True, None),
        (SinkTableFacts(exists=True, head=7), False, None),
    ],
    ids=["expired", "its own", "no table", "a sink without stages"],
)
def test_a_table_whose_stamped_snapshot_expired_has_the_control_tables_copy(
    facts: SinkTableFacts, staging: bool, stamp: Stamp | None
) -> None:
    run = recovering()
    sink: Any = run.clients.sink
    sink.facts.return_value = facts
    sink.stamp_or_mirror.side_effect = lambda _namespace, _name, mirror: mirror
    sink.staging = sink if staging else None
    told = observe._sink_table(run, NAME, ("lake", "orders"), lambda: {NAME: STAMP}.get)
    assert told == replace(facts, stamp=stamp)


@pytest.mark.parametrize("cores", [None, 1, 2])
@pytest.mark.parametrize("items", [[], [3], [3, 1, 2]])
def test_many_tables_are_answered_in_their_order_on_any_machine(
    monkeypatch: pytest.MonkeyPatch, cores: int | None, items: list[int]
) -> None:
    """Some systems don't say how many processors they have."""
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert side_by_side.for_each(str, items) == [str(one) for one in items]


# --- the doctor ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("writer", "topics"), [("cdc_apply", False), ("connect_sink", True)])
def test_every_part_that_a_recovery_needs_is_looked_at_and_none_hides_another(
    monkeypatch: pytest.MonkeyPatch, writer: Any, topics: bool
) -> None:
    """Where nothing answers, each part says so in its own name."""
    run = recovering()
    run = replace(
        run,
        pipeline=replace(
            run.pipeline,
            policy=Policy(throttle=ThrottlePolicy(threads_running=5)),
            sink=replace(run.pipeline.sink, writer=writer),
        ),
        clients=replace(run.clients, feeder=cast("Any", SimpleNamespace(name="copy"))),
    )

    def no_answer(*_: Any, **__: Any) -> Any:
        raise UnknownStateError("no answer")

    clients: Any = run.clients
    for system in (clients.source, clients.connector, clients.transport, clients.sink, clients.control):
        for name in dir(system):
            if not name.startswith("_") and callable(part := getattr(system, name)) and hasattr(part, "side_effect"):
                part.side_effect = no_answer
    monkeypatch.setattr(doctor, "named_replicas", no_answer)
    monkeypatch.setattr(doctor, "topic_names", no_answer)
    told = {check.name: check.state for check in doctor.doctor_pipeline(run)}
    assert {name for name, state in told.items() if state == "unknown"} == {
        *("source", "throttle", "replicas", "tables", "connector", "rows_in_events", "years", "carried"),
        *("events", "registry", "transport", "sink", "feeder", "stages", "control"),
        *(["topics"] if topics else []),
    }
