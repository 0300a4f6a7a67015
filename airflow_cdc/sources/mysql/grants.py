"""The privileges of the source's user, and those it lacks for a recovery."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_cdc.sources.mysql.capabilities import Capability
from airflow_cdc.sources.mysql.session import Session

_GRANT: Final = re.compile(r"^(GRANT|REVOKE) (.+) ON (?:TABLE )?(\S+|`[^`]*`\.\S+) (?:TO|FROM) ", re.IGNORECASE)
_COLUMNS: Final = re.compile(r"\s*\([^)]*\)")
_EVERYTHING: Final = frozenset({"ALL", "ALL PRIVILEGES"})


@dataclass(frozen=True, slots=True)
class Grant:
    """Privileges (upper case) on a scope: "*.*", "shop.*" (may hold % and _), "shop.orders"."""

    privileges: frozenset[str]
    scope: str
    revoked: bool = False

    def reaches(self, schema: str, table: str) -> bool:
        """True if the scope includes this table; "" means every schema or table."""
        if self.scope == "*.*":
            return True
        own_schema, _, own_table = self.scope.partition(".")
        return bool(schema) and _like(own_schema, schema) and own_table in ("*", table or "*")


@dataclass(frozen=True, slots=True)
class Need:
    """A needed privilege. `required` False: it works without, in the way that `why` says."""

    privilege: str
    on: str
    why: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Grants:
    """A user's effective grants, active roles included, and what this make of server requires.

    Attributes:
        needs: privileges on `*.*`, whatever the tables.
        for_keyless: privileges on a table without a key, in addition to SELECT.
    """

    user: str
    items: tuple[Grant, ...]
    needs: tuple[Need, ...] = field(default_factory=lambda: MYSQL_NEEDS, repr=False)
    for_keyless: tuple[str, ...] = ("LOCK TABLES",)

    def has(self, privilege: str, schema: str = "", table: str = "") -> bool:
        """True if the user holds `privilege` globally, or on the given schema or table."""
        wanted = privilege.upper()
        granted = False
        for grant in self.items:
            names = wanted in grant.privileges or bool(grant.privileges & _EVERYTHING)
            if names and grant.reaches(schema, table):
                if grant.revoked:
                    return False
                granted = True
        return granted

    def missing(
        self, tables: Iterable[str], *, gtid: bool, hold: bool = True, keyless: Iterable[str] = ()
    ) -> tuple[Need, ...]:
        """Privileges missing to recover `tables` ("shop.orders"). `gtid`: gtid_mode is ON; `keyless`: without a key."""
        needs = [Need("SELECT", table, "read the table") for table in tables]
        exactly = "read a table without a key at one exact position"
        needs += [Need(privilege, table, exactly) for table in keyless for privilege in self.for_keyless]
        needs += [need for need in self.needs if not (gtid and need.privilege in _WITHOUT_GTID)]
        needs = [need for need in needs if hold or need.privilege != "BACKUP_ADMIN"]
        return tuple(need for need in needs if not self.has(need.privilege, *_split(need.on)))


_WITHOUT_GTID: Final = frozenset({"RELOAD", "REPLICATION SLAVE"})
MYSQL_NEEDS: Final[tuple[Need, ...]] = (
    Need("REPLICATION CLIENT", "*.*", "read the binlog position and list the binlog files"),
    Need("XA_RECOVER_ADMIN", "*.*", "see prepared XA transactions, which a watermark must wait for"),
    Need("RELOAD", "*.*", "rotate the binlog: without GTID the watermark is the start of a new file"),
    Need("REPLICATION SLAVE", "*.*", "tell an empty binlog file from one with changes (without GTID)", required=False),
    Need(
        "PROCESS",
        "*.*",
        "release the hold as soon as another session waits for it, and notice a TRUNCATE",
        required=False,
    ),
    Need(
        "BACKUP_ADMIN",
        "*.*",
        "prevent purges and DDL; without it the recovery checks afterwards that neither happened",
        required=False,
    ),
)
# BINLOG MONITOR includes SHOW BINLOG EVENTS; XA RECOVER, and a read view with its position, need no privilege
MARIADB_NEEDS: Final[tuple[Need, ...]] = (
    Need("BINLOG MONITOR", "*.*", "read the binlog position, list the binlog files and look at the stored position"),
    Need("REPLICATION SLAVE", "*.*", "tell when a binlog file was begun, for the forecast", required=False),
    Need("PROCESS", "*.*", "see a TRUNCATE, and an XA PREPARE under way", required=False),
)


def read_grants(session: Session) -> Grants:
    """The grants of the connected user, active roles included. Raises SourceError."""
    who = session.row("SELECT CURRENT_USER() AS user, CURRENT_ROLE() AS roles", doing="read the user's roles")
    roles = str(who["roles"] or "NONE")
    using = "" if roles.upper() == "NONE" or session.version.mariadb else f" FOR CURRENT_USER() USING {roles}"
    rows = session.rows(f"SHOW GRANTS{using}", doing="read the user's grants")
    grants = parse_grants(str(who["user"]), [str(next(iter(row.values()))) for row in rows])
    own = session.version.can(Capability.BINLOG_MONITOR)
    return replace(grants, needs=MARIADB_NEEDS, for_keyless=()) if own else grants


def parse_grants(user: str, lines: Iterable[str]) -> Grants:
    """Read the lines of SHOW GRANTS; lines that grant a role or PROXY contain no privilege themselves."""
    return Grants(user, tuple(grant for line in lines for grant in _parse(line)))


def _parse(line: str) -> tuple[Grant, ...]:
    match = _GRANT.match(line)
    if match is None or match[2].upper().startswith("PROXY"):
        return ()
    # a grant on some columns does not count for the table: reading the others would fail
    names = frozenset(name.strip().upper() for name in _COLUMNS.sub("(columns)", match[2]).split(",") if name.strip())
    return (Grant(names, match[3].replace("`", ""), match[1].upper() == "REVOKE"),)


def _like(pattern: str, name: str) -> bool:
    pieces = re.findall(r"\\.|.", pattern)
    table = {"%": ".*", "_": "."}
    regex = "".join(table.get(p, re.escape(p[1:] if len(p) > 1 else p)) for p in pieces)
    return re.fullmatch(regex, name) is not None


def _split(on: str) -> tuple[str, str]:
    schema, _, table = on.partition(".")
    return ("", "") if schema == "*" else (schema, table)
