"""What `airflow cdc init` asks about Kafka."""

from __future__ import annotations

import json
from collections.abc import Sequence

from airflow_cdc.core.setup import Answers, Key, NewConnection, Question, Setup


def keys(name: str, _answers: Answers) -> Sequence[Key]:
    """The keys under `transport`."""
    return (Key("conn_id", f"{name}_kafka"),)


def connections(name: str, answers: Answers) -> Sequence[NewConnection]:
    """The brokers' connection."""
    extra = json.dumps({"bootstrap.servers": answers["kafka"]})
    return (NewConnection(f"{name}_kafka", "cdc_kafka", extra=extra),)


SETUP = Setup(
    (Question("kafka", "Kafka's bootstrap servers", "localhost:9092"),),
    keys,
    connections,
    (
        "registry: CONN_ID  # of Avro's schemas, where the connector's own settings do not lead from here to their registry",
    ),
)
