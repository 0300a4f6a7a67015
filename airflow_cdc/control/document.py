"""The control document: its parts, what of it is kept, and how it is written. Pure values; `control.py` commits them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from airflow_cdc.core.errors import LeaseHeldError
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.abandon import ABANDONED, Abandonment
from airflow_cdc.reports.stored import LASTING

# Tokens of the newest writes: how a writer whose answer was lost finds out that its write stands.
WRITES = "writes"
KEEP_WRITES = 200
KEEP_RUNS = 20
APPLY = "step:apply_changes"
RECOVERED = f"{LASTING}recovery"

# The form of the document as a whole; a document without one is of the first form, which this one can read.
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
    """The ledger with entries of a run; the run that was noted last comes last, so the oldest fall out first."""
    rest = {key: value for key, value in ledger.items() if key != run_id}
    return {**rest, run_id: {**ledger.get(run_id, {}), **entries}}


def in_place(ledger: Document, run_id: str, epoch: int) -> Document:
    """The ledger with a run's epoch, in the run's place: it is no newer for it."""
    return {**ledger, run_id: {**ledger.get(run_id, {}), "epoch": epoch}}


def only(ledger: Document, run_id: str) -> Document:
    return {run_id: ledger[run_id]} if run_id in ledger else {}


def verdicts(entry: Document) -> Document:
    """A finished check as it is kept beside later ones: its reports are files, and the document stays small."""
    check = {table: {"verdict": result.get("verdict")} for table, result in entry.get("check", {}).items()}
    return {**entry, "check": check} if check else entry


# An entry that a run of one kind has, the most telling first. Each kind keeps KEEP_RUNS of its own: an apply runs every
# minute, and would otherwise push out within the hour what a recovery or a nightly check did.
KINDS = ("epoch", "decision", "check", "repair")


def _kind(entry: Mapping[str, Any]) -> str:
    return next((kind for kind in KINDS if kind in entry), "")


def read_seconds(entries: Document) -> float | None:
    """How long a run's snapshot took, None if it took none."""
    seconds = (entries.get("step:snapshot") or {}).get("seconds")
    return None if seconds is None else float(seconds)


def read_before(ledger: Document) -> float | None:
    """What the recovery before took: one that reads no table says nothing about how long that takes."""
    seconds = (ledger.get(RECOVERED) or {}).get("read_seconds")
    return None if seconds is None else float(seconds)


def written(wanted: Document, before: Document, token: str) -> Document:
    open_ = (wanted.get("recovery") or {}).get("run_id")
    newest: dict[str, list[str]] = {}
    for run, entry in wanted["ledger"].items():
        if run.startswith(LASTING):
            continue
        newest.setdefault(_kind(entry), []).append(run)
    runs_kept = {run for runs in newest.values() for run in runs[-KEEP_RUNS:]} | {open_}
    ledger = {run: entry for run, entry in wanted["ledger"].items() if run in runs_kept or run.startswith(LASTING)}
    return {**copy(wanted), "ledger": copy(ledger), WRITES: [*before[WRITES], token][-KEEP_WRITES:]}


def public(document: Document) -> Document:
    return copy({key: value for key, value in document.items() if key not in _OWN})


def copy(document: Document) -> Document:
    """As JSON gives it back, so that what is returned now equals what is read later."""
    copied: Document = json.loads(json.dumps(document))
    return copied


def dump(document: Document) -> str:
    # the order of the ledger is its age, so keys are not sorted
    return json.dumps({FORMAT: NEWEST_FORMAT, **document}, separators=(",", ":"), ensure_ascii=False)


class UnknownFormatError(ValueError):
    """A document of a form that only a newer version of this package knows."""


def parse(text: str) -> Document:
    """The inverse of `dump`. Raises ValueError or TypeError for what is no document, UnknownFormatError for a newer one."""
    document = json.loads(text)
    if (form := document.get(FORMAT, 1)) not in range(1, NEWEST_FORMAT + 1):
        raise UnknownFormatError(f"its format is {form!r}, and this version reads formats up to {NEWEST_FORMAT}")
    return {**copy(EMPTY), WRITES: [], **{key: value for key, value in document.items() if key != FORMAT}}


def checked_xa(checks: Mapping[str, Any], closed_at: str) -> dict[str, XaState]:
    """Of the tables that were compared after the last recovery was closed; that one compared them itself."""
    xa = {name: check.get("xa") for name, check in checks.items() if str(check.get("at", "")) > closed_at}
    return {name: XaState.from_json(value) for name, value in xa.items() if value}


def apply_error(ledger: Mapping[str, Any]) -> str:
    """What the newest apply said when it failed; "" if it did not fail, or none is remembered.

    One that found the lease taken has not tried.
    """
    steps = [entry[APPLY] for entry in ledger.values() if isinstance(entry, Mapping) and APPLY in entry]
    tried = [step for step in steps if step.get("type") != LeaseHeldError.__name__]
    newest: Mapping[str, Any] = max(tried, key=lambda step: str(step.get("started")), default={})
    return str(newest.get("error") or "ended abruptly") if newest.get("state") == "failed" else ""


def without_tables(document: Document, tables: Iterable[str], given_up: Abandonment) -> Document:
    """The control document once `tables` of its open recovery are given up; with the last one the recovery closes."""
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
    """The control document once `tables` were published: they are abandoned no longer."""
    done = set(tables)
    left = {table: note for table, note in (document.get(ABANDONED) or {}).items() if table not in done}
    return {**document, ABANDONED: left}
