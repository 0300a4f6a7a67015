"""The doctor's checks of a server with a binary log: its identity, whether its log holds every change, privileges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from airflow_cdc.core.check import Check
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.capabilities import ServerVersion
from airflow_cdc.sources.mysql.facts import BinlogFacts
from airflow_cdc.sources.mysql.grants import Grants
from airflow_cdc.sources.mysql.session import MySqlEndpoint, Session
from airflow_cdc.sources.tls import mode_of, tls_check


class Server(Protocol):
    """The source to check: any server with a binary log."""

    @property
    def endpoint(self) -> MySqlEndpoint: ...
    def session(self) -> AbstractContextManager[Session]: ...
    def facts(self) -> BinlogFacts: ...
    def grants(self) -> Grants: ...
    def definitions(self, tables: Sequence[str]) -> dict[str, Table]: ...


def checks(source: Server, subject: str, tables: Sequence[str], *, hold: bool, unreadable: str) -> Iterator[Check]:
    """One check after the other. Raises SourceError where the server does not answer."""
    facts = source.facts()
    yield from _server(subject, facts, unreadable)
    yield _tls(subject, source)
    yield from _log(subject, facts)
    keyless = [] if unreadable else [n for n, table in source.definitions(tables).items() if not table.key]
    missing = source.grants().missing(tables, gtid=facts.gtid_mode == "ON", hold=hold, keyless=keyless)
    for need in missing:
        state = "bad" if need.required else "warn"
        what, todo = f"missing {need.privilege} on {need.on}", f"Grant it: it is needed to {need.why}."
        yield Check(subject, "privileges", state, what, todo)
    if not missing:
        what = "diagnosis" if unreadable else "recovery"
        yield Check(subject, "privileges", "ok", f"all that a {what} needs")


def _server(subject: str, facts: BinlogFacts, unreadable: str) -> Iterator[Check]:
    """Which server answers. One without an identity can be diagnosed, but no recovery can read it."""
    make = ServerVersion.parse(facts.version).name
    if not unreadable:
        name = f"server_uuid {facts.server_uuid}" if facts.server_uuid else f"server_id {facts.server_id}"
        yield Check(subject, "source", "ok", f"{make}, {name}")
        return
    yield Check(subject, "source", "ok", f"{make}, server_id {facts.server_id}")
    yield Check(subject, "recovery", "warn", unreadable, "Use the connector's own snapshot, and compare the rows.")


def _tls(subject: str, source: Server) -> Check:
    """How the connection is encrypted, and what of it is not verified."""
    endpoint = source.endpoint
    with source.session() as session:
        row = session.row("SHOW SESSION STATUS LIKE 'Ssl_cipher'", doing="see the connection's cipher")
    return tls_check(subject, endpoint.host, mode_of(endpoint.ssl, endpoint.where), str(row["Value"]))


def _log(subject: str, facts: BinlogFacts) -> Iterator[Check]:
    """Whether the log holds every change completely (INV 31)."""
    faults = facts.log_faults
    right = {"log_bin": "ON", "binlog_format": facts.binlog_format, "binlog_row_image": facts.row_image}
    for name, value in right.items():
        if name not in faults:
            yield Check(subject, name, "ok", value)
    for name, fault in faults.items():
        yield Check(subject, name, "bad", fault, f"Set {name} on the server: the log must hold every change, whole.")
