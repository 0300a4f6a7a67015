"""The control document: its parts, how much of it is kept, and its format. Pure values; `control.py` commits them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.abandon import ABANDONED, Abandonment
from airflow_cdc.reports.stored import LASTING

# Tokens of the newest writes: a writer whose answer was lost finds out by its token that its write landed.
WRITES = "writes"
KEEP_WRITES = 200
KEEP_RUNS = 20
APPLY = "step:apply_changes"
RECOVERED = f"{LASTING}recovery"

# The format version of the whole document. A document without one has the first format, which this version can read.
FORMAT = "format"
NEWEST_FORMAT = 2
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
    "abandoned": {},
    "audit": [],
}


def noted(ledger: Document, run_id: str, entries: Mapping[str, Any]) -> Document:
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


def _kind(entry: Mapping[str, Any]) -> str:
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


class UnknownFormatError(ValueError):
    """A document in a format that only a newer version of this package can read."""


def parse(text: str) -> Document:
    """The inverse of `dump`. Raises ValueError or TypeError if `text` is invalid, UnknownFormatError if it is newer."""
    document = json.loads(text)
    if (form := document.get(FORMAT, 1)) not in range(1, NEWEST_FORMAT + 1):
        raise UnknownFormatError(f"its format is {form!r}, and this version reads formats up to {NEWEST_FORMAT}")
    return {**copy(EMPTY), WRITES: [], **{key: value for key, value in document.items() if key != FORMAT}}


def checked_xa(checks: Mapping[str, Any], closed_at: str) -> dict[str, XaState]:
    """The XA state of tables compared after the last recovery was closed, which had compared its tables itself."""
    xa = {name: check.get("xa") for name, check in checks.items() if str(check.get("at", "")) > closed_at}
    return {name: XaState.from_json(value) for name, value in xa.items() if value}


def apply_error(ledger: Mapping[str, Any]) -> str:
    """The error of the newest apply; "" if it did not fail, or if no apply is recorded.

    An apply that found the lease taken did not try and is skipped.
    """
    steps = [entry[APPLY] for entry in ledger.values() if isinstance(entry, Mapping) and APPLY in entry]
    tried = [step for step in steps if step.get("type") != LeaseHeldError.__name__]
    newest: Mapping[str, Any] = max(tried, key=lambda step: str(step.get("started")), default={})
    return str(newest.get("error") or "ended abruptly") if newest.get("state") == "failed" else ""


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
