"""What MySQL and MariaDB are told differently when a fault is made: one row per make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion
from stack.connect import DEBEZIUM_CLASS, MARIADB_CLASS


@dataclass(frozen=True, slots=True)
class Dialect:
    """Statements and settings. `password` is filled with the login method and the password."""

    status: str
    reset: str
    executed: str
    password: str
    recursion: str
    connector: Mapping[str, str] = field(default_factory=dict)


_MYSQL_CONNECTOR: Final = {
    "connector.class": DEBEZIUM_CLASS,
    "database.ssl.mode": "preferred",
    "driver.allowPublicKeyRetrieval": "true",
}
_BY_PASSWORD: Final = "ALTER USER 'debezium'@'%' IDENTIFIED WITH {plugin} BY '{password}'"
_OLD: Final = Dialect(
    "SHOW MASTER STATUS",
    "RESET MASTER",
    "@@GLOBAL.gtid_executed",
    _BY_PASSWORD,
    "cte_max_recursion_depth",
    _MYSQL_CONNECTOR,
)
_NEW: Final = Dialect(
    "SHOW BINARY LOG STATUS",
    "RESET BINARY LOGS AND GTIDS",
    "@@GLOBAL.gtid_executed",
    _BY_PASSWORD,
    "cte_max_recursion_depth",
    _MYSQL_CONNECTOR,
)
_MARIADB: Final = Dialect(
    "SHOW MASTER STATUS",
    "RESET MASTER",
    "@@GLOBAL.gtid_binlog_pos",
    "ALTER USER 'debezium'@'%' IDENTIFIED BY '{password}'",
    "max_recursive_iterations",
    {"connector.class": MARIADB_CLASS, "database.ssl.mode": "disable"},
)


def dialect_of(version: str) -> Dialect:
    """The row for a server's stated version."""
    server = ServerVersion.parse(version)
    if server.mariadb:
        return _MARIADB
    return _NEW if server.can(Capability.SHOW_BINARY_LOG_STATUS) else _OLD
