from __future__ import annotations

import hashlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_cdc.core import encoding
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.types import TYPES
from airflow_cdc.sources.mysql.key_text import key_predicate, parse_key_text
from tests.unit.tables import column, table


def test_the_whole_text_of_a_small_table() -> None:
    small = table(
        column("id", "int", nullable=False),
        column("name", "varchar(9)", charset="utf8mb4"),
        column("day", "date"),
        key=("id",),
    )
    assert encoding.mysql_row_hash(small) == (
        "SHA2(CONCAT_WS(_binary'|', `id`, IFNULL(LENGTH(`name`), 'N'), `name`,"
        " IFNULL(IF(`day` = `day` + INTERVAL 0 DAY AND `day` >= DATE'0001-01-01', TO_DAYS(`day`) - 719528, NULL), 'N')), 256)"
    )
    assert encoding.spark_row_hash(small) == (
        "sha2(concat_ws('|', coalesce(CAST(`id` AS string), 'N'), coalesce(CAST(octet_length(`name`) AS string), 'N'),"
        " `name`, coalesce(CAST(unix_date(`day`) AS string), 'N')), 256)"
    )


@pytest.mark.parametrize("column_type", ["int(6) unsigned zerofill", "year(4)", "decimal(30,2) zerofill"])
def test_padding_of_numbers_is_left_out(column_type: str) -> None:
    padded = table(column("c", column_type, nullable=False, precision=30, scale=2))
    assert "(_binary'|', `c` + 0)" in encoding.mysql_row_hash(padded)


def test_inv_25_each_column_is_hashed_or_fetched_or_named_with_the_reason() -> None:
    mixed = table(
        column("id", "int", nullable=False),
        column("j", "json"),
        column("g", "int", generated=True, expression="(`id` + 1)"),
        column("t", "timestamp"),
        column("day", "date", generated=True, expression="cast(`t` as date)"),
        key=("id",),
    )
    hashed = {c.name for c in encoding.pushed(mixed)}
    fetched = {name for name, _ in encoding.not_pushed(mixed)}
    left = {name for name, _ in encoding.not_compared(mixed)}
    assert (hashed, fetched, left) == ({"id", "g", "t"}, {"j"}, {"day"})


def test_a_table_of_json_only_has_no_hash() -> None:
    with pytest.raises(SchemaError, match="no column can be compared"):
        encoding.mysql_row_hash(table(column("j", "json")))


def test_every_type_has_an_encoding_or_is_fetched() -> None:
    for name in (name for row in TYPES for name in row.names):
        one = table(column("id", "int", nullable=False), column("c", name, charset="utf8mb4"), key=("id",))
        fetched = {column for column, _ in encoding.not_pushed(one)}
        assert ("`c`" in encoding.mysql_row_hash(one)) is (name != "json")
        assert ("`c`" in encoding.spark_row_hash(one)) is (name != "json")
        assert fetched == ({"c"} if name == "json" else set())


def test_only_foreign_character_sets_are_converted() -> None:
    for charset, converted in (
        ("utf8mb4", False),
        ("utf8", False),
        ("ascii", False),
        ("latin1", True),
        ("utf16", True),
    ):
        text = encoding.mysql_row_hash(table(column("c", "varchar(9)", charset=charset)))
        assert ("CONVERT" in text) is converted


def test_a_keyless_row_is_known_by_its_hash() -> None:
    bag = table(column("a", "int"))
    assert encoding.mysql_key_text(bag) == encoding.mysql_row_hash(bag)
    assert encoding.spark_key_text(bag) == encoding.spark_row_hash(bag)


def test_lanes_are_the_first_digits_of_the_hash() -> None:
    assert encoding.spark_lanes("h")[1] == "CAST(conv(substr(h, 9, 8), 16, 10) AS bigint)"
    assert encoding.spark_lanes("h")[0] == "CAST(conv(substr(h, 1, 8), 16, 10) AS bigint)"


# The encoding in Python, from its description: a list of values → the text that is hashed.
Value = int | str | None
rows = st.lists(st.one_of(st.none(), st.integers(-99, 99), st.text("01|aN-", max_size=6)), min_size=1, max_size=5)


def encode(row: list[Value]) -> bytes:
    pieces = []
    for value in row:
        if isinstance(value, str):
            pieces += [str(len(value.encode())).encode(), value.encode()]
        else:
            pieces.append(b"N" if value is None else str(value).encode())
    return b"|".join(pieces)


@given(rows, rows)
def test_different_rows_of_one_table_never_give_one_text(first: list[Value], second: list[Value]) -> None:
    kinds = {(i, type(v)) for row in (first, second) for i, v in enumerate(row) if v is not None}
    one_table = len(first) == len(second) and len({i for i, _ in kinds}) == len(kinds)
    if one_table and first != second:
        assert encode(first) != encode(second)


def test_the_example_of_the_module() -> None:
    assert encode(["a|1", "b"]) == b"3|a|1|1|b"
    assert encode(["a", "1|b"]) == b"1|a|3|1|b"
    assert hashlib.sha256(encode([None])).hexdigest() != hashlib.sha256(encode([""])).hexdigest()


KEYED = table(
    column("n", "bigint", nullable=False),
    column("t", "varchar(20)", nullable=False, charset="utf8mb4"),
    column("b", "varbinary(9)", nullable=False),
    key=("n", "t", "b"),
)


@given(st.integers(-(2**63), 2**64), st.text(), st.binary())
def test_key_text_reads_back(number: int, text: str, data: bytes) -> None:
    written = f"{number}|{len(text.encode())}|{text}|{data.hex().upper()}"
    assert parse_key_text(KEYED, written) == (number, text, data)


@pytest.mark.parametrize(
    ("column_type", "precision", "scale", "written", "value"),
    [
        ("decimal(9,2)", 9, 2, "-123", Decimal("-1.23")),
        ("decimal(40,2)", 40, 2, "-1.23", Decimal("-1.23")),
        ("double", None, None, "3FF8000000000000", 1.5),
        ("date", None, None, "-719162", "0001-01-01"),
        ("date", None, None, "2932896", "9999-12-31"),
        ("datetime(6)", None, None, "-1", "1969-12-31 23:59:59.999999"),
        ("timestamp", None, None, "1635638400000000", "2021-10-31 00:00:00.000000"),
        ("time(6)", None, None, "-500000", "-00:00:00.500000"),
        ("time", None, None, "3020399000000", "838:59:59.000000"),
        ("bit(64)", 64, None, "18446744073709551615", 2**64 - 1),
        ("enum('a|b')", None, None, "3|a|b", "a|b"),
        ("blob", None, None, "00FF", b"\x00\xff"),
    ],
)
def test_key_values_of_each_kind(
    column_type: str, precision: int | None, scale: int | None, written: str, value: object
) -> None:
    one = table(column("k", column_type, nullable=False, precision=precision, scale=scale), key=("k",))
    assert parse_key_text(one, written) == (value,)


@pytest.mark.parametrize(
    "text", ["", "x", "1|2", "1|9|a|00", "1|1|ab|00", "1|1|a|0", "1|1|a|00|1", "1|-1|a|00", "1;DROP"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match="not a key text"):
        parse_key_text(KEYED, text)


def test_the_epoch_may_be_a_zero_date() -> None:
    dated = table(column("k", "date", nullable=False), key=("k",))
    day = f"_utf8mb4 X'{b'1970-01-01'.hex()}'"
    assert key_predicate(dated, ["0"]) == f"((`k` = {day} OR `k` = 0))"
    assert " OR " not in key_predicate(dated, ["1"])


def test_composite_keys_are_alternatives() -> None:
    assert key_predicate(KEYED, ["1|1|a|00", "2|0||"]) == (
        "(`n` = 1 AND `t` = _utf8mb4 X'61' AND `b` = _binary X'00')"
        " OR (`n` = 2 AND `t` = _utf8mb4 X'' AND `b` = _binary X'')"
    )
