"""The dead letters of a pipeline, kept in OpenSearch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_cdc.core.dead_letter import DeadLetter, headers_in
from airflow_cdc.sinks.opensearch import dead_letters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_cdc.sinks.opensearch.client import SearchSink


class OpenSearchLetters:
    """The letters of one pipeline, as ports.DeadLetters."""

    def __init__(self, sink: SearchSink, pipeline: str) -> None:
        self._session = sink.session
        self._pipeline = pipeline

    def record(self, bad: DataFrame) -> None:
        """See ports.DeadLetters. The driver holds them all: a batch with many is refused before."""
        now = datetime.now(UTC)
        dead_letters.record(self._session, self._pipeline, (_letter(row.asDict(), now) for row in bad.collect()))

    def unresolved(self, table: str | None = None) -> tuple[DeadLetter, ...]:
        """See ports.DeadLetters."""
        return dead_letters.unresolved(self._session, self._pipeline, table)

    def resolve(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """See ports.DeadLetters."""
        del spark
        dead_letters.resolve(self._session, self._pipeline, some)

    def count_attempt(self, spark: SparkSession, some: Sequence[DeadLetter]) -> None:
        """See ports.DeadLetters."""
        del spark
        dead_letters.count_attempt(self._session, self._pipeline, some)


def _letter(row: dict[str, object], now: datetime) -> DeadLetter:
    key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))  # type: ignore[call-overload]
    headers = headers_in(row["headers"])  # type: ignore[arg-type]
    return DeadLetter(
        **{**row, "key": key, "value": value, "headers": headers, "attempts": 1, "first_seen": now}  # type: ignore[arg-type]
    )
