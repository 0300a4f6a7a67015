"""DDL from a connector's schema-change topic: the tables a statement changes, its place, and the tables after it.

Comparing definitions shows where a table ended up, not what happened on the way: a truncated partition, a table renamed
into place, or a column dropped and added again look as if nothing had happened. The statements show it (INV 13).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from airflow_cdc.connectors.debezium.forms import converter_todo, form_of_value
from airflow_cdc.connectors.debezium.history import column_defs, compare_history, full_name
from airflow_cdc.core.errors import MALFORMED, TransportError, UnreadableEventsError
from airflow_cdc.core.position import Place
from airflow_cdc.core.table import Column, Table
from airflow_cdc.core.text import read_json
from airflow_cdc.decisions.apply.ddl import Ddl, ReportedTable
from airflow_cdc.fields import Fields
from airflow_cdc.sources.mysql.ddl_clauses import Statement, read_statement
from airflow_cdc.sources.mysql.position import place_of

# (gtid, server_id, file, pos) of a statement → (origin, place), None without a place: one function per database
PlaceOf: TypeAlias = Callable[[object, object, object, object], tuple[str, Place] | None]


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """A table's definition in a record of the history, as Debezium writes it. Satisfies decisions.apply.ddl.ReportedTable."""

    raw: Mapping[str, object]

    def columns(self) -> Mapping[str, Column]:
        """See ReportedTable."""
        return column_defs(self.raw)

    def differences(self, table: Table) -> tuple[str, ...]:
        """See ReportedTable."""
        return compare_history(table, self.raw)


class _Record(Protocol):
    @property
    def offset(self) -> int: ...

    @property
    def value(self) -> bytes | None: ...


def read_statements(records: Iterable[_Record], where: str, places: PlaceOf = place_of) -> list[Ddl]:
    """The DDL that the connector streamed in these records, in order. Raises TransportError for a malformed record."""
    found = (_statement(record.value, record.offset, where, places) for record in records if record.value)
    return [ddl for ddl in found if ddl]


def _statement(value: bytes, offset: int, where: str, places: PlaceOf) -> Ddl | None:
    try:
        record = read_json(value)
        if isinstance(record, dict):
            return read_ddl(record, places)
    except ValueError:
        if not (form := form_of_value(value)).is_json:
            raise UnreadableEventsError(
                f"the schema change at offset {offset} cannot be read: it is {form.what}",
                where=where,
                todo=converter_todo(),
            ) from None
    raise TransportError(
        f"the record at offset {offset} is not a schema history record",
        where=where,
        todo="Check topic.prefix and schema.history.internal.kafka.topic of the connector, and who writes there.",
    )


def read_ddl(record: Mapping[str, object], places: PlaceOf = place_of) -> Ddl | None:
    """The statement of a record of the schema-change topic (or of the schema history); None if it is not streamed DDL.

    Records of a connector's snapshot describe tables and change none. The tables are those named by the record and
    those named by the text: for EXCHANGE PARTITION, a rename or an index, the record names only half of them. Raises
    ValueError for a record of another shape.
    """
    try:
        body = Fields.of(record.get("payload", record))
        source, place = body.inner("source"), body.inner("position")
        if str(source.get("snapshot") or "false") != "false" or place.get("snapshot") or not body.get("ddl"):
            return None
        schema, ddl = str(body.get("databaseName") or ""), str(body["ddl"])
        names = {f"{schema}.{name}" for name in str(source.get("table") or "").split(",") if name}
        changes = body.each("tableChanges")
        ids = [change.text(key, "") for change in changes for key in ("id", "previousId")]
        tables = names | {full_name(one) for one in ids if one} | _tables(read_statement(ddl), schema)
        after: dict[str, ReportedTable] = {
            full_name(change.text("id")): HistoryTable(change.inner("table"))
            for change in changes
            if change.get("table")
        }
        named_place = _place(source | place)
        origin, at = places(*named_place.values()) or (None, None)
        return Ddl(frozenset(tables), ddl, _at(named_place, ddl), after, origin, at)
    except MALFORMED as error:
        raise ValueError(f"not a schema change: {type(error).__name__} {error}") from None


def _tables(statement: Statement, schema: str) -> set[str]:
    return {f"{own or schema}.{table}" for own, table in statement.tables}


def _place(source: Mapping[str, object]) -> dict[str, object]:
    return {name: source.get(name) for name in ("gtid", "server_id", "file", "pos")}


def _at(source: Mapping[str, object], ddl: str) -> str:
    parts = [*(str(value) for value in source.values()), ddl]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]
