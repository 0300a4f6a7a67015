"""The problems of a sink that a JDBC sink connector fills."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_cdc.core.observation import SchemaFacts
from airflow_cdc.core.problem import WARNING, AnyCase, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis.evidence import evidence, transport_of
from airflow_cdc.decisions.diagnosis.feeder_rows import FEEDER_ROWS, STATUS, feeder_of
from airflow_cdc.sinks.jdbc.config import SinkConfig


def misconfigured(case: AnyCase) -> Evidence | None:
    """Settings with which rows that differ can't be put right through the topics."""
    faults = dict(_faults(case))
    return evidence(case, STATUS, faults) if faults else None


def _faults(case: AnyCase) -> Iterator[tuple[str, str]]:
    facts = feeder_of(case)
    if facts is None:
        return
    config = SinkConfig(facts.settings, case.seen.pipeline.sink.read_as, case.seen.pipeline.sink.namespace)
    yield from config.faults()
    transport, schema = transport_of(case.seen), case.seen.schema
    topics = transport.of_table if transport else {}
    for name, table in (schema.definitions if isinstance(schema, SchemaFacts) else {}).items():
        if name in topics:
            yield from config.table_faults(table, topics[name])


def cannot_be_corrected(case: AnyCase) -> str:
    """Why a recovery of such a pipeline would not put the sink right; "" if it would."""
    faults = [f"{name} is {what}" for name, what in _faults(case)]
    return f"the sink connector cannot apply corrections: {'; '.join(faults)}" if faults else ""


_MISCONFIGURED: Final = Problem(
    "SINK_MISCONFIGURED",
    79,
    "The sink connector is set so that rows of the sink stay wrong and cannot be put right.",
    misconfigured,
    WARNING,
)
_READ_ROWS: Final = ("full_snapshot", "diff_repair")
RULES: Final = Rules((*FEEDER_ROWS, _MISCONFIGURED), blockers=dict.fromkeys(_READ_ROWS, (cannot_be_corrected,)))
