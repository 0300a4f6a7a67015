"""How a statement's time is limited on MySQL and MariaDB, and how InnoDB writes a table's name."""

from __future__ import annotations

from typing import Final

from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion


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
