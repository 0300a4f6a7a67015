"""What is decided about a MySQL server without asking it: capabilities, error meanings, grants, the init statement."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from datetime import datetime

import pymysql
import pytest

from airflow_cdc.core.errors import ConfigError, MissingPrivilegeError, SourceError
from airflow_cdc.core.position import Watermark
from airflow_cdc.sources.errors import SourceAccessError, SourceSettingError, SourceTlsError, SourceUnreachableError
from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion
from airflow_cdc.sources.mysql.client import MySqlEndpoint
from airflow_cdc.sources.mysql.engine import engine_name
from airflow_cdc.sources.mysql.errors import explain
from airflow_cdc.sources.mysql.grants import parse_grants
from airflow_cdc.sources.mysql.gtid import GtidSet
from airflow_cdc.sources.mysql.position import MySqlPosition
from airflow_cdc.sources.mysql.server_log import reading_init_statement

UUID = "75ac0c48-0000-11f1-ae7d-02fc00000001"


@pytest.mark.parametrize(
    ("text", "numbers", "mariadb"),
    [
        ("8.0.15", (8, 0, 15), False),
        ("8.0.36-28.1", (8, 0, 36), False),
        ("9.7.4-0ubuntu1", (9, 7, 4), False),
        ("26.1.0", (26, 1, 0), False),
        ("10.11.6-MariaDB-0+deb12u1", (10, 11, 6), True),
        ("5.5.5-10.11.6-MariaDB", (10, 11, 6), True),
        ("nonsense", (0, 0, 0), False),
    ],
)
def test_versions_are_read(text: str, numbers: tuple[int, int, int], mariadb: bool) -> None:
    version = ServerVersion.parse(text)
    assert (version.numbers, version.mariadb) == (numbers, mariadb)


# the table of capabilities on the servers that were run, and at each edge
@pytest.mark.parametrize(
    ("capability", "without", "with_it"),
    [
        (Capability.SHOW_BINARY_LOG_STATUS, "8.0.46", "8.4.9"),
        (Capability.INSTANCE_LOCK, "5.7.44", "8.0.15"),
        (Capability.INSTANCE_LOCK_BLOCKS_PURGE, "8.0.27", "8.0.28"),
        (Capability.INSTANCE_LOCK_BLOCKS_PURGE, "8.0.15", "9.7.4"),
        (Capability.TAGGED_GTIDS, "8.0.46", "8.4.0"),
        (Capability.CASCADES_LOGGED, "8.0.15", "9.7.4"),
        (Capability.ERROR_TEXT_IN_SET, "5.7.44", "26.1.0"),
        (Capability.GTID_FUNCTIONS, "5.6.51", "8.0.15"),
        (Capability.SERVER_UUID, "5.5.62", "8.0.15"),
        (Capability.SRS_ID_COLUMN, "5.7.44", "8.0.15"),
        (Capability.PARTIAL_JSON, "5.7.44", "8.0.15"),
        (Capability.TIME_LIMIT_HINT, "5.6.51", "8.0.15"),
        (Capability.FOREIGN_KEYS_BY_SELECT, "5.5.62", "8.0.15"),
    ],
)
def test_capabilities_by_version(capability: Capability, without: str, with_it: str) -> None:
    assert not ServerVersion.parse(without).can(capability)
    assert ServerVersion.parse(with_it).can(capability)
    assert not ServerVersion.parse("11.8.2-MariaDB").can(capability)


def test_the_set_of_capabilities() -> None:
    mariadb_only = {Capability.GTID_DOMAINS, Capability.BINLOG_MONITOR}
    newer = {Capability.GENERATED_UNLOGGED}
    assert ServerVersion.parse("26.1.0").capabilities == frozenset(Capability) - mariadb_only - newer
    assert ServerVersion.parse("11.8.9-MariaDB").capabilities == mariadb_only | newer
    assert ServerVersion.parse("10.11.6-MariaDB").capabilities == mariadb_only
    assert ServerVersion.parse("10.4.34-MariaDB").capabilities == {Capability.GTID_DOMAINS}


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            pymysql.OperationalError(1045, "Access denied for user 'u'@'h'"),
            SourceAccessError,
            "Check login and password",
        ),
        (pymysql.OperationalError(2003, "Can't connect"), SourceUnreachableError, "Check host and port"),
        (pymysql.OperationalError(2013, "Lost connection"), SourceUnreachableError, "lost: could not look"),
        (pymysql.OperationalError(4031, "timeout"), SourceUnreachableError, "idle connection"),
        (pymysql.InterfaceError(0, ""), SourceUnreachableError, "the connection is gone"),
        (pymysql.OperationalError(2026, "SSL"), SourceTlsError, "ssl settings"),
        (pymysql.OperationalError(1381, "no log"), SourceSettingError, "--log-bin"),
        (pymysql.ProgrammingError(1064, "syntax"), SourceError, "could not look: syntax [1064]"),
        (ConnectionResetError("reset by peer"), SourceUnreachableError, "reset by peer"),
        (ValueError("odd"), SourceError, "could not look: odd"),
    ],
)
def test_error_numbers_become_meanings(error: Exception, kind: type[SourceError], said: str) -> None:
    meaning = explain(error, where="mysql db:3306 as u", doing="look")
    assert type(meaning) is kind
    assert said in str(meaning)
    assert "mysql db:3306 as u" in str(meaning)


@pytest.mark.parametrize(
    ("number", "message", "privilege", "on"),
    [
        (1227, "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s) for", "REPLICATION CLIENT", "*.*"),
        (1227, "Access denied; you need (at least one of) the SUPER or BINLOG_ADMIN privilege(s) for", "BINLOG_ADMIN", "*.*"),
        (1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation", "SUPER", "*.*"),
        (1142, "SELECT command denied to user 'low'@'localhost' for table 'orders'", "SELECT", "orders"),
        (1401, "XAER_RMERR: Fatal error occurred in the transaction branch", "XA_RECOVER_ADMIN", "*.*"),
    ],
)  # fmt: skip
def test_a_missing_privilege_is_named(number: int, message: str, privilege: str, on: str) -> None:
    meaning = explain(pymysql.OperationalError(number, message), where="w", doing="look")
    assert isinstance(meaning, MissingPrivilegeError)
    assert meaning.privilege == privilege
    assert f"GRANT {privilege} ON {on}" in meaning.todo
    again = pickle.loads(pickle.dumps(meaning))  # noqa: S301
    assert (type(again), str(again), again.privilege) == (MissingPrivilegeError, str(meaning), privilege)


def test_a_privilege_the_server_does_not_name() -> None:
    meaning = explain(pymysql.OperationalError(1370, "alter routine command denied"), where="w", doing="look")
    assert isinstance(meaning, MissingPrivilegeError)
    assert "alter routine command denied" in str(meaning)


LINES = [
    "GRANT USAGE ON *.* TO `u`@`%`",
    "GRANT REPLICATION CLIENT, PROCESS ON *.* TO `u`@`%`",
    "GRANT BACKUP_ADMIN,XA_RECOVER_ADMIN ON *.* TO `u`@`%`",
    "GRANT SELECT ON `sh\\_op`.* TO `u`@`%`",
    "GRANT SELECT ON `app%`.* TO `u`@`%`",
    "GRANT SELECT, INSERT ON `crm`.`people` TO `u`@`%`",
    "GRANT SELECT (`id`, `name`) ON `crm`.`secret` TO `u`@`%`",
    "GRANT `reader`@`%` TO `u`@`%`",
    "GRANT PROXY ON ``@`` TO `u`@`%` WITH GRANT OPTION",
]


@pytest.mark.parametrize(
    ("privilege", "schema", "table", "held"),
    [
        ("replication client", "", "", True),
        ("XA_RECOVER_ADMIN", "", "", True),
        ("RELOAD", "", "", False),
        ("SELECT", "", "", False),
        ("SELECT", "sh_op", "orders", True),
        ("SELECT", "shxop", "orders", False),
        ("SELECT", "app_7", "x", True),
        ("SELECT", "crm", "people", True),
        ("SELECT", "crm", "other", False),
        ("SELECT", "crm", "secret", False),
    ],
)
def test_grants(privilege: str, schema: str, table: str, held: bool) -> None:
    assert parse_grants("u", LINES).has(privilege, schema, table) is held


def test_all_privileges_and_partial_revokes() -> None:
    lines = ["GRANT ALL PRIVILEGES ON *.* TO `u`@`%`", "REVOKE SELECT ON `secret`.* FROM `u`@`%`"]
    grants = parse_grants("u", lines)
    assert grants.has("RELOAD")
    assert grants.has("SELECT", "shop", "t")
    assert not grants.has("SELECT", "secret", "t")


def test_missing_depends_on_gtid_and_hold() -> None:
    grants = parse_grants("u", ["GRANT SELECT, REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.* TO `u`@`%`"])
    assert [n.privilege for n in grants.missing(["a.b"], gtid=True, hold=False) if n.required] == []
    assert [n.privilege for n in grants.missing(["a.b"], gtid=False) if n.required] == ["RELOAD"]
    assert [n.privilege for n in grants.missing(["a.b"], gtid=True)] == ["PROCESS", "BACKUP_ADMIN"]
    optional = [n.privilege for n in grants.missing(["a.b"], gtid=False) if not n.required]
    assert optional == ["REPLICATION SLAVE", "PROCESS", "BACKUP_ADMIN"]
    (lock,) = [n for n in grants.missing(["a.b", "a.c"], gtid=True, hold=False, keyless=["a.c"]) if n.required]
    assert (lock.privilege, lock.on) == ("LOCK TABLES", "a.c")


def mark(gtids: str | None) -> Watermark:
    position = MySqlPosition("mysql-bin.000004", 198, None if gtids is None else GtidSet.parse(gtids), 1)
    return Watermark(position, UUID, datetime.fromisoformat("2026-11-21T00:00:00+00:00"))


@pytest.mark.parametrize("version", ["5.7.44", "8.0.15", "9.7.4", "10.11.6-MariaDB"])
def test_the_init_statement_is_one_statement(version: str) -> None:
    text = reading_init_statement(mark(f"{UUID}:1-29:tag:1-3"), ServerVersion.parse(version))
    assert text.startswith("SET @@SESSION.")
    assert ";" not in text
    assert "\n" not in text
    assert f"'{UUID}:1-29:tag:1-3'" in text
    assert "@cdc_check := " in text


def test_the_init_statement_without_gtid_checks_the_server_alone() -> None:
    text = reading_init_statement(mark(None), ServerVersion.parse("8.0.15"))
    assert "GTID_SUBSET" not in text
    assert UUID in text


def test_the_init_statement_quotes_nothing_foreign() -> None:
    evil = replace(mark(None), server="x' OR 1=1 -- ")
    with pytest.raises(SourceError, match="not a server uuid"):
        reading_init_statement(evil, ServerVersion.parse("8.0.15"))


def test_the_endpoint_shows_no_secret_and_needs_a_host() -> None:
    endpoint = MySqlEndpoint(" db ", 0, "u", "hunter22", ssl={"key_password": "hunter23"})
    assert (endpoint.host, endpoint.port) == ("db", 3306)
    assert "hunter2" not in repr(endpoint) + endpoint.where
    with pytest.raises(ConfigError, match="no host"):
        MySqlEndpoint(" ", 3306, "u", "p")


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("shop.orders_2", "shop/orders_2"),
        ("shop.my table", "shop/my@0020table"),
        ("a-b.c$#", "a@002db/c@0024@0023"),
        ("s.tänü-日本 #x", "s/t@0kn@1o@002d@65e5@672c@0020@0023x"),  # as MySQL 8.0.15 has it
        ("s.größe", "s/gr@0p@0je"),
    ],
)
def test_names_of_tables_as_innodb_writes_them(table: str, name: str) -> None:
    assert re.fullmatch(engine_name(table), name)
    assert not re.fullmatch(engine_name(table), name + "x")
