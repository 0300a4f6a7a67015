"""The MySQL source: facts, the watermark and the waits for it, and whether its log is still available.

Every method opens a short connection of its own, so a MySqlSource may be shared by threads. All
errors are SourceErrors (errors.py) that say what happened, where, and what to do.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import ClassVar, Final, Generic, Self, TypeVar

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from airflow_cdc.core.check import Check
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import DeadlineError, SourceError
from airflow_cdc.core.forecast import Forecast, Retention
from airflow_cdc.core.hold import HoldLimits
from airflow_cdc.core.pipeline import ThrottlePolicy
from airflow_cdc.core.ports import LogLook, Replication, SourceLoad
from airflow_cdc.core.position import Available, Position, Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.core.xa import XaState
from airflow_cdc.sources.errors import SourceOutOfTimeError, SourceSettingError
from airflow_cdc.sources.mysql.availability import BinlogWords
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.mysql.cascades import unlogged_cascades
from airflow_cdc.sources.mysql.checks import checks
from airflow_cdc.sources.mysql.engine import read_table_ids, time_limit
from airflow_cdc.sources.mysql.errors import ServerRestartedError
from airflow_cdc.sources.mysql.facts import BinlogFacts, Common, MySqlFacts, place_in_binlog
from airflow_cdc.sources.mysql.forecast import forecast
from airflow_cdc.sources.mysql.grants import Grants, read_grants
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.hold import Hold, hold_owner, run_hold
from airflow_cdc.sources.mysql.partial_updates import partial_updates
from airflow_cdc.sources.mysql.position import BinlogPosition, at_last_read, mysql_position
from airflow_cdc.sources.mysql.probe import (
    inspect_position,
    max_file_size,
    read_load,
    required_retention,
    retention,
    seen_replicas,
    timed_files,
)
from airflow_cdc.sources.mysql.quoting import quote_full, quote_ident, quote_table
from airflow_cdc.sources.mysql.replica import MySqlReplication, start_of_file_after
from airflow_cdc.sources.mysql.schema import read_defaults, read_table_defs
from airflow_cdc.sources.mysql.server_log import (
    ServerIdentity,
    Status,
    XaTransaction,
    as_watermark,
    executed_and_purged,
    gtid_point,
    list_binlog_files,
    log_filters,
    owned_gtids,
    prepared_xa,
    read_identity,
    read_settings,
    read_status,
    read_xa,
    reading_init_statement,
    require_log,
    require_same,
    rotated_point,
    start_if_empty,
    wait_for_xa,
    wait_slice,
)
from airflow_cdc.sources.mysql.session import QUICK_READ_S, MySqlEndpoint, Session, open_connection, open_session
from airflow_cdc.sources.mysql.sql import key_predicate, shown_key
from airflow_cdc.sources.row import Row

__all__ = ["MySqlEndpoint", "MySqlSource", "ServerIdentity", "XaTransaction"]

FORECAST_FILES: Final = 8


F = TypeVar("F", bound=BinlogFacts, covariant=True)  # noqa: PLC0105


class BinlogSource(BinlogWords, Generic[F]):
    """A server with a binary log that a pipeline reads from."""

    innodb_tables: ClassVar[str] = "INNODB_TABLES"
    """The information_schema table that holds InnoDB's own table ids."""

    def __init__(self, endpoint: MySqlEndpoint) -> None:
        self.endpoint = endpoint

    @property
    def where(self) -> str:
        """How messages name this server."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """A copy of this source with these limits on each call."""
        return type(self)(self.endpoint.limited(limits))

    def connect(self, *, read_timeout: float | None = None, quick: bool = False) -> Connection[Cursor]:
        """A new PyMySQL connection: utf8mb4, REPEATABLE READ, time zone UTC, autocommit. Raises SourceError.

        `quick`: a short read timeout, for statements about the server and its tables. Otherwise a read may take as long
        as a table scan.
        """
        return open_connection(self.endpoint, read_timeout=self.endpoint.quick_read if quick else read_timeout)

    @contextmanager
    def session(self, *, read_timeout: float | None = None) -> Iterator[Session]:
        """A session whose errors are SourceErrors, closed at the end."""
        with open_session(self.endpoint, read_timeout=read_timeout) as session:
            yield session

    def version(self) -> ServerVersion:
        """The server's version, which also tells its capabilities."""
        with self.session() as session:
            return session.version

    def identity(self) -> ServerIdentity:
        """The identity of the server that answers now."""
        with self.session() as session:
            return self._identity(session)

    @property
    def replication(self) -> Replication | None:
        """None for a make of server on which the same transaction has different names on different servers."""
        return None

    def server(self) -> str:
        """The server's own name: its server_uuid, or "" if it has none."""
        return self.identity().server_uuid

    def facts(self) -> F:
        """What diagnosis needs to know about the server. Runs a few cheap statements and changes nothing.

        Raises SourceSettingError, which says what to write, if the server is not of the make that the pipeline names.
        """
        with self.session() as session:
            self._check_make(session)
            return self._facts(session)

    def log_facts(self) -> Common:
        """The facts that every make of server has, for a connection that does not say which make answers there."""
        with self.session() as session:
            return self._common(session)

    def facts_for(self, tables: Sequence[str], position: Position | None) -> F:
        """The server's facts, plus what its log holds at `position` and which changes of `tables` it does not log."""
        place = place_in_binlog(position)
        with self.session() as session:
            self._check_make(session)
            facts = self._facts_at(session, position)
            files = facts.binlog_files
            needs = read_grants(session).missing(tables, gtid=facts.gtid_mode == "ON", hold=False)
            return replace(
                facts,
                at_offset=None
                if place is None
                else inspect_position(session, place, files, last_read=at_last_read(position)),
                retention=retention(session, self.endpoint, facts.needed_file(position), files),
                cascades=unlogged_cascades(session, tables),
                replicas_seen=seen_replicas(session),
                missing_privileges=tuple(f"{need.privilege} on {need.on}" for need in needs if need.required),
            )

    def _check_make(self, session: Session) -> None:
        """Raise SourceSettingError if another make of server answers."""
        raise NotImplementedError

    def _facts(self, session: Session) -> F:
        """The facts, including those that only this make of server has."""
        raise NotImplementedError

    def _facts_at(self, session: Session, position: Position | None) -> F:  # noqa: ARG002 - for makes that do
        """The facts plus those only this make has about a stored place, or only a diagnosis needs."""
        return self._facts(session)

    def _common(self, session: Session) -> Common:
        """The facts that are read in the same way from every make."""
        settings = read_settings(session)
        log_bin = settings["log_bin"] == "ON"
        identity = read_identity(session)
        return Common(
            server_uuid=identity.server_uuid,
            server_id=identity.server_id,
            version=session.version.text,
            gtid_mode=settings.get("gtid_mode"),
            binlog_files=list_binlog_files(session) if log_bin else (),
            current=read_status(session).position if log_bin else BinlogPosition("none.000000", 0),
            log_bin=log_bin,
            binlog_format=settings.get("binlog_format", "ROW"),
            row_image=settings.get("binlog_row_image", ""),
            log_filters=log_filters(session) if log_bin else (),
            uptime_s=identity.uptime_s,
            address=f"{self.endpoint.host}:{self.endpoint.port}",
        )

    def definitions(self, tables: Sequence[str]) -> dict[str, Table]:
        """The definitions of those of these tables that exist. Raises SourceError."""
        with closing(self.connect()) as connection:
            return read_table_defs(connection, tables)

    def definitions_and_defaults(
        self, tables: Sequence[str]
    ) -> tuple[dict[str, Table], dict[str, dict[str, str | None]]]:
        """The definitions of those of these tables that exist, and column → default. Answers or fails soon."""
        # with a scan's timeout, a server that accepts and never answers would block this for an hour
        with closing(self.connect(quick=True)) as connection:
            return read_table_defs(connection, tables), read_defaults(connection, tables)

    def forecast(self, position: Position) -> tuple[Forecast, Retention]:
        """How long the file of a stored position stays on the server. Raises SourceError, also if the file is gone."""
        with self.session() as session:
            facts = self._facts(session)
            file, files = facts.needed_file(position), facts.binlog_files
            kept_log = required_retention(session, self.endpoint, file, files)
            size = max_file_size(session)
        timed = timed_files(self.endpoint, files, FORECAST_FILES)
        return forecast(kept_log, timed, in_newest_file=file == files[-1].name, max_size=size), kept_log

    def load(self, limits: ThrottlePolicy) -> SourceLoad:
        """See core.ports.Source."""
        with self.session() as session:
            return read_load(session, limits)

    def reserve_log(self, timeout: float) -> None:
        """Nothing to do: this server keeps its log for some time, no matter who reads it."""

    def check_logged(self, tables: Sequence[str]) -> None:
        """Nothing to do: this server's log holds the changes of all tables."""

    def watermark(self, *, xa_timeout: float = 60.0) -> Watermark:
        """See core.ports.Source."""
        raise NotImplementedError

    def position(self) -> Watermark:
        """See core.ports.Source."""
        raise NotImplementedError

    def wait_visible(self, watermark: Watermark, timeout: float) -> None:
        """See core.ports.Source."""
        raise NotImplementedError

    def at_rest(self, position: Position, watermark: Watermark) -> bool:
        """See core.ports.Source."""
        raise NotImplementedError

    def start_of_file_after(self, position: Position | None, now: Watermark) -> Watermark:
        """W at the start of the first file after the position's; the rest as in `now`. Raises SourceError."""
        raise NotImplementedError

    def init_statement(self, watermark: Watermark) -> str:
        """ONE SET statement for each reading connection (Spark's sessionInitStatement), INV 9.

        It pins isolation, time zone and sql_mode. It fails if the connection reaches another server than W's, or a
        server that does not show all of W yet.
        """
        raise NotImplementedError

    def _identity(self, session: Session) -> ServerIdentity:
        """The server that answers; its server_uuid is the name used in watermarks."""
        return read_identity(session)

    def count_rows(self, table: str, seconds: float) -> int | None:
        """How many rows `schema.table` holds now; None if counting takes longer than `seconds`."""
        rows = self._within(f"COUNT(*) AS n FROM {quote_full(table)}", seconds, doing=f"count the rows of {table}")
        return None if rows is None else rows[0].number("n")

    def keys_condition(self, table: Table, keys: Sequence[str]) -> str:
        """See core.ports.SourceDatabase."""
        return key_predicate(table, keys)

    def has_row(self, table: str, condition: str, seconds: float) -> bool | None:
        """Whether `schema.table` holds a row that meets the condition; None if looking takes longer than `seconds`."""
        rows = self._within(
            f"1 FROM {quote_full(table)} WHERE {condition} LIMIT 1", seconds, doing=f"look for rows of {table}"
        )
        return None if rows is None else bool(rows)

    def key_of(self, table: Table, condition: str, seconds: float) -> dict[str, str | None]:
        """See core.ports.SourceDatabase."""
        keys = [f"{shown_key(column)} AS {quote_ident(column.name)}" for column in table.key_columns]
        wanted = f"{', '.join(keys)} FROM {quote_table(table)} WHERE {condition} LIMIT 1"
        rows = self._within(wanted, seconds, doing=f"read a key of {table.full_name}") if keys else None
        return {name: rows[0].text_or_null(name) for name in rows[0]} if rows else {}

    def _within(self, select: str, seconds: float, *, doing: str) -> list[Row] | None:
        """The rows of a SELECT; None if it takes longer than `seconds`."""
        with self.session(read_timeout=seconds + QUICK_READ_S) as session:
            before, hint = time_limit(session.version, seconds)
            try:
                return session.rows(f"{before}SELECT {hint} {select}", doing=doing)
            except SourceOutOfTimeError:
                return None

    def table_ids(self, tables: Iterable[str]) -> dict[str, str]:
        """`schema.table` → InnoDB's own ids of it (one per partition), which TRUNCATE and a rebuild change.

        A table without readable ids is absent: it is not InnoDB's, or the user lacks PROCESS. Tables whose names differ
        only in letters beyond ASCII may share their ids: a change of one then counts as a change of both.
        """
        with suppress(SourceError), self.session() as session:
            return read_table_ids(session, tables, self.innodb_tables)
        return {}

    def partial_updates(self, since: str) -> LogLook | None:
        """See core.ports.Source."""
        with self.session() as session:
            return partial_updates(session, since)

    def cascade_targets(self, tables: Sequence[str]) -> frozenset[str]:
        """Which of these tables foreign keys change without an event in this server's log (INV 14)."""
        with self.session() as session:
            return frozenset(text.partition(" (")[0] for text in unlogged_cascades(session, tables))

    def xa_pending(self) -> list[XaTransaction]:
        """The prepared XA transactions. Raises MissingPrivilegeError (XA_RECOVER_ADMIN)."""
        with self.session() as session:
            return sorted(prepared_xa(session), key=lambda xa: xa.data)

    def xa(self) -> XaState | None:
        """The server's XA counters and open XA transactions, for comparison with a later reading (INV 32)."""
        with self.session() as session:
            return read_xa(session, self._identity(session))

    def availability(self, position: Position) -> Available:
        """Whether a reader at `position` would still find every change since. Raises SourceError."""
        with self.session() as session:
            return self._facts(session).available(position)

    def still_available(self, watermark: Watermark) -> Available:
        """Whether W is still available. Raises WrongServerError if the connection reaches another server."""
        with self.session() as session:
            require_same(self._identity(session), watermark.server, self.where)
            return self._facts(session).available(watermark.position)

    def check_same_server(self, watermark: Watermark) -> None:
        """Raise WrongServerError or ServerRestartedError unless this server has run since W (INV 9).

        A restart after W can lose commits that snapshot reads already saw, so a new W must be taken.
        """
        with self.session() as session:
            now = self._identity(session)
        require_same(now, watermark.server, self.where)
        elapsed = (now.now - watermark.taken_at).total_seconds()
        what, first = "", ""
        if now.uptime_s < 0:  # it was set back after the start, and by this clock nothing is before or after that
            what = f"the server's clock was set back to {now.now}, before its own start: it may have been restarted since the watermark"
            first = "Set its clock right, or restart the server. "
        elif now.uptime_s <= elapsed - 1:  # Uptime is truncated to whole seconds
            what = f"the server was restarted {now.uptime_s} s ago, after the watermark of {watermark.taken_at}"
        elif elapsed < -1:  # by this clock a restart since W would lie before it
            what = f"the server's clock was set back to {now.now}, before the watermark of {watermark.taken_at}: it may have been restarted"
        if what:
            todo = f"{first}Clear the task fence_and_watermark and all after it: a new watermark is taken, and all tables are re-read."
            raise ServerRestartedError(what, where=self.where, todo=todo)

    def checks(self, subject: str, tables: Sequence[str], *, hold: bool, unreadable: str) -> Iterator[Check]:
        """The doctor's checks. `hold`: the policy asks for one. `unreadable`: why a recovery could not read the server.

        Raises SourceError.
        """
        return checks(self, subject, tables, hold=hold, unreadable=unreadable)

    def grants(self) -> Grants:
        """The user's effective privileges, active roles included."""
        with self.session() as session:
            return read_grants(session)

    def hold_owner(self, label: str) -> int | None:
        """The id of the connection that holds `label` now, or None. Lets another process check a hold."""
        with self.session() as session:
            return hold_owner(session, label)

    def hold(self, label: str, limits: HoldLimits | None = None) -> Hold:
        """A hold on binlog files and DDL for the owner to `acquire()`, `tick()` and `release()`."""
        return Hold(self.endpoint, label, limits or HoldLimits())

    @contextmanager
    def held(self, label: str, limits: HoldLimits | None = None) -> Iterator[Hold]:
        """A hold that a thread of this process keeps until the block ends. It never raises: read its `state`."""
        with run_hold(self.hold(label, limits)) as hold:
            yield hold


class MySqlSource(BinlogSource[MySqlFacts]):
    """A MySQL server that a pipeline reads from."""

    def watermark(self, *, xa_timeout: float = 60.0) -> Watermark:
        """Take W, a point that every transaction is either up to or after, before the first read (INV 7, 8).

        With gtid_mode ON, W is the executed set of one status statement; file and position come with it but run
        ahead of it on some servers, so they are ignored. Otherwise the log is rotated, which waits for commits
        under way, and W is the start of the new file.
        Waits up to `xa_timeout` seconds for XA transactions prepared before W to end.
        Raises SourceError: log off, a privilege missing, XA still open, server changed meanwhile.
        """
        with self.session(read_timeout=max(QUICK_READ_S, self.endpoint.connect_timeout)) as session:
            settings = read_settings(session)
            require_log(settings, self.where)
            before = read_identity(session)
            gtid = settings.get("gtid_mode") == "ON"
            status = gtid_point(session) if gtid else rotated_point(session)
            after = read_identity(session)
            require_same(before, after.server_uuid, self.where)
            wait_for_xa(session, xa_timeout)
            return as_watermark(status, after)

    def position(self) -> Watermark:
        """The current position: everything that any earlier read saw is at or before it.

        Not W: W must be at or before what is visible, and this must be at or after it. A transaction becomes
        visible a moment before its GTID is in gtid_executed, so those under way (gtid_owned, read first) are
        added. A file without changes counts as its start, where a connector stays on a quiet server. This
        neither rotates the log nor waits.
        """
        with self.session() as session:
            settings = read_settings(session)
            require_log(settings, self.where)
            gtid = settings.get("gtid_mode") == "ON"
            owned = owned_gtids(session) if gtid else GtidSet()
            status = read_status(session)
            gtids = None if not gtid or status.gtids is None else status.gtids | owned
            place = start_if_empty(session, status.position)
            return as_watermark(Status(place, gtids), read_identity(session))

    def wait_visible(self, watermark: Watermark, timeout: float) -> None:
        """Wait until every transaction up to W can be read here (INV 7). `timeout` in seconds.

        Without GTIDs the rotation has already waited, so only the server's identity is checked.
        Raises DeadlineError, or WrongServerError when this is another server.
        """
        deadline = time.monotonic() + timeout
        with self.session() as session:
            require_same(read_identity(session), watermark.server, self.where)
            gtids = mysql_position(watermark.position).gtids
            if gtids is None:
                return
            while not wait_slice(session, gtids, deadline - time.monotonic()):
                if time.monotonic() >= deadline:
                    raise DeadlineError(
                        "not every transaction up to the watermark is visible yet",
                        where=self.where,
                        todo="Try again; if it persists, the server is a replica that lags or has stopped.",
                        timeout=timeout,
                    )

    def at_rest(self, position: Position, watermark: Watermark) -> bool:
        """See core.ports.Source. Needed after a DDL: its GTID enters a connector's set only with the next transaction,
        while file and position move at once, so on an idle server the set alone would never cover W.
        """
        here, wanted = mysql_position(position), mysql_position(watermark.position)
        if wanted.gtids is None or not here.place.comparable(wanted.place) or here.place < wanted.place:
            return False
        now = self.position()
        end = mysql_position(now.position)
        same = (now.server, end.gtids) == (watermark.server, wanted.gtids)
        return same and end.may_be_on(here.server_id) and end.place <= here.place

    def start_of_file_after(self, position: Position | None, now: Watermark) -> Watermark:
        """See BinlogSource."""
        place = place_in_binlog(position)
        return start_of_file_after(self.endpoint, place.file if place else "", now)

    def init_statement(self, watermark: Watermark) -> str:
        """See BinlogSource."""
        return reading_init_statement(watermark, self.version())

    @property
    def replication(self) -> MySqlReplication:
        """This server as one of several that replicate from each other."""
        return MySqlReplication(self.endpoint)

    def _check_make(self, session: Session) -> None:
        if session.version.mariadb:
            raise SourceSettingError(
                f"the server is {session.version.name}, and the pipeline says that it is MySQL",
                where=self.where,
                todo="Write `kind: mariadb` below `source:` in pipelines.yaml.",
            )

    def _facts(self, session: Session) -> MySqlFacts:
        gtid = "gtid_mode" in read_settings(session)
        owned = owned_gtids(session) if gtid else None  # read first: one that ends in between is then in both
        executed, purged = executed_and_purged(session) if gtid else (None, None)
        common = self._common(session)
        return MySqlFacts(**common, gtid_executed=executed, gtid_purged=purged, gtid_owned=owned)

    def _facts_at(self, session: Session, position: Position | None) -> MySqlFacts:  # noqa: ARG002
        facts = self._facts(session)
        return replace(facts, identity=facts.server_uuid, xa=read_xa(session, read_identity(session)))
