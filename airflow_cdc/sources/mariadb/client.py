"""The MariaDB source: what MySQL's answers, with MariaDB's own GTIDs. It is diagnosed, and no recovery reads it."""

from __future__ import annotations

from dataclasses import replace

from airflow_cdc.sources.mariadb.facts import MariaDbFacts, begins, domain_facts
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.client import BinlogSource
from airflow_cdc.sources.mysql.errors import SourceSettingError
from airflow_cdc.sources.mysql.position import BinlogPosition
from airflow_cdc.sources.mysql.session import Session


class MariaDbSource(BinlogSource[MariaDbFacts]):
    """A MariaDB server that a pipeline reads from."""

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
        return MariaDbFacts(**common, domains=domains)

    def _facts_at(self, session: Session, facts: MariaDbFacts, place: BinlogPosition | None) -> MariaDbFacts:
        if facts.domains is None or place is None:
            return facts
        return replace(facts, domains=replace(facts.domains, begins=begins(session, place.file)))
