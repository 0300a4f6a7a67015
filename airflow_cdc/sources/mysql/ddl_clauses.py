"""What each clause of a DDL statement does to rows that are already in the table (INV 30).

A clause is understood whole, to its last word, or not at all: "COMMENT 'x' ENGINE=BLACKHOLE" is not a comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_cdc.sources.mysql.ddl_text import Token, named, parts, skeleton, tokens

_NAME: Final = r"(?:`\d+|[^\s`'(.]+)"
_TABLE: Final = rf"{_NAME}(?: \. {_NAME})?"
_NO_COLUMN: Final = (
    r"(?!(?:INDEX|KEY|UNIQUE|FULLTEXT|SPATIAL|PRIMARY|CONSTRAINT|FOREIGN|CHECK|PARTITION|COLUMN|TABLESPACE)\b)"
)
_COLUMN: Final = rf"{_NO_COLUMN}(?P<column>{_NAME})"
_PLACE: Final = rf"(?: (?:FIRST|AFTER {_NAME}))?"
_CHARSET: Final = rf"(?:CHARACTER SET|CHARSET) (?:{_NAME}|'\d+)"
_COLLATE: Final = rf"COLLATE (?:{_NAME}|'\d+)"
_INDEX_OPTIONS: Final = r"(?: (?:USING \w+|KEY_BLOCK_SIZE \d+|COMMENT '\d+|WITH PARSER \w+|VISIBLE|INVISIBLE))*"
_INDEX: Final = rf"(?:(?:INDEX|KEY)(?: {_NAME})?(?: USING \w+)? \(\d+{_INDEX_OPTIONS})"
_REFERENCES: Final = (
    rf"REFERENCES {_TABLE} \(\d+(?: MATCH \w+)?"
    r"(?: ON (?:DELETE|UPDATE) (?:RESTRICT|CASCADE|SET NULL|NO ACTION|SET DEFAULT))*"
)
_CONSTANT: Final = r"(?:'\d+|[-+]?\d[\d.]*(?:[eE][-+]?\d+)?|TRUE|FALSE)"
_ONLINE: Final = r"(?:ALGORITHM|LOCK) \w+"
_OPTION: Final = "|".join(
    (
        r"COMMENT '\d+",
        r"AUTO_INCREMENT \d+",
        r"ENGINE INNODB",
        rf"(?:DEFAULT )?(?:{_CHARSET}|{_COLLATE})",
        r"(?:ROW_FORMAT|STATS_\w+|KEY_BLOCK_SIZE|AVG_ROW_LENGTH|MAX_ROWS|MIN_ROWS|PACK_KEYS|CHECKSUM|DELAY_KEY_WRITE) \w+",
        r"(?:COMPRESSION|ENCRYPTION|ENGINE_ATTRIBUTE) '\d+",
        _ONLINE,
        r"FORCE|(?:ENABLE|DISABLE) KEYS|WITH(?:OUT)? VALIDATION",
    )
)


class Kind(StrEnum):
    """What a clause does to rows."""

    NOTHING = "nothing"
    ADD = "add"  # a column, whose value in old rows is said by `default`
    DROP = "drop"  # a column
    MODIFY = "modify"  # a column's definition, under its old name
    CONVERT = "convert"  # the character set of all text columns
    UNKNOWN = "unknown"  # not understood, or rows change in a way that no definition shows


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause; `column` for ADD, DROP and MODIFY.

    Of an added column: `nullable`, and `default`, the constant that old rows got (None: NULL, or the type's own zero
    where the column is NOT NULL).
    """

    kind: Kind
    column: str = ""
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement: the tables it changes, as (schema or "", table), and what it does."""

    tables: tuple[tuple[str, str], ...]
    clauses: tuple[Clause, ...]


_NOT_UNDERSTOOD: Final = Statement((), (Clause(Kind.UNKNOWN),))

# A whole clause of ALTER TABLE that leaves rows as they are. {…} above says what its parts are.
_HARMLESS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"ADD {_INDEX}",
        rf"ADD (?:CONSTRAINT (?:{_NO_COLUMN}{_NAME} )?)?UNIQUE(?: (?:INDEX|KEY))?(?: {_NAME})?(?: USING \w+)? \(\d+{_INDEX_OPTIONS}",
        rf"ADD (?:FULLTEXT|SPATIAL)(?: (?:INDEX|KEY))?(?: {_NAME})? \(\d+{_INDEX_OPTIONS}",
        rf"ADD (?:CONSTRAINT (?:{_NO_COLUMN}{_NAME} )?)?FOREIGN KEY(?: {_NAME})? \(\d+ {_REFERENCES}",
        rf"ADD (?:CONSTRAINT (?:{_NO_COLUMN}{_NAME} )?)?CHECK \(\d+(?: (?:NOT )?ENFORCED)?",
        rf"DROP (?:INDEX|KEY|FOREIGN KEY|CHECK|CONSTRAINT) {_NAME}",
        rf"RENAME (?:INDEX|KEY) {_NAME} TO {_NAME}",
        rf"ALTER INDEX {_NAME} (?:VISIBLE|INVISIBLE)",
        rf"ALTER (?:CHECK|CONSTRAINT) {_NAME} (?:NOT )?ENFORCED",
        rf"ALTER (?:COLUMN )?{_NO_COLUMN}{_NAME} (?:DROP DEFAULT|SET DEFAULT (?:\w+ )?(?:{_CONSTANT}|\(\d+|NULL)|SET (?:VISIBLE|INVISIBLE))",
        r"ADD PARTITION (?:PARTITIONS \d+|\(\d+)",
        rf"(?:REORGANIZE|REBUILD|OPTIMIZE|ANALYZE|CHECK) PARTITION(?: {_NAME}(?: INTO \(\d+)?)?",
        r"COALESCE PARTITION \d+",
        r"REMOVE PARTITIONING",
        r"PARTITION BY (?:RANGE|LIST|HASH|KEY|LINEAR HASH|LINEAR KEY)(?: COLUMNS)? \(\d+(?: PARTITIONS \d+)?(?: \(\d+)?",
        rf"ORDER BY {_NAME}(?: ASC| DESC)?",
        rf"(?:{_OPTION})(?: (?:{_OPTION}))*",
        r"",
    )
)
_ADD: Final = re.compile(rf"ADD (?:COLUMN )?{_COLUMN} (?P<definition>.+?){_PLACE}", re.IGNORECASE)
_ADD_SEVERAL: Final = re.compile(r"ADD (?:COLUMN )?(?P<group>\(\d+)", re.IGNORECASE)
_DROP: Final = re.compile(rf"DROP (?:COLUMN )?{_COLUMN}(?: RESTRICT| CASCADE)?", re.IGNORECASE)
_MODIFY: Final = re.compile(
    rf"(?:MODIFY (?:COLUMN )?|CHANGE (?:COLUMN )?(?P<old>{_NO_COLUMN}{_NAME}) ){_COLUMN} (?P<definition>.+?){_PLACE}",
    re.IGNORECASE,
)
_CONVERT: Final = re.compile(rf"CONVERT TO {_CHARSET}(?: {_COLLATE})?", re.IGNORECASE)

_TYPE: Final = re.compile(
    r"(?!SERIAL\b)(?:NATIONAL (?:VARCHAR|CHAR(?:ACTER)?(?: VARYING)?)|CHAR(?:ACTER)? VARYING|DOUBLE PRECISION"
    r"|LONG (?:VARCHAR|VARBINARY)|\w+)(?: \(\d+)?"
    rf"(?: (?:UNSIGNED|SIGNED|ZEROFILL|BINARY|BYTE|ASCII|UNICODE|{_CHARSET}|{_COLLATE}))*(?= |$)",
    re.IGNORECASE,
)
# What may follow a column's type without giving old rows a value; DEFAULT is read apart.
_ATTRIBUTES: Final = re.compile(
    rf" (?:(?P<null>NOT NULL|NULL)|DEFAULT (?P<default>NULL|{_CONSTANT})|UNIQUE(?: KEY)?|COMMENT '\d+|{_COLLATE}"
    r"|(?:COLUMN_FORMAT|STORAGE) \w+|VISIBLE|INVISIBLE|SRID \d+|CHECK \(\d+|(?:NOT )?ENFORCED"
    r"|ON UPDATE (?:CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP)(?: \(\d+)?)(?= |$)",
    re.IGNORECASE,
)
# A column that is there already gets no value from its default, whatever that is.
_OTHER_DEFAULT: Final = re.compile(
    r" DEFAULT (?:\w+ '\d+|(?:CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP)(?: \(\d+)?|\(\d+)(?= |$)", re.IGNORECASE
)

_ALTER: Final = re.compile(rf"ALTER TABLE (?P<table>{_TABLE})(?P<rest>(?: .*)?)", re.IGNORECASE)
_EXCHANGE: Final = re.compile(rf"EXCHANGE PARTITION {_NAME} WITH TABLE (?P<table>{_TABLE})(?: .*)?", re.IGNORECASE)
_RENAMED: Final = re.compile(rf"RENAME (?:TO |AS |)(?!COLUMN\b|INDEX\b|KEY\b)(?P<table>{_TABLE})", re.IGNORECASE)
_RENAME: Final = re.compile(rf"(?:RENAME TABLES? )?(?P<old>{_TABLE}) TO (?P<new>{_TABLE})", re.IGNORECASE)
_INDEXED: Final = re.compile(
    rf"(?:CREATE (?:UNIQUE |FULLTEXT |SPATIAL )?INDEX {_NAME}(?: USING \w+)? ON (?P<table>{_TABLE}) \(\d+{_INDEX_OPTIONS}"
    rf"|DROP INDEX {_NAME} ON (?P<from>{_TABLE}))(?: {_ONLINE})*",
    re.IGNORECASE,
)
_MAINTAINED: Final = re.compile(
    rf"(?:ANALYZE|OPTIMIZE|CHECK)(?: NO_WRITE_TO_BINLOG| LOCAL)? TABLES? (?P<table>{_TABLE})", re.IGNORECASE
)
_CREATED_IF_MISSING: Final = re.compile(rf"CREATE TABLE IF NOT EXISTS (?P<table>{_TABLE}) .*", re.IGNORECASE)


def read_statement(text: str) -> Statement:
    """What a statement does, clause by clause. A clause that is not understood is UNKNOWN; nothing is guessed."""
    try:
        words = tokens(text)
    except ValueError:
        return _NOT_UNDERSTOOD
    line = skeleton(words)
    if match := _ALTER.fullmatch(line):
        return _alter(words, match)
    if match := _INDEXED.fullmatch(line):
        return Statement((_table(words, match["table"] or match["from"]),), (Clause(Kind.NOTHING),))
    # a table that was dropped or renamed before would be named by the statement that did it
    if match := _MAINTAINED.fullmatch(line) or _CREATED_IF_MISSING.fullmatch(line):
        return Statement((_table(words, match["table"]),), (Clause(Kind.NOTHING),))
    return Statement(tuple(_renamed_tables(words)), (Clause(Kind.UNKNOWN),))


def _renamed_tables(words: Sequence[Token]) -> list[tuple[str, str]]:
    if not words or not words[0].is_word("RENAME"):
        return []
    matches = [(part, _RENAME.fullmatch(skeleton(part))) for part in parts(words)]
    return [_table(part, match[side]) for part, match in matches if match for side in ("old", "new")]


def _alter(words: Sequence[Token], match: re.Match[str]) -> Statement:
    name = match["table"]
    after = 2 + len(name.split(" "))
    tables, clauses = [_table(words, name)], list[Clause]()
    for part in parts(words[after:]):
        line = skeleton(part)
        tables += [_table(part, other["table"]) for rule in (_EXCHANGE, _RENAMED) if (other := rule.fullmatch(line))]
        clauses += _clauses(part, line)
    return Statement(tuple(tables), tuple(clauses))


def _clauses(part: Sequence[Token], line: str) -> list[Clause]:
    if any(rule.fullmatch(line) for rule in _HARMLESS):
        return [Clause(Kind.NOTHING)]
    if _CONVERT.fullmatch(line):
        return [Clause(Kind.CONVERT)]
    if match := _ADD_SEVERAL.fullmatch(line):
        inner = part[int(match["group"][1:])].inner
        return [clause for one in parts(inner) for clause in _clauses(*_added(one))]
    for rule, read in ((_ADD, _add), (_DROP, _drop), (_MODIFY, _modify)):
        if match := rule.fullmatch(line):
            return [read(part, match)]
    return [Clause(Kind.UNKNOWN)]


def _added(one: Sequence[Token]) -> tuple[tuple[Token, ...], str]:
    part = (Token("word", "ADD"), *one)
    return part, skeleton(part)


def _add(part: Sequence[Token], match: re.Match[str]) -> Clause:
    if (rest := _after_type(match["definition"])) is None or (attributes := _attributes(rest)) is None:
        return Clause(Kind.UNKNOWN)
    nullable, default = attributes
    value = None if default in {"", "NULL"} else named(part, default)
    return Clause(Kind.ADD, named(part, match["column"]), nullable, value)


def _drop(part: Sequence[Token], match: re.Match[str]) -> Clause:
    return Clause(Kind.DROP, named(part, match["column"]))


def _modify(part: Sequence[Token], match: re.Match[str]) -> Clause:
    column, old = named(part, match["column"]), match["old"]
    rest = _after_type(match["definition"])
    if rest is None or _attributes(_OTHER_DEFAULT.sub("", rest)) is None or (old and named(part, old) != column):
        return Clause(Kind.UNKNOWN)
    return Clause(Kind.MODIFY, column)


def _after_type(definition: str) -> str | None:
    match = _TYPE.match(definition)
    return None if match is None else definition[match.end() :]


def _attributes(rest: str) -> tuple[bool, str] | None:
    """(nullable, default) of what follows a column's type; None if any of it is not understood."""
    at, nullable, default = 0, True, ""
    while at < len(rest):
        match = _ATTRIBUTES.match(rest, at)
        if match is None:
            return None
        at = match.end()
        nullable = match["null"].upper() == "NULL" if match["null"] else nullable
        default = match["default"] or default
    return nullable, default.upper() if default.upper() in {"NULL", "TRUE", "FALSE"} else default


def _table(words: Sequence[Token], text: str) -> tuple[str, str]:
    names = [named(words, mark) for mark in text.split(" . ")]
    return ("" if len(names) == 1 else names[0], names[-1])
