"""The PostgreSQL source: what is asked of the server itself.

Every method opens a short connection of its own, so a PostgresSource may be shared by threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Self

from airflow_cdc.core.check import Check
from airflow_cdc.core.diagnosis.forecast import Forecast, Retention
from airflow_cdc.core.endpoint import CallLimits
from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Available, Position, Watermark
from airflow_cdc.core.table import Table
from airflow_cdc.sources.postgres.checks import checks
from airflow_cdc.sources.postgres.errors import SourceOutOfTimeError, WrongServerError
from airflow_cdc.sources.postgres.facts import PgFacts, ServerFacts, read_facts, read_server, read_tables
from airflow_cdc.sources.postgres.names import split_name
from airflow_cdc.sources.postgres.quoting import quote_ident
from airflow_cdc.sources.postgres.schema import read_defaults, read_definitions
from airflow_cdc.sources.postgres.session import PostgresEndpoint, Session, open_session

_MARGIN_S: Final = 5.0


class PostgresSource:
    """A PostgreSQL server that a pipeline reads from. All errors say what, where and what to do."""

    def __init__(self, endpoint: PostgresEndpoint) -> None:
        self.endpoint = endpoint

    @property
    def where(self) -> str:
        """How messages name this server."""
        return self.endpoint.where

    def limited(self, limits: CallLimits) -> Self:
        """The same system, each call bounded."""
        return type(self)(self.endpoint.limited(limits))

    @contextmanager
    def session(self, *, read_timeout: float | None = None) -> Iterator[Session]:
        """A session whose errors are SourceErrors, closed at the end."""
        with open_session(self.endpoint, read_timeout=read_timeout) as session:
            yield session

    def facts(self) -> PgFacts:
        """What diagnosis needs to know of the server and the pipeline's slot; nothing is changed."""
        return self.facts_for((), None)

    def log_facts(self) -> ServerFacts:
        """Which server answers, and where its log ends: what a test of a connection shows."""
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
        """Of those of the tables that the source has: their definitions, and column → default, in one view."""
        with self.session() as session:
            session.run("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", doing="begin a read view")
            return read_definitions(session, tables), read_defaults(session, tables)

    def definitions(self, tables: Sequence[str]) -> dict[str, Table]:
        """Of those of the tables that the source has: their definitions."""
        with self.session() as session:
            return read_definitions(session, tables)

    def checks(self, subject: str, tables: Sequence[str], *, hold: bool, unreadable: str = "") -> Iterator[Check]:  # noqa: ARG002
        """The doctor's: what the server is, has and grants. Raises SourceError where it does not answer.

        `hold`: nothing more is needed for one, a slot is one. `unreadable`: why no recovery can read it.
        """
        return checks(self.facts_for(tables, None), subject, unreadable)

    def position(self) -> Watermark:
        """The end of the log now: everything that any earlier read saw is at or before it. Not usable as W."""
        with self.session() as session:
            return _watermark(read_server(session))

    def check_same_server(self, watermark: Watermark) -> None:
        """Raise WrongServerError unless this is the cluster and the timeline that W was taken on (INV 9).

        A restart alone does no harm: a commit that a reader saw is in the log before it is visible.
        """
        with self.session() as session:
            now = read_server(session)
        if now.name != watermark.server:
            raise WrongServerError(
                f"the connection reaches the server {now.name}, and the watermark is of {watermark.server}",
                where=self.where,
                todo="Check the address. If a standby was promoted, take a new watermark: clear fence_and_watermark.",
            )

    def availability(self, position: Position) -> Available:
        """Whether the pipeline's slot still gives a reader at `position` every change since. Raises SourceError."""
        return self.facts_for((), position).available(position)

    def still_available(self, watermark: Watermark) -> Available:
        """The same of W. Raises WrongServerError when the connection reaches another server."""
        self.check_same_server(watermark)
        return self.availability(watermark.position)

    def forecast(self, position: Position) -> tuple[Forecast, Retention]:  # noqa: ARG002 - the slot decides
        """How long the slot's log stays. Raises SourceError, also where nothing limits it."""
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
        """How many rows `schema.table` holds now; None if counting them takes longer than `seconds`."""
        found = self._within(f"SELECT count(*) AS n FROM {_place(table)}", seconds, doing=f"count the rows of {table}")
        return None if found is None else int(found["n"])

    def has_row(self, table: str, condition: str, seconds: float) -> bool | None:
        """Whether `schema.table` holds a row of that condition; None if looking for one takes longer than `seconds`."""
        sql = f"SELECT EXISTS (SELECT FROM {_place(table)} WHERE {condition}) AS found"
        found = self._within(sql, seconds, doing=f"look for rows of {table}")
        return None if found is None else bool(found["found"])

    def table_ids(self, tables: Iterable[str]) -> dict[str, str]:
        """`schema.table` → what TRUNCATE and a rebuild of it change."""
        with self.session() as session:
            return {name: facts.generation for name, facts in read_tables(session, tables).items()}

    def cascade_targets(self, tables: Sequence[str]) -> frozenset[str]:  # noqa: ARG002 - the log holds every row
        """Tables that foreign keys change without a row in the log: none, cascades are logged row by row."""
        return frozenset()

    def _within(self, sql: str, seconds: float, *, doing: str) -> dict[str, Any] | None:
        try:
            with self.session(read_timeout=max(seconds, 0.001)) as session:
                return session.row(sql, doing=doing)
        except SourceOutOfTimeError:
            return None


def _watermark(server: ServerFacts) -> Watermark:
    return Watermark(server.position, server.name, datetime.fromisoformat(server.taken_at))


def _place(table: str) -> str:
    schema, name = split_name(table)
    return f"{quote_ident(schema)}.{quote_ident(name)}"
