"""Whether tables can be recovered: all that forbids it, said at once and before anything is stopped; how their events are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from airflow_cdc.core.check import Check
from airflow_cdc.core.errors import CdcError, ConfigError, SchemaError
from airflow_cdc.flows.appliable import asked_of, refusals
from airflow_cdc.flows.capture import captured
from airflow_cdc.flows.carried import look_through, refusal
from airflow_cdc.flows.null_defaults import null_refusals
from airflow_cdc.flows.recovery import tables_of
from airflow_cdc.flows.run import Run
from airflow_cdc.kinds import config_rules_of

T = TypeVar("T")

# more tables than this make no command that anyone types
MOST_NAMED: Final = 8


@dataclass(slots=True)
class Refusals:
    """What forbids to recover tables, in the order in which it was found; `tables`: those that it is about ([]: all)."""

    found: list[tuple[SchemaError | ConfigError, list[str]]] = field(default_factory=list)

    def add(self, error: SchemaError | ConfigError, table: str = "") -> None:
        """One fault of several tables, such as a setting, is said once."""
        for known, tables in self.found:
            if (known.what, known.where, known.todo) == (error.what, error.where, error.todo):
                tables.extend([table] if table else [])
                return
        self.found.append((error, [table] if table else []))

    def trying(self, check: Callable[[], T]) -> T | None:
        """The result of a check of all tables; None if it refuses."""
        try:
            return check()
        except (SchemaError, ConfigError) as error:
            self.add(error)
            return None

    def end(self, run: Run, tables: Sequence[str]) -> None:
        """Raise all of it as one error. If only some tables can't be recovered, it says how the others can."""
        if not self.found:
            return
        errors = [error for error, _ in self.found]
        bad = {table for _, about in self.found for table in about}
        others = [table for table in tables if table not in bad] if all(about for _, about in self.found) else []
        rest = _without(run.pipeline.name, sorted(bad), others) if others else ""
        if len(errors) == 1:
            errors[0].todo = " ".join(filter(None, (errors[0].todo, rest)))
            raise errors[0]
        kind = SchemaError if all(isinstance(error, SchemaError) for error in errors) else ConfigError
        whats = (f"({n}) {_placed(error)}" for n, error in enumerate(errors, 1))
        advice: dict[str, list[str]] = {}  # what helps against several faults is said once
        for number, error in enumerate(errors, 1):
            advice.setdefault(error.todo, []).append(str(number))
        todos = (f"({', '.join(numbers)}) {todo}" for todo, numbers in advice.items())
        raise kind(
            f"{len(errors)} things forbid to read these tables: {'; '.join(whats)}",
            where=run.where,
            todo=" ".join(filter(None, (*todos, rest))),
        )


def _placed(error: CdcError) -> str:
    return f"{error.what.rstrip('.')} ({error.where})" if error.where else error.what.rstrip(".")


def _without(pipeline: str, bad: Sequence[str], others: Sequence[str]) -> str:
    """How the other tables can be recovered now."""
    leave = f"remove {', '.join(bad)} from source.tables in pipelines.yaml"
    if len(others) > MOST_NAMED:
        return f"To continue with the other {len(others)} tables now, {leave}."
    return f"To continue with the others now, run: airflow cdc recover {pipeline} {tables_of(others)}"


def look_at_events(run: Run, tables: Sequence[str] = ()) -> Sequence[Check]:
    """What was seen, one line for each way in which topics are written. Raises ConfigError, TransportError."""
    config = run.clients.connector.raw_config(run.pipeline.connector.name)
    names = list(tables or run.pipeline.source.tables)
    return config_rules_of(run.pipeline).written(config, run.pipeline.name, names, run.clients.transport.newest)


def refuse_unreadable(run: Run, tables: Sequence[str] = ()) -> Sequence[str]:
    """Raise one ConfigError for all topics that can't be read as they are written (INV 41); returns what is not known."""
    seen = look_at_events(run, tables)
    if bad := [one for one in seen if one.state == "bad"]:
        raise ConfigError(
            "events cannot be read: " + "; ".join(one.found for one in bad), where=run.where, todo=bad[0].todo
        )
    return [one.found for one in seen if one.state == "unknown"]


def refuse_unrecoverable(run: Run, tables: Sequence[str]) -> Sequence[str]:
    """Raise one SchemaError or ConfigError with everything that forbids to read these tables (INV 21, 31, 35, 41).

    It was one fault a run before: a column when planned, a date when opened, a character set after minutes of comparing.
    Returns what is not known.
    """
    found, definitions = Refusals(), captured(run, tables)
    asked = asked_of(run, list(definitions))
    for name, table in definitions.items():
        for error in refusals(asked, table):
            found.add(error, name)
    for name, looks in look_through(run, definitions.values()):
        if looks:
            found.add(refusal(looks), name)
    for name, nulls in null_refusals(run, definitions):
        found.add(nulls, name)
    unknown = found.trying(lambda: refuse_unreadable(run, tables))
    found.end(run, tables)
    return unknown or ()
