"""Whether the connector's events carry the tables' values, as far as a short look at the rows can tell (INV 31)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from airflow_cdc.core.capture import Look
from airflow_cdc.core.errors import SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of

LOOK_SECONDS = 20.0
TABLE_SECONDS = 5.0


def refuse_uncarried(run: Run, tables: Iterable[Table]) -> None:
    """Raise one SchemaError that names every column, of all tables, with a value that events don't carry.

    A table whose scan takes too long is not refused.
    """
    if found := [look for _, looks in look_through(run, tables) for look in looks]:
        raise refusal(found)


def refusal(found: Sequence[Look]) -> SchemaError:
    """One error about all of these columns: each kind of value once, with its columns and what to do."""
    columns: dict[str, list[str]] = {}
    for look in found:
        columns.setdefault(look.what, []).append(look.place)
    return SchemaError(
        "; ".join(f"{what}: {', '.join(places)}" for what, places in columns.items()),
        todo=" ".join(dict.fromkeys(look.todo for look in found)),
    )


def look_through(run: Run, tables: Iterable[Table]) -> Iterator[tuple[str, Sequence[Look]]]:
    """Each table that could be looked through, with the columns and kinds of values in it that events don't carry.

    A table whose scan takes longer than TABLE_SECONDS, or that is left after LOOK_SECONDS, is left out.
    """
    rules, capture, ends = config_rules_of(run.pipeline), settings(run), time.monotonic() + LOOK_SECONDS
    for table in tables:
        looks = list(rules.looks(table, capture))
        seconds = min(ends - time.monotonic(), TABLE_SECONDS)
        if not looks:
            yield table.full_name, ()
        elif seconds > 0 and (is_there := _has_any(run, looks, seconds)) is not None:
            yield table.full_name, _which(run, looks, seconds) if is_there else ()


def _has_any(run: Run, looks: Sequence[Look], seconds: float) -> bool | None:
    """One scan for all kinds."""
    condition = " OR ".join(f"({look.condition})" for look in looks)
    return run.clients.source.has_row(looks[0].table, condition, seconds)


def _which(run: Run, looks: Sequence[Look], seconds: float) -> Sequence[Look]:
    """The looks that find a row; the first one if none does so in time."""
    return [one for one in looks if run.clients.source.has_row(one.table, one.condition, seconds)] or looks[:1]
