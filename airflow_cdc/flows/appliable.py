"""What apply refuses of a table whatever its events are: one list, for doctor, plan, recovery, comparisons and apply (INV 35).

Without it a table was recovered, MATCH and HEALTHY, and the first event after that stopped apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from airflow_cdc.core.capture import CaptureSettings
from airflow_cdc.core.errors import ConfigError, SchemaError
from airflow_cdc.core.table import Table
from airflow_cdc.flows.capture import settings
from airflow_cdc.flows.run import Run

Refused: TypeAlias = SchemaError | ConfigError


@dataclass(frozen=True, slots=True)
class Asked:
    """What the checks look at.

    Attributes:
        capture: the connector's settings.
        mixed: table → why its events can't be distinguished from another's of the pipeline, also of one not asked about.
        table_ids: as the source gives them; see core.ports.SourceDatabase.
        applied: whether we write the tables from events.
        ids_todo: what a person can do so that an absent table's id can be read.
    """

    capture: CaptureSettings
    mixed: Mapping[str, ConfigError]
    table_ids: Mapping[str, str]
    applied: bool = True
    ids_todo: str = ""


def asked_of(run: Run, tables: Sequence[str], table_ids: Mapping[str, str] | None = None) -> Asked:
    """What is asked about these tables now. `table_ids`: if they are known already."""
    capture, applied = settings(run), run.pipeline.is_applied
    needed = applied and not capture.truncates_seen and table_ids is None
    ids = run.clients.source.table_ids(list(tables)) if needed else table_ids or {}
    mixed = capture.mixed(run.pipeline.source.tables) if applied else {}
    return Asked(capture, mixed, ids, applied, run.clients.source.ids_todo if needed else "")


def refusals(asked: Asked, table: Table) -> Iterator[Refused]:
    """Everything that apply raises of this table before it reads an event. The NULLs are flows.null_defaults' matter."""
    for check in _CHECKS:
        try:
            check(asked, table)
        except (SchemaError, ConfigError) as error:
            yield error


def refuse(asked: Asked, table: Table) -> None:
    """Raise the first of them."""
    for error in refusals(asked, table):
        raise error


def _carried_exactly(asked: Asked, table: Table) -> None:
    asked.capture.check_table(table)


def _topic_of_its_own(asked: Asked, table: Table) -> None:
    if (error := asked.mixed.get(table.full_name)) is not None:
        raise error


def _truncates_noticed(asked: Asked, table: Table) -> None:
    """Its connector sends TRUNCATE, or its engine has an id that TRUNCATE changes."""
    if asked.applied and not asked.capture.truncates_seen and table.full_name not in asked.table_ids:
        raise ConfigError(
            "a TRUNCATE of the table would go unnoticed: the connector does not send truncates, and the server shows no"
            " number of the table that a TRUNCATE would change",
            where=f"table {table.full_name}",
            todo=" ".join(filter(None, (asked.capture.truncates_way_out, asked.ids_todo))),
        )


_CHECKS: Final[Sequence[Callable[[Asked, Table], None]]] = (_carried_exactly, _topic_of_its_own, _truncates_noticed)
