"""The control document: its parts, how much of it is kept, and its format. Pure values; `control.py` commits them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from airflow_cdc.core.codec import read
from airflow_cdc.core.epochs import Epochs
from airflow_cdc.core.errors import LeaseHeldError, RecoveryOpenError
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.recovery import OpenRecovery
from airflow_cdc.core.text import read_json
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.abandon import ABANDONED, Abandonment
from airflow_cdc.reports.stored import LASTING

# Tokens of the newest writes: a writer whose answer was lost finds out by its token that its write landed.
WRITES = "writes"
KEEP_WRITES = 200
KEEP_RUNS = 20
APPLY = "step:apply_changes"
RECOVERED = f"{LASTING}recovery"
CLOSED = "closed"
XA = "xa"

# The format version of the whole document. A document without one has the first format, which this version can read.
FORMAT = "format"
NEWEST_FORMAT = 3
_OWN = (WRITES, FORMAT)

Document = dict[str, Any]
EMPTY: Document = {
    "epoch": 0,
    "epochs": {},
    "lease": None,
    "recovery": None,
    "ledger": {},
    "stamps": {},
    "checks": {},
    XA: {},
    "abandoned": {},
    "audit": [],
}


def noted(ledger: Document, run_id: str, entries: Mapping[str, object]) -> Document:
    """The ledger with new entries of a run, which moves to the end: the runs noted longest ago are dropped first."""
    rest = {key: value for key, value in ledger.items() if key != run_id}
    return {**rest, run_id: {**ledger.get(run_id, {}), **entries}}


def in_place(ledger: Document, run_id: str, epoch: int) -> Document:
    """The ledger with a run's epoch; the run keeps its place in the order of age."""
    return {**ledger, run_id: {**ledger.get(run_id, {}), "epoch": epoch}}


def only(ledger: Document, run_id: str) -> Document:
    return {run_id: ledger[run_id]} if run_id in ledger else {}


def verdicts(entry: Document) -> Document:
    """The short form of a finished check, kept beside later ones: reports are files, and the document stays small."""
    check = {table: {"verdict": result.get("verdict")} for table, result in entry.get("check", {}).items()}
    return {**entry, "check": check} if check else entry


# Entries that tell a run's kind, the most specific first. Each kind keeps KEEP_RUNS of its own. Otherwise apply, which
# runs every minute, would push recoveries and nightly checks out within the hour.
KINDS = ("epoch", "decision", "check", "repair")


def _kind(entry: Mapping[str, object]) -> str:
    return next((kind for kind in KINDS if kind in entry), "")


def read_seconds(entries: Document) -> float | None:
    """How many seconds a run's snapshot took; None if it took no snapshot."""
    seconds = (entries.get("step:snapshot") or {}).get("seconds")
    return None if seconds is None else float(seconds)


def read_before(ledger: Document) -> float | None:
    """How many seconds the snapshot of an earlier recovery took. Recoveries that read no table are skipped."""
    seconds = (ledger.get(RECOVERED) or {}).get("read_seconds")
    return None if seconds is None else float(seconds)


def written(wanted: Document, before: Document, token: str) -> Document:
    """The document to write; `wanted` is plain JSON."""
    open_ = (wanted.get("recovery") or {}).get("run_id")
    newest: dict[str, list[str]] = {}
    for run, entry in wanted["ledger"].items():
        if run.startswith(LASTING):
            continue
        newest.setdefault(_kind(entry), []).append(run)
    runs_kept = {run for runs in newest.values() for run in runs[-KEEP_RUNS:]} | {open_}
    ledger = {run: entry for run, entry in wanted["ledger"].items() if run in runs_kept or run.startswith(LASTING)}
    return {**wanted, "ledger": ledger, WRITES: [*before[WRITES], token][-KEEP_WRITES:]}


def public(document: Document) -> Document:
    """The document as callers see it; its parts are those of `document`."""
    return {key: value for key, value in document.items() if key not in _OWN}


def copy(document: Document) -> Document:
    """The document after a round trip through JSON, so that it equals what a later read returns.

    With hundreds of tables that takes as long as a commit, and a write makes no copy that it can do without.
    """
    copied: Document = json.loads(json.dumps(document))
    return copied


def dump(document: Document) -> str:
    # the ledger is ordered by age, so keys are not sorted
    return json.dumps({FORMAT: NEWEST_FORMAT, **document}, separators=(",", ":"), ensure_ascii=False)


# what each part must be, so that no step meets another form of it in the middle of its work
_OBJECTS = ("epochs", "ledger", "stamps", "checks", XA, "abandoned")
_ENTRIES = ("ledger", "checks", "abandoned")


def _check(document: Document) -> None:
    """Raises TypeError or ValueError for a part of another form."""
    recovery, lease, epochs = document["recovery"], document["lease"], (document["epoch"], *_values(document, "epochs"))
    faults = {
        **{part: not isinstance(document[part], dict) for part in _OBJECTS},
        **{part: not isinstance(document[part], list) for part in ("audit", WRITES)},
    }
    faults |= {
        part: not all(isinstance(one, dict) for one in _values(document, part)) for part in _ENTRIES if not faults[part]
    }
    faults |= {
        XA: faults[XA] or not all(one is None or isinstance(one, dict) for one in _values(document, XA)),
        "epoch": not all(type(one) is int and one >= 0 for one in epochs),
        "recovery": recovery is not None
        and not (isinstance(recovery, dict) and isinstance(recovery.get("run_id"), str)),
    }
    if wrong := sorted(part for part, fault in faults.items() if fault):
        raise TypeError(f"{wrong[0]} has an unknown form")
    if lease is not None:
        read(Lease, lease, more=True)


def _values(document: Document, part: str) -> Collection[object]:
    entries = document[part]
    return entries.values() if isinstance(entries, dict) else ()


class UnknownFormatError(ValueError):
    """A document in a format that only a newer version of this package can read."""


def parse(text: str) -> Document:
    """The inverse of `dump`. Raises ValueError or TypeError if `text` is invalid, UnknownFormatError if it is newer."""
    document = read_json(text)
    if not isinstance(document, dict):
        raise TypeError("it is no JSON object")
    if (form := document.get(FORMAT, 1)) not in range(1, NEWEST_FORMAT + 1):
        raise UnknownFormatError(f"its format is {form!r}, and this version reads formats up to {NEWEST_FORMAT}")
    read = {**copy(EMPTY), WRITES: [], **{key: value for key, value in document.items() if key != FORMAT}}
    _check(read)
    return read


def compared_xa(document: Document) -> dict[str, XaState]:
    """Table → the source's XA state before the last comparison that proved the table equal, or else before its first."""
    return {name: read(XaState, value) for name, value in _xa(document).items() if value}


def _xa(document: Document) -> Document:
    """The states as JSON; a document of before they had a place of their own has them in its nightly checks."""
    closed_at = (document["ledger"].get(RECOVERED) or {}).get("closed_at", "")
    checks = {name: one.get("xa") for name, one in document["checks"].items() if str(one.get("at", "")) > closed_at}
    return {**checks, **document[XA]}


def with_xa(document: Document, states: Mapping[str, object], equal: Collection[str]) -> Document:
    """The document after tables were compared; `states`: the source's XA state from before that, None if it has none.

    A comparison settles what was in doubt of the tables that are `equal`. Any other keeps the state that it had (INV 32).
    """
    known = _xa(document)
    new = {name: state for name, state in states.items() if state and (name in equal or not known.get(name))}
    return {**document, XA: {**document[XA], **new}}


def checked(
    document: Document, run_id: str, table: str, check: Mapping[str, object], result: Mapping[str, object]
) -> Document:
    """The document after a run compared a table: `check` is for the next night, `result` for the ledger.

    Of the results of other runs the verdicts stay.
    """
    done = {**document["ledger"].get(run_id, {}).get("check", {}), table: dict(result)}
    others = {run: verdicts(entry) for run, entry in document["ledger"].items() if run != run_id}
    ledger = noted({**others, **only(document["ledger"], run_id)}, run_id, {"check": done})
    return {**document, "checks": {**document["checks"], table: dict(check)}, "ledger": ledger}


def closed(document: Document, run_id: str, state: str, at: str) -> Document:
    """The control document after the open recovery of this run was closed as `state` at that time."""
    open_ = document["recovery"]
    ledger = noted(document["ledger"], run_id, {"recovery": state, "closed_at": at})
    if state == CLOSED:
        seconds = read_seconds(ledger[run_id]) or read_before(ledger)
        ledger[RECOVERED] = {"run_id": run_id, "closed_at": at, "read_seconds": seconds}
    published, verified = open_.get("published") or (), open_.get("verified") or {}
    settled = with_xa(document, {name: verified.get(name, {}).get(XA) for name in published}, published)
    return {**recovered(settled, published), "recovery": None, "ledger": ledger}


def apply_error(ledger: Mapping[str, object]) -> str:
    """The error of the newest apply; "" if it did not fail, or if no apply is recorded.

    An apply that found the lease taken did not try and is skipped.
    """
    steps = [entry[APPLY] for entry in ledger.values() if isinstance(entry, Mapping) and APPLY in entry]
    tried = [step for step in steps if step.get("type") != LeaseHeldError.__name__]
    newest: Mapping[str, object] = max(tried, key=lambda step: str(step.get("started")), default={})
    return str(newest.get("error") or "ended abruptly") if newest.get("state") == "failed" else ""


def opened(
    document: Document, run_id: str, fields: Mapping[str, Any], at: str, where: str, *, raises: bool, moves: bool
) -> Document | None:
    """The control document after a run opened its recovery; None if it has opened one before (see Control.open_recovery)."""
    if "epoch" in document["ledger"].get(run_id, {}):
        return None
    if (open_ := document["recovery"]) is not None:
        raise RecoveryOpenError(
            f"the recovery {open_['run_id']} (epoch {open_['epoch']}) is open",
            where=where,
            todo="Finish it (clear its failed task, or trigger cdc_recovery), or give it up: airflow cdc abandon.",
            run_id=open_["run_id"],
            epoch=open_["epoch"],
        )
    epoch = document["epoch"] + int(raises)
    known = {**fields, "tables": tuple(fields.get("tables", ()))}
    recovery = OpenRecovery(run_id=run_id, epoch=epoch, opened_at=at, offset_kept=not moves, **known).to_json()
    ledger = noted(document["ledger"], run_id, {"epoch": epoch})
    required = Epochs(document["epoch"], document["epochs"])
    if raises:
        required = required.raised(epoch, None if moves else fields["tables"])
    return {**document, "epoch": epoch, "epochs": required.tables, "recovery": recovery, "ledger": ledger}


def without_tables(document: Document, tables: Iterable[str], given_up: Abandonment) -> Document:
    """The control document after `tables` of its open recovery are given up; the recovery closes with the last one."""
    recovery, note, gone = document["recovery"], asdict(given_up), set(tables)
    left = [table for table in recovery["tables"] if table not in gone]
    run_id = recovery["run_id"]
    mine = document["ledger"].get(run_id, {})
    notes = {**(mine.get(ABANDONED) or {}), **dict.fromkeys(sorted(gone), note)}
    closing = {} if left else {"recovery": ABANDONED, "closed_at": given_up.at}
    return {
        **document,
        "recovery": {**recovery, "tables": left} if left else None,
        ABANDONED: {**(document.get(ABANDONED) or {}), **dict.fromkeys(sorted(gone), note)},
        "ledger": {**document["ledger"], run_id: {**mine, ABANDONED: notes, **closing}},
    }


def recovered(document: Document, tables: Iterable[str]) -> Document:
    """The control document after `tables` were published, which are then no longer abandoned."""
    done = set(tables)
    left = {table: note for table, note in (document.get(ABANDONED) or {}).items() if table not in done}
    return {**document, ABANDONED: left}
