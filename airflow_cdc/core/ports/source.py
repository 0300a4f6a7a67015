"""A source database server, as the steps and applications use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_cdc.core.endpoint import Client
from airflow_cdc.core.transactions import Transactions

if TYPE_CHECKING:
    from airflow_cdc.core.check import Check
    from airflow_cdc.core.endpoint import DataEndpoint, Login
    from airflow_cdc.core.forecast import Forecast, Retention
    from airflow_cdc.core.hold import HoldLimits, HoldState
    from airflow_cdc.core.observation import ReplicaFacts, SourceFacts
    from airflow_cdc.core.pipeline import ThrottlePolicy
    from airflow_cdc.core.position import Available, Position, Watermark
    from airflow_cdc.core.table import Table
    from airflow_cdc.core.xa import XaState


class Source(Client, Protocol):
    """A source database server. Every method raises SourceError for a server that fails or refuses."""

    @property
    def endpoint(self) -> DataEndpoint:
        """Its kind's own DataEndpoint, for the kind's own adapters."""
        ...

    @property
    def replication(self) -> Replication | None:
        """The server as one of several that replicate from each other; None if transactions are renamed on others."""
        ...

    # ---- what it is

    def facts(self) -> SourceFacts:
        """What a diagnosis needs to know about the server, read at one time; nothing is changed."""
        ...

    def facts_for(self, tables: Sequence[str], position: Position | None) -> SourceFacts:
        """`facts`, plus those about these tables and a connector's stored position."""
        ...

    def server(self) -> str:
        """The server's own name for itself, as watermarks hold it; "" if a server has none."""
        ...

    def checks(self, subject: str, tables: Sequence[str], *, hold: bool, unreadable: str) -> Iterator[Check]:
        """The doctor's checks. `hold`: whether the policy asks for one. `unreadable`: why no recovery can read it."""
        ...

    def load(self, limits: ThrottlePolicy) -> SourceLoad:
        """How busy the server is, as far as one of these limits is about it."""
        ...

    # ---- its log

    def position(self) -> Watermark:
        """A position at or after everything that is visible now. Not usable as W."""
        ...

    def reserve_log(self, timeout: float) -> None:
        """Have a server that keeps its log only for named readers keep it from now on for the stopped connector.

        A log kept for it before that can no longer be read is given up. DeadlineError after `timeout` seconds.
        """
        ...

    def check_logged(self, tables: Sequence[str]) -> None:
        """Raise SourceError if the connector would not see changes of these tables from now on."""
        ...

    def watermark(self, *, xa_timeout: float = 60.0) -> Watermark:
        """W: a position at or before everything that a read started afterwards can see (INV 7, 8).

        Waits up to `xa_timeout` seconds for prepared transactions to end.
        """
        ...

    def wait_visible(self, watermark: Watermark, timeout: float) -> None:
        """Return once all transactions up to W are visible; raise DeadlineError after `timeout` seconds."""
        ...

    def check_same_server(self, watermark: Watermark) -> None:
        """Raise unless this is the server on which W was taken, without a restart since (INV 9)."""
        ...

    def availability(self, position: Position) -> Available:
        """Whether a reader at `position` would still find every later change. There is no other judge of this."""
        ...

    @property
    def keep_longer(self) -> str:
        """What a person sets at the server so that its log is kept longer."""
        ...

    def still_available(self, watermark: Watermark) -> Available:
        """Whether W is still available. Raises if the connection reaches another server."""
        ...

    def forecast(self, position: Position) -> tuple[Forecast, Retention]:
        """How long the log at a stored position stays. Raises SourceError also if nothing limits it."""
        ...

    def at_rest(self, position: Position, watermark: Watermark) -> bool:
        """Whether the server is exactly at W now, and a reader at `position` has read its log to the end."""
        ...

    def start_of_file_after(self, position: Position | None, now: Watermark) -> Watermark:
        """W for `resume_next_file`: the start of the first log file after the position's."""
        ...

    def hold(self, label: str, limits: HoldLimits | None = None) -> Hold:
        """A hold to acquire, which keeps the log from being purged. Its state says if the server offers none."""
        ...

    def xa(self) -> XaState | None:
        """The server's XA counters and open XA transactions, to compare with a later answer (INV 32)."""
        ...

    def xa_pending(self) -> Sequence[PreparedTransaction]:
        """The prepared transactions, which a reader sees neither as committed nor as rolled back."""
        ...

    # ---- its tables, as "schema.table"

    def definitions(self, tables: Sequence[str]) -> Mapping[str, Table]:
        """The definitions of the tables that exist."""
        ...

    def definitions_and_defaults(
        self, tables: Sequence[str]
    ) -> tuple[Mapping[str, Table], Mapping[str, Mapping[str, str | None]]]:
        """The definitions, and for each table: column → default. Fails soon rather than wait long."""
        ...

    def table_ids(self, tables: Iterable[str]) -> Mapping[str, str]:
        """Table → an id that TRUNCATE and a rebuild change; a table is absent if its id cannot be read: see `ids_todo`."""
        ...

    @property
    def ids_todo(self) -> str:
        """What a person can do so that the ids of tables can be read."""
        ...

    def partial_updates(self, since: str) -> LogLook | None:
        """Tables changed since the place `since` by updates that no connector sees; "": only where the log ends.

        None: the source has none, or the user may not look.
        """
        ...

    def cascade_targets(self, tables: Sequence[str]) -> frozenset[str]:
        """The tables whose rows foreign keys change without a row in the log (INV 14)."""
        ...

    def count_rows(self, table: str, seconds: float) -> int | None:
        """How many rows the table holds; None if counting them takes longer than `seconds`."""
        ...

    def keys_condition(self, table: Table, keys: Sequence[str]) -> str:
        """A condition in the source's SQL for the rows with these key texts; it may hold for a few others."""
        ...

    def has_row(self, table: str, condition: str, seconds: float) -> bool | None:
        """Whether the table holds a row with that condition; None if looking takes longer than `seconds`."""
        ...

    def key_of(self, table: Table, condition: str, seconds: float) -> Mapping[str, str | None]:
        """The key of one row with that condition, column → text; {} without a key or a row, or after `seconds`."""
        ...


class Replication(Protocol):
    """One server among those that replicate from each other, where transactions keep their names on every server.

    Every method that asks the server raises SourceError.
    """

    @property
    def login(self) -> Login:
        """The address and user with which a connector reads this server."""
        ...

    def facts(self, conn_id: str) -> ReplicaFacts:
        """The facts that decide whether a connector may read here instead of at its source."""
        ...

    def standing_faults(self, conn_id: str) -> tuple[str, ...]:
        """Why this server could never stand in for its source; () if it could."""
        ...

    def faults(self, conn_id: str, source: SourceFacts, stored: Transactions) -> tuple[str, ...]:
        """Why a connector that has read `stored` of `source` cannot continue here; () if it can."""
        ...

    def known(self, text: str) -> Transactions:
        """The set with this printed form; "" is the empty set. Raises PositionError."""
        ...

    def read_by(self, position: Position | None, end: Position | None = None) -> Transactions | None:
        """The transactions that a connector at `position` has read; None if no set says so.

        `end`: log_end() from before the position was read. An offset at or past it includes everything before it, even
        if the connector has not added the last transaction to its set yet.
        """
        ...

    def executed(self, *, under_way: bool = True) -> Transactions:
        """All transactions of the server; `under_way`: including those being committed right now."""
        ...

    def purged(self) -> Transactions:
        """The transactions that the server can no longer send."""
        ...

    def log_end(self) -> Position:
        """A position in the server's log, with a set of transactions that are all before it."""
        ...

    def from_the_oldest(self, read: Transactions) -> Position:
        """The start of the log, as a position for a connector that has read these transactions."""
        ...

    def after(self, read: Transactions) -> Position:
        """A later position for such a connector, as late in the log as possible without skipping anything."""
        ...


class Hold(Protocol):
    """Blocks the purge of a source's log, and DDL, while it is held (INV 10). Never raises: its state shows errors."""

    def acquire(self) -> HoldState: ...

    def tick(self) -> HoldState:
        """Check the server; call it about every second while the hold is held."""
        ...

    def release(self, reason: str = "no longer needed") -> HoldState: ...


class PreparedTransaction(Protocol):
    """A transaction that is prepared but not ended."""

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class LogLook:
    """A look at the log from a place on: tables whose rows changed although a connector sees no event of it (INV 31).

    Attributes:
        tables: "schema.table" of the changes that no event tells of.
        upto: where the next look begins, in the source's own words.
        events: how many events were looked at.
        why: why a part of the log was not looked at; "" if all of it was.
        what, todo: what happened to these tables, and what to do first, in the source's own words.
    """

    tables: frozenset[str]
    upto: str
    events: int = 0
    why: str = ""
    what: str = ""
    todo: str = ""


@dataclass(frozen=True, slots=True)
class SourceLoad:
    """What a server tells of its work at one moment, as far as policy.throttle asks.

    Attributes:
        running: statements that it executes, without the one that asks; None: not asked.
        lag_s: how far it is behind the server that it replicates from; None: not asked, no replica, or not known.
        lag_unknown: why it is not known how far a replica is behind; "" otherwise.
    """

    running: int | None = None
    lag_s: float | None = None
    lag_unknown: str = ""
