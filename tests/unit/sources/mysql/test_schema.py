from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from unittest.mock import create_autospec

import pymysql
import pytest
from pymysql.connections import Connection

from airflow_cdc.core.errors import SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.errors import SourceUnreachableError
from airflow_cdc.sources.mysql.client import MySqlEndpoint, MySqlSource
from airflow_cdc.sources.mysql.errors import ServerRestartedError
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.sources.mysql.schema import parse_labels, read_defaults, read_table_defs
from airflow_cdc.sources.mysql.server_log import ServerIdentity


@pytest.mark.parametrize(
    ("column_type", "labels"),
    [
        ("enum('a')", ("a",)),
        ("enum('a','b''s','')", ("a", "b's", "")),
        (r"enum('b\\c','n\nl','q''')", ("b\\c", "n\nl", "q'")),
        ("set('x,y','(z)',' lead')", ("x,y", "(z)", " lead")),
        ("enum('),(''')", ("),('",)),
    ],
)
def test_labels_are_read_from_the_type(column_type: str, labels: tuple[str, ...]) -> None:
    assert parse_labels(column_type) == labels


def test_no_tables_are_no_question() -> None:
    assert read_table_defs(None, []) == {}  # type: ignore[arg-type]


def test_a_name_without_a_schema_is_refused() -> None:
    with pytest.raises(SourceError, match="'orders' is not a table name"):
        read_table_defs(None, ["orders"])  # type: ignore[arg-type]


@pytest.mark.parametrize("read", [read_table_defs, read_defaults])
def test_a_connection_that_breaks_while_definitions_are_read_is_no_lack_of_a_grant(read: object) -> None:
    connection = create_autospec(Connection, instance=True, host="db", port=3306)
    connection.cursor.side_effect = pymysql.OperationalError(2013, "Lost connection to MySQL server during query")
    with pytest.raises(
        SourceUnreachableError, match=r"lost: could not read .*mysql db:3306, tables shop\.orders"
    ) as caught:
        read(connection, ["shop.orders"])  # type: ignore[operator]
    assert "Grant" not in str(caught.value)


@pytest.mark.parametrize(
    ("elapsed", "uptime", "says"),
    [
        (60, 3600, ""),
        (60, 10, "was restarted 10 s ago"),
        # its clock was set back by two hours, and it was restarted
        (-7200, 10, "clock was set back"),
        # after its start; by such a clock a watermark of before a restart looks like one of after it
        (60, -10, "before its own start.* restart the server"),
        (-0.5, 3600, ""),
    ],
)
def test_inv_09_a_restart_is_noticed_by_the_servers_clock_or_by_its_going_back(
    monkeypatch: pytest.MonkeyPatch, elapsed: float, uptime: int, says: str
) -> None:
    taken = datetime(2026, 11, 21, 10, tzinfo=UTC)
    now = ServerIdentity("uuid", 1, uptime, taken + timedelta(seconds=elapsed))
    monkeypatch.setattr(MySqlSource, "_identity", lambda *_: now)
    monkeypatch.setattr(MySqlSource, "session", contextmanager(lambda *_: iter([None])))
    source = MySqlSource(MySqlEndpoint("db", 3306, "u", "p"))
    watermark = Watermark(MySqlPosition("mysql-bin.000001", 4), "uuid", taken)
    if not says:
        source.check_same_server(watermark)
        return
    with pytest.raises(ServerRestartedError, match=says):
        source.check_same_server(watermark)
