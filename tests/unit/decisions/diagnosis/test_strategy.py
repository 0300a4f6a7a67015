from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from airflow_cdc.core import codec
from airflow_cdc.core.amounts import Limit
from airflow_cdc.core.codec import plain
from airflow_cdc.core.errors import UsageError
from airflow_cdc.core.forecast import Retention
from airflow_cdc.core.observation import (
    ControlFacts,
    HistoryFacts,
    Observation,
    OtherCommit,
    SchemaFacts,
    SinkFacts,
    SinkTableFacts,
    TaskState,
    Unknown,
)
from airflow_cdc.core.pipeline import Approval, Policy
from airflow_cdc.decisions.diagnosis.diagnose import Diagnosis
from airflow_cdc.decisions.diagnosis.strategy import COMPARING, STRATEGIES, Plan
from airflow_cdc.sources.mysql.facts import BinlogFile
from airflow_cdc.sources.mysql.gtid import GtidSet
from tests.diagnosing import diagnose, make_plan
from tests.unit.builders import (
    FAILED,
    GTID_OFFSET,
    HEALTHY,
    PROBLEMS,
    SINK,
    SOURCE,
    UUID,
    seen,
    with_connector,
    with_source,
)
from tests.unit.faults import PURGED, RECOVERY, ROWS, by_file

POLICY = Policy()
LOST = seen(source=PURGED)


def plan(obs: Observation, policy: Policy = POLICY, **options: Any) -> Plan:
    return make_plan(diagnose(obs), policy, obs, **options)


@pytest.mark.parametrize(
    ("obs", "strategy"),
    [
        (HEALTHY, "none"),
        (LOST, "full_snapshot"),
        (with_connector(tasks=(TaskState(0, "FAILED", "java.net.ConnectException: Connection refused"),)), "restart"),
        (seen(control=ControlFacts(4, RECOVERY)), "finish"),
    ],
)
def test_chosen_strategy(obs: Observation, strategy: str) -> None:
    chosen = plan(obs)
    assert chosen.strategy == strategy
    assert not chosen.refused
    assert chosen.data_loss == "nothing"
    assert chosen.steps == STRATEGIES[strategy].steps
    assert chosen.reason.startswith(diagnose(obs).code)


def test_healthy_changes_nothing() -> None:
    chosen = plan(HEALTHY, Policy(approval="always"))
    assert (chosen.steps, chosen.destructive, chosen.needs_approval) == (("report",), False, False)


@pytest.mark.parametrize("asked", [None, *STRATEGIES])
@pytest.mark.parametrize("obs", [obs for _, obs, code, _ in ROWS if code == "UNKNOWN"])
def test_unknown_never_leads_to_a_plan_that_changes_anything(obs: Observation, asked: str | None) -> None:
    refused = plan(obs, asked=asked)
    assert refused.refused
    assert refused.strategy == "none"
    assert refused.steps == ()
    assert not refused.destructive
    assert "UNKNOWN" in refused.reason
    assert "docs/" not in refused.reason


def test_no_row_or_request_offers_anything_for_unknown() -> None:
    assert all(not p.strategies for p in PROBLEMS if p.code == "UNKNOWN")
    assert not any(row.on_request for row in PROBLEMS if row.code == "UNKNOWN")


def test_every_strategy_named_anywhere_exists() -> None:
    named = {s for p in PROBLEMS for s in p.strategies} | {s for p in PROBLEMS for s in p.on_request}
    assert named <= set(STRATEGIES)


def test_a_failure_that_a_restart_meets_again_is_not_restarted_by_itself() -> None:
    refused = plan(with_connector(**FAILED))
    assert refused.refused
    assert plan(with_connector(**FAILED), asked="restart").strategy == "restart"


def test_a_cheaper_strategy_is_passed_over_with_its_reason() -> None:
    chosen = plan(LOST)
    assert chosen.strategy == "full_snapshot"
    assert "Not replica_detour: source.replicas in pipelines.yaml lists no replica" in chosen.reason


CUT = by_file("mysql-bin.000009", 1001)


def test_inv_26_past_the_end_all_rows_are_compared_whatever_strategy_is_taken() -> None:
    chosen = plan(CUT)
    assert chosen.strategy == "resume_next_file"
    assert chosen.strategy in COMPARING
    assert {"recover", "verify"} <= set(chosen.steps)
    assert set(diagnose(CUT).strategies) <= {*COMPARING, "full_snapshot"}


def test_inv_26_without_a_next_file_the_connector_goes_on_at_the_end() -> None:
    chosen = plan(by_file("mysql-bin.000009", 1001, binlog_files=(BinlogFile("mysql-bin.000009", 1000),)))
    assert chosen.strategy == "diff_repair"
    assert "Not resume_next_file: no file follows mysql-bin.000009." in chosen.reason


def test_inv_26_a_definition_that_changed_meanwhile_is_not_read_with_the_old_one() -> None:
    assert isinstance(CUT.schema, SchemaFacts)
    history = HistoryFacts("shop.history", differences={"shop.orders": ("column v: dropped",)})
    chosen = plan(replace(CUT, schema=replace(CUT.schema, history=history)))
    assert chosen.strategy == "diff_repair"
    assert "definitions changed since the position: definition of shop.orders" in chosen.reason


def test_a_strategy_that_no_run_carries_out_is_refused_by_name() -> None:
    chosen = plan(LOST, asked="skip")
    assert chosen.refused
    assert "skip: no run carries it out" in chosen.reason


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"binlog_format": "STATEMENT"}, "binlog_format is STATEMENT, must be ROW"),
        ({"row_image": "MINIMAL"}, "binlog_row_image is MINIMAL, must be FULL"),
    ],
)
def test_a_source_that_cannot_be_replayed_is_refused_with_the_setting(facts: dict[str, Any], told: str) -> None:
    obs = with_source(gtid_purged=PURGED.gtid_purged, **facts)
    assert diagnose(obs).code == "GTID_PURGED"
    refused = plan(obs)
    assert refused.refused
    assert told in refused.reason


def test_a_gtid_server_without_a_transaction_is_refused_until_it_has_one() -> None:
    """After a RESET: Debezium's client fails on an empty set, whatever the offset says."""
    lost = with_connector(offset={**GTID_OFFSET, "file": "mysql-bin.000998", "gtids": f"{UUID}:1-200"}, **FAILED)
    begun, empty = (
        replace(lost, source=replace(SOURCE, gtid_purged=GtidSet(), gtid_executed=GtidSet.parse(text)))
        for text in (f"{UUID}:1", "")
    )
    assert (diagnose(begun).code, plan(begun).refused) == ("POSITION_AHEAD", False)
    assert (diagnose(empty).code, plan(empty).refused) == ("POSITION_AHEAD", True)
    assert "a transaction must be written first" in plan(empty).reason


def test_lost_with_an_unread_sink_is_refused() -> None:
    refused = plan(replace(LOST, sink=Unknown("catalog down")))
    assert refused.refused
    assert "sink (catalog down)" in refused.reason


def test_finishing_needs_everything_read() -> None:
    obs = replace(seen(control=ControlFacts(4, RECOVERY)), source=Unknown("no route"))
    assert plan(obs).refused
    assert "no route" in plan(obs).reason


def test_a_stopped_connector_is_left_to_the_person_who_stopped_it() -> None:
    obs = with_connector(state="STOPPED", tasks=())
    assert plan(obs).refused
    assert "On request: restart, full_snapshot" in plan(obs).reason
    assert plan(obs, asked="restart").strategy == "restart"


def test_a_person_may_ask_for_a_snapshot_of_a_healthy_pipeline() -> None:
    assert plan(HEALTHY, asked="full_snapshot").strategy == "full_snapshot"


def test_what_the_diagnosis_does_not_allow_is_refused_by_name() -> None:
    refused = plan(LOST, asked="restart")
    assert refused.refused
    assert "'restart' does not apply to GTID_PURGED" in refused.reason
    assert "full_snapshot" in refused.reason


def test_an_unknown_strategy_is_a_usage_error_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="Did you mean 'full_snapshot'"):
        plan(LOST, asked="full_snapshto")
    with pytest.raises(UsageError, match="There are: auto, none, restart"):
        plan(LOST, asked="zzz")


@pytest.mark.parametrize(
    ("approval", "deletes", "asks", "destructive"),
    [
        ("always", 0, True, False),
        ("when_destructive", 0, False, False),
        ("when_destructive", 10, False, False),
        ("when_destructive", 11, True, True),
        ("never", 11, False, True),
    ],
)
def test_who_is_asked(approval: Approval, deletes: int, asks: bool, destructive: bool) -> None:
    rows = SinkFacts({"shop.orders": SinkTableFacts(True, 1, None, 1000)})
    made = make_plan(
        diagnose(LOST), Policy(approval=approval), replace(LOST, sink=rows), deletes={"shop.orders": deletes}
    )
    assert (made.needs_approval, made.destructive) == (asks, destructive)
    assert ("removes more than 1% of shop.orders" in made.reason) == destructive


def test_deletes_of_a_table_that_was_not_counted_are_over_any_share() -> None:
    rows = SinkFacts({"shop.orders": SinkTableFacts(True, 1)})
    made = make_plan(diagnose(LOST), POLICY, replace(LOST, sink=rows), deletes={"shop.orders": 1})
    assert made.destructive
    some = make_plan(
        diagnose(LOST), Policy(max_deletes=Limit.parse(5)), replace(LOST, sink=rows), deletes={"shop.orders": 1}
    )
    assert not some.destructive


def test_inv_36_an_unknown_number_of_deletes_is_destructive() -> None:
    """A restored, half empty source of 400 million rows is not counted in 30 s."""
    rows = SinkFacts({"shop.orders": SinkTableFacts(True, 1, None, 400_000_000)})
    made = make_plan(diagnose(LOST), POLICY, replace(LOST, sink=rows), deletes={"shop.orders": None})
    assert (made.destructive, made.needs_approval) == (True, True)
    assert "It is unknown how many rows it removes of shop.orders." in made.reason
    all_of_them = Policy(max_deletes=Limit.parse("100%"))
    free = make_plan(diagnose(LOST), all_of_them, replace(LOST, sink=rows), deletes={"shop.orders": None})
    assert not free.destructive


def test_finishing_does_not_ask_again() -> None:
    assert not plan(seen(control=ControlFacts(4, RECOVERY)), Policy(approval="always")).needs_approval


def test_a_loss_makes_a_plan_destructive(monkeypatch: pytest.MonkeyPatch) -> None:
    lossy = replace(STRATEGIES["full_snapshot"], data_loss="100 rows")
    monkeypatch.setattr("airflow_cdc.decisions.diagnosis.strategy.STRATEGIES", {**STRATEGIES, "full_snapshot": lossy})
    made = plan(LOST)
    assert (made.destructive, made.needs_approval, made.data_loss) == (True, True, "100 rows")


def test_the_next_strategy_is_taken_when_the_first_is_hindered() -> None:
    both = Diagnosis("GTID_PURGED", "x", {}, ("finish", "full_snapshot"), "x")
    assert make_plan(both, POLICY, LOST).strategy == "full_snapshot"


def test_plan_survives_json() -> None:
    for made in (plan(LOST), plan(seen(source=Unknown("x")))):
        assert codec.read(Plan, plain(made)) == made


def test_the_source_of_the_healthy_case_can_be_replayed() -> None:
    assert (SOURCE.log_bin, SOURCE.binlog_format, SOURCE.row_image) == (True, "ROW", "FULL")


@pytest.mark.parametrize(
    ("expire", "read", "told"),
    [(3600, 600.0, (600.0, True)), (300, 600.0, (600.0, False)), (3600, None, (None, False)), (0, None, (None, True))],
)
def test_a_plan_says_how_long_it_reads_and_whether_the_log_is_kept_that_long(
    expire: int, read: float | None, told: tuple[float | None, bool]
) -> None:
    source = replace(SOURCE, gtid_purged=PURGED.gtid_purged, retention=Retention(expire, now=1.0))
    chosen = plan(seen(source=source, control=ControlFacts(3, read_seconds=read)))
    assert (chosen.seconds, chosen.fits_retention) == told
    assert codec.read(Plan, plain(chosen)) == chosen


def test_a_plan_that_reads_nothing_has_no_duration() -> None:
    assert (plan(HEALTHY).seconds, plan(HEALTHY).fits_retention) == (None, None)


THEIRS = SinkTableFacts(True, 7, None, 10, other=OtherCommit(7, 1.7e9, "spark"))


@pytest.mark.parametrize("approval", get_args(Approval))
@pytest.mark.parametrize(
    ("sink", "asks"),
    [
        (SinkFacts({**SINK.tables, "shop.orders": THEIRS}), True),
        (SinkFacts({**SINK.tables, "shop.orders": replace(THEIRS, other=None)}), False),
        (SinkFacts({**SINK.tables, "shop.orders": replace(SINK.tables["shop.orders"], other=THEIRS.other)}), False),
    ],
    ids=["another program's", "ours, with its stamp lost", "ours, which another program wrote to"],
)
def test_a_table_that_another_program_filled_is_taken_over_only_by_a_person(
    sink: SinkFacts, asks: bool, approval: Approval
) -> None:
    """Of another program's table nobody can say that its rows may go: the pipeline's policy is about ours."""
    chosen = plan(seen(sink=sink), Policy(approval=approval), asked="full_snapshot")
    assert chosen.needs_approval is (asks or approval == "always")
    assert ("shop.orders (version 7 of 2023-11-14T22:13:20+00:00 by spark)" in chosen.reason) is asks
    assert ("Stop that program first." in chosen.reason) is asks
    again = plan(seen(sink=sink, control=ControlFacts(4, RECOVERY)), Policy(approval="never"))
    assert (again.strategy, again.needs_approval) == ("finish", False)


CODES = {
    "AT_RISK",
    "SINK_WRITTEN_BY_OTHERS",
    "SINK_DIFFERS",
    "XA_ROLLED_BACK",
    "SINK_BEHIND",
    "LOG_INCOMPLETE",
    "CONNECTOR_MISCONFIGURED",
}
WARNINGS = [row for row in ROWS if row[2] in CODES and diagnose(row[1]).strategies == ("none",)]


@pytest.mark.parametrize("row", WARNINGS, ids=[row[0] for row in WARNINGS])
def test_a_warning_needs_no_recovery_and_refuses_none(row: Any) -> None:
    chosen = plan(row[1])
    assert (chosen.strategy, chosen.refused) == ("none", False)
    assert "No recovery is needed" in chosen.reason
