"""DDL from a connector's schema-change topic: which tables a statement changes, where it stands, and what they are after it.

Comparing definitions shows where a table ended up, not what happened on the way: a partition truncated, a table
renamed into place, a column dropped and added again look as if nothing had happened. The statements say it (INV 13).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_cdc.connectors.debezium.history import full_name
from airflow_cdc.core.errors import MALFORMED, PositionError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.mysql.ddl_clauses import Clause, Statement, read_statement
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import BinlogPosition, mysql_position


@dataclass(frozen=True, slots=True)
class Ddl:
    """One streamed statement: the tables it changes as "schema.table", its text, and where in the source's log it stands.

    Attributes:
        at: a mark of the place, the same for a repeat that a restarted connector sends.
        after: table → its definition after the statement, as the connector reported it (connectors/debezium/history.py reads it).
        place: the event's own position: gtid, server_id, file, pos, as far as the connector gave them.
    """

    tables: frozenset[str]
    statement: str
    at: str = ""
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """What the statement does, clause by clause."""
        return read_statement(self.statement).clauses

    @property
    def short(self) -> str:
        """The statement on one line, for a message."""
        text = " ".join(self.statement.split())
        return text if len(text) <= 120 else f"{text[:119]}…"

    def covered(self, watermark: Watermark | None) -> bool:
        """Whether the statement is at or before W for certain, so that rows read at W show what it did."""
        if watermark is None:
            return False
        gtid, server, file = self.place.get("gtid"), self.place.get("server_id"), self.place.get("file")
        w = mysql_position(watermark.position)
        try:
            if w.gtids is not None:
                return bool(gtid) and GtidSet.parse(str(gtid)).issubset(w.gtids)
            at = BinlogPosition(str(file), int(self.place["pos"]))
            return not gtid and server == w.server_id and at.comparable(w.place) and at < w.place
        except (PositionError, *MALFORMED):
            return False


def read_ddl(record: Mapping[str, Any]) -> Ddl | None:
    """The statement of a record of the schema-change topic (or of the schema history); None if it is no streamed DDL.

    What a snapshot of the connector writes describes tables and changes none. The tables are those that the record
    names and those that the text names: of EXCHANGE PARTITION, a rename or an index the record says only half. Raises
    ValueError for a record of another shape.
    """
    body = record.get("payload", record)
    try:
        source, place = body.get("source") or {}, body.get("position") or {}
        if str(source.get("snapshot") or "false") != "false" or place.get("snapshot") or not body.get("ddl"):
            return None
        schema, ddl = str(body.get("databaseName") or ""), str(body["ddl"])
        named = {f"{schema}.{name}" for name in str(source.get("table") or "").split(",") if name}
        changes = body.get("tableChanges") or []
        ids = [change.get(key) for change in changes for key in ("id", "previousId")]
        tables = named | {full_name(one) for one in ids if one} | _tables(read_statement(ddl), schema)
        after = {full_name(change["id"]): dict(change["table"]) for change in changes if change.get("table")}
        return Ddl(frozenset(tables), ddl, _at(source | place, ddl), after, _place(source | place))
    except MALFORMED as error:
        raise ValueError(f"not a schema change: {type(error).__name__} {error}") from None


def _tables(statement: Statement, schema: str) -> set[str]:
    return {f"{own or schema}.{table}" for own, table in statement.tables}


def _place(source: Mapping[str, Any]) -> dict[str, Any]:
    return {name: source.get(name) for name in ("gtid", "server_id", "file", "pos")}


def _at(source: Mapping[str, Any], ddl: str) -> str:
    parts = [*(str(value) for value in _place(source).values()), ddl]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
