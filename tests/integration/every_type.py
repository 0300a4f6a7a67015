"""A table with every supported type at its edges, for tests of reading, encoding and decoding.

Each case is a column: its DDL, the SQL literals of its rows, and one more literal that must make a difference.
"""

from __future__ import annotations

from dataclasses import dataclass

# what loads values that a strict server refuses: zero and invalid dates
LOAD_MODE = "ALLOW_INVALID_DATES,ERROR_FOR_DIVISION_BY_ZERO"


@dataclass(frozen=True, slots=True)
class Case:
    """One column. `other` differs from every value; `changeable` is False where the server computes the value."""

    name: str
    ddl: str
    values: tuple[str, ...]
    other: str
    changeable: bool = True

    @property
    def not_null(self) -> bool:
        return "NOT NULL" in self.ddl


def _wkt(text: str, srid: int = 0) -> str:
    return f"ST_GeomFromText('{text}', {srid})"


_TIMES_OF_SPRING = (
    # 2021-03-28 01:00 UTC is the hour that Berlin leaves out, 2021-10-31 00:00 and 01:00 UTC the one that comes twice
    "'2021-03-28 00:59:59'",
    "'2021-03-28 01:00:00'",
    "'2021-03-28 02:30:00'",
    "'2021-10-31 00:30:00'",
    "'2021-10-31 01:30:00'",
)
_INVALID = (
    "'0000-00-00'",
    "'2020-00-10'",
    "'2020-05-00'",
    "'2020-02-31'",
    "'2019-02-29'",
    "'0000-01-01'",
    "'0000-02-29'",
)
_NO_DAYS = ("2020-02-31", "2019-02-29")
_TEXTS = (
    "''",
    "'a'",
    "'a|1'",
    "'1|a'",
    "'|'",
    "'1|a|1|b'",
    "'  lead'",
    "'trail  '",
    "'ümläut ß'",
    "'😀🏳️‍🌈'",
    "'O''Brien \\\\ \"x\"'",
    "'NULL'",
    "'line\nbreak\ttab'",
    "x'00'",
    "'Straße'",
    "'STRASSE'",
)
_JSON_DECIMALS = (
    "JSON_ARRAY(CAST('12345678901234567890.12345678901234567890123456789' AS DECIMAL(65,30)),"
    " CAST('0.12345678901234567' AS DECIMAL(30,20)), CAST('100.00' AS DECIMAL(5,2)),"
    " CAST('99999999999999999999999999999999999' AS DECIMAL(65,30)))"
)

CASES: tuple[Case, ...] = (
    Case("ti", "tinyint", ("-128", "127", "0"), "1"),
    Case("ti1", "tinyint(1)", ("0", "1", "2", "-128"), "3"),
    Case("tiu", "tinyint unsigned", ("0", "255", "128"), "1"),
    Case("si", "smallint", ("-32768", "32767"), "1"),
    Case("siu", "smallint unsigned", ("0", "65535", "32768"), "1"),
    Case("mi", "mediumint", ("-8388608", "8388607"), "1"),
    Case("miu", "mediumint unsigned", ("0", "16777215"), "1"),
    Case("i", "int", ("-2147483648", "2147483647"), "1"),
    Case("iu", "int unsigned", ("0", "4294967295", "2147483648"), "1"),
    Case("iz", "int(6) unsigned zerofill", ("0", "42", "4294967295"), "7"),
    Case("bi", "bigint", ("-9223372036854775808", "9223372036854775807"), "1"),
    Case("biu", "bigint unsigned", ("0", "18446744073709551615", "9223372036854775808", "9223372036854775807"), "1"),
    Case("d9", "decimal(9,2)", ("-9999999.99", "9999999.99", "0.01", "-0.01", "0.00", "-0.00"), "5.55"),
    Case("d18", "decimal(18,6)", ("-999999999999.999999", "999999999999.999999", "0.000001"), "5.5"),
    Case("d19", "decimal(19,0)", ("-9999999999999999999", "9999999999999999999", "0"), "5"),
    Case("d38", "decimal(38,30)", ("-99999999.999999999999999999999999999999", "1e-30", "0"), "5.5"),
    Case("d38i", "decimal(38,0)", ("-99999999999999999999999999999999999999", "99999999999999999999999999999999999999"), "5"),
    Case("d65", "decimal(65,30)", ("-" + "9" * 35 + "." + "9" * 30, "9" * 35 + "." + "9" * 30, "1e-30", "0", "-1.5"), "5.5"),
    Case("du", "decimal(10,3) unsigned", ("0", "9999999.999"), "5.5"),
    Case("dz", "decimal(12,2) zerofill", ("0", "1.5"), "5.5"),
    Case("dz40", "decimal(40,3) zerofill", ("0", "1.5"), "5.5"),
    Case("f", "float", ("0", "-0e0", "3.14", "1e-38", "3.402823e38", "-16777216", "0.1", "1.17549e-38"), "5.5"),
    Case("f73", "float(7,3)", ("3.142", "-9999.999", "0.001"), "5.5"),
    Case(
        "db",
        "double",
        ("0", "-0e0", "0.1", "1e15", "1e16", "1e-14", "1e-15", "1e-5", "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324",
         "123456789012345.6", "1234567890123456.7", "12345678901234567", "9007199254740993", "2e-3", "5.684341886080802e-14", "-1e23", "100000"),
        "5.5",
    ),
    Case("db2", "double(20,4)", ("1234567.8912", "-0.0001"), "5.5"),
    Case("b1", "bit(1)", ("b'0'", "b'1'"), "NULL"),
    Case("b5", "bit(5)", ("b'0'", "b'11111'", "b'10000'"), "b'101'"),
    Case("b9", "bit(9)", ("b'0'", "b'111111111'", "b'100000000'"), "b'101'"),
    Case("b63", "bit(63)", ("9223372036854775807", "1"), "5"),
    Case("b64", "bit(64)", ("18446744073709551615", "1", "9223372036854775808"), "5"),
    Case("y", "year", ("1901", "2155", "0", "1970"), "2000"),
    Case("da", "date", ("'1000-01-01'", "'9999-12-31'", "'1970-01-01'", "'1582-10-10'", "'0001-01-01'", *_INVALID), "'2000-02-29'"),
    Case("dan", "date NOT NULL", ("'1969-12-31'", *_INVALID), "'2000-02-29'"),
    Case("dt", "datetime", ("'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'", *_TIMES_OF_SPRING, *_INVALID), "'2000-02-29'"),
    Case("dtn", "datetime NOT NULL", ("'1969-12-31 23:59:59'", *_INVALID), "'2000-02-29'"),
    Case("dt3", "datetime(3)", ("'1582-10-10 01:02:03.004'", "'1969-12-31 23:59:59.999'", *_TIMES_OF_SPRING), "'2000-02-29'"),
    Case("dt6", "datetime(6)", ("'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00.000001'", "'2020-02-31 12:13:14.15'"), "'2000-02-29'"),
    Case("dt6n", "datetime(6) NOT NULL", ("'2021-03-28 02:30:00.000001'", "'0000-00-00'"), "'2000-02-29'"),
    Case("ts", "timestamp NULL", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", *_TIMES_OF_SPRING, "'0000-00-00'"), "'2000-02-29'"),
    Case("ts3", "timestamp(3) NULL", ("'1970-01-01 00:00:01.001'", "'2021-10-31 01:30:00.999'"), "'2000-02-29'"),
    Case("ts6", "timestamp(6) NULL", ("'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'"), "'2000-02-29'"),
    Case("tsn", "timestamp NOT NULL", ("'2000-01-01'", "'0000-00-00'"), "'2000-02-29'"),
    Case("t", "time", ("'00:00:00'", "'838:59:59'", "'-838:59:59'", "'-00:00:01'", "'25:00:00'"), "'12:00'"),
    Case("t3", "time(3)", ("'-00:00:00.001'", "'23:59:59.999'"), "'12:00'"),
    Case("t6", "time(6)", ("'-00:00:00.500000'", "'837:59:59.999999'", "'-838:59:58.999999'", "'00:00:00.000001'"), "'12:00'"),
    Case("c", "char(20)", _TEXTS, "'other'"),
    Case("cn", "char(20) NOT NULL", ("''", "'x '"), "'other'"),
    Case("v", "varchar(40)", _TEXTS, "'other'"),
    Case("vb", "varchar(40) COLLATE utf8mb4_bin", _TEXTS, "'other'"),
    Case("vl", "varchar(40) CHARACTER SET latin1", ("''", "'ümläut ß'", "'a|1'", "'€'"), "'other'"),
    Case("vu3", "varchar(40) CHARACTER SET utf8", ("''", "'ümläut ß'", "'日本'"), "'other'"),
    Case("vs", "varchar(40) CHARACTER SET sjis", ("''", "'日本'"), "'other'"),
    Case("v16", "varchar(40) CHARACTER SET utf16", ("''", "'日本😀'"), "'other'"),
    Case("va", "varchar(40) CHARACTER SET ascii", ("''", "'x|y'"), "'other'"),
    Case("tt", "tinytext", _TEXTS, "'other'"),
    Case("tx", "text", (*_TEXTS, "REPEAT('ab', 20000)"), "'other'"),
    Case("mt", "mediumtext", (*_TEXTS, "REPEAT('é', 40000)"), "'other'"),
    Case("lt", "longtext", _TEXTS, "'other'"),
    Case("bn", "binary(4)", ("x'00000000'", "x'01'", "x'01020304'", "x'61200000'", "x''"), "x'ff'"),
    Case("vbn", "varbinary(20)", ("x''", "x'00'", "x'0100'", "x'7c31'", "x'ff00ff'"), "x'ee'"),
    Case("bl", "blob", ("x''", "x'00'", "x'ff00'", "REPEAT(x'00ff', 20000)"), "x'ee'"),
    Case("lb", "longblob", ("x''", "x'deadbeef'"), "x'ee'"),
    Case("e", "enum('a','it''s','b\\\\c','x,y','','é|1','q\"t\tb','n\nl','a\\\\,%')", ("1", "2", "3", "4", "5", "6", "''", "7", "8", "9"), "'x,y'"),
    Case("en", "enum('one','two') CHARACTER SET latin1 NOT NULL", ("'one'", "'two'", "0"), "'two'"),
    Case("s", "set('p','q''r','ü|','b\\\\c')", ("''", "'p'", "'p,ü|'", "7", "8", "15"), "'q''r'"),
    Case("j", "json", ("'null'", "'{\"b\": 1.0, \"a\": [1, 2e3, \"ü😀|\"]}'", "'\"x\"'", "JSON_OBJECT('d', CAST(1.10 AS DECIMAL(5,2)))",
                       "'[1e7, 1e15, 1e16, 1e20, 1.23456789e21, 1e300, 5e-324, 0.00001, 12345678.9, -2.5e-7, 4.35]'",
                       "'[18446744073709551615, -9223372036854775808, 9223372036854774784, 12345678901234567.0, 18446744073709551616]'",
                       _JSON_DECIMALS), "'[]'"),
    Case("g", "geometry", (_wkt("POINT(1 2)"), _wkt("POINT(50 8)", 4326), _wkt("LINESTRING(0 0,1 1)"), _wkt("GEOMETRYCOLLECTION EMPTY")), _wkt("POINT(9 9)")),
    Case("p", "point", (_wkt("POINT(-1.5 2e10)"),), _wkt("POINT(9 9)")),
    Case("pg", "polygon", (_wkt("POLYGON((0 0,0 1,1 1,0 0))"),), _wkt("POLYGON((0 0,0 2,2 2,0 0))")),
    Case("gv", "varchar(60) AS (CONCAT('<', v, '>')) VIRTUAL", (), "", changeable=False),
    Case("gs", "int AS (i DIV 2) STORED", (), "", changeable=False),
    Case("sep`'\"|", "varchar(10)", ("'x'",), "'y'"),
)  # fmt: skip


def create_sql(table: str, key: str = "PRIMARY KEY (`id`)") -> str:
    """CREATE TABLE with a column per case behind `id`, the whole in a case-insensitive collation."""
    columns = ",\n".join(f"  {_quoted(c.name)} {c.ddl}" for c in CASES)
    keys = f",\n  {key}" if key else ""
    return f"CREATE TABLE {table} (\n  `id` bigint NOT NULL,\n{columns}{keys}\n) DEFAULT CHARACTER SET utf8mb4"


def row_count() -> int:
    """Rows so that each value of each case stands once, and one more in which all is NULL that may be."""
    return max(len(c.values) for c in CASES) + 1


def insert_sql(table: str, *, real_days: bool = False) -> list[str]:
    """One INSERT per row; ids are spread over both sides of zero.

    `real_days` leaves out days that no month has: a connector that meets one stops there.
    """
    stored = [c for c in CASES if c.values]
    names = ", ".join(_quoted(c.name) for c in stored)
    rows = []
    for number in range(row_count()):
        values = [_value(c, number) for c in stored]
        if real_days:
            values = ["'2020-03-01'" if v[1:11] in _NO_DAYS else v for v in values]
        rows.append(f"INSERT INTO {table} (`id`, {names}) VALUES ({row_id(number)}, {', '.join(values)})")
    return rows


def row_id(number: int) -> int:
    """The id of a row."""
    return (number - 5) * 3


def update_sql(table: str, case: Case, number: int) -> str:
    """Change one value of one row."""
    return f"UPDATE {table} SET {_quoted(case.name)} = {case.other} WHERE id = {row_id(number)}"


def _value(case: Case, number: int) -> str:
    if number < len(case.values):
        return case.values[number]
    return case.values[0] if case.not_null else "NULL"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
