"""Read and change the open recovery (core/recovery.py) in the control document, by compare-and-set."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from airflow_cdc.core.errors import CdcError, RecoveryOpenError, RereadNeededError, UnreportedChangeError
from airflow_cdc.core.position import Watermark
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import read_position

# what a run does to read its tables again, and the connector from there
NEW_WATERMARK: Final = (
    "Clear the task stop_connector and all after it, or run: airflow cdc recover {pipeline}. Either takes a new watermark and"
    " reads the tables again, within this recovery."
)
# what an apply says where only the whole table's rows help
_WHOLE_TABLE: Final = re.compile(r"recover the table(?P<s>s?)( \(\w+\))?", re.IGNORECASE)
_READ_AGAIN: Final = (RereadNeededError, UnreportedChangeError)


class NoRecoveryError(CdcError):
    """A step needs a recovery that is not open or belongs to another run."""


def current(run: Run) -> OpenRecovery:
    """The open recovery of this run. Raises NoRecoveryError when there is none or another run has it."""
    recovery = run.clients.control.recovery(read_position)
    if recovery is None or recovery.run_id != run.run_id:
        holder = "none is open" if recovery is None else f"the open one belongs to run {recovery.run_id}"
        raise NoRecoveryError(
            f"this run has no open recovery: {holder}", where=run.where, todo="Trigger cdc_recovery again."
        )
    return recovery


def change(run: Run, transition: Callable[[OpenRecovery], OpenRecovery]) -> OpenRecovery:
    """Apply `transition` to the current open recovery and return the result; it may be called several times."""
    return run.clients.control.change_recovery(run.run_id, transition, read_position)


def watermark_of(recovery: OpenRecovery, run: Run) -> Watermark:
    """W of the open recovery. Raises NoRecoveryError when it has not been taken yet."""
    if recovery.watermark is None:
        raise NoRecoveryError(
            "the recovery has no watermark yet", where=run.where, todo="Clear the task fence_and_watermark."
        )
    return recovery.watermark


def new_watermark(run: Run) -> str:
    """What to do about a recovery whose W no longer serves."""
    return NEW_WATERMARK.format(pipeline=run.pipeline.name)


def tables_of(tables: Iterable[str]) -> str:
    """The options of a command that name these tables."""
    return " ".join(f"--table {shlex.quote(table)}" for table in tables)


def give_up(run: Run, tables: Iterable[str] = ()) -> str:
    """The command that gives up the open recovery, or these tables of it. It asks for a reason, which the diagnosis shows."""
    return " ".join(filter(None, ("airflow cdc abandon", run.pipeline.name, tables_of(tables), '--reason "…"')))


def verify_again(run: Run, verdicts: Iterable[str]) -> str:
    """What to do about tables with these verdicts, which are not all MATCH.

    A difference that stays is in the rows that were read, or in changes that were skipped since W. Only a new W ends it, so
    `fence_and_watermark` keeps none under which a MISMATCH was found.
    """
    again = "Clear the task verify to verify again."
    if "MISMATCH" not in verdicts:
        return again
    anew = new_watermark(run)
    return f"{again} If rows differ again, read them again: {anew[0].lower()}{anew[1:]}"


def open_error(run: Run, holder: str) -> RecoveryOpenError:
    """A comparison or a repair was asked for while the recovery of the run `holder` is open: it does both by itself."""
    name = run.pipeline.name
    return RecoveryOpenError(
        f"nothing is compared or repaired while the recovery of run {holder} is open",
        where=run.where,
        todo=f"Finish it (airflow cdc recover {name}) or give it up ({give_up(run)}).",
        run_id=holder,
    )


@contextmanager
def own_way_on(run: Run) -> Iterator[None]:
    """Errors of an apply within the block that only reading a table again can end say how this recovery does that.

    Their own advice is to recover the table, or to let apply read it again: an open recovery refuses both, and clearing
    `verify` meets the same error for ever. W is given up, so that the next try takes a new one even if no definition shows
    what happened (a TRUNCATE; a column added and dropped).
    """
    try:
        yield
    except CdcError as error:
        if not _needs_rows(error):
            raise
        change(run, OpenRecovery.outdated)
        own = "" if isinstance(error, _READ_AGAIN) else _WHOLE_TABLE.sub(_read_again, error.todo)
        error.todo = " ".join(filter(None, (own, new_watermark(run))))
        raise


def _needs_rows(error: CdcError) -> bool:
    return isinstance(error, _READ_AGAIN) or _WHOLE_TABLE.search(error.todo) is not None


def _read_again(advice: re.Match[str]) -> str:
    """What is to be done first stays: a setting, a character set, a retention."""
    return f"{'R' if advice[0][0] == 'R' else 'r'}ead the table{advice['s']} again"
