"""Definitions of source tables: what a column is, what the key is, and a fingerprint of all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_cdc.core.errors import MALFORMED, SchemaError
from airflow_cdc.core.types import LogicalType, Unsupported, type_from_json, type_to_json

# The format of a definition as JSON. Format 1 had MySQL's words in place of types.
FORMAT = 2

Word = str | int | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NativeColumn:
    """A column in its source's own words. Only the source interprets them; others only compare them.

    Attributes:
        source: the kind of source, such as mysql.
        type: the type in that source's SQL, for messages.
        words: sorted (name, value) pairs of everything else that affects values; unknown ones are left out.
    """

    source: str
    type: str
    words: tuple[tuple[str, Word], ...] = ()

    def to_json(self) -> dict[str, object]:
        """Plain JSON."""
        words = {name: list(value) if isinstance(value, tuple) else value for name, value in self.words}
        return {"source": self.source, "type": self.type, "words": words}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> NativeColumn:
        """The inverse of `to_json`."""
        words = {name: tuple(word) if isinstance(word, list) else word for name, word in value["words"].items()}
        return cls(value["source"], value["type"], tuple(sorted(words.items())))


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a source table.

    `zoned`: generated from an instant, so that its value depends on the time zone of the session that reads or writes it.
    """

    name: str
    ordinal: int
    type: LogicalType
    native: NativeColumn
    nullable: bool = True
    generated: bool = False
    zoned: bool = False

    @property
    def value_type(self) -> LogicalType:
        """The type. Raises SchemaError for one whose values cannot be carried."""
        if isinstance(self.type, Unsupported):
            raise SchemaError(
                f"type {self.native.type} is not supported",
                where=f"column {self.name}",
                todo="Exclude the column on the connector, or leave the table out of the pipeline.",
            )
        return self.type

    def to_json(self) -> dict[str, object]:
        """Plain JSON."""
        return {
            "name": self.name,
            "ordinal": self.ordinal,
            "type": type_to_json(self.type),
            "native": self.native.to_json(),
            "nullable": self.nullable,
            "generated": self.generated,
            "zoned": self.zoned,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Column:
        """The inverse of `to_json`."""
        kind, native = type_from_json(value["type"]), NativeColumn.from_json(value["native"])
        return cls(**{**value, "type": kind, "native": native})


@dataclass(frozen=True, slots=True)
class Table:
    """A source table: columns in order, and the columns that tell rows apart (empty = keyless).

    `left_out`: columns of the source that are not mirrored. They are no part of the definition as JSON.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    left_out: tuple[str, ...] = field(default=(), compare=False)

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
        """Whether rows can be distinguished only by all of their values (a multiset)."""
        return not self.key

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The key's columns in the key's own order."""
        return tuple(self.column(name) for name in self.key)

    @property
    def mirrored(self) -> tuple[Column, ...]:
        """The columns that the sink has: all columns."""
        return self.columns

    def without(self, names: Collection[str]) -> Table:
        """The table without these columns, which are left out; itself for none."""
        kept = tuple(column for column in self.columns if column.name not in names)
        return replace(self, columns=kept, left_out=(*self.left_out, *sorted(names))) if names else self

    @property
    def compared(self) -> tuple[Column, ...]:
        """The mirrored columns whose value is the same for every reader: all except zoned ones."""
        return tuple(c for c in self.columns if not c.zoned)

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

    def to_json(self) -> dict[str, object]:
        """Plain JSON values; `from_json` gives the same table back."""
        columns = [c.to_json() for c in self.columns]
        return {"format": FORMAT, "schema": self.schema, "name": self.name, "columns": columns, "key": list(self.key)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Table:
        """The inverse of `to_json`; SchemaError if a value is missing or unknown, or the format is not this version's."""
        if data.get("columns") and data.get("format", 1) != FORMAT:
            raise SchemaError(
                f"a table definition of format {data.get('format', 1)} cannot be read, only of format {FORMAT}",
                where=f"{data.get('schema')}.{data.get('name')}",
                todo="Recover the table (diff_repair or full_snapshot): that writes its definition again.",
            )
        try:
            columns = tuple(Column.from_json(column) for column in data["columns"])
            return cls(data["schema"], data["name"], columns, tuple(data["key"]))
        except MALFORMED as error:
            raise SchemaError(f"not a table definition: {error!r}") from error
