"""Real servers on one machine, without a container engine, Maven or root.

    with stack.start(folder) as servers:
        servers.mysql["mysql"].port, servers.kafka.bootstrap, servers.connect.url

`python -m stack` is the same from a shell. Nothing here is part of the installed package.
"""

from stack.cluster import ALL, Health, Stack, down, start, wipe
from stack.errors import StackError, UnavailableError
from stack.mysql import MySqlServer, MySqlSettings
from stack.postgres import PostgresServer, PostgresSettings

__all__ = [
    "ALL",
    "Health",
    "MySqlServer",
    "MySqlSettings",
    "PostgresServer",
    "PostgresSettings",
    "Stack",
    "StackError",
    "UnavailableError",
    "down",
    "start",
    "wipe",
]
