"""Changes of captured tables that a MySQL server does not log as rows: updates in part (INV 31), and cascades (INV 14)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from airflow_cdc.core.errors import MissingPrivilegeError
from airflow_cdc.core.ports import LogLook
from airflow_cdc.sources.mysql import partial_updates as looking
from airflow_cdc.sources.mysql.cascades import keys_in, unlogged_cascades
from airflow_cdc.sources.mysql.partial_updates import partial_updates
from tests.unit.sources.answering import AnsweringSession, Rows

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
Event = tuple[str, str]
MAP, PARTIAL, WHOLE = "Table_map", "Update_rows_partial", "Update_rows"
ORDERS, ITEMS = (MAP, "table_id: 108 (shop.orders)"), (MAP, "table_id: 109 (shop.items)")


class Log:
    """A server's log: file → its events as (type, info), which begin at 4 and are 100 bytes long."""

    def __init__(self, files: dict[str, list[Event]], *, uuid: str = UUID, refused: bool = False) -> None:
        self.files, self.uuid, self.refused = files, uuid, refused

    def end(self) -> tuple[str, int]:
        name = max(self.files)
        return name, 4 + 100 * len(self.files[name])

    def answer(self, sql: str, args: Sequence[Any]) -> Rows:
        if "server_uuid" in sql:
            return [{"uuid": self.uuid.upper(), "id": 1, "now": "2026-11-29T12:00:00.000000"}]
        if "Uptime" in sql:
            return [{"Variable_name": "Uptime", "Value": "100"}]
        if sql in {"SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"}:
            return [{"File": self.end()[0], "Position": self.end()[1], "Executed_Gtid_Set": ""}]
        if sql == "SHOW BINARY LOGS":
            return [{"Log_name": name, "File_size": 4 + 100 * len(events)} for name, events in self.files.items()]
        return self._events(sql)

    def _events(self, sql: str) -> Rows:
        statement = re.fullmatch(r"SHOW BINLOG EVENTS IN '(\S+)' FROM (\d+) LIMIT (\d+)", sql)
        assert statement, sql
        if self.refused:
            raise MissingPrivilegeError("could not look", privilege="REPLICATION SLAVE")
        first = (int(statement[2]) - 4) // 100
        events = list(enumerate(self.files[statement[1]]))[first : first + int(statement[3])]
        return [{"Event_type": kind, "Info": info, "End_log_pos": 104 + 100 * n} for n, (kind, info) in events]


def look(log: Log, since: str, version: str = "8.4.10", most: int = 1000) -> LogLook | None:
    session: Any = AnsweringSession(version, log.answer)
    return partial_updates(session, since, most)


HALF_LOGGED = (PARTIAL, "table_id: 108 flags: STMT_END_F")
FIRST = Log({"b.1": [ORDERS, HALF_LOGGED], "b.2": [ITEMS, (WHOLE, "table_id: 109 flags: STMT_END_F")]})


def test_inv_31_a_table_with_an_update_in_part_is_named_and_one_that_is_logged_whole_is_not() -> None:
    partial = look(FIRST, f"{UUID} b.1:4")
    assert partial is not None
    assert ({*partial.tables}, partial.upto, partial.events, partial.why) == ({"shop.orders"}, f"{UUID} b.2:204", 4, "")
    assert "PARTIAL_JSON" in partial.what
    assert "binlog_row_value_options" in partial.todo


@pytest.mark.parametrize(
    ("since", "tables", "events"),
    [
        ("b.1:4", {"shop.orders"}, 4),
        ("b.1:204", set(), 2),  # the end of a file: the next one is read from its beginning
        ("b.2:4", set(), 2),
        ("b.2:204", set(), 0),
    ],
)
def test_inv_31_a_look_begins_where_the_last_one_ended(since: str, tables: set[str], events: int) -> None:
    partial = look(FIRST, f"{UUID} {since}")
    assert partial is not None
    assert ({*partial.tables}, partial.events, partial.upto) == (tables, events, f"{UUID} b.2:204")


def test_inv_31_a_number_of_the_log_means_the_table_that_was_named_last() -> None:
    """The server gives a table a new number when it opens it again, and an old number to another table after a restart."""
    log = Log({"b.1": [ORDERS, (MAP, "table_id: 108 (shop.items)"), HALF_LOGGED, ITEMS]})
    partial = look(log, f"{UUID} b.1:4")
    assert partial is not None
    assert partial.tables == {"shop.items"}


def test_inv_31_the_first_look_only_remembers_where_the_log_ends() -> None:
    assert look(FIRST, "") == LogLook(frozenset(), f"{UUID} b.2:204")


@pytest.mark.parametrize(
    ("since", "said"),
    [
        (f"{OTHER} b.1:4", f"b.1:4 of server {OTHER}"),
        (f"{UUID} b.0:4", f"b.0:4 of server {UUID}"),
    ],
    ids=["another server", "a file that was purged"],
)
def test_inv_31_a_place_that_is_gone_is_not_passed_over_in_silence(since: str, said: str) -> None:
    partial = look(FIRST, since)
    assert partial is not None
    assert (partial.tables, partial.upto) == (frozenset(), f"{UUID} b.2:204")
    assert said in partial.why


def test_inv_31_a_look_that_had_to_stop_says_so_and_the_next_begins_at_the_logs_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "_AT_ONCE", 2)
    log = Log({"b.1": [ORDERS, HALF_LOGGED] * 3, "b.2": [ITEMS]})
    for most in (3, 4):  # rows come two at once
        partial = look(log, f"{UUID} b.1:4", most=most)
        assert partial is not None
        assert (partial.events, {*partial.tables}, partial.upto) == (4, {"shop.orders"}, f"{UUID} b.2:104")
        assert f"more than {most} events" in partial.why
    whole = look(log, f"{UUID} b.1:4", most=100)
    assert whole is not None
    assert (whole.events, whole.why) == (7, "")


@pytest.mark.parametrize(("version", "looks"), [("5.7.44", False), ("8.0.2", False), ("8.0.3", True), ("9.7.0", True)])
def test_only_servers_that_can_log_in_part_are_looked_at(version: str, *, looks: bool) -> None:
    assert (look(FIRST, f"{UUID} b.1:4", version) is not None) is looks


def test_without_the_right_to_read_events_nothing_is_claimed() -> None:
    assert look(Log(FIRST.files, refused=True), f"{UUID} b.1:4") is None


# ---- cascades ----------------------------------------------------------------------------------


def of_mysql(delete: str, update: str) -> Rows:
    row = {"own_schema": "shop", "own_table": "items", "parent_schema": "shop", "parent_table": "orders"}
    return [row | {"on_delete": delete, "on_update": update}]


def shown_by_mariadb(rules: str) -> AnsweringSession:
    """MariaDB shows the rules only in the statement that makes the table."""
    create = f"CREATE TABLE `items` (\n  CONSTRAINT `fk` FOREIGN KEY (`o`) REFERENCES `orders` (`id`){rules}\n) ENGINE=InnoDB"

    def answer(sql: str, args: Sequence[Any]) -> Rows:
        if "KEY_COLUMN_USAGE" in sql:
            assert list(args) == ["shop", "items"]
            return [{"s": "shop", "t": "items"}]
        assert sql == "SHOW CREATE TABLE `shop`.`items`"
        return [{"Table": "items", "Create Table": create}]

    return AnsweringSession("10.11.18-MariaDB", answer)


RULES = [
    ("CASCADE", "NO ACTION", "DELETE CASCADE"),
    ("SET NULL", "RESTRICT", "DELETE SET NULL"),
    ("RESTRICT", "CASCADE", "UPDATE CASCADE"),
    ("CASCADE", "SET NULL", "DELETE CASCADE, UPDATE SET NULL"),
    ("NO ACTION", "RESTRICT", ""),
]


@pytest.mark.parametrize(("delete", "update", "said"), RULES)
def test_inv_14_a_foreign_key_that_changes_rows_without_an_event_is_named_with_what_it_does(
    delete: str, update: str, said: str
) -> None:
    wanted = (f"shop.items (shop.orders, {said})",) if said else ()
    mysql: Any = AnsweringSession("8.4.10", lambda _sql, _args: of_mysql(delete, update))
    assert unlogged_cascades(mysql, ["shop.items"]) == wanted
    mariadb: Any = shown_by_mariadb(f" ON DELETE {delete} ON UPDATE {update}")
    assert unlogged_cascades(mariadb, ["shop.items"]) == wanted


def test_inv_14_a_key_to_another_schema_and_names_with_quotes_are_read_as_they_are() -> None:
    create = "  CONSTRAINT `f``k` FOREIGN KEY (`o`) REFERENCES `b``2b`.`or``ders` (`id`) ON DELETE CASCADE,\n"
    (key,) = keys_in(f"CREATE TABLE `items` (\n{create}  KEY `i` (`o`)\n)", "shop", "items")
    assert (key["parent_schema"], key["parent_table"], key["on_delete"], key["on_update"]) == (
        "b`2b", "or`ders", "CASCADE", "",
    )  # fmt: skip
    (own,) = keys_in(create.replace("`b``2b`.", ""), "shop", "items")
    assert own["parent_schema"] == "shop"


@pytest.mark.parametrize(("version", "asks"), [("5.7.44", True), ("9.5.0", True), ("9.6.0", False), ("26.1.0", False)])
def test_a_server_that_logs_its_cascades_is_not_asked_for_them(version: str, *, asks: bool) -> None:
    server = AnsweringSession(version, lambda _sql, _args: of_mysql("CASCADE", "CASCADE"))
    session: Any = server
    assert bool(unlogged_cascades(session, ["shop.items"])) is asks
    assert bool(server.asked) is asks


def test_only_the_captured_tables_keys_are_asked_for() -> None:
    given: list[Any] = []
    server = AnsweringSession("8.4.10", lambda _sql, args: given.append(args) or [])  # type: ignore[func-returns-value]
    session: Any = server
    assert unlogged_cascades(session, ["shop.items", "b2b.lines"]) == ()
    assert given == [["shop", "items", "b2b", "lines"]]
    assert server.asked[0].count("TABLE_NAME = %s") == 2
    assert unlogged_cascades(session, []) == ()
    assert len(server.asked) == 1, "no table, no question: `WHERE ` alone is no statement"
