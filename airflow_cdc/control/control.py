"""A pipeline's control document: epoch, lease, open recovery and run ledger, one JSON document in a control store.

It is changed by compare-and-set, so that two runs can never both believe that they changed it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_cdc.control.document import (
    CLOSED,
    EMPTY,
    RECOVERED,
    WRITES,
    Document,
    apply_error,
    checked,
    closed,
    compared_xa,
    copy,
    dump,
    in_place,
    noted,
    opened,
    parse,
    public,
    with_xa,
    without_tables,
    written,
)
from airflow_cdc.control.lease import Ended, Sight, refuse_held, refuse_lost, watched, without_a_run
from airflow_cdc.control.ledger import LedgerEntry
from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.epochs import EVERY, Epochs
from airflow_cdc.core.errors import (
    MALFORMED,
    CdcError,
    DeadlineError,
    StaleHeadError,
    UnknownStateError,
    UsageError,
)
from airflow_cdc.core.lease import Lease
from airflow_cdc.core.observation import ControlFacts, OpenFacts, RefusedTable
from airflow_cdc.core.poll import NotYet, jittered, poll_until
from airflow_cdc.core.ports import ControlStore, StoredDocument
from airflow_cdc.core.position import ReadPosition
from airflow_cdc.core.recovery import Decision, OpenRecovery
from airflow_cdc.core.report import Verdict
from airflow_cdc.core.stamp import Stamp
from airflow_cdc.core.xa import XaState
from airflow_cdc.decisions.abandon import Abandonment, abandoned_tables
from airflow_cdc.decisions.diagnosis.strategy import POSITION_ONLY
from airflow_cdc.reports.stored import LASTING

KEEP_AUDIT = 100
# How long a change is retried when others commit first or the store does not answer.
COMMIT_SECONDS = 60.0
SERVERS = f"{LASTING}servers"
REFUSED = f"{LASTING}refused"


def utc_now() -> datetime:
    """The clock that times in the document are written with. Another machine's may differ: see control/lease.py."""
    return datetime.now(UTC)


class Control:
    """The control document of one pipeline. The first write creates it; before that, the state is empty."""

    def __init__(
        self,
        store: ControlStore,
        pipeline: str,
        *,
        clock: Callable[[], datetime] = utc_now,
        elapsed: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store = store
        self._clock = clock
        self._sight = Sight(clock, elapsed)
        self._sleep = sleep
        self.pipeline = pipeline

    def __repr__(self) -> str:
        return f"Control({self.pipeline!r})"

    @property
    def where(self) -> str:
        """How errors name this document."""
        return self._store.place(self.pipeline)

    @property
    def endpoint(self) -> str:
        """How errors name the server or catalog that keeps it."""
        return self._store.where

    # the document

    def state(self) -> Document:
        """The current document. Raises UnknownStateError if it cannot be read."""
        return public(self._read(self._store.load(self.pipeline)))

    def facts(self) -> ControlFacts:
        """The parts of the document that go into an observation. Raises UnknownStateError if they cannot be read."""
        state = self.state()
        try:
            return self._facts(state)
        except MALFORMED as error:
            raise self._unreadable(f"holds state that cannot be read: {type(error).__name__} {error}") from None

    def _facts(self, state: Document) -> ControlFacts:
        last = state["ledger"].get(RECOVERED) or {}
        return ControlFacts(
            epoch=state["epoch"],
            recovery=OpenFacts.from_json(state["recovery"]) if state["recovery"] else None,
            lease=_lease(state),
            closed_at=last.get("closed_at", ""),
            read_seconds=last.get("read_seconds"),
            servers=tuple(state["ledger"].get(SERVERS) or ()),
            abandoned=state["abandoned"],
            refused={t: read(RefusedTable, table) for t, table in (state["ledger"].get(REFUSED) or {}).items()},
            epochs=state["epochs"],
            apply_error=apply_error(state["ledger"]),
            compared_xa=compared_xa(state),
        )

    def update(self, change: Callable[[Document], Document | None], what: str) -> Document:
        """Change the document by compare-and-set and return the result.

        `change` is given a copy and returns the new document (None: leave it as it is); it may be called
        several times, each time with the newest state, and raises to refuse. A write whose
        answer was lost is found by its token, so it is never made twice. Raises UnknownStateError if the outcome
        stays unknown.
        """
        token, failure = uuid.uuid4().hex[:16], ""

        def attempt() -> Document | None:
            nonlocal failure
            try:
                stored = self._store.load(self.pipeline)
            except UnknownStateError as error:
                if error.lasting:
                    raise
                failure = str(error)
                raise NotYet(failure) from None
            before = self._read(stored)
            wanted = None if token in before[WRITES] else change(public(self._read(stored)))
            changed = None if wanted is None else copy(wanted)
            if changed is None or changed == public(before):
                return before
            after = written(changed, before, token)
            try:
                self._store.swap(self.pipeline, stored.version if stored else None, dump(after))
            except CdcError as error:
                # the next attempt reads whether it landed
                in_doubt = isinstance(error, StaleHeadError | UnknownStateError)
                if error.lasting or not (in_doubt or failure):
                    raise
                failure = error.what
                raise NotYet(failure) from None
            return after

        try:
            document = poll_until(attempt, timeout=COMMIT_SECONDS, interval=0.1, what=what, sleep=jittered)
        except DeadlineError:
            raise self._unsettled(what, failure) from None
        return public(document)

    def _unsettled(self, what: str, failure: str) -> UnknownStateError:
        return UnknownStateError(
            f"{what} could not be committed in {COMMIT_SECONDS:g} s: {failure}",
            where=self.where,
            todo=f"Nothing else was changed. Check the {self.endpoint} and run the step again.",
        )

    def _read(self, stored: StoredDocument | None) -> Document:
        if stored is None:
            return {**copy(EMPTY), WRITES: []}
        if not stored.text:
            raise self._unreadable("is empty, although it has been written to")
        try:
            return parse(stored.text)
        except MALFORMED as error:
            raise self._unreadable(f"holds state that cannot be read{f': {error}' if str(error) else ''}") from None

    def _unreadable(self, what: str) -> UnknownStateError:
        return UnknownStateError(
            f"the control table {what}", where=self.where, todo="Restore its newest readable state."
        )

    # the lease

    def acquire(
        self,
        owner: str,
        ttl: float,
        *,
        dag_id: str = "",
        ended: Ended = without_a_run,
        admit: Callable[[OpenFacts | None], None] = lambda _recovery: None,
    ) -> Lease:
        """Take or renew the lease for `ttl` seconds; `dag_id` is the DAG of the run `owner`, if `owner` is a run.

        Raises LeaseHeldError while another owner's lease is valid, or is not and `ended(lease)` does not confirm that
        its run has ended (INV 37). Whether it is valid is watched, here, for up to its lifetime (INV 46). `admit` is
        given the open recovery, if any, and raises to refuse before anything is changed.
        """

        def refuse(state: Document) -> None:
            admit(OpenFacts.from_json(state["recovery"]) if state["recovery"] else None)
            refuse_held(_lease(state), owner, ended, self._sight, self.where)

        return watched(lambda: self._lease(owner, ttl, f"lease for {owner}", refuse, dag_id), self._sleep)

    def renew(self, owner: str, ttl: float) -> Lease:
        """Extend the owner's lease, even an expired one that nobody took, or that was let go while the owner's recovery is open.

        Raises LeaseHeldError if it is lost.
        """

        def refuse(state: Document) -> None:
            # a recovery whose run failed lets go, and another run may have had the lease meanwhile: the recovery is still its own
            if state["lease"] is not None or (state["recovery"] or {}).get("run_id") != owner:
                refuse_lost(_lease(state), owner, self.where)

        return self._lease(owner, ttl, f"renewal of the lease of {owner}", refuse)

    def _lease(self, owner: str, ttl: float, what: str, refuse: Callable[[Document], None], dag_id: str = "") -> Lease:
        def change(state: Document) -> Document:
            refuse(state)
            before = _lease(state)
            expires = (self._clock() + timedelta(seconds=ttl)).isoformat(timespec="milliseconds")
            known = before.dag_id if before is not None and before.owner == owner else ""
            return {**state, "lease": plain(Lease(owner, expires, dag_id or known, ttl, uuid.uuid4().hex[:8]))}

        return read(Lease, self.update(change, what)["lease"], more=True)

    def release(self, owner: str) -> bool:
        """Give the lease back. Returns False, and changes nothing, if it is not `owner`'s."""
        held: list[bool] = []

        def change(state: Document) -> Document | None:
            lease = _lease(state)
            held[:] = [lease is not None and lease.owner == owner]
            return {**state, "lease": None} if held[0] else None

        self.update(change, f"release of the lease of {owner}")
        return held[0]

    # the open recovery

    def recovery(self, read_position: ReadPosition) -> OpenRecovery | None:
        """The open recovery; None if none is open. Raises UnknownStateError or PositionError if it cannot be read."""
        document = self.state()["recovery"]
        return None if document is None else OpenRecovery.from_json(document, read_position)

    def open_recovery(self, run_id: str, *, raises: bool = True, moves: bool = True, **fields: Any) -> int:
        """Open a recovery and return its epoch: one above the last, or the last one if `raises` is False.

        All tables must reach the epoch if the recovery `moves` the connector's offset, else those of the field `tables`
        (INV 39). A run that asks again gets its epoch again, even after its recovery was closed: the epoch never rises
        twice for one run. Raises RecoveryOpenError while another run's recovery is open.
        """
        state = self.update(
            lambda state: opened(state, run_id, fields, self._at(), self.where, raises=raises, moves=moves),
            f"opening of the recovery {run_id}",
        )
        return int(state["ledger"][run_id]["epoch"])

    def raise_epoch(self, run_id: str) -> int:
        """Give the run's open recovery a new epoch that all tables must reach, those that are published included; returns it.

        Needed for a new watermark after some tables were published under the old one: an apply cannot start from
        their stamps any more. Raises UsageError if the run has no open recovery.
        """

        def change(state: Document) -> Document:
            epoch = state["epoch"] + 1
            recovery = {**self._open(run_id, state), "published": {}, "epoch": epoch}
            required = Epochs(state["epoch"], state["epochs"]).raised(epoch, None)
            ledger = noted(state["ledger"], run_id, {"epoch": epoch})
            return {**state, "epoch": epoch, "epochs": required.tables, "recovery": recovery, "ledger": ledger}

        return int(self.update(change, f"new epoch for {run_id}")["epoch"])

    def change_recovery(
        self, run_id: str, transition: Callable[[OpenRecovery], OpenRecovery], read_position: ReadPosition
    ) -> OpenRecovery:
        """Change the run's current open recovery and return it. Raises UsageError if the run has none open.

        Its identity (run_id, epoch, opened_at) stays, whatever `transition` returns.
        """
        commits: list[tuple[OpenRecovery, Document]] = []

        def change(state: Document) -> Document:
            before = OpenRecovery.from_json(self._open(run_id, state), read_position)
            after = replace(transition(before), run_id=run_id, epoch=before.epoch, opened_at=before.opened_at)
            commits[:] = [(after, after.to_json())]
            return {**state, "recovery": commits[0][1]}

        document = self.update(change, f"change of the recovery {run_id}")["recovery"]
        # with thousands of tables, reading it takes as long as writing it: what came back as it was written is known
        same = (after for after, paper in commits if paper == document)
        return next(same, None) or OpenRecovery.from_json(document, read_position)

    def take_over(self, run_id: str, read_position: ReadPosition) -> None:
        """Give the open recovery to another run, because its run lost the lease. Epoch, W, fence and backups stay."""

        def change(state: Document) -> Document | None:
            if state["recovery"] is None or state["recovery"]["run_id"] == run_id:
                return None
            recovery = OpenRecovery.from_json(state["recovery"], read_position).taken_over_by(run_id)
            ledger = in_place(state["ledger"], run_id, recovery.epoch)
            return {**state, "recovery": recovery.to_json(), "ledger": ledger}

        self.update(change, f"takeover by {run_id}")

    def supersede(self, decision: Decision, read_position: ReadPosition) -> None:
        """Turn an open recovery that only moved the position into one that reads tables, in a new epoch of all tables.

        Only its backup of the offset is kept. A recovery that already reads tables is not changed.
        """

        def change(state: Document) -> Document | None:
            open_ = OpenRecovery.from_json(state["recovery"], read_position)
            if open_.strategy not in POSITION_ONLY:
                return None
            epoch = state["epoch"] + 1
            return {
                **state,
                "epoch": epoch,
                "epochs": {EVERY: epoch},
                "recovery": open_.superseded(decision, epoch).to_json(),
                "ledger": in_place(state["ledger"], open_.run_id, epoch),
            }

        self.update(change, f"{decision.strategy} in place of a detour")

    def _open(self, run_id: str, state: Document) -> Document:
        """The run's own open recovery. Raises UsageError if it has none open."""
        if (recovery := state["recovery"]) is None or recovery["run_id"] != run_id:
            raise self._not_open(run_id, recovery)
        return dict(recovery)

    def close_recovery(self, run_id: str, state: str = CLOSED) -> None:
        """Close the run's recovery; `state` is kept in its ledger ("closed", "abandoned"). Closing again changes nothing.

        Raises UsageError if the run never opened one.
        """

        def change(document: Document) -> Document | None:
            open_ = document["recovery"]
            if open_ is not None and open_["run_id"] == run_id:
                return closed(document, run_id, state, self._at())
            if "epoch" in document["ledger"].get(run_id, {}):
                return None
            raise self._not_open(run_id, open_)

        self.update(change, f"closing of the recovery {run_id}")

    def abandon(self, tables: Sequence[str], who: str, reason: str, read_position: ReadPosition) -> tuple[str, ...]:
        """Give up tables of the open recovery (default: all that are not published), with a line in the audit.

        Returns the tables. Raises UsageError if no recovery is open, or as decisions.abandon.abandoned_tables does.
        """
        chosen: list[str] = []

        def change(document: Document) -> Document:
            open_ = document["recovery"]
            if open_ is None:
                raise UsageError("no recovery is open", where=self.where, todo="There is nothing to abandon.")
            chosen[:] = abandoned_tables(OpenRecovery.from_json(open_, read_position), tables)
            at = self._at()
            line = {"at": at, "who": who, "what": f"abandon {open_['run_id']}", "from": open_["tables"], "to": reason}
            given_up = without_tables(document, chosen, Abandonment(at, who, reason, open_["run_id"]))
            return {**given_up, "audit": [*document["audit"], line][-KEEP_AUDIT:]}

        self.update(change, f"abandonment by {who}")
        return tuple(chosen)

    def _at(self) -> str:
        return self._clock().isoformat(timespec="milliseconds")

    def _not_open(self, run_id: str, open_: Document | None) -> UsageError:
        other = f"; open is {open_['run_id']}" if open_ else ""
        return UsageError(
            f"no recovery of the run {run_id} is open{other}", where=self.where, todo="Name the open one."
        )

    # the ledger

    def entry(self, run_id: str) -> LedgerEntry:
        """The stored entry of a run; an empty one if nothing is stored."""
        stored = self.ledger_get(run_id)
        try:
            return LedgerEntry.from_json(stored)
        except MALFORMED as error:
            raise self._unreadable(
                f"holds an entry of run {run_id} that cannot be read: {type(error).__name__}"
            ) from None

    def ledger_get(self, run_id: str) -> Document:
        """Everything noted about a run; {} if nothing."""
        return dict(self.state()["ledger"].get(run_id, {}))

    def ledger_once(self, run_id: str, key: str, value: object) -> Any:
        """Note `value` unless the key has a value already; returns the stored value. The first write wins."""

        def change(state: Document) -> Document | None:
            if key in state["ledger"].get(run_id, {}):
                return None
            return {**state, "ledger": noted(state["ledger"], run_id, {key: value})}

        return self.update(change, f"note {key} of {run_id}")["ledger"][run_id][key]

    def ledger_set(self, run_id: str, key: str, value: object) -> None:
        """Note `value` and overwrite an earlier one."""

        def change(state: Document) -> Document:
            return {**state, "ledger": noted(state["ledger"], run_id, {key: value})}

        self.update(change, f"note {key} of {run_id}")

    def note_server(self, server_uuid: str) -> None:
        """Record a server that this pipeline reads from."""

        def change(state: Document) -> Document | None:
            known = state["ledger"].get(SERVERS) or {}
            noted = {**known, server_uuid: self._clock().isoformat(timespec="seconds")}
            return None if server_uuid in known else {**state, "ledger": {**state["ledger"], SERVERS: noted}}

        self.update(change, f"server {server_uuid}")

    # what people changed by hand

    def audit(self, who: str, what: str, before: object, after: object) -> None:
        """Note who changed what, the values before and after, and the time. The newest KEEP_AUDIT lines are kept."""

        def change(state: Document) -> Document:
            at = self._at()
            line = {"at": at, "who": who, "what": what, "from": before, "to": after}
            return {**state, "audit": [*state["audit"], line][-KEEP_AUDIT:]}

        self.update(change, f"audit of {what}")

    # the nightly checks: what was compared when, table by table

    def checks(self) -> Document:
        """Table → the stored state of its nightly checks; {} before the first."""
        return dict(self.state()["checks"])

    def check_done(self, run_id: str, table: str, check: Mapping[str, object], result: Mapping[str, object]) -> None:
        """Store a table's comparison: `check` for the next night, `result` in the ledger (INV 3: once per run)."""
        self.update(lambda state: checked(state, run_id, table, check, result), f"check of {table} by {run_id}")

    def compared(self, xa: XaState | None, verdicts: Mapping[str, Verdict]) -> None:
        """Store the source's XA state from before these tables were compared (INV 32); see with_xa()."""
        states = {name: None if xa is None else plain(xa) for name in verdicts}
        equal = [name for name, verdict in verdicts.items() if verdict is Verdict.MATCH]
        if xa is not None:
            self.update(lambda state: with_xa(state, states, equal), f"XA state of {len(states)} tables")

    # mirrored stamps: all stamped snapshots of a table may expire

    def mirror_stamps(self, stamps: Mapping[str, Stamp]) -> None:
        """Keep the stamps of tables (by full name), replacing older ones."""

        def change(state: Document) -> Document:
            return {
                **state,
                "stamps": {**state["stamps"], **{table: stamp.to_json() for table, stamp in stamps.items()}},
            }

        self.update(change, "mirrored stamps")

    def mirrored_stamp(self, table: str) -> Stamp | None:
        """The mirrored stamp of a table, or None."""
        return self.mirrored_stamps()(table)

    def mirrored_stamps(self) -> Callable[[str], Stamp | None]:
        """The mirrored stamp of any table, or None, by one reading of the document."""
        mirrors: Document = self.state()["stamps"]
        return lambda table: None if table not in mirrors else Stamp.from_json(mirrors[table])


def _lease(state: Document) -> Lease | None:
    return None if state["lease"] is None else read(Lease, state["lease"], more=True)
