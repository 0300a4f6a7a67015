"""Outages carried on look by look: told once, repeated, resolved; what flaps stays one outage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest

from airflow_cdc.alerting.outage import (
    Alert,
    Outage,
    OutageLog,
    Sighting,
    Status,
    advance,
    proves_over,
)
from airflow_cdc.core.codec import plain
from airflow_cdc.core.pipeline import AlertPolicy
from airflow_cdc.kinds import rules_for
from tests.unit.builders import PIPELINE, PROBLEMS

START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
POLICY = AlertPolicy(repeat_interval=4 * 3600, unknown_for=900, keep_firing_for=300)

RANKS = rules_for(PIPELINE).ranks


@dataclass
class Watch:
    """Looks at given minutes, each carried on from the one before through JSON, as the control table keeps it."""

    policy: AlertPolicy = POLICY
    log: OutageLog = field(default_factory=OutageLog)

    def look(self, minute: float, code: str, epoch: int | None = 3, **more: bool) -> list[tuple[str, str]]:
        """The alerts of one look, as (status, deduplication key)."""
        return [(str(alert.status), alert.key) for alert in self.alerts(minute, code, epoch, **more)]

    def alerts(self, minute: float, code: str, epoch: int | None = 3, **more: bool) -> tuple[Alert, ...]:
        at = (START + timedelta(minutes=minute)).isoformat()
        progress = advance("shop", self.log, Sighting(code, epoch, at, **more), self.policy, RANKS)
        self.log = OutageLog.from_json(plain(progress.log))
        assert self.log == progress.log
        return progress.alerts

    @property
    def codes(self) -> set[str]:
        return {outage.code for outage in self.log.outages}


FIRED, RESOLVED = ("firing", "shop:TABLE_ADDED:3"), ("resolved", "shop:TABLE_ADDED:3")


def test_an_outage_is_told_once_however_often_it_is_seen() -> None:
    watch = Watch()
    assert [watch.look(minute, "TABLE_ADDED") for minute in range(12)] == [[FIRED], *([] for _ in range(11))]


def test_a_log_changes_only_when_something_happens() -> None:
    watch = Watch()
    watch.look(0, "TABLE_ADDED")
    version = watch.log.version
    watch.look(1, "TABLE_ADDED")
    assert watch.log.version == version


def test_it_is_repeated_after_each_interval_and_never_if_that_is_zero() -> None:
    watch, once = Watch(), Watch(replace(POLICY, repeat_interval=0))
    told = {hour: watch.alerts(60 * hour, "TABLE_ADDED") for hour in range(0, 12, 2)}
    assert {hour: [alert.outage.notifications for alert in alerts] for hour, alerts in told.items()} == {
        0: [1], 2: [], 4: [2], 6: [], 8: [3], 10: []
    }  # fmt: skip
    assert [once.look(60 * hour, "TABLE_ADDED") for hour in (0, 100, 1000)] == [[FIRED], [], []]


def test_what_only_warns_of_a_setting_is_not_repeated() -> None:
    watch = Watch()
    assert watch.look(0, "LOG_INCOMPLETE", standing=True)
    assert watch.look(60 * 24, "LOG_INCOMPLETE", standing=True) == []


def test_it_is_resolved_once_it_has_been_over_for_a_while() -> None:
    watch = Watch()
    watch.look(0, "TABLE_ADDED")
    assert [watch.look(minute, "HEALTHY") for minute in (1, 3, 5)] == [[], [], []]
    (alert,) = watch.alerts(6, "HEALTHY")
    over = (START + timedelta(minutes=1)).isoformat()
    assert (alert.status, alert.key, alert.outage.clear_since) == (Status.RESOLVED, "shop:TABLE_ADDED:3", over)
    assert watch.log.outages == ()
    assert watch.look(7, "HEALTHY") == []


def test_without_that_while_it_is_resolved_at_once() -> None:
    watch = Watch(replace(POLICY, keep_firing_for=0))
    watch.look(0, "TABLE_ADDED")
    assert watch.look(1, "HEALTHY") == [RESOLVED]


def test_what_comes_back_in_that_while_is_the_same_outage() -> None:
    watch = Watch()
    watch.look(0, "CONNECTOR_FAILED_TRANSIENT")
    for minute in range(1, 60):
        code = "HEALTHY" if minute % 3 else "CONNECTOR_FAILED_TRANSIENT"
        assert watch.look(minute, code) == []
    assert watch.log.outages[0].since == START.isoformat()


def test_what_comes_back_later_is_another_outage_of_the_same_key_with_another_recovery() -> None:
    watch = Watch()
    (first,) = watch.alerts(0, "TABLE_ADDED")
    watch.look(10, "HEALTHY")
    assert watch.look(20, "HEALTHY") == [RESOLVED]
    (again,) = watch.alerts(30, "TABLE_ADDED")
    assert first.key == again.key
    assert first.outage.run_id("shop") == "watch__shop__table_added_e3__20261123T090000"
    assert again.outage.run_id("shop") == "watch__shop__table_added_e3__20261123T093000"


# ---- two problems at once: a look names only the first -----------------------------------------


def test_a_problem_that_hides_another_does_not_end_it() -> None:
    """GTID_PURGED is judged before SELF_HEALED: a look that names it has not come to SELF_HEALED."""
    watch = Watch()
    assert watch.look(0, "SELF_HEALED") == [("firing", "shop:SELF_HEALED:3")]
    assert watch.look(1, "GTID_PURGED") == [("firing", "shop:GTID_PURGED:3")]
    assert watch.look(30, "GTID_PURGED") == []
    assert watch.codes == {"SELF_HEALED", "GTID_PURGED"}
    assert watch.look(31, "SELF_HEALED") == []  # told before; GTID_PURGED was looked at and does not hold
    assert watch.look(37, "SELF_HEALED") == [("resolved", "shop:GTID_PURGED:3")]
    assert watch.look(38, "HEALTHY") == []
    assert watch.look(44, "HEALTHY") == [("resolved", "shop:SELF_HEALED:3")]


def test_two_that_take_turns_are_told_once_each() -> None:
    watch = Watch()
    told = [watch.look(minute, "GTID_PURGED" if minute % 2 else "SELF_HEALED") for minute in range(60)]
    assert sorted(chain.from_iterable(told)) == [("firing", "shop:GTID_PURGED:3"), ("firing", "shop:SELF_HEALED:3")]


def test_a_permanent_warning_lets_what_came_before_it_be_resolved() -> None:
    watch = Watch()
    watch.look(0, "LOG_INCOMPLETE", standing=True)
    watch.look(5, "GTID_PURGED")
    watch.look(10, "LOG_INCOMPLETE", standing=True)
    assert watch.look(16, "LOG_INCOMPLETE", standing=True) == [("resolved", "shop:GTID_PURGED:3")]
    assert watch.codes == {"LOG_INCOMPLETE"}


@pytest.mark.parametrize("code", sorted({row.code for row in PROBLEMS} - {"HEALTHY"}))
def test_healthy_ends_every_problem_and_unknown_none(code: str) -> None:
    assert proves_over(code, "HEALTHY", RANKS)
    assert not proves_over(code, "UNKNOWN", RANKS)
    assert not proves_over(code, code, RANKS)


@pytest.mark.parametrize("current", sorted({row.code for row in PROBLEMS} - {"UNKNOWN"}))
def test_every_answer_ends_unknown(current: str) -> None:
    assert proves_over("UNKNOWN", current, RANKS)


def test_a_code_with_rows_on_both_sides_proves_nothing() -> None:
    """SOURCE_MISCONFIGURED is judged first, in the middle and last."""
    assert not proves_over("SOURCE_MISCONFIGURED", "GTID_PURGED", RANKS)
    assert not proves_over("GTID_PURGED", "SOURCE_MISCONFIGURED", RANKS)
    assert proves_over("SOURCE_MISCONFIGURED", "HEALTHY", RANKS)


# ---- recoveries and epochs ---------------------------------------------------------------------


def recovered(watch: Watch) -> None:
    """A recovery was triggered for the outage that is open."""
    outage = watch.log.outages[-1]
    watch.log = watch.log.with_outage(replace(outage, recovery=outage.run_id("shop")))


def test_a_recovery_that_is_being_carried_out_is_no_outage() -> None:
    watch = Watch()
    watch.look(0, "TABLE_ADDED")
    assert watch.look(2, "RECOVERY_OPEN", 4, attended=True) == []
    assert watch.look(600, "RECOVERY_OPEN", 4, attended=True) == []
    assert watch.look(601, "RECOVERY_OPEN", 4) == [("firing", "shop:RECOVERY_OPEN:4")]
    assert watch.look(602, "RECOVERY_OPEN", 4, attended=True) == []  # its task was cleared and works again


def test_a_recovery_that_did_not_help_is_told_in_its_new_epoch_and_not_followed_by_another() -> None:
    watch = Watch()
    watch.look(0, "TABLE_ADDED")
    recovered(watch)
    watch.look(2, "RECOVERY_OPEN", 4, attended=True)
    assert watch.look(5, "TABLE_ADDED", 4) == [RESOLVED, ("firing", "shop:TABLE_ADDED:4")]
    assert watch.log.outages[0].recovery.startswith("watch__shop__table_added_e3")


def test_the_same_problem_in_a_later_epoch_after_a_healthy_while_may_be_recovered() -> None:
    watch = Watch()
    watch.look(0, "TABLE_ADDED")
    recovered(watch)
    watch.look(5, "HEALTHY", 4)
    assert watch.look(11, "HEALTHY", 4) == [RESOLVED]
    watch.look(12, "TABLE_ADDED", 4)
    assert watch.log.outages[0].recovery == ""


# ---- what cannot be read -----------------------------------------------------------------------


def test_a_pipeline_that_cannot_be_read_is_told_after_a_time_and_resolved_when_it_can() -> None:
    watch = Watch()
    assert [watch.look(minute, "UNKNOWN", None) for minute in (0, 5, 14)] == [[], [], []]
    assert watch.look(15, "UNKNOWN", None) == [("firing", "shop:UNKNOWN:0")]
    assert watch.look(16, "UNKNOWN", 7) == []  # the control table can be read again, the source still cannot
    assert watch.look(255, "UNKNOWN", None) == [("firing", "shop:UNKNOWN:0")]
    assert watch.look(256, "GTID_PURGED", 7) == [("firing", "shop:GTID_PURGED:7")]
    assert watch.look(262, "GTID_PURGED", 7) == [("resolved", "shop:UNKNOWN:0")]


def test_a_short_unknown_is_never_told() -> None:
    watch = Watch()
    told = [watch.look(minute, "UNKNOWN" if minute % 5 else "HEALTHY") for minute in range(120)]
    assert list(chain.from_iterable(told)) == []
    assert watch.look(120, "HEALTHY") == []
    assert watch.log.outages == ()


def test_unknown_neither_ends_an_outage_nor_repeats_it() -> None:
    watch = Watch()
    watch.look(0, "TABLE_ADDED")
    assert watch.look(10, "UNKNOWN", None) == []
    assert watch.look(300, "UNKNOWN", None) == [("firing", "shop:UNKNOWN:0")]
    assert watch.codes == {"TABLE_ADDED", "UNKNOWN"}


def test_a_log_of_another_version_is_begun_anew() -> None:
    for stored in (None, {}, {"version": "x"}, {"outages": [{"colour": "red"}]}, {"outages": 5}):
        assert OutageLog.from_json(stored) == OutageLog()


def test_the_name_of_an_outage_has_nothing_that_moves() -> None:
    assert Outage("TABLE_ADDED", 3, START.isoformat()).name == "table_added_e3"
    assert Outage("TABLE_ADDED", 3, START.isoformat()).key("shop") == "shop:TABLE_ADDED:3"
