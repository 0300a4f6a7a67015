"""The rows of a small MySQL table in memory, in the sink's types, for a snapshot that needs no Spark job.

A value is converted only in the one form in which the server returns what `read_sql` selects. Anything else, such as a date
that is none, raises ValueError, and Spark's expressions (mysql_values.py) decide what it means.
"""

from __future__ import annotations

import datetime as dt
import decimal
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pymysql
from pymysql.cursors import SSCursor

from airflow_cdc.core.errors import MALFORMED, SourceError
from airflow_cdc.core.types import (
    Bits,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    Json,
    LocalDateTime,
    Text,
    Time,
)
from airflow_cdc.decisions.compare.json_text import json_canonical
from airflow_cdc.sources.mysql.errors import explain
from airflow_cdc.sources.mysql.quoting import quote_table
from airflow_cdc.sources.mysql.session import Session
from airflow_cdc.sources.mysql.types import read_sql
from airflow_cdc.spark_apps.adapters.mysql_view import VIEW_SECONDS
from airflow_cdc.spark_apps.types import arrow_type, sink_type

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column, Table
    from airflow_cdc.core.types import LogicalType
    from airflow_cdc.sources.mysql.client import BinlogSource
    from airflow_cdc.sources.mysql.facts import BinlogFacts

log = logging.getLogger("airflow_cdc.snapshot")

_NUMBERS: Final = (int, decimal.Decimal)
_SRID_BYTES: Final = 4  # in front of the WKB, as read_sql says
Convert = Callable[[Any], object]


class FewRows:
    """Small tables of a server, as ports_few.FewRowsReader: a connection costs more than the rows of one.

    `init`: the statement with which a connection proves its server (INV 9). It is run before each table, so a connection
    that was lost meanwhile, or that leads elsewhere now, is no longer used.
    """

    def __init__(self, source: BinlogSource[BinlogFacts], init: Callable[[], str]) -> None:
        self._source, self._init = source, init
        self._mine = threading.local()
        self._opened: list[Session] = []

    def __call__(self, table: Table, *, most_rows: int, most_bytes: int) -> pa.Table | None:
        """See ports_few.FewRowsReader."""
        return read_few(self._proven(), table, most_rows=most_rows, most_bytes=most_bytes)

    def close(self) -> None:
        """End the connections of all threads."""
        for session in self._opened:
            session.close()

    def _proven(self) -> Session:
        """This thread's connection."""
        session: Session | None = getattr(self._mine, "session", None)
        if session is not None:
            with suppress(SourceError):  # a new one says why
                return self._prove(session)
            session.close()
        connection = self._source.connect(read_timeout=VIEW_SECONDS)
        self._mine.session = Session(connection, self._source.where)
        self._opened.append(self._mine.session)
        return self._prove(self._mine.session)

    def _prove(self, session: Session) -> Session:
        session.run(self._init(), doing="check that this is the watermark's server")
        return session


def read_few(session: Session, table: Table, *, most_rows: int, most_bytes: int) -> pa.Table | None:
    """All rows; None if they are more than that, or if only Spark can read one of them."""
    makers = [_MAKERS.get(type(column.value_type)) for column in table.mirrored]
    if any(make is None for make in makers):
        return None
    sql = f"SELECT {', '.join(map(read_sql, table.mirrored))} FROM {quote_table(table)} LIMIT {most_rows + 1}"
    converts = [make(column) for make, column in zip(makers, table.mirrored, strict=True) if make]
    try:
        rows = _fetched(session, sql, most_rows, most_bytes)
        return None if rows is None else _table(table.mirrored, converts, rows)
    except (pymysql.MySQLError, OSError) as error:
        raise explain(error, where=session.where, doing=f"read {table.full_name}") from error
    except (*MALFORMED, ArithmeticError, pa.ArrowException) as error:
        log.info("%s is read by Spark: %r", table.full_name, error)
        return None


def _fetched(session: Session, sql: str, most_rows: int, most_bytes: int) -> list[tuple[object, ...]] | None:
    rows, size = list[tuple[object, ...]](), 0
    with session.connection.cursor(SSCursor) as cursor:
        cursor.execute(sql)
        for row in iter(cursor.fetchone, None):
            size += sum(len(value) for value in row if isinstance(value, str | bytes))
            if len(rows) == most_rows or size > most_bytes:
                return None
            rows.append(row)
    return rows


def _table(columns: Sequence[Column], converts: Sequence[Convert], rows: Sequence[tuple[object, ...]]) -> pa.Table:
    arrays = []
    for at, (column, convert) in enumerate(zip(columns, converts, strict=True)):
        values = [None if row[at] is None else convert(row[at]) for row in rows]
        arrays.append(pa.array(values, arrow_type(sink_type(column))))
    return pa.table(arrays, [column.name for column in columns])


def _exactly(kind: type) -> Convert:
    def convert(value: object) -> object:
        if type(value) is not kind:
            raise ValueError(f"a {type(value).__name__}, not a {kind.__name__}")
        return value

    return convert


def _number(column: Column) -> Convert:
    """A whole number: a bigint that may be unsigned arrives as a decimal of 20 digits."""
    convert = decimal.Decimal if sink_type(column).startswith("decimal") else int

    def whole(value: Any) -> object:
        if type(value) not in _NUMBERS or value != int(value):
            raise ValueError("not a whole number")
        return convert(value)

    return whole


def _decimal(column: Column) -> Convert:
    if sink_type(column) == "string":
        return _exactly(str)

    def convert(value: Any) -> decimal.Decimal:
        if type(value) not in {str, decimal.Decimal}:
            raise ValueError("not a decimal")
        return decimal.Decimal(value)

    return convert


def _date(_column: Column) -> Convert:
    return lambda value: dt.date.fromisoformat(_text(value))


def _datetime(_column: Column) -> Convert:
    return lambda value: dt.datetime.fromisoformat(_text(value))


def _instant(_column: Column) -> Convert:
    def convert(value: object) -> int:
        if type(value) is not int or value <= 0:  # 0 is the date that is none
            raise ValueError("not a moment")
        return value

    return convert


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError("not a text")
    return value


def _json(_column: Column) -> Convert:
    def convert(value: object) -> str:
        text = json_canonical(_text(value))
        if text is None:
            raise ValueError("not JSON")
        return text

    return convert


def _geometry(_column: Column) -> Convert:
    def convert(value: object) -> dict[str, object]:
        if type(value) is not bytes or len(value) < _SRID_BYTES:
            raise ValueError("not a geometry")
        return {"srid": int.from_bytes(value[:_SRID_BYTES], "little"), "wkb": value[_SRID_BYTES:]}

    return convert


_MAKERS: Final[Mapping[type[LogicalType], Callable[[Column], Convert]]] = {
    Integer: _number,
    Bits: _number,
    Time: _number,
    Decimal: _decimal,
    Float: lambda _column: _exactly(float),
    Date: _date,
    LocalDateTime: _datetime,
    Instant: _instant,
    Text: lambda _column: _exactly(str),
    Bytes: lambda _column: _exactly(bytes),
    Json: _json,
    Geometry: _geometry,
}
