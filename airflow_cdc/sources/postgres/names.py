"""Names of tables."""

from __future__ import annotations

from airflow_cdc.core.errors import SourceError


def split_name(name: str) -> tuple[str, str]:
    """("schema", "table") of "schema.table"; the table's name may hold further dots. Raises SourceError."""
    schema, _, table = name.partition(".")
    if not schema or not table:
        raise SourceError(f"{name!r} is not a table name", todo="Write schema.table.")
    return schema, table
