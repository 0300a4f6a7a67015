"""Character sets that Debezium decodes differently from MySQL.

Every character of every character set was written to MySQL 8.0.15 and compared with what Debezium 3.6.1 emitted
(Kafka Connect on Java 17): `tests/integration/test_every_character.py` repeats this and compares with the table here.

Where a wrong character can be recognised, an event that holds one is not applied: it becomes a dead letter, and its row
is read from the source. Where letters of everyday text become other letters, the column is refused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.core.dead_letter import MISREAD
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.sources.mysql.types import TEXTS, words_of

if TYPE_CHECKING:
    from airflow_cdc.core.table import Column


class Carriage(enum.StrEnum):
    """How events carry a character set: every character; all but some that can be recognised; or not reliably."""

    EXACT = "exact"
    DOUBTED = "doubted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Charset:
    """One character set as it was measured.

    Attributes:
        characters: how many were compared.
        wrong: how many arrive as text that differs from the server's.
        signs: characters (code points and ranges, in hexadecimal) of which every wrong text contains one, while correct
            text never or hardly ever does: U+FFFD is correct only where the column holds that very character.
    """

    name: str
    carriage: Carriage
    characters: int
    wrong: int = 0
    signs: str = ""

    @property
    def sign_class(self) -> str:
        """The signs as the inside of a class of a regular expression, each by its code."""
        return "".join("-".join(f"\\u{code}" for code in part.split("-")) for part in self.signs.split())


_EXACT = {
    "cp850": 255, "cp852": 255, "koi8r": 255, "latin2": 255, "latin5": 255, "latin7": 255, "macce": 255, "macroman": 255,
    "ucs2": 63_487, "utf8": 63_487, "utf8mb3": 63_487,
    "utf16": 1_112_063, "utf16le": 1_112_063, "utf32": 1_112_063, "utf8mb4": 1_112_063,
}  # fmt: skip

_CHARSETS = (
    *(Charset(name, Carriage.EXACT, characters) for name, characters in _EXACT.items()),
    # bytes 81 8D 8F 90 9D
    Charset("latin1", Carriage.DOUBTED, 255, 5, "FFFD"),
    # bytes that MySQL itself has no character for
    Charset("ascii", Carriage.DOUBTED, 255, 128, "FFFD"),
    Charset("cp1250", Carriage.DOUBTED, 255, 5, "FFFD"),
    Charset("cp1251", Carriage.DOUBTED, 255, 1, "FFFD"),
    Charset("cp1256", Carriage.DOUBTED, 255, 8, "0679 0688 0691 06A9 06BA 06BE 06C1 06D2"),
    Charset("cp1257", Carriage.DOUBTED, 255, 12, "FFFD"),
    Charset("cp866", Carriage.DOUBTED, 255, 2, "00A4 2116"),
    Charset("cp932", Carriage.DOUBTED, 11_470, 1_676, "FFFD"),
    Charset("gb2312", Carriage.DOUBTED, 8_305, 733, "FFFD"),
    Charset("gbk", Carriage.DOUBTED, 24_067, 2_150, "20AC 2641 E000-E76B E76D-E864"),
    Charset("greek", Carriage.DOUBTED, 255, 8, "037A 2018-2019 20AC 20AF FFFD"),
    Charset("hebrew", Carriage.DOUBTED, 255, 37, "00AF FFFD"),
    Charset("tis620", Carriage.DOUBTED, 255, 33, "00A0 FFFD"),
    # dashes, backslashes, and user-defined characters
    Charset("sjis", Carriage.DOUBTED, 11_470, 4_403, "2014 FF3C FFFD"),
    Charset("ujis", Carriage.DOUBTED, 17_862, 4_729, "2014 FF3C FF5E FFFD"),
    # the 8,822 syllables that Microsoft added
    Charset("euckr", Carriage.DOUBTED, 22_555, 14_202, "327E FFFD"),
    Charset(
        "gb18030",
        Carriage.DOUBTED,
        1_132_867,
        20_840,
        "9FB4-9FBB E78D-E796 E81E E826 E82B-E82C E832 E843 E854 E864 FE10-FE19 FFFD",
    ),
    # letters of everyday text become other letters or signs
    Charset("armscii8", Carriage.REFUSED, 255, 127),
    Charset("dec8", Carriage.REFUSED, 255, 51),
    Charset("geostd8", Carriage.REFUSED, 255, 80),
    Charset("hp8", Carriage.REFUSED, 255, 127),
    Charset("keybcs2", Carriage.REFUSED, 255, 80),
    Charset("koi8u", Carriage.REFUSED, 255, 9),
    Charset("swe7", Carriage.REFUSED, 255, 139),
    # wrong characters that occur in correct text too, so they cannot be recognised
    Charset("big5", Carriage.REFUSED, 14_100, 270),
    Charset("eucjpms", Carriage.REFUSED, 17_862, 4_545),
)

CHARSETS: dict[str, Charset] = {charset.name: charset for charset in _CHARSETS}


def charset_of(column: Column) -> Charset | None:
    """How events carry the column's character set; None for a column without one. An unmeasured set is refused."""
    words = words_of(column)
    if words.data_type not in TEXTS or words.charset in {None, "", "binary"}:
        return None
    name = str(words.charset)
    return CHARSETS.get(name, Charset(name, Carriage.REFUSED, 0))


def check_charset(column: Column, table: str) -> None:
    """Raises SchemaError for a column whose text events don't carry reliably."""
    charset = charset_of(column)
    if charset is None or charset.carriage is not Carriage.REFUSED:
        return
    measured = (
        f"{charset.wrong} of its {charset.characters:,} characters arrive as others, and nothing in an event shows which"
        if charset.characters
        else "nobody has compared what arrives of it with what the server holds"
    )
    raise SchemaError(
        f"Debezium does not read the character set {charset.name} as the server does: {measured}",
        where=f"column {column.name} of {table}",
        todo="Convert the column to utf8mb4, or exclude it on the connector, or remove the table from the pipeline.",
    )


def signs_of(column: Column) -> str:
    """The inside of a regular expression's class: an event's text with one of these is doubtful; "" for none."""
    charset = charset_of(column)
    return charset.sign_class if charset is not None else ""


def doubt(column: Column) -> str:
    """What makes text of this column doubtful in an event, for the reason of a dead letter; "" if nothing does."""
    charset = charset_of(column)
    if charset is None or not charset.signs:
        return ""
    return f"{charset.name} text with a character that Debezium does {MISREAD}"
