"""What a compared stage holds, counted for its expectations (decisions/compare/expectations.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_cdc.decisions.compare.expectations import Counted, Expected
from airflow_cdc.spark_apps.compare.scan import Outcome
from airflow_cdc.spark_apps.compare.stage_facts import Asked, count_facts
from airflow_cdc.spark_apps.types import sink_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from airflow_cdc.spark_apps.compare.few import FewRows


def expected_of(outcome: Outcome) -> Expected:
    """What a compared snapshot must hold, from the source's definition and row count."""
    table = outcome.subject.table
    return Expected(
        name=table.full_name,
        snapshot_id=outcome.subject.sink.version,
        columns={column.name: sink_type(column) for column in table.mirrored},
        not_null=tuple(c.name for c in table.mirrored if not c.nullable or c.name in table.key),
        rows=outcome.source_rows,
        tolerance=outcome.tally.unsettled,
        key=table.key,
        key_proven=outcome.equal_by_digests,
    )


@dataclass(frozen=True, slots=True)
class Pinned:
    """A snapshot and what it must hold; `small`: reads its rows into memory if they are few."""

    frame: Callable[[], DataFrame]
    expected: Expected
    small: FewRows | None = None

    @property
    def asked(self) -> Asked:
        """What to count in it."""
        want = self.expected
        return Asked(self.frame, want.not_null, () if want.key_proven else want.key, self.small)


def count(tables: Sequence[Pinned]) -> list[Counted]:
    """The facts of each table beside what they should be."""
    facts = count_facts([one.asked for one in tables])
    return [Counted(one.expected, found) for one, found in zip(tables, facts, strict=True)]


def counted(outcomes: Sequence[Outcome]) -> list[Counted]:
    """Those of compared snapshots."""
    sinks = [(outcome.subject.sink, expected_of(outcome)) for outcome in outcomes]
    return count([Pinned(sink.frame, expected, sink.small) for sink, expected in sinks])
