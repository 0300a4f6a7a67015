"""PostgreSQL for the independent check: each value as text that the server writes, and what that is for the sink's value."""

from __future__ import annotations

import datetime as dt
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from stack.shop.check import Reader, Row, Types


class Kind(NamedTuple):
    """A type: SQL that writes column {c} as text, and the same text of a value of the sink."""

    server: str
    sink: Callable[[Any], str]


def _same(value: Any) -> str:
    return str(value)


def _plain(value: Any) -> str:
    return format(value, "f")


def _double(value: Any) -> str:
    return struct.pack(">d", value).hex()


def _stamp(value: Any) -> str:
    moment = value.astimezone(dt.UTC) if value.tzinfo else value
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S.%f}"


def _of_day(value: int) -> str:
    """Microseconds since midnight."""
    seconds, micros = divmod(value, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def _listed(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_TEXT: Final = Kind("{c}::text", _same)
_KINDS: Final[dict[str, Kind]] = {
    "numeric": Kind("{c}::text", lambda value: value if isinstance(value, str) else _plain(value)),
    "money": Kind("{c}::numeric(19,2)::text", _plain),
    "float4": Kind("encode(float8send({c}::float8), 'hex')", _double),
    "float8": Kind("encode(float8send({c}), 'hex')", _double),
    "bool": Kind("{c}::text", lambda value: str(value).lower()),
    "date": Kind("to_char({c}, 'YYYY-MM-DD')", lambda value: str(value.isoformat())),
    "timestamp": Kind("to_char({c}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US')", _stamp),
    "timestamptz": Kind("to_char({c} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')", _stamp),
    "time": Kind("to_char({c}, 'HH24:MI:SS.US')", _of_day),
    "interval": Kind("'P0Y0M' || extract(day FROM {c}) || 'DT0H0M' || extract(second FROM {c})::int || 'S'", _same),
    "bytea": Kind("encode({c}, 'hex')", lambda value: bytes(value).hex()),
    "bpchar": Kind("rtrim({c}::text)", _same),
    "inet": Kind("host({c})", _same),
    "bit": Kind("{c}::int::text", _same),
    "_int4": Kind("replace(array_to_json({c})::text, ' ', '')", _listed),
    "_text": Kind("array_to_json({c})::text", _listed),
}


@dataclass(frozen=True, slots=True)
class PostgresRows:
    """A schema of a database by psycopg's connect arguments. See stack.shop.check.SourceRows."""

    postgres: dict[str, Any]
    schema: str

    def columns(self, table: str) -> tuple[Types, set[str]]:
        """See SourceRows. A generated column is not in the log, and so not in the mirror."""
        sql = """SELECT a.attname, t.typname, format_type(a.atttypid, a.atttypmod), a.attgenerated <> ''
                 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
                 WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
        with self._connect() as connection:
            rows = connection.execute(sql, (f"{self.schema}.{table}",)).fetchall()
        types = {str(name): (str(kind), str(full)) for name, kind, full, generated in rows if not generated}
        return types, {str(name) for name, *_, generated in rows if generated}

    def rows(self, table: str, names: list[str], types: Types) -> Iterator[Row]:
        """See SourceRows."""
        columns = ", ".join(_KINDS.get(types[name][0], _TEXT).server.replace("{c}", f'"{name}"') for name in names)
        with self._connect() as connection, connection.cursor("every_row") as cursor:
            yield from cursor.execute(f"SELECT {columns} FROM {self.schema}.{table}")

    def _connect(self) -> Any:
        import psycopg  # an extra: who tries another source has not got it

        return psycopg.connect(**self.postgres)

    def of_sink(self, kind: str) -> Reader:
        """See SourceRows."""
        read = _KINDS.get(kind, _TEXT).sink
        return lambda value, _full: read(value)
