"""What a server can do, by name. Versions are compared here and nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

_NUMBERS: Final = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?")


class Capability(Enum):
    """Something a server may be able to do; the value says what follows if it can."""

    SHOW_BINARY_LOG_STATUS = "SHOW BINARY LOG STATUS is the statement (SHOW MASTER STATUS is gone)"
    SHOW_REPLICA_STATUS = "SHOW REPLICA STATUS and SHOW REPLICAS are the statements (those with SLAVE go)"
    INSTANCE_LOCK = "LOCK INSTANCE FOR BACKUP exists: it keeps DDL out"
    INSTANCE_LOCK_BLOCKS_PURGE = "LOCK INSTANCE FOR BACKUP keeps binlog files from being purged"
    TAGGED_GTIDS = "GTIDs can carry tags"
    CASCADES_LOGGED = "row changes made by foreign-key cascades are in the binlog"
    ERROR_TEXT_IN_SET = "a SET statement can fail with a text of our own (UUID_TO_BIN)"
    GTID_FUNCTIONS = "GTID sets as MySQL has them (WAIT_FOR_EXECUTED_GTID_SET, gtid_owned)"
    GTID_DOMAINS = "GTIDs are domain-server-number: gtid_binlog_state, BINLOG_GTID_POS"
    SERVER_UUID = (
        "@@server_uuid names the server whose data it is; without it no read can be proven to be of one server"
    )
    SRS_ID_COLUMN = "information_schema.COLUMNS has SRS_ID"
    TIME_LIMIT_HINT = "a SELECT can carry a limit of its time as a hint"
    CONVERT_XID = "XA RECOVER CONVERT XID prints what is not text (elsewhere FORMAT = 'SQL' does)"
    FOREIGN_KEYS_BY_SELECT = (
        "information_schema.REFERENTIAL_CONSTRAINTS shows the keys of a table to who may SELECT from it"
    )
    PARTIAL_JSON = "a session can log an UPDATE of a JSON document in part (binlog_row_value_options)"
    BINLOG_MONITOR = "BINLOG MONITOR is the one privilege for the log's position, files and events"
    GENERATED_UNLOGGED = (
        "UPDATE and DELETE leave generated columns out of their row images, also with binlog_row_image=FULL"
    )


_Since: TypeAlias = dict[Capability, tuple[int, int, int]]

# First MySQL version that has it.
_MYSQL: Final[_Since] = {
    Capability.SHOW_BINARY_LOG_STATUS: (8, 2, 0),
    Capability.SHOW_REPLICA_STATUS: (8, 0, 22),
    Capability.INSTANCE_LOCK: (8, 0, 0),
    # 8.0.28 made PURGE and expiry respect the lock; earlier servers grant it but purge all the same
    Capability.INSTANCE_LOCK_BLOCKS_PURGE: (8, 0, 28),
    Capability.TAGGED_GTIDS: (8, 3, 0),
    # 9.6 moved foreign keys from InnoDB to the SQL layer, whose cascades write row events
    Capability.CASCADES_LOGGED: (9, 6, 0),
    Capability.ERROR_TEXT_IN_SET: (8, 0, 0),
    Capability.GTID_FUNCTIONS: (5, 7, 5),
    Capability.SERVER_UUID: (5, 6, 0),
    Capability.SRS_ID_COLUMN: (8, 0, 3),
    Capability.PARTIAL_JSON: (8, 0, 3),
    Capability.TIME_LIMIT_HINT: (5, 7, 8),
    Capability.CONVERT_XID: (5, 7, 5),
    # MariaDB 10.11 shows nothing there to a user with SELECT alone, and no error either
    Capability.FOREIGN_KEYS_BY_SELECT: (5, 6, 0),
}

# First MariaDB version that has it: its log, locks and GTIDs are its own. BACKUP STAGE is no instance lock: no stage of it
# was seen to keep a file from being purged, not even those that keep DDL out.
_MARIADB: Final[_Since] = {
    Capability.GTID_DOMAINS: (10, 0, 2),
    Capability.BINLOG_MONITOR: (10, 5, 2),
    # 10.11.18 logs them and 11.8.9 does not; no series between was tried
    Capability.GENERATED_UNLOGGED: (11, 0, 0),
}


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """A server's version: its text, its numbers (compared numerically: 8.0 < 9.7 < 26.1) and flavour."""

    text: str
    numbers: tuple[int, int, int]
    mariadb: bool

    @classmethod
    def parse(cls, text: str) -> ServerVersion:
        """Read @@version, such as 8.0.15, 8.0.36-28.1 (Percona), 10.11.6-MariaDB-0+deb12u1."""
        match = _NUMBERS.search(text.removeprefix("5.5.5-"))  # how MariaDB greets old clients
        numbers = (int(match[1]), int(match[2]), int(match[3] or 0)) if match else (0, 0, 0)
        return cls(text.strip(), numbers, "mariadb" in text.lower())

    def can(self, capability: Capability) -> bool:
        """True when this server has `capability`."""
        since = (_MARIADB if self.mariadb else _MYSQL).get(capability)
        return since is not None and self.numbers >= since

    @property
    def name(self) -> str:
        """The make and its version, as a person reads it: "MySQL 8.0.15", "MariaDB 10.11.18-MariaDB"."""
        return f"{'MariaDB' if self.mariadb else 'MySQL'} {self.text}"

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All capabilities of this server."""
        return frozenset(c for c in Capability if self.can(c))
