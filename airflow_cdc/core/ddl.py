"""DDL from a connector's schema-change topic: what a statement may have done to rows without a row event (INV 13).

Comparing definitions shows where a table ended up, not what happened on the way: a partition truncated, a table
renamed into place, a column dropped and added again look as if nothing had happened. The statements say it. A clause
that is not known to leave rows alone counts as one that changes them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from airflow_cdc.core.errors import MALFORMED
from airflow_cdc.core.history import full_name

_QUOTES: Final = "'\"`"
_COMMENT: Final = re.compile(r"/\*(?![!+]).*?\*/|--[ \t][^\n]*|#[^\n]*", re.DOTALL)
_NAME: Final = r"(?:`(?:[^`]|``)+`|[^\s`(.,;]+)"
_TABLE: Final = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_ALTER: Final = re.compile(rf"ALTER\s+(?:IGNORE\s+)?TABLE\s+{_TABLE}\s*(.*)", re.IGNORECASE | re.DOTALL)


class Effect(IntEnum):
    """What a statement means for rows that are in the sink already, from nothing to the worst."""

    NONE = 0  # no row changes
    SHOWN = 1  # what it does shows in the table's definition, which is judged by core/schema_change.py
    HIDDEN = 2  # rows may have changed without an event: the table has to be read again


# The beginning of a clause of ALTER TABLE → what it does. The first that fits counts.
_CLAUSES: Final[tuple[tuple[str, Effect], ...]] = (
    (r"(ADD|DROP)\s+PRIMARY\s+KEY", Effect.HIDDEN),
    (r"(ADD|DROP|RENAME|ALTER)\s+(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?(INDEX|KEY)\b", Effect.NONE),
    (r"(ADD|DROP)\s+(CONSTRAINT|FOREIGN\s+KEY|CHECK|UNIQUE|FULLTEXT|SPATIAL)\b", Effect.NONE),
    (r"(ADD|REORGANIZE|COALESCE|REBUILD|OPTIMIZE|ANALYZE|CHECK)\s+PARTITION\b", Effect.NONE),
    (r"(PARTITION\s+BY|REMOVE\s+PARTITIONING)\b", Effect.NONE),
    (r"ADD\s+(?!PARTITION)", Effect.SHOWN),
    (r"(MODIFY|CHANGE|CONVERT\s+TO)\b", Effect.SHOWN),
    (r"ALTER\s+(COLUMN\s+)?\S+\s+(SET|DROP)\s+DEFAULT", Effect.NONE),
    (r"ALTER\s+(CHECK|CONSTRAINT)\b", Effect.NONE),
    (
        r"(COMMENT|AUTO_INCREMENT|STATS_\w+|ALGORITHM|LOCK|ROW_FORMAT|KEY_BLOCK_SIZE|COMPRESSION|ENCRYPTION)\b",
        Effect.NONE,
    ),
    (r"ENGINE\s*=?\s*INNODB\b", Effect.NONE),
    (r"(DEFAULT\s+)?(CHARACTER\s+SET|CHARSET|COLLATE)\b", Effect.NONE),
    (r"(FORCE|ORDER\s+BY|ENABLE\s+KEYS|DISABLE\s+KEYS|WITH(OUT)?\s+VALIDATION)\b", Effect.NONE),
)
_STATEMENTS: Final[tuple[tuple[str, Effect], ...]] = (
    (r"CREATE\s+(ONLINE\s+|OFFLINE\s+)?(UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?INDEX\b", Effect.NONE),
    (r"DROP\s+INDEX\b", Effect.NONE),
    (r"(ANALYZE|OPTIMIZE|CHECK|REPAIR)\s", Effect.NONE),
)


@dataclass(frozen=True, slots=True)
class Ddl:
    """One streamed statement: the tables it names as "schema.table", its text, and where in the source's log it stands.

    `at` is the same for a repeat that a restarted connector sends.
    """

    tables: frozenset[str]
    statement: str
    at: str = ""

    @property
    def effect(self) -> Effect:
        return effect_of(self.statement)

    @property
    def short(self) -> str:
        """The statement on one line, for a message."""
        text = " ".join(self.statement.split())
        return text if len(text) <= 120 else f"{text[:119]}…"


def effect_of(statement: str) -> Effect:
    """The worst that the statement can have done to rows of its table."""
    text = _COMMENT.sub(" ", statement).strip().rstrip(";")
    alter = _ALTER.match(text)
    if alter is None:
        return _first(_STATEMENTS, text)
    return max((_first(_CLAUSES, clause) for clause in clauses(alter[1])), default=Effect.NONE)


def _first(rules: Iterable[tuple[str, Effect]], text: str) -> Effect:
    return next((effect for pattern, effect in rules if re.match(pattern, text, re.IGNORECASE)), Effect.HIDDEN)


def clauses(text: str) -> Iterator[str]:
    """The parts between commas that stand in no quotes and no parentheses."""
    depth, quote, start = 0, "", 0
    skip = False
    for at, char in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = char == "\\" and quote != "`"
            quote = "" if char == quote else quote
        elif char in _QUOTES:
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def read_ddl(record: Mapping[str, Any]) -> Ddl | None:
    """The statement of a record of the schema-change topic (or of the schema history); None if it is no streamed DDL.

    What a snapshot of the connector writes describes tables and changes none. Raises ValueError for a record of
    another shape.
    """
    body = record.get("payload", record)
    try:
        source, place = body.get("source") or {}, body.get("position") or {}
        if str(source.get("snapshot") or "false") != "false" or place.get("snapshot") or not body.get("ddl"):
            return None
        schema = str(body.get("databaseName") or "")
        named = {f"{schema}.{name}" for name in str(source.get("table") or "").split(",") if name}
        changes = body.get("tableChanges") or []
        ids = [change.get(key) for change in changes for key in ("id", "previousId")]
        return Ddl(
            frozenset(named | {full_name(one) for one in ids if one}), str(body["ddl"]), _at(source | place, body)
        )
    except MALFORMED as error:
        raise ValueError(f"not a schema change: {type(error).__name__} {error}") from None


def _at(place: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    parts = [str(place.get(name)) for name in ("gtid", "server_id", "file", "pos")] + [str(body["ddl"])]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def worst(statements: Iterable[Ddl]) -> Ddl | None:
    """The statement with the worst effect, the latest of several; None if none has any."""
    found = [one for one in statements if one.effect > Effect.NONE]
    return max(reversed(found), key=lambda one: one.effect, default=None)
