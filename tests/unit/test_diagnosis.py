"""One test per row of PROBLEMS, then what must hold between the rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core.diagnosis import PROBLEMS, Diagnosis, diagnose, trace_excerpt
from airflow_cdc.core.gtid import GtidSet
from airflow_cdc.core.observation import (
    BinlogFile,
    ControlFacts,
    Observation,
    SinkFacts,
    SinkTableFacts,
    TaskState,
    Unknown,
)
from airflow_cdc.core.position import BinlogPosition
from airflow_cdc.core.stamp import Stamp
from tests.unit.builders import (
    CONNECTOR,
    FAILED,
    GTID_OFFSET,
    HEALTHY,
    OTHER,
    PIPELINE,
    SINK,
    SOURCE,
    TAKEN_AT,
    UUID,
    file_offset,
    seen,
    with_connector,
    with_source,
)

NO_STAMPS = SinkFacts({name: SinkTableFacts(exists=True) for name in PIPELINE.source.tables})
PURGED = replace(SOURCE, gtid_purged=GtidSet.parse(f"{UUID}:1-90"))
AHEAD = {**GTID_OFFSET, "gtids": f"{UUID}:1-80,{OTHER}:1-5"}
RECOVERY = {"run_id": "manual__1", "strategy": "full_snapshot", "tables": ["shop.orders"], "watermark": {"pos": 1}}


def epochs(**stamps: int) -> SinkFacts:
    return SinkFacts({f"shop.{name}": SinkTableFacts(True, 7, Stamp(epoch)) for name, epoch in stamps.items()})


# (name of the case, observation, code, text that stands in the evidence)
ROWS: list[tuple[str, Observation, str, str]] = [
    ("recovery open", seen(control=ControlFacts(4, RECOVERY)), "RECOVERY_OPEN", "manual__1"),
    ("source unread", seen(source=Unknown("no route")), "UNKNOWN", "no route"),
    ("connector unread", seen(connector=Unknown("refused")), "UNKNOWN", "refused"),
    ("transport unread", seen(transport=Unknown("timeout")), "UNKNOWN", "timeout"),
    ("control unread", seen(control=Unknown("locked")), "UNKNOWN", "locked"),
    ("offset unreadable", with_connector(offset={"file": "x", "pos": 4}), "UNKNOWN", "not a binlog file name"),
    ("control table put back", seen(sink=epochs(customers=3, orders=4)), "UNKNOWN", "epoch 4"),
    ("transactions purged", seen(source=PURGED), "GTID_PURGED", f"{UUID}:81-90 (10 transactions)"),
    ("file purged", with_connector(offset=file_offset("mysql-bin.000007")), "BINLOG_PURGED", "mysql-bin.000007:500"),
    (
        "transactions of another server",
        with_connector(offset=AHEAD, **FAILED),
        "POSITION_NOT_ON_SERVER",
        f"{OTHER}:1-5 (5 transactions)",
    ),
    ("other server while streaming", with_connector(offset=AHEAD), "UNKNOWN", f"{OTHER}:1-5"),
    ("sink unread", seen(sink=Unknown("catalog down")), "UNKNOWN", "catalog down"),
    ("new pipeline", replace(with_connector(offset=None), sink=NO_STAMPS), "NEW_PIPELINE", "exists without a stamp"),
    ("offset lost", with_connector(offset=None), "OFFSET_MISSING", "stamp of epoch 3"),
    ("task failed", with_connector(**FAILED), "CONNECTOR_FAILED", "DebeziumException: it broke"),
    ("connector stopped", with_connector(state="STOPPED", tasks=()), "CONNECTOR_STOPPED", "STOPPED"),
    ("connector rebalancing", with_connector(tasks=()), "UNKNOWN", "none"),
    ("sink put back", seen(sink=epochs(customers=3, orders=2)), "STAMP_BEHIND", "epoch 2"),
    ("table added", seen(sink=epochs(customers=3)), "TABLE_ADDED", "does not exist"),
    ("healthy", HEALTHY, "HEALTHY", f"{UUID}:1-80"),
]


@pytest.mark.parametrize(("obs", "code", "evidence"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_row(obs: Observation, code: str, evidence: str) -> None:
    found = diagnose(obs)
    assert found.code == code
    assert evidence in " ".join(found.evidence.values())


def test_every_row_of_the_table_has_a_case() -> None:
    def row_of(obs: Observation) -> int:
        return next(p.priority for p in PROBLEMS if p.predicate(obs) is not None)

    assert {row_of(obs) for _, obs, _, _ in ROWS} == {p.priority for p in PROBLEMS}


@pytest.mark.parametrize("obs", [row[1] for row in ROWS], ids=[row[0] for row in ROWS])
def test_evidence_says_from_where_and_when(obs: Observation) -> None:
    evidence = diagnose(obs).evidence
    assert evidence
    for value in evidence.values():
        assert value.endswith(f", {TAKEN_AT}]")


def test_priorities_are_distinct_and_in_order() -> None:
    priorities = [p.priority for p in PROBLEMS]
    assert priorities == sorted(set(priorities))


def test_every_row_leads_to_a_runbook_of_its_code() -> None:
    for problem in PROBLEMS:
        assert problem.runbook == f"docs/problems.md#{problem.code.lower()}"


def test_diagnosis_survives_json() -> None:
    found = diagnose(with_connector(**FAILED))
    assert Diagnosis.from_json(found.to_json()) == found


@pytest.mark.parametrize(("obs", "status"), [(HEALTHY, 0), (seen(source=Unknown("x")), 3), (seen(source=PURGED), 1)])
def test_exit_status(obs: Observation, status: int) -> None:
    assert diagnose(obs).exit_status == status


# ---- between the rows --------------------------------------------------------------------------


def test_inv_01_an_open_recovery_comes_before_anything_else() -> None:
    worst = Observation(
        PIPELINE, TAKEN_AT, Unknown("a"), Unknown("b"), Unknown("c"), Unknown("d"), ControlFacts(4, RECOVERY)
    )
    assert diagnose(worst).code == "RECOVERY_OPEN"
    assert diagnose(replace(HEALTHY, control=ControlFacts(4, RECOVERY))).code == "RECOVERY_OPEN"


PARTS = ("source", "connector", "transport", "sink", "control")
SOME_UNREAD = [c for n in range(1, 6) for c in itertools.combinations(PARTS, n)]
FAULTS: list[Observation] = [
    obs for _, obs, _, _ in ROWS if not obs.unknowns and not getattr(obs.control, "recovery", 0)
]


def without(obs: Observation, unread: tuple[str, ...]) -> Observation:
    parts: dict[str, Any] = {part: Unknown("not read") for part in unread}
    return replace(obs, **parts)


@given(st.sampled_from(FAULTS), st.sampled_from(SOME_UNREAD))
def test_with_anything_unread_nothing_is_healthy_and_only_server_facts_say_lost(
    obs: Observation, unread: tuple[str, ...]
) -> None:
    found = diagnose(without(obs, unread))
    if unread == ("sink",):
        lost = {"GTID_PURGED", "BINLOG_PURGED", "POSITION_NOT_ON_SERVER"}
        assert found.code in {"UNKNOWN", *lost}
    else:
        assert found.code == "UNKNOWN"


def test_purged_is_said_whatever_state_the_connector_claims() -> None:
    for state in ("RUNNING", "FAILED", "STOPPED", "PAUSED", "UNASSIGNED"):
        obs = replace(seen(source=PURGED), connector=replace(CONNECTOR, state=state, tasks=(TaskState(0, state),)))
        assert diagnose(obs).code == "GTID_PURGED"


@given(st.integers(1, 100), st.integers(0, 100))
def test_gtid_purge_is_decided_as_the_server_would(stored: int, purged: int) -> None:
    obs = replace(
        with_source(gtid_purged=GtidSet.parse(f"{UUID}:1-{purged}") if purged else GtidSet()),
        connector=replace(CONNECTOR, offset={**GTID_OFFSET, "gtids": f"{UUID}:1-{stored}"}),
    )
    assert diagnose(obs).code == ("GTID_PURGED" if purged > stored else "HEALTHY")


def test_a_purge_in_a_hole_of_the_stored_set_is_found() -> None:
    obs = with_connector(offset={**GTID_OFFSET, "gtids": f"{UUID}:1-20:31-80"})
    found = diagnose(obs)
    assert found.code == "GTID_PURGED"
    assert f"{UUID}:21-30 (10 transactions)" in found.evidence["gtids missing"]


def test_with_gtids_the_file_does_not_matter() -> None:
    assert diagnose(with_connector(offset={**GTID_OFFSET, "file": "mysql-bin.000001"})).code == "HEALTHY"


@pytest.mark.parametrize("gtids", [{}, {"gtids": ""}])
def test_without_gtids_the_file_decides(gtids: dict[str, str]) -> None:
    obs = with_connector(offset={**file_offset("mysql-bin.000007"), **gtids})
    assert diagnose(obs).code == "BINLOG_PURGED"
    assert diagnose(with_connector(offset={**file_offset("mysql-bin.000008"), **gtids})).code == "HEALTHY"


def test_older_files_are_told_by_number_not_by_text() -> None:
    files = tuple(BinlogFile(f"mysql-bin.{n}", 1000) for n in (10, 11))
    obs = replace(
        with_source(binlog_files=files, current=BinlogPosition("mysql-bin.11", 1000)),
        connector=replace(CONNECTOR, offset=file_offset("mysql-bin.9")),
    )
    assert diagnose(obs).code == "BINLOG_PURGED"


@pytest.mark.parametrize(
    "offset",
    [
        file_offset("mysql-bin.000011"),  # newer than every file listed
        file_offset("binlog.000009"),  # another series of files
        file_offset("mysql-bin.000009", 1001),  # past the file's end
        file_offset("mysql-bin.000010", 1001),
    ],
)
def test_a_position_the_server_never_reached_is_not_called_purged(offset: dict[str, Any]) -> None:
    assert diagnose(with_connector(offset=offset, **FAILED)).code == "POSITION_NOT_ON_SERVER"


def test_a_server_without_binlog_has_no_position_at_all() -> None:
    obs = replace(
        with_source(binlog_files=(), log_bin=False), connector=replace(CONNECTOR, offset=file_offset("a.1"), **FAILED)
    )
    assert diagnose(obs).code == "POSITION_NOT_ON_SERVER"


@pytest.mark.parametrize(
    "offset",
    [
        {**GTID_OFFSET, "gtids": f"{UUID}:1-105"},  # committed after the server's facts were read
        file_offset("mysql-bin.000010", 1001),
        file_offset("mysql-bin.000011", 4),
    ],
)
def test_a_streaming_connector_may_be_a_moment_ahead(offset: dict[str, Any]) -> None:
    assert diagnose(with_connector(offset=offset)).code == "HEALTHY"


@pytest.mark.parametrize(
    "offset",
    [AHEAD, file_offset("binlog.000009"), file_offset("mysql-bin.000009", 1001)],
)
def test_a_streaming_connector_on_another_server_is_unknown_never_lost(offset: dict[str, Any]) -> None:
    found = diagnose(with_connector(offset=offset))
    assert found.code == "UNKNOWN"
    assert found.strategies == ()


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


def test_no_rule_is_unknown() -> None:
    assert diagnose(HEALTHY, problems=()).code == "UNKNOWN"
    assert diagnose(HEALTHY, problems=()).strategies == ()


# ---- the trace ---------------------------------------------------------------------------------

TRACE = """org.apache.kafka.connect.errors.ConnectException: An exception occurred in the change event producer
\tat io.debezium.pipeline.ErrorHandler.setProducerThrowable(ErrorHandler.java:67)
Caused by: io.debezium.DebeziumException: Client requested master to start replication from purged GTIDs
\tat io.debezium.connector.binlog.BinlogStreamingChangeEventSource.wrap(X.java:1)
Caused by: java.sql.SQLException: Access denied, jdbc:mysql://cdc:hunter2@db:3306/?user=cdc&password=hunter2&useSSL=true
"""


def test_excerpt_keeps_what_failed_and_its_causes() -> None:
    excerpt = trace_excerpt(TRACE)
    assert excerpt.startswith("org.apache.kafka.connect.errors.ConnectException")
    assert "purged GTIDs" in excerpt
    assert "ErrorHandler.java" not in excerpt


@pytest.mark.parametrize(
    "text",
    [
        TRACE,
        "x: database.password = hunter2",
        'x: {password: "hunter2 x"}',
        "x: secret=hunter2",
        'x: {"password": "hunter2"}',
        "x: Passwd:hunter2",
    ],
)
def test_excerpt_holds_no_secret(text: str) -> None:
    assert "hunter2" not in trace_excerpt(text)


def test_excerpt_is_short() -> None:
    assert len(trace_excerpt("x" * 5000, limit=100)) == 100
    assert trace_excerpt("") == ""


def test_sink_facts_of_the_healthy_case_are_stamped() -> None:
    assert all(facts.stamp for facts in SINK.tables.values())
