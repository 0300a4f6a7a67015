"""How MySQL and MariaDB limit a statement's time, and how InnoDB writes a table's name."""

from __future__ import annotations

from typing import Final

from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion


def time_limit(version: ServerVersion, seconds: float) -> tuple[str, str]:
    """(prefix, hint): what to write before a SELECT, and as a hint in it, to limit its time to `seconds`."""
    if version.can(Capability.TIME_LIMIT_HINT):
        return "", f"/*+ MAX_EXECUTION_TIME({int(seconds * 1000)}) */"
    return f"SET STATEMENT max_statement_time = {seconds:f} FOR ", ""


# InnoDB has a table of letters that it writes as @ and two characters. Letters in these ranges may be in that table;
# the others are written as @ and their code.
_LETTERS: Final = ((0xC0, 0x5FF), (0x1E00, 0x1FFF), (0x2160, 0x217F), (0x24B0, 0x24EF), (0xFF20, 0xFF5F))


def engine_name(table: str) -> str:
    """A regular expression for `schema.table` as InnoDB writes it.

    Every character other than an ASCII letter, a digit or _ is written as @ and its code.
    """
    schema, _, name = table.partition(".")
    return "/".join("".join(map(_engine_char, part)) for part in (schema, name))


def _engine_char(char: str) -> str:
    if char.isascii() and (char.isalnum() or char == "_"):
        return char
    code = f"{ord(char):04x}"
    return f"@({code}|..)" if any(low <= ord(char) <= high for low, high in _LETTERS) else f"@{code}"
