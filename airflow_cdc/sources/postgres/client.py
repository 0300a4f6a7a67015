"""The PostgreSQL source: everything that is read from the server itself.

Every method opens a short connection of its own, so a PostgresSource may be shared by threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final, Self

from airflow_cdc.core.check import Check
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.forecast import Forecast, Retention
from airflow_cdc.core.hold import HoldLimits
from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.ports import LogLook, SourceLoad
from airflow_cdc.core.position import Available, Position, Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.names import split_name
from airflow_cdc.sources.errors import SourceOutOfTimeError, WrongServerError
from airflow_cdc.sources.postgres.checks import checks
from airflow_cdc.sources.postgres.crash import leave_mark, read_counted_since, require_no_crash
from airflow_cdc.sources.postgres.errors import SlotError
from airflow_cdc.sources.postgres.facts import PgFacts, ServerFacts, read_facts, read_server, read_tables
from airflow_cdc.sources.postgres.load import read_load
from airflow_cdc.sources.postgres.position import Lsn, PgPosition, postgres_position
from airflow_cdc.sources.postgres.quoting import quote_ident
from airflow_cdc.sources.postgres.schema import read_defaults, read_definitions
from airflow_cdc.sources.postgres.session import PostgresEndpoint, Session, open_session, tls_mode
from airflow_cdc.sources.postgres.slot import SlotHolds
from airflow_cdc.sources.postgres.snapshot import (
    pin_statements,
    reading_statements,
    replace_slot,
    same_server_sql,
    wait_unused,
)
from airflow_cdc.sources.postgres.sql import key_predicate
from airflow_cdc.sources.row import Row
from airflow_cdc.sources.tls import tls_check

# the end of the log as written, which can be ahead of the part that is flushed to disk
_INSERT_END: Final = "SELECT pg_catalog.pg_current_wal_insert_lsn()::text AS lsn"
# Transactions that were open at a snapshot, still are, and may be in the middle of their commit. A session shows its
# transaction's id as 32 bits.
_COMMITTING: Final = """
SELECT o.xid::text AS xid
FROM pg_catalog.pg_snapshot_xip(%s::pg_snapshot) AS o(xid)
JOIN pg_catalog.pg_snapshot_xip(pg_catalog.pg_current_snapshot()) AS n(xid) ON o.xid = n.xid
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity a WHERE a.state LIKE 'idle in transaction%%'
    AND a.backend_xid::text = (o.xid::text::bigint %% 4294967296)::text)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_prepared_xacts p
    WHERE p.transaction::text = (o.xid::text::bigint %% 4294967296)::text)
"""


class PostgresSource:
    """A PostgreSQL server that a pipeline reads from. All errors say what, where and what to do."""

    def __init__(self, endpoint: PostgresEndpoint) -> None:
        self.endpoint = endpoint

    @property
    def where(self) -> str:
        """How messages name this server."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    @contextmanager
    def session(self, *, read_timeout: float | None = None) -> Iterator[Session]:
        """A session whose errors are SourceErrors, closed at the end."""
        with open_session(self.endpoint, read_timeout=read_timeout) as session:
            yield session

    @property
    def replication(self) -> None:
        """None: a slot and its place in the log belong to one server, so no connector can continue at another."""
        return

    def server(self) -> str:
        """The server's own name: system identifier/timeline."""
        return self.log_facts().name

    def facts(self) -> PgFacts:
        """What diagnosis needs to know about the server and the pipeline's slot; nothing is changed."""
        return self.facts_for((), None)

    def log_facts(self) -> ServerFacts:
        """The server that answers and the end of its log, as a test of the connection shows them."""
        with self.session() as session:
            return read_server(session)

    def facts_for(self, tables: Sequence[str], position: Position | None) -> PgFacts:  # noqa: ARG002 - the slot holds it
        """The server's facts, with how changes of `tables` reach the slot."""
        own = self.endpoint
        with self.session() as session:
            return read_facts(
                session, f"{own.host}:{own.port}", slot=own.slot, publication=own.publication, tables=tables
            )

    def definitions_and_defaults(
        self, tables: Sequence[str]
    ) -> tuple[dict[str, Table], dict[str, dict[str, str | None]]]:
        """The definitions of those of these tables that exist, and column → default, in one view."""
        with self.session() as session:
            session.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", doing="begin a read view")
            return read_definitions(session, tables), read_defaults(session, tables)

    def definitions(self, tables: Sequence[str]) -> dict[str, Table]:
        """The definitions of those of these tables that exist."""
        with self.session() as session:
            return read_definitions(session, tables)

    def checks(self, subject: str, tables: Sequence[str], *, hold: bool, unreadable: str = "") -> Iterator[Check]:  # noqa: ARG002
        """The doctor's checks of the server's identity, settings and privileges. Raises SourceError.

        `hold`: ignored, since the slot is the hold. `unreadable`: why a recovery could not read the server.
        """
        yield from checks(self.facts_for(tables, None), subject, unreadable)
        yield self._tls_check(subject)

    def _tls_check(self, subject: str) -> Check:
        """How the connection is encrypted, and what of it is not verified."""
        doing = "see the connection's cipher"
        with self.session() as session:
            told = session.rows(
                "SELECT cipher FROM pg_catalog.pg_stat_ssl WHERE pid = pg_catalog.pg_backend_pid()", doing=doing
            )
            # behind a pooler the server tells of the pooler's own connection
            cipher = (
                str(told[0]["cipher"] if told and told[0]["cipher"] else "cipher unknown") if session.encrypted else ""
            )
        return tls_check(subject, self.endpoint.host, tls_mode(self.endpoint), cipher)

    def load(self, limits: ThrottlePolicy) -> SourceLoad:
        """See core.ports.Source. What others execute is shown to members of pg_read_all_stats only."""
        with self.session() as session:
            return read_load(session, limits)

    def position(self) -> Watermark:
        """The end of the log now: everything that any earlier read saw is at or before it. Not usable as W.

        A connector stores only places of events, so on a quiet source its offset would never pass this position. We
        therefore write an empty message to the log after it, which the connector reads.
        """
        return self._marked()

    def reserve_log(self, timeout: float) -> None:
        """See core.ports.Source: creates the connector's slot again if it is missing or was invalidated.

        A new slot waits for the transactions that are open now. Raises SlotError for a slot that is not the
        connector's, DeadlineError if a reader still uses it.
        """
        own = self.endpoint
        with self.session() as session:
            slot = wait_unused(session, own.slot, timeout)
            if slot is None or slot.invalidated:
                # the exported snapshot is not needed: W is taken later, and the slot keeps everything after W
                replace_slot(own, session, own.slot, timeout=timeout).close()
            elif misfit := slot.misfit(own.database):
                raise SlotError(
                    f"slot {own.slot!r} cannot be read: {misfit}", where=self.where, todo="Check source.slot."
                )

    def check_logged(self, tables: Sequence[str]) -> None:
        """See core.ports.Source: checks that the publication exists and contains the tables.

        Changes written without it are never sent, so a recovery stops here if the publication is missing.
        """
        facts = self.facts_for(tables, None)
        if not facts.publication_name or (facts.publication is not None and not facts.unpublished()):
            return
        name, absent = facts.publication_name, ", ".join(facts.unpublished() or tables)
        made = "ALTER PUBLICATION {} ADD TABLE {}" if facts.publication else "CREATE PUBLICATION {} FOR TABLE {}"
        raise SourceError(
            f"publication {name!r} does not send the changes of {absent}",
            where=self.where,
            todo=f"Run {made.format(name, absent)}, then clear the task fence_and_watermark and all after it.",
        )

    def watermark(self, *, xa_timeout: float = 0.0) -> Watermark:  # noqa: ARG002 - prepared transactions are not in the log yet
        """W: the end of the log, then what is visible; `wait_visible` waits for what is logged but not yet visible.

        Leaves a message as `position` does: a connector that keeps its offset must pass W, also on a quiet source. W is on
        disk then, so a crash of the server leaves it within the log.
        """
        return self._marked()

    def _marked(self) -> Watermark:
        with self.session() as session:
            taken = _taken(session)
            leave_mark(session)
            return taken

    def wait_visible(self, watermark: Watermark, timeout: float) -> None:
        """Wait until no transaction that was open when W was taken can be one whose commit was logged before W.

        A transaction that is idle or prepared at the check cannot have been. Raises DeadlineError naming the others.
        """
        shown = postgres_position(watermark.position).snapshot
        if not shown:
            return

        def through() -> bool | None:
            waiting = session.rows(_COMMITTING, (shown,), doing="look for transactions that are being committed")
            if waiting:
                raise NotYet(", ".join(str(row["xid"]) for row in waiting))
            return True

        with self.session() as session:
            poll_until(through, timeout=timeout, interval=0.1, what="the open transactions to end")

    def at_rest(self, position: Position, watermark: Watermark) -> bool:  # noqa: ARG002 - as core.ports asks
        """False: this is never known. `position` writes a message to the log, which the connector reads and stores."""
        return False

    def start_of_file_after(self, position: Position | None, now: Watermark) -> Watermark:  # noqa: ARG002
        """Always raises SourceError: no part of this log can be skipped."""
        raise SourceError(
            "no file of such a server's log is passed over", where=self.where, todo="Choose full_snapshot."
        )

    def hold(self, label: str, limits: HoldLimits | None = None) -> SlotHolds:  # noqa: ARG002 - as core.ports asks
        """The slot already holds the log; nothing more is possible."""
        return SlotHolds(label)

    def xa(self) -> None:
        """Events of a prepared transaction are sent only at its commit, so there is nothing to report."""

    def xa_pending(self) -> tuple[()]:
        """See `xa`."""
        return ()

    def init_statements(self, watermark: Watermark | None, snapshot: str = "") -> tuple[str, ...]:
        """A reading connection's first statements: one read-only transaction, checked to be on W's server (INV 9).

        `snapshot`: the exported snapshot to use. `watermark` None: any server will do.
        """
        same = () if watermark is None else (same_server_sql(watermark.server),)
        return (*reading_statements(snapshot), *pin_statements(), *same)

    def check_same_server(self, watermark: Watermark) -> None:
        """Raise WrongServerError unless this is the cluster and the timeline on which W was taken (INV 9).

        A clean restart does no harm. Raises ServerCrashedError after a crash, which may undo what readers have seen.
        """
        with self.session() as session:
            now = read_server(session)
            if now.name != watermark.server:
                raise WrongServerError(
                    f"the connection reaches the server {now.name}, and the watermark is of {watermark.server}",
                    where=self.where,
                    todo="Check the address. If a standby was promoted, take a new watermark: clear fence_and_watermark.",
                )
            require_no_crash(session, watermark, self.where)

    def availability(self, position: Position) -> Available:
        """Whether the pipeline's slot still gives a reader at `position` every later change. Raises SourceError."""
        return self.facts_for((), position).available(position)

    @property
    def keep_longer(self) -> str:
        """See core.ports.SourceDatabase."""
        return "Raise max_slot_wal_keep_size, or set it to -1."

    def still_available(self, watermark: Watermark) -> Available:
        """Whether W is still available. Raises WrongServerError if the connection reaches another server."""
        self.check_same_server(watermark)
        return self.availability(watermark.position)

    def forecast(self, position: Position) -> tuple[Forecast, Retention]:  # noqa: ARG002 - the slot decides
        """How long the server keeps the slot's log. Raises SourceError, also if nothing limits it."""
        facts = self.facts()
        said = facts.forecast
        if said is None or facts.slot is None or facts.slot.invalidated:
            raise SourceError(
                f"slot {facts.slot_name!r} keeps no log on the server", where=self.where, todo="Ask `diagnose` why."
            )
        idle = int(facts.settings.get("idle_replication_slot_timeout") or 0)
        now = datetime.fromisoformat(facts.log.taken_at).timestamp()
        return Forecast(said.earliest_s, None, said.bytes_s, None, str(said)), Retention(idle, now)

    def count_rows(self, table: str, seconds: float) -> int | None:
        """How many rows `schema.table` holds now; None if counting takes longer than `seconds`."""
        found = self._within(f"SELECT count(*) AS n FROM {_place(table)}", seconds, doing=f"count the rows of {table}")
        return None if found is None else found[0].number("n")

    def keys_condition(self, table: Table, keys: Sequence[str]) -> str:
        """See core.ports.SourceDatabase."""
        return key_predicate(table, keys)

    def has_row(self, table: str, condition: str, seconds: float) -> bool | None:
        """Whether `schema.table` holds a row that meets the condition; None if looking takes longer than `seconds`."""
        sql = f"SELECT EXISTS (SELECT FROM {_place(table)} WHERE {condition}) AS found"
        found = self._within(sql, seconds, doing=f"look for rows of {table}")
        return None if found is None else bool(found[0]["found"])

    def key_of(self, table: Table, condition: str, seconds: float) -> dict[str, str | None]:
        """See core.ports.SourceDatabase."""
        keys = [f"{quote_ident(name)}::text AS {quote_ident(name)}" for name in table.key]
        sql = f"SELECT {', '.join(keys)} FROM {_place(table.full_name)} WHERE {condition} LIMIT 1"
        rows = self._within(sql, seconds, doing=f"read a key of {table.full_name}") if keys else None
        return {name: rows[0].text_or_null(name) for name in rows[0]} if rows else {}

    def table_ids(self, tables: Iterable[str]) -> dict[str, str]:
        """`schema.table` → an id that TRUNCATE and a rebuild change."""
        with self.session() as session:
            return {name: facts.generation for name, facts in read_tables(session, tables).items()}

    @property
    def ids_todo(self) -> str:
        """Everybody may read them."""
        return ""

    def partial_updates(self, since: str) -> LogLook | None:  # noqa: ARG002 - the log holds every row whole
        """See core.ports.Source: there are none."""
        return None

    def cascade_targets(self, tables: Sequence[str]) -> frozenset[str]:  # noqa: ARG002 - the log holds every row
        """Tables that foreign keys change without an event in the log: none, because cascades are logged row by row."""
        return frozenset()

    def _within(self, sql: str, seconds: float, *, doing: str) -> list[Row] | None:
        try:
            with self.session(read_timeout=max(seconds, 0.001)) as session:
                return session.rows(sql, doing=doing)
        except SourceOutOfTimeError:
            return None


def _taken(session: Session) -> Watermark:
    """The end of the log, then what is visible: read in this order, each in its own transaction."""
    server = read_server(session)
    lsn = session.row(_INSERT_END, doing="read the end of the log").text("lsn")
    shown = session.row("SELECT pg_catalog.pg_current_snapshot()::text AS s", doing="read what is visible").text("s")
    position = PgPosition(Lsn.parse(lsn), server.timeline, server.system_id, shown, read_counted_since(session))
    return Watermark(position, server.name, datetime.fromisoformat(server.taken_at))


def _place(table: str) -> str:
    schema, name = split_name(table)
    return f"{quote_ident(schema)}.{quote_ident(name)}"
