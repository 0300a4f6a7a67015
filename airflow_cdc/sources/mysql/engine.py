"""How a server of either make is told to limit a statement's time, and what InnoDB calls a table."""

from __future__ import annotations

from typing import Final

from airflow_cdc.sources.mysql.capabilities import Capability, ServerVersion


def time_limit(version: ServerVersion, seconds: float) -> tuple[str, str]:
    """What limits a SELECT's time, before the statement and as a hint in it."""
    if version.can(Capability.TIME_LIMIT_HINT):
        return "", f"/*+ MAX_EXECUTION_TIME({int(seconds * 1000)}) */"
    return f"SET STATEMENT max_statement_time = {seconds:f} FOR ", ""


# Letters that InnoDB writes as @ and two characters of a table of its own, if they are in it, and else by their code.
_LETTERS: Final = ((0xC0, 0x5FF), (0x1E00, 0x1FFF), (0x2160, 0x217F), (0x24B0, 0x24EF), (0xFF20, 0xFF5F))


def engine_name(table: str) -> str:
    """A regular expression for `schema.table` as InnoDB writes it: what is not a letter, digit or _ as @ and its code."""
    schema, _, name = table.partition(".")
    return "/".join("".join(map(_engine_char, part)) for part in (schema, name))


def _engine_char(char: str) -> str:
    if char.isascii() and (char.isalnum() or char == "_"):
        return char
    code = f"{ord(char):04x}"
    return f"@({code}|..)" if any(low <= ord(char) <= high for low, high in _LETTERS) else f"@{code}"
