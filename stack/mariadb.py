"""MariaDB from Debian packages: its programs, and what it wants to be told differently from MySQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from stack import debian
from stack.installation import Installation, Logins, Make, MySqlSettings, log_settings, stated_version

# what the product's own user and Debezium's need, and nothing else (docs name the same list)
CDC_PRIVILEGES: Final = ("SELECT", "REPLICATION SLAVE", "BINLOG MONITOR", "PROCESS")
DEBEZIUM_PRIVILEGES: Final = (
    "SELECT",
    "RELOAD",
    "SHOW DATABASES",
    "LOCK TABLES",
    "REPLICATION SLAVE",
    "BINLOG MONITOR",
)


@dataclass(frozen=True, slots=True)
class _Packaged:
    """A series among Debian's packages: the release, its folder for what does not differ by machine, what its scripts begin with."""

    release: debian.Release
    share: str
    scripts: str


_PACKAGED: Final = {
    "mariadb": _Packaged(debian.MARIADB_1011, "usr/share/mysql", "mysql"),
    "mariadb11.8": _Packaged(debian.MARIADB_118, "usr/share/mariadb", "mariadb"),
}
# the order in which its own installer runs them; each line of a file is for a server that reads statements from stdin
_SYSTEM_TABLES: Final = (
    "{}_system_tables.sql",
    "{}_performance_tables.sql",
    "{}_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
)


def install(series: str, run_as: tuple[str, ...]) -> Installation:
    """Make a series of MariaDB available. Raises UnavailableError where it can't be had."""
    packaged = _PACKAGED[series]
    root = debian.unpacked(packaged.release)
    share = root / packaged.share
    server = debian.command(root, "usr/sbin/mariadbd")
    return Installation(
        version=stated_version(server),
        command=server,
        options=(*debian.server_options(root, share), *run_as),
        auth_plugin="mysql_native_password",
        make=Make(
            settings=_settings,
            users=_user_statements,
            initialise=("--bootstrap",),
            tables=partial(_system_tables, share, packaged.scripts),
        ),
    )


def _settings(settings: MySqlSettings) -> dict[str, str]:
    """GTIDs are always on; a domain of its own per server is for those that take writes at the same time."""
    return {**log_settings(settings), "gtid-domain-id": "0"}


def _system_tables(share: Path, begin: str) -> str:
    """An empty server has not even the table of its users: they come from the scripts among its packages.

    `auth_root_socket` makes one root, who cannot come from elsewhere; without it there would be one per name of this host,
    each without a password and each before ours.
    """
    scripts = "\n".join((share / name.format(begin)).read_text() for name in _SYSTEM_TABLES)
    return f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = 'root';\n{scripts}\n"


def _user_statements(_plugin: str, users: Logins) -> tuple[str, ...]:
    _root, cdc, debezium = users
    create = "CREATE USER '{0.user}'@'%' IDENTIFIED BY '{0.password}';"
    return (
        "SET SESSION sql_log_bin = 0;",
        "DROP USER IF EXISTS 'root'@'localhost';",
        *(create.format(user) for user in users),
        "GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION;",
        f"GRANT {', '.join(CDC_PRIVILEGES)} ON *.* TO '{cdc.user}'@'%';",
        f"GRANT {', '.join(DEBEZIUM_PRIVILEGES)} ON *.* TO '{debezium.user}'@'%';",
    )
