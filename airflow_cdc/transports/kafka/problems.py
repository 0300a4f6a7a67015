"""The problems that a diagnosis can find in Kafka's topics, and the error messages of its brokers and clients, as a connector reports them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_cdc.core.error_texts import CUT, KnownText
from airflow_cdc.core.observation import SchemaFacts, TransportFacts
from airflow_cdc.core.problem import AnyCase, Evidence, Problem, Rules
from airflow_cdc.decisions.diagnosis.evidence import evidence, transport_of
from airflow_cdc.decisions.diagnosis.topic_rows import TOPIC_ROWS

_OWN_CLIENTS: Final = (
    "a client lacks the brokers' security settings: the schema history's clients have their own"
    " (schema.history.internal.producer.* and .consumer.*), and a restart does not help"
)
TEXTS: Final[tuple[KnownText, ...]] = (
    # before what its cause says: a database or a broker that a sink's task names is none of the source's
    KnownText(
        "SINK_CONNECTOR_FAILED",
        1,
        r"Exiting WorkerSinkTask due to unrecoverable exception|WorkerSinkTask\{id=\S+\} Task threw an uncaught|"
        r"Task threw an uncaught[^\n]{0,200}\(org\.apache\.kafka\.connect\.runtime\.WorkerSinkTask",
        "a sink connector's task ended: its cause says which record it can't write, or which server refuses it. The topics keep"
        " what it did not write for as long as their retention",
    ),
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        130,
        r"One or more records have been rejected|Compacted topic cannot accept message without key",
        "a table without a key writes into a compacted topic, which refuses messages without a key",
        says="Compacted topic cannot accept message without key",
    ),
    KnownText(
        "TRANSPORT_GAP",
        133,
        r"OffsetOutOfRangeException|Offsets? out of range with no configured reset policy|is out of range for partition",
        "the topic no longer holds the offset that a reader was to continue at: retention removed events, or it was recreated",
    ),
    KnownText(
        "TRANSPORT_MISCONFIGURED",
        134,
        r"Topic \S+ not present in metadata after|UNKNOWN_TOPIC_OR_PARTITION|UnknownTopicOrPartitionException|"
        r"does not host this topic-partition",
        "the topic does not exist and nobody may create it (auto.create.topics.enable, topic.creation.*)",
        otherwise=(("CONNECTOR_FAILED_TRANSIENT", CUT),),
        ask="kafka-topics --bootstrap-server … --describe --topic TOPIC",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        135,
        r"TopicAuthorizationException|GroupAuthorizationException|ClusterAuthorizationException|"
        r"TransactionalIdAuthorizationException|Not authorized to access",
        "the brokers' ACLs refuse the connector's user: the message names the topic, group or cluster",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        161,
        r"Failed to construct kafka|No resolvable bootstrap urls|Failed to (connect to and )?describe Kafka cluster|"
        r"InvalidReplicationFactorException|PolicyViolationException|larger than available brokers",
        "the brokers' address, security settings or number of brokers cannot work",
    ),
    KnownText(
        "CONNECTOR_FAILED",
        176,
        r"RecordTooLargeException|message is \d+ bytes when serialized which is larger than",
        "one record is larger than the producer or the topic allows: raise max.request.size (producer.override.…) and the"
        " topic's max.message.bytes; a restart does not help",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        189,
        r"Timeout expired while fetching topic metadata|Timed out waiting for a node assignment",
        CUT,
        otherwise=(
            (
                "CONNECTOR_FAILED",
                _OWN_CLIENTS,
            ),
        ),
        ask="kafka-topics --bootstrap-server … --list, from the worker (do the brokers answer? then it is the settings)",
    ),
    KnownText(
        "CONNECTOR_FAILED_TRANSIENT",
        192,
        r"TimeoutException|NotLeaderOrFollowerException|NotLeaderForPartitionException|NetworkException|DisconnectException|"
        r"NotEnoughReplicasException|ProducerFencedException|InvalidProducerEpochException|CoordinatorNotAvailableException|"
        r"timed out while waiting for producer to flush",
        CUT,
    ),
)


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
