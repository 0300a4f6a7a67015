"""Whether the connector's events carry the tables' values, as far as a short look at the rows can tell (INV 31)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from airflow_cdc.core.capture import CaptureSettings, Look
from airflow_cdc.core.errors import CdcError, SchemaError, SinkError, SourceError
from airflow_cdc.core.table import Table
from airflow_cdc.decisions.compare.chunk import batches
from airflow_cdc.flows.capture import captured, settings
from airflow_cdc.flows.recovery import give_up
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of

LOOK_SECONDS = 20.0
MOST_KEYS = 20_000
KEYS_AT_ONCE = 1_000
TABLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Changed:
    """Whether events carry the rows that an apply is about to write: asks the source about their keys (INV 31).

    A row is looked at as it is now. If it holds such a value only later, the event of that is in a later batch.
    """

    run: Run
    capture: CaptureSettings

    def looks(self, table: Table) -> Sequence[Look]:
        """The kinds of values that events of the table would not carry; () for most tables."""
        return [look for look in config_rules_of(self.run.pipeline).looks(table, self.capture) if not look.noticed]

    def refuse(self, table: Table, keys: Sequence[str]) -> None:
        """Raise SchemaError naming each column in which a row with one of these key texts holds such a value.

        More keys than MOST_KEYS, or a table without a key, are looked for in the whole table, for TABLE_SECONDS.
        """
        looks, source = self.looks(table), self.run.clients.source
        if not looks or not keys:
            return
        few = bool(table.key) and len(keys) <= MOST_KEYS
        parts = [source.keys_condition(table, some) for some in batches(keys, KEYS_AT_ONCE)] if few else ["1 = 1"]
        for part in parts:
            limited = [replace(look, condition=f"({part}) AND ({look.condition})") for look in looks]
            seconds = LOOK_SECONDS if few else TABLE_SECONDS
            if _has_any(self.run, limited, seconds):
                raise refusal(_which(self.run, table, limited, seconds))


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
            yield table.full_name, _which(run, table, looks, seconds) if is_there else ()


@contextmanager
def odd_values_named(run: Run, tables: Sequence[str], task: str) -> Iterator[None]:
    """An error of a read within the block names the rows that can't be read, if there are such, and the ways on.

    They came after the look before the recovery began, or it did not get that far. `task`: what is to be cleared then.
    """
    try:
        yield
    except (SourceError, SinkError) as error:
        raised = _named(run, tables, task)
        if raised is None:
            raise
        raise raised from error


def _named(run: Run, tables: Sequence[str], task: str) -> SchemaError | None:
    try:
        found = [
            look for _, looks in look_through(run, captured(run, tables).values()) for look in looks if look.noticed
        ]
    except CdcError:
        return None  # the error of the read itself is the better one
    if not found:
        return None
    error, bad = refusal(found), dict.fromkeys(look.table for look in found)
    error.todo = (
        f"Change the value, then clear the task {task}: this recovery continues. To continue without the column, set"
        " column.exclude.list on the connector, then clear the task recover and all after it; without the table, run:"
        f" {give_up(run, bad)}"
    )
    return error


def _has_any(run: Run, looks: Sequence[Look], seconds: float) -> bool | None:
    """One scan for all kinds."""
    condition = " OR ".join(f"({look.condition})" for look in looks)
    return run.clients.source.has_row(looks[0].table, condition, seconds)


def _which(run: Run, table: Table, looks: Sequence[Look], seconds: float) -> Sequence[Look]:
    """The looks that find a row, each with the key of one; the first one without if none does so in time."""
    source = run.clients.source
    found = [one for one in looks if source.has_row(one.table, one.condition, seconds)]
    return [replace(one, row=in_words(source.key_of(table, one.condition, seconds))) for one in found] or looks[:1]


def in_words(key: Mapping[str, str | None]) -> str:
    """A key as column=value; "" for none."""
    return ", ".join(f"{column}={value}" for column, value in key.items())
