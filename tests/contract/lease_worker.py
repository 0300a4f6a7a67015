"""A process that carries out one leased step, longer than its lease lasts, until it is told to end (see test_lease.py)."""

from __future__ import annotations

import sys
from pathlib import Path

from airflow_cdc.core.poll import poll_until
from airflow_cdc.flows import run as running
from airflow_cdc.flows.run import Facts, Run, step
from tests.contract.lakes import lake_in, run_on


@step("long", leased=True)
def long_step(run: Run, folder: Path) -> Facts:
    """Say that it runs, and end when the file `end` appears."""
    (folder / "began").touch()
    poll_until(lambda: (folder / "end").exists() or None, timeout=120, interval=0.05, what="the end")
    return {"ended": True}


def main(folder: str, seconds: str, run_id: str) -> None:
    """`seconds`: how long a lease lasts."""
    vars(running).update(LEASE_SECONDS=float(seconds))
    run = run_on(lake_in(Path(folder)), Path(folder) / "reports", "shop.orders", run_id=run_id)
    long_step(run, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
