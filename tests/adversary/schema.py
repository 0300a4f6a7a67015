"""A nasty schema out of a seeded dice: columns of every type and character set, keys of every type, names like aliases.

Nothing here connects to anything. A column's `trouble` names the switch that leaves it out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.integration.every_type import CASES

SWITCHES = {
    "charsets": "columns in character sets that connectors decode otherwise than the server",
    "json": "JSON numbers beyond a float's digits, and JSON scalars that are MySQL's own",
    "days": "days that no month has, which stop the connector",
    "years": "years before 100, which connectors read as two digits",
    "defaults": "nullable columns whose default is a text such as 'NULL'",
    "names": "column names that are the product's own aliases, or have a dot",
    "generated": "generated columns",
    "ddl": "several definition changes between two applies",
    "truncate": "TRUNCATE",
    "xa": "XA transactions that are prepared, then rolled back",
    "keys": "keys of unusual types and collations",
    "partitions": "topics with several partitions, and keys that are widened",
    "session": "sessions that keep changes out of the log, or log them in part",
    "unique": "tables whose only key is a unique index",
    "style": "ALTER TABLE written in unusual ways",
    "rename": "a table renamed into the place of another",
    "hot charsets": "columns in such character sets in the tables that never rest",
    "hot": "two-row tables updated thirty times a second",
    "healthy": "asking for a diagnosis while apply refuses a table",
    "differences": "the strategy diff_repair asked for, where columns may have changed since the last apply",
    "year": "YEAR columns, which MySQL 8.0.15 counts otherwise than Debezium does",
    "formats": "events in the formats of a schema registry",
    "flattened": "events of which the connector sends the row alone (ExtractNewRecordState)",
    "damage": "rows of the sink changed behind the product's back",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its definition as MySQL takes it, and literals that stand at its edges."""

    name: str
    ddl: str
    values: tuple[str, ...]
    trouble: str = ""

    def wanted(self, without: frozenset[str]) -> bool:
        """Whether these switches leave it in."""
        return self.trouble not in without and not ("year" in without and self.ddl.startswith("year"))

    @property
    def computed(self) -> bool:
        return " AS (" in self.ddl

    @property
    def nullable(self) -> bool:
        return "NOT NULL" not in self.ddl


@dataclass(frozen=True, slots=True)
class Table:
    """A table as the generator believes it to be; `rows` are put in at the beginning, `hot` rows never rest."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: int
    hot: bool = False
    unique: bool = False  # its key is a unique index, and no primary key

    @property
    def stored(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if not column.computed)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def create(self) -> str:
        """CREATE TABLE."""
        lines = [f"{quote(column.name)} {column.ddl}" for column in self.columns]
        if self.key:
            kind = "UNIQUE KEY" if self.unique else "PRIMARY KEY"
            lines.append(f"{kind} ({', '.join(quote(name) for name in self.key)})")
        return f"CREATE TABLE {quote(self.name)} ({', '.join(lines)}) DEFAULT CHARACTER SET utf8mb4"


def without_column(table: Table, column: Column) -> Table:
    """The table without the column."""
    return replace(table, columns=tuple(c for c in table.columns if c.name != column.name))


def with_column(table: Table, column: Column) -> Table:
    """The table with the column: in the place of one of its name, or at the end."""
    others = tuple(column if c.name == column.name else c for c in table.columns)
    return replace(table, columns=others if column in others else (*others, column))


def without_default(column: Column) -> Column:
    """The column without its default."""
    return replace(column, ddl=re.sub(r" DEFAULT ('[^']*'|[^ ]+)", "", column.ddl))


def quote(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def schema(dice: random.Random, without: frozenset[str]) -> tuple[Table, ...]:
    """The tables of one seed: a hot one, two with unusual keys, one without a key, sometimes one that is large."""
    names = iter(dice.sample(TABLE_NAMES, len(TABLE_NAMES)))
    hot = "hot" not in without
    calm = without | {"charsets"} if "hot charsets" in without else without
    hottest = [table(dice, next(names), calm, rows=2, hot=hot, width=dice.randint(8, 16))]
    keyed = [table(dice, next(names), without, rows=dice.choice((0, 1, 12, 40))) for _ in range(2)]
    keyless = [table(dice, next(names), without, rows=dice.choice((3, 30)), keyed=False)]
    large = [table(dice, next(names), without, rows=3000, width=3)] if dice.random() < 0.3 else []
    tables = [*hottest, *keyed, *keyless, *large]
    return tuple(tables)


def table(
    dice: random.Random,
    name: str,
    without: frozenset[str],
    *,
    rows: int,
    width: int = 8,
    keyed: bool = True,
    hot: bool = False,
) -> Table:
    """One table: a key of one to three columns (or none), `n` to choose rows by, `ticks` to keep rows hot, and others."""
    pool = [column for column in pool_of() if column.wanted(without)]
    names = column_names(dice, without)
    key = key_columns(dice, names, without, rows) if keyed else ()
    others = [replace(column, name=next(names)) for column in picked(dice, pool, width)]
    base = (Column("n", "int NOT NULL DEFAULT 0", ("0", "1", "2")), Column("ticks", "int NOT NULL DEFAULT 0", ("0",)))
    mixed = [*base, *others, *(generated(dice, names, others) if "generated" not in without else ())]
    dice.shuffle(mixed)
    unique = keyed and "unique" not in without and dice.random() < 0.15
    return Table(name, (*key, *mixed), tuple(column.name for column in key), rows, hot, unique)


def picked(dice: random.Random, pool: list[Column], count: int) -> list[Column]:
    """So many different columns: every kind of trouble as often as the others, and half of them without any."""
    groups: dict[str, list[Column]] = {}
    for column in dice.sample(pool, len(pool)):
        groups.setdefault(column.trouble, []).append(column)
    columns: list[Column] = []
    while groups and len(columns) < count:
        trouble = dice.choice(sorted(groups))
        group = groups.get("", []) if dice.random() < 0.5 else groups[trouble]
        if group:
            columns.append(group.pop())
        groups = {name: left for name, left in groups.items() if left}
    return columns


def key_columns(dice: random.Random, names: Iterator[str], without: frozenset[str], rows: int) -> tuple[Column, ...]:
    """One to three key columns; large tables begin with a number, so that all rows find a place."""
    number = Column(next(names), "bigint NOT NULL", ("-9223372036854775808", "9223372036854775807", "0", "-1"))
    if "keys" in without or rows > 100:
        return (number,)
    count = dice.choice((1, 1, 2, 3))
    kinds = [column for column in KEYS if column.wanted(without)]
    return tuple(replace(column, name=next(names)) for column in dice.sample(kinds, count))


def generated(dice: random.Random, names: Iterator[str], others: list[Column]) -> tuple[Column, ...]:
    """Sometimes a generated column over `n`."""
    del others
    kind = dice.choice(("VIRTUAL", "STORED"))
    return (Column(next(names), f"int AS (n DIV 2) {kind}", (), "generated"),) if dice.random() < 0.3 else ()


def column_names(dice: random.Random, without: frozenset[str]) -> Iterator[str]:
    """Endless distinct names, some of them nasty."""
    nasty = [] if "names" in without else dice.sample(NASTY_NAMES, len(NASTY_NAMES))
    plain = [] if "names" in without else dice.sample(UNUSUAL_NAMES, len(UNUSUAL_NAMES))
    number = 0
    while True:
        number += 1
        roll = dice.random()
        if nasty and roll < 0.25:
            yield nasty.pop()
        elif plain and roll < 0.5:
            yield plain.pop()
        else:
            yield f"c{number}"


def pool_of() -> tuple[Column, ...]:
    """Every column there is, by what could go wrong with it."""
    return (*_typed(), *_charsets(), *_EXTRA)


def _typed() -> Iterator[Column]:
    """The edges of every type; the days that stop a connector, and years before 100, each as columns of their own."""
    for case in CASES:
        if not case.changeable:
            continue
        values = (*case.values, *(v for v in (case.other,) if v != "NULL"))
        usual = tuple(v for v in values if not _NO_DAY.search(v) and not _EARLY.search(v))
        trouble = "charsets" if " sjis" in case.ddl or " utf16" in case.ddl else ""
        trouble = "json" if case.ddl == "json" else trouble
        if usual:
            yield Column(case.name, case.ddl, usual, trouble)
        if any(_NO_DAY.search(v) for v in values):
            yield Column(case.name, case.ddl, tuple(v for v in values if not _EARLY.search(v)), "days")


_NO_DAY = re.compile(r"'(\d{4}-00-|\d{4}-\d\d-00|2020-02-31|2019-02-29)")
_EARLY = re.compile(r"'00\d\d-")


def _charsets() -> Iterator[Column]:
    """A column for each character set of the server, with bytes of its own beside ASCII."""
    for name in ONE_BYTE:
        values = ("'plain'", "''", *(f"_{name} X'{start:02X}{start + 1:02X}{start + 14:02X}'" for start in STARTS))
        yield Column(f"cs_{name}", f"varchar(20) CHARACTER SET {name}", values, "charsets")
    for name, text in WIDE.items():
        yield Column(f"cs_{name}", f"varchar(20) CHARACTER SET {name}", ("'plain'", "''", text), "charsets")


STARTS = (0x81, 0x8D, 0xA0, 0xB0, 0xC0, 0xD0, 0xE0, 0xF0)
ONE_BYTE = (
    "armscii8", "cp1250", "cp1251", "cp1256", "cp1257", "cp850", "cp852", "cp866", "dec8", "geostd8", "greek", "hebrew",
    "hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "tis620",
)  # fmt: skip
WIDE = {
    "ascii": "'x|y'",
    "swe7": "'[\\\\]{|}~'",
    "big5": "'中文'",
    "cp932": "'日本～'",
    "eucjpms": "'日本～'",
    "euckr": "'한국'",
    "gb18030": "'中文😀'",
    "gb2312": "'中文'",
    "gbk": "'中文'",
    "sjis": "_sjis X'815C8160'",
    "ujis": "'日本'",
    "ucs2": "'日本é'",
    "utf16": "'日本😀'",
    "utf16le": "'日本😀'",
    "utf32": "'日本😀'",
    "utf8": "'日本é'",
    "utf8mb4": "'日本😀'",
}

_DIGITS = '\'{"a": 0.12345678901234567890123, "b": [123456789012345678901234567890.5]}\''
_EXTRA = (
    Column("nd", "varchar(20) NULL DEFAULT 'NULL'", ("'NULL'", "'null'", "''", "'x'"), "defaults"),
    Column("dd", "varchar(40) NULL DEFAULT 'CURRENT_TIMESTAMP'", ("'x'", "''"), "defaults"),
    Column("id", "int NULL DEFAULT 7", ("7", "0", "8"), "defaults"),
    Column("ed", "varchar(20) NOT NULL DEFAULT ''", ("''", "'x'"), ""),
    Column("bd", "bit(1) NULL DEFAULT b'1'", ("b'0'", "b'1'"), "defaults"),
    Column("md", "decimal(10,2) NULL DEFAULT '1.50'", ("1.5", "0"), "defaults"),
    Column("td", "datetime(3) NULL DEFAULT '2020-01-01 00:00:00.000'", ("'2020-01-01'", "'2021-02-03 04:05:06'"), "defaults"),
    Column("xd", "varchar(40) NULL DEFAULT (UPPER('x'))", ("'x'", "''"), "defaults"),
    Column("ud", "timestamp(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)", ("'2020-01-01'", "NULL"), ""),
    Column("sr", "point SRID 4326", ("ST_GeomFromText('POINT(50 8)', 4326)",), ""),
    Column("bo", "bool", ("0", "1", "5"), ""),
    Column("re", "real", ("0.1", "1e300", "-5e-324"), ""),
    Column("f3", "float(30)", ("0.1", "1e30"), ""),
    Column("nv", "national varchar(20)", ("'é'", "'日本'"), ""),
    Column("el", "enum('ä','b') CHARACTER SET latin1", ("'ä'", "'b'"), ""),
    Column("sl", "set('ö','x') CHARACTER SET cp1250", ("'ö'", "'ö,x'", "''"), ""),
    Column("y1", "date", ("'0024-05-06'", "'0099-12-31'", "'0100-01-01'"), "years"),
    Column("y2", "datetime(6)", ("'0024-05-06 01:02:03.000004'", "'0070-01-01 00:00:00'"), "years"),
    Column("j1", "json", (_DIGITS, "'1e20'", "'[1e16, 1e300, 1e-7, -0.0]'", "'12345678901234567890'"), "json"),
    Column("j2", "json", ("CAST(CAST('-630:59:59' AS TIME) AS JSON)", "CAST(TIMESTAMP'2020-01-02 03:04:05.6' AS JSON)", "CAST(X'00FF' AS JSON)", "CAST(DATE'0024-01-01' AS JSON)"), "json"),
    Column("j3", "json", ("JSON_OBJECT('d', CAST('12345678901234567.891' AS DECIMAL(30,3)))", "JSON_ARRAY(CAST(1 AS DECIMAL(38,30)))"), "json"),
    Column("j4", "json", ("'{\"k\": \"v\"}'", "'[]'", "'[1, 2.5, true, null]'", "'\"text\"'", "'{\"ü|\": {\"b\": 1}}'"), ""),
    Column("t1", "text", ("'a\\\\nb'", "'{\"json\": 1}'", "'null'", "'\\\\u0041'", "'\\'\\'\"'", "CHAR(1, 27, 127 USING utf8mb4)"), ""),
    Column("t2", "varchar(30) COLLATE utf8mb4_bin", ("_utf8mb4 X'E2808B'", "_utf8mb4 X'EFBBBF61'", "_utf8mb4 X'F09F98800A'", "' '"), ""),
)  # fmt: skip

KEYS = (
    Column("", "bigint NOT NULL", ("-9223372036854775808", "9223372036854775807", "0", "-1", "1", "2")),
    Column("", "bigint unsigned NOT NULL", ("0", "18446744073709551615", "9223372036854775808", "1")),
    Column("", "int NOT NULL", ("-2147483648", "2147483647", "0", "1", "2", "3", "4", "5", "6", "7", "8")),
    Column("", "smallint unsigned NOT NULL", ("65535", "0", "1", "2", "3", "4", "5", "6", "7", "8")),
    Column("", "tinyint NOT NULL", ("-128", "127", "0", "5")),
    Column("", "varchar(30) NOT NULL", ("''", "'a'", "'A '", "'straße'", "'b'", "'😀'", "'|'", "'1|a'")),
    Column("", "varchar(30) COLLATE utf8mb4_bin NOT NULL", ("''", "'a'", "'A'", "'a '", "'ä'", "'😀'", "'null'")),
    Column("", "varchar(30) COLLATE utf8mb4_general_ci NOT NULL", ("'a'", "'ö'", "'oe'", "'ß'", "'s'", "'z '")),
    Column("", "varchar(20) CHARACTER SET latin1 NOT NULL", ("'a'", "'ö'", "_latin1 X'80'", "'z'")),
    Column("", "char(8) NOT NULL", ("''", "'a'", "'b  '", "' c'")),
    Column("", "decimal(20,5) NOT NULL", ("-0.00001", "0", "1.5", "999999999999999.99999", "10")),
    Column("", "decimal(45,10) NOT NULL", ("-0.00001", "0", "1.5", f"{'9' * 35}.5", "10")),
    Column("", "date NOT NULL", ("'1000-01-01'", "'1970-01-01'", "'2024-02-29'", "'9999-12-31'")),
    Column("", "datetime(6) NOT NULL", ("'1000-01-01 00:00:00.000001'", "'1970-01-01'", "'9999-12-31 23:59:59.999999'")),
    Column("", "timestamp(3) NOT NULL", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.123'", "'2021-10-31 01:30:00'")),
    Column("", "time(3) NOT NULL", ("'-838:59:59'", "'00:00:00'", "'-00:00:00.001'", "'23:59:59.5'")),
    Column("", "year NOT NULL", ("1901", "2155", "2024", "1999")),
    Column("", "binary(4) NOT NULL", ("X''", "X'01'", "X'FF000000'", "X'20'", "X'00000001'")),
    Column("", "varbinary(10) NOT NULL", ("X''", "X'00'", "X'0000'", "X'FF'", "X'20'")),
    Column("", "bit(9) NOT NULL", ("b'0'", "b'1'", "b'111111111'", "b'100000000'")),
    Column("", "enum('b','a','c,d','é') NOT NULL", ("'a'", "'b'", "'c,d'", "'é'")),
    Column("", "double NOT NULL", ("0", "0.1", "-1e300", "1e15", "123456789.125")),
)  # fmt: skip

TABLE_NAMES = (
    "order", "select", "größe", "Mixed_Case", "t-dash", "a b", "t$", "leaf", "events", "名前", "key", "T1", "t_2",
)  # fmt: skip
# aliases in SQL that the product writes today, and field names of a change event
NASTY_NAMES = (
    "leaf", "cdc", "key", "before", "after", "op", "a.b", "value", "h", "lo", "hi", "lane", "key_text", "copies",
    "copy", "deleted", "origin", "image", "rows", "moved", "k", "v", "x", "sums", "row", "pos", "place",
    "partition", "offset", "cdc_rank", "cdc_copy", "cdc__key", "cdc_rows", "cdc_rest", "source", "schema", "payload",
    "live", "own", "stranger", "truncated_at", "topic", "s", "g", "id", "total", "body", "cdc_identity", "reason",
    "cdc_gtid", "cdc__there", "cdc__facts",
)  # fmt: skip
UNUSUAL_NAMES = (
    "größe", "名前", "order by", "select", "it's", 'say "x"', "tick`s", "MixedCase", "1st", "$", "a-b", "a,b", "(x)",
    "a:b", "_", "a/b", "%s", "{}", "a\\b", "Ünï cödé", "null", "true", "timestamp", "array", "map",
)  # fmt: skip
