"""The DDL in Canal's events, which is in the same topic as the rows: what each statement changes, and its place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol

from airflow_cdc.connectors.canal.events.packets import DDL_MARK, flat_texts, is_packet
from airflow_cdc.core.errors import MALFORMED, TransportError
from airflow_cdc.core.text import read_json
from airflow_cdc.decisions.apply.ddl import Ddl
from airflow_cdc.sources.mysql.ddl_clauses import read_statement
from airflow_cdc.sources.mysql.position import place_of

# what a record with DDL holds; those with rows, which are many, are not parsed
_MARK = b'"isDdl":true'
# a TRUNCATE is applied as an event
_AS_EVENT = "TRUNCATE"


class _Record(Protocol):
    @property
    def offset(self) -> int: ...

    @property
    def value(self) -> bytes | None: ...


def read_statements(records: Iterable[_Record], where: str) -> list[Ddl]:
    """The DDL in these records, in order. Raises TransportError for a record that only looks like one."""
    return [statement for record in records if record.value for statement in _read(record, record.value, where)]


def _read(record: _Record, value: bytes, where: str) -> list[Ddl]:
    try:
        documents = [read_json(text) for text in _texts(value)]
        return [_ddl(document) for document in documents if document["type"] != _AS_EVENT]
    except MALFORMED as error:
        raise TransportError(
            f"the record at offset {record.offset} is no statement of Canal's: {type(error).__name__} {error}",
            where=where,
            todo="Check who else writes to this topic.",
        ) from None


def _texts(value: bytes) -> list[bytes]:
    """The flat JSON of the DDL in a record."""
    if is_packet(value):
        texts = [one.text.encode() for one in flat_texts(value)] if DDL_MARK in value else []
        return [text for text in texts if _MARK in text]
    return [value] if _MARK in value else []


def _ddl(value: Mapping[str, object]) -> Ddl:
    """The record names one table of a RENAME, the one after it; the text names all."""
    schema, statement = str(value["database"]), str(value["sql"])
    own_table = {f"{schema}.{value['table']}"} if value.get("table") else set()
    tables = own_table | {f"{own or schema}.{table}" for own, table in read_statement(statement).tables}
    gtids = str(value.get("gtid") or "")
    origin, place = place_of(_own(gtids), None, None, None) or (None, None)
    at = hashlib.sha256(f"{gtids}|{value.get('es')}|{statement}".encode()).hexdigest()[:16]
    return Ddl(frozenset(tables), statement, at, {}, origin, place)


def _own(gtids: str) -> str:
    """The last transaction of a set of one server's; "" for another set."""
    server, _, span = gtids.partition(":")
    last = span.rpartition("-")[2]
    return f"{server}:{last}" if last.isdigit() and "," not in gtids else ""
