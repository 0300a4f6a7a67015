"""Offsets in the table of Debezium's JdbcOffsetBackingStore."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Column, Integer, MetaData, String, Table, inspect, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql import quoted_name
from sqlalchemy.types import TIMESTAMP

from airflow_cdc.connectors.debezium_engine.stores.offsets import Stored, changed_meanwhile
from airflow_cdc.controls.sql.kind import SqlEndpoint
from airflow_cdc.controls.sql.store import described, engine_of
from airflow_cdc.core.errors import ConnectorError

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import IsolationLevel

T = TypeVar("T")
_NAME: Final = re.compile(r"(?:(\w+)\.)?(\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableOffsets:
    """The table `name` (`schema.name`) in `database`. Where it is not there yet, there are no offsets.

    The engine writes the whole table anew at each commit.
    """

    database: SqlEndpoint
    name: str

    @property
    def where(self) -> str:
        """How messages name the table."""
        return f"table {self.name} in {self.database.where}"

    def read(self) -> Stored:
        """All offsets."""
        return self._call(lambda connection: {key: value for _, key, value in self._rows(connection)})

    def replace(self, key: str, before: str | None, value: str | None) -> None:
        """Set the value of this key's rows, or add one, in one transaction."""

        def change(connection: Connection) -> None:
            with connection.begin():
                rows = self._rows(connection)
                if {name: one for _, name, one in rows}.get(key) != before:
                    raise changed_meanwhile(self.where)
                self._put(connection, key, [row for row, name, _ in rows if name == key], value)

        self._call(change, isolation="SERIALIZABLE")

    def _put(self, connection: Connection, key: str, rows: list[str], value: str | None) -> None:
        table = self._table
        mine = table.c.id.in_(rows)
        if value is None:
            connection.execute(table.delete().where(mine))
        elif rows:
            connection.execute(table.update().where(mine).values(offset_val=value))
        else:
            new = {"id": str(uuid.uuid4()), "offset_key": key, "offset_val": value, "record_insert_seq": 1}
            connection.execute(table.insert().values(**new, record_insert_ts=datetime.now(UTC).replace(tzinfo=None)))

    def _rows(self, connection: Connection) -> list[tuple[str, str, str | None]]:
        """(id, key, value), the newest of a key last, as the engine reads them."""
        table = self._table
        if not inspect(connection).has_table(table.name, schema=table.schema):
            return []
        columns = (table.c.id, table.c.offset_key, table.c.offset_val)
        rows = connection.execute(select(*columns).order_by(table.c.record_insert_ts, table.c.record_insert_seq))
        return [tuple(row) for row in rows]

    @property
    def _table(self) -> Table:
        match = _NAME.fullmatch(self.name)
        if match is None:
            raise ConnectorError(
                f"{self.name!r} is no plain name of a table",
                where=self.database.where,
                todo="Name it in the engine's offset.storage.jdbc.table.name with letters, digits and _.",
            )
        schema, name = match.groups()
        if self.database.driver.startswith("postgresql") and self.name != self.name.lower():
            raise ConnectorError(  # seen on 3.5.0: it creates the table without quotes, and does not find it again
                f"with the name {self.name} Debezium does not start a second time on PostgreSQL",
                where=self.database.where,
                todo="Write offset.storage.jdbc.table.name in small letters.",
            )
        texts = [Column(one, String(36 if one == "id" else 1255)) for one in _TEXTS]
        times = Column("record_insert_ts", TIMESTAMP), Column("record_insert_seq", Integer)
        return Table(quoted_name(name, quote=False), MetaData(), *texts, *times, schema=schema)

    def _call(self, ask: Callable[[Connection], T], isolation: IsolationLevel = "AUTOCOMMIT") -> T:
        try:
            with engine_of(self.database).connect().execution_options(isolation_level=isolation) as connection:
                return ask(connection)
        except DBAPIError as error:
            raise ConnectorError(
                f"the database of the offsets does not answer as it should: {described(error)}",
                where=self.where,
                todo="Check the connection of connector.conn_id: its address, its login, and that the login may read and"
                " write the table.",
            ) from None


_TEXTS: Final = ("id", "offset_key", "offset_val")
