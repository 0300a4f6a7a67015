"""The problems that a diagnosis can find in Kafka's topics."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_cdc.core.observation import SchemaFacts, TransportFacts
from airflow_cdc.core.problem import AnyCase, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis.evidence import evidence, transport_of
from airflow_cdc.decisions.diagnosis.topic_rows import TOPIC_ROWS
from airflow_cdc.transports.kafka.error_texts import TEXTS


def compacted_keyless(case: AnyCase) -> Evidence | None:
    """A table without a key has a compacted topic: the broker rejects its events, and the connector's task dies."""
    transport = transport_of(case.seen)
    if transport is None:
        return None
    wrong = dict(_compacted_keyless(case, transport))
    return evidence(case, "topic settings", wrong) if wrong else None


def _compacted_keyless(case: AnyCase, transport: TransportFacts) -> Iterator[tuple[str, str]]:
    definitions = case.seen.schema.definitions if isinstance(case.seen.schema, SchemaFacts) else {}
    for table, topic in transport.of_table.items():
        policy = transport.configs.get(topic, {}).get("cleanup.policy", "")
        if "compact" in policy and table in definitions and definitions[table].keyless:
            yield topic, f"cleanup.policy={policy}, but {table} has no key: its events are rejected"


PROBLEMS = (
    Problem("TRANSPORT_MISCONFIGURED", 51, "A topic rejects the events of a table.", compacted_keyless),
    *TOPIC_ROWS,
)
RULES = Rules(PROBLEMS, texts=TEXTS)
