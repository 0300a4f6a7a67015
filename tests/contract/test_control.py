"""The control table: compare-and-set, lease, open recovery, ledger."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from airflow_cdc.control.control import Control
from airflow_cdc.control.document import KEEP_RUNS
from airflow_cdc.core.apply.stamp import Stamp
from airflow_cdc.core.errors import LeaseHeldError, RecoveryOpenError, UnknownStateError, UsageError
from airflow_cdc.core.topics import TopicOffsets
from airflow_cdc.reports.stored import LASTING
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sinks.iceberg.control import KEEP_SNAPSHOTS, IcebergControlStore
from tests.contract.control_worker import add_one
from tests.contract.lakes import lake_in

ROOT = Path(__file__).parents[2]


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def control(lake: Lake, clock: Clock) -> Control:
    return Control(IcebergControlStore(lake), "shop", clock=clock)


def files_of(lake: Lake, pattern: str) -> list[Path]:
    location = lake.table("cdc_control", "shop").location()
    return sorted(Path(urlparse(location).path).glob(pattern))


# the document


def test_reading_creates_nothing(control: Control, lake: Lake) -> None:
    empty: dict[str, Any] = {
        "epoch": 0,
        "epochs": {},
        "lease": None,
        "recovery": None,
        "ledger": {},
        "stamps": {},
        "checks": {},
        "abandoned": {},
        "audit": [],
    }
    assert control.state() == empty
    assert lake.exists("cdc_control", "shop") is False


def test_an_update_is_seen_by_others(control: Control, lake: Lake) -> None:
    returned = control.update(add_one, "one")
    assert returned["stamps"] == {"count": 1}
    assert Control(IcebergControlStore(lake), "shop").state() == returned
    assert Control(IcebergControlStore(lake), "other").state()["stamps"] == {}


def test_a_change_that_changes_nothing_makes_no_commit(control: Control, lake: Lake) -> None:
    control.update(add_one, "one")
    head = lake.head("cdc_control", "shop")
    control.update(lambda state: state, "nothing")
    control.update(lambda _: None, "nothing")
    assert lake.head("cdc_control", "shop") == head


def test_a_refusal_leaves_the_document_as_it_is(control: Control) -> None:
    control.update(add_one, "one")

    def refuse(_: Any) -> None:
        raise UsageError("no")

    with pytest.raises(UsageError):
        control.update(refuse, "refused")
    assert control.state()["stamps"] == {"count": 1}


def test_text_of_every_kind_survives(control: Control) -> None:
    value = {"emoji": "🦆", "quote": "a'\"b", "nested": [1, None, {"x": 1.5}], "newline": "a\nb"}
    control.ledger_set("run", "facts", value)
    assert control.ledger_get("run") == {"facts": value}


def test_a_lost_update_is_made_on_the_newest_document(control: Control, lake: Lake) -> None:
    """Another writer comes between reading and committing: the change is made again on what that one wrote."""
    control.update(add_one, "one")
    seen: list[int] = []

    def change(state: dict[str, Any]) -> dict[str, Any]:
        seen.append(state["stamps"]["count"])
        if len(seen) == 1:
            Control(IcebergControlStore(lake), "shop").update(add_one, "in between")
        return add_one(state)

    assert control.update(change, "mine")["stamps"] == {"count": 3}
    assert seen == [1, 2]


Commit = Callable[..., Any]


def lost_answer(real: Commit, *, landed: bool, then: Callable[[], object]) -> Commit:
    """A commit_table whose first answer is lost; `then` happens before the caller looks again."""
    calls: list[int] = []

    def call(*args: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            return real(*args)
        if landed:
            real(*args)
        then()
        raise CommitStateUnknownException("502 bad gateway")

    return call


@pytest.mark.parametrize("landed", [True, False])
def test_a_write_whose_answer_is_lost_is_made_once(
    control: Control, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    control.update(add_one, "one")
    other = Control(IcebergControlStore(lake_in(tmp_path)), "shop")
    many = lost_answer(
        lake.catalog.commit_table, landed=landed, then=lambda: [other.update(add_one, "other") for _ in range(8)]
    )
    monkeypatch.setattr(lake.catalog, "commit_table", many)
    control.update(add_one, "mine")
    assert other.state()["stamps"] == {"count": 1 + 8 + 1}


def test_history_and_files_are_trimmed(control: Control, lake: Lake) -> None:
    for number in range(40):
        control.ledger_set("run", "n", number)
    metadata = lake.table("cdc_control", "shop").metadata
    assert len(metadata.snapshots) == KEEP_SNAPSHOTS
    assert len(files_of(lake, "metadata/snap-*.avro")) == KEEP_SNAPSHOTS
    assert len(files_of(lake, "metadata/*.metadata.json")) <= 21
    assert control.ledger_get("run") == {"n": 39}


def test_a_foreign_commit_does_not_hide_the_state(control: Control, lake: Lake) -> None:
    control.update(add_one, "one")
    lake.table("cdc_control", "shop").append(lake.read_arrow("cdc_control", "shop"))
    assert control.state()["stamps"] == {"count": 1}
    assert control.update(add_one, "two")["stamps"] == {"count": 2}


def test_a_state_that_is_gone_is_unknown_not_empty(control: Control, lake: Lake) -> None:
    control.update(add_one, "one")
    path = Path(urlparse(lake.table("cdc_control", "shop").metadata_location).path)
    document = json.loads(path.read_text())
    for snapshot in document["snapshots"]:
        snapshot["summary"].pop("cdc.state", None)
    path.write_text(json.dumps(document))
    with pytest.raises(UnknownStateError, match="holds no state"):
        control.state()
    with pytest.raises(UnknownStateError, match="holds no state"):
        control.open_recovery("run")


# many processes


def hammer(folder: Path, what: str, workers: int, times: int) -> None:
    """Run the worker in several processes at once and wait for all of them to end well."""
    command = [sys.executable, "-m", "tests.contract.control_worker", str(folder), what, str(times)]
    running = [
        subprocess.Popen([*command, f"w{n}"], cwd=ROOT, stderr=subprocess.PIPE, text=True) for n in range(workers)
    ]
    failures = [(worker.communicate(timeout=240)[1], worker.returncode) for worker in running]
    assert [code for _, code in failures] == [0] * workers, failures


def test_no_update_is_lost_between_processes(tmp_path: Path) -> None:
    hammer(tmp_path, "document", workers=4, times=15)
    state = Control(IcebergControlStore(lake_in(tmp_path)), "shop").state()
    assert state["stamps"] == {"count": 60}
    assert state["ledger"]["run"]["winner"] in {"w0", "w1", "w2", "w3"}


def test_the_lease_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "counter").write_text("0")
    hammer(tmp_path, "lease", workers=4, times=6)
    assert (tmp_path / "counter").read_text() == "24"
    assert Control(IcebergControlStore(lake_in(tmp_path)), "shop").state()["lease"] is None


# the lease


def test_a_lease_keeps_others_out_until_it_runs_out(control: Control, clock: Clock) -> None:
    lease = control.acquire("a", 30)
    assert lease == {"owner": "a", "expires_at": "2026-01-01T00:00:30.000+00:00"}
    clock.forward(29)
    with pytest.raises(LeaseHeldError, match="a until 2026-01-01T00:00:30") as caught:
        control.acquire("b", 30)
    assert (caught.value.owner, caught.value.expires_at) == ("a", lease["expires_at"])
    clock.forward(1)
    assert control.acquire("b", 30)["owner"] == "b"


def test_an_owner_renews_by_acquiring_again(control: Control, clock: Clock) -> None:
    control.acquire("a", 30)
    clock.forward(20)
    assert control.acquire("a", 30)["expires_at"] == "2026-01-01T00:00:50.000+00:00"


def test_a_lease_that_ran_out_is_renewed_unless_it_was_taken(control: Control, clock: Clock) -> None:
    control.acquire("a", 30)
    clock.forward(100)
    assert control.renew("a", 30)["owner"] == "a"
    clock.forward(31)
    control.acquire("b", 30)
    with pytest.raises(LeaseHeldError, match="lease of a is lost: b holds it"):
        control.renew("a", 30)


def test_a_lease_that_was_never_taken_cannot_be_renewed(control: Control) -> None:
    with pytest.raises(LeaseHeldError, match="is lost"):
        control.renew("a", 30)


def test_only_the_owner_releases(control: Control) -> None:
    control.acquire("a", 30)
    assert control.release("b") is False
    assert control.state()["lease"]["owner"] == "a"
    assert control.release("a") is True
    assert control.release("a") is False
    assert control.facts().lease is None


# the open recovery


def test_inv_01_an_open_recovery_stays_until_it_is_closed(control: Control, lake: Lake) -> None:
    epoch = control.open_recovery("r1", tables=["shop.orders"])
    assert epoch == 1
    control.patch_recovery("r1", watermark={"file": "f"}, fence={"t": 1})
    facts = Control(IcebergControlStore(lake), "shop").facts()
    assert facts.epoch == 1
    assert facts.recovery == {
        "run_id": "r1",
        "epoch": 1,
        "opened_at": "2026-01-01T00:00:00.000+00:00",
        "tables": ["shop.orders"],
        "watermark": {"file": "f"},
        "fence": {"t": 1},
    }
    control.close_recovery("r1")
    assert Control(IcebergControlStore(lake), "shop").facts().recovery is None


def test_the_epoch_rises_once_for_one_run(control: Control) -> None:
    assert control.open_recovery("r1") == 1
    assert control.open_recovery("r1", tables=["other"]) == 1
    assert "tables" not in control.state()["recovery"]
    control.close_recovery("r1")
    assert control.open_recovery("r1") == 1
    assert control.state()["recovery"] is None
    assert control.open_recovery("r2") == 2
    assert control.state()["epoch"] == 2


def test_a_second_recovery_waits_for_the_first(control: Control) -> None:
    control.open_recovery("r1")
    with pytest.raises(RecoveryOpenError, match=r"recovery r1 \(epoch 1\) is open") as caught:
        control.open_recovery("r2")
    assert (caught.value.run_id, caught.value.epoch) == ("r1", 1)
    assert control.state()["epoch"] == 1


def test_closing_is_by_name_and_may_be_repeated(control: Control) -> None:
    control.open_recovery("r1")
    with pytest.raises(UsageError, match="r2 is open; open is r1"):
        control.close_recovery("r2")
    control.close_recovery("r1", "abandoned")
    control.close_recovery("r1")
    assert control.ledger_get("r1")["recovery"] == "abandoned"


def test_what_a_recovery_was_opened_with_is_fixed(control: Control) -> None:
    control.open_recovery("r1")
    patched = control.patch_recovery("r1", epoch=9, opened_at="x", note="n")
    assert (patched["epoch"], patched["opened_at"][:4], patched["note"]) == (1, "2026", "n")
    with pytest.raises(UsageError, match="r2 is open; open is r1"):
        control.patch_recovery("r2", note="n")


# the ledger and the mirrored stamps


def test_the_first_write_of_a_run_wins(control: Control, lake: Lake) -> None:
    assert control.ledger_once("r1", "offset_backup", {"pos": 4}) == {"pos": 4}
    assert Control(IcebergControlStore(lake), "shop").ledger_once("r1", "offset_backup", {"pos": 999}) == {"pos": 4}
    control.ledger_set("r1", "step", "a")
    control.ledger_set("r1", "step", "b")
    assert control.ledger_get("r1") == {"offset_backup": {"pos": 4}, "step": "b"}
    assert control.ledger_get("r2") == {}


def test_a_noted_none_also_stands(control: Control) -> None:
    assert control.ledger_once("r1", "hold", None) is None
    assert control.ledger_once("r1", "hold", "late") is None


def test_the_oldest_runs_fall_out_but_never_the_open_one(control: Control) -> None:
    control.open_recovery("open")
    for number in range(25):
        control.ledger_set(f"r{number}", "n", number)
    runs = list(control.state()["ledger"])
    assert runs == ["open", *(f"r{number}" for number in range(5, 25))]


def test_applies_push_out_no_recovery_and_no_check(control: Control) -> None:
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


def test_a_check_is_kept_for_the_next_night_and_in_its_run(control: Control) -> None:
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


def test_what_must_last_does_not_fall_out_with_the_runs(control: Control) -> None:
    control.ledger_set(f"{LASTING}watch", "outage", "gtid_purged_1")
    control.open_recovery("first")
    control.ledger_set("first", "step:snapshot", {"seconds": 12.5})
    control.close_recovery("first")
    for n in range(KEEP_RUNS + 5):
        control.ledger_set(f"apply-{n}", "step:apply_changes", {"seconds": 1})
    assert control.ledger_get(f"{LASTING}watch") == {"outage": "gtid_purged_1"}
    facts = control.facts()
    assert (facts.closed_at[:10], facts.read_seconds) == ("2026-01-01", 12.5)


def test_a_recovery_that_was_abandoned_was_not_closed(control: Control) -> None:
    control.open_recovery("first")
    control.close_recovery("first", "abandoned")
    assert control.facts().closed_at == ""


def test_stamps_are_mirrored(control: Control) -> None:
    stamp = Stamp(3, {"file": "f"}, {"t": TopicOffsets("i", {0: 4})}, 77)
    control.mirror_stamps({"shop.orders": stamp, "shop.items": Stamp(3)})
    control.mirror_stamps({"shop.items": Stamp(4)})
    assert control.mirrored_stamp("shop.orders") == stamp
    assert control.mirrored_stamp("shop.items") == Stamp(4)
    assert control.mirrored_stamp("shop.none") is None


def test_what_people_change_by_hand_leaves_a_line(control: Control) -> None:
    control.audit("ann", "offset", None, {"file": "b.000001", "pos": 4})
    control.audit("ben", "offset", {"file": "b.000001", "pos": 4}, {"file": "b.000002", "pos": 4})
    first, second = control.state()["audit"]
    assert (first["who"], first["from"], first["to"]["file"]) == ("ann", None, "b.000001")
    assert (second["who"], second["from"], second["what"]) == ("ben", first["to"], "offset")
    assert first["at"] <= second["at"]
