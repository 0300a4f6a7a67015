"""What a database server is to the stack: its settings, its logins, its programs and what differs between makes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from stack.errors import UnavailableError
from stack.versions import mysql_series


@dataclass(frozen=True, slots=True)
class MySqlSettings:
    """What differs between the servers of one stack. `extra` are more mysqld options, e.g. `("--skip-log-bin",)`."""

    name: str = "mysql"
    server_id: int = 101
    gtid: bool = True
    max_binlog_size: int = 104857600
    series: str = field(default_factory=mysql_series)
    buffer_pool: str = "256M"
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class User:
    """A login; the password stays out of repr."""

    user: str
    password: str = field(repr=False)


Logins: TypeAlias = tuple[User, User, User]  # root, the provider's, Debezium's


@dataclass(frozen=True, slots=True)
class Make:
    """What one make of server wants to be told differently.

    `initialise` are the options that fill an empty data folder, `tables` the SQL that goes to its standard input then;
    `users` are the statements that replace the first login by ours, one per line.
    """

    settings: Callable[[MySqlSettings], dict[str, str]]
    users: Callable[[str, Logins], tuple[str, ...]]
    initialise: tuple[str, ...]
    options: tuple[str, ...] = ()
    tables: Callable[[], str] = str


@dataclass(frozen=True, slots=True)
class Installation:
    """Programs of one version: how to start the server and where its files are."""

    version: str
    command: tuple[str, ...]
    options: tuple[str, ...]
    auth_plugin: str
    make: Make
    env: Mapping[str, str] = field(default_factory=dict)


def log_settings(settings: MySqlSettings) -> dict[str, str]:
    """What every make has: a whole log of rows, and the sizes."""
    return {
        "server-id": str(settings.server_id),
        "log-bin": "mysql-bin",
        "binlog-format": "ROW",
        "binlog-row-image": "FULL",
        "max-binlog-size": str(settings.max_binlog_size),
        "innodb-buffer-pool-size": settings.buffer_pool,
    }


def stated_version(command: Sequence[str]) -> str:
    """The version that a server's program states. Raises UnavailableError where it does not run."""
    done = subprocess.run(
        [*command, "--no-defaults", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    match = re.search(r"Ver (\d+\.\d+\.\d+)", done.stdout)
    if not match:
        raise UnavailableError(f"the fetched server does not run here: {(done.stdout + done.stderr).strip()[:300]}")
    return match.group(1)
