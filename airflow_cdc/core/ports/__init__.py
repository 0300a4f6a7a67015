"""What the steps, commands and Spark applications need from a pipeline's systems: one protocol per part of a pipeline.

A client satisfies its port by its methods, without importing it; mypy checks this in tests/unit/core/test_ports.py. A
port holds only what every system must offer. What only some can do is an attribute that is None for the others
(`Source.replication`), or a capability of the kind (core/kind.py).
"""

from airflow_cdc.core.endpoint import Client
from airflow_cdc.core.ports.connector import Connector, OwnTopics, SchemaTexts
from airflow_cdc.core.ports.control import ControlStore, StoredDocument
from airflow_cdc.core.ports.feeder import Feeder, Groups
from airflow_cdc.core.ports.sink import Letters, Sink, Stage, StagedCommit, Staging
from airflow_cdc.core.ports.source import Hold, LogLook, PreparedTransaction, Replication, Source, SourceLoad
from airflow_cdc.core.ports.transport import Producer, TopicRecord, Transport

__all__ = [
    "Client",
    "Connector",
    "ControlStore",
    "Feeder",
    "Groups",
    "Hold",
    "Letters",
    "LogLook",
    "OwnTopics",
    "PreparedTransaction",
    "Producer",
    "Replication",
    "SchemaTexts",
    "Sink",
    "Source",
    "SourceLoad",
    "Stage",
    "StagedCommit",
    "Staging",
    "StoredDocument",
    "TopicRecord",
    "Transport",
]
