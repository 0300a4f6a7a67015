"""One test per row of PROBLEMS, then what must hold between the rows."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import ConfigError
from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.observation import (
    ConnectorFacts,
    ControlFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    SourceFacts,
    TaskState,
    TransportFacts,
    Unknown,
)
from airflow_cdc.core.pipeline import Policy
from airflow_cdc.core.problem import Rules
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.decisions.diagnosis import diagnose as diagnosing
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.flows import checks
from airflow_cdc.sources.mysql.facts import BinlogFile, EventAtPosition, EventBoundary
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition
from tests.diagnosing import case_of, diagnose, make_plan, seems_stuck
from tests.paths import ROOT
from tests.unit.builders import (
    ALL_CODES,
    CONNECTOR,
    FAILED,
    GTID_OFFSET,
    HEALTHY,
    OTHER,
    PIPELINE,
    PROBLEMS,
    SINK,
    SOURCE,
    TAKEN_AT,
    UUID,
    connector_with,
    file_offset,
    seen,
    with_connector,
    with_source,
)
from tests.unit.faults import (
    AHEAD,
    BY_FILE,
    HERE,
    KNOWN,
    NO_SINK,
    NO_STAMPS,
    POISON,
    PURGED,
    RECOVERY,
    ROWS,
    TOPIC,
    TRANSIENT,
    applied,
    epochs,
    half_sent,
    history,
    stamped,
)


@pytest.mark.parametrize(("obs", "code", "evidence"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_row(obs: Observation, code: str, evidence: str) -> None:
    diagnosis = diagnose(obs)
    assert diagnosis.code == code
    assert evidence in " ".join(diagnosis.evidence.values())


def test_every_row_of_the_table_has_a_case() -> None:
    def row_of(obs: Observation) -> int:
        return next(p.rank for p in PROBLEMS if p.holds(case_of(obs)) is not None)

    assert {row_of(obs) for _, obs, _, _ in ROWS} == {p.rank for p in PROBLEMS}


RUNBOOK = (ROOT / "docs" / "problems.md").read_text()


def test_every_code_has_a_runbook_and_every_runbook_a_code() -> None:
    headings = set(re.findall(r"^## ([A-Z_]+)$", RUNBOOK, re.MULTILINE))
    # a comparison has a code of its own, which no observation shows
    assert headings == ALL_CODES | set(checks.PROBLEMS.values())


@pytest.mark.parametrize("obs", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_evidence_says_from_where_and_when(obs: Observation) -> None:
    evidence = diagnose(obs).evidence
    assert evidence
    for value in evidence.values():
        assert value.endswith(f", {TAKEN_AT}]")


def test_priorities_are_distinct_and_in_order() -> None:
    ranks = [p.rank for p in PROBLEMS]
    assert ranks == sorted(set(ranks))


def test_every_row_leads_to_a_runbook_of_its_code() -> None:
    for problem in PROBLEMS:
        assert problem.runbook == f"runbook#{problem.code.lower()}"


def test_diagnosis_survives_json() -> None:
    diagnosis = diagnose(with_connector(**FAILED))
    assert read(Diagnosis, plain(diagnosis)) == diagnosis


@pytest.mark.parametrize(("obs", "status"), [(HEALTHY, 0), (seen(source=Unknown("x")), 3), (seen(source=PURGED), 1)])
def test_exit_status(obs: Observation, status: int) -> None:
    assert diagnose(obs).exit_status == status


# ---- how events are written says nothing of the position ---------------------------------------

REFUSED_FOR_ROWS = {
    "CloudEvents": {"value.converter": "io.debezium.converters.CloudEventsConverter"},
    "flattened into topics by a field": {
        "transforms.t.route.by.field": "kind",
        "transforms": "t",
        "transforms.t.type": "io.debezium.transforms.ExtractNewRecordState",
    },
    "outbox": {"transforms": "t", "transforms.t.type": "io.debezium.transforms.outbox.EventRouter"},
    "somebody's own": {"transforms": "t", "transforms.t.type": "com.example.Mystery"},
    "not to be seen": {"table.include.list": "${file:/etc/cdc:tables}"},
    "a setting": {"snapshot.select.statement.overrides": "shop.orders"},
}
POSITIONS = {
    "purged": (seen(source=PURGED), "GTID_PURGED"),
    "file purged": (
        seen(
            source=replace(SOURCE, **BY_FILE),
            connector=connector_with(CONNECTOR, offset=file_offset("mysql-bin.000003")),
        ),
        "BINLOG_PURGED",
    ),
    "in order": (HEALTHY, "HEALTHY"),
    "at risk": (with_source(retention=Retention(86400, now=100_000.0, written_until=20_000.0)), "AT_RISK"),
    "failed": (with_connector(**FAILED), "CONNECTOR_FAILED"),
    "no offset": (with_connector(offset=None), "OFFSET_MISSING"),
}


def written(obs: Observation, config: dict[str, str]) -> Observation:
    """The observation with events written as `config` says; topics that can't be named are unknown, as `observe` has it."""
    assert isinstance(obs.connector, ConnectorFacts)
    connector = connector_with(obs.connector, config={**obs.connector.config, **config})
    assert connector.capture is not None
    try:
        connector.capture.topic_of("shop.orders")
    except ConfigError as error:
        obs = replace(obs, transport=TransportFacts({}, unnamed=str(error)))
    return replace(obs, connector=connector)


@pytest.mark.parametrize("writing", REFUSED_FOR_ROWS)
@pytest.mark.parametrize("position", POSITIONS)
def test_inv_40_the_position_is_judged_however_events_are_written(position: str, writing: str) -> None:
    obs, code = POSITIONS[position]
    diagnosis = diagnose(written(obs, REFUSED_FOR_ROWS[writing]))
    assert diagnosis.code == ("CONNECTOR_MISCONFIGURED" if code == "HEALTHY" else code)
    assert any(remark.startswith("rows: refused, because") for remark in diagnosis.remarks)
    assert not any(remark.startswith("rows") for remark in diagnose(obs).remarks)


@pytest.mark.parametrize("writing", REFUSED_FOR_ROWS)
def test_inv_40_without_a_sink_a_refusal_of_rows_is_no_problem(writing: str) -> None:
    obs = replace(HEALTHY, pipeline=replace(PIPELINE, sink=NO_SINK), sink=SinkFacts({}))
    diagnosis = diagnose(written(obs, REFUSED_FOR_ROWS[writing]))
    assert diagnosis.code == "HEALTHY"
    assert any(remark.startswith("rows: refused, because") for remark in diagnosis.remarks)


@pytest.mark.parametrize("writing", REFUSED_FOR_ROWS)
def test_inv_40_a_plan_that_reads_rows_is_refused_with_the_reason_for_rows(writing: str) -> None:
    lost = written(seen(source=PURGED), REFUSED_FOR_ROWS[writing])
    plan = make_plan(diagnose(lost), Policy(), lost)
    assert plan.refused
    assert next(iter(REFUSED_FOR_ROWS[writing].values())) in plan.reason or "transforms.t.type" in plan.reason


def test_names_of_debezium_1_are_diagnosed_as_those_of_today() -> None:
    old = {"connector.class": CONNECTOR.config["connector.class"], "database.server.name": "shop"}
    assert diagnose(with_connector(config=old)).code == "HEALTHY"
    lost = replace(seen(source=PURGED), connector=connector_with(CONNECTOR, config=old))
    assert diagnose(lost).code == "GTID_PURGED"
    assert not make_plan(diagnose(lost), Policy(), lost).refused


# ---- between the rows --------------------------------------------------------------------------


def test_inv_14_a_cascade_that_the_server_does_not_log_is_named() -> None:
    assert diagnose(with_source(cascades=("shop.items (shop.orders, DELETE CASCADE)",))).code == "LOG_INCOMPLETE"


def test_inv_01_an_open_recovery_comes_before_anything_else() -> None:
    worst = Observation(
        PIPELINE, TAKEN_AT, Unknown("a"), Unknown("b"), Unknown("c"), Unknown("d"), ControlFacts(4, RECOVERY)
    )
    assert diagnose(worst).code == "RECOVERY_OPEN"
    assert diagnose(replace(HEALTHY, control=ControlFacts(4, RECOVERY))).code == "RECOVERY_OPEN"


PARTS = ("source", "connector", "transport", "sink", "control", "schema")
SOME_UNREAD = [c for n in range(1, 7) for c in itertools.combinations(PARTS, n)]
FAULTS: list[Observation] = [
    obs for _, obs, _, _ in ROWS if not obs.unknowns and not getattr(obs.control, "recovery", 0)
]


def without(obs: Observation, unread: tuple[str, ...]) -> Observation:
    parts: dict[str, Any] = {part: Unknown("not read") for part in unread}
    return replace(obs, **parts)


@given(st.sampled_from(FAULTS), st.sampled_from(SOME_UNREAD))
def test_with_anything_unread_nothing_is_healthy_and_nothing_that_removes_rows_is_planned(
    obs: Observation, unread: tuple[str, ...]
) -> None:
    diagnosis = diagnose(without(obs, unread))
    assert diagnosis.code != "HEALTHY"
    assert make_plan(diagnosis, Policy(), without(obs, unread)).strategy in ("none", "restart")
    if not set(unread) <= {"sink", "schema", "transport"}:
        assert diagnosis.code == "UNKNOWN"


def test_purged_is_said_whatever_state_the_connector_claims() -> None:
    for state in ("RUNNING", "FAILED", "STOPPED", "PAUSED", "UNASSIGNED"):
        obs = replace(
            seen(source=PURGED), connector=connector_with(CONNECTOR, state=state, tasks=(TaskState(0, state),))
        )
        assert diagnose(obs).code == "GTID_PURGED"


@given(st.integers(1, 100), st.integers(0, 100))
def test_gtid_purge_is_decided_as_the_server_would(stored: int, purged: int) -> None:
    obs = replace(
        with_source(gtid_purged=GtidSet.parse(f"{UUID}:1-{purged}") if purged else GtidSet()),
        connector=connector_with(CONNECTOR, offset={**GTID_OFFSET, "gtids": f"{UUID}:1-{stored}"}),
    )
    assert diagnose(obs).code == ("GTID_PURGED" if purged > stored else "HEALTHY")


def test_a_purge_in_a_hole_of_the_stored_set_is_found() -> None:
    obs = with_connector(offset={**GTID_OFFSET, "gtids": f"{UUID}:1-20:31-80"})
    diagnosis = diagnose(obs)
    assert diagnosis.code == "GTID_PURGED"
    assert f"{UUID}:21-30 (10 transactions)" in diagnosis.evidence["gtids missing"]


def test_with_gtids_the_file_does_not_matter() -> None:
    assert diagnose(with_connector(offset={**GTID_OFFSET, "file": "mysql-bin.000001"})).code == "HEALTHY"


def test_inv_26_with_gtids_the_file_of_this_very_server_must_fit() -> None:
    beyond = replace(with_connector(offset={**GTID_OFFSET, "pos": 1001}, **FAILED), sink=stamped(HERE))
    assert diagnose(beyond).code == "POSITION_PAST_END"
    inside = replace(
        with_source(at_offset=EventAtPosition(EventBoundary.INSIDE)),
        connector=connector_with(CONNECTOR, **FAILED),
        sink=stamped(HERE),
    )
    assert diagnose(inside).code == "POSITION_MID_EVENT"
    assert diagnose(replace(inside, sink=stamped(KNOWN))).code == "SOURCE_FAILED_OVER"  # another server's file


def test_inv_38_a_start_from_inside_a_transaction_that_counts_as_done_is_not_planned() -> None:
    assert diagnose(half_sent(f"{UUID}:80")).code == "TRANSACTION_HALF_SENT"
    assert diagnose(half_sent(f"{UUID}:81")).code == "CONNECTOR_STOPPED"  # as it should be: it is not in the set yet
    assert diagnose(half_sent("")).code == "CONNECTOR_STOPPED"
    assert diagnose(half_sent(f"{UUID}:80", **FAILED)).code == "TRANSACTION_HALF_SENT"
    assert diagnose(half_sent(f"{UUID}:80", state="RUNNING")).code == "HEALTHY"  # it sends the rest itself


def test_a_server_that_took_over_is_told_by_its_uuid_and_a_failed_connector() -> None:
    failed = replace(with_connector(**FAILED), sink=stamped(KNOWN))
    diagnosis = diagnose(failed)
    assert diagnosis.code == "SOURCE_FAILED_OVER"
    assert {"server_uuid now", "server_uuid before", "connector reads at"} <= set(diagnosis.evidence)
    assert make_plan(diagnosis, Policy(), failed).strategy == "translate_gtid"
    led_to = replace(failed, control=ControlFacts(3, servers=(UUID,)))
    assert diagnose(led_to).code == "CONNECTOR_FAILED"
    assert diagnose(replace(HEALTHY, sink=stamped(KNOWN))).code == "HEALTHY"
    stopped = replace(with_connector(state="STOPPED", tasks=()), sink=stamped(KNOWN))
    assert diagnose(stopped).code == "CONNECTOR_STOPPED"  # left to who stopped it
    assert make_plan(diagnose(stopped), Policy(), stopped, asked="translate_gtid").strategy == "translate_gtid"


def test_a_promoted_server_that_lacks_or_purged_something_is_another_problem() -> None:
    lagging = replace(with_connector(offset=AHEAD, **FAILED), sink=stamped(KNOWN))
    assert diagnose(lagging).code == "GTID_NOT_CONTAINED"
    refused = make_plan(diagnose(lagging), Policy(), lagging)
    assert refused.strategy == "full_snapshot"
    assert f"Not translate_gtid: the server does not have {OTHER}:1-5" in refused.reason
    assert diagnose(replace(failed_at(PURGED), sink=stamped(KNOWN))).code == "GTID_PURGED"


def failed_at(source: SourceFacts) -> Observation:
    return replace(seen(source=source), connector=connector_with(CONNECTOR, **FAILED))


@pytest.mark.parametrize("gtids", [{}, {"gtids": ""}])
def test_without_gtids_the_file_decides(gtids: dict[str, str]) -> None:
    obs = replace(
        with_source(**BY_FILE), connector=connector_with(CONNECTOR, offset={**file_offset("mysql-bin.000007"), **gtids})
    )
    assert diagnose(obs).code == "BINLOG_PURGED"
    there = replace(obs, connector=connector_with(CONNECTOR, offset={**file_offset("mysql-bin.000008"), **gtids}))
    assert diagnose(there).code == "HEALTHY"


def test_older_files_are_told_by_number_not_by_text() -> None:
    files = tuple(BinlogFile(f"mysql-bin.{n}", 1000) for n in (10, 11))
    obs = replace(
        with_source(**BY_FILE, binlog_files=files, current=BinlogPosition("mysql-bin.11", 1000)),
        connector=connector_with(CONNECTOR, offset=file_offset("mysql-bin.9")),
    )
    assert diagnose(obs).code == "BINLOG_PURGED"


@pytest.mark.parametrize(
    ("offset", "code"),
    [
        (file_offset("mysql-bin.000011"), "POSITION_AHEAD"),
        (file_offset("binlog.000009"), "SOURCE_CHANGED"),
        (file_offset("mysql-bin.000009", 1001), "POSITION_PAST_END"),
        (file_offset("mysql-bin.000010", 1001), "POSITION_PAST_END"),
    ],
)
def test_a_position_the_server_never_reached_is_not_called_purged(offset: dict[str, Any], code: str) -> None:
    assert diagnose(with_connector(offset=offset, **FAILED)).code == code


def test_a_server_without_binlog_has_no_position_at_all() -> None:
    obs = replace(
        with_source(binlog_files=(), log_bin=False),
        connector=connector_with(CONNECTOR, offset=file_offset("a.1"), **FAILED),
    )
    assert diagnose(obs).code == "SOURCE_MISCONFIGURED"


def test_a_streaming_connector_may_have_seen_what_is_under_way() -> None:
    obs = with_connector(offset={**GTID_OFFSET, "gtids": f"{UUID}:1-105"})
    under_way = replace(SOURCE, gtid_owned=GtidSet.parse(f"{UUID}:101-105"))
    assert diagnose(replace(obs, source=under_way)).code == "HEALTHY"
    assert diagnose(obs).code == "UNKNOWN"


ELSEWHERE = [AHEAD, file_offset("binlog.000009"), file_offset("mysql-bin.000009", 1001)]


@pytest.mark.parametrize("offset", ELSEWHERE)
def test_a_streaming_connector_on_another_server_is_unknown_never_lost(offset: dict[str, Any]) -> None:
    diagnosis = diagnose(with_connector(offset=offset))
    assert diagnosis.code == "UNKNOWN"
    assert diagnosis.strategies == ()


@pytest.mark.parametrize(
    ("offset", "code"), list(zip(ELSEWHERE, ("GTID_NOT_CONTAINED", "SOURCE_CHANGED", "POSITION_PAST_END"), strict=True))
)
def test_a_streaming_connector_that_connects_to_the_same_address_reads_the_same_server(
    offset: dict[str, Any], code: str
) -> None:
    there = {**CONNECTOR.config, "database.hostname": "localhost", "database.port": "3307"}
    obs = replace(with_connector(offset=offset, config=there), source=replace(SOURCE, address="127.0.0.1:3307"))
    assert diagnose(obs).code == code


def test_the_newest_files_end_says_nothing_of_an_older_file() -> None:
    source = replace(SOURCE, **BY_FILE, current=BinlogPosition("mysql-bin.000010", 5000))
    beyond = with_connector(offset=file_offset("mysql-bin.000009", 1001))
    assert diagnose(replace(beyond, source=source)).code == "UNKNOWN"


@pytest.mark.parametrize(
    ("policy", "age", "at", "code"),
    [
        ("compact", 7200.0, 5, "TRANSPORT_GAP"),
        ("compact", 3000.0, 5, "HEALTHY"),  # deletes are still there
        ("compact", 7200.0, 10, "HEALTHY"),  # everything was applied
        ("delete", 7200.0, 5, "HEALTHY"),
    ],
)
def test_inv_17_a_compacted_topic_forgets_deletes_that_were_not_applied(
    policy: str, age: float, at: int, code: str
) -> None:
    settings = {"cleanup.policy": policy, "delete.retention.ms": "3600000"}
    topics = TransportFacts({TOPIC.name: TOPIC}, {"shop.orders": TOPIC.name}, {TOPIC.name: settings})
    stamp = Stamp(3, None, {TOPIC.name: TopicOffsets("id1", {0: at})})
    stamped_at = datetime.fromisoformat(TAKEN_AT).timestamp() - age
    sink = {name: SinkTableFacts(True, 7, stamp, 10, stamped_at) for name in PIPELINE.source.tables}
    assert diagnose(seen(transport=topics, sink=SinkFacts(sink))).code == code


def test_a_passing_failure_beside_another_one_is_not_passing() -> None:
    both = (TaskState(0, "FAILED", TRANSIENT), TaskState(1, "FAILED", POISON))
    assert diagnose(with_connector(tasks=both)).code == "CONNECTOR_FAILED"


def test_a_ddl_that_still_stands_in_the_log_is_no_fault() -> None:
    changed = history(differences={"shop.orders": ("column a: only in the history",)})
    assert diagnose(seen(schema=changed)).code == "HEALTHY"


@pytest.mark.parametrize("value", ["-1", str(2**63 - 1)])
def test_a_history_that_is_kept_for_ever_is_well_set(value: str) -> None:
    kept = {"cleanup.policy": "delete", "retention.ms": value, "retention.bytes": "-1"}
    assert diagnose(seen(schema=history(config=kept))).code == "HEALTHY"


def test_inv_05_a_connector_that_heals_itself_is_named_before_and_after() -> None:
    by_name = {name: (obs, code) for name, obs, code, _ in ROWS}
    assert by_name["heals itself"][1] == "CONNECTOR_MISCONFIGURED"
    healed, code = by_name["copied by itself"]
    assert code == "SELF_HEALED"
    before = replace(healed, control=ControlFacts(3, closed_at="2026-11-21T08:00:01.000+00:00"))
    assert diagnose(before).code == "HEALTHY"  # a recovery has come since


def test_a_connector_at_the_newest_file_is_not_at_risk_while_it_runs() -> None:
    short = replace(SOURCE, retention=Retention(3600, now=100_000.0))
    offset = {**GTID_OFFSET, "file": "mysql-bin.000010"}
    assert diagnose(replace(with_connector(offset=offset), source=short)).code == "SOURCE_MISCONFIGURED"
    stopped = connector_with(CONNECTOR, offset=offset, tasks=(TaskState(0, "PAUSED"),), state="RUNNING")
    assert diagnose(seen(source=short, connector=stopped)).code == "AT_RISK"


@pytest.mark.parametrize("events", [("Rotate",), ("Format_desc", "Previous_gtids"), ()])
def test_by_gtid_a_file_that_was_read_to_its_end_is_not_needed(events: tuple[str, ...]) -> None:
    old = replace(
        SOURCE,
        retention=Retention(86400, now=100_000.0, written_until=1.0),
        at_offset=EventAtPosition(EventBoundary.BOUNDARY, events),
    )
    assert diagnose(seen(source=old)).code == "HEALTHY"
    by_name = replace(old, **BY_FILE)
    assert diagnose(
        seen(source=by_name, connector=connector_with(CONNECTOR, offset=file_offset("mysql-bin.000009")))
    ).code == ("AT_RISK")


STUCK = EventAtPosition(EventBoundary.BOUNDARY, ("Gtid", "Query", "Table_map"))


@pytest.mark.parametrize(
    ("look", "config", "ts_sec", "stuck"),
    [
        (STUCK, {"heartbeat.interval.ms": "1000"}, 1, True),
        (STUCK, {}, 1, False),  # without heartbeats an offset may rest
        (STUCK, {"heartbeat.interval.ms": "1000"}, 950, False),
        (EventAtPosition(EventBoundary.BOUNDARY, ("Rotate",)), {"heartbeat.interval.ms": "1000"}, 1, False),
        (None, {"heartbeat.interval.ms": "1000"}, 1, False),
    ],
)
def test_only_a_connector_with_a_change_right_ahead_of_it_seems_stuck(
    look: EventAtPosition | None, config: dict[str, str], ts_sec: int, stuck: bool
) -> None:
    source = replace(SOURCE, at_offset=look, retention=Retention(0, now=1000.0))
    connector = connector_with(
        CONNECTOR, config={**CONNECTOR.config, **config}, offset={**GTID_OFFSET, "ts_sec": ts_sec}
    )
    assert seems_stuck(seen(source=source, connector=connector)) is stuck


def test_transactions_in_a_hole_of_the_servers_set_are_not_a_moment_ahead() -> None:
    obs = with_source(gtid_executed=GtidSet.parse(f"{UUID}:1-70:91-100"))
    assert diagnose(obs).code == "UNKNOWN"


def test_a_failed_connector_of_a_new_pipeline_is_new_first() -> None:
    obs = replace(with_connector(offset=None, **FAILED), sink=NO_STAMPS)
    assert diagnose(obs).code == "NEW_PIPELINE"


def test_a_new_pipeline_may_have_no_sink_table_at_all() -> None:
    bare = SinkFacts({name: SinkTableFacts(exists=False) for name in PIPELINE.source.tables})
    assert diagnose(replace(with_connector(offset={}), sink=bare)).code == "NEW_PIPELINE"


def test_tables_of_other_writers_have_no_stamps_and_that_is_no_problem() -> None:
    foreign = replace(PIPELINE, sink=replace(PIPELINE.sink, writer="external"))
    assert diagnose(seen(pipeline=foreign, sink=NO_STAMPS)).code == "HEALTHY"


def test_a_failed_connector_without_tasks_is_failed() -> None:
    assert diagnose(with_connector(state="FAILED", tasks=())).code == "CONNECTOR_FAILED"


OTHER_FAULTS: dict[str, dict[str, Any]] = {
    "topic recreated": {"sink": applied("id0", 5)},
    "history gone": {"schema": history(state=None)},
    "sink put back": {"sink": epochs(customers=3, orders=2)},
}


@pytest.mark.parametrize("other", OTHER_FAULTS)
def test_of_two_faults_the_lost_position_is_told_first(other: str) -> None:
    parts = OTHER_FAULTS[other]
    lost = replace(seen(source=PURGED), connector=connector_with(CONNECTOR, **FAILED))
    assert diagnose(replace(lost, **parts)).code == "GTID_PURGED"
    stopped = connector_with(CONNECTOR, state="STOPPED", tasks=())
    assert diagnose(replace(seen(source=PURGED, connector=stopped), **parts)).code == "GTID_PURGED"


@pytest.mark.parametrize("part", ["transport", "sink", "schema"])
def test_inv_40_what_the_server_proves_is_said_whatever_else_could_not_be_read(part: str) -> None:
    lost = without(seen(source=PURGED), (part,))
    diagnosis = diagnose(lost)
    assert (diagnosis.code, [other.code for other in diagnosis.others]) == ("GTID_PURGED", ["UNKNOWN"])
    assert make_plan(diagnosis, Policy(), lost).refused


def test_inv_40_a_warning_stands_beside_what_runs_out() -> None:
    healing = connector_with(CONNECTOR, config={**CONNECTOR.config, "snapshot.mode": "when_needed"})
    ending = with_source(
        retention=Retention(86400, now=100_000.0, written_until=20_000.0), missing_privileges=("RELOAD on *.*",)
    )
    diagnosis = diagnose(replace(ending, connector=healing))
    assert diagnosis.code == "AT_RISK"
    assert [other.code for other in diagnosis.others] == ["CONNECTOR_MISCONFIGURED", "SOURCE_MISCONFIGURED"]
    assert "snapshot.mode=when_needed" in diagnosis.others[0].text


def test_a_connector_that_failed_where_its_log_is_gone_did_not_fail_for_another_reason() -> None:
    lost = replace(seen(source=PURGED), connector=connector_with(CONNECTOR, **FAILED))
    assert [other.code for other in diagnose(lost).others] == []


@pytest.mark.parametrize("part", ["source", "connector", "control"])
def test_with_one_part_unread_no_second_fault_is_concluded(part: str) -> None:
    both = replace(seen(source=PURGED), sink=applied("id0", 5))
    assert diagnose(without(both, (part,))).code == "UNKNOWN"


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 60))
def test_facts_that_change_between_two_reads_make_no_problem(stored: int, more: int, under_way: int) -> None:
    """The offset is read first; what the server commits before it is read, and while, is never a fault."""
    done = GtidSet.parse(f"{UUID}:1-{stored + more}")
    owned = GtidSet.parse(f"{UUID}:{stored + more + 1}-{stored + more + under_way}") if under_way else GtidSet()
    at = BinlogPosition("mysql-bin.000010", 1000 + stored + more)
    read = replace(SOURCE, gtid_executed=done, gtid_purged=GtidSet(), gtid_owned=owned, current=at)
    seen_by_connector = GtidSet.parse(f"{UUID}:1-{stored}") | owned  # the log is sent before a commit is done
    offset = {"file": "mysql-bin.000010", "pos": 1000 + stored, "gtids": str(seen_by_connector), "ts_sec": 1}
    assert diagnose(replace(with_connector(offset=offset), source=read)).code == "HEALTHY"
    by_name = replace(read, gtid_mode="OFF", gtid_executed=GtidSet(), gtid_owned=GtidSet())
    plain = {key: value for key, value in offset.items() if key != "gtids"}
    assert diagnose(replace(with_connector(offset=plain), source=by_name)).code == "HEALTHY"


def test_no_rule_is_unknown() -> None:
    assert diagnosing.diagnose(HEALTHY, Rules()).code == "UNKNOWN"
    assert diagnosing.diagnose(HEALTHY, Rules()).strategies == ()


def test_sink_facts_of_the_healthy_case_are_stamped() -> None:
    assert all(facts.stamp for facts in SINK.tables.values())


def said_of(obs: Observation) -> str:
    """The descriptions of all that was found, the leading one first."""
    found = diagnose(obs)
    return " ".join((found.description, *(other.description for other in found.others)))


@pytest.mark.parametrize("state", ["RUNNING", "FAILED", "STOPPED", "PAUSED"])
def test_a_connector_whose_tasks_are_in_a_state_that_lasts_is_not_between_states(state: str) -> None:
    """Nobody waits for it to change by itself: it runs, or somebody has to act."""
    seen_so = with_connector(state=state, tasks=(TaskState(0, state, "boom"),))
    assert "between states" not in said_of(seen_so)


@pytest.mark.parametrize("state", ["RESTARTING", "UNASSIGNED"])
def test_a_connector_in_a_passing_state_is_between_states(state: str) -> None:
    assert "between states" in said_of(with_connector(state=state, tasks=(TaskState(0, state),)))


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
def test_a_connector_that_somebody_stopped_or_paused_is_not_started_by_us(state: str) -> None:
    found = diagnose(with_connector(state=state, tasks=(TaskState(0, state),)))
    assert (found.code, found.strategies) == ("CONNECTOR_STOPPED", ())


def test_a_source_without_a_log_is_said_to_have_none_before_what_its_log_would_hold() -> None:
    diagnosis = diagnose(with_source(log_bin=False))
    assert (diagnosis.code, diagnosis.description) == ("SOURCE_MISCONFIGURED", "The source keeps no binary log.")
