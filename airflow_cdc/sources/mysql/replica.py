"""A MySQL server as a replica: what it does not replicate, and places in its log by GTID. Read-only; bounded time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from airflow_cdc.core.endpoint import Login
from airflow_cdc.core.errors import MissingPrivilegeError, PositionError, SourceError
from airflow_cdc.core.observation import SourceFacts
from airflow_cdc.core.position import Position, Watermark
from airflow_cdc.core.transactions import Transactions
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.detour import faults, standing_faults
from airflow_cdc.sources.mysql.facts import MySqlFacts, MySqlReplicaFacts
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition, file_after, mysql_position
from airflow_cdc.sources.mysql.server_log import (
    START_OF_FILE,
    executed_and_purged,
    list_binlog_files,
    log_filters,
    owned_gtids,
    read_identity,
    read_settings,
    read_status,
    require_same,
)
from airflow_cdc.sources.mysql.session import MySqlEndpoint, Session, open_session
from airflow_cdc.sources.row import Row

LOOK_S: Final = 10.0
ANOTHER_STRATEGY: Final = "Trigger cdc_recovery with the strategy diff_repair."
_SAME_KIND: Final = "Name a replica of the same kind as the source."
_STATUS_FILTERS: Final = re.compile(r"replicate_(?:wild_)?(?:do|ignore|rewrite)_(?:db|table)")
# settings that log a transaction without its rows; each is harmless at these values
_HARMLESS: Final[Mapping[str, tuple[str, ...]]] = {
    "slave_skip_errors": ("OFF", ""),
    "replica_skip_errors": ("OFF", ""),
}


def read_replica(endpoint: MySqlEndpoint, conn_id: str) -> MySqlReplicaFacts:
    """The facts that decide whether a connector may read there. Raises SourceError, also if a privilege is missing."""
    with open_session(endpoint, read_timeout=LOOK_S) as session:
        settings = read_settings(session)
        executed, purged = executed_and_purged(session)
        status = replication_status(session)
        return MySqlReplicaFacts(
            conn_id=conn_id,
            server_uuid=read_identity(session).server_uuid,
            address=f"{endpoint.host}:{endpoint.port}",
            gtid_mode=settings.get("gtid_mode", ""),
            gtid_executed=executed,
            gtid_purged=purged,
            log_bin=settings.get("log_bin") == "ON",
            log_updates="ON" in _variables(session, "log_slave_updates", "log_replica_updates").values(),
            binlog_format=settings.get("binlog_format", ""),
            row_image=settings.get("binlog_row_image", ""),
            sources=tuple(str(row.get("source_uuid") or row.get("master_uuid") or "") for row in status),
            filters=(*_applier_filters(status), *log_filters(session), *_skipped(session)),
        )


class MySqlReplication:
    """One of several MySQL servers that replicate from each other (core.ports.source.Replication)."""

    def __init__(self, endpoint: MySqlEndpoint) -> None:
        self._endpoint = endpoint

    @property
    def login(self) -> Login:
        """The address at which a connector reads this server, and the login."""
        endpoint = self._endpoint
        return Login(endpoint.host, endpoint.port, endpoint.user, endpoint.password)

    def facts(self, conn_id: str) -> MySqlReplicaFacts:
        """The facts that decide whether a connector may read here instead of the source. Raises SourceError."""
        return read_replica(self._endpoint, conn_id)

    def standing_faults(self, conn_id: str) -> tuple[str, ...]:
        """Why this server could never stand in for its source; () if it could."""
        return standing_faults(self.facts(conn_id))

    def faults(self, conn_id: str, source: SourceFacts, stored: Transactions) -> tuple[str, ...]:
        """Why a connector that has read `stored` of `source` cannot continue here; () if it can. Raises SourceError."""
        if not isinstance(source, MySqlFacts):
            raise SourceError(
                f"{source.address} is no MySQL server",
                where=self._endpoint.where,
                todo=_SAME_KIND,
            )
        return faults(self.facts(conn_id), source, gtid_set(stored))

    def known(self, text: str) -> GtidSet:
        """The set with this text. Raises PositionError."""
        return GtidSet.parse(text)

    def read_by(self, position: Position | None, end: Position | None = None) -> GtidSet | None:
        """The transactions that a connector at `position` has read; None if the position has no set.

        A DDL's GTID enters the committed set only with the next transaction, which an idle replica never has. But an
        offset at or past `end` (log_end(), read before the offset) includes everything before that end.
        """
        here = None if position is None else mysql_position(position)
        if here is None or here.gtids is None:
            return None
        there = None if end is None else mysql_position(end)
        if there is None or there.gtids is None or not here.place.comparable(there.place) or here.place < there.place:
            return here.gtids
        return here.gtids | there.gtids

    def executed(self, *, under_way: bool = True) -> GtidSet:
        """All transactions on the server; `under_way`: including those that are being committed. Raises SourceError."""
        with open_session(self._endpoint) as session:
            owned = owned_gtids(session) if under_way else GtidSet()  # read first: one that ends in between is in both
            return executed_and_purged(session)[0] | owned

    def purged(self) -> GtidSet:
        """The transactions that the server can no longer send. Raises SourceError."""
        with open_session(self._endpoint) as session:
            return executed_and_purged(session)[1]

    def log_end(self) -> MySqlPosition:
        """A position in the server's log, with a set of transactions that are all before it. Raises SourceError."""
        with open_session(self._endpoint) as session:
            status = read_status(session)
            return MySqlPosition(status.position.file, status.position.pos, status.gtids or GtidSet())

    def from_the_oldest(self, read: Transactions) -> MySqlPosition:
        """Where a connector that has read `read` starts: at the oldest file. Raises SourceError if there is none."""
        with open_session(self._endpoint) as session:
            return MySqlPosition(_names(session)[0], START_OF_FILE, gtid_set(read))

    def after(self, read: Transactions) -> MySqlPosition:
        """A start position for a connector that has read `read`: the newest file with only such transactions before it.

        A connector with GTIDs sends only the set, so file and position matter only to people and forecasts. If we may
        not read the server's files, it is the oldest file. Raises SourceError.
        """
        gtids = gtid_set(read)
        with open_session(self._endpoint) as session:
            names = _names(session)
            fitting = (
                name
                for name in reversed(names)
                if (before := _logged_before(session, name)) is not None and before.issubset(gtids)
            )
            return MySqlPosition(next(fitting, names[0]), START_OF_FILE, gtids)


def gtid_set(transactions: Transactions) -> GtidSet:
    """`transactions` as a GtidSet. Raises PositionError for those of another kind of source."""
    if not isinstance(transactions, GtidSet):
        raise PositionError(
            f"{transactions} are transactions of another kind of source than MySQL",
            todo=_SAME_KIND,
        )
    return transactions


def _names(session: Session) -> list[str]:
    """The names of the server's log files, oldest first. Raises SourceError if there are none."""
    names = [file.name for file in list_binlog_files(session)]
    if not names:
        raise SourceError("the server has no binlog file", where=session.where, todo="Start it with --log-bin.")
    return names


def start_of_file_after(endpoint: MySqlEndpoint, file: str, now: Watermark) -> Watermark:
    """The start of the first file after `file`, with the transactions before it; the rest of W as in `now`.

    Raises SourceError if no file follows, or if the transactions before it cannot be read.
    """
    with open_session(endpoint) as session:
        require_same(read_identity(session), now.server, endpoint.where)
        next_one = file_after(_names(session), file)
        if next_one is None:
            raise SourceError(f"no binlog file follows {file}", where=endpoint.where, todo=ANOTHER_STRATEGY)
        position = replace(mysql_position(now.position), file=next_one, pos=START_OF_FILE)
        if position.gtids is None:
            return replace(now, position=position)
        before = _logged_before(session, next_one)
    if before is None:
        raise SourceError(
            f"which transactions stand before {next_one} cannot be read", where=endpoint.where, todo=ANOTHER_STRATEGY
        )
    return replace(now, position=replace(position, gtids=before))


def replication_status(session: Session) -> list[Row]:
    """A row for each channel by which the server replicates, names in small letters; none on a primary."""
    version = session.version
    new = "SHOW REPLICA STATUS" if version.can(Capability.SHOW_REPLICA_STATUS) else "SHOW SLAVE STATUS"
    rows = session.rows("SHOW ALL SLAVES STATUS" if version.mariadb else new, doing="read what it replicates")
    return [Row((key.lower(), value) for key, value in row.items()) for row in rows]


def _applier_filters(status: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(
        f"{name} {value}" for row in status for name, value in row.items() if value and _STATUS_FILTERS.fullmatch(name)
    )


def _skipped(session: Session) -> tuple[str, ...]:
    variables = _variables(session, *_HARMLESS)
    return tuple(f"{name} {value}" for name, value in variables.items() if value.upper() not in _HARMLESS[name])


def _variables(session: Session, *names: str) -> dict[str, str]:
    """Values of those variables that the server has."""
    marks = ", ".join(["%s"] * len(names))
    rows = session.rows(
        f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({marks})", names, doing="read the replica's settings"
    )
    return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}


def _logged_before(session: Session, file: str) -> GtidSet | None:
    """The transactions in the files before `file`; None if they cannot be read."""
    try:
        rows = session.rows(f"SHOW BINLOG EVENTS IN '{file}' LIMIT 3", doing="read what stands before a binlog file")
        previous_gtids = next(
            (str(row["Info"]) for row in rows if str(row["Event_type"]).lower() == "previous_gtids"), None
        )
        return None if previous_gtids is None else GtidSet.parse(previous_gtids)
    except (MissingPrivilegeError, PositionError):
        return None
