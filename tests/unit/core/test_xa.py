"""Whether an XA transaction may have been rolled back between two looks at a server (INV 32)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import pytest

from airflow_cdc.connectors.debezium.connector import DebeziumConnector
from airflow_cdc.control.control import Control
from airflow_cdc.core.codec import plain, read
from airflow_cdc.core.errors import MissingPrivilegeError
from airflow_cdc.core.xa import XaState, rollback_doubt
from airflow_cdc.flows.run import Run
from airflow_cdc.parts import Parts
from airflow_cdc.sinks.iceberg.client import Lake
from airflow_cdc.sources.mysql.client import MySqlSource
from airflow_cdc.sources.mysql.server_log import XaTransaction
from airflow_cdc.spark_apps.stages.waiting import xa_settled
from airflow_cdc.transports.kafka.client import KafkaTransport
from tests.unit.builders import OTHER, PIPELINE, UUID

UNUSED = XaState(UUID, 1000.0, 0, 0)
USED = XaState(UUID, 1000.0, 5, 1)


@pytest.mark.parametrize(
    ("before", "now", "doubt"),
    [
        (USED, USED, ""),
        (USED, replace(USED, prepares=9), ""),  # committed
        (USED, replace(USED, prepares=9, rollbacks=2), "1 XA ROLLBACK"),
        (UNUSED, replace(UNUSED, rollbacks=3), ""),  # nothing was ever prepared, so nothing was sent
        (replace(USED, open=("0x01",)), USED, "were open then: 0x01"),
        (USED, replace(USED, open=("0x01",)), ""),  # of it the next look tells
        (USED, replace(UNUSED, started_at=5000.0), "restarted or replaced"),
        (UNUSED, replace(USED, started_at=5000.0), "restarted or replaced"),
        (UNUSED, replace(UNUSED, started_at=5000.0), ""),
        (USED, replace(USED, server_uuid=OTHER), "restarted or replaced"),
        (USED, replace(USED, started_at=1001.0), ""),  # an uptime is of whole seconds
        (None, USED, ""),
        (USED, None, ""),
    ],
)
def test_inv_32_a_rollback_that_may_have_been(before: XaState | None, now: XaState | None, doubt: str) -> None:
    said = rollback_doubt(before, now)
    assert doubt in said
    assert bool(said) is bool(doubt)


def test_inv_32_a_table_without_an_event_since_is_not_marked_but_by_what_was_open_then() -> None:
    assert rollback_doubt(USED, replace(USED, prepares=9, rollbacks=2), events=False) == ""
    assert rollback_doubt(USED, replace(UNUSED, started_at=5000.0), events=False) == ""
    assert "0x01" in rollback_doubt(replace(USED, open=("0x01",)), USED, events=False)


@pytest.mark.parametrize(
    ("answer", "settled"),
    [
        ([], True),
        ([XaTransaction(1, 1, 0, "0x01")], False),
        (MissingPrivilegeError("denied", privilege="XA_RECOVER_ADMIN"), True),  # it cannot be known
    ],
)
def test_inv_32_a_dead_letter_is_not_read_again_while_one_is_open(answer: Any, settled: bool) -> None:
    clients: Any = Parts(
        *(
            create_autospec(kind, instance=True)
            for kind in (MySqlSource, DebeziumConnector, KafkaTransport, Lake, Control)
        )
    )
    clients.source.xa_pending.side_effect = [answer]
    assert xa_settled(Run(PIPELINE, clients, "r", "/reports")) is settled


def test_it_makes_the_round_trip() -> None:
    state = replace(USED, open=("0x01", "0x02"))
    assert read(XaState, plain(state)) == state


@pytest.mark.parametrize(
    ("transaction", "name"),
    [
        (XaTransaction(1, 2, 0, "0x7733"), "'w3'"),
        (XaTransaction(1, 2, 1, "0x773362"), "'w3','b'"),
        (XaTransaction(5, 2, 0, "0x7733"), "'w3','',5"),
        (XaTransaction(1, 2, 0, "0x00FF"), "X'00ff'"),
        (XaTransaction(1, 2, 0, "'w3'"), "'w3'"),
        (XaTransaction(0, 0, 0, "connection 7 in XA PREPARE"), "connection 7 in XA PREPARE"),
    ],
)
def test_a_transaction_is_named_as_its_user_wrote_it(transaction: XaTransaction, name: str) -> None:
    assert transaction.name == name
