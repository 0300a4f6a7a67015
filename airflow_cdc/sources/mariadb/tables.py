"""Tables of a MariaDB server that no recovery can handle; they are refused by name before anything is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from airflow_cdc.sources.errors import SourceSettingError
from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.session import Session

# engines whose read views have an exact position in the log
_TRANSACTIONAL: Final = ("innodb", "rocksdb")
# TABLE_TYPE in information_schema → why changes of such a table cannot be followed
_NOT_FOLLOWED: Final[Mapping[str, str]] = {
    "SYSTEM VERSIONED": "is system-versioned: Debezium (3.5.0) does not know the columns of its row periods, and fails at"
    " its first change",
    "SEQUENCE": "is a sequence and no table: Debezium (3.5.0) fails at its first value",
}
_GENERATED_WHY: Final = (
    "has the generated column {column}: {server} leaves it out of what it logs of an UPDATE or DELETE, and Debezium (3.5.0)"
    " fails at the first one"
)
_KINDS: Final = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, TABLE_TYPE AS kind, ENGINE AS engine FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN ({names})"
)
_COLUMNS: Final = (
    "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, COLUMN_NAME AS c FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN ({names}) AND "
)
_COMPRESSED: Final = _COLUMNS + "COLUMN_TYPE LIKE '%%COMPRESSED%%'"
_GENERATED: Final = _COLUMNS + "IS_GENERATED = 'ALWAYS'"


def require_followed(session: Session, tables: Sequence[str]) -> None:
    """Raise SourceSettingError for the first table that Debezium cannot follow or that has no read views."""
    for table, why in _unfit(session, tables):
        raise SourceSettingError(
            f"{table} {why}",
            where=session.where,
            todo="Take it out of the pipeline, and out of the connector by its table.include.list.",
        )


def _unfit(session: Session, tables: Sequence[str]) -> Iterator[tuple[str, str]]:
    # the server searches an IN list; it would evaluate an OR of pairs for each of its tables
    for schema, own in groupby(sorted(tables), key=lambda table: table.partition(".")[0]):
        names = [table.partition(".")[2] for table in own]
        for row in _rows(session, _KINDS, schema, names):
            if why := _why(str(row["kind"]).upper(), str(row["engine"])):
                yield f"{row['s']}.{row['t']}", why
        for row in _rows(session, _COMPRESSED, schema, names):
            yield (
                f"{row['s']}.{row['t']}",
                f"has the compressed column {row['c']}: Debezium (3.5.0) fails at its first value",
            )
        if session.version.can(Capability.GENERATED_UNLOGGED):
            for row in _rows(session, _GENERATED, schema, names):
                yield f"{row['s']}.{row['t']}", _GENERATED_WHY.format(column=row["c"], server=session.version.name)


def _rows(session: Session, sql: str, schema: str, names: Sequence[str]) -> Sequence[Mapping[str, object]]:
    statement = sql.format(names=", ".join(["%s"] * len(names)))
    return session.rows(statement, (schema, *names), doing="read which kinds of tables these are")


def _why(kind: str, engine: str) -> str:
    if kind == "BASE TABLE" and engine.lower() not in _TRANSACTIONAL:
        return f"is kept by {engine}, which has no read views: what a read shows has no position in the log"
    return _NOT_FOLLOWED.get(kind, "")
