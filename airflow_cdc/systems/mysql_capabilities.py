"""What a server can do, by name. Versions are compared here and nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


class Capability(Enum):
    """A question about a server, with the answer's consequence as its value."""

    SHOW_BINARY_LOG_STATUS = "SHOW BINARY LOG STATUS is the statement (SHOW MASTER STATUS is gone)"
    SHOW_REPLICA_STATUS = "SHOW REPLICA STATUS and SHOW REPLICAS are the statements (those with SLAVE go)"
    INSTANCE_LOCK = "LOCK INSTANCE FOR BACKUP exists: it keeps DDL out"
    INSTANCE_LOCK_BLOCKS_PURGE = "LOCK INSTANCE FOR BACKUP keeps binlog files from being purged"
    TAGGED_GTIDS = "GTIDs can carry tags"
    CASCADES_LOGGED = "row changes made by foreign-key cascades are in the binlog"
    ERROR_TEXT_IN_SET = "a SET statement can fail with a text of our own (UUID_TO_BIN)"
    GTID_FUNCTIONS = "GTID sets as MySQL has them (WAIT_FOR_EXECUTED_GTID_SET, gtid_owned)"


# First MySQL version that has it. MariaDB has none of them: its log, locks and GTIDs are its own.
_SINCE: Final[dict[Capability, tuple[int, int, int]]] = {
    Capability.SHOW_BINARY_LOG_STATUS: (8, 2, 0),
    Capability.SHOW_REPLICA_STATUS: (8, 0, 22),
    Capability.INSTANCE_LOCK: (8, 0, 0),
    # 8.0.28 made PURGE and expiry respect the lock; earlier servers take it and purge all the same
    Capability.INSTANCE_LOCK_BLOCKS_PURGE: (8, 0, 28),
    Capability.TAGGED_GTIDS: (8, 3, 0),
    # 9.6 moved foreign keys from InnoDB to the SQL layer, whose cascades write row events
    Capability.CASCADES_LOGGED: (9, 6, 0),
    Capability.ERROR_TEXT_IN_SET: (8, 0, 0),
    Capability.GTID_FUNCTIONS: (5, 7, 5),
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
        found = _NUMBERS.search(text.removeprefix("5.5.5-"))  # how MariaDB greets old clients
        numbers = (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)
        return cls(text.strip(), numbers, "mariadb" in text.lower())

    def can(self, capability: Capability) -> bool:
        """True when this server has `capability`."""
        return not self.mariadb and self.numbers >= _SINCE[capability]

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that this server has."""
        return frozenset(c for c in Capability if self.can(c))
