"""Whether a read waits, by the load and the limits; and how many connections each table gets."""

from __future__ import annotations

import pytest

from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.core.ports import SourceLoad
from airflow_cdc.decisions.throttle import Lanes, figures, lanes, too_busy

BUSY = ThrottlePolicy(threads_running=8)
LAGS = ThrottlePolicy(replica_lag=30)
BOTH = ThrottlePolicy(threads_running=8, replica_lag=30)


@pytest.mark.parametrize(
    ("limits", "load", "why"),
    [
        (ThrottlePolicy(), SourceLoad(10_000, 1e6, "stopped"), ""),
        (ThrottlePolicy(connections=1), SourceLoad(10_000), ""),
        (BUSY, SourceLoad(0), ""),
        (BUSY, SourceLoad(8), ""),
        (BUSY, SourceLoad(9), "threads_running is 9, and policy.throttle allows 8"),
        (BUSY, SourceLoad(3, lag_s=900.0), ""),
        (LAGS, SourceLoad(), ""),  # a primary
        (LAGS, SourceLoad(lag_s=30.0), ""),
        (LAGS, SourceLoad(lag_s=31.4), "replica_lag is 31 s, and policy.throttle allows 30 s"),
        (
            LAGS,
            SourceLoad(lag_unknown="its replication is stopped"),
            "how far the replica is behind is not known (its replication is stopped), and policy.throttle.replica_lag is 30 s",
        ),
        (
            BOTH,
            SourceLoad(12, 45.0),
            "threads_running is 12, and policy.throttle allows 8; replica_lag is 45 s, and policy.throttle allows 30 s",
        ),
    ],
)
def test_a_read_waits_while_the_source_is_busier_than_allowed(
    limits: ThrottlePolicy, load: SourceLoad, why: str
) -> None:
    assert too_busy(limits, load) == why


def test_what_is_limited_is_told() -> None:
    assert figures(BUSY, SourceLoad(3)) == "threads_running is 3"
    assert figures(BOTH, SourceLoad(3)) == "threads_running is 3, it is no replica"
    assert figures(LAGS, SourceLoad(lag_s=2.0)) == "replica_lag is 2 s"
    assert figures(LAGS, SourceLoad(lag_unknown="stopped")) == "stopped"


def test_without_a_limit_each_core_reads_a_table_with_all_of_spark() -> None:
    assert lanes(ThrottlePolicy(threads_running=1), 9, 4) == Lanes(4)
    assert lanes(ThrottlePolicy(), 0, 4) == Lanes(1)


@pytest.mark.parametrize("tables", range(7))
@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("most", range(1, 10))
def test_all_tables_together_keep_to_the_limit(most: int, tables: int, cores: int) -> None:
    plan = lanes(ThrottlePolicy(connections=most), tables, cores)
    assert plan.each is not None
    assert 1 <= plan.tables <= max(1, min(tables, cores))
    assert 1 <= plan.tables * plan.each <= most
    if tables <= 1 or cores == 1:
        assert plan == Lanes(1, most)
