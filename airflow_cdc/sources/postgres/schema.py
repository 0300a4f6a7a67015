"""Table definitions from a PostgreSQL server, in the same form from every release."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_cdc.core.table import Table
from airflow_cdc.names import split_name
from airflow_cdc.sources.postgres.columns import PgColumn, PgTable
from airflow_cdc.sources.postgres.session import Session
from airflow_cdc.sources.postgres.types import table_of
from airflow_cdc.sources.row import Row

# A domain (pg_type.typtype 'd', possibly a domain over a domain) is resolved to its base type. The modifier and the
# labels are those of the base type. `element` is the element type of an array, which is resolved in the same way.
_COLUMNS: Final = """
WITH RECURSIVE wanted AS (
  SELECT c.oid AS relation, n.nspname::text AS schema, c.relname::text AS "table", c.relkind::text AS kind
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
), base AS (
  SELECT w.relation, a.attnum, a.atttypid AS type, a.atttypmod AS modifier, a.attnotnull AS not_null, 0 AS depth
  FROM wanted w JOIN pg_catalog.pg_attribute a ON a.attrelid = w.relation AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.relation, b.attnum, t.typbasetype, t.typtypmod, b.not_null OR t.typnotnull, b.depth + 1
  FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.type WHERE t.typtype = 'd'
), deepest AS (
  SELECT DISTINCT ON (relation, attnum) * FROM base ORDER BY relation, attnum, depth DESC
)
SELECT w.schema, w."table", w.kind, a.attname::text AS name, a.attnum::int AS number, d.not_null,
  pg_catalog.format_type(a.atttypid, a.atttypmod) AS declared,
  t.typname::text AS type, tn.nspname::text AS type_schema, t.typtype::text AS type_kind, t.typcategory::text AS category,
  d.modifier, a.attidentity::text AS identity, a.attgenerated::text AS generated,
  CASE WHEN a.attgenerated <> '' THEN pg_catalog.pg_get_expr(df.adbin, df.adrelid) END AS expression,
  CASE WHEN a.attcollation <> 0 THEN (SELECT n.nspname || '.' || c.collname FROM pg_catalog.pg_collation c
     JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = a.attcollation) END AS collation,
  (SELECT c.collisdeterministic FROM pg_catalog.pg_collation c WHERE c.oid = a.attcollation) AS deterministic,
  CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 THEN e.typname::text END AS element,
  en.nspname::text AS element_schema, e.typtype::text AS element_kind,
  (SELECT pg_catalog.array_agg(l.enumlabel::text ORDER BY l.enumsortorder) FROM pg_catalog.pg_enum l
   WHERE l.enumtypid IN (t.oid, e.oid)) AS labels
FROM wanted w
JOIN deepest d ON d.relation = w.relation
JOIN pg_catalog.pg_attribute a ON a.attrelid = d.relation AND a.attnum = d.attnum
JOIN pg_catalog.pg_type t ON t.oid = d.type
JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_attrdef df ON df.adrelid = a.attrelid AND df.adnum = a.attnum
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
LEFT JOIN pg_catalog.pg_namespace en ON en.oid = e.typnamespace
ORDER BY w.schema, w."table", a.attnum
"""

# An index can be a key if it is unique, not deferrable, not partial, and only over columns. Python checks NULLs.
_KEYS: Final = """
SELECT n.nspname::text AS schema, c.relname::text AS "table", x.relname::text AS name, i.indisprimary AS "primary",
  i.indisreplident AS identity, c.relreplident::text AS relident,
  (SELECT pg_catalog.array_agg(a.attname::text ORDER BY k.place)
   FROM pg_catalog.unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
   JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts) AS columns
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE i.indisunique AND i.indimmediate AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
  AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
ORDER BY x.relname
"""

_DEFAULTS: Final = """
SELECT n.nspname::text AS schema, c.relname::text AS "table", a.attname::text AS name,
  CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END AS value
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p') AND (n.nspname, c.relname) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
"""


@dataclass(frozen=True, slots=True)
class _Index:
    columns: tuple[str, ...]
    primary: bool
    identity: bool
    relident: str = field(default="d")


def read_pg_tables(session: Session, tables: Iterable[str]) -> dict[str, PgTable]:
    """Definitions of the tables with these "schema.table" names in the session's view; missing tables are left out.

    Raises SourceError if the server refuses.
    """
    pairs = [split_name(name) for name in tables]
    if not pairs:
        return {}
    args = ([schema for schema, _ in pairs], [name for _, name in pairs])
    found: dict[tuple[str, str, bool], list[PgColumn]] = {}
    for row in session.rows(_COLUMNS, args, doing="read the table definitions"):
        found.setdefault((row.text("schema"), row.text("table"), row["kind"] == "p"), []).append(_column(row))
    indexes = _indexes(session.rows(_KEYS, args, doing="read the tables' keys"))
    return {
        f"{schema}.{name}": PgTable(
            schema, name, tuple(columns), key_of(columns, indexes.get((schema, name), ())), partitioned
        )
        for (schema, name, partitioned), columns in found.items()
    }


def key_of(columns: Sequence[PgColumn], indexes: Sequence[_Index]) -> tuple[str, ...]:
    """The names of the key columns; () if there is no key."""
    fit = {c.name for c in columns if not c.nullable and c.deterministic}
    order = sorted(indexes, key=lambda i: (not i.primary, not (i.identity and i.relident == "i")))
    return next((i.columns for i in order if i.columns and fit.issuperset(i.columns)), ())


def _indexes(rows: Iterable[Row]) -> dict[tuple[str, str], list[_Index]]:
    found: dict[tuple[str, str], list[_Index]] = {}
    for row in rows:
        index = _Index(row.texts("columns"), row.flag("primary"), row.flag("identity"), row.text("relident"))
        found.setdefault((row.text("schema"), row.text("table")), []).append(index)
    return found


def _column(row: Row) -> PgColumn:
    return PgColumn(
        name=row.text("name"),
        number=row.number("number"),
        declared=row.text("declared"),
        type=row.text("type"),
        type_schema=row.text("type_schema"),
        type_kind=row.text("type_kind"),
        modifier=row.number("modifier"),
        nullable=not row["not_null"],
        element=row.text("element"),
        element_schema=row.text("element_schema"),
        element_kind=row.text("element_kind"),
        labels=row.texts("labels"),
        collation=row.text("collation"),
        deterministic=row["deterministic"] is not False,
        identity=row.text("identity"),
        generated=row.text("generated"),
        expression=row.text("expression"),
    )


def read_definitions(session: Session, tables: Iterable[str]) -> dict[str, Table]:
    """Neutral definitions: with logical types, and without generated columns. Raises SourceError."""
    return {name: table_of(table) for name, table in read_pg_tables(session, tables).items()}


def read_defaults(session: Session, tables: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """Table → column → its default as the server writes it (an expression as its text), or None without a default."""
    pairs = [split_name(name) for name in tables]
    args = ([schema for schema, _ in pairs], [name for _, name in pairs])
    found: dict[str, dict[str, str | None]] = {}
    for row in session.rows(_DEFAULTS, args, doing="read the columns' defaults") if pairs else ():
        found.setdefault(f"{row['schema']}.{row['table']}", {})[row.text("name")] = row.text_or_null("value")
    return found
