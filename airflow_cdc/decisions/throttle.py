"""Whether the source may be read now, and on how many connections, by policy.throttle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_cdc.core.pipeline import ThrottlePolicy
    from airflow_cdc.core.ports import SourceLoad


def too_busy(limits: ThrottlePolicy, load: SourceLoad) -> str:
    """Why a read has to wait, with the value and the limit; "" if it may begin.

    A lag that is not known is not 0: it waits.
    """
    reasons = []
    if limits.threads_running and load.running is not None and load.running > limits.threads_running:
        reasons.append(f"threads_running is {load.running}, and policy.throttle allows {limits.threads_running}")
    if limits.replica_lag and load.lag_unknown:
        reasons.append(
            f"how far the replica is behind is not known ({load.lag_unknown}), and policy.throttle.replica_lag is"
            f" {limits.replica_lag} s"
        )
    if limits.replica_lag and load.lag_s is not None and load.lag_s > limits.replica_lag:
        reasons.append(f"replica_lag is {load.lag_s:.0f} s, and policy.throttle allows {limits.replica_lag} s")
    return "; ".join(reasons)


def figures(limits: ThrottlePolicy, load: SourceLoad) -> str:
    """The load that the limits are about, in words."""
    parts = [f"threads_running is {load.running}"] if limits.threads_running else []
    if limits.replica_lag:
        lag = load.lag_unknown or ("it is no replica" if load.lag_s is None else f"replica_lag is {load.lag_s:.0f} s")
        parts.append(lag)
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many tables are read at a time, and on how many connections each; None: as many as Spark runs tasks."""

    tables: int
    each: int | None = None


def lanes(limits: ThrottlePolicy, tables: int, cores: int) -> Lanes:
    """How `tables` tables are read on a driver with so many cores: together on at most `limits.connections` connections."""
    most = limits.connections
    at_a_time = max(1, min(tables, cores, most or tables))
    return Lanes(at_a_time, most // at_a_time if most else None)
