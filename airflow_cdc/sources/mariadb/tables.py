"""Tables that MariaDB has and MySQL has not, and what of a table its engine cannot give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from airflow_cdc.core.errors import SourceError
from airflow_cdc.sources.mysql.errors import SourceSettingError
from airflow_cdc.sources.mysql.session import Session

_TRANSACTIONAL: Final = ("InnoDB", "ROCKSDB")
# TABLE_TYPE in information_schema → why no change of such a table can be followed
_NOT_FOLLOWED: Final[Mapping[str, str]] = {
    "SYSTEM VERSIONED": "is system-versioned: Debezium (3.5.0) does not know the columns of its row periods, and fails at"
    " its first change",
    "SEQUENCE": "is a sequence and no table: Debezium (3.5.0) fails at its first value",
}


def require_followed(session: Session, tables: Sequence[str]) -> None:
    """Raise SourceSettingError for the first of the tables that Debezium's MariaDB connector cannot follow."""
    if not tables:
        return
    names = ", ".join(["(%s, %s)"] * len(tables))
    parts = [part for table in tables for part in table.split(".", 1)]
    rows = session.rows(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, TABLE_TYPE AS kind FROM information_schema.TABLES"
        f" WHERE (TABLE_SCHEMA, TABLE_NAME) IN ({names})",
        parts,
        doing="read which kinds of tables these are",
    )
    for row in rows:
        if why := _NOT_FOLLOWED.get(str(row["kind"]).upper()):
            raise SourceSettingError(
                f"{row['s']}.{row['t']} {why}",
                where=session.where,
                todo="Take it out of the pipeline, and out of the connector by its table.include.list.",
            )


def require_transactional(session: Session, schema: str, table: str) -> None:
    """Raise SourceError for a table of an engine whose rows do not stand still in a read view."""
    row = session.row(
        "SELECT ENGINE AS engine FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (schema, table),
        doing=f"read the engine of {schema}.{table}",
    )
    if str(row["engine"]) not in _TRANSACTIONAL:
        raise SourceError(
            f"{schema}.{table} has no key and is kept by {row['engine']}, which has no read views",
            where=session.where,
            todo="Give it a primary key, or make it an InnoDB table.",
        )
