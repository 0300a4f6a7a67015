"""When another run's lease may be taken (INV 37, 46): by what is seen of it on one's own stopwatch, whatever clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_cdc.control.lease import Sight, SilentLeaseError, refuse_held, refuse_lost, watched, without_a_run
from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.lease import Lease
from tests.unit.clocks import Clock

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
ELAPSED = 5_000.0
SECONDS = 120.0


def lease(expires_in: float, renewal: str = "1", owner: str = "other") -> Lease:
    """A lease of 120 s that expires so many seconds from now by its owner's clock."""
    return Lease(owner, (NOW + timedelta(seconds=expires_in)).isoformat(), "dag", SECONDS, renewal)


def sight(of: Lease | None, silence: float) -> Sight:
    """This process has seen that lease for so many seconds."""
    return Sight(lambda: NOW, lambda: ELAPSED, of, ELAPSED - silence)


def asked(of: Lease | None, silence: float = 0.0, *, ended: bool = True) -> None:
    refuse_held(of, "me", lambda _lease: ended, sight(of, silence), "pipeline shop")


@pytest.mark.parametrize("of", [None, lease(60, owner="me"), lease(-600, owner="me")])
def test_a_lease_that_nobody_else_has_may_be_taken(of: Lease | None) -> None:
    asked(of, ended=False)


@pytest.mark.parametrize(("expires_in", "silence"), [(-1, 60.0), (0, 60.0), (-9_999, 60.0), (60, 120.0), (500, 120.0)])
def test_inv_46_one_that_was_seen_silent_for_long_enough_and_whose_run_has_ended_may_be_taken(
    expires_in: float, silence: float
) -> None:
    """Half its lifetime where it looks expired, and all of it where a clock says otherwise."""
    asked(lease(expires_in), silence)


@pytest.mark.parametrize("silence", [0.0, 119.0])
def test_one_that_is_valid_by_both_clocks_is_refused(silence: float) -> None:
    with pytest.raises(LeaseHeldError, match="is being changed by other until") as refused:
        asked(lease(60), silence)
    assert not isinstance(refused.value, SilentLeaseError)
    assert (refused.value.owner, refused.value.todo[:18]) == ("other", "Wait for that run,")


@pytest.mark.parametrize(("expires_in", "silence"), [(-1, 0.0), (-1, 9_999.0), (60, 120.0), (500, 9_999.0)])
def test_inv_37_one_of_a_run_that_may_be_alive_is_never_taken(expires_in: float, silence: float) -> None:
    with pytest.raises(LeaseHeldError, match="Airflow does not say that the run has ended") as refused:
        asked(lease(expires_in), silence, ended=False)
    assert not isinstance(refused.value, SilentLeaseError)


@pytest.mark.parametrize(
    ("expires_in", "silence", "left"),
    [(-1, 0.0, 60.0), (-1, 59.0, 1.0), (500, 0.0, 120.0), (500, 119.0, 1.0)],
    ids=["it looks expired", "it was watched nearly long enough", "a clock is ahead", "and it was watched"],
)
def test_inv_46_one_that_only_looks_expired_is_watched_for_as_long_as_its_owner_would_need_to_renew_it(
    expires_in: float, silence: float, left: float
) -> None:
    with pytest.raises(SilentLeaseError) as refused:
        asked(lease(expires_in), silence)
    assert refused.value.left == left
    assert "Set the clocks" in refused.value.todo


def test_a_lease_that_was_renewed_has_been_silent_for_no_time() -> None:
    seen = sight(lease(-1, "1"), 100.0)
    assert seen.silence(lease(-1, "1")) == 100.0
    assert seen.silence(lease(-1, "2")) == 0.0


def test_it_is_watched_until_it_may_be_taken() -> None:
    clock, taken = Clock(), lease(60, owner="me")

    def attempt() -> Lease:
        if clock.now < 60:
            raise SilentLeaseError(lease(-1), 60 - clock.now, "pipeline shop")
        return taken

    assert watched(attempt, clock.sleep) == taken
    assert clock.now == 60
    assert max(clock.sleeps) <= 1


def test_inv_46_one_that_is_renewed_while_it_is_watched_is_left_alone() -> None:
    clock = Clock()

    def attempt() -> Lease:
        raise SilentLeaseError(lease(-1, "1" if clock.now < 40 else "2"), 60 - clock.now, "pipeline shop")

    with pytest.raises(SilentLeaseError):
        watched(attempt, clock.sleep)
    assert 40 <= clock.now < 42


@pytest.mark.parametrize(("of", "told"), [(None, "is lost"), (lease(60), "is lost: other holds it")])
def test_a_run_that_has_no_lease_any_more_stops(of: Lease | None, told: str) -> None:
    with pytest.raises(LeaseHeldError, match=told) as refused:
        refuse_lost(of, "me", "pipeline shop")
    assert "nothing that it wrote is published" in refused.value.todo
    refuse_lost(lease(-600, owner="me"), "me", "pipeline shop")


def test_only_a_run_of_a_dag_may_be_alive_between_two_of_its_tasks() -> None:
    assert not without_a_run(lease(60))
    assert without_a_run(Lease("cli", NOW.isoformat(), "", SECONDS))
