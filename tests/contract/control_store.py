"""What every control store must do: the suite that each one's tests inherit (tests/contract, tests/integration)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import pytest

from airflow_cdc.control.control import Control
from airflow_cdc.control.document import KEEP_RUNS, NEWEST_FORMAT
from airflow_cdc.core.codec import plain
from airflow_cdc.core.errors import LeaseHeldError, RecoveryOpenError, StaleHeadError, UnknownStateError, UsageError
from airflow_cdc.core.observation import OpenFacts
from airflow_cdc.core.ports import ControlStore, StoredDocument
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.core.xa import XaState
from airflow_cdc.reports.stored import LASTING
from stack.process import wait_until
from tests.contract.control_worker import add_one
from tests.recoveries import advance_to

ROOT = Path(__file__).parents[2]
LATE_S = 240.0


class Clock:
    """A machine's clock, which may be `ahead` of true time, and a stopwatch; both stand until time is moved forward."""

    def __init__(self, time: Clock | None = None, *, ahead: float = 0.0) -> None:
        self._time, self._ahead = time, timedelta(seconds=ahead)
        self._now = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def now(self) -> datetime:
        return self._now if self._time is None else self._time.now

    def __call__(self) -> datetime:
        return self.now + self._ahead

    def elapsed(self) -> float:
        return self.now.timestamp()

    def forward(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)


def on_a_machine(store: ControlStore, clock: Clock, sleep: Callable[[float], None]) -> Control:
    """The document as a process on a machine with this clock has it; `sleep` says what happens while it waits."""
    return Control(store, "shop", clock=clock, elapsed=clock.elapsed, sleep=sleep)


class StoreBench(Protocol):
    """How the suite opens a store: here, and in a process of its own by `spec` (see control_worker.opened)."""

    @property
    def spec(self) -> dict[str, Any]: ...

    def open(self) -> ControlStore: ...


class LosingStore:
    """A store whose first answer to a swap is lost; `meanwhile` happens before the caller looks again."""

    def __init__(self, store: ControlStore, *, landed: bool, meanwhile: Any) -> None:
        self._store, self._landed, self._meanwhile = store, landed, meanwhile
        self.where, self._calls = store.where, 0

    def place(self, pipeline: str) -> str:
        return self._store.place(pipeline)

    def load(self, pipeline: str) -> StoredDocument | None:
        return self._store.load(pipeline)

    def swap(self, pipeline: str, expected: str | None, text: str) -> None:
        self._calls += 1
        if self._calls > 1:
            self._store.swap(pipeline, expected, text)
            return
        if self._landed:
            self._store.swap(pipeline, expected, text)
        self._meanwhile()
        raise UnknownStateError("502 bad gateway")


class Worker:
    """A process that changes the documents of a bench (see control_worker)."""

    def __init__(self, bench: StoreBench, what: str, times: int, name: str, folder: Path) -> None:
        argv = [sys.executable, "-m", "tests.contract.control_worker", json.dumps(bench.spec), what, str(times), name]
        self._process = subprocess.Popen([*argv, str(folder)], cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def ended(self) -> tuple[int, str]:
        """Wait for its end: exit status and what it said."""
        said = self._process.communicate(timeout=LATE_S)[1]
        return self._process.returncode, said

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait_stopped(self) -> None:
        """Until it has stopped itself."""

        def stopped() -> bool | None:
            if self._process.poll() is not None:
                raise AssertionError(self.ended())
            return True if _process_state(self._process.pid) == "T" else None

        wait_until(stopped, timeout=LATE_S, what="the worker to stop itself")

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def _process_state(pid: int) -> str:
    """One letter, as in proc(5)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def hammer(bench: StoreBench, folder: Path, what: str, workers: int, times: int) -> None:
    """Run the worker in several processes at once and wait for all of them to end well."""
    running = [Worker(bench, what, times, f"w{n}", folder) for n in range(workers)]
    ends = [worker.ended() for worker in running]
    assert [status for status, _ in ends] == [0] * workers, ends


class ControlStoreSuite:
    """Inherit it and give the fixture `bench`: a store that is empty for each test."""

    @pytest.fixture
    def bench(self) -> StoreBench:
        raise NotImplementedError

    @pytest.fixture
    def store(self, bench: StoreBench) -> ControlStore:
        return bench.open()

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def control(self, store: ControlStore, clock: Clock) -> Control:
        return on_a_machine(store, clock, clock.forward)

    # the store itself

    def test_nothing_is_there_before_the_first_write(self, store: ControlStore) -> None:
        assert store.load("shop") is None
        assert Control(store, "shop").state() == {
            "epoch": 0,
            "epochs": {},
            "lease": None,
            "recovery": None,
            "ledger": {},
            "stamps": {},
            "checks": {},
            "xa": {},
            "abandoned": {},
            "audit": [],
        }
        assert store.load("shop") is None

    def test_a_document_comes_back_as_it_was_written(self, store: ControlStore) -> None:
        text = json.dumps({"b": "🦆 é '\"\\ \n", "a": [1, None], "long": "x" * 300_000}, ensure_ascii=False)
        store.swap("shop", None, text)
        loaded = store.load("shop")
        assert loaded is not None
        assert loaded.text == text

    def test_a_stale_version_is_refused_and_changes_nothing(self, store: ControlStore) -> None:
        store.swap("shop", None, "1")
        first = store.load("shop")
        assert first is not None
        store.swap("shop", first.version, "2")
        second = store.load("shop")
        for stale in (first.version, None):
            with pytest.raises(StaleHeadError):
                store.swap("shop", stale, "3")
            assert store.load("shop") == second
        assert second is not None
        assert (second.text, second.version != first.version) == ("2", True)

    def test_pipelines_are_told_apart_by_every_letter(self, store: ControlStore) -> None:
        store.swap("shop", None, "lower")
        assert store.load("Shop") is None
        store.swap("Shop", None, "upper")
        lower, upper = store.load("shop"), store.load("Shop")
        assert lower is not None
        assert upper is not None
        assert (lower.text, upper.text) == ("lower", "upper")

    # two writers

    @pytest.mark.parametrize("landed", [True, False])
    def test_a_write_whose_answer_is_lost_is_made_once(
        self, control: Control, store: ControlStore, bench: StoreBench, *, landed: bool
    ) -> None:
        control.update(add_one, "one")
        other = Control(bench.open(), "shop")
        losing = LosingStore(store, landed=landed, meanwhile=lambda: [other.update(add_one, "other") for _ in range(8)])
        Control(losing, "shop").update(add_one, "mine")
        assert other.state()["stamps"] == {"count": 1 + 8 + 1}

    def test_no_update_is_lost_between_processes(self, bench: StoreBench, store: ControlStore, tmp_path: Path) -> None:
        """The table does not exist yet: the first writes of all of them meet."""
        hammer(bench, tmp_path, "document", workers=4, times=15)
        state = Control(store, "shop").state()
        assert state["stamps"] == {"count": 60}
        assert state["ledger"]["run"]["winner"] in {"w0", "w1", "w2", "w3"}

    def test_the_lease_is_held_by_one_process_at_a_time(
        self, bench: StoreBench, store: ControlStore, tmp_path: Path
    ) -> None:
        (tmp_path / "counter").write_text("0")
        hammer(bench, tmp_path, "lease", workers=4, times=6)
        assert (tmp_path / "counter").read_text() == "24"
        assert Control(store, "shop").state()["lease"] is None

    def test_a_writer_that_slept_between_reading_and_writing_takes_nothing_back(
        self, bench: StoreBench, control: Control, tmp_path: Path
    ) -> None:
        control.update(add_one, "one")
        worker = Worker(bench, "asleep", 1, "w", tmp_path)
        worker.wait_stopped()
        control.update(add_one, "while it sleeps")
        worker.signal(signal.SIGCONT)
        assert worker.ended() == (0, "")
        assert control.state()["stamps"] == {"count": 3}

    def test_a_writer_that_is_killed_leaves_a_whole_document_and_no_lock(
        self, bench: StoreBench, control: Control, tmp_path: Path
    ) -> None:
        """Killed before it writes, and while it writes without end: what it was told stands, stands."""
        asleep = Worker(bench, "asleep", 1, "w", tmp_path)
        asleep.wait_stopped()
        asleep.kill()
        assert control.state()["stamps"] == {}
        acknowledged = tmp_path / "acknowledged"
        before = 0
        for more in (1, 3, 5):
            acknowledged.write_text("0")
            worker = Worker(bench, "endless", 0, "w", tmp_path)
            wait_until(
                lambda more=more: True if int(acknowledged.read_text() or 0) >= more else None,  # type: ignore[misc]
                timeout=LATE_S,
                what=f"{more} writes",
                interval=0.001,
            )
            worker.kill()
            count = control.update(add_one, "after the kill")["stamps"]["count"] - 1
            assert count - before - int(acknowledged.read_text()) in (0, 1)
            before = count + 1

    # the document

    def test_a_document_of_a_newer_format_is_refused_by_its_number(self, control: Control, store: ControlStore) -> None:
        store.swap("shop", None, json.dumps({"format": NEWEST_FORMAT + 1}))
        with pytest.raises(UnknownStateError, match=f"its format is {NEWEST_FORMAT + 1}"):
            control.state()
        with pytest.raises(UnknownStateError, match="its format is"):
            control.acquire("a", 30)

    @pytest.mark.parametrize("text", ["", "[]", "{", "null"])
    def test_what_is_no_document_is_unknown_not_empty(self, control: Control, store: ControlStore, text: str) -> None:
        store.swap("shop", None, text)
        with pytest.raises(UnknownStateError, match=r"although it has been written to|cannot be read"):
            control.state()
        with pytest.raises(UnknownStateError, match=r"although it has been written to|cannot be read"):
            control.open_recovery("run")

    def test_an_update_is_seen_by_others(self, control: Control, store: ControlStore) -> None:
        returned = control.update(add_one, "one")
        assert returned["stamps"] == {"count": 1}
        assert Control(store, "shop").state() == returned
        assert Control(store, "other").state()["stamps"] == {}

    def test_a_refusal_leaves_the_document_as_it_is(self, control: Control) -> None:
        control.update(add_one, "one")

        def refuse(_: Any) -> None:
            raise UsageError("no")

        with pytest.raises(UsageError):
            control.update(refuse, "refused")
        assert control.state()["stamps"] == {"count": 1}

    def test_text_of_every_kind_survives(self, control: Control) -> None:
        value = {"emoji": "🦆", "quote": "a'\"b", "nested": [1, None, {"x": 1.5}], "newline": "a\nb"}
        control.ledger_set("run", "facts", value)
        assert control.ledger_get("run") == {"facts": value}

    def test_a_lost_update_is_made_on_the_newest_document(self, control: Control, store: ControlStore) -> None:
        """Another writer comes between reading and committing: the change is made again on what that one wrote."""
        control.update(add_one, "one")
        seen: list[int] = []

        def change(state: dict[str, Any]) -> dict[str, Any]:
            seen.append(state["stamps"]["count"])
            if len(seen) == 1:
                Control(store, "shop").update(add_one, "in between")
            return add_one(state)

        assert control.update(change, "mine")["stamps"] == {"count": 3}
        assert seen == [1, 2]

    def test_a_lease_keeps_others_out_until_it_runs_out(self, control: Control, clock: Clock) -> None:
        lease = control.acquire("a", 30)
        assert (lease.owner, lease.expires_at, lease.seconds) == ("a", "2026-01-01T00:00:30.000+00:00", 30)
        clock.forward(29)
        with pytest.raises(LeaseHeldError, match="a until 2026-01-01T00:00:30") as caught:
            control.acquire("b", 30)
        assert (caught.value.owner, caught.value.expires_at) == ("a", lease.expires_at)
        clock.forward(1)
        assert control.acquire("b", 30).owner == "b"

    def test_inv_46_a_valid_lease_is_safe_from_a_machine_whose_clock_is_ahead(
        self, store: ControlStore, clock: Clock
    ) -> None:
        """A lease of 120 s, renewed every 40 s: for a clock 130 s ahead it has always expired."""
        holder = on_a_machine(store, clock, clock.forward)
        holder.acquire("a", 120)

        def meanwhile(seconds: float) -> None:
            before, now = clock.elapsed() // 40, (clock.elapsed() + seconds) // 40
            clock.forward(seconds)
            if now > before:
                holder.renew("a", 120)

        for ahead in (130, 3600, 86_400):
            with pytest.raises(LeaseHeldError, match="has been renewed: a clock is wrong"):
                on_a_machine(store, Clock(clock, ahead=ahead), meanwhile).acquire("b", 120)
        assert holder.renew("a", 120).owner == "a"

    @pytest.mark.parametrize("ahead", [-86_400, -130, 0, 130, 86_400])
    def test_inv_46_a_dead_owners_lease_is_free_soon_whatever_the_clocks_say(
        self, store: ControlStore, clock: Clock, ahead: float
    ) -> None:
        on_a_machine(store, Clock(clock, ahead=ahead), clock.forward).acquire("dead", 120)
        taker, began = on_a_machine(store, clock, clock.forward), clock.elapsed()

        def taken() -> bool:
            try:
                return taker.acquire("b", 120).owner == "b"
            except LeaseHeldError:
                return False

        while not taken():
            clock.forward(60)  # who is refused asks again with its next run
        assert clock.elapsed() - began <= 2 * 120 + 60

    def test_inv_37_nobody_who_cannot_ask_airflow_takes_the_lease_of_a_dag_run(
        self, control: Control, clock: Clock
    ) -> None:
        control.acquire("run:1", 30, dag_id="cdc_recovery")
        clock.forward(3600)
        with pytest.raises(LeaseHeldError, match="Airflow does not say that the run has ended"):
            control.acquire("apply", 30)
        assert control.acquire("run:2", 30, ended=lambda lease: lease.owner == "run:1").owner == "run:2"

    def test_an_owner_renews_by_acquiring_again(self, control: Control, clock: Clock) -> None:
        control.acquire("a", 30)
        clock.forward(20)
        assert control.acquire("a", 30).expires_at == "2026-01-01T00:00:50.000+00:00"

    def test_a_lease_that_ran_out_is_renewed_unless_it_was_taken(self, control: Control, clock: Clock) -> None:
        control.acquire("a", 30)
        clock.forward(100)
        assert control.renew("a", 30).owner == "a"
        clock.forward(31)
        assert control.acquire("b", 30).owner == "b"
        with pytest.raises(LeaseHeldError, match="lease of a is lost: b holds it"):
            control.renew("a", 30)

    def test_a_lease_that_was_never_taken_cannot_be_renewed(self, control: Control) -> None:
        with pytest.raises(LeaseHeldError, match="is lost"):
            control.renew("a", 30)

    def test_only_the_owner_releases(self, control: Control) -> None:
        control.acquire("a", 30)
        assert control.release("b") is False
        assert control.state()["lease"]["owner"] == "a"
        assert control.release("a") is True
        assert control.release("a") is False
        assert control.facts().lease is None

    def test_inv_01_an_open_recovery_stays_until_it_is_closed(self, control: Control, store: ControlStore) -> None:
        epoch = control.open_recovery("r1", tables=["shop.orders"])
        assert epoch == 1
        advance_to(control, "r1", fence={"t": {"id": "i", "partitions": {"0": 1}}})
        facts = Control(store, "shop").facts()
        assert facts.epoch == 1
        assert facts.recovery == OpenFacts("r1", "2026-01-01T00:00:00.000+00:00", tables=("shop.orders",))
        assert Control(store, "shop").state()["recovery"] == {
            "format": 2,
            "run_id": "r1",
            "epoch": 1,
            "opened_at": "2026-01-01T00:00:00.000+00:00",
            "tables": ["shop.orders"],
            "fence": {"t": {"id": "i", "partitions": {"0": 1}}},
        }
        control.close_recovery("r1")
        assert Control(store, "shop").facts().recovery is None

    def test_the_epoch_rises_once_for_one_run(self, control: Control) -> None:
        assert control.open_recovery("r1") == 1
        assert control.open_recovery("r1", tables=["other"]) == 1
        assert control.state()["recovery"]["tables"] == []
        control.close_recovery("r1")
        assert control.open_recovery("r1") == 1
        assert control.state()["recovery"] is None
        assert control.open_recovery("r2") == 2
        assert control.state()["epoch"] == 2

    def test_a_second_recovery_waits_for_the_first(self, control: Control) -> None:
        control.open_recovery("r1")
        with pytest.raises(RecoveryOpenError, match=r"recovery r1 \(epoch 1\) is open") as caught:
            control.open_recovery("r2")
        assert (caught.value.run_id, caught.value.epoch) == ("r1", 1)
        assert control.state()["epoch"] == 1

    def test_closing_is_by_name_and_may_be_repeated(self, control: Control) -> None:
        control.open_recovery("r1")
        with pytest.raises(UsageError, match="r2 is open; open is r1"):
            control.close_recovery("r2")
        control.close_recovery("r1", "abandoned")
        control.close_recovery("r1")
        assert control.ledger_get("r1")["recovery"] == "abandoned"

    def test_what_a_recovery_was_opened_with_is_fixed(self, control: Control) -> None:
        control.open_recovery("r1")
        after = advance_to(control, "r1", epoch=9, opened_at="x", resuming="n")
        assert (after.epoch, after.opened_at[:4], after.resuming) == (1, "2026", "n")
        with pytest.raises(UsageError, match="r2 is open; open is r1"):
            advance_to(control, "r2", resuming="n")

    def test_the_first_write_of_a_run_wins(self, control: Control, store: ControlStore) -> None:
        assert control.ledger_once("r1", "offset_backup", {"pos": 4}) == {"pos": 4}
        assert Control(store, "shop").ledger_once("r1", "offset_backup", {"pos": 999}) == {"pos": 4}
        control.ledger_set("r1", "step", "a")
        control.ledger_set("r1", "step", "b")
        assert control.ledger_get("r1") == {"offset_backup": {"pos": 4}, "step": "b"}
        assert control.ledger_get("r2") == {}

    def test_a_noted_none_also_stands(self, control: Control) -> None:
        assert control.ledger_once("r1", "hold", None) is None
        assert control.ledger_once("r1", "hold", "late") is None

    def test_the_oldest_runs_fall_out_but_never_the_open_one(self, control: Control) -> None:
        control.open_recovery("open")
        for number in range(25):
            control.ledger_set(f"r{number}", "n", number)
        runs = list(control.state()["ledger"])
        assert runs == ["open", *(f"r{number}" for number in range(5, 25))]

    def test_applies_push_out_no_recovery_and_no_check(self, control: Control) -> None:
        """An apply runs every minute: what a recovery or a night did must still be there the next day."""
        control.open_recovery("recovery")
        control.close_recovery("recovery")
        control.ledger_set("asked", "decision", {"plan": {}})
        control.check_done("night", "shop.orders", {"at": "x"}, {"verdict": "MATCH"})
        for number in range(60):
            control.ledger_set(f"apply-{number}", "step:apply_changes", {"state": "done"})
        runs = [run for run in control.state()["ledger"] if not run.startswith(LASTING)]
        assert runs == ["recovery", "asked", "night", *(f"apply-{number}" for number in range(40, 60))]
        for number in range(25):
            control.check_done(f"night-{number}", "shop.orders", {"at": "x"}, {"verdict": "MATCH"})
        runs = list(control.state()["ledger"])
        assert [run for run in runs if run.startswith("night")] == [f"night-{number}" for number in range(5, 25)]
        assert "recovery" in runs

    def test_inv_32_every_comparison_keeps_the_sources_xa_counters_and_only_an_equal_table_settles_a_doubt(
        self, control: Control
    ) -> None:
        early, late = XaState("uuid", 1000.0, 5, 1), XaState("uuid", 1000.0, 9, 4)
        control.compared(early, {"shop.orders": Verdict.MATCH, "shop.items": Verdict.INCONCLUSIVE})
        assert control.facts().compared_xa == {"shop.orders": early, "shop.items": early}
        control.compared(late, {"shop.orders": Verdict.MISMATCH, "shop.items": Verdict.MATCH})
        assert control.facts().compared_xa == {"shop.orders": early, "shop.items": late}
        control.compared(None, {"shop.orders": Verdict.MATCH})  # a source that has none, or does not say
        assert control.facts().compared_xa["shop.orders"] == early

    def test_inv_32_a_recovery_keeps_the_counters_for_the_tables_that_it_published_and_no_others(
        self, control: Control
    ) -> None:
        """Before a recovery, another table was compared, and a transaction of it was rolled back since: still in doubt."""
        early, late = XaState("uuid", 1000.0, 5, 1), XaState("uuid", 1000.0, 9, 4)
        control.compared(early, {"shop.orders": Verdict.MATCH, "shop.items": Verdict.MATCH})
        control.open_recovery("r1", tables=["shop.orders", "shop.new"])
        verified = {name: {"verdict": "MATCH", "xa": plain(late)} for name in ("shop.orders", "shop.new")}
        advance_to(control, "r1", verified=verified, published={"shop.orders": 7, "shop.new": 8})
        control.close_recovery("r1")
        assert control.facts().compared_xa == {"shop.orders": late, "shop.items": early, "shop.new": late}

    def test_counters_that_nightly_checks_kept_before_they_had_a_place_of_their_own_still_count(
        self, control: Control
    ) -> None:
        early, late = XaState("uuid", 1000.0, 5, 1), XaState("uuid", 1000.0, 9, 4)
        control.check_done("n1", "shop.orders", {"at": "1", "xa": plain(early)}, {"verdict": "MATCH"})
        assert control.facts().compared_xa == {"shop.orders": early}
        control.compared(late, {"shop.orders": Verdict.MATCH})
        assert control.facts().compared_xa == {"shop.orders": late}

    def test_a_check_is_kept_for_the_next_night_and_in_its_run(self, control: Control) -> None:
        control.check_done("n1", "shop.orders", {"at": "1"}, {"verdict": "MATCH", "samples": ["a"]})
        control.check_done("n1", "shop.items", {"at": "1"}, {"verdict": "MISMATCH"})
        control.check_done("n2", "shop.orders", {"at": "2"}, {"verdict": "MATCH", "samples": ["b"]})
        assert control.checks() == {"shop.orders": {"at": "2"}, "shop.items": {"at": "1"}}
        # of a night that is over only the verdicts stay in the document; its report is a file
        assert control.ledger_get("n1")["check"] == {
            "shop.orders": {"verdict": "MATCH"},
            "shop.items": {"verdict": "MISMATCH"},
        }
        assert control.ledger_get("n2")["check"] == {"shop.orders": {"verdict": "MATCH", "samples": ["b"]}}

    def test_what_must_last_does_not_fall_out_with_the_runs(self, control: Control) -> None:
        control.ledger_set(f"{LASTING}watch", "outage", "gtid_purged_1")
        control.open_recovery("first")
        control.ledger_set("first", "step:snapshot", {"seconds": 12.5})
        control.close_recovery("first")
        for n in range(KEEP_RUNS + 5):
            control.ledger_set(f"apply-{n}", "step:apply_changes", {"seconds": 1})
        assert control.ledger_get(f"{LASTING}watch") == {"outage": "gtid_purged_1"}
        facts = control.facts()
        assert (facts.closed_at[:10], facts.read_seconds) == ("2026-01-01", 12.5)

    def test_a_recovery_that_was_abandoned_was_not_closed(self, control: Control) -> None:
        control.open_recovery("first")
        control.close_recovery("first", "abandoned")
        assert control.facts().closed_at == ""

    def test_stamps_are_mirrored(self, control: Control) -> None:
        stamp = Stamp(3, {"file": "f"}, {"t": TopicOffsets("i", {0: 4})}, 77)
        control.mirror_stamps({"shop.orders": stamp, "shop.items": Stamp(3)})
        control.mirror_stamps({"shop.items": Stamp(4)})
        assert control.mirrored_stamp("shop.orders") == stamp
        assert control.mirrored_stamp("shop.items") == Stamp(4)
        assert control.mirrored_stamp("shop.none") is None
        kept = control.mirrored_stamps()
        control.mirror_stamps({"shop.items": Stamp(5)})
        assert (kept("shop.items"), kept("shop.none"), control.mirrored_stamps()("shop.items")) == (
            Stamp(4),
            None,
            Stamp(5),
        )

    def test_what_people_change_by_hand_leaves_a_line(self, control: Control) -> None:
        control.audit("ann", "offset", None, {"file": "b.000001", "pos": 4})
        control.audit("ben", "offset", {"file": "b.000001", "pos": 4}, {"file": "b.000002", "pos": 4})
        first, second = control.state()["audit"]
        assert (first["who"], first["from"], first["to"]["file"]) == ("ann", None, "b.000001")
        assert (second["who"], second["from"], second["what"]) == ("ben", first["to"], "offset")
        assert first["at"] <= second["at"]
