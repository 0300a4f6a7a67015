"""How a statement's time is limited on MySQL and MariaDB; how InnoDB writes a table's name, and numbers it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from airflow_cdc.decisions.table_id import table_id
from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion

if TYPE_CHECKING:
    from airflow_cdc.sources.mysql.session import Session


def time_limit(version: ServerVersion, seconds: float) -> tuple[str, str]:
    """(prefix of a SELECT, hint inside it) that limit its time; one of them is ""."""
    if version.can(Capability.TIME_LIMIT_HINT):
        return "", f"/*+ MAX_EXECUTION_TIME({int(seconds * 1000)}) */"
    return f"SET STATEMENT max_statement_time = {seconds:f} FOR ", ""


# InnoDB has its own table of some letters: one in it is @ and two characters, any other is @ and its code.
_LETTERS: Final = ((0xC0, 0x5FF), (0x1E00, 0x1FFF), (0x2160, 0x217F), (0x24B0, 0x24EF), (0xFF20, 0xFF5F))


def engine_name(table: str) -> str:
    """A regular expression for `schema.table` as InnoDB writes it: all but letters, digits and _ as @ and a code."""
    schema, _, name = table.partition(".")
    return "/".join("".join(map(_engine_char, part)) for part in (schema, name))


def _engine_char(char: str) -> str:
    if char.isascii() and (char.isalnum() or char == "_"):
        return char
    code = f"{ord(char):04x}"
    return f"@({code}|..)" if any(low <= ord(char) <= high for low, high in _LETTERS) else f"@{code}"


def read_table_ids(session: Session, tables: Iterable[str], innodb_tables: str) -> dict[str, str]:
    """See BinlogSource.table_ids. `innodb_tables`: the information_schema table that holds the ids."""
    names = {engine_name(table): table for table in tables}
    doubtful = [name for name in names if "(" in name]
    exact = [name for name in names if "(" not in name]
    plain = "SUBSTRING_INDEX(NAME, '#', 1)"
    sql = (
        f"SELECT {plain} AS plain, TABLE_ID AS id FROM information_schema.{innodb_tables}"
        f" WHERE {plain} IN ({', '.join(['%s'] * len(exact)) or 'NULL'}) OR {plain} REGEXP %s"
    )
    by_table: dict[str, list[int]] = {}
    pattern = f"^({'|'.join(doubtful) or '#'})$"
    for row in session.rows(sql, (*exact, pattern), doing="read InnoDB's numbers of the tables"):
        # the server's collation ignores case
        for name in [name for name in doubtful if re.fullmatch(name, row.text("plain"))] or [row.text("plain")]:
            if name in names:
                by_table.setdefault(names[name], []).append(row.number("id"))
    return {table: table_id(ids) for table, ids in by_table.items()}
