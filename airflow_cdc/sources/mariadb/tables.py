"""Tables of a MariaDB server that no recovery can carry: refused by name before anything is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_cdc.sources.mysql.errors import SourceSettingError
from airflow_cdc.sources.mysql.session import Session

# engines with read views, whose position in the log is exact
_TRANSACTIONAL: Final = ("innodb", "rocksdb")
# TABLE_TYPE in information_schema → why no change of such a table can be followed
_NOT_FOLLOWED: Final[Mapping[str, str]] = {
    "SYSTEM VERSIONED": "is system-versioned: Debezium (3.5.0) does not know the columns of its row periods, and fails at"
    " its first change",
    "SEQUENCE": "is a sequence and no table: Debezium (3.5.0) fails at its first value",
}


def require_followed(session: Session, tables: Sequence[str]) -> None:
    """Raise SourceSettingError for the first of the tables that Debezium cannot follow, or that has no read views."""
    if not tables:
        return
    names = ", ".join(["(%s, %s)"] * len(tables))
    parts = [part for table in tables for part in table.split(".", 1)]
    rows = session.rows(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, TABLE_TYPE AS kind, ENGINE AS engine FROM information_schema.TABLES"
        f" WHERE (TABLE_SCHEMA, TABLE_NAME) IN ({names})",
        parts,
        doing="read which kinds of tables these are",
    )
    for row in rows:
        if why := _why(str(row["kind"]).upper(), str(row["engine"])):
            raise SourceSettingError(
                f"{row['s']}.{row['t']} {why}",
                where=session.where,
                todo="Take it out of the pipeline, and out of the connector by its table.include.list.",
            )


def _why(kind: str, engine: str) -> str:
    if kind == "BASE TABLE" and engine.lower() not in _TRANSACTIONAL:
        return f"is kept by {engine}, which has no read views: what a read shows has no position in the log"
    return _NOT_FOLLOWED.get(kind, "")
