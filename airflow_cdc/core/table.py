"""Definitions of source tables: what a column is, what the key is, and a fingerprint of all of it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from airflow_cdc.core.chunk import quote_ident
from airflow_cdc.core.errors import MALFORMED, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

INTEGER_TYPES = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_PARENTHESES = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a source table.

    Lengths are in characters (`char_length`) and bytes (`byte_length`), `fsp` in digits of a second.
    `expression` is the text of a generated column; `labels` are those of ENUM and SET, in order.
    """

    name: str
    ordinal: int
    data_type: str
    column_type: str
    nullable: bool = True
    charset: str | None = None
    collation: str | None = None
    char_length: int | None = None
    byte_length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fsp: int | None = None
    generated: bool = False
    labels: tuple[str, ...] = ()
    srid: int | None = None
    expression: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_type", self.data_type.lower())
        object.__setattr__(self, "labels", tuple(self.labels))

    @property
    def unsigned(self) -> bool:
        """Whether a number has no sign; a label such as `enum('unsigned')` does not count."""
        return "unsigned" in self._words or self.zerofill

    @property
    def zerofill(self) -> bool:
        """Whether MySQL pads the number with zeros when it prints it."""
        return "zerofill" in self._words

    @property
    def _words(self) -> list[str]:
        return [] if self.labels else _PARENTHESES.sub("", self.column_type.lower()).split()

    @property
    def is_integer(self) -> bool:
        """Whether the type is one of MySQL's integers (BIT and YEAR are not)."""
        return self.data_type in INTEGER_TYPES


@dataclass(frozen=True, slots=True)
class Table:
    """A source table: columns in order, and the columns that tell rows apart (empty = keyless)."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(sorted(self.columns, key=lambda c: c.ordinal)))
        object.__setattr__(self, "key", tuple(self.key))
        missing = [name for name in self.key if name not in {c.name for c in self.columns}]
        if missing:
            raise SchemaError(f"key column {missing[0]!r} is not a column", where=f"{self.schema}.{self.name}")

    @property
    def full_name(self) -> str:
        """`schema.table`, as in the registry."""
        return f"{self.schema}.{self.name}"

    @property
    def keyless(self) -> bool:
        """Whether rows can only be told apart by all of their values (a multiset)."""
        return not self.key

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The key's columns in the key's own order."""
        return tuple(self.column(name) for name in self.key)

    @property
    def mirrored(self) -> tuple[Column, ...]:
        """The columns that the sink has: all of them."""
        return self.columns

    @property
    def compared(self) -> tuple[Column, ...]:
        """The mirrored columns that have one value, whoever reads them: generated ones too, but for those in `zoned`."""
        zoned = self.zoned
        return tuple(c for c in self.columns if c.name not in zoned)

    @property
    def zoned(self) -> frozenset[str]:
        """Columns generated from a TIMESTAMP, directly or not: their values depend on the session's time zone."""
        moments = [c.name for c in self.columns if c.data_type == "timestamp" and not c.generated]
        zoned: set[str] = set()
        for column in self.columns:
            if column.generated and any(quote_ident(name) in column.expression for name in (*moments, *zoned)):
                zoned.add(column.name)
        return frozenset(zoned)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over every detail of the definition; any DDL that matters changes it."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def column(self, name: str) -> Column:
        """The column of that name; SchemaError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise SchemaError(f"no column {name!r}", where=self.full_name)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` gives the same table back."""
        columns = [asdict(c) | {"labels": list(c.labels)} for c in self.columns]
        return {"schema": self.schema, "name": self.name, "columns": columns, "key": list(self.key)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        """The inverse of `to_json`; SchemaError if a value is missing or unknown."""
        known = {f.name for f in fields(Column)}
        try:
            columns = tuple(Column(**column) for column in data["columns"])
            return cls(data["schema"], data["name"], columns, tuple(data["key"]))
        except MALFORMED as error:
            what = f"not a table definition: {error!r} (a column has {sorted(known)})"
            raise SchemaError(what) from error
