"""Every pair of MySQL types between which values stay what they were: rows in the sink, and events from before, still hold.

What else is changed means that the table is read again (INV 13, 30), which is dear, and always right.
"""

from __future__ import annotations

import itertools

import pytest

from airflow_cdc.core.errors import RereadNeededError
from airflow_cdc.core.table import Column
from airflow_cdc.sources.mysql.column_changes import check_column
from tests.unit.tables import col, column, table

T = table(column("id", "bigint", nullable=False), key=("id",))
# the order of width, as MySQL's manual has it
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
TEXTS = {"varchar": 100, "tinytext": 255, "text": 65_535, "mediumtext": 16_777_215, "longtext": 4_294_967_295}
BYTES = {"varbinary": 100, "tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215, "longblob": 4_294_967_295}


def integer(name: str, *, unsigned: bool = False) -> Column:
    return col("c", 2, name, f"{name} unsigned" if unsigned else name)


def sized(family: dict[str, int], name: str) -> Column:
    charset = "utf8mb4" if family is TEXTS else None
    shown = f"{name}({family[name]})" if name.startswith("var") else name
    return col("c", 2, name, shown, char_length=family[name], byte_length=family[name], charset=charset)


def decimal(precision: int, scale: int, *, unsigned: bool = False) -> Column:
    shown = f"decimal({precision},{scale}){' unsigned' if unsigned else ''}"
    return col("c", 2, "decimal", shown, precision=precision, scale=scale)


def widens(old: Column, new: Column) -> bool:
    """Whether the change is followed; False if the table has to be read again."""
    try:
        return check_column(T, old, new)
    except RereadNeededError:
        return False


@pytest.mark.parametrize(("narrow", "wide"), list(itertools.combinations(INTEGERS, 2)))
def test_an_integer_may_become_wider_and_never_narrower(narrow: str, wide: str) -> None:
    assert widens(integer(narrow), integer(wide))
    assert widens(integer(narrow, unsigned=True), integer(wide, unsigned=True))
    assert not widens(integer(wide), integer(narrow))
    assert not widens(integer(wide, unsigned=True), integer(narrow, unsigned=True))


@pytest.mark.parametrize(("narrow", "wide"), list(itertools.combinations(INTEGERS, 2)))
def test_an_unsigned_integer_fits_into_a_wider_signed_one_and_a_signed_one_into_no_unsigned(
    narrow: str, wide: str
) -> None:
    assert widens(integer(narrow, unsigned=True), integer(wide))
    assert not widens(integer(narrow), integer(wide, unsigned=True))


@pytest.mark.parametrize("name", INTEGERS)
def test_a_sign_that_comes_or_goes_at_the_same_width_changes_values(name: str) -> None:
    assert not widens(integer(name, unsigned=True), integer(name))
    assert not widens(integer(name), integer(name, unsigned=True))


@pytest.mark.parametrize("family", [TEXTS, BYTES], ids=["texts", "bytes"])
def test_texts_and_bytes_may_become_longer_and_never_shorter(family: dict[str, int]) -> None:
    for short, long in itertools.combinations(family, 2):
        assert widens(sized(family, short), sized(family, long)), (short, long)
        assert not widens(sized(family, long), sized(family, short)), (long, short)


def test_a_text_never_becomes_bytes_nor_bytes_a_text() -> None:
    for text, binary in itertools.product(TEXTS, BYTES):
        assert not widens(sized(TEXTS, text), sized(BYTES, binary)), (text, binary)
        assert not widens(sized(BYTES, binary), sized(TEXTS, text)), (binary, text)


@pytest.mark.parametrize(
    ("old", "new", "followed"),
    [
        (decimal(10, 2), decimal(12, 2), True),
        (decimal(10, 2), decimal(9, 2), False),
        (decimal(10, 2), decimal(12, 3), False),  # events then carry another scale
        (decimal(10, 2), decimal(12, 0), False),
        (decimal(10, 2, unsigned=True), decimal(12, 2, unsigned=True), True),
        (decimal(10, 2, unsigned=True), decimal(12, 2), False),
    ],
)
def test_a_decimal_may_have_more_digits_before_the_point_alone(old: Column, new: Column, followed: bool) -> None:
    assert widens(old, new) is followed


def test_kinds_never_turn_into_each_other() -> None:
    several = {
        "int": integer("int"),
        "decimal": decimal(20, 0),
        "text": sized(TEXTS, "varchar"),
        "bytes": sized(BYTES, "blob"),
        "date": column("c", "date"),
        "datetime": column("c", "datetime"),
        "json": column("c", "json"),
        "double": column("c", "double"),
        "year": column("c", "year"),
    }
    for one, other in itertools.permutations(several, 2):
        assert not widens(several[one], several[other]), (one, other)
