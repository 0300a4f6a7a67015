"""Prepared XA transactions during a comparison: they are in the log, but not in the rows that the source shows."""

from __future__ import annotations

from airflow_cdc.core.errors import CdcError
from airflow_cdc.decisions.compare.verdict import Tally
from airflow_cdc.flows.run import Run
from airflow_cdc.spark_apps.compare.scan import Outcome


def wait_for_xa(run: Run, outcome: Outcome) -> None:
    """Leave differences open while a prepared XA transaction is open: its changes are in the log, and so in the sink,
    but not yet in the source's rows.
    """
    tally = outcome.tally
    if tally.wrong and xa_open(run):
        outcome.tally = Tally(
            unsettled=tally.wrong + tally.unsettled, samples=tally.samples, keys=tally.keys, left_out=tally.left_out
        )
        outcome.add_caveats("prepared XA transactions are open on the source")


def xa_open(run: Run) -> bool:
    """Whether a prepared XA transaction is open on the source, as far as this user may see."""
    try:
        return bool(run.clients.source.xa_pending())
    except CdcError:  # unknown without the privilege; a difference is then taken at face value
        return False
