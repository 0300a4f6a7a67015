"""Tables to which something happens while commands are at work, one table each: what it is like, and what comes when.

A case says nothing of what the product does with it. `named`: its rows change without events that would tell, so they may
differ until a repair, which a comparison has to name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SCHEMA: Final = "cases"
PLAIN: Final = "id INT PRIMARY KEY, v VARCHAR(40), n INT DEFAULT 0"
FILLED: Final = "INSERT INTO {t} (id, v, n) VALUES (1, 'one', 1), (2, 'two', 2), (3, NULL, 3), (4, 'four', 4)"
LATER: Final = "INSERT INTO {t} (id, v, n) VALUES (50, 'later', 5)"
CHANGED: Final = "UPDATE {t} SET v = 'changed' WHERE id = 2"
MANY: Final = (
    "INSERT INTO {t} (id, v, n) SELECT 1000 + a.n + 100 * b.n, REPEAT('x', a.n % 40), b.n FROM"
    " (WITH RECURSIVE s AS (SELECT 0 n UNION ALL SELECT n + 1 FROM s WHERE n < 99) SELECT n FROM s) a,"
    " (WITH RECURSIVE s AS (SELECT 0 n UNION ALL SELECT n + 1 FROM s WHERE n < 99) SELECT n FROM s) b"
)


@dataclass(frozen=True, slots=True)
class Case:
    """A table. `reading` comes while a recovery reads, `verifying` while it compares, `after` once it is done, `applying`
    while an apply is at work. Statements of one moment are one session's; {t} is the table.
    """

    name: str
    columns: str = PLAIN
    rows: tuple[str, ...] = (FILLED,)
    reading: tuple[str, ...] = ()
    verifying: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    applying: tuple[str, ...] = ()
    named: bool = False
    table: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", self.name.replace(" ", "_").replace("-", "_"))

    def at(self, moment: str) -> tuple[str, ...]:
        """The statements of a moment."""
        name = f"`{SCHEMA}`.`{self.table}`"
        return tuple(one.replace("{t}", name).replace("{s}", SCHEMA) for one in getattr(self, moment))


_CHANGES: Final = {
    "add": ("ALTER TABLE {t} ADD COLUMN c INT DEFAULT 7", "INSERT INTO {t} (id, v, n, c) VALUES (60, 'x', 6, 8)"),
    "add first": ("ALTER TABLE {t} ADD COLUMN c INT FIRST", CHANGED),
    "drop": ("ALTER TABLE {t} DROP COLUMN n", CHANGED),
    "widen": ("ALTER TABLE {t} MODIFY n BIGINT", "UPDATE {t} SET n = 5000000000 WHERE id = 1"),
    "rename column": ("ALTER TABLE {t} CHANGE n m INT", "UPDATE {t} SET m = 9 WHERE id = 1"),
    "rename there and back": ("RENAME TABLE {t} TO {s}.away", "RENAME TABLE {s}.away TO {t}", CHANGED),
    "truncate": ("TRUNCATE TABLE {t}", LATER),
    "truncate and index": ("TRUNCATE TABLE {t}", "CREATE INDEX i ON {t} (v)", LATER),
    "drop and create": ("DROP TABLE {t}", f"CREATE TABLE {{t}} ({PLAIN})", LATER),
    "optimize": ("OPTIMIZE TABLE {t}", CHANGED),
    "delete all": ("DELETE FROM {t}", LATER),
    "load": (MANY, CHANGED, "DELETE FROM {t} WHERE id % 7 = 0"),
}
_DURING: Final = (
    *(Case(f"{name} while reading", reading=does) for name, does in _CHANGES.items()),
    *(Case(f"{name} while verifying", verifying=does) for name, does in _CHANGES.items() if name != "optimize"),
)
_AFTER: Final = (
    *(Case(f"{name} after", after=does) for name, does in _CHANGES.items()),
    Case("add while applying", applying=_CHANGES["add"]),
    Case("truncate while applying", applying=_CHANGES["truncate"]),
    Case("load while applying", applying=_CHANGES["load"]),
)


def _xa(name: str, end: str) -> tuple[str, ...]:
    xid = f"'{name}'"
    work = ("INSERT INTO {t} (id, v, n) VALUES (900, 'xa', 9)", "UPDATE {t} SET v = 'xa' WHERE id = 1")
    return (f"XA START {xid}", *work, f"XA END {xid}", f"XA PREPARE {xid}", f"XA {end} {xid}")


_TRANSACTIONS: Final = (
    Case("xa committed", after=_xa("w1", "COMMIT")),
    Case("xa rolled back", after=_xa("w2", "ROLLBACK"), named=True),
    Case("savepoint", after=("BEGIN", LATER, "SAVEPOINT s", "DELETE FROM {t}", "ROLLBACK TO SAVEPOINT s", "COMMIT")),
    Case("key changed", after=("UPDATE {t} SET id = id + 100", "UPDATE {t} SET id = 1 WHERE id = 102")),
    Case("deleted and inserted", after=("BEGIN", "DELETE FROM {t} WHERE id = 1", LATER, "INSERT INTO {t} (id) VALUES (1)", "COMMIT")),
    Case("replaced", after=("REPLACE INTO {t} (id, v) VALUES (1, 'new')", "INSERT INTO {t} (id) VALUES (2) ON DUPLICATE KEY UPDATE n = 99")),
    Case("without a key", "a INT, b VARCHAR(20)", ("INSERT INTO {t} VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",),
         after=("DELETE FROM {t} WHERE a = 1 LIMIT 1", "INSERT INTO {t} VALUES (1, 'y'), (1, 'y')")),
)  # fmt: skip
_SETTINGS: Final = (
    Case("zone of the session", "id INT PRIMARY KEY, at TIMESTAMP NULL, day DATETIME", (),
         after=("SET time_zone = '+09:30'", "INSERT INTO {t} VALUES (1, '2026-03-29 02:30:00', '2026-03-29 02:30:00')")),
    Case("zero dates", "id INT PRIMARY KEY, d DATE, t DATETIME", ("INSERT INTO {t} VALUES (1, '2026-01-01', NULL)",),
         after=("SET sql_mode = ''", "INSERT INTO {t} VALUES (2, '0000-00-00', '0000-00-00 00:00:00')")),
    Case("query events", after=("SET binlog_rows_query_log_events = 1", CHANGED, LATER)),
    Case("charset of the session", after=("SET NAMES latin1", CHANGED, "SET NAMES utf8mb4", "UPDATE {t} SET v = 'ß🚢' WHERE id = 1")),
    Case("no checks", after=("SET foreign_key_checks = 0, unique_checks = 0", LATER)),
    Case("isolation", after=("SET transaction_isolation = 'READ-COMMITTED'", CHANGED)),
)  # fmt: skip
_VALUES: Final = (
    Case("numbers", "id BIGINT UNSIGNED PRIMARY KEY, d DECIMAL(65, 30), f DOUBLE, b BIT(9)",
         ("INSERT INTO {t} VALUES (18446744073709551615, '-12345678901234567890.000000000000000000000000000001', 1e308, b'101')",),
         after=("INSERT INTO {t} VALUES (0, '0.1', -0.0, b'111111111'), (9223372036854775808, NULL, 5e-324, NULL)",)),
    Case("times", "id INT PRIMARY KEY, t TIME(6), d DATETIME(6), y YEAR", ("INSERT INTO {t} VALUES (1, '-838:59:59', '1000-01-01', 1901)",),
         after=("INSERT INTO {t} VALUES (2, '838:59:59', '9999-12-31 23:59:59.999999', 2155)",)),
    Case("words", "id INT PRIMARY KEY, e ENUM('a','b,c',''), s SET('x','y')", ("INSERT INTO {t} VALUES (1, 'b,c', 'x,y')",),
         after=("INSERT INTO {t} VALUES (2, '', ''), (3, NULL, 'y')",)),
    Case("bytes", "id VARBINARY(8) PRIMARY KEY, b LONGBLOB", ("INSERT INTO {t} VALUES (x'00', x'ff00')",),
         after=("INSERT INTO {t} VALUES (x'', REPEAT(x'80', 70000)), (x'0000', NULL)",)),
    Case("shapes", "id INT PRIMARY KEY, g GEOMETRY", ("INSERT INTO {t} VALUES (1, ST_GeomFromText('POINT(1 2)'))",),
         after=("INSERT INTO {t} VALUES (2, ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))', 4326)), (3, NULL)",)),
    Case("documents", "id INT PRIMARY KEY, j JSON", ("INSERT INTO {t} VALUES (1, '[1, {\"ß\": null}]')",),
         after=("INSERT INTO {t} VALUES (2, '[1e2, 18446744073709551615, \"🚢\"]')", "UPDATE {t} SET j = JSON_SET(j, '$[0]', 2)")),
    Case("keys of text", "k VARCHAR(20) COLLATE utf8mb4_bin, l CHAR(4), PRIMARY KEY (k, l)", ("INSERT INTO {t} VALUES ('a', 'b'), ('A ', 'b'), ('', '')",),
         after=("INSERT INTO {t} VALUES ('🚢', ''), ('a|b', 'c')", "DELETE FROM {t} WHERE k = 'a'")),
    Case("names", "`the id` INT PRIMARY KEY, `Größe` INT, `select` TEXT", ("INSERT INTO {t} VALUES (1, 2, 'x')",),
         after=("INSERT INTO {t} VALUES (2, NULL, '')", "ALTER TABLE {t} ADD COLUMN `a``b` INT")),
    Case("generated", "id INT PRIMARY KEY, a INT, b INT AS (a + 1) STORED", ("INSERT INTO {t} (id, a) VALUES (1, 1)",),
         after=("INSERT INTO {t} (id, a) VALUES (2, 5)",)),
)  # fmt: skip
# a world of its own for each: what one piece found is not lost with the next
PIECES: Final[Mapping[str, tuple[Case, ...]]] = {
    "during": _DURING,
    "after": _AFTER,
    "rows": (*_TRANSACTIONS, *_SETTINGS, *_VALUES),
}
