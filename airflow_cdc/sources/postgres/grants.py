"""The reading role's privileges, and those that it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_cdc.names import split_name
from airflow_cdc.sources.postgres.session import Session

# the server answers this, so that inherited roles, PUBLIC and predefined roles such as pg_read_all_data are included
_ROLE: Final = """
SELECT rolname::text AS name, rolsuper OR rolreplication AS replication, rolsuper OR rolbypassrls AS bypass_rls
FROM pg_catalog.pg_roles WHERE rolname = current_user
"""
_TABLES: Final = """
SELECT w.schema || '.' || w.name AS "table", n.oid IS NOT NULL AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') AS usage,
  c.oid IS NOT NULL AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AS "select", COALESCE(c.relrowsecurity, false) AS row_security,
  c.oid IS NOT NULL AS there
FROM unnest(%s::text[], %s::text[]) AS w(schema, name)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
"""


@dataclass(frozen=True, slots=True)
class TableGrant:
    """The role's privileges on one table; all False if the table does not exist."""

    table: str
    there: bool
    usage: bool
    select: bool
    row_security: bool


@dataclass(frozen=True, slots=True)
class Grants:
    """The role's attributes and its privileges on the captured tables."""

    user: str
    replication: bool
    bypass_rls: bool
    tables: tuple[TableGrant, ...] = ()


def read_grants(session: Session, tables: Sequence[str]) -> Grants:
    """The connected role's privileges. Raises SourceError."""
    pairs = [split_name(name) for name in tables]
    role = session.row(_ROLE, doing="read the role's attributes")
    args = ([schema for schema, _ in pairs], [name for _, name in pairs])
    rows = session.rows(_TABLES, args, doing="read the role's rights") if pairs else []
    found = tuple(
        TableGrant(row.text("table"), *map(row.flag, ("there", "usage", "select", "row_security"))) for row in rows
    )
    return Grants(role.text("name"), role.flag("replication"), role.flag("bypass_rls"), found)


def missing(grants: Grants, *, recovery: bool = True) -> tuple[str, ...]:
    """What the role lacks, as "PRIVILEGE on object". `recovery`: REPLICATION for a slot too; diagnosis needs none."""
    needs = [] if grants.replication or not recovery else [f"REPLICATION (attribute of role {grants.user})"]
    for one in grants.tables:
        if not one.there:
            continue
        needs += [] if one.usage else [f"USAGE on schema {one.table.partition('.')[0]}"]
        needs += [] if one.select else [f"SELECT on {one.table}"]
        needs += (
            [f"BYPASSRLS for {one.table}, whose policies would hide rows"]
            if one.row_security and not grants.bypass_rls
            else []
        )
    return tuple(dict.fromkeys(needs))
