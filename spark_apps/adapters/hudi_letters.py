"""The dead letters of a pipeline with a Hudi sink, kept in files beside its tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_cdc.core.dead_letter import DeadLetter, headers_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.sinks.hudi.client import HudiSink


class HudiLetters:
    """The letters of one pipeline, as ports.DeadLetters."""

    def __init__(self, sink: HudiSink, pipeline: str) -> None:
        self._letters = sink.letter_files
        self._pipeline = pipeline

    def record(self, bad: DataFrame) -> None:
        """See ports.DeadLetters. The driver holds them all: a batch with many is refused before."""
        now = datetime.now(UTC)
        self._letters.record(self._pipeline, (_letter(row.asDict(), now) for row in bad.collect()))

    def unresolved(self, table: str | None = None) -> tuple[DeadLetter, ...]:
        """See ports.DeadLetters."""
        return self._letters.unresolved(self._pipeline, table)

    def resolve(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """See ports.DeadLetters."""
        del spark
        self._letters.resolve(self._pipeline, some)

    def count_attempt(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """See ports.DeadLetters."""
        del spark
        self._letters.count_attempt(self._pipeline, some)


def _letter(row: dict[str, object], now: datetime) -> DeadLetter:
    key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))  # type: ignore[call-overload]
    headers = headers_in(row["headers"])  # type: ignore[arg-type]
    return DeadLetter(
        **{**row, "key": key, "value": value, "headers": headers, "attempts": 1, "first_seen": now}  # type: ignore[arg-type]
    )
