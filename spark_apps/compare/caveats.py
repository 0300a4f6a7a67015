"""Why a table cannot be MATCH, whatever its rows are: events that were never applied, and transactions that are only prepared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from airflow_cdc.core.dead_letter import DeadLetter, Place, is_before
from airflow_cdc.core.errors import CdcError, VerificationError
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.topics import Fence
from airflow_cdc.decisions.compare.verdict import Tally
from airflow_cdc.flows.run import Run
from airflow_cdc.flows.stages import letters_of
from airflow_cdc.spark_apps.compare.scan import Outcome

# Why a table cannot be MATCH, whatever its rows are.
CaveatsOf = Callable[[Outcome], tuple[str, ...]]


def letter_caveats(run: Run, since: Fence, right: Collection[Place] = ()) -> CaveatsOf:
    """Events of a table that were never applied, as caveats, except those before `since`. All are read once, now.

    The rows of those at `right` were read again.
    """
    left = defaultdict[str, list[DeadLetter]](list)
    for letter in letters_of(run).unresolved_letters(run.pipeline.name):
        if not is_before(letter.place, since) and letter.place not in right:
            left[letter.table].append(letter)

    def caveats_of(outcome: Outcome) -> tuple[str, ...]:
        own = left.get(outcome.subject.table.full_name)
        return (f"{len(own)} records are in the dead-letter table, the first for {own[0].reason}",) if own else ()

    return caveats_of


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


def check_no_xa(run: Run) -> None:
    """Raise VerificationError while a prepared XA transaction is open: rows that are read now miss its changes.

    They are in the log, and no later event would correct the rows.
    """
    if xa_open(run):
        raise VerificationError(
            "prepared XA transactions are open on the source, so its visible rows do not match its log",
            where=run.where,
            todo="Wait until they end (XA RECOVER shows them), then run the repair again.",
            verdict=str(Verdict.INCONCLUSIVE),
        )


def xa_open(run: Run) -> bool:
    """Whether a prepared XA transaction is open on the source, as far as this user may see."""
    try:
        return bool(run.clients.source.xa_pending())
    except CdcError:  # unknown without the privilege; a difference is then taken at face value
        return False
