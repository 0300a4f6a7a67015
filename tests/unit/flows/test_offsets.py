"""Writing an offset: validated, written, read back and compared, and put back as it was on any difference."""

from __future__ import annotations

from typing import Any
from unittest.mock import call

import pytest

from airflow_cdc.connectors.debezium.connector import ConnectOffsetStore, DebeziumConnector
from airflow_cdc.connectors.debezium.offsets.mysql import MySqlCodec
from airflow_cdc.control.control import Control
from airflow_cdc.core.errors import OffsetRejectedError
from airflow_cdc.flows import offsets as stored_offset
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.unit.builders import GTID_OFFSET, PIPELINE
from tests.unit.clocks import waiting
from tests.unit.stand_ins import stand_in

PARTITION = {"server": "shop"}
LATER = {**GTID_OFFSET, "pos": 600}


@pytest.fixture
def run() -> Run:
    kinds = (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)
    made: Any = Parts(*(stand_in(kind) for kind in kinds))
    made.connector.codec = MySqlCodec()
    made.connector.offset_store.side_effect = lambda name, key: ConnectOffsetStore(made.connector, name, key)
    return Run(PIPELINE, made, "r", "/reports")


def written(run: Run) -> list[Any]:
    """What was written to Connect, in order."""
    connector: Any = run.clients.connector
    return [one.args[2] for one in connector.alter_offsets.call_args_list]


def answers(run: Run, *found: dict[str, Any] | None) -> Any:
    connector: Any = run.clients.connector
    connector.committed_offset.side_effect = found
    return connector


def test_what_is_read_back_as_written_stays(run: Run) -> None:
    connector = answers(run, LATER)
    stored_offset.write(run, PARTITION, GTID_OFFSET, LATER)
    assert connector.alter_offsets.call_args_list == [call("shop", PARTITION, LATER)]


def test_another_value_is_a_difference_at_once_and_the_old_one_is_put_back(run: Run) -> None:
    connector = answers(run, {**LATER, "pos": 601})
    with pytest.raises(OffsetRejectedError, match=r"'pos': 601.*; the old offset was restored") as refused:
        stored_offset.write(run, PARTITION, GTID_OFFSET, LATER)
    assert refused.value.reasons == ("read back differs",)
    assert written(run) == [LATER, GTID_OFFSET]
    assert connector.committed_offset.call_count == 1


def test_a_partition_that_connect_does_not_list_yet_is_asked_for_again(run: Run) -> None:
    """After a DELETE Connect 4.3.1 answered none some milliseconds after the PATCH; the recovery could not end."""
    answers(run, None, None, LATER)
    stored_offset.write(run, PARTITION, None, LATER)
    assert written(run) == [LATER]


def test_an_offset_that_never_shows_is_taken_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch, stored_offset)
    connector: Any = run.clients.connector
    connector.committed_offset.return_value = None
    with pytest.raises(OffsetRejectedError, match="found None; the old offset was restored"):
        stored_offset.write(run, PARTITION, None, LATER)
    assert written(run) == [LATER, None]


def test_what_is_no_offset_is_never_written(run: Run) -> None:
    with pytest.raises(OffsetRejectedError, match="file is missing"):
        stored_offset.write(run, PARTITION, GTID_OFFSET, {"pos": 4})
    assert written(run) == []


class Node:
    """Another place than Connect for an offset: one value, which `changed_to` overwrites right after a write."""

    def __init__(self, value: Any, changed_to: Any = None) -> None:
        self.value = value
        self.changed_to = changed_to
        self.writes: list[Any] = []

    def read(self) -> Any:
        return self.value

    def write(self, raw: Any) -> None:
        self.writes.append(raw)
        self.value = self.changed_to or raw


def test_the_transaction_is_the_same_over_any_store() -> None:
    node = Node(GTID_OFFSET)
    stored_offset.replace_offset(node, MySqlCodec(), GTID_OFFSET, LATER, where="here")
    assert (node.value, node.writes) == (LATER, [LATER])
    other = Node(GTID_OFFSET, changed_to={**LATER, "pos": 601})
    with pytest.raises(OffsetRejectedError, match="the old offset was restored"):
        stored_offset.replace_offset(other, MySqlCodec(), GTID_OFFSET, LATER, where="here")
    assert other.writes == [LATER, GTID_OFFSET]
    with pytest.raises(OffsetRejectedError, match="not valid: pos is missing"):
        stored_offset.replace_offset(node, MySqlCodec(), LATER, {"file": "b.000001"}, where="here")
    assert node.writes == [LATER]
