"""The MariaDB source: like MySQL's, with MariaDB's own GTIDs, server identity and read views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.poll import NotYet, poll_until
from airflow_cdc.core.position import Position, Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.sources.errors import SourceSettingError
from airflow_cdc.sources.mariadb.facts import MariaDbFacts, begins, domain_facts, hole, is_compressed
from airflow_cdc.sources.mariadb.identity import read_named_identity, require_same_run, same_run_sql
from airflow_cdc.sources.mariadb.log import as_watermark, has_read, position_at, visible
from airflow_cdc.sources.mariadb.position import MariaDbPosition, mariadb_position
from airflow_cdc.sources.mariadb.tables import require_followed
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.client import BinlogSource
from airflow_cdc.sources.mysql.facts import place_in_binlog
from airflow_cdc.sources.mysql.position import file_after
from airflow_cdc.sources.mysql.replica import ANOTHER_STRATEGY
from airflow_cdc.sources.mysql.server_log import (
    START_OF_FILE,
    ServerIdentity,
    list_binlog_files,
    read_settings,
    read_xa,
    require_log,
    wait_for_xa,
)
from airflow_cdc.sources.mysql.session import Session, session_pins


class MariaDbSource(BinlogSource[MariaDbFacts]):
    """A MariaDB server that a pipeline reads from."""

    innodb_tables: ClassVar[str] = "INNODB_SYS_TABLES"

    def watermark(self, *, xa_timeout: float = 60.0) -> Watermark:
        """The exact position of a read view: every later read shows all changes before it (INV 7). Nothing is locked.

        Waits up to `xa_timeout` seconds for XA transactions prepared before W to end (INV 8): they are logged before W,
        but no view shows them. Raises SourceError: log off, nothing logged yet, XA still open, a privilege missing.
        """
        with self.session() as session:
            require_log(read_settings(session), self.where)
            taken = as_watermark(visible(session), self._identity(session))
            wait_for_xa(session, xa_timeout)
            return taken

    def position(self) -> Watermark:
        """The exact position of a read view now: everything an earlier read saw is at or before it."""
        with self.session() as session:
            require_log(read_settings(session), self.where)
            return as_watermark(visible(session), self._identity(session))

    def wait_visible(self, watermark: Watermark, timeout: float) -> None:
        """Return once a read view holds all of W. Raises DeadlineError, or WrongServerError for another server."""
        with self.session() as session:
            require_same_run(self._identity(session), watermark, self.where)

            def shown() -> bool:
                now = visible(session)
                if now.covers(watermark.position) is not True:
                    raise NotYet(str(now))
                return True

            poll_until(
                shown, timeout=timeout, interval=0.1, what=f"{self.where} to show all up to {watermark.position}"
            )

    def definitions(self, tables: Sequence[str]) -> dict[str, Table]:
        """See BinlogSource. Raises SourceSettingError naming a table that Debezium cannot follow."""
        self._require_followed(tables)
        return super().definitions(tables)

    def definitions_and_defaults(
        self, tables: Sequence[str]
    ) -> tuple[dict[str, Table], dict[str, dict[str, str | None]]]:
        """See BinlogSource. Raises SourceSettingError naming a table that Debezium cannot follow."""
        self._require_followed(tables)
        return super().definitions_and_defaults(tables)

    def check_same_server(self, watermark: Watermark) -> None:
        """Raise WrongServerError or ServerRestartedError unless this server has run since W (INV 9)."""
        with self.session() as session:
            require_same_run(self._identity(session), watermark, self.where)

    def at_rest(self, position: Position, watermark: Watermark) -> bool:
        """See core.ports.Source. Needed after a DDL: Debezium (3.5.0) names it only with the next transaction.

        Until then its offset counts the events that it has read since.
        """
        here, wanted = mariadb_position(position), mariadb_position(watermark.position)
        if not here.read or here.domains is None or wanted.domains is None or not here.place.comparable(wanted.place):
            return False
        lacks = (wanted.domains - here.domains).spans
        if len(lacks) != 1 or lacks[0].count != 1 or not _one_server(here, wanted):
            return False
        with self.session() as session:
            same = self._identity(session).server_uuid == watermark.server
            return same and has_read(session, here, lacks[0].last)

    def start_of_file_after(self, position: Position | None, now: Watermark) -> Watermark:
        """See BinlogSource."""
        place = place_in_binlog(position)
        with self.session() as session:
            require_same_run(self._identity(session), now, self.where)
            file = file_after([one.name for one in list_binlog_files(session)], place.file if place else "")
            if file is None:
                raise SourceError(f"no binlog file follows {place}", where=self.where, todo=ANOTHER_STRATEGY)
            return replace(now, position=replace(position_at(session, file, START_OF_FILE), server_id=None))

    def init_statement(self, watermark: Watermark) -> str:
        """See BinlogSource. Checks only the name of the server's run: what W's own run has shown stays visible."""
        # returns a second row, which is an error, only if the server's name differs
        check = f"(SELECT 1 UNION ALL SELECT 2 FROM DUAL WHERE NOT ({same_run_sql(watermark)}))"
        return f"SET {', '.join([*session_pins(self.version()), f'@cdc_check := {check}'])}"

    def _require_followed(self, tables: Sequence[str]) -> None:
        with self.session() as session:
            require_followed(session, tables)

    def _identity(self, session: Session) -> ServerIdentity:
        return read_named_identity(session)

    def _check_make(self, session: Session) -> None:
        if not session.version.mariadb:
            raise SourceSettingError(
                f"the server is {session.version.name}, and the pipeline says that it is MariaDB",
                where=self.where,
                todo="Write `kind: mysql` below `source:` in pipelines.yaml.",
            )

    def _facts(self, session: Session) -> MariaDbFacts:
        common = self._common(session)
        files = common["binlog_files"]
        domains = domain_facts(session, files) if files and session.version.can(Capability.GTID_DOMAINS) else None
        return MariaDbFacts(**common, domains=domains, compressed=is_compressed(session))

    def _facts_at(self, session: Session, position: Position | None) -> MariaDbFacts:
        facts = replace(self._facts(session), xa=read_xa(session, self._identity(session)))
        if facts.domains is None or position is None:
            return facts
        here = mariadb_position(position)
        domains = replace(facts.domains, begins=begins(session, here.file))
        if here.domains is not None:
            domains = replace(domains, hole=hole(session, facts.binlog_files, here.domains))
        return replace(facts, domains=domains)


def _one_server(one: MariaDbPosition, other: MariaDbPosition) -> bool:
    """False if both name their server and it is not the same."""
    return len({one.server_id, other.server_id} - {None}) < 2
