"""A table and its columns in PostgreSQL's own terms."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class PgColumn:
    """A column in PostgreSQL's own terms.

    Attributes:
        number: attnum; a column that was dropped and added again has a new one.
        declared: the type as written in the table's definition, such as numeric(10,2) or a domain's name.
        type, type_schema, type_kind: the type, or the base type of a domain; kind b(ase), e(num), c(omposite), r(ange),
            m(ultirange).
        modifier: typmod of that type; -1 without one.
        element, element_schema, element_kind: the element type of an array.
        labels: the labels of an enum, or of an array's enum, in order.
        identity: a(lways), by d(efault), "" for none. `generated`: s(tored), v(irtual), "" for none.
        deterministic: False if the collation treats different texts as equal.
    """

    name: str
    number: int
    declared: str
    type: str
    type_schema: str = "pg_catalog"
    type_kind: str = "b"
    modifier: int = -1
    nullable: bool = True
    element: str = ""
    element_schema: str = ""
    element_kind: str = ""
    labels: tuple[str, ...] = ()
    collation: str = ""
    deterministic: bool = True
    identity: str = ""
    generated: str = ""
    expression: str = ""

    @property
    def digits(self) -> tuple[int, int] | None:
        """Precision and scale of a numeric with a modifier; None without. The scale may be negative from 15 on."""
        if self.modifier < 4:
            return None
        packed = self.modifier - 4
        scale = packed & 0x7FF
        return packed >> 16, scale - 0x800 if scale & 0x400 else scale

    @property
    def length(self) -> int | None:
        """Characters of a char(n) or varchar(n), bits of a bit(n); None without a limit."""
        if self.modifier < 0:
            return None
        return self.modifier if self.type in {"bit", "varbit"} else self.modifier - 4


@dataclass(frozen=True, slots=True)
class PgTable:
    """A table in PostgreSQL's own terms: its columns by number, and its key columns (empty: keyless).

    The key is the primary key, else the index of the replica identity, else the first unique index by name over NOT
    NULL columns. A column with a nondeterministic collation cannot be in a key: texts that differ here are equal there.
    """

    schema: str
    name: str
    columns: tuple[PgColumn, ...]
    key: tuple[str, ...] = ()
    partitioned: bool = False

    @property
    def full_name(self) -> str:
        """`schema.table`, as in the registry."""
        return f"{self.schema}.{self.name}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over every detail of the definition."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()
