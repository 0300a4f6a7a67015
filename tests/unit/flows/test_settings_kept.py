"""What a recovery does to the connector: stopped before anything else, its settings kept before they change and put back as they were."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_cdc.core.errors import ConnectorError, DeadlineError, SourceError
from airflow_cdc.core.observation import ConnectorState, TaskState
from airflow_cdc.core.offset import OffsetEntry
from airflow_cdc.core.position import Availability, Available
from airflow_cdc.flows import connector, offsets
from airflow_cdc.flows.recovery import NoRecoveryError, change
from airflow_cdc.flows.run import Run
from tests.unit.builders import GTID_OFFSET, UUID
from tests.unit.clocks import waiting
from tests.unit.flows.recovering import DEBEZIUM, KEY, LOST, NAME, READ, now, recovering

# of a connector: what the recovery changed, and what it was before (None: it was not set)
KEPT = {"heartbeat.interval.ms": None, "snapshot.mode": "initial"}
CHANGED = {**DEBEZIUM, "heartbeat.interval.ms": "1000", "snapshot.mode": "recovery", "tasks.max": "1"}
BEFORE = {**DEBEZIUM, "snapshot.mode": "initial", "tasks.max": "1"}
WRITTEN = replace(READ, written_at="2026-11-21T09:00:00+00:00", written=GTID_OFFSET, backup=OffsetEntry(KEY, LOST))


def told(run: Run) -> list[str]:
    """What the connector was told, in order."""
    made: Any = run.clients.connector
    orders = {"stop", "resume", "restart", "change_config", "alter_offsets", "wait_running"}
    return [call[0] for call in made.mock_calls if call[0] in orders]


def config(run: Run) -> Any:
    """The configuration that the connector was given last."""
    made: Any = run.clients.connector
    _name, _before, after = made.change_config.call_args.args
    return after


def configured(run: Run, settings: dict[str, str]) -> Run:
    made: Any = run.clients.connector
    made.raw_config.return_value = settings
    return run


# ---- stopping ---------------------------------------------------------------------------------------------------------------


def test_the_connector_is_stopped_and_the_recovery_says_so() -> None:
    """Until it is resumed again, it does not count as past the watermark."""
    run = recovering(replace(READ, resumed_at="2026-11-21T09:00:00+00:00"))
    made: Any = run.clients.connector
    made.state.return_value = ConnectorState("RUNNING")
    done = connector.stop(run)
    assert done == {"connector": "shop", "state_before": "RUNNING", "state": "STOPPED"}
    assert told(run) == ["stop"]
    assert now(run).resumed_at == ""


def test_a_run_without_an_open_recovery_stops_nothing() -> None:
    """The lease alone is no permission: nothing would say that the connector has to be started again."""
    run = replace(recovering(), run_id="another")
    with pytest.raises(NoRecoveryError, match="belongs to run r"):
        connector.stop(run)
    assert told(run) == []


# ---- settings -----------------------------------------------------------------------------------------------------------------


def test_what_a_setting_was_is_stored_before_it_is_changed() -> None:
    """A run that is killed between the two must still be able to put it back."""
    run = configured(recovering(), BEFORE)
    made: Any = run.clients.connector
    stored_first: list[Any] = []
    made.change_config.side_effect = lambda *_: stored_first.append(now(run).settings_before)
    connector.change_settings(run, {"heartbeat.interval.ms": "1000", "snapshot.mode": "recovery", "tasks.max": "1"})
    assert stored_first == [KEPT]
    assert config(run) == CHANGED


def test_a_connector_that_has_the_settings_already_is_not_restarted_for_them() -> None:
    """Each new configuration restarts its task."""
    run = configured(recovering(), CHANGED)
    connector.change_settings(run, {"heartbeat.interval.ms": "1000"})
    assert told(run) == []
    assert now(run).settings_before == {}


def test_a_second_change_keeps_the_value_from_before_the_recovery() -> None:
    run = configured(recovering(replace(READ, settings_before={"snapshot.mode": "initial"})), CHANGED)
    connector.change_settings(run, {"snapshot.mode": "no_data"})
    assert now(run).settings_before == {"snapshot.mode": "initial"}


def test_settings_are_put_back_as_they_were_and_one_that_was_not_set_is_removed() -> None:
    run = configured(recovering(replace(READ, settings_before=KEPT)), CHANGED)
    assert connector.restore(run) == KEPT
    assert config(run) == BEFORE
    assert now(run).settings_before == {}


def test_some_settings_are_put_back_and_the_others_stay_noted() -> None:
    run = configured(recovering(replace(READ, settings_before=KEPT)), CHANGED)
    assert connector.restore(run, ["snapshot.mode"]) == {"snapshot.mode": "initial"}
    assert config(run) == {**CHANGED, "snapshot.mode": "initial"}
    assert now(run).settings_before == {"heartbeat.interval.ms": None}


@pytest.mark.parametrize("keys", [None, ["max.batch.size"]])
def test_where_nothing_was_changed_nothing_is_put_back(keys: list[str] | None) -> None:
    before = {} if keys is None else KEPT
    run = configured(recovering(replace(READ, settings_before=before)), CHANGED)
    assert connector.restore(run, keys) == {}
    assert told(run) == []


# ---- the restart that puts them back --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [{"event": 4}, {"row": 2}, {"event": 4, "row": 2}])
def test_inv_38_a_transaction_that_was_half_sent_is_sent_again_whole(
    monkeypatch: pytest.MonkeyPatch, half: dict[str, int]
) -> None:
    """An offset within it says how many events to skip, and a row that was sent in part would be skipped whole."""
    run = configured(recovering(replace(READ, settings_before=KEPT)), CHANGED)
    made: Any = run.clients.connector
    made.committed_offset.return_value = {**GTID_OFFSET, **half}
    written: list[Any] = []

    def write(_run: Run, key: Any, before: Any, value: Any) -> None:
        written.append((key, before, value, told(run)))

    monkeypatch.setattr(offsets, "write", write)
    assert connector.restore_settings(run) == KEPT
    assert written == [(KEY, {**GTID_OFFSET, **half}, GTID_OFFSET, ["stop", "change_config"])]
    assert told(run) == ["stop", "change_config", "resume", "wait_running"]


@pytest.mark.parametrize("offset", [GTID_OFFSET, {**GTID_OFFSET, "event": 0, "row": 0}, None])
def test_an_offset_between_two_transactions_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, offset: Any) -> None:
    run = configured(recovering(replace(READ, settings_before=KEPT)), CHANGED)
    made: Any = run.clients.connector
    made.committed_offset.return_value = offset
    monkeypatch.setattr(offsets, "write", lambda *_: pytest.fail("an offset was written"))
    connector.restore_settings(run)
    assert told(run) == ["stop", "change_config", "resume", "wait_running"]


def test_a_connector_whose_settings_were_not_changed_is_not_restarted_to_close_a_recovery() -> None:
    run = recovering()
    assert connector.restore_settings(run) == {}
    assert told(run) == []


# ---- starting -------------------------------------------------------------------------------------------------------------------


def test_a_connector_whose_offset_is_not_written_yet_stays_stopped() -> None:
    run = recovering()
    with pytest.raises(ConnectorError, match="not written yet: the connector stays stopped") as refused:
        connector.resume(run)
    assert refused.value.todo == "Clear the task reset_offset."
    assert told(run) == []


class Resumed:
    """A start whose parts are noted in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, differences: dict[str, tuple[str, ...]]) -> None:
        doubts = replace(READ.history, differences=differences)
        self.run = recovering(replace(WRITTEN, history=doubts))
        self.order: list[str] = []
        self.rebuilt: list[Any] = []
        made: Any = self.run.clients.connector
        source: Any = self.run.clients.source
        source.still_available.return_value = Available(Availability.AVAILABLE, "")
        made.committed_offset.return_value = dict(GTID_OFFSET)
        made.state.return_value = ConnectorState("STOPPED")
        made.rebuilding.return_value = {"snapshot.mode": "recovery"}
        for name in ("resume", "wait_running", "stop"):
            getattr(made, name).side_effect = lambda *_, name=name, **__: self.order.append(name)
        for name, answer in {
            "set_converter": (),
            "wait_reading": "offset",
            "write": None,
            "wait_past": offsets.committed(self.run),
        }.items():
            self.note(monkeypatch, name, answer)
        monkeypatch.setattr(connector, "history_rebuilt", self._rebuilt)
        monkeypatch.setattr(connector, "history", lambda _run: newest_at(7))
        monkeypatch.setattr(connector, "change_settings", lambda _run, wanted: self.order.append(f"set {max(wanted)}"))
        monkeypatch.setattr(connector, "restore", lambda _run, keys: self.order.append(f"put back {sorted(keys)}"))

    def _rebuilt(self, _run: Run, since: int, tables: Any) -> None:
        self.order.append("history_rebuilt")
        self.rebuilt.append((since, tuple(tables)))

    def note(self, monkeypatch: pytest.MonkeyPatch, name: str, answer: Any) -> None:
        def called(*_: Any, **__: Any) -> Any:
            self.order.append(name)
            return answer

        monkeypatch.setattr(connector, name, called)


def newest_at(ms: int) -> Any:
    """A schema history whose newest definition is of that time, and is the source's."""
    return SimpleNamespace(newest_ms=ms, differences=lambda _tables: {})


def test_a_connector_is_past_the_watermark_and_reading_by_itself_when_it_counts_as_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Resumed(monkeypatch, {})
    done = connector.resume(made.run)
    assert made.order[0] == "set_converter"
    assert made.order[2:] == ["resume", "wait_running", "wait_reading", "wait_past"]
    assert (done["state"], done["history_rebuilt"], done["offset"], done["shown_by"]) == (
        "RUNNING",
        False,
        GTID_OFFSET,
        "offset",
    )
    assert now(made.run).resumed_at


def test_inv_12_a_history_that_differs_is_rebuilt_by_one_start_and_read_from_the_watermark_by_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mode that rebuilds it would rebuild it at every start, with definitions from after the events."""
    made = Resumed(monkeypatch, {"shop.orders": ("column a: only in the source",)})
    done = connector.resume(made.run)
    assert made.order == [
        "set_converter",
        "set snapshot.mode",
        "resume",
        "wait_running",
        "history_rebuilt",
        "stop",
        "write",
        "put back ['snapshot.mode']",
        "resume",
        "wait_running",
        "wait_reading",
        "wait_past",
    ]
    assert done["history_rebuilt"] is True
    assert made.rebuilt == [(7, (NAME,))]
    assert now(made.run).history.differences == {}


# ---- restarting -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "order"), [("STOPPED", "resume"), ("PAUSED", "resume"), ("FAILED", "restart"), ("RUNNING", "restart")]
)
def test_one_that_rests_is_started_and_one_that_failed_is_restarted_once(state: str, order: str) -> None:
    run = recovering()
    made: Any = run.clients.connector
    running = ConnectorState("RUNNING", (TaskState(0, "RUNNING"),))
    made.state.side_effect = [ConnectorState(state), running]
    assert connector.restart(run) == {"connector": "shop", "state": "RUNNING"}
    assert told(run) == [order, "wait_running"]


def test_a_failure_that_is_seen_right_after_a_restart_may_be_the_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch, connector)
    run = recovering()
    made: Any = run.clients.connector
    running = ConnectorState("RUNNING", (TaskState(0, "RUNNING"),))
    made.state.side_effect = [ConnectorState("FAILED"), ConnectorState("FAILED"), running]
    assert connector.restart(run)["state"] == "RUNNING"


def test_one_that_stays_failed_ends_the_restart_with_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch, connector)
    run = recovering()
    made: Any = run.clients.connector
    made.state.return_value = ConnectorState("RUNNING", (TaskState(0, "FAILED"),))
    with pytest.raises(DeadlineError, match=r"connector shop to restart.*RUNNING, FAILED"):
        connector.restart(run)


def test_a_purge_of_the_watermark_is_the_sources_error_and_not_the_connectors() -> None:
    run = recovering(WRITTEN)
    source: Any = run.clients.source
    source.still_available.return_value = Available(Availability.LOST, "1-80 were purged")
    source.keep_longer = "Keep it longer."
    with pytest.raises(SourceError, match="1-80 were purged"):
        connector.resume(run)
    assert told(run) == []


HERE, BEFORE_W, BEYOND_W = GTID_OFFSET, LOST, {**GTID_OFFSET, "gtids": f"{UUID}:1-99"}


@pytest.mark.parametrize(
    ("kept", "offset", "asked"),
    [
        (False, HERE, True),
        (False, BEFORE_W, True),
        (False, BEYOND_W, False),
        (False, None, True),
        (True, HERE, True),
        (True, BEFORE_W, False),
        (True, BEYOND_W, False),
        (True, None, True),
    ],
)
def test_a_purged_watermark_ends_the_start_only_of_a_connector_that_still_needs_it(
    monkeypatch: pytest.MonkeyPatch, kept: bool, offset: dict[str, Any] | None, asked: bool
) -> None:
    """One that has read past it, or that goes on from its own offset, needs another part of the log."""
    made = Resumed(monkeypatch, {})
    source, client = made.run.clients.source, made.run.clients.connector
    change(made.run, lambda now: replace(now, offset_kept=kept))
    source.still_available.return_value = Available(Availability.LOST, "1-80 were purged")  # type: ignore[attr-defined]
    source.keep_longer = "Keep it longer."  # type: ignore[misc]
    client.committed_offset.return_value = offset  # type: ignore[attr-defined]
    monkeypatch.setattr(connector, "moved_since", lambda *_: False)
    if asked:
        with pytest.raises(SourceError, match="1-80 were purged"):
            connector.resume(made.run)
        assert made.order == []
    else:
        assert connector.resume(made.run)["state"] == "RUNNING"
