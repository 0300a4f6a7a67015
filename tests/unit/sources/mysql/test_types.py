"""MySQL's types as its manual describes them (chapter 13, Data Types), how their values are read and written as text, and what versions can do.

What a server makes of the SQL: tests/integration.
"""

from __future__ import annotations

from typing import Any

import pytest

from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Column, NativeColumn
from airflow_cdc.core.types import (
    Bits,
    Bytes,
    Date,
    Decimal,
    Float,
    Geometry,
    Instant,
    Integer,
    Json,
    LocalDateTime,
    LogicalType,
    Text,
    Time,
    Unsupported,
)
from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion
from airflow_cdc.sources.mysql.encoding import ROWS, has_ranges, key_text, outside_sql, row_hash
from airflow_cdc.sources.mysql.types import MySqlWords, read_sql, type_of, with_words, words_of
from tests.unit.tables import column, table

UTF8 = "CHAR CHARACTER SET utf8mb4"
POINT = "ST_SRID(`c`)"

# type, more words, logical type, how it is read, a piece of its text
TYPES: tuple[tuple[str, dict[str, Any], LogicalType, str, str], ...] = (
    # 1, 2, 3, 4 and 8 bytes
    ("tinyint(4)", {}, Integer(8), "CAST(`c` AS SIGNED)", "`c`"),
    ("smallint(6)", {}, Integer(16), "CAST(`c` AS SIGNED)", "`c`"),
    ("mediumint(9)", {}, Integer(24), "CAST(`c` AS SIGNED)", "`c`"),
    ("int(11)", {}, Integer(32), "CAST(`c` AS SIGNED)", "`c`"),
    ("bigint(20)", {}, Integer(64), "CAST(`c` AS SIGNED)", "`c`"),
    # only an unsigned BIGINT is too large for a signed one
    ("int(10) unsigned", {}, Integer(32, unsigned=True), "CAST(`c` AS SIGNED)", "`c`"),
    ("bigint(20) unsigned", {}, Integer(64, unsigned=True), "CAST(`c` AS DECIMAL(20,0))", "`c`"),
    ("int(6) unsigned zerofill", {}, Integer(32, unsigned=True), "CAST(`c` AS SIGNED)", "`c` + 0"),
    # up to 65 digits: 38 are what Spark and JDBC hold; amounts of up to 18 fit 64 bits
    ("decimal(12,2)", {"precision": 12, "scale": 2}, Decimal(12, 2), "`c`", "CAST(`c` * 100 AS SIGNED)"),
    ("decimal(38,2)", {"precision": 38, "scale": 2}, Decimal(38, 2), "`c`", "`c`"),
    ("decimal(39,2)", {"precision": 39, "scale": 2}, Decimal(39, 2), f"CAST(`c` AS {UTF8})", "`c`"),
    ("decimal(39,2) zerofill", {"precision": 39, "scale": 2}, Decimal(39, 2), f"CAST(`c` + 0 AS {UTF8})", "`c` + 0"),
    ("decimal", {}, Decimal(10, 0), "`c`", "CAST(`c` * 1 AS SIGNED)"),
    ("float", {}, Float(32), "`c` + 0e0", "POINT(`c` + 0e0, 0)"),
    ("double", {}, Float(64), "`c` + 0e0", "POINT(`c` + 0e0, 0)"),
    ("bit(1)", {}, Bits(1), "CAST(`c` + 0 AS SIGNED)", "CAST(`c` + 0 AS UNSIGNED)"),
    ("bit(64)", {"precision": 64}, Bits(64), "CAST(`c` + 0 AS DECIMAL(20,0))", "CAST(`c` + 0 AS UNSIGNED)"),
    ("date", {}, Date(), "DATE_FORMAT(`c`, '%Y-%m-%d')", "TO_DAYS(`c`) - 719528"),
    ("datetime(6)", {}, LocalDateTime(), "DATE_FORMAT(`c`, '%Y-%m-%d %H:%i:%s.%f')", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', `c`)"),
    ("timestamp(6)", {}, Instant(), "CAST(UNIX_TIMESTAMP(`c`) * 1000000 AS SIGNED)", "UNIX_TIMESTAMP(`c`) * 1000000"),
    # -838:59:59 to 838:59:59
    ("time(6)", {}, Time(), "IF(`c` < CAST('00:00:00' AS TIME), -1, 1)", "MICROSECOND(`c`)"),
    ("year(4)", {}, Integer(16, unsigned=True), "CAST(`c` + 0 AS SIGNED)", "`c` + 0"),
    # blanks at the end of a CHAR are padding; its bytes are UTF-8 in some character sets already
    ("char(9)", {"charset": "latin1"}, Text(), "RTRIM(CONVERT(`c` USING utf8mb4))", "LENGTH(RTRIM(CONVERT(`c` USING utf8mb4)))"),
    ("varchar(9)", {"charset": "latin1"}, Text(), "CONVERT(`c` USING utf8mb4)", "LENGTH(CONVERT(`c` USING utf8mb4))"),
    *(("varchar(9)", {"charset": name}, Text(), "CONVERT(`c` USING utf8mb4)", "LENGTH(`c`)") for name in ("utf8mb4", "utf8mb3", "utf8", "ascii")),
    ("tinytext", {"charset": "utf8mb4"}, Text(), "CONVERT(`c` USING utf8mb4)", "LENGTH(`c`)"),
    ("text", {"charset": "utf8mb4"}, Text(), "CONVERT(`c` USING utf8mb4)", "LENGTH(`c`)"),
    # up to 16 MB and 4 GB: hashed in the text
    ("mediumtext", {"charset": "utf8mb4"}, Text(long=True), "CONVERT(`c` USING utf8mb4)", "SHA2(CONVERT(`c` USING utf8mb4), 256)"),
    ("longtext", {"charset": "utf8mb4"}, Text(long=True), "CONVERT(`c` USING utf8mb4)", "SHA2(CONVERT(`c` USING utf8mb4), 256)"),
    ("enum('a')", {"labels": ("a",)}, Text(), f"CAST(`c` AS {UTF8})", "LENGTH(CONVERT(`c` USING utf8mb4))"),
    ("set('a')", {"labels": ("a",)}, Text(), f"CAST(`c` AS {UTF8})", "LENGTH(CONVERT(`c` USING utf8mb4))"),
    ("binary(9)", {}, Bytes(), "`c`", "HEX(`c`)"),
    ("varbinary(9)", {}, Bytes(), "`c`", "HEX(`c`)"),
    *((name, {}, Bytes(long=True), "`c`", "SHA2(`c`, 256)") for name in ("tinyblob", "blob", "mediumblob", "longblob")),
    *(
        (name, {}, Geometry(), "CAST(`c` AS BINARY)", POINT)
        for name in ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection", "geometrycollection")
    ),
)  # fmt: skip
# what MySQL 9 adds, and what MariaDB has of its own
UNKNOWN = ("vector(8)", "uuid", "inet4", "inet6", "xmltype")


def one(kind: str, **more: Any) -> Column:
    return column("c", kind, nullable=False, **more)


@pytest.mark.parametrize(("kind", "more", "logical", "read", "piece"), TYPES, ids=[f"{t[0]}{t[1]}" for t in TYPES])
def test_each_type_is_what_the_manual_says_and_has_one_text(
    kind: str, more: dict[str, Any], logical: LogicalType, read: str, piece: str
) -> None:
    made = one(kind, **more)
    assert made.type == logical
    assert read in read_sql(made)
    assert f"_binary'|', {piece}" in row_hash(table(made)) or piece in row_hash(table(made))


def test_a_document_is_compared_by_its_values_and_read_as_text() -> None:
    """MySQL prints one document in several ways over its versions: its text is no hash."""
    document = one("json")
    assert document.type == Json()
    assert read_sql(document) == f"CAST(`c` AS {UTF8})"
    with pytest.raises(SchemaError, match="no column can be compared"):
        row_hash(table(document))
    both = table(column("id", "int", nullable=False), document, key=("id",))
    assert f", CAST(`c` AS {UTF8}) AS x0" in outside_sql(both)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_type_that_is_not_known_is_named(kind: str) -> None:
    unknown = one(kind)
    assert unknown.type == Unsupported()
    with pytest.raises(SchemaError, match=kind.partition("(")[0]):
        type_of(unknown)


def test_the_words_of_another_source_are_refused() -> None:
    with pytest.raises(SchemaError, match="int4 is a type of postgres"):
        words_of(Column("c", 1, Integer(32), NativeColumn("postgres", "int4", ())))


def test_a_label_that_reads_like_an_attribute_is_none() -> None:
    labelled = MySqlWords("enum", "enum('unsigned','zerofill')", labels=("unsigned", "zerofill"))
    assert (labelled.unsigned, labelled.zerofill) == (False, False)
    assert MySqlWords("INT", "int(10) unsigned").data_type == "int"
    assert MySqlWords("int", "INT(10) UNSIGNED").unsigned
    assert not MySqlWords("enum", "enum('a unsigned')").unsigned


def test_another_word_gives_another_type() -> None:
    wide = with_words(one("decimal(5,2)", precision=5, scale=2), precision=7)
    assert wide.type == Decimal(7, 2)


def test_a_key_holds_the_value_itself_where_a_row_has_its_hash() -> None:
    """Rows are looked up by it."""
    for kind, more, piece in (
        ("longtext", {"charset": "utf8mb4"}, "LENGTH(`c`), `c`"),
        ("text", {"charset": "latin1"}, "CONVERT(`c` USING utf8mb4)"),
        ("blob", {}, "HEX(`c`)"),
        ("varbinary(9)", {}, "HEX(`c`)"),
        ("binary(9)", {}, "HEX(`c`)"),
    ):
        text = key_text(table(one(kind, **more), key=("c",)))
        assert piece in text
        assert "SHA2" not in text


def test_a_zero_date_is_null_where_a_column_may_be_null() -> None:
    """MySQL stores 0000-00-00 where a session allows it; no other engine has that day."""
    for kind in ("date", "datetime"):
        real = "`c` = `c` + INTERVAL 0 DAY AND `c` >= DATE'0001-01-01'"
        for nullable, instead in ((True, "NULL"), (False, "0")):
            text = row_hash(table(column("c", kind, nullable=nullable)))
            assert f"IF({real}, " in text
            assert f", {instead})" in text
    assert "NULLIF(" in row_hash(table(column("c", "timestamp", nullable=True)))
    assert "NULLIF(" not in row_hash(table(column("c", "timestamp", nullable=False)))


@pytest.mark.parametrize(
    ("kind", "ranges"), [("int", True), ("bigint", True), ("year(4)", False), ("date", False), ("bit(8)", False)]
)
def test_only_an_integer_has_ranges_and_a_year_is_compared_as_a_number(kind: str, *, ranges: bool) -> None:
    """MySQL takes the YEAR 20 for 2020."""
    keyed = table(one(kind), key=("c",))
    assert has_ranges(keyed) is ranges
    assert not has_ranges(table(one(kind)))
    assert ROWS.operand(keyed.column("c")) == ("(`c` + 0)" if kind.startswith("year") else "`c`")


# ---- versions: MySQL's release notes, MariaDB's list of changes --------------------------------------------------------

SINCE: dict[Capability, tuple[str, str]] = {
    # the last version without it, and the first with it
    Capability.SHOW_BINARY_LOG_STATUS: ("8.1.0", "8.2.0"),
    Capability.SHOW_REPLICA_STATUS: ("8.0.21", "8.0.22"),
    Capability.INSTANCE_LOCK: ("5.7.44", "8.0.0"),
    Capability.INSTANCE_LOCK_BLOCKS_PURGE: ("8.0.27", "8.0.28"),
    Capability.TAGGED_GTIDS: ("8.2.0", "8.3.0"),
    Capability.CASCADES_LOGGED: ("9.5.0", "9.6.0"),
    Capability.ERROR_TEXT_IN_SET: ("5.7.44", "8.0.0"),
    Capability.GTID_FUNCTIONS: ("5.7.4", "5.7.5"),
    Capability.SERVER_UUID: ("5.5.62", "5.6.0"),
    Capability.SRS_ID_COLUMN: ("8.0.2", "8.0.3"),
    Capability.PARTIAL_JSON: ("8.0.2", "8.0.3"),
    Capability.TIME_LIMIT_HINT: ("5.7.7", "5.7.8"),
    Capability.CONVERT_XID: ("5.7.4", "5.7.5"),
    Capability.FOREIGN_KEYS_BY_SELECT: ("5.5.62", "5.6.0"),
    Capability.GTID_DOMAINS: ("10.0.1-MariaDB", "10.0.2-MariaDB"),
    Capability.BINLOG_MONITOR: ("10.5.1-MariaDB", "10.5.2-MariaDB"),
    Capability.GENERATED_UNLOGGED: ("10.11.18-MariaDB", "11.0.0-MariaDB"),
}


@pytest.mark.parametrize("capability", list(Capability), ids=lambda one: one.name)
def test_a_server_can_what_its_release_notes_say(capability: Capability) -> None:
    before, first = (ServerVersion.parse(text) for text in SINCE[capability])
    assert (before.can(capability), first.can(capability)) == (False, True)
    other = ServerVersion.parse("26.1.0" if first.mariadb else "26.1.0-MariaDB")
    assert not other.can(capability)


@pytest.mark.parametrize(
    ("text", "numbers", "mariadb"),
    [
        ("8.0.36-28.1", (8, 0, 36), False),
        ("8.4", (8, 4, 0), False),
        ("10.11.6-MariaDB-0+deb12u1", (10, 11, 6), True),
        ("5.5.5-10.11.6-MariaDB", (10, 11, 6), True),
        ("26.1.0", (26, 1, 0), False),
        ("what?", (0, 0, 0), False),
    ],
)
def test_a_version_is_read_as_its_numbers(text: str, numbers: tuple[int, int, int], *, mariadb: bool) -> None:
    version = ServerVersion.parse(text)
    assert (version.text, version.numbers, version.mariadb) == (text, numbers, mariadb)
    assert version.name == f"{'MariaDB' if mariadb else 'MySQL'} {text}"
