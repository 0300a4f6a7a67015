"""What the doctor says of a server with a binary log: who answers, what its log leaves out, which rights the user lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from airflow_cdc.core.check import Check
from airflow_cdc.core.table import Table
from airflow_cdc.sources.mysql.checks import checks
from airflow_cdc.sources.mysql.facts import MySqlFacts
from airflow_cdc.sources.mysql.grants import Grants, parse_grants
from airflow_cdc.sources.mysql.session import MySqlEndpoint
from tests.unit.builders import SOURCE
from tests.unit.sources.answering import AnsweringSession
from tests.unit.tables import column, table

TABLES = ("shop.t", "shop.log")
ENOUGH = (
    "GRANT REPLICATION CLIENT, XA_RECOVER_ADMIN, RELOAD, REPLICATION SLAVE, PROCESS, BACKUP_ADMIN ON *.* TO `cdc`@`%`",
    "GRANT SELECT, LOCK TABLES ON `shop`.* TO `cdc`@`%`",
)


class Server:
    """A server as the doctor sees it."""

    endpoint = MySqlEndpoint("db", 3306, "cdc", "x")

    def __init__(self, facts: MySqlFacts = SOURCE, grants: Sequence[str] = ENOUGH, *, cipher: str = "") -> None:
        self._facts, self._grants, self.cipher = facts, grants, cipher
        self.read: list[str] = []

    @contextmanager
    def session(self) -> Iterator[Any]:
        yield AnsweringSession("8.4.10", lambda _sql, _args: [{"Variable_name": "Ssl_cipher", "Value": self.cipher}])

    def facts(self) -> MySqlFacts:
        return self._facts

    def grants(self) -> Grants:
        return parse_grants("cdc@%", self._grants)

    def definitions(self, tables: Sequence[str]) -> dict[str, Table]:
        self.read += tables
        keyless = table(column("v", "int"))
        return {"shop.t": table(column("id", "int"), key=("id",)), "shop.log": keyless}


def said(server: Server, *, hold: bool = True, unreadable: str = "") -> dict[str, Check]:
    """The checks by name; of several of one name the last."""
    return {one.name: one for one in checks(server, "source", TABLES, hold=hold, unreadable=unreadable)}


def bad(server: Server, **how: Any) -> list[str]:
    return [
        one.found
        for one in checks(server, "source", TABLES, **{"hold": True, "unreadable": "", **how})
        if one.state == "bad"
    ]


def test_a_server_with_all_that_a_recovery_needs_has_no_fault() -> None:
    checks = said(Server(cipher="TLS_AES_256_GCM_SHA384"))
    assert {one.state for name, one in checks.items() if name != "tls"} == {"ok"}
    assert checks["privileges"].found == "all that a recovery needs"
    assert SOURCE.server_uuid in checks["source"].found
    assert "TLS_AES_256_GCM_SHA384" in checks["tls"].found
    assert [checks[name].found for name in ("log_bin", "binlog_format", "binlog_row_image")] == ["ON", "ROW", "FULL"]


@pytest.mark.parametrize(
    ("change", "name", "what"),
    [
        ({"log_bin": False}, "log_bin", "OFF, must be ON"),
        ({"binlog_format": "MIXED"}, "binlog_format", "MIXED, must be ROW"),
        ({"row_image": "MINIMAL"}, "binlog_row_image", "MINIMAL, must be FULL"),
        ({"log_filters": ("binlog_do_db other",)}, "binlog_do_db", "other, must be empty"),
    ],
)
def test_inv_31_a_log_that_does_not_hold_every_change_whole_is_bad_and_said_once(
    change: dict[str, Any], name: str, what: str
) -> None:
    server = Server(replace(SOURCE, **change))
    every = [one for one in checks(server, "source", TABLES, hold=True, unreadable="") if one.name == name]
    assert [(one.state, one.found) for one in every] == [("bad", what)]
    assert name in every[0].todo


@pytest.mark.parametrize(
    ("grants", "state", "what"),
    [
        ((ENOUGH[0], "GRANT SELECT, LOCK TABLES ON `shop`.`t` TO `cdc`@`%`"), "bad", "missing SELECT on shop.log"),
        ((ENOUGH[0], "GRANT SELECT ON `shop`.* TO `cdc`@`%`"), "bad", "missing LOCK TABLES on shop.log"),
        ((ENOUGH[0].replace("XA_RECOVER_ADMIN, ", ""), ENOUGH[1]), "bad", "missing XA_RECOVER_ADMIN on *.*"),
        ((ENOUGH[0].replace("PROCESS, ", ""), ENOUGH[1]), "warn", "missing PROCESS on *.*"),
    ],
)
def test_a_right_that_a_recovery_needs_is_bad_and_one_that_it_can_do_without_is_a_warning(
    grants: Sequence[str], state: str, what: str
) -> None:
    every = [
        one
        for one in checks(Server(grants=grants), "source", TABLES, hold=True, unreadable="")
        if one.name == "privileges"
    ]
    assert (state, what) in [(one.state, one.found) for one in every]
    assert all(one.state != "ok" for one in every), "what is missing isn't called all that is needed"


def test_rights_that_are_needed_without_gtid_alone_or_for_a_hold_alone_are_asked_for_only_then() -> None:
    without = (ENOUGH[0].replace("RELOAD, REPLICATION SLAVE, ", ""), ENOUGH[1])
    assert bad(Server(replace(SOURCE, gtid_mode="ON"), without)) == []
    assert bad(Server(replace(SOURCE, gtid_mode="OFF"), without)) == ["missing RELOAD on *.*"]
    no_lock = Server(grants=(ENOUGH[0].replace(", BACKUP_ADMIN", ""), ENOUGH[1]))
    assert said(no_lock)["privileges"].found == "missing BACKUP_ADMIN on *.*"
    assert said(no_lock, hold=False)["privileges"].state == "ok"


def test_a_server_that_no_recovery_can_read_is_still_diagnosed() -> None:
    server = Server(replace(SOURCE, server_uuid="", version="5.5.62"))
    checks = said(server, unreadable="MySQL 5.5 has no server_uuid")
    assert (checks["recovery"].state, checks["recovery"].found) == ("warn", "MySQL 5.5 has no server_uuid")
    assert checks["recovery"].todo
    assert checks["source"].found == f"MySQL 5.5.62, server_id {SOURCE.server_id}"
    assert checks["privileges"].found == "all that a diagnosis needs"
    assert server.read == [], "its definitions are not read: nothing is done with them"
