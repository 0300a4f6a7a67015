"""Tables of a PostgreSQL that somebody else fills, for the independent check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stack.shop.check import Row


@dataclass(frozen=True, slots=True)
class PostgresCopies:
    """A schema of PostgreSQL by psycopg's connect arguments. See check.SinkRows."""

    postgres: dict[str, Any]
    schema: str

    def columns(self, table: str) -> set[str]:
        """See SinkRows."""
        sql = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        with self._connection() as connection:
            return {str(name) for (name,) in connection.execute(sql, (self.schema, table))}

    def rows(self, table: str, names: list[str]) -> Iterator[Row]:
        """See SinkRows."""
        with self._connection() as connection, connection.cursor(name="copies") as cursor:
            cursor.itersize = 10_000
            cursor.execute(f"SELECT {', '.join(names)} FROM {self.schema}.{table}")
            yield from cursor

    def _connection(self) -> Any:
        import psycopg

        return psycopg.connect(**self.postgres, options="-c timezone=UTC")
